"""A table as jobs of a cluster: submitit's own on this machine, and what SLURM would be told."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cli import command, environment, run
from made_runs import MadeWorkspace
from workspaces import TABLE, UPDATES, with_rows, write_configs, write_text

from fairseq_hybrid_attn.errors import UserError

pytest.importorskip("submitit")
JOBS = (
    *("reproduce", "toy/table1", "plain", "--configs", "configs", "--data", "text"),
    *("--output", "out", "--device", "cpu", "--slurm"),
)


def write_place(folder):
    """A table whose row trains long enough to be interrupted."""
    write_text(folder / "text")
    plain = {"train": {"max-update": 2 * UPDATES}}
    write_configs(folder / "configs", **{"toy/table1.yaml": with_rows(TABLE, plain=plain)})
    return folder


def wait_for(found, seconds=300):
    for _ in range(10 * seconds):
        if result := found():
            return result
        time.sleep(0.1)
    raise AssertionError("waited in vain")


@pytest.mark.slow
def test_a_preempted_job_is_requeued_and_resumes(tmp_path):
    place = write_place(tmp_path)
    with open(place / "log", "w") as log:
        words = (*JOBS, "--cluster", "local")
        started = subprocess.Popen(
            command("fairseq-hybrid", *words), cwd=place, env=environment(), stdout=log, stderr=log
        )
    folder = place / "out/runs/full@text/toy/table1/plain/bleu/seed1"
    wait_for(lambda: list(folder.glob("checkpoints/checkpoint_*_*.pt")))
    # As SLURM does before it takes the machine away.
    printed = (place / "log").read_text()
    controller = re.search(r"seed1: job (\d+)", printed)[1]
    (task,) = Path(f"/proc/{controller}/task/{controller}/children").read_text().split()
    os.kill(int(task), signal.SIGUSR2)
    assert started.wait(600) == 0, (place / "log").read_text()
    assert "Requeued job" in (place / f"out/jobs/{controller}_0_log.err").read_text()
    training = (folder / "logs/train.log").read_text()
    resumed = int(re.search(r"Loaded checkpoint .* @ (\d+) updates", training)[1])
    assert 0 < resumed < 2 * UPDATES
    printed = (place / "log").read_text()
    assert re.search(r"^plain .*\d\.\d\d ±", printed, re.M)  # the table
    assert MadeWorkspace(place).plan("toy/table1", (1,)).runs[0].folder.result.exists()
    # Run again, it finds nothing to do.
    done = run("fairseq-hybrid", *words, cwd=place)
    assert ": job " not in done.stdout


def test_what_slurm_is_told(tmp_path, monkeypatch):
    """The programs of SLURM are not here: two that record how they are called are."""
    place = write_place(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("sbatch", "srun"):
        program = tmp_path / "bin" / name
        program.write_text(
            '#!/bin/sh\nn=$(ls "$0".* 2>/dev/null | wc -l)\ncp "$1" "$0.$n"\n'
            'echo "Submitted batch job 4$n"\n'
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    words = (*JOBS[:-3], "--slurm", "--precision", "fp16", "--gpus-per-run", "4", "--hours", "2")
    words += ("--partition", "long", "--sbatch", "account=me", "--threads", "3")
    printed = MadeWorkspace(place).hybrid(*words)
    assert "4 GPUs, fp16" in printed
    corpus, plain = ((tmp_path / f"bin/sbatch.{n}").read_text() for n in (0, 1))
    for line in ("partition=long", "account=me", "time=120", "requeue", "signal=USR2@90"):
        assert f"#SBATCH --{line}" in corpus and f"#SBATCH --{line}" in plain
    assert "gpus-per-node=4" in plain and "gpus-per-node=0" in corpus
    assert "#SBATCH --dependency=afterok:40" in plain and "dependency" not in corpus
    assert "cpus-per-task=12" in plain
    assert "toy/table1/plain/bleu/seed1: job 41" in printed and "not run" in printed
    # It refuses runs that need GPUs, after a corpus that needs none, or everything.
    for name, condition in (("plain/bleu/seed1", "grep -q gpus-per-node=4 $1"), ("corpus", "true")):
        refusing = f"#!/bin/sh\n{condition} && echo Invalid account >&2 && exit 1\necho job 50\n"
        (tmp_path / "bin/sbatch").write_text(refusing)
        (place / "out/runs/full@text/toy/table1/plain/bleu/seed1/.job.json").unlink(missing_ok=True)
        with pytest.raises(UserError, match=f"{name}.*: its job is refused: .*Invalid account"):
            MadeWorkspace(place).hybrid(*words)


def test_a_machine_without_slurm_gets_a_sentence(made, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="no sbatch.*leave out --slurm"):
        made.hybrid("reproduce", "toy/table1", "--slurm")


@pytest.mark.parametrize(
    "flag", ["--partition=gpu", "--hours=2", "--sbatch=a=b", "--cluster=local"]
)
def test_flags_of_jobs_need_jobs(flag, made):
    """Else one who forgets --slurm trains on the node on which they log in."""
    with pytest.raises(UserError, match=f"{flag.split('=')[0]} is about jobs .*add --slurm"):
        made.hybrid("reproduce", "toy/table1", flag)
