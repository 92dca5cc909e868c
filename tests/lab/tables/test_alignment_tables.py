"""Alignment error rates in tables: a small table from text to print, on reversed sentences."""

import csv
import io
import json
import shutil

import pytest
import sacrebleu
from cli import run
from workspaces import SETTINGS, write_configs, write_text

UPDATES = 60
WITH_AER = {
    **SETTINGS,
    "train": {**SETTINGS["train"], "arch": "transformer", "max-update": UPDATES},
    "checkpoints": {"unit": "update", "every": 10, "average": 2},
    "align": {"layer": "last", "head": "last"},
}
del WITH_AER["train"]["head-patterns"]
FILES = {
    "settings/toy.yaml": WITH_AER,
    "toy/table1.yaml": {
        "title": "Toy alignments",
        "extends": "toy",
        "baseline": "plain",
        "columns": {
            "aer": {"score": "aer", "run": "bleu"},
            "bleu": {},
            "second": {"score": "bleu.second", "run": "bleu"},
        },
        "rows": {
            "plain": {
                "checkpoints": {"curve": 2},
                "paper": {"aer": 28.2, "bleu": 25.5, "second": 20.0},
            },
            "taught": {
                "train": {
                    "criterion": "label_smoothed_cross_entropy_with_supervised_attention",
                    "load-alignments": True,
                },
                "paper": {"aer": 21.5, "bleu": 23.5, "second": 21.0},
            },
            **{
                name: {
                    "run": "toy/table1/plain",
                    "scores": {"aer": f"aer.{name}"},
                    "paper": {"aer": 30.0},
                }
                for name in ("head2", "average", "head9")
            },
            "aligner": {"aligner": "eflomal", "paper": {"aer": 19.3}},
        },
    },
    "toy/figure2.yaml": {
        "title": "Toy curves",
        "columns": {
            "aer_curve": {"score": "aer", "curve": True, "run": "bleu"},
            "bleu_curve": {"score": "bleu", "curve": True, "run": "bleu"},
        },
        "rows": {"plain": {"run": "toy/table1/plain"}},
    },
    "toy/table7.yaml": {
        "title": "Toy text without gold",
        "extends": "toy",
        "columns": {
            "aer": {"score": "aer", "run": "bleu"},
            "bleu": {},
            "second": {"score": "bleu.second", "run": "bleu"},
        },
        "rows": {"plain": {"train": {"max-update": 20}}, "aligner": {"aligner": "eflomal"}},
    },
}


def write_gold(folder):
    """The test set again, aligned word by word: the last with the first, and so on.

    The target word comes first and words count from 1; the link of the first source word is only a
    possible one.
    """
    sentences = (folder / "test.de").read_text().splitlines()
    for language in ("de", "en"):
        shutil.copy(folder / f"test.{language}", folder / f"gold.{language}")
    links = []
    for sentence in sentences:
        count = len(sentence.split(" "))
        links.append(" ".join(f"{count - i}{'-' if i else 'p'}{i + 1}" for i in range(count)))
    (folder / "gold.align").write_text("\n".join(links) + "\n")
    (folder / "gold.yaml").write_text("base: 1\nfirst: en\n")


def write_second_test_set(folder):
    """A part of the first, in which a model need not be as good as in all of it."""
    for language in ("de", "en"):
        lines = (folder / f"test.{language}").read_text().splitlines(keepends=True)
        (folder / f"test.second.{language}").write_text("".join(lines[:12]))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aligned")
    write_text(folder / "text")
    write_gold(folder / "text")
    write_second_test_set(folder / "text")
    write_configs(folder / "configs", **FILES)
    return folder


def where(place, text="text", output="out"):
    return ("--configs", place / "configs", "--data", place / text, "--output", place / output)


@pytest.fixture(scope="module")
def reproduced(place):
    pytest.importorskip("eflomal")
    command = ("fairseq-hybrid", "reproduce", "toy/table1", "toy/figure2")
    done = run(*command, *where(place), "--device", "cpu", cwd=place)
    return place, done


@pytest.fixture(scope="module")
def cells(reproduced):
    """The printed table, by row and column."""
    return {(c["row"], c["column"]): c for c in table(reproduced[0], "toy/table1")}


