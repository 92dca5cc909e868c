#!/usr/bin/env bash
# See usage() below, or: scripts/prepare/iwslt14_de-en.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
    cat <<'HELP'
scripts/prepare/iwslt14_de-en.sh: IWSLT 2014 German-English, ready for fairseq-train.

  scripts/prepare/iwslt14_de-en.sh [fairseq | hysan | mma] [options]

  fairseq  6,750 test sentences, lower-cased, 10,000 merges, as in fairseq's script (default)
  hysan    test set of HySAN, cased, 32,000 word pieces
  mma      test set of MMA, lower-cased, 10,000 merges; needs tst2013, which is not in the
           archive: the script says which file to put where

The archive (20 MB) is downloaded from fairseq's file server.
HELP
}

# shellcheck source=scripts/lib/prepare.sh
source "$ROOT/scripts/lib/prepare.sh"
help_if_asked "$@"
variant fairseq fairseq hysan mma -- "$@"
prepare "iwslt14.de-en.$VARIANT" "iwslt14.de-en.$VARIANT" "${ARGUMENTS[@]}"
