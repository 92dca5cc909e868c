"""A small table from text to print; interrupted, killed, changed, run again."""

import csv
import io
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
from cli import command, environment, run, run_forked
from workspaces import SETTINGS, UPDATES, write_configs, write_text

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.configuration.settings import load_profile
from fairseq_hybrid_attn.lab.configuration.tables import load_table
from fairseq_hybrid_attn.lab.runs.devices import Devices
from fairseq_hybrid_attn.lab.runs.results import make_result
from fairseq_hybrid_attn.lab.runs.workspace import OwnText, Workspace


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Configurations and text; every test has an output folder of its own, or the one below."""
    folder = tmp_path_factory.mktemp("place")
    write_text(folder / "text")
    write_configs(folder / "configs")
    return folder


def arguments(place, output, *rows):
    return [
        *("reproduce", "toy/table1", *rows),
        *("--configs", place / "configs", "--data", place / "text", "--output", output),
        *("--device", "cpu"),
    ]


def hybrid(name, place, *more, output, expect=0):
    where = ("--configs", place / "configs", "--data", place / "text", "--output", output)
    return run("fairseq-hybrid", name, *more, *where, cwd=place, expect=expect)


@pytest.fixture(scope="module")
def reproduced(place):
    """The whole table, of which a row fails."""
    done = run("fairseq-hybrid", *arguments(place, "out"), cwd=place, expect=1)
    return place, done


def run_folder(place, row, output="out"):
    return place / output / "runs" / "full@text" / "toy" / "table1" / row / "bleu" / "seed1"


def test_a_failed_row_does_not_cost_the_others(reproduced):
    place, done = reproduced
    assert "toy/table1/broken/bleu/seed1: FAILED" in done.stdout
    assert "sideways" in done.stdout  # the program's own message
    assert "Not all was done" in done.stderr
    assert "broken" in done.stderr and "mixed" not in done.stderr
    assert "Traceback" not in done.stderr
    for row in ("plain", "mixed"):
        assert (run_folder(place, row) / "result.json").exists()
    assert not (run_folder(place, "broken") / "result.json").exists()


def test_a_system_that_is_two_rows_is_trained_once(reproduced):
    place, done = reproduced
    assert not run_folder(place, "same").exists()
    assert done.stdout.count("mixed/bleu/seed1: train: done") == 1


def test_table_shows_the_papers_numbers_and_ours(reproduced):
    place, _ = reproduced
    text = hybrid("table", place, "toy/table1", "--format", "csv", output="out").stdout
    cells = {(c["row"], c["column"]): c for c in csv.DictReader(io.StringIO(text))}
    results = {
        row: json.loads((run_folder(place, row) / "result.json").read_text())
        for row in ("plain", "mixed")
    }
    bleu = {row: result["scores"]["bleu"]["value"] for row, result in results.items()}
    assert float(cells["plain", "bleu"]["ours"]) == pytest.approx(bleu["plain"], abs=1e-4)
    for row in ("mixed", "same"):
        cell = cells[row, "bleu"]
        assert float(cell["ours"]) == pytest.approx(bleu["mixed"], abs=1e-4)
        assert float(cell["paper_difference"]) == 1.25
        assert float(cell["our_difference"]) == pytest.approx(
            bleu["mixed"] - bleu["plain"], abs=1e-4
        )
        assert 0 < float(cell["p_values"]) <= 1
        assert cell["seeds"] == "1"
        assert float(cell["interval"]) > 0 and cell["interval_over"] == "test set"
    for row, state in {
        "broken": "seed 1: begun (before its first update)",
        "others": "cited by the paper",
        "later": "not measured here: an LSTM on top",
    }.items():
        assert cells[row, "bleu"]["ours"] == ""
        assert cells[row, "bleu"]["state"] == state
    assert cells["plain", "aer"]["ours"] == ""
    assert cells["plain", "aer"]["paper"] == "20.0000"
    assert cells["plain", "aer"]["state"] == "not measured here: alignments"


def test_no_result_of_a_corpus_that_was_prepared_anew_meanwhile(reproduced):
    place, _ = reproduced
    own = OwnText(place / "text", "de", "en")
    profile = load_profile("full", place / "configs")
    workspace = Workspace(place / "out", place / "configs", profile, own)
    cells = load_table("toy/table1", place / "configs").cells()
    run = workspace.run(next(cell for cell in cells if cell.row.name == "plain"), 1)
    path = run.corpus_folder / "manifest.json"
    content = path.read_text()
    try:
        assert make_result(run, Devices("cpu"))["scores"]
        path.write_text(json.dumps({**json.loads(content), "digest": "another"}))
        with pytest.raises(UserError, match="is not the one that it was begun with"):
            make_result(run, Devices("cpu"))
        path.unlink()
        with pytest.raises(UserError, match="is not in .* any more"):
            make_result(run, Devices("cpu"))
    finally:
        path.write_text(content)


def test_printed_tables_say_that_levels_cannot_be_compared(reproduced):
    place, done = reproduced
    for text in (
        done.stdout,
        hybrid("table", place, "toy/table1", "--format", "markdown", output="out").stdout,
    ):
        assert "On another text (text): levels cannot be compared" in text
        assert "ours - paper" not in text
        assert "nrefs:1|case:mixed" in text


def test_score_is_what_sacrebleu_says_of_the_translation(reproduced):
    place, _ = reproduced
    folder = run_folder(place, "mixed")
    reference = place / "out/corpora/full@text/toy/raw/test.en"
    printed = subprocess.run(
        ["sacrebleu", reference, "-i", folder / "hypotheses.txt", "-b", "-w", "4"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(PATH=f"{Path(command('fairseq-hybrid')[0]).parent}:{os.environ['PATH']}"),
    )
    result = json.loads((folder / "result.json").read_text())
    assert float(printed.stdout) == round(result["scores"]["bleu"]["value"], 4)
    assert (place / "text/test.en").read_text() == reference.read_text()


def test_result_can_be_traced(reproduced):
    place, _ = reproduced
    result = json.loads((run_folder(place, "mixed") / "result.json").read_text())
    manifest = json.loads((place / "out/corpora/full@text/toy/manifest.json").read_text())
    assert result["name"] == "toy/table1/mixed/bleu/seed1"
    assert result["corpus"]["digest"] == manifest["digest"]
    assert result["updates"] == UPDATES
    assert result["settings"]["train"]["head-patterns"] == "global,local,forward,backward"
    assert {"torch", "sacrebleu", "python"} <= result["versions"].keys()
    # 1 + 1 layers of width 32: an independent count, with the dictionary's size.
    symbols = len((place / "out/corpora/full@text/toy/bin/dict.en.txt").read_text().split("\n")) + 3
    attention, ffn, norm = 4 * (32 * 32 + 32), 32 * 64 + 64 + 64 * 32 + 32, 2 * 32
    layers = (attention + ffn + 2 * norm) + (2 * attention + ffn + 3 * norm)
    assert result["parameters"] == symbols * 32 + layers
    train = result["commands"]["train"]
    assert train[train.index("--max-tokens") + 1] == "150"
    assert train[train.index("--update-freq") + 1] == "2"


def test_disk_holds_the_averaged_model_only(reproduced):
    place, _ = reproduced
    models = [path.name for path in run_folder(place, "mixed").rglob("*.pt")]
    assert models == ["model.pt"]


def test_running_again_does_nothing(reproduced):
    place, _ = reproduced

    def files():
        return {
            path: path.stat().st_mtime_ns
            for row in ("plain", "mixed")
            for path in run_folder(place, row).rglob("*")
            if path.name != ".lock"
        }

    before = files()
    done = run("fairseq-hybrid", *arguments(place, "out", "plain", "mixed"), cwd=place)
    assert files() == before
    assert "train: done" not in done.stdout


def test_what_has_changed_is_stale(reproduced, tmp_path):
    place, _ = reproduced
    assert re.search(r"mixed/bleu/seed1 .* done", hybrid("runs", place, output="out").stdout)
    configs = write_configs(
        tmp_path / "configs",
        **{"settings/toy.yaml": {**SETTINGS, "generate": {**SETTINGS["generate"], "beam": 3}}},
    )
    where = ("--configs", configs, "--data", place / "text", "--output", place / "out")
    shown = run("fairseq-hybrid", "runs", *where, cwd=place).stdout
    assert re.search(r"mixed/bleu/seed1 .* stale \(configuration changed\)", shown)
    printed = run("fairseq-hybrid", "table", "toy/table1", *where, cwd=place).stdout
    assert "†" in printed and "configuration changed" in printed
    # Another text in a folder of the same name.
    shutil.copytree(place / "text", tmp_path / "text")
    (tmp_path / "text/train.de").write_text((place / "text/train.de").read_text().upper())
    other = ("--configs", place / "configs", "--data", tmp_path / "text", "--output", place / "out")
    shown = run("fairseq-hybrid", "runs", *other, cwd=place).stdout
    assert re.search(r"mixed/bleu/seed1 .* stale \(data changed\)", shown)

    refused = run(
        *("fairseq-hybrid", "reproduce", "toy/table1", "mixed", *where),
        cwd=place,
        expect=1,
    )
    assert "--redo-stale" in refused.stderr
    assert (run_folder(place, "mixed") / "result.json").exists()


# --- stopped in the middle -----------------------------------------------------------------


def start(place, output):
    with open(place / f"{output}.log", "ab") as log:
        return subprocess.Popen(
            command("fairseq-hybrid", *arguments(place, output, "plain")),
            cwd=place,
            env=environment(),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for_checkpoint(process, folder, update):
    """Wait until training has passed an update and is at work on the next ones."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        reached = [
            int(path.stem.rpartition("_")[2]) for path in folder.glob("checkpoints/*_*_*.pt")
        ]
        if max(reached, default=0) >= update:
            return
        assert process.poll() is None, "ended before it was stopped"
        time.sleep(0.01)
    raise AssertionError(f"no checkpoint of update {update} in time")


