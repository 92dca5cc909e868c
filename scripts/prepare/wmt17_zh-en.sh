#!/usr/bin/env bash
# See usage() below, or: scripts/prepare/wmt17_zh-en.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
    cat <<'HELP'
scripts/prepare/wmt17_zh-en.sh: WMT 2017 Chinese-English, ready for fairseq-train.

  scripts/prepare/wmt17_zh-en.sh [options]

25.1 million pairs before cleaning (the paper has 24 million); newsdev2017 for validation,
newstest2017 for test. The archives are about 5 GB and need 60 GB of disk. Both are estimates:
we have not prepared this corpus.
HELP
}

# shellcheck source=scripts/lib/prepare.sh
source "$ROOT/scripts/lib/prepare.sh"
help_if_asked "$@"
prepare wmt17.zh-en wmt17.zh-en "$@"
