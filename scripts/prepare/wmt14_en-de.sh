#!/usr/bin/env bash
# See usage() below, or: scripts/prepare/wmt14_en-de.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
    cat <<'HELP'
scripts/prepare/wmt14_en-de.sh: WMT 2014 English-German, ready for fairseq-train.

  scripts/prepare/wmt14_en-de.sh [hysan | hybrid_gate] [options]

  hysan        32,000 word pieces (default)
  hybrid_gate  BPE of 32,000 merges

About 4.5 million pairs; newstest2013 for validation, newstest2014 (3,003 sentences) for test. The
archives (at least 1.7 GB) are downloaded from statmt.org.
HELP
}

# shellcheck source=scripts/lib/prepare.sh
source "$ROOT/scripts/lib/prepare.sh"
help_if_asked "$@"
variant hysan hysan hybrid_gate -- "$@"
prepare "wmt14.en-de.$VARIANT" "wmt14.en-de.$VARIANT" "${ARGUMENTS[@]}"
