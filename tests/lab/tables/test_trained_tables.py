"""Tables of systems that are trained from a text to the printed numbers: curves, gates, AER."""

import csv
import json
import re
import shutil

import pytest
import sacrebleu
from cli import USER_DIR, run
from made_runs import read_lines, write_lines
from workspaces import RECIPE, SETTINGS, write_configs, write_text
from written import scores_in

from fairseq_hybrid_attn.lab.run.training_log import read_log
from fairseq_hybrid_attn.lab.scores.metrics import build_metric
from fairseq_hybrid_attn.lab.scores.statistics import estimate

pytestmark = pytest.mark.slow

CURVE = {"run": "bleu", "curve": True}
ROWS = {row: {"run": f"toy/table1/{row}"} for row in ("plain", "taught")}
HEADS = ("head2", "head9", "average")
GATED = {"head-patterns": None, "arch": "transformer_hybrid_gate", "hybrid-layers": "all"}
TAUGHT = {
    **{"head-patterns": None, "arch": "transformer", "load-alignments": True},
    "criterion": "label_smoothed_cross_entropy_with_supervised_attention",
}
TABLE1 = {
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
            "checkpoints": {"curve": 1, "curve-on": "valid"},
            "train": GATED,
            "gates": {"gen-subset": "valid"},
        },
        "taught": {"train": TAUGHT},
        **{row: {**ROWS["plain"], "scores": {"aer": f"aer.{row}"}} for row in HEADS},
        "aligner": {"aligner": "eflomal"},
    },
}
FILES = {
    "corpora/toy.yaml": {**RECIPE, "subwords": {**RECIPE["subwords"], "size": 60}},
    "settings/toy.yaml": {
        **SETTINGS,
        "train": {**SETTINGS["train"], "max-update": 60},
        "checkpoints": {"unit": "update", "every": 30, "average": 2},
        "align": {"layer": "last", "head": "last"},
    },
    "toy/table1.yaml": TABLE1,
    "toy/figure1.yaml": {
        "title": "Toy curves",
        "columns": {
            "aer_curve": {**CURVE, "score": "aer"},
            "bleu_curve": {**CURVE, "score": "bleu"},
            "loss_curve": {**CURVE, "score": "valid_loss"},
            "gate": {"run": "bleu", "score": "gate"},
            "layer1": {"run": "bleu", "score": "gate.encoder.1"},
        },
        "rows": ROWS,
    },
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The test set again as a second one, in part, and as hand-aligned sentences."""
    folder = tmp_path_factory.mktemp("trained")
    text = folder / "text"
    write_text(text)
    for language in ("de", "en"):
        write_lines(text / f"test.second.{language}", read_lines(text / f"test.{language}")[:12])
        shutil.copy(text / f"test.{language}", text / f"gold.{language}")
    # The last word is aligned with the first, and so on; the target word comes first and words
    # count from 1.  The link of the first source word is only a possible one.
    counts = [len(sentence.split()) for sentence in read_lines(text / "test.de")]
    links = [" ".join(f"{n - i}{'-' if i else 'p'}{i + 1}" for i in range(n)) for n in counts]
    write_lines(text / "gold.align", links)
    (text / "gold.yaml").write_text("base: 1\nfirst: en\n")
    write_configs(folder / "configs", **FILES)
    return folder


def hybrid(place, *arguments, text="text", configs="configs", output="out", expect=0):
    """A command on this workspace; one that makes runs does so on the CPU."""
    where = ("--configs", place / configs, "--text", place / text, "--output", place / output)
    device = () if arguments[0] in ("table", "runs") else ("--device", "cpu")
    return run("fairseq-hybrid", *arguments, *where, *device, cwd=place, expect=expect)


@pytest.fixture(scope="module")
def reproduced(place):
    pytest.importorskip("eflomal")
    hybrid(place, "reproduce", "toy/table1", "--keep-checkpoints")
    return place


@pytest.fixture(scope="module")
def cells(reproduced):
    """The printed tables, by row, column and point of a curve."""
    names = ("toy/figure1", "toy/table1")
    found = []
    for name in names:
        hybrid(reproduced, "table", name, "--write", "table.csv")
        with open(reproduced / "table.csv", newline="") as file:
            found += csv.DictReader(file)
    return {(cell["row"], cell["column"], cell["at"]): cell for cell in found}


def near(value):
    return pytest.approx(value, abs=1e-4)


def number(cells, row, column, at=""):
    return float(cells[row, column, at]["ours"])


def run_folder(place, row):
    return place / "out/runs/full@text/toy/table1" / row / "bleu/seed1"


def prepared(place):
    """The prepared text of the runs."""
    [folder] = (place / "out/corpora").glob("toy-*")
    return folder


def read(path):
    return json.loads(path.read_text())


def test_error_rates_are_those_of_the_users_own_gold_file(reproduced, cells):
    text, out = reproduced / "text", reproduced / "by-hand.json"
    gold = ("--gold", text / "gold.align", "--gold-base", 1, "--gold-reversed")
    sides = ("--source", text / "gold.de", "--target", text / "gold.en")
    rows = {"plain": "gold.align", "taught": "gold.align", "aligner": "text/gold.words"}
    for row, links in rows.items():
        found = run_folder(reproduced, row) / links
        run("fairseq-hybrid", "aer", found, *gold, *sides, "--write", out, cwd=reproduced)
        rate = scores_in(out)["aer"]["value"]
        assert number(cells, row, "aer") == near(rate)
    # Of the aligner, by which each word is always translated by the same one:
    assert rate < 5
    assert cells["aligner", "aer", ""]["updates"] == "0"
    assert cells["plain", "aer", ""]["p"] == ""
    for row in ("taught", "head2", "average", "aligner"):
        assert 0 <= float(cells[row, "aer", ""]["p"]) <= 1 and cells[row, "aer", ""]["half"]
    # Heads and their average are rows.
    entries = read(run_folder(reproduced, "plain") / "alignment.json")["heads"]
    heads = {(entry["layer"], entry["head"]): entry["aer"] for entry in entries}
    assert len(heads) == 2 * 5  # one layer and the mean of layers, 4 heads and their mean
    for row, head in {"plain": 4, "head2": 2, "average": "average"}.items():
        assert number(cells, row, "aer") == near(heads[1, head])
    assert cells["head9", "aer", ""]["state"].endswith("has no aer.head9")
    assert "layer:last|head:2|" in cells["head2", "aer", ""]["signature"]


def test_scores_are_those_of_the_run(reproduced, cells):
    """Of two test sets, of the curve's set, which its row names, and of gates."""
    text, folder = reproduced / "text", run_folder(reproduced, "plain")
    hypotheses, references = read_lines(folder / "hypotheses.txt"), read_lines(text / "test.en")
    assert len(hypotheses) == 32
    for column, part in (("bleu", hypotheses[:20]), ("second", hypotheses[20:])):
        expected = sacrebleu.corpus_bleu(part, [references[: len(part)]]).score
        assert number(cells, "plain", column) == near(expected)
        assert 0 <= float(cells["taught", column, ""]["p"]) <= 1

    content, losses = read(folder / "curve.json"), read_log(folder / "logs/train.log").validation
    assert content["curve_set"] == "valid"
    assert [point["updates"] for point in content["curve"]] == [60]  # not 30, a checkpoint as well
    hypotheses = read_lines(folder / "curve/60/hypotheses.txt")
    expected = {
        "aer": scores_in(folder / "curve/60/alignment.json")["aer"]["value"],
        "bleu": sacrebleu.corpus_bleu(hypotheses, [read_lines(text / "valid.en")]).score,
        "loss": losses["valid"][60]["loss"],
    }
    shown = {name: number(cells, "plain", f"{name}_curve", "60") for name in expected}
    assert shown == near(expected)
    score = build_metric("bleu", "en").score(hypotheses, read_lines(text / "valid.en"))
    half = float(cells["plain", "bleu_curve", "60"]["half"])
    assert half == near(estimate((1, {1: score})).half)
    assert cells["plain", "loss_curve", "60"]["half"] == ""
    assert cells["taught", "bleu_curve", ""]["state"] == "its run has no curve"

    (model,) = read(folder / "gates.json")["models"]
    (first,) = [row for row in model["rows"] if row["layer"] == 1 and row["head"] is None]
    assert 0 < first["mean"] < 1
    assert number(cells, "plain", "gate") == near(model["share"])
    assert number(cells, "plain", "layer1") == near(first["mean"])
    signature = f"share|branch:local|positions:{first['positions']}"
    assert cells["plain", "layer1", ""]["signature"] == signature


def test_training_alignments_are_for_runs_that_need_them(reproduced):
    corpus = prepared(reproduced)
    assert not list((corpus / "bin").glob("*align*"))
    assert (corpus / "aligned/train.align.de-en.idx").is_file()
    assert (corpus / "aligned/train.de-en.de.bin").samefile(corpus / "bin/train.de-en.de.bin")
    links = read_lines(corpus / "aligned/train.align")
    assert len(links) == 200 and any(links)
    alignments = read(corpus / "manifest.json")["alignments"]
    for row, expected in {"plain": None, "taught": alignments}.items():
        folder = run_folder(reproduced, row)
        assert read(folder / "result.json")["corpus"].get("alignments") == expected
        assert ("attention_loss" in (folder / "logs/train.log").read_text()) == (row == "taught")


def test_an_aligner_is_shown_and_not_trained(place):
    shown = hybrid(place, "show", "toy/table1/aligner").stdout
    assert "align-training" in shown and "fairseq-train" not in shown
    hybrid(place, "train", "toy/table1/aligner", expect=1)


def test_checkpoints_scored_by_themselves_have_the_scores_of_the_run(reproduced):
    folder, corpus = run_folder(reproduced, "plain"), prepared(reproduced)
    text, log = reproduced / "text", reproduced / "scored/60/logs/translate.log"
    settings = "--task translation_gnmt --beam 2 --gnmt-lenpen 0.6 --max-len-a 1 --max-len-b 5"

    def scored(reference=text / "valid.en", how=settings, expect=0):
        return run(
            *("fairseq-hybrid", "score-checkpoints", corpus / "bin", folder / "checkpoints"),
            *("--reference", reference, "--target-lang", "en", "--every", 60, "--device", "cpu"),
            *("--subwords", "subword-nmt", "--tokenizer", "moses"),
            *(f"--generate={how}", "--output", "scored"),
            cwd=reproduced,
            expect=expect,
        )

    scored()
    found, theirs = read(reproduced / "scored/curve.json"), read(folder / "curve.json")
    (point,), other = found["curve"], theirs["curve"][-1]
    assert found["curve_set"] == theirs["curve_set"] == "valid"
    assert point["updates"] == other["updates"] == 60
    assert point["scores"]["bleu"] == other["scores"]["bleu"]
    before = log.read_bytes()
    write_lines(reproduced / "short.en", ["one"])
    scored(reference=reproduced / "short.en", expect=1)
    assert log.read_bytes() == before  # nothing was translated again
    # With other settings all is; here the program fails.
    assert "translate.log" in scored(how="--beam none", expect=1).stderr
    assert log.read_bytes() != before


def test_losses_by_sentence_add_up_to_those_of_fairseq(reproduced):
    binary, out = prepared(reproduced) / "bin", reproduced / "losses.json"
    validate = ("fairseq-validate", binary, "--user-dir", USER_DIR, "--valid-subset", "valid")
    for row in ("plain", "taught"):
        (model,) = run_folder(reproduced, row).glob("checkpoints/checkpoint_*_60.pt")
        how = ("--task", "translation_resumable", "--required-batch-size-multiple", 1, "--cpu")
        said = run(*validate, "--path", model, *how, "--max-tokens", 300, cwd=reproduced)
        (loss,) = re.findall(r"valid on .* loss ([0-9.]+) ", said.stdout + said.stderr)
        command = ("fairseq-hybrid", "losses", f"{row}={model}", "--device", "cpu")
        run(*command, "--write", out, cwd=reproduced)
        found = scores_in(out)["loss"]
        assert len(found["counts"]["rows"]) == 20
        assert found["value"] == pytest.approx(float(loss), abs=6e-4)
