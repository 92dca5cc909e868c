#!/usr/bin/env bash
# See usage() below, or: scripts/test.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
    cat <<'HELP'
scripts/test.sh: linter, formatter, types and tests, in about five minutes on two cores.

  scripts/test.sh              the checks to run before a commit
  scripts/test.sh --all        also the slow tests, in about seventeen minutes
  scripts/test.sh ARGUMENT...  pytest with these arguments, including slow tests, for example
                               scripts/test.sh tests/plugin/attention -k gate

It creates the virtual environment .venv, which the other scripts share.

Environment variables:
  PYTHON   Python 3.11 or 3.12 for the virtual environment
  WORKERS  parallel test processes (one per core, and one more, since some tests wait)
and those of pip; docs/install.md shows how to install torch without CUDA.
HELP
}

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    usage
    exit 0
fi
WORKERS=${WORKERS:-$(($(getconf _NPROCESSORS_ONLN) + 1))}
if [[ $# == 0 ]]; then
    set -- -m "not slow"
elif [[ $1 == --all ]]; then
    shift
fi

LOGS=$ROOT/build/logs
mkdir -p "$LOGS"
# shellcheck source=scripts/lib/common.sh
source "$ROOT/scripts/lib/common.sh"
EXTRAS+=,dev

begin "Virtual environment"
make_environment
add_aligner # its tests are skipped otherwise
finish

cd "$ROOT"
export PATH=$VENV/bin:$PATH OMP_NUM_THREADS=1
unset PYTHONPATH PYTHONHOME

begin "Linter, formatter and types"
ruff check .
ruff format --check .
mypy
finish

begin "Tests"
# Distribute whole files, so that each file makes its fixtures only once.
python -m pytest --numprocesses "$WORKERS" --dist loadfile --no-loadscope-reorder "$@"
finish
