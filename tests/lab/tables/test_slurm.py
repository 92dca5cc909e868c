"""Tables and trainings on a real SLURM: whatever happens to jobs, their runs end equal."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import slurm
import torch
from cli import command, environment
from slurm import slurm_says, wait_for
from workspaces import TABLE, with_rows, write_configs, write_text

from fairseq_hybrid_attn.lab.files.checkpoints import read_checkpoint

pytest.importorskip("submitit")
SCRIPTS = Path(__file__).parents[3] / "scripts"
#: With checkpoints every 25 of 150 updates, and dropout.
SAME = {"plain": {}, "often": {}, "moved": {}, "cancelled": {}}
WHERE = ("--configs", "configs", "--data", "text", "--output", "out", "--device", "cpu")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A folder with a table, and a SLURM."""
    if missing := slurm.missing():
        pytest.skip(f"not installed: Debian's {' and '.join(missing)}")
    folder = tmp_path_factory.mktemp("cluster")
    write_text(folder / "text")
    write_text(folder / "unequal")
    (folder / "unequal/train.de").write_text("ein Satz\n")
    rows = {**SAME, "nan": {"train": {"lr": "1e30"}}, "two": {}}
    write_configs(folder / "configs", **{"toy/table1.yaml": with_rows(TABLE, **rows)})
    with slurm.slurm():
        yield folder


def reproduce(folder, *words, **variables):
    """What the command prints, and its exit status."""
    arguments = ("reproduce", "toy/table1", *words, *WHERE, "--slurm")
    done = subprocess.run(
        command("fairseq-hybrid", *arguments),
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr, done.returncode


def sbatch(folder, *words) -> str:
    done = subprocess.run(
        ["sbatch", "--parsable", "--mem=1G", *words],
        cwd=folder,
        env=environment(PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def job_of(printed, row) -> str:
    return re.findall(rf"/{row}/bleu/seed1: job (\d+)$", printed, re.M)[-1]


def state(job) -> str:
    return slurm_says("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()


def place(folder, row) -> Path:
    return folder / f"out/runs/full@text/toy/table1/{row}/bleu/seed1"


def checkpoints(folder, row) -> list[Path]:
    return list(place(folder, row).glob("checkpoints/checkpoint_*_*.pt"))


def resumed(folder, row) -> int:
    """How often a training has gone on from a checkpoint in its middle."""
    log = place(folder, row) / "logs/train.log"
    found = re.findall(r"Loaded checkpoint .* @ (\d+) updates", log.read_text())
    return len([updates for updates in found if 0 < int(updates) < 150])


def processes(*words) -> list[int]:
    """The processes whose command line has these words."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_text()
        except OSError:
            continue
        if all(word in line for word in words):
            found.append(int(folder.name))
    return found


def hold_in_training(folder, row) -> None:
    """Stop the processes of a training after a checkpoint, as if it took long."""
    wait_for(lambda: checkpoints(folder, row))
    for process in wait_for(lambda: processes("fairseq_cli.train", f"/{row}/bleu/seed1")):
        os.kill(process, signal.SIGSTOP)


def let_time_run_out(folder, job, row) -> None:
    """Give a job that is held in training a time limit that is too short, and see it requeued."""
    before = state_of_restarts(job)
    hold_in_training(folder, row)
    used = slurm_says("squeue", "-h", "-j", job, "-o", "%M").strip()
    limit = int(used.split(":")[-2]) + 2  # SLURM looks every 30 seconds, and gives notice
    slurm_says("scontrol", "update", f"JobId={job}", f"TimeLimit={limit}")
    wait_for(lambda: state_of_restarts(job) > before)
    slurm_says("scontrol", "update", f"JobId={job}", "TimeLimit=60")


def state_of_restarts(job) -> int:
    return int(re.search(r"Restarts=(\d+)", slurm_says("scontrol", "show", "job", job))[1])


def same_weights(folder, row, other) -> None:
    one, two = (
        dict(read_checkpoint(place(folder, name) / "model.pt")["model"]) for name in (row, other)
    )
    torch.testing.assert_close(one, two, atol=0, rtol=0)


@pytest.mark.slow
def test_interrupted_jobs_end_as_undisturbed_ones(cluster):
    low = ("moved", "cancelled", "nan", "--sbatch", "partition=low mem=1G time=1:00:00")
    normal = ("plain", "often", "--sbatch", "mem-per-cpu=1G --exclusive=user comment=x")
    # From inside a job, and at the same time from outside: the second finds the jobs of the first.
    words = command("fairseq-hybrid", "reproduce", "toy/table1", *low, *WHERE, "--slurm")
    inside = ["--mem-per-cpu=1G", "--wait", "--output=inside", "--wrap", "$0"]
    script = cluster / "inside.sh"
    quoted = " ".join(f"'{word}'" for word in words)
    script.write_text(f"#!/bin/sh\nexec {quoted}\n")
    within = sbatch(cluster, "--output=inside", str(script))
    del inside
    first, _ = reproduce(cluster, *low)
    wait_for(lambda: state(within) == "COMPLETED")
    both = first + (cluster / "inside").read_text()
    numbers = re.findall(r"seed1: job (\d+)$", both, re.M)
    assert len(numbers) == 3, both
    second, status = reproduce(cluster, *normal)
    assert status == 0, second
    job = {row: job_of(both + second, row) for row in ("moved", "cancelled", "often", "nan")}
    names = slurm_says("squeue", "-h", "-t", "all", "-o", "%j").split()
    assert {"corpus.toy", "moved.seed1", "nan.seed1"} <= {*names}

    # Preempted with a grace time.
    hold_in_training(cluster, "moved")
    hold_in_training(cluster, "cancelled")
    slurm_says("scancel", job["cancelled"])
    sbatch(cluster, "-n", "8", "--output=/dev/null", "--wrap", "sleep 1")
    let_time_run_out(cluster, job["often"], "often")
    wait_for(lambda: state_of_restarts(job["moved"]) == 1)
