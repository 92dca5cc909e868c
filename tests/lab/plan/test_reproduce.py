"""A small table from text to print; interrupted, killed, changed, run again."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from cli import command, environment, run, weights
from made_runs import MadeWorkspace, read_lines
from refusals import check_command_refusals
from sacrebleu_command import sacrebleu_command
from workspaces import UPDATES, write_configs, write_text

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.files.json_files import read_json
from fairseq_hybrid_attn.lab.run.devices import Devices
from fairseq_hybrid_attn.lab.run.folder import RunFolder
from fairseq_hybrid_attn.lab.run.running import make_result


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    write_text(folder / "text")
    write_configs(folder / "configs")
    return folder


def reproduce(output, *rows, configs="configs"):
    where = ("--configs", configs, "--text", "text", "--output", output, "--device", "cpu")
    return ["reproduce", "toy/table1", *rows, *where]


@pytest.fixture(scope="module")
def reproduced(place):
    """A row, the same row again, and one that fails."""
    rows = ("mixed", "same", "broken")
    done = run("fairseq-hybrid", *reproduce("out", *rows), cwd=place, expect=1)
    return MadeWorkspace(place), done


def result(made, row):
    return read_json(made.run(row).folder.result)


def test_each_system_is_trained_once_and_a_failure_does_not_stop_the_others(reproduced):
    made, done = reproduced
    assert "toy/table1/broken/bleu/seed1: failed\n" in done.stdout
    told = "fairseq-train ended with status 1: FileNotFoundError: Dataset not found: nowhere"
    assert f"  toy/table1/broken/bleu/seed1: {told}" in done.stderr
    assert done.stderr.count("nowhere") == 1 and "mixed" not in done.stderr
    assert "Traceback" not in done.stderr
    assert result(made, "mixed") and not result(made, "broken")
    assert done.stdout.count("mixed/bleu/seed1: train: done") == 1
    mixed = made.run("mixed").folder.path
    assert not (mixed.parents[2] / "same").exists()
    assert [path.name for path in mixed.rglob("*.pt")] == ["model.pt"]  # the disk holds no others


def test_no_result_if_the_corpus_was_prepared_again_meanwhile(reproduced):
    run = reproduced[0].run("mixed")
    path = run.corpus_folder / "manifest.json"
    content = path.read_text()
    try:
        assert make_result(run, Devices("cpu"))["scores"]
        facts = json.loads(content)
        name = next(name for name in facts["files"] if name.startswith("bin/train"))
        facts["files"][name] = "another"
        path.write_text(json.dumps(facts))
        with pytest.raises(UserError, match="this has changed: data"):
            make_result(run, Devices("cpu"))
        path.unlink()
        with pytest.raises(UserError, match="is no longer there"):
            make_result(run, Devices("cpu"))
    finally:
        path.write_text(content)


def test_result_can_be_traced_and_its_score_repeated(reproduced, place):
    made, _ = reproduced
    run, found = made.run("mixed"), result(made, "mixed")
    assert found["name"] == "toy/table1/mixed/bleu/seed1"
    assert found["corpus"]["digest"] == read_json(run.corpus_folder / "manifest.json")["digest"]
    assert found["updates"] == UPDATES
    assert found["settings"]["train"]["head-patterns"] == "global,local,forward,backward"
    assert {"torch", "sacrebleu", "python"} <= found["versions"].keys()
    # 1 + 1 layers of width 32: an independent count, with the dictionary's size.
    symbols = len(read_lines(run.corpus_folder / "bin/dict.en.txt")) + 4
    attention, ffn, norm = 4 * (32 * 32 + 32), 32 * 64 + 64 + 64 * 32 + 32, 2 * 32
    layers = (attention + ffn + 2 * norm) + (2 * attention + ffn + 3 * norm)
    assert found["parameters"] == symbols * 32 + layers
    assert "--max-tokens 150 --update-freq 2 " in " ".join(found["commands"]["train"])
    reference = run.corpus.text("raw", "test", run.recipe.target)
    assert read_lines(reference) == read_lines(place / "text/test.en")
    printed = sacrebleu_command(reference, "-i", run.folder.hypotheses)
    assert round(found["scores"]["bleu"]["value"], 12) == printed["score"]


def test_running_again_does_nothing(reproduced, place):
    def files():
        return {
            path: path.stat().st_mtime_ns
            for path in reproduced[0].run("mixed").folder.path.rglob("*")
            if path.name != ".lock"
        }

    before = files()
    done = run("fairseq-hybrid", *reproduce("out", "mixed"), cwd=place)
    assert files() == before
    assert "train: done" not in done.stdout


def start(place, output):
    with open(place / f"{output}.log", "ab") as log:
        return subprocess.Popen(
            command("fairseq-hybrid", *reproduce(output, "mixed")),
            cwd=place,
            env=environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for_checkpoint(process, folder, update):
    """Wait until training has passed an update and is working on the next ones."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        saved = folder.checkpoints.glob("checkpoint_*_*.pt")
        if max((int(path.stem.rpartition("_")[2]) for path in saved), default=0) >= update:
            return
        assert process.poll() is None, "ended before it was stopped"
        time.sleep(0.01)
    raise AssertionError(f"no checkpoint of update {update} in time")


