"""A table as jobs of a cluster: submitit's own on this machine, and what SLURM would be told."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from cli import command, environment, run
from made_runs import MadeWorkspace
from refusals import check_refusals
from slurm import wait_for
from workspaces import TABLE, UPDATES, with_rows, write_configs, write_text

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.runs.cluster_jobs import minutes, options_of

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


@pytest.mark.slow
def test_a_preempted_job_is_requeued_and_resumes(tmp_path):
    place = write_place(tmp_path)
    with open(place / "log", "w") as log:
        words = (*JOBS, "--cluster", "local", "--jobs", "1")
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
    assert "this job is preempted" in (place / f"out/jobs/{controller}_0_log.err").read_text()
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
    words = (*JOBS[:-3], "--slurm", "--precision", "fp16", "--gpus-per-run", "4")
    words += ("--sbatch", "--partition=long time=2:00:00 exclusive", "--sbatch", "account=me")
    words += ("--corpus-sbatch", "partition=cpu", "--setup", "module load cuda")
    printed = MadeWorkspace(place).hybrid(*words)
    assert "4 GPUs, fp16" in printed
    corpus, plain = ((tmp_path / f"bin/sbatch.{n}").read_text() for n in (0, 1))
    for line in ("account=me", "time=120", "requeue", "signal=USR2@90", "exclusive"):
        assert f"#SBATCH --{line}\n" in corpus and f"#SBATCH --{line}\n" in plain
    assert "module load cuda\n" in corpus and "module load cuda\n" in plain
    for line in ("partition=cpu", "cpus-per-task=4", "mem=8G", "job-name=corpus.toy"):
        assert f"#SBATCH --{line}\n" in corpus
    for line in ("partition=long", "cpus-per-task=8", "mem=32G", "job-name=plain.seed1"):
        assert f"#SBATCH --{line}\n" in plain
    assert "gpus-per-node=4" in plain and "gpus" not in corpus
    assert "#SBATCH --dependency=afterok:40" in plain and "dependency" not in corpus
    assert "toy/table1/plain/bleu/seed1: job 41" in printed and "not run" in printed
    # It refuses runs that need GPUs, after a corpus that needs none, or everything.
    for name, condition in (("plain/bleu/seed1", "grep -q gpus-per-node=4 $1"), ("corpus", "true")):
        refusing = f"#!/bin/sh\n{condition} && echo Invalid account >&2 && exit 1\necho job 50\n"
        (tmp_path / "bin/sbatch").write_text(refusing)
        (place / "out/jobs/jobs.json").unlink()
        with pytest.raises(UserError, match=f"{name}.*: its job is refused: .*Invalid account"):
            MadeWorkspace(place).hybrid(*words)
    left = {*(place / "out/jobs").glob(".submission_file_*")}
    assert all(path.is_symlink() for path in left)


def test_options_of_sbatch():
    found = options_of(["--gpus-per-node=a100:4 cpus_per_task=2", "exclusive comment='a b'"])
    wanted = {"gpus_per_node": "a100:4", "cpus_per_task": "2", "exclusive": True, "comment": "a b"}
    assert found == wanted
    times = ("90", "5:30", "1:30:00", "2-0", "1-1:30", "1-0:0:59")
    assert [minutes(text) for text in times] == [90, 5, 90, 2880, 1530, 1440]
    check_refusals(
        [
            ("signal=USR1@60", "not resumed; leave it out"),
            ("--array=1-2", "not resumed; leave it out"),
            ("no-requeue", "not resumed; leave it out"),
            ("-p gpu", "long options"),
            ("time=UNLIMITED", "use MINUTES, HOURS:MINUTES:SECONDS or DAYS-HOURS"),
            ("time=2", "3 minutes at least"),
        ],
        lambda text: minutes(str(options_of([text]).get("time", "9"))),
    )


def test_a_machine_without_slurm_gets_a_sentence(made, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="no sbatch.*leave out --slurm"):
        made.hybrid("reproduce", "toy/table1", "--slurm")


@pytest.mark.parametrize(
    "flag", ["--corpus-sbatch=a=b", "--setup=a", "--sbatch=a=b", "--cluster=local"]
)
def test_flags_of_jobs_need_jobs(flag, made):
    """Else one who forgets --slurm trains on the node on which they log in."""
    with pytest.raises(UserError, match=f"{flag.split('=')[0]} is about jobs .*add --slurm"):
        made.hybrid("reproduce", "toy/table1", flag)
