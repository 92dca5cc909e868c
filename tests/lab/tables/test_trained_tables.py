"""Tables of systems that are trained from a text to the printed numbers: curves, gates, AER."""

import csv
import io
import json
import shutil

import pytest
import sacrebleu
from cli import run
from made_runs import write_lines
from workspaces import RECIPE, SETTINGS, write_configs, write_text

from fairseq_hybrid_attn.lab.text.training_log import read_log

pytestmark = pytest.mark.slow

CURVE = {"run": "bleu", "curve": True}
SUPERVISED = "label_smoothed_cross_entropy_with_supervised_attention"
NO_PATTERNS = {"head-patterns": None}
ROWS = {row: {"run": f"toy/table1/{row}"} for row in ("plain", "taught")}
AER_COLUMNS = {
    "aer": {"score": "aer", "run": "bleu"},
    "bleu": {},
    "second": {"score": "bleu.second", "run": "bleu"},
}
FILES = {
    "corpora/toy.yaml": {**RECIPE, "subwords": {**RECIPE["subwords"], "size": 60}},
    "settings/toy.yaml": {
        **SETTINGS,
        "train": {**SETTINGS["train"], "max-update": 60},
        "checkpoints": {"unit": "update", "every": 10, "average": 2, "curve": 2},
        "align": {"layer": "last", "head": "last"},
    },
    "toy/table1.yaml": {
        "title": "Toy alignments",
        "extends": "toy",
        "baseline": "plain",
        "columns": AER_COLUMNS,
        "rows": {
            "plain": {
                "checkpoints": {"curve-on": "valid"},
                "train": {
                    **NO_PATTERNS,
                    **{"arch": "transformer_hybrid_gate", "hybrid-layers": "all"},
                },
                "gates": {"gen-subset": "valid"},
                "paper": {"aer": 28.2, "bleu": 25.5, "second": 20.0},
            },
            "taught": {
                "train": {
                    **{**NO_PATTERNS, "arch": "transformer"},
                    **{"criterion": SUPERVISED, "load-alignments": True},
                },
            },
            **{
                name: {
                    "run": "toy/table1/plain",
                    "scores": {"aer": f"aer.{name}"},
                    "paper": {"aer": 30.0},
                }
                for name in ("head2", "head9", "average")
            },
            "aligner": {"aligner": "eflomal", "paper": {"aer": 19.3}},
        },
    },
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
    "toy/table7.yaml": {
        "title": "Toy text without gold",
        "extends": "toy",
        "columns": AER_COLUMNS,
        "rows": {"aligner": {"aligner": "eflomal"}},
    },
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    text = folder / "text"
    write_text(text)
    write_gold(text)
    for language in ("de", "en"):  # a part of the first test set
        write_lines(text / f"test.second.{language}", lines(text / f"test.{language}")[:12])
    write_configs(folder / "configs", **FILES)
    return folder


def write_gold(folder):
    """The test set again, aligned word by word: the last with the first, and so on.

    The target word comes first and words count from 1; the link of the first source word is only a
    possible one.
    """
    for language in ("de", "en"):
        shutil.copy(folder / f"test.{language}", folder / f"gold.{language}")
    counts = [len(sentence.split(" ")) for sentence in lines(folder / "test.de")]
    links = [" ".join(f"{n - i}{'-' if i else 'p'}{i + 1}" for i in range(n)) for n in counts]
    write_lines(folder / "gold.align", links)
    (folder / "gold.yaml").write_text("base: 1\nfirst: en\n")


def hybrid(place, *arguments, text="text", configs="configs", output="out", expect=0):
    """A command on this workspace; one that makes runs does so on the CPU."""
    where = ("--configs", place / configs, "--data", place / text, "--output", place / output)
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
    printed = [
        hybrid(reproduced, "table", name, "--format", "csv").stdout
        for name in ("toy/figure1", "toy/table1")
    ]
    found = [cell for text in printed for cell in csv.DictReader(io.StringIO(text))]
    return {(cell["row"], cell["column"], cell["at"]): cell for cell in found}


def lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def run_folder(place, row):
    return place / "out/runs/full@text/toy/table1" / row / "bleu/seed1"


def read(path):
    return json.loads(path.read_text())


def aer_by_hand(place, row, links):
    """By the command, from the user's own gold file and text."""
    text, out = place / "text", place / f"by-hand-{row}.json"
    run(
        *("fairseq-hybrid", "aer", run_folder(place, row) / links, "--gold", text / "gold.align"),
        *("--gold-base", 1, "--gold-reversed", "--source", text / "gold.de"),
        *("--target", text / "gold.en", "--json", out),
        cwd=place,
    )
    (rates,) = read(out)["alignments"].values()
    return rates["aer"]


def test_error_rates_stand_in_the_table(reproduced, cells):
    rows = {"plain": "gold.align", "taught": "gold.align", "aligner": "text/gold.words"}
    for row, links in rows.items():
        expected = aer_by_hand(reproduced, row, links)
        assert float(cells[row, "aer", ""]["ours"]) == pytest.approx(expected, abs=1e-4)
    assert expected < 5  # the aligner's: each word is always translated by the same one
    assert cells["aligner", "aer", ""]["updates"] == "0"
    assert cells["plain", "aer", ""]["p_values"] == ""
    for row in ("taught", "head2", "average", "aligner"):
        assert 0 < float(cells[row, "aer", ""]["p_values"]) <= 1
        assert cells[row, "aer", ""]["interval_over"] == "test set"
    assert float(cells["plain", "aer", ""]["interval"]) > 0


def test_heads_and_their_average_are_rows(reproduced, cells):
    entries = read(run_folder(reproduced, "plain") / "alignment.json")["table"]
    heads = {(entry["layer"], entry["head"]): entry["aer"] for entry in entries}
    assert len(heads) == 2 * 5  # one layer and the mean of layers, 4 heads and their mean
    for row, head in {"plain": 4, "head2": 2, "average": "average"}.items():
        assert float(cells[row, "aer", ""]["ours"]) == pytest.approx(heads[1, head], abs=1e-4)
    assert cells["head9", "aer", ""]["ours"] == ""
    assert cells["head9", "aer", ""]["state"].endswith("has no aer.head9")
    assert "layer:last|head:2|" in cells["head2", "aer", ""]["signature"]
    assert "sentences:20|" in cells["head2", "aer", ""]["signature"]


def test_a_second_test_set_has_scores_of_its_own(reproduced, cells):
    hypotheses = lines(run_folder(reproduced, "plain") / "hypotheses.txt")
    references = lines(reproduced / "text/test.en")
    assert len(hypotheses) == 32 and len(references) == 20
    for column, part, count in (("bleu", hypotheses[:20], 20), ("second", hypotheses[20:], 12)):
        expected = sacrebleu.corpus_bleu(part, [references[:count]]).score
        assert float(cells["plain", column, ""]["ours"]) == pytest.approx(expected, abs=1e-4)
        assert 0 < float(cells["taught", column, ""]["p_values"]) <= 1


def test_curves_are_of_the_test_set_or_of_the_development_set(reproduced, cells):
    for row, subset in {"plain": "valid", "taught": "test"}.items():
        folder = run_folder(reproduced, row)
        assert read(folder / "curve.json")["curve_set"] == subset
        log = read_log(folder / "logs/train.log").validation["valid"]
        curve = {
            point["updates"]: point["scores"] for point in read(folder / "curve.json")["curve"]
        }
        assert sorted(curve) == [30, 60]
        for at, scores in curve.items():
            hypotheses = lines(folder / f"curve/{at}/hypotheses.txt")
            reference = lines(reproduced / f"text/{subset}.en")
            expected = sacrebleu.corpus_bleu(hypotheses[: len(reference)], [reference]).score
            shown = {
                name: float(cells[row, f"{name}_curve", str(at)]["ours"])
                for name in ("aer", "bleu", "loss")
            }
            assert shown == pytest.approx(
                {"aer": scores["aer"]["value"], "bleu": expected, "loss": log[at]["loss"]}, abs=1e-4
            )
    assert cells["plain", "bleu", ""]["ours"] != cells["plain", "bleu_curve", "60"]["ours"]


def test_gates_are_those_of_the_model(reproduced, cells):
    run(
        *("fairseq-hybrid", "gates", reproduced / "out/corpora/full@text/toy/bin"),
        *("--path", run_folder(reproduced, "plain") / "model.pt", "--gen-subset", "valid"),
        *("--subwords", "subword-nmt", "--cpu", "--json", reproduced / "gates.json"),
        cwd=reproduced,
    )
    (model,) = read(reproduced / "gates.json")["models"]
    (first,) = [row for row in model["rows"] if row["layer"] == 1 and row["head"] is None]
    assert 0 < first["mean"] < 1
    gate, layer = (cells["plain", column, ""] for column in ("gate", "layer1"))
    assert float(gate["ours"]) == pytest.approx(model["share"], abs=1e-4)
    assert float(layer["ours"]) == pytest.approx(first["mean"], abs=1e-4)
    assert layer["signature"] == f"share|branch:local|positions:{first['positions']}"


def test_training_alignments_are_for_those_that_ask(reproduced):
    corpus = reproduced / "out/corpora/full@text/toy"
    assert not list((corpus / "bin").glob("*align*"))
    assert (corpus / "aligned/train.align.de-en.idx").is_file()
    assert (corpus / "aligned/train.de-en.de.bin").samefile(corpus / "bin/train.de-en.de.bin")
    links = lines(corpus / "aligned/train.align")
    assert len(links) == 200 and any(links)
    manifest = read(corpus / "manifest.json")
    for row, expected in {"plain": None, "taught": manifest["alignments"]}.items():
        folder = run_folder(reproduced, row)
        assert read(folder / "result.json")["corpus"].get("alignments") == expected
        assert ("attention_loss" in (folder / "logs/train.log").read_text()) == (row == "taught")
    assert (
        read(run_folder(reproduced, "taught") / "result.json")["corpus"]["gold"]["sentences"] == 20
    )


def test_what_is_stale_is_kept_until_it_can_be_done_again(reproduced):
    """Other alignments of the training text concern the run that was taught with them, alone."""
    path = reproduced / "out/corpora/full@text/toy/manifest.json"
    result = run_folder(reproduced, "taught") / "result.json"
    before, made_with = path.read_text(), read(result)
    changed = {**made_with, "identity": {**made_with["identity"], "code": "other"}}
    redo = ("reproduce", "toy/table1", "taught", "--redo-stale", "--prepare-only")
    try:
        path.write_text(json.dumps({**json.loads(before), "alignments": "other"}))
        shown = hybrid(reproduced, "runs").stdout.splitlines()
        path.write_text(before)
        result.write_text(json.dumps(changed))
        assert "stale" in hybrid(reproduced, *redo).stdout and read(result) == changed
    finally:
        path.write_text(before)
        result.write_text(json.dumps(made_with))
    states = {row: line for line in shown for row in ROWS if f"table1/{row}/" in line}
    assert "data changed" in states["taught"] and "stale" not in states["plain"]
    aer = read(run_folder(reproduced, "plain") / "result.json")["scores"]["aer"]["value"]
    assert f"{aer:.2f}" in states["plain"].split()
    assert "done in" not in hybrid(reproduced, "reproduce", "toy/table1").stdout


def test_commands_are_shown(place):
    shown = hybrid(place, "show", "toy/table1/taught", "--column", "aer").stdout
    assert "corpora/full@text/toy/aligned \\" in shown
    assert "fairseq-hybrid align" in shown and "--head last" in shown
    shown = hybrid(place, "show", "toy/table1/aligner").stdout
    assert "align-training" in shown and "fairseq-train" not in shown
    done = hybrid(place, "train", "toy/table1/aligner", expect=1)
    assert "is no" in done.stderr and "Traceback" not in done.stderr


def test_checkpoints_scored_by_themselves_have_the_scores_of_the_run(reproduced):
    folder, corpus = run_folder(reproduced, "plain"), reproduced / "out/corpora/full@text/toy"
    settings = "--task translation_gnmt --beam 2 --gnmt-lenpen 0.6 --max-len-a 1 --max-len-b 5"
    command = [
        *("score-checkpoints", corpus / "bin", folder / "checkpoints"),
        *("--reference", reproduced / "text/valid.en", "--target-lang", "en", "--cpu"),
        *("--subwords", "subword-nmt", "--tokenizer", "moses", "--every", 30),
        *(f"--generate={settings}", "--output", "scored"),
    ]

    def scored(*more, expect=0, words=command):
        return run("fairseq-hybrid", *words, *more, cwd=reproduced, expect=expect)

    printed = scored().stdout
    found, theirs = read(reproduced / "scored/curve.json"), read(folder / "curve.json")
    for point, other in zip(found["curve"], theirs["curve"], strict=True):
        assert point["updates"] == other["updates"]
        assert point["scores"]["bleu"] == other["scores"]["bleu"]
    assert found["curve_set"] == "valid" and "update 60: BLEU" in printed
    # Again, nothing is translated; with other settings, all is.
    log = reproduced / "scored/60/logs/translate.log"
    before = log.stat().st_size
    assert scored().stdout == printed
    assert log.stat().st_size == before
    # Scored otherwise, or after a mistake about the reference, none is translated again.
    (reproduced / "short.en").write_text("one\n")
    wrong = [
        reproduced / "short.en" if word == reproduced / "text/valid.en" else word
        for word in command
    ]
    assert "the reference has 1 lines" in scored(words=wrong, expect=1).stderr
    assert "update 60: tokenised BLEU" in scored("--score", "tokenised_bleu").stdout
    assert log.stat().st_size == before
    other = [word if "=" not in str(word) else "--generate=--beam 1" for word in command]
    scored("--every", 60, words=other)
    assert log.stat().st_size > before
    # A program that fails, and no checkpoints.
    failed = scored("--gen-subset", "dev", "--every", 60, words=other, expect=1).stderr
    assert "fairseq-generate ended" in failed and "translate.log" in failed
    (reproduced / "none").mkdir()
    command[2] = reproduced / "none"
    assert "--save-interval-updates" in scored(expect=1).stderr


def test_text_without_gold_is_told(place):
    ignore = shutil.ignore_patterns("gold.*", "*second*")
    shutil.copytree(place / "text", place / "bare", ignore=ignore)
    done = hybrid(place, "reproduce", "toy/table7", text="bare", expect=1)
    assert "without hand-aligned sentences: no alignment error rate" in done.stdout
    assert "eflomal is measured by hand-aligned sentences" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_columns_that_share_a_corpus_want_the_same_one(place):
    """The user's text in two sizes would be prepared in the first, and trained on in both."""
    content = {**FILES["toy/table1.yaml"], "rows": {"taught": {}}, "baseline": None}
    content["columns"] = {"few": {"subword-size": 40}, "many": {"subword-size": 60}}
    write_configs(place / "other", **{**FILES, "toy/table1.yaml": content})
    changed = {"configs": "other", "output": "two"}
    done = hybrid(place, "reproduce", "toy/table1", "--prepare-only", **changed, expect=1)
    assert "corpus toy: not prepared" in done.stderr
    assert "other pairs or subword-size" in done.stdout
    assert not (place / "two/corpora/full@text/toy/bin").exists()
