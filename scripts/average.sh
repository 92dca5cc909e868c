#!/usr/bin/env bash
# See usage() below, or: scripts/average.sh --help
set -euo pipefail

usage() {
    cat <<'HELP'
scripts/average.sh: the mean of a training's last checkpoints.

  scripts/average.sh FOLDER [N]

averages the last N (5) checkpoints of FOLDER, or of its checkpoints/, into FOLDER/average.pt: those
of --save-interval-updates if there are any, else those of epochs. FOLDER is the SAVE of a script in
scripts/papers, the folder that "scripts/train.sh --keep-checkpoints" prints, or a --save-dir of
fairseq-train. It runs in the active environment, or in .venv of the current folder. The command is
printed first; DRY_RUN=1 prints it alone.
HELP
}

if [[ ${1:-} == -h || ${1:-} == --help || $# == 0 ]]; then
    usage
    exit 0
fi
folder=$1 count=${2:-5} checkpoints=$1
if [[ ! -d $folder || $# -gt 2 || ! $count =~ ^[1-9][0-9]*$ ]]; then
    echo "$*: name a folder, and perhaps a number from 1; see $0 --help" >&2
    exit 1
fi
command -v fairseq-hybrid >/dev/null || PATH=$PWD/.venv/bin:$PATH
if ! command -v fairseq-hybrid >/dev/null; then
    echo "activate the environment that has fairseq_hybrid_attn, or make .venv; see docs/install.md" >&2
    exit 1
fi
[[ ! -d $folder/checkpoints ]] || checkpoints=$folder/checkpoints
flag=--last-epochs
! compgen -G "$checkpoints/checkpoint_[0-9]*_[0-9]*.pt" >/dev/null || flag=--last-updates
command=(fairseq-hybrid average --output "$folder/average.pt" "$flag" "$count" "$checkpoints")
printf '%q ' "${command[@]}" && echo
[[ -n ${DRY_RUN:-} ]] || exec "${command[@]}"
