#!/usr/bin/env bash
#SBATCH --job-name=hybrid-attn --time=48:00:00 --signal=B:USR1@120 --requeue --open-mode=append
# Trains one system on a SLURM cluster, on one node or several, and resumes after a preemption or the time limit:
#   sbatch --gpus-per-node 4 scripts/train.sh PAPER/TABLE/ROW [options of "fairseq-hybrid train"]
#   sbatch --nodes 2 --ntasks-per-node 8 --gpus-per-node 8 scripts/train.sh --text my-text/ ARCHITECTURE
# With several tasks, prepare the corpus first (--prepare-only); each task has a GPU.
set -euo pipefail
command=(fairseq-hybrid train "$@")
if ((${SLURM_NTASKS:-1} > 1)); then
    command=(srun "${command[@]}")
    export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1} # newer versions of srun do not inherit it
elif [[ -n ${SLURM_GPUS_ON_NODE:-} ]]; then
    command=(fairseq-hybrid train --gpus-per-run "$SLURM_GPUS_ON_NODE" "$@")
fi
trap 'scontrol requeue "$SLURM_JOB_ID"' USR1 # SLURM's notice that the time is almost over
"${command[@]}" &
status=0
wait $! || status=$?
# SLURM signals the training before it ends the job: for a job that has failed by itself, it would
# not be requeued. So wait for the end: after our USR1 (138), and when TERM has ended the training.
case $status in 130 | 138 | 143) sleep 1h ;; esac
exit "$status"
