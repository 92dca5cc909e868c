#!/usr/bin/env bash
# See usage() below, or: scripts/reproduce.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
    cat <<'HELP'
scripts/reproduce.sh: tables of the papers, from raw text to the printed table.

  scripts/reproduce.sh PAPER/TABLE [ROW ...] [PAPER/TABLE [ROW ...]] ... [options]

  scripts/reproduce.sh hysan/table2a --seeds 3
  scripts/reproduce.sh hysan/table1 base e1 --dry-run
  scripts/reproduce.sh hysan/table1 base e1 --profile small --data my-text/

It makes the virtual environment .venv, which the other scripts use too, and runs "fairseq-hybrid
reproduce" with the arguments. Everything goes to reproduction/ in the checkout unless --output
names another folder. Stop it and run it again: it resumes.

Environment variables:
  DOWNLOADS  folder of the archives; what is there is not downloaded (as --downloads)
  PYTHON     Python 3.11 or 3.12 for the virtual environment
and those of pip; docs/install.md shows how to get torch without CUDA.

All options:

HELP
}

LOGS=$ROOT/build/logs
# shellcheck source=scripts/lib/common.sh
source "$ROOT/scripts/lib/common.sh"

for argument in "$@"; do
    if [[ $argument == -h || $argument == --help ]]; then
        usage
        if [[ -x $VENV/bin/fairseq-hybrid ]]; then
            "$VENV/bin/fairseq-hybrid" reproduce --help
        else
            echo "(once a script has made .venv: $VENV/bin/fairseq-hybrid reproduce --help)"
        fi
        exit 0
    fi
done
if (($# == 0)); then
    usage >&2
    echo "Name a table; configs/ has a file for each: $(cd "$ROOT/configs" &&
        printf '%s\n' */*.yaml | sed -E '/^(corpora|profiles|settings)\//d; s/\.yaml$//' |
        tr '\n' ' ')" >&2
    exit 2
fi

mkdir -p "$LOGS"
begin "Virtual environment"
make_environment
[[ $* != *alignment/* ]] || add_aligner # Table 4 trains on its alignments
finish
printf '\n'

unset PYTHONPATH PYTHONHOME
# First, so that the user's options come after and win.
options=(--output "$ROOT/reproduction")
[[ -z ${DOWNLOADS:-} ]] || options+=(--downloads "$DOWNLOADS")
exec "$VENV/bin/fairseq-hybrid" reproduce "${options[@]}" "$@"
