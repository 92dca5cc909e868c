"""One run on several processes: as on one, since the batch of an update stays what it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from cli import command, environment, run
from workspaces import SETTINGS, TABLE, with_rows, write_configs, write_text

#: Without dropout, whose masks depend on the process.
DRY = {
    "train": {"dropout": 0.0, "max-update": 20, "head-patterns": "global,local"},
    "checkpoints": {"every": 5, "average": 2},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    write_text(folder / "text")
    table = with_rows(TABLE, plain=DRY)
    write_configs(folder / "configs", **{"toy/table1.yaml": table})
    where = ("--configs", "configs", "--data", "text", "--output", "out", "--device", "cpu")
    return folder, where


@pytest.mark.slow
def test_two_processes_train_what_one_does(place):
    folder, where = place
    row = ("toy/table1/plain", "--column", "bleu")
    refused = run("fairseq-hybrid", "train", *row, *where, cwd=folder, expect=1)
    assert "--prepare-only" in refused.stderr
    run("fairseq-hybrid", "reproduce", "toy/table1", "plain", "--prepare-only", *where, cwd=folder)
    assert (folder / "out/corpora/full@text/toy/manifest.json").exists()
    assert not (folder / "out/runs").exists()

    run("fairseq-hybrid", "train", *row, *where, cwd=folder)
    made = folder / "out/runs/full@text/toy/table1/plain/bleu/seed1"
    made.rename(folder / "alone")

    subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
            *("--master-port", str(29600 + os.getpid() % 1000), "--no-python"),
            *command("fairseq-hybrid", "train", *row, *where),
        ],
        cwd=folder,
        env=environment(),
        check=True,
        timeout=300,
    )
    states = [
        torch.load(path / "checkpoints/checkpoint_last.pt", map_location="cpu", weights_only=True)
        for path in (folder / "alone", made)
    ]
    updates = [state["optimizer_history"][-1]["num_updates"] for state in states]
    assert updates == [20, 20]
    alone, together = (state["model"] for state in states)
    for name, weight in alone.items():
        torch.testing.assert_close(together[name], weight, atol=2e-4, rtol=0)
    moved = max((together[n] - torch.zeros_like(w)).abs().max() for n, w in alone.items())
    assert moved > 0.01

    # What was trained together is evaluated alone.
    done = run("fairseq-hybrid", "reproduce", "toy/table1", "plain", *where, cwd=folder)
    assert "train: done" not in done.stdout and "score: done" in done.stdout
    assert (made / "result.json").exists()


def test_show_prints_commands_that_a_shell_can_run(place):
    folder, where = place
    shown = run(
        *("fairseq-hybrid", "show", "toy/table1/mixed", "--column", "bleu", *where), cwd=folder
    ).stdout
    echo = "fairseq-train() { printf '%s\\n' \"$@\"; }\n"
    words = subprocess.run(
        [
            "bash",
            "-c",
            echo + shown.split("fairseq-hybrid average")[0],
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    for flag, value in SETTINGS["train"].items():
        at = words.index(f"--{flag}")
        wanted = "global,local,forward,backward" if flag == "head-patterns" else str(value)
        assert value is True or words[at + 1] == wanted


def test_show_for_several_devices_keeps_the_batch(place):
    folder, where = place
    row = ("toy/table1/mixed", "--column", "bleu", "--devices", "3")
    shown = run("fairseq-hybrid", "show", *row, *where[:-2], cwd=folder).stdout
    assert "--max-tokens 100" in shown and "--update-freq 1" in shown
    assert "--distributed-world-size 3" in shown and "--cpu" not in shown


def test_a_row_that_is_no_run_is_refused(place):
    for row, said in [
        ("toy/table1/others", "cited by the paper"),
        ("toy/table1/later", "an LSTM on top"),
        ("mixed", "no such table"),
    ]:
        folder, where = place
        done = run("fairseq-hybrid", "show", row, *where, cwd=folder, expect=1)
        assert said in done.stderr and "Traceback" not in done.stderr, row
        assert not (Path(folder) / "reproduction").exists(), row


def test_a_row_with_several_runs_needs_a_column(tmp_path):
    done = run("fairseq-hybrid", "show", "hysan/table1/e1", cwd=tmp_path, expect=1)
    assert "which --column? bleu, nopos" in done.stderr
    nopos = ("hysan/table1/e1", "--column", "nopos")
    shown = run("fairseq-hybrid", "show", *nopos, cwd=tmp_path).stdout
    assert "--no-encoder-positions" in shown and "--no-decoder-positions" in shown
