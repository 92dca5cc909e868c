"""A table as jobs of a cluster: what SLURM is told, and what is refused.

Its programs are not here: some that record how they are called are.  test_slurm.py has a real one.
"""

import os
from pathlib import Path

import pytest
from made_runs import MadeWorkspace
from refusals import check_refusals
from workspaces import TABLE, write_configs, write_text

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.plan.cluster_jobs import asked

DelayedSubmission = pytest.importorskip("submitit.core.utils").DelayedSubmission
SLURM = ("reproduce", "toy/table1", "plain", "--slurm", "--gpus-per-run", "4")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A table, and programs of SLURM; sbatch numbers its jobs from 40."""
    write_text(tmp_path / "text")
    write_configs(tmp_path / "configs", **{"toy/table1.yaml": TABLE})
    write_program(tmp_path / "bin/srun", "")
    write_program(tmp_path / "bin/squeue", "")
    record = 'n=$(ls "$0".* 2>/dev/null | wc -l)\ncp "$1" "$0.$n"\necho "Submitted batch job 4$n"'
    write_program(tmp_path / "bin/sbatch", record)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return MadeWorkspace(tmp_path)


def write_program(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{content}\n")
    path.chmod(0o755)


def test_what_slurm_is_told(place):
    words = ("--sbatch", "--partition=long time=2-0 exclusive", "--sbatch", "account=me")
    words += ("--corpus-sbatch", "partition=cpu", "--setup", "module load cuda")
    printed = place.hybrid(*SLURM, *words, "--precision", "fp16")
    assert "4 GPUs, fp16" in printed
    corpus, plain = ((place.folder / f"bin/sbatch.{n}").read_text() for n in (0, 1))
    for line in ("#SBATCH --requeue\n", "#SBATCH --signal=USR2@90\n", "module load cuda\n"):
        assert line in corpus and line in plain
    for line in ("partition=cpu", "cpus-per-task=4", "mem=8G", "time=24:00:00"):
        assert f"#SBATCH --{line}\n" in corpus
    for line in ("partition=long", "account=me", "time=2-0", "exclusive", "gpus-per-node=4"):
        assert f"#SBATCH --{line}\n" in plain
    for line in ("cpus-per-task=8", "mem=32G", "dependency=afterok:40"):
        assert f"#SBATCH --{line}\n" in plain
    assert not any(word in corpus for word in ("gpus", "dependency", "exclusive", "account"))
    assert "toy/table1/plain/bleu/seed1: job 41" in printed and "not run" in printed


def test_a_page_that_cannot_be_written_yet_is_told(place):
    words = ("compare", "transformer", "--slurm", "--device", "cpu", "--write", "page.html")
    assert "page.html is not written" in place.hybrid(*words)
    assert not (place.folder / "page.html").exists()


def test_what_is_given_replaces_what_is_usual(place):
    place.hybrid(*SLURM, "--sbatch", "gres=gpu:a100:4 mem-per-cpu=2G cpus_per_gpu=3 time=1:00:00")
    plain = (place.folder / "bin/sbatch.1").read_text()
    for line in ("gres=gpu:a100:4", "mem-per-cpu=2G", "cpus-per-gpu=3", "time=1:00:00"):
        assert f"#SBATCH --{line}\n" in plain
    for option in ("gpus-per-node", "mem=", "cpus-per-task", "time=24"):
        assert f"#SBATCH --{option}" not in plain


def test_other_options_of_like_names_replace_nothing(place):
    place.hybrid(*SLURM, "--sbatch", "time-min=60 gres-flags=enforce-binding mem-bind=local")
    plain = (place.folder / "bin/sbatch.1").read_text()
    for line in ("time-min=60", "time=24:00:00", "mem=32G", "gpus-per-node=4"):
        assert f"#SBATCH --{line}\n" in plain


def test_a_job_finds_its_text_from_any_folder(place):
    place.hybrid(*SLURM, "--downloads", "archives", "--sbatch", "chdir=/")
    jobs = [
        DelayedSubmission.load(path).function
        for path in (place.folder / "out/jobs").rglob("*_submitted.pkl")
    ]
    assert len(jobs) == 2
    for job in jobs:
        [run] = job.arguments[0] if isinstance(job.arguments[0], list) else job.arguments[:1]
        assert run.workspace.own.paths == (place.folder / "text",)
        assert run.folder.path.is_absolute() and run.corpus_folder.is_absolute()
        paths = [one for one in job.arguments if isinstance(one, Path)]
        assert paths in ([], [place.folder / "archives"])


@pytest.mark.parametrize(
    ("name", "condition"), [("plain/bleu/seed1", "grep -q gpus-per-node=4 $1"), ("corpus", "true")]
)
def test_a_cluster_refuses(name, condition, place):
    """It refuses runs that need GPUs, after a corpus that needs none; or everything."""
    refusing = f"{condition} && echo Invalid account >&2 && exit 1\necho job 50\n"
    write_program(place.folder / "bin/sbatch", refusing)
    with pytest.raises(UserError, match=f"{name}.*: its job is refused: .*Invalid account"):
        place.hybrid(*SLURM)


def test_options_of_sbatch():
    found = asked(["--gpus-per-node=a100:4 cpus_per_task=2", "exclusive comment='a b'"])
    wanted = {"gpus_per_node": "a100:4", "cpus_per_task": "2", "exclusive": True, "comment": "a b"}
    assert found == wanted
    check_refusals(
        [
            ("signal=USR1@60", "sets this itself; leave it out"),
            ("no-requeue", "sets this itself; leave it out"),
            ("-p gpu", "long options"),
        ],
        lambda text: asked([text]),
    )


def test_a_machine_without_slurm_is_told(place, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="no sbatch"):
        place.hybrid(*SLURM)


def test_flags_of_jobs_need_jobs(place):
    """Else one who forgets --slurm trains on the node on which they log in."""
    for flag in ("--corpus-sbatch=a=b", "--setup=a", "--sbatch=a=b"):
        with pytest.raises(UserError, match="add --slurm"):
            place.hybrid("reproduce", "toy/table1", flag)
