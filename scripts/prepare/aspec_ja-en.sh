#!/usr/bin/env bash
# See usage() below, or: scripts/prepare/aspec_ja-en.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
    cat <<'HELP'
scripts/prepare/aspec_ja-en.sh: ASPEC (WAT 2017) Japanese-English, ready for fairseq-train.

  scripts/prepare/aspec_ja-en.sh [hybrid_gate | mma | mma_en-ja] [options]

  hybrid_gate  Japanese to English, words, BPE of 32,000 merges (default)
  mma          Japanese to English, 16,000 sentencepieces per side
  mma_en-ja    English to Japanese, otherwise the same

ASPEC is licensed: put your copy into DOWNLOADS. Without it, the script says where to get it
and where to put which files.
HELP
}

# shellcheck source=scripts/lib/prepare.sh
source "$ROOT/scripts/lib/prepare.sh"
help_if_asked "$@"
variant hybrid_gate hybrid_gate mma mma_en-ja -- "$@"
case $VARIANT in
    mma_en-ja) recipe=wat17.en-ja.mma ;;
    *) recipe=wat17.ja-en.$VARIANT ;;
esac
prepare "$recipe" "$recipe" "${ARGUMENTS[@]}"