@pytest.mark.slow
def test_a_full_disk_ends_training_in_a_sentence(reproduced, place):
    """A limit on the size of files, less than a checkpoint's, stands in for the disk."""
    shutil.copytree(place / "out/corpora", place / "full/corpora")
    words = command("fairseq-hybrid", *reproduce("full", "plain"))
    limited = ["bash", "-c", 'ulimit -f 100; exec "$@"', "bash", *words]
    options = {"cwd": place, "env": environment(), "capture_output": True, "text": True}
    done = subprocess.run(limited, **options, timeout=1200)
    assert done.returncode == 1
    told = r"plain/bleu/seed1: fairseq-train could not write its files \(File too large; "
    assert re.search(told, done.stderr) and "Traceback" not in done.stdout + done.stderr
    checkpoints = list((place / "full").rglob("checkpoints"))
    assert checkpoints and not any(any(folder.glob("*.tmp")) for folder in checkpoints)


def trainings(folder):
    """Processes that train into the folder of a run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"fairseq_cli.train" in words and str(folder.checkpoints).encode() in words:
            found.append(int(path.parent.name))
    return found


@pytest.mark.slow
def test_stopped_and_killed_it_ends_with_the_same_result(reproduced, place):
    made, _ = reproduced
    undisturbed = made.run("mixed").folder
    folder = RunFolder(place / "stopped" / undisturbed.path.relative_to(place / "out"))
    shutil.copytree(place / "out/corpora", place / "stopped/corpora")

    process = start(place, "stopped")
    wait_for_checkpoint(process, folder, 25)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert trainings(folder) == []
    said = (place / "stopped.log").read_text()
    assert "Traceback" not in said and "stopped; the same command resumes" in said
    made = MadeWorkspace(place)
    shown = made.hybrid("runs", "--configs", "configs", "--text", "text", "--output", "stopped")
    assert re.search(r"mixed/bleu/seed1 .* begun \(resumes from update \d+\)", shown)

    process = start(place, "stopped")
    wait_for_checkpoint(process, folder, 75)
    process.kill()
    for number in trainings(folder):
        os.kill(number, signal.SIGKILL)
    process.wait(60)
    # What a kill between two writes would leave: half a copy.
    last = folder.checkpoints / "checkpoint_last.pt"
    last.write_bytes(last.read_bytes()[:5000])

    done = run("fairseq-hybrid", *reproduce("stopped", "mixed"), cwd=place)
    assert "checkpoint_last.pt was cut off; removed" in done.stdout
    torch.testing.assert_close(weights(folder.model), weights(undisturbed.model), rtol=0, atol=0)
    assert folder.hypotheses.read_bytes() == undisturbed.hypotheses.read_bytes()


def test_mistakes_are_reported_before_anything_is_done(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_command_refusals(
        [
            ("toy/table9", "toy/table1"),
            ("toy/table1 nonsense", "its rows are: plain mixed"),
            ("toy/table1 --columns ter", "its columns are: bleu aer"),
            ("toy/table1 --profile nano", "known are "),
        ],
        *("reproduce", "--configs", str(place / "configs")),
    )