def table(place, name, **which):
    command = ("fairseq-hybrid", "table", name, "--format", "csv")
    text = run(*command, *where(place, **which), cwd=place).stdout
    return list(csv.DictReader(io.StringIO(text)))


def result(place, row, name="result.json", label="full@text"):
    return json.loads(
        (place / "out/runs" / label / "toy/table1" / row / "bleu/seed1" / name).read_text()
    )


def aer_by_hand(place, row, links="gold.align"):
    """By the command, from the user's own gold file and text."""
    text, out = place / "text", place / f"by-hand-{row}.json"
    folder = place / "out/runs/full@text/toy/table1" / row / "bleu/seed1"
    run(
        *("fairseq-hybrid", "aer", folder / links, "--gold", text / "gold.align"),
        *("--gold-base", 1, "--gold-reversed", "--source", text / "gold.de"),
        *("--target", text / "gold.en", "--json", out),
        cwd=place,
    )
    (rates,) = json.loads(out.read_text())["alignments"].values()
    return rates


def test_error_rates_stand_in_the_table(reproduced, cells):
    place, _ = reproduced
    for row, links in {"plain": "gold.align", "taught": "gold.align"}.items():
        expected = aer_by_hand(place, row, links)["aer"]
        assert float(cells[row, "aer"]["ours"]) == pytest.approx(expected, abs=1e-4)
    expected = aer_by_hand(place, "aligner", "text/gold.words")["aer"]
    assert float(cells["aligner", "aer"]["ours"]) == pytest.approx(expected, abs=1e-4)
    assert expected < 5  # each word is always translated by the same one
    assert cells["aligner", "aer"]["updates"] == "0"


def test_heads_and_their_average_are_rows(reproduced, cells):
    place, _ = reproduced
    heads = {
        (entry["layer"], entry["head"]): entry["aer"]
        for entry in result(place, "plain", "alignment.json")["table"]
    }
    assert len(heads) == 2 * 5  # one layer and the mean of layers, 4 heads and their mean
    for row, head in {"plain": 4, "head2": 2, "average": "average"}.items():
        assert float(cells[row, "aer"]["ours"]) == pytest.approx(heads[1, head], abs=1e-4)
    assert cells["head9", "aer"]["ours"] == ""
    assert cells["head9", "aer"]["state"].endswith("has no aer.head9")
    assert "layer:last|head:2|" in cells["head2", "aer"]["signature"]
    assert "sentences:20|" in cells["head2", "aer"]["signature"]


def test_differences_are_tested_on_the_sentences(cells):
    assert cells["plain", "aer"]["p_values"] == ""
    for row in ("taught", "head2", "average", "aligner"):
        assert 0 < float(cells[row, "aer"]["p_values"]) <= 1
        assert cells[row, "aer"]["interval_over"] == "test set"
    assert float(cells["plain", "aer"]["interval"]) > 0


def test_a_second_test_set_has_scores_of_its_own(reproduced, cells):
    place, _ = reproduced
    folder = place / "out/runs/full@text/toy/table1/plain/bleu/seed1"
    hypotheses = (folder / "hypotheses.txt").read_text().splitlines()
    references = (place / "text/test.en").read_text().splitlines()
    assert len(hypotheses) == 32 and len(references) == 20
    for column, part, count in (("bleu", hypotheses[:20], 20), ("second", hypotheses[20:], 12)):
        expected = sacrebleu.corpus_bleu(part, [references[:count]]).score
        assert float(cells["plain", column]["ours"]) == pytest.approx(expected, abs=1e-4)
        assert 0 < float(cells["taught", column]["p_values"]) <= 1
        assert float(cells["plain", column]["interval"]) >= 0
    assert cells["plain", "second"]["score"] == "bleu.second"


def test_curve_has_every_checkpoint_it_should(reproduced):
    place, done = reproduced
    lines = table(place, "toy/figure2")
    assert [(c["column"], c["at"]) for c in lines] == [
        ("aer_curve", "30"),
        ("aer_curve", "60"),
        ("bleu_curve", "30"),
        ("bleu_curve", "60"),
    ]
    curve = result(place, "plain")["curve"]
    for line in lines:
        (point,) = [p for p in curve if p["updates"] == int(line["at"])]
        score = line["column"].partition("_")[0]
        assert float(line["ours"]) == pytest.approx(point["scores"][score]["value"], abs=1e-4)
    assert lines[0]["ours"] != lines[1]["ours"]
    assert "updates" in done.stdout and "Toy curves" in done.stdout
    # The checkpoints themselves have gone with the others.
    folder = place / "out/runs/full@text/toy/table1/plain/bleu/seed1"
    assert [path.name for path in folder.rglob("*.pt")] == ["model.pt"]


