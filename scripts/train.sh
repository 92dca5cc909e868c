#!/usr/bin/env bash
#SBATCH --job-name=hybrid-attn
#SBATCH --time=48:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
# See usage() below, or: scripts/train.sh --help
set -euo pipefail

usage() {
    cat <<'HELP'
scripts/train.sh: train, average, translate and score a row of a paper's table, or on your own text.

  scripts/train.sh PAPER/TABLE/ROW [options of "fairseq-hybrid train"]
  scripts/train.sh --data my-text/ ARCHITECTURE [options] -- [fairseq-train's flags]
  GPUS=4 scripts/train.sh ...
  sbatch --gpus-per-node 4 scripts/train.sh ...
  sbatch --nodes 2 --ntasks-per-node 8 --gpus-per-node 8 scripts/train.sh ...

It runs "fairseq-hybrid train" in the active environment, or in .venv of the current folder. On
several nodes, run one task for each GPU, once the corpus is prepared (--prepare-only). The command
is printed first; DRY_RUN=1 prints it alone. Run again, it resumes; so does a job of sbatch that is
preempted or out of time, since it is requeued.
HELP
}

if [[ ${1:-} == -h || ${1:-} == --help || $# == 0 ]]; then
    usage
    exit 0
fi
if ! hybrid=$(command -v fairseq-hybrid || command -v .venv/bin/fairseq-hybrid); then
    echo "activate the environment that has fairseq_hybrid_attn, or make .venv; see docs/install.md" >&2
    exit 1
fi
command=("$hybrid" train)
if ((${SLURM_NTASKS:-1} > 1)); then
    command=(srun "${command[@]}")
    export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1} # newer versions of srun do not inherit it
else
    command+=(--gpus "${GPUS:-${SLURM_GPUS_ON_NODE:-1}}")
fi
printf '%q ' "${command[@]}" "$@" && echo
[[ -z ${DRY_RUN:-} ]] || exit 0
[[ -n ${SLURM_JOB_ID:-} && ${ENVIRONMENT:-} == BATCH ]] || exec "${command[@]}" "$@"
trap 'scontrol requeue "$SLURM_JOB_ID"' USR1 # SLURM's notice that the time is almost over
"${command[@]}" "$@" &
status=0
wait $! || status=$?
# SLURM signals the training before it ends the job: for a job that has failed by itself, it would
# not be requeued. So wait for the end: after our USR1 (138), and when TERM has ended the training.
case $status in 130 | 138 | 143) sleep 1h ;; esac
exit "$status"