def trainings(folder):
    """Processes that train into a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"fairseq_cli.train" in words and str(folder / "checkpoints").encode() in words:
            found.append(int(path.parent.name))
    return found


@pytest.mark.slow
def test_stopped_and_killed_it_comes_to_the_same_end(reproduced):
    place, _ = reproduced
    folder = run_folder(place, "plain", "stopped")

    process = start(place, "stopped")
    wait_for_checkpoint(process, folder, 25)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert trainings(folder) == []
    assert "Traceback" not in (place / "stopped.log").read_text()

    process = start(place, "stopped")
    wait_for_checkpoint(process, folder, 75)
    process.kill()
    for number in trainings(folder):
        os.kill(number, signal.SIGKILL)
    process.wait(60)
    # What a kill between two writes would leave: half a copy.
    last = folder / "checkpoints/checkpoint_last.pt"
    last.write_bytes(last.read_bytes()[:5000])

    done = run("fairseq-hybrid", *arguments(place, "stopped", "plain"), cwd=place)
    assert "checkpoint_last.pt was cut off; removed" in done.stdout
    undisturbed = run_folder(place, "plain")
    ours, theirs = (
        torch.load(path / "model.pt", map_location="cpu", weights_only=True)["model"]
        for path in (folder, undisturbed)
    )
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert (folder / "hypotheses.txt").read_bytes() == (undisturbed / "hypotheses.txt").read_bytes()


# --- mistakes ------------------------------------------------------------------------------


def test_mistakes_are_told_without_traceback(place, tmp_path):
    for words, said in [
        (["toy/table9"], "toy/table1"),
        (["toy/table1", "nonsense"], "its rows are: plain mixed"),
        (["toy/table1", "--columns", "ter"], "its columns are: bleu aer"),
        (["toy/table1", "--profile", "tiny"], "known are full"),
        (["toy/table1", "--data", "nowhere"], "no such folder"),
        (["toy/table1", "--seeds", "0"], "above 0"),
    ]:
        arguments = ("reproduce", "--configs", place / "configs", *words)
        done = run_forked("fairseq_hybrid_attn", arguments, tmp_path)
        assert done.returncode in (1, 2), words
        assert said in done.stderr and "Traceback" not in done.stderr, words
        assert not list(tmp_path.iterdir()), words
