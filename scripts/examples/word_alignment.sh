#!/usr/bin/env bash
# See usage() below, or: scripts/examples/word_alignment.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
    cat <<'HELP'
scripts/examples/word_alignment.sh: train the alignment paper's systems on your text and score them
on hand-aligned sentences, from the files to the printed tables.

  scripts/examples/word_alignment.sh FOLDER --languages de en --text PREFIX [--text PREFIX ...] \
      --gold PREFIX --links FILE --base 0|1 --first LANGUAGE [--lowercase] [--sure-alone] \
      [--fewest-links N] [-- OPTIONS]

FOLDER      folder for the combined text; results go to FOLDER/reproduction
--text      PREFIX.de and PREFIX.en (or .gz): one sentence per line, not tokenised
--gold      PREFIX.de and PREFIX.en: the hand-aligned sentences, in words
--links     their links, as "fairseq-hybrid aer" reads them; --base: the number of the first word
--first     the language whose words come first in links
--lowercase lower-case the text; for lower-cased hand-aligned sentences
--sure-alone, --fewest-links N
            leave out hand-aligned sentences with possible links, or with fewer than N links
OPTIONS     of "fairseq-hybrid reproduce", such as --seeds 3, and rows or tables. Default table:
            evidence/alignment (minutes for each system on a core). Those of the paper need a
            --profile: -- alignment/table3 alignment/table6 --profile small

Hand-aligned sentences are removed from the text. If interrupted, the script resumes when run
again with the same arguments.

The environment variable PYTHON selects Python 3.11 or 3.12 for the virtual environment.
HELP
}

LOGS=$ROOT/build/logs
# shellcheck source=scripts/lib/common.sh
source "$ROOT/scripts/lib/common.sh"

for argument in "$@"; do
    if [[ $argument == -h || $argument == --help ]]; then
        usage
        exit 0
    fi
done
[[ ${1:--} != -* ]] || die "name a folder to work in; see $0 --help"
folder=$1
shift
text=()
while (($# > 0)) && [[ $1 != -- ]]; do
    text+=("$1")
    shift
done
(($# == 0)) || shift
languages=()
for ((i = 0; i + 2 < ${#text[@]}; i++)); do
    [[ ${text[i]} != --languages ]] || languages=("${text[@]:i+1:2}")
done
((${#languages[@]} == 2)) || die "give --languages, source and target; see $0 --help"

table=(evidence/alignment)
for argument in "$@"; do
    [[ ! -f $ROOT/configs/$argument.yaml ]] || table=()
    [[ $argument != alignment/* || $* == *--profile* ]] ||
        die "$argument: name a --profile; full is the paper's scale, days on a CPU"
done

mkdir -p "$LOGS"
begin "Virtual environment"
make_environment
add_aligner
finish

unset PYTHONPATH PYTHONHOME
begin "Text"
"$VENV/bin/python" "$ROOT/scripts/examples/aligned_text.py" "$folder/text" "${text[@]}"
finish
printf '\n'

exec "$VENV/bin/fairseq-hybrid" reproduce "${table[@]}" "$@" \
    --text "$folder/text" --source-lang "${languages[0]}" --target-lang "${languages[1]}" \
    --output "$folder/reproduction"
