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

It creates the virtual environment .venv, which the other scripts share, and runs "fairseq-hybrid
reproduce" with its arguments. All output goes to reproduction/ in the checkout, unless --output
names another folder. If interrupted, it resumes when run again.

Environment variables:
  DOWNLOADS  folder of archives; those in it are not downloaded (same as --downloads)
  PYTHON     Python 3.11 or 3.12 for the virtual environment
and those of pip; docs/install.md shows how to install torch without CUDA.

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
            echo "(once a script has created .venv: $VENV/bin/fairseq-hybrid reproduce --help)"
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
[[ $* != *alignment* ]] || add_aligner # its tables train on eflomal's alignments
finish
printf '\n'

unset PYTHONPATH PYTHONHOME
# These come first, so that the user's options win.
options=(--output "$ROOT/reproduction")
[[ -z ${DOWNLOADS:-} ]] || options+=(--downloads "$DOWNLOADS")
exec "$VENV/bin/fairseq-hybrid" reproduce "${options[@]}" "$@"
