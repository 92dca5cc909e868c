#!/usr/bin/env bash
# See usage() below, or: scripts/prepare/wmt17_zh-en.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
    cat <<'HELP'
scripts/prepare/wmt17_zh-en.sh: WMT 2017 Chinese-English, ready for fairseq-train.

  scripts/prepare/wmt17_zh-en.sh [options]

Some 24 million pairs before cleaning, by the paper; newsdev2017 to validate, newstest2017 to test.
The archives are some 5 GB; have 60 GB of disk. Both are estimates: it has not been prepared by us.
HELP
}

# shellcheck source=scripts/lib/prepare.sh
source "$ROOT/scripts/lib/prepare.sh"
help_if_asked "$@"
prepare wmt17.zh-en wmt17.zh-en "$@"
