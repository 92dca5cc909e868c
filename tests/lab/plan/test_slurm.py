"""Tables and trainings on a real SLURM: whatever happens to jobs, their runs end equal."""

import os
import re
import shlex
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import slurm
import torch
from cli import command, environment, run
from slurm import slurm_says, wait_for
from workspaces import TABLE, with_rows, write_configs, write_text

from fairseq_hybrid_attn.lab.files.checkpoints import read_checkpoint

pytest.importorskip("submitit")
SCRIPTS = Path(__file__).parents[3] / "scripts"
#: Of the same settings, with dropout and a checkpoint every 25 of 150 updates.
SAME = ("plain", "often", "moved", "cancelled", "two", "halved")
WHERE = ("--configs", "configs", "--text", "text", "--output", "out", "--device", "cpu")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A folder with a table, and a SLURM."""
    if missing := slurm.missing():
        pytest.skip(f"not installed: Debian's {' and '.join(missing)}")
    folder = tmp_path_factory.mktemp("cluster")
    write_text(folder / "text")
    write_text(folder / "empty")
    lines = (folder / "empty/train.de").read_text().count("\n")
    (folder / "empty/train.de").write_text("\n" * lines)
    rows = {**{row: {} for row in SAME}, "nan": {"train": {"lr": "1e30"}}}
    write_configs(folder / "configs", **{"toy/table1.yaml": with_rows(TABLE, **rows)})
    (folder / "bin").mkdir()
    program = folder / "bin/fairseq-hybrid"
    program.write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m fairseq_hybrid_attn "$@"\n'
    )
    program.chmod(0o755)
    with slurm.slurm():
        yield folder


def reproduce(folder, *words, text="text", **variables):
    """What the command prints, and its exit status."""
    where = [text if word == "text" else word for word in WHERE]
    arguments = ("reproduce", "toy/table1", *where, *words, "--slurm")
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
        env=environment(PATH=f"{folder / 'bin'}:{os.environ['PATH']}"),
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


def of_job(job) -> list[int]:
    """The processes of submitit in a job."""
    found = []
    for process in processes("submitit.core._submit", "python"):
        variables = Path(f"/proc/{process}/environ").read_text()
        if f"SLURM_JOB_ID={job}\0" in variables and "SLURM_STEP_ID=0" in variables:
            found.append(process)
    return found


def hold_in_training(folder, row, updates=25) -> None:
    """Stop the processes of a training after a checkpoint, as if it took long."""

    def reached() -> bool:
        saved = place(folder, row).glob("checkpoints/checkpoint_*_*.pt")
        return any(int(path.stem.split("_")[2]) >= updates for path in saved)

    wait_for(reached)
    for process in wait_for(lambda: processes("fairseq_cli.train", f"/{row}/bleu/seed1")):
        os.kill(process, signal.SIGSTOP)


def let_time_run_out(folder, job, row, updates=25) -> None:
    """Give a job that is held in training a time limit that is too short, and see it requeued."""
    before = restarts(job)
    hold_in_training(folder, row, updates)
    used = slurm_says("squeue", "-h", "-j", job, "-o", "%M").strip()
    limit = int(used.split(":")[-2]) + 2  # SLURM looks every 30 seconds, and gives notice
    slurm_says("scontrol", "update", f"JobId={job}", f"TimeLimit={limit}")
    wait_for(lambda: restarts(job) > before)
    slurm_says("scontrol", "update", f"JobId={job}", "TimeLimit=60")


def restarts(job) -> int:
    return int(re.search(r"Restarts=(\d+)", slurm_says("scontrol", "show", "job", job))[1])


def same_weights(folder, row, other) -> None:
    one, two = (
        dict(read_checkpoint(place(folder, name) / "model.pt")["model"]) for name in (row, other)
    )
    torch.testing.assert_close(one, two, atol=0, rtol=0)


@pytest.mark.slow
def test_interrupted_jobs_end_as_undisturbed_ones(cluster):
    low = ("moved", "cancelled", "nan", "--sbatch", "partition=low mem=1G time=1:00:00")
    # From inside a job, and at the same time from outside: the second finds the jobs of the first.
    words = command("fairseq-hybrid", "reproduce", "toy/table1", *low, *WHERE, "--slurm")
    (cluster / "inside.sh").write_text(f"#!/bin/sh\nexec {shlex.join(words)}\n")
    inside = sbatch(cluster, "--output=inside", "inside.sh")
    first, _ = reproduce(cluster, *low)
    wait_for(lambda: state(inside) == "COMPLETED")
    first += (cluster / "inside").read_text()
    assert len(re.findall(r"seed1: job \d+$", first, re.M)) == 3, first
    for row in ("moved", "cancelled"):
        hold_in_training(cluster, row)
    setup = ("--setup", f"echo set up >{cluster}/set-up")
    more, status = reproduce(cluster, "plain", "often", "--sbatch", "mem-per-cpu=1G", *setup)
    assert status == 0, more
    job = {row: job_of(first + more, row) for row in ("moved", "cancelled", "nan", "often")}

    slurm_says("scancel", job["cancelled"])

    def preempt_and_kill() -> None:
        sbatch(cluster, "-n", "6", "--output=/dev/null", "--wrap", "sleep 1")
        wait_for(lambda: resumed(cluster, "moved") == 1)
        hold_in_training(cluster, "moved", updates=100)
        training = processes("fairseq_cli.train", "/moved/bleu/seed1")
        for process in [*of_job(job["moved"]), *training]:
            os.kill(process, signal.SIGKILL)

    def give_too_little_time() -> None:
        for updates in (25, 75):
            let_time_run_out(cluster, job["often"], "often", updates)

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(preempt_and_kill), pool.submit(give_too_little_time)]:
            done.result()

    # SLURM does not answer: they may still run.
    unknown, status = reproduce(cluster, *low, SLURM_CONF="/nowhere")
    assert status == 1 and "squeue does not tell which jobs still run" in unknown
    assert "seed1: job" not in unknown
    # The same command tells what happened, with the logs, and submits the runs again.
    wait_for(lambda: state(job["moved"]) == "FAILED" and state(job["nan"]) == "FAILED")
    again, status = reproduce(cluster, *low)
    assert status == 1
    for row in ("moved", "cancelled", "nan"):
        log = rf"{cluster}/out/jobs/{row}\.seed1\.\w{{6}}/{job[row]}_0_log\.err"
        assert re.search(rf"/{row}/bleu/seed1: job {job[row]} FAILED: see {log}, and ", again), (
            again
        )
        assert int(job_of(again, row)) > int(job[row])
    for row in ("plain", "often", "moved", "cancelled"):
        wait_for(lambda row=row: (place(cluster, row) / "result.json").exists(), 200)
        same_weights(cluster, row, "plain")
    assert resumed(cluster, "often") == 2 and resumed(cluster, "moved") == 2
    assert resumed(cluster, "cancelled") == 1 and (cluster / "set-up").exists()
    wait_for(lambda: state(job_of(again, "nan")) == "FAILED")
    table, status = reproduce(cluster, *low, "plain", "often")
    assert status == 1 and table.count(" FAILED: ") == 1  # of nan
    assert len(re.findall(r"^(?:plain|often|moved|cancelled) .*\d\.\d\d", table, re.M)) == 4, table


@pytest.mark.slow
def test_a_corpus_that_fails_is_told_by_its_log(cluster):
    asked = ("plain", "--corpus-sbatch", "mem=1G cpus-per-task=2")
    first, status = reproduce(cluster, *asked, text="empty")
    assert status == 0
    corpus = re.search(r"corpus toy-\w+: job (\d+)$", first, re.M)[1]
    wait_for(lambda: state(corpus) == "FAILED" and state(job_of(first, "plain")) == "CANCELLED")
    again, status = reproduce(cluster, *asked, text="empty")
    log = re.search(
        rf"corpus toy-\w+: job {corpus} FAILED: see (.*/{corpus}_0_log)\.err, and ", again
    )
    assert status == 1 and log, again
    assert f"job {job_of(first, 'plain')} FAILED: it had not begun" in again
    assert "no usable pairs for train" in Path(f"{log[1]}.err").read_text()


@pytest.mark.slow
def test_two_tasks_of_a_script_resume_when_time_is_over(cluster):
    run("fairseq-hybrid", "reproduce", "toy/table1", "two", *WHERE, "--prepare-only", cwd=cluster)
    for row in ("two", "halved"):
        words = (f"toy/table1/{row}", "--column", "bleu", *WHERE)
        job = sbatch(cluster, "-n2", "--time=1:00:00", str(SCRIPTS / "train.sh"), *words)
        if row == "halved":
            let_time_run_out(cluster, job, row)
        wait_for(lambda job=job: state(job) == "COMPLETED", 200)
    assert resumed(cluster, "halved") == 1 and not resumed(cluster, "two")
    same_weights(cluster, "two", "halved")