def test_training_alignments_are_for_those_that_ask(reproduced):
    place, _ = reproduced
    corpus = place / "out/corpora/full@text/toy"
    assert not list((corpus / "bin").glob("*align*"))
    assert (corpus / "aligned/train.align.de-en.idx").is_file()
    assert (corpus / "aligned/train.de-en.de.bin").samefile(corpus / "bin/train.de-en.de.bin")
    links = (corpus / "aligned/train.align").read_text().splitlines()
    assert len(links) == 200 and any(links)
    manifest = json.loads((corpus / "manifest.json").read_text())
    for row, expected in {"plain": None, "taught": manifest["alignments"]}.items():
        assert result(place, row)["corpus"].get("alignments") == expected
        log = place / f"out/runs/full@text/toy/table1/{row}/bleu/seed1/logs/train.log"
        assert ("attention_loss" in log.read_text()) == (row == "taught")
    assert result(place, "taught")["corpus"]["gold"]["sentences"] == 20


def test_other_training_alignments_make_a_taught_run_stale_alone(reproduced, tmp_path):
    place, _ = reproduced
    shutil.copytree(place / "out", tmp_path / "out", symlinks=True)
    path = tmp_path / "out/corpora/full@text/toy/manifest.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "alignments": "other"}), encoding="utf-8"
    )
    flags = ("--configs", place / "configs", "--data", place / "text", "--output", tmp_path / "out")
    shown = run("fairseq-hybrid", "runs", *flags, cwd=place).stdout
    states = {line.split()[1].split("/")[2]: line for line in shown.splitlines() if "toy/" in line}
    assert "data changed" in states["taught"]
    assert f"{result(place, 'plain')['scores']['aer']['value']:.2f}" in states["plain"].split()
    assert "stale" not in states["plain"]


def test_again_nothing_is_done(reproduced):
    place, _ = reproduced
    command = ("fairseq-hybrid", "reproduce", "toy/table1")
    done = run(*command, *where(place), "--device", "cpu", cwd=place)
    assert "done in" not in done.stdout


def test_commands_are_shown(reproduced):
    place, _ = reproduced
    flags = where(place)
    shown = run("fairseq-hybrid", "show", "toy/table1/taught", "--column", "aer", *flags, cwd=place)
    assert "corpora/full@text/toy/aligned \\" in shown.stdout
    assert "fairseq-hybrid align" in shown.stdout and "--head last" in shown.stdout
    shown = run("fairseq-hybrid", "show", "toy/table1/aligner", *flags, cwd=place).stdout
    assert "align-training" in shown and "fairseq-train" not in shown


def test_an_aligner_is_no_training(reproduced):
    place, _ = reproduced
    flags = (*where(place), "--device", "cpu")
    done = run("fairseq-hybrid", "train", "toy/table1/aligner", *flags, cwd=place, expect=1)
    assert "is no training" in done.stderr and "Traceback" not in done.stderr


def test_text_without_gold_is_told_and_costs_nothing_else(place):
    shutil.copytree(
        place / "text", place / "bare", ignore=shutil.ignore_patterns("gold.*", "*second*")
    )
    flags = (*where(place, text="bare"), "--device", "cpu")
    done = run("fairseq-hybrid", "reproduce", "toy/table7", *flags, cwd=place, expect=1)
    assert "without hand-aligned sentences: no alignment error rate" in done.stdout
    assert "eflomal is measured by hand-aligned sentences" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    cells = {(c["row"], c["column"]): c for c in table(place, "toy/table7", text="bare")}
    assert cells["plain", "aer"]["state"] == "its text has no gold alignment"
    assert cells["plain", "second"]["state"] == "its text has no test set second"
    assert cells["plain", "bleu"]["ours"] != ""
