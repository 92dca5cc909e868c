#!/usr/bin/env bash
# See usage() below, or: scripts/check_gpu.sh --help
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
    cat <<'HELP'
scripts/check_gpu.sh: the first minutes on an NVIDIA GPU, in at most eight minutes.

  scripts/check_gpu.sh               check the first GPU
  scripts/check_gpu.sh --cpu         try the check itself on a CPU, at a tiny size

It compares attention by PyTorch's kernels, and the gradients of whole models, with the definition;
times training steps and translation against fairseq's stock transformer, and that against itself;
and counts launches and how often the host waits. What the time does not suffice for is named.
It writes gpu-check.md and gpu-check.json; an earlier check is replaced. The exit status is 1 if
anything was off or failed.

Options:
  --output DIR   an existing folder for the two files (the current one)
  --seconds N    stop after this time (480, which is also the most)

It uses the active virtual environment if the package is installed there. Otherwise it creates
.venv, which the other scripts share; that takes minutes more.

Environment variables:
  PYTHON                Python 3.11 or 3.12 for the virtual environment
  CUDA_VISIBLE_DEVICES  the number of the GPU
and those of pip; docs/install.md has more about installing torch.
HELP
}

for argument in "$@"; do
    if [[ $argument == -h || $argument == --help ]]; then
        usage
        exit 0
    fi
done

LOGS=$ROOT/build/logs
# shellcheck source=scripts/lib/common.sh
source "$ROOT/scripts/lib/common.sh"
if [[ -n ${VIRTUAL_ENV:-} ]] && (cd / && "$VIRTUAL_ENV/bin/python" -c 'import importlib.util as u
exit(u.find_spec("fairseq_hybrid_attn") is None)'); then
    VENV=$VIRTUAL_ENV
else
    mkdir -p "$LOGS"
    make_environment
fi

# The current folder need not be the checkout; results go there.
export PYTHONPATH=$ROOT PYTHONWARNINGS=ignore
# It stops by itself; a driver that hangs does not. In the foreground, Ctrl-C reaches it.
status=0
timeout --foreground -k 10 540 "$VENV/bin/python" -m benchmarks.check_gpu "$@" || status=$?
if [[ $status == 124 || $status == 137 ]]; then
    die "The check was ended after nine minutes: the GPU or its driver hangs. Nothing was written."
fi
exit "$status"
