#!/usr/bin/env bash
# See usage() below, or: scripts/check_gpu.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
    cat <<'HELP'
scripts/check_gpu.sh: the first minutes on an NVIDIA GPU: is everything right there, and how fast?

  scripts/check_gpu.sh               check the first GPU
  scripts/check_gpu.sh --cpu         try the check itself on a CPU, at a tiny size

First the tests in tests/gpu (about four minutes): attention, gradients of all models, training,
resuming and translation in half precision, compiled models, memory. Then (at most eight minutes)
training steps and translation beside fairseq's stock transformer, the most important first.
Times are written to gpu-check.md and gpu-check.json after each part; an earlier check is replaced.
The exit status is 1 if anything failed.

Options:
  --output DIR   an existing folder for the two files (the current one)

It uses the active virtual environment if the package is installed there. Otherwise it creates
.venv, which the other scripts share; that takes minutes more.

Environment variables:
  PYTHON                Python 3.11 or 3.12 for the virtual environment
  CUDA_VISIBLE_DEVICES  the number of the GPU
and those of pip; docs/install.md has more about installing torch.
HELP
}

device=cuda
for argument in "$@"; do
    if [[ $argument == -h || $argument == --help ]]; then
        usage
        exit 0
    fi
    [[ $argument != --cpu ]] || device=cpu
done

LOGS=$ROOT/build/logs
# shellcheck source=scripts/lib/common.sh
source "$ROOT/scripts/lib/common.sh"
EXTRAS+=,dev
if [[ -n ${VIRTUAL_ENV:-} ]] && (cd / && "$VIRTUAL_ENV/bin/python" -c 'import importlib.util as u
exit(u.find_spec("fairseq_hybrid_attn") is None)'); then
    VENV=$VIRTUAL_ENV
    "$VENV/bin/python" -c 'import pytest' 2>/dev/null ||
        die "The tests need pytest: pip install pytest, then run this again."
else
    mkdir -p "$LOGS"
    make_environment
fi

# The current folder need not be the checkout; results go there.
export PYTHONPATH=$ROOT PYTHONWARNINGS=ignore

# part SECONDS COMMAND…: run it, at most so long; a driver may hang. In the foreground, Ctrl-C
# reaches it.
status=0
part() {
    local seconds=$1 ended=0
    shift
    timeout --foreground -k 10 "$seconds" "$@" || ended=$?
    ((ended == 0)) || status=1
    ((ended != 2 && ended != 130)) || exit "$ended" # wrong options, or Ctrl-C
    [[ $ended != 124 && $ended != 137 ]] || echo "Ended after $seconds s." >&2
}

part 300 "$VENV/bin/python" -m pytest -q -c "$ROOT/pyproject.toml" "$ROOT/tests/gpu" -k "$device"
part 480 "$VENV/bin/python" -m benchmarks.check_gpu "$@"
exit "$status"
