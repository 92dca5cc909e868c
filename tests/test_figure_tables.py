"""Tables that are figures, BLEU by source length and learning curves, of a run from its text."""

import csv
import io
import json
import shutil

import pytest
from cli import run
from sacrebleu.metrics import BLEU
from test_reproduce import SETTINGS, write_configs, write_text

from fairseq_hybrid_attn.training_log import read_log

WIDE, CURVE = {"run": "bleu", "score": "bleu"}, {"run": "bleu", "curve": True}
FILES = {
    "settings/toy.yaml": {
        **SETTINGS,
        "train": {**SETTINGS["train"], "max-update": 60},
        "checkpoints": {"unit": "update", "every": 10, "average": 2},
    },
    "toy/table1/table.yaml": {
        "title": "Toy",
        "extends": "toy",
        "columns": {"bleu": {}},
        "rows": ["plain", "twin"],
    },
    "toy/table1/plain.yaml": {"checkpoints": {"curve": 2, "curve-on": "valid"}},
    "toy/table1/twin.yaml": {},
    "toy/figure1/table.yaml": {
        "title": "Toy curves",
        "columns": {
            "bleu": {},
            "bleu_curve": {**CURVE, "score": "bleu"},
            "loss_curve": {**CURVE, "score": "valid_loss"},
            "final_loss": {"run": "bleu", "score": "valid_loss"},
        },
        "rows": ["plain", "twin"],
    },
    "toy/figure2/table.yaml": {
        "title": "Toy lengths",
        "baseline": "plain",
        "columns": {
            "short": {**WIDE, "source-words": [0, 5]},
            "middle": {**WIDE, "source-words": [5, 9]},
            "long": {**WIDE, "source-words": [9, None]},
            "longer": {**WIDE, "source-words": [50, None]},
            "all": {**WIDE, "source-words": [0, None]},
        },
        "rows": ["plain", "twin"],
    },
    **{
        f"toy/{figure}/{row}.yaml": {"run": f"toy/table1/{row}"}
        for figure in ("figure1", "figure2")
        for row in ("plain", "twin")
    },
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The row "plain" as it was run; "twin" is the same with half of its translations right."""
    folder = tmp_path_factory.mktemp("figures")
    write_text(folder / "text")
    configs = write_configs(folder / "configs", **FILES)
    for stray in ("mixed", "broken", "same", "others", "later"):
        (configs / f"toy/table1/{stray}.yaml").unlink()
    command = ("fairseq-hybrid", "reproduce", "toy/table1", "plain", "--device", "cpu")
    for what in ("--prepare-only", "--keep-checkpoints"):
        run(*command, what, *where(folder), cwd=folder)
    plain, twin = run_folder(folder), run_folder(folder, "twin")
    shutil.copytree(plain, twin)
    ours, right = lines(plain / "hypotheses.txt"), lines(folder / "text/test.en")
    (twin / "hypotheses.txt").write_text("\n".join(right[:10] + ours[10:]) + "\n")
    result = json.loads((twin / "result.json").read_text())
    del result["curve"]
    (twin / "result.json").write_text(json.dumps(result))
    return folder


def where(folder):
    flags = ("--configs", "configs", "--data", "text", "--output", "out")
    return [folder / flag if number % 2 else flag for number, flag in enumerate(flags)]


def run_folder(folder, row="plain"):
    return folder / "out/runs/full@text/toy/table1" / row / "bleu/seed1"


def lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def table(place, name, *more):
    command = ("fairseq-hybrid", "table", name, "--format", "csv", *more)
    text = run(*command, *where(place), cwd=place).stdout
    return list(csv.DictReader(io.StringIO(text)))


def test_groups_are_scored_as_corpora_of_their_own(place):
    cells = {(c["row"], c["column"]): c for c in table(place, "toy/figure2", "--figure", "f.png")}
    source, reference = (lines(place / f"text/test.{side}") for side in ("de", "en"))
    bounds = {"short": (0, 5), "middle": (5, 9), "long": (9, 99), "all": (0, 99)}
    sizes = {}
    for row in ("plain", "twin"):
        hypotheses = lines(run_folder(place, row) / "hypotheses.txt")
        for column, (low, high) in bounds.items():
            chosen = [n for n, line in enumerate(source) if low < len(line.split()) <= high]
            expected = BLEU().corpus_score(
                [hypotheses[n] for n in chosen], [[reference[n] for n in chosen]]
            )
            cell = cells[row, column]
            assert float(cell["ours"]) == pytest.approx(expected.score, abs=1e-4)
            assert cell["signature"].endswith(f"|sentences:{len(chosen)}")
            sizes[column] = len(chosen)
            assert float(cell["interval"]) > 0 and cell["interval_over"] == "test set"
        assert cells[row, "longer"]["ours"] == ""
        assert cells[row, "longer"]["state"] == "no such sentences"
    assert sizes["short"] + sizes["middle"] + sizes["long"] == sizes["all"] == len(source)
    assert cells["plain", "all"]["p_values"] == ""
    assert 0 < float(cells["twin", "all"]["p_values"]) < 0.05
    result = json.loads((run_folder(place) / "result.json").read_text())
    whole = result["scores"]["bleu"]["value"]
    assert float(cells["plain", "all"]["ours"]) == pytest.approx(whole, abs=1e-4)
    assert (place / "f.png").read_bytes().startswith(b"\x89PNG")


def test_curve_is_of_the_development_set(place):
    cells = {(c["row"], c["column"], c["at"]): c for c in table(place, "toy/figure1")}
    folder, reference = run_folder(place), lines(place / "text/valid.en")
    log = read_log(folder / "logs/train.log").validation["valid"]
    for at in (30, 60):
        point = folder / f"curve/{at}"
        assert (point / "translation/generate-valid.txt").is_file()
        expected = BLEU().corpus_score(lines(point / "hypotheses.txt"), [reference]).score
        ours = float(cells["plain", "bleu_curve", str(at)]["ours"])
        assert ours == pytest.approx(expected, abs=1e-4)
        loss = float(cells["plain", "loss_curve", str(at)]["ours"])
        assert loss == pytest.approx(log[at]["loss"], abs=1e-4)
    assert json.loads((folder / "curve.json").read_text())["curve_set"] == "valid"
    # The run's own score is of the test set.
    assert float(cells["plain", "bleu", ""]["ours"]) != ours
    assert cells["twin", "bleu_curve", ""]["state"] == "its run has no curve"
    assert cells["plain", "final_loss", ""]["state"].endswith("has no valid_loss")


def test_figures_are_of_tables_that_are_curves_or_lengths(place):
    curves = ("--columns", "bleu_curve,loss_curve", "--figure", "c.svg", "--theme", "dark")
    table(place, "toy/figure1", *curves)
    assert (place / "c.svg").read_text().startswith("<?xml")
    for arguments, said in {
        ("toy/figure1", "--figure", "x.png"): "choose others by --columns",
        ("toy/figure1", "toy/figure2", "--figure", "x.png"): "one table at a time",
        ("toy/figure1", "--theme", "dark"): "--figure FILE",
        ("toy/figure1", "twin", "--columns", "bleu_curve", "--figure", "x.png"): "is measured yet",
    }.items():
        done = run("fairseq-hybrid", "table", *arguments, *where(place), cwd=place, expect=1)
        assert said in done.stderr and "Traceback" not in done.stderr
    assert not (place / "x.png").exists()


def test_checkpoints_scored_by_themselves_have_the_scores_of_the_run(place):
    corpus = place / "out/corpora/full@text/toy"
    settings = "--task translation_gnmt --beam 2 --gnmt-lenpen 0.6 --max-len-a 1 --max-len-b 5"
    command = [
        *("fairseq-hybrid", "score-checkpoints", corpus / "bin", run_folder(place) / "checkpoints"),
        *("--reference", place / "text/valid.en", "--target-lang", "en", "--cpu"),
        *("--subwords", "subword-nmt", "--tokenizer", "moses", "--every", 30),
        *(f"--generate={settings}", "--output", "scored"),
    ]
    done = run(*command, cwd=place)
    found = json.loads((place / "scored/curve.json").read_text())
    theirs = json.loads((run_folder(place) / "curve.json").read_text())
    for point, other in zip(found["curve"], theirs["curve"], strict=True):
        assert point["updates"] == other["updates"]
        assert point["scores"]["bleu"] == other["scores"]["bleu"]
    assert found["curve_set"] == "valid" and "update 60: BLEU" in done.stdout
    # Again, nothing is translated; with other settings, all is.
    log = place / "scored/60/logs/translate.log"
    before = log.stat().st_size
    assert run(*command, cwd=place).stdout == done.stdout
    assert log.stat().st_size == before
    other = [word if "=" not in str(word) else "--generate=--beam 1" for word in command]
    run(*other, "--every", 60, cwd=place)
    assert log.stat().st_size > before
    # A program that fails, and no checkpoints.
    failed = run(*other, "--gen-subset", "dev", cwd=place, expect=1)
    assert "fairseq-generate ended" in failed.stderr and "translate.log" in failed.stderr
    (place / "none").mkdir()
    command[3] = place / "none"
    failed = run(*command, cwd=place, expect=1)
    assert "--save-interval-updates" in failed.stderr and "Traceback" not in failed.stderr


@pytest.mark.parametrize("words", [[5], [9, 5], [5, 5], [-1, 5], "5", [None, 5]])
def test_wrong_groups_are_refused(place, words, tmp_path):
    shutil.copytree(place / "configs", tmp_path / "configs")
    path = tmp_path / "configs/toy/figure2/table.yaml"
    content = json.loads(json.dumps(FILES["toy/figure2/table.yaml"]))
    content["columns"]["short"]["source-words"] = words
    path.write_text(json.dumps(content))  # JSON is YAML
    flags = ["--configs", tmp_path / "configs", *where(place)[2:]]
    done = run("fairseq-hybrid", "table", "toy/figure2", *flags, cwd=place, expect=1)
    assert "columns: short: source-words: use [10, 20]" in done.stderr
