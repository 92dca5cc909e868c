#!/usr/bin/env bash
# See usage() below, or: scripts/prepare/multi30k.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
    cat <<'HELP'
scripts/prepare/multi30k.sh: Multi30k English-German, ready for fairseq-train.

  scripts/prepare/multi30k.sh [en-de | de-en | en-de.cased | de-en.cased] [options]

  en-de, de-en              lower-cased and tokenised by its authors, 10,000 merges: the text of
                            Transformer-Tiny's 41.02 (default: en-de)
  en-de.cased, de-en.cased  the untouched text, Moses words, 10,000 merges

29,000 pairs for training, 1,014 for validation, and three test sets with 2,461 in all. The text
(6 MB; untouched: 1.5 MB) is downloaded from github.com/multi30k/dataset.
HELP
}

# shellcheck source=scripts/lib/prepare.sh
source "$ROOT/scripts/lib/prepare.sh"
help_if_asked "$@"
variant en-de en-de de-en en-de.cased de-en.cased -- "$@"
prepare "multi30k.$VARIANT" "multi30k.$VARIANT" "${ARGUMENTS[@]}"
