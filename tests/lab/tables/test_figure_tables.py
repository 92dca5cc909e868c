"""Tables that are figures, BLEU by source length and learning curves, of a run from its text."""

import contextlib
import copy
import csv
import io
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli import run
from sacrebleu.metrics import BLEU
from workspaces import RECIPE, SETTINGS, with_rows, write_configs, write_text, write_yaml

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.command_line import main
from fairseq_hybrid_attn.lab.configuration.settings import load_profile
from fairseq_hybrid_attn.lab.configuration.tables import load_table
from fairseq_hybrid_attn.lab.tables.results_document import write_up
from fairseq_hybrid_attn.lab.tables.results_folder import without_folders
from fairseq_hybrid_attn.lab.text.training_log import read_log

WIDE, CURVE = {"run": "bleu", "score": "bleu"}, {"run": "bleu", "curve": True}
ROWS = {row: {"run": f"toy/table1/{row}"} for row in ("plain", "twin")}
FILES = {
    "corpora/toy.yaml": {**RECIPE, "subwords": {**RECIPE["subwords"], "size": 60}},
    "settings/toy.yaml": {
        **SETTINGS,
        "train": {**SETTINGS["train"], "max-update": 60},
        "checkpoints": {"unit": "update", "every": 10, "average": 2},
    },
    "toy/table1.yaml": {
        "title": "Toy",
        "extends": "toy",
        "columns": {"bleu": {}},
        "rows": {
            "plain": {
                "checkpoints": {"curve": 2, "curve-on": "valid"},
                "train": {
                    **{"arch": "transformer_hybrid_gate", "hybrid-layers": "all"},
                    "head-patterns": None,
                },
                "gates": {"gen-subset": "valid"},
            },
            "twin": {},
        },
    },
    "toy/figure1.yaml": {
        "title": "Toy curves",
        "columns": {
            "bleu": {},
            "bleu_curve": {**CURVE, "score": "bleu"},
            "loss_curve": {**CURVE, "score": "valid_loss"},
            "final_loss": {"run": "bleu", "score": "valid_loss"},
        },
        "rows": ROWS,
    },
    "toy/figure2.yaml": {
        "title": "Toy lengths",
        "baseline": "plain",
        "columns": {
            "short": {**WIDE, "source-words": [0, 5]},
            "middle": {**WIDE, "source-words": [5, 9]},
            "long": {**WIDE, "source-words": [9, None]},
            "longer": {**WIDE, "source-words": [50, None]},
            "all": {**WIDE, "source-words": [0, None]},
        },
        "rows": ROWS,
    },
    "toy/figure3.yaml": {
        "title": "Toy gates",
        "transposed": True,
        "columns": {
            "bleu": {},
            "gate": {"run": "bleu", "score": "gate"},
            "layer1": {"run": "bleu", "score": "gate.encoder.1"},
            "layer9": {"run": "bleu", "score": "gate.encoder.9"},
        },
        "rows": ROWS,
    },
    "toy/figure4.yaml": {
        "title": "Toy lengths of translations",
        "baseline": "plain",
        "columns": {
            "bleu": {},
            "ratio": {"run": "bleu", "score": "length_ratio"},
            "ratio_long": {"run": "bleu", "score": "length_ratio", "source-words": [9, None]},
            "cut": {**WIDE, "cut": True},
            "cut_long": {**WIDE, "cut": True, "source-words": [9, None]},
            "longer": {**WIDE, "source-words": [50, None]},
        },
        "claims": [
            {"says": "the twin is better, cut", "above-zero": "twin/cut - plain/cut"},
            {"says": "so it is on what is not there", "above-zero": "twin/longer - plain/longer"},
        ],
        "rows": ROWS,
    },
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The row "plain" as it was run; "twin" is the same with half of its translations right."""
    folder = tmp_path_factory.mktemp("figures")
    write_text(folder / "text")
    for path in (folder / "text").glob("*.en"):  # what is learned within some updates
        path.write_text("".join(f"{phrase(len(line.split()))}\n" for line in lines(path)))
    write_configs(folder / "configs", **FILES)
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


def phrase(words):
    return " ".join((["the", "cat", "sat", "on", "a", "mat", "and", "slept"] * 2)[:words])


def where(folder):
    flags = ("--configs", "configs", "--data", "text", "--output", "out")
    return [folder / flag if number % 2 else flag for number, flag in enumerate(flags)]


def run_folder(folder, row="plain"):
    return folder / "out/runs/full@text/toy/table1" / row / "bleu/seed1"


def lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def table(place, name, *more):
    return list(csv.DictReader(io.StringIO(hybrid(place, "table", name, "--format", "csv", *more))))


def hybrid(place, *arguments):
    """What a command prints."""
    with contextlib.chdir(place), contextlib.redirect_stdout(io.StringIO()) as printed:
        main(list(map(str, arguments if "--output" in arguments else (*arguments, *where(place)))))
    return printed.getvalue()


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
            assert cell["interval_over"] == "test set"
        assert cells[row, "longer"]["ours"] == ""
        assert cells[row, "longer"]["state"] == "no such sentences"
    assert sizes["short"] + sizes["middle"] + sizes["long"] == sizes["all"] == len(source)
    assert float(cells["twin", "all"]["interval"]) > 0
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
    assert ours > 0
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
        with pytest.raises(UserError, match=re.escape(said)):
            hybrid(place, "table", *arguments)
    assert not (place / "x.png").exists()


def test_checkpoints_scored_by_themselves_have_the_scores_of_the_run(place):
    corpus = place / "out/corpora/full@text/toy"
    settings = "--task translation_gnmt --beam 2 --gnmt-lenpen 0.6 --max-len-a 1 --max-len-b 5"
    command = [
        *("score-checkpoints", corpus / "bin", run_folder(place) / "checkpoints"),
        *("--reference", place / "text/valid.en", "--target-lang", "en", "--cpu"),
        *("--subwords", "subword-nmt", "--tokenizer", "moses", "--every", 30),
        *(f"--generate={settings}", "--output", "scored"),
    ]
    printed = hybrid(place, *command)
    found = json.loads((place / "scored/curve.json").read_text())
    theirs = json.loads((run_folder(place) / "curve.json").read_text())
    for point, other in zip(found["curve"], theirs["curve"], strict=True):
        assert point["updates"] == other["updates"]
        assert point["scores"]["bleu"] == other["scores"]["bleu"]
    assert found["curve_set"] == "valid" and "update 60: BLEU" in printed
    # Again, nothing is translated; with other settings, all is.
    log = place / "scored/60/logs/translate.log"
    before = log.stat().st_size
    assert hybrid(place, *command) == printed
    assert log.stat().st_size == before
    # Scored otherwise, or after a mistake about the reference, none is translated again.
    (place / "short.en").write_text("one\n")
    wrong = [place / "short.en" if word == place / "text/valid.en" else word for word in command]
    with pytest.raises(UserError, match="the reference has 1 lines"):
        hybrid(place, *wrong)
    assert "update 60: tokenised BLEU" in hybrid(place, *command, "--score", "tokenised_bleu")
    assert log.stat().st_size == before
    other = [word if "=" not in str(word) else "--generate=--beam 1" for word in command]
    hybrid(place, *other, "--every", 60)
    assert log.stat().st_size > before
    # A program that fails, and no checkpoints.
    with pytest.raises(UserError, match=r"(?s)fairseq-generate ended .*translate\.log"):
        hybrid(place, *other, "--gen-subset", "dev", "--every", 60)
    (place / "none").mkdir()
    command[2] = place / "none"
    with pytest.raises(UserError, match="--save-interval-updates"):
        hybrid(place, *command)


def test_lengths_of_translations_and_what_they_cost(place):
    """Translations that go on and on: sacrebleu's own count, and scores without the surplus."""
    folder = run_folder(place, "twin")
    before = lines(folder / "hypotheses.txt")
    right, source = lines(place / "text/test.en"), lines(place / "text/test.de")
    longer = [line + " and on" * 20 if n % 3 else line for n, line in enumerate(before)]
    (folder / "hypotheses.txt").write_text("\n".join(longer) + "\n")
    try:
        cells = {(c["row"], c["column"]): c for c in table(place, "toy/figure4")}
        claim = hybrid(place, "table", "toy/figure4").partition("Claims:")[2]
    finally:
        (folder / "hypotheses.txt").write_text("\n".join(before) + "\n")
    long = [n for n, line in enumerate(source) if len(line.split()) > 9]
    for name, numbers in {"": range(len(right)), "_long": long}.items():
        theirs = [longer[n] for n in numbers], [right[n] for n in numbers]
        whole = BLEU().corpus_score(theirs[0], [theirs[1]])
        ratio, cut = cells["twin", f"ratio{name}"], cells["twin", f"cut{name}"]
        assert float(ratio["ours"]) == pytest.approx(whole.sys_len / whole.ref_len, abs=1e-4)
        assert float(ratio["ours"]) > 1.5
        short = [" ".join(a.split()[: len(b.split())]) for a, b in zip(*theirs, strict=True)]
        expected = BLEU().corpus_score(short, [theirs[1]]).score
        assert float(cut["ours"]) == pytest.approx(expected, abs=1e-4)
        assert expected > whole.score
        assert cut["signature"].endswith(f"|sentences:{len(numbers)}|cut:reference")
        assert float(cut["interval"]) > 0 and float(cut["p_values"]) < 1
    ours, plain = (float(cells[row, "cut"]["ours"]) for row in ("twin", "plain"))
    assert f" {ours - plain:+.2f} (" in claim
    assert "so it is on what is not there" in claim and "fewer than two sentences" in claim


@pytest.mark.parametrize("words", [[5], [9, 5], [5, 5], [-1, 5], "5", [None, 5]])
def test_wrong_groups_are_refused(words, tmp_path):
    configs = write_configs(tmp_path, **FILES)
    content = copy.deepcopy(FILES["toy/figure2.yaml"])
    content["columns"]["short"]["source-words"] = words
    write_yaml(configs / "toy/figure2.yaml", content)
    with pytest.raises(UserError, match=r"columns: short: source-words: use \[10, 20\]"):
        load_table("toy/figure2", configs)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"columns": {"x": {**WIDE, "train": {"dropout": 0.1}}}}, "no settings of its own"),
        ({"columns": {"x": {"score": "aer", "source-words": [0, 5]}}}, "only scores of a whole"),
        ({"columns": {"x": {"curve": True, "source-words": [0, 5]}}}, "only scores of a whole"),
        ({"columns": {"x": {"score": "gate", "cut": True}}}, "only scores of a whole"),
        ({"columns": {"x": {"curve": True, "cut": True}}}, "only scores of a whole"),
        (
            {"columns": {"x": {"curve": True, "score": "length_ratio"}}},
            "checkpoints have no length",
        ),
        (
            {"baseline": "toy/figure4/plain", "columns": {"cut": WIDE}},
            "not of the same sentences",
        ),
        ({"columns": {"x": {"curve": True}}, "transposed": True}, "a line a checkpoint"),
    ],
)
def test_columns_that_cannot_be_shown_are_refused(change, message, tmp_path):
    """Each would have shown other numbers than it says."""
    content = {**FILES["toy/figure2.yaml"], **change}
    configs = write_configs(tmp_path, **{**FILES, "toy/figure2.yaml": content})
    with pytest.raises(UserError, match=message):
        load_table("toy/figure2", configs)


def test_a_row_s_own_score_is_held_to_what_its_column_shows(tmp_path):
    row = {"run": "toy/table1/twin", "scores": {"cut": "aer"}}
    table = with_rows(FILES["toy/figure4.yaml"], twin=row)
    configs = write_configs(tmp_path, **{**FILES, "toy/figure4.yaml": table})
    with pytest.raises(UserError, match=r"rows: twin: scores: cut: only scores of a whole"):
        load_table("toy/figure4", configs)


def test_columns_that_share_a_corpus_want_the_same_one(place, tmp_path):
    """One's own text in two sizes would be prepared in the first, and trained on in both."""
    content = {
        **FILES["toy/table1.yaml"],
        "columns": {"few": {"subword-size": 40}, "many": {"subword-size": 60}},
    }
    configs = write_configs(tmp_path, **{**FILES, "toy/table1.yaml": content})
    command = ("reproduce", "toy/table1", "twin", "--device", "cpu", "--prepare-only")
    folders = ("--configs", configs, "--output", tmp_path / "out", "--data", place / "text")
    with (
        pytest.raises(UserError, match=r"corpus toy: not prepared"),
        contextlib.redirect_stdout(io.StringIO()) as printed,
    ):
        main(list(map(str, (*command, *folders))))
    assert "other pairs or subword-size" in printed.getvalue()
    assert not (tmp_path / "out/corpora/full@text/toy/bin").exists()


def test_what_is_stale_is_kept_until_it_can_be_done_again(place):
    path = run_folder(place) / "result.json"
    result = path.read_text()
    other = json.loads(result)
    other["identity"]["code"] = "other"
    try:
        path.write_text(json.dumps(other))
        told = hybrid(place, "reproduce", "toy/table1", "plain", "--redo-stale", "--prepare-only")
        assert "stale" in told and json.loads(path.read_text()) == other
    finally:
        path.write_text(result)


@pytest.mark.parametrize("value", ["train", True])
def test_a_curve_is_of_a_set_that_there_is(value, tmp_path):
    row = {"checkpoints": {"curve": 2, "curve-on": value}}
    table = with_rows(FILES["toy/table1.yaml"], plain=row)
    configs = write_configs(tmp_path, **{**FILES, "toy/table1.yaml": table})
    cell = load_table("toy/table1", configs).cells()[0]
    with pytest.raises(UserError, match="curve-on: use test or valid"):
        cell.settings(load_profile("full", configs))


def test_gates_are_those_of_the_model(place):
    folder, json_file = run_folder(place), place / "gates.json"
    command = [
        *("gates", place / "out/corpora/full@text/toy/bin", "--path", folder / "model.pt"),
        *("--gen-subset", "valid", "--subwords", "subword-nmt", "--cpu", "--json", json_file),
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        main(list(map(str, command)))
    (model,) = json.loads(json_file.read_text())["models"]
    (first,) = [row for row in model["rows"] if row["layer"] == 1 and row["head"] is None]
    cells = {(c["row"], c["column"]): c for c in table(place, "toy/figure3")}
    assert float(cells["plain", "gate"]["ours"]) == pytest.approx(model["share"], abs=1e-4)
    assert float(cells["plain", "layer1"]["ours"]) == pytest.approx(first["mean"], abs=1e-4)
    assert 0 < first["mean"] < 1
    assert (
        cells["plain", "layer1"]["signature"]
        == f"share|branch:local|positions:{first['positions']}"
    )
    assert "has no gate.encoder.9" in cells["plain", "layer9"]["state"]


def test_what_is_published_is_what_was_printed(place):
    """The document is made of the files, which have no folder of this machine."""
    names = ("toy/figure1", "toy/figure2", "toy/table1", "toy/figure3")
    printed = hybrid(place, "table", "toy/figure3", "--format", "markdown")
    hybrid(place, "publish", *names)
    document = (place / "RESULTS.md").read_text()
    assert printed in document
    assert document.count("# Toy") == 4 and "## Not run" not in document
    assert "scripts/reproduce.sh toy/figure3 --seeds 1 --data text" in document
    figures = re.findall(r"!\[.*\]\((.*)\)", document)
    assert len(figures) == 1  # the other table has a column that is no curve
    assert all((place / name).read_bytes().startswith(b"\x89PNG") for name in figures)
    kept = [path for path in (place / "results").rglob("*") if path.is_file()]
    result = json.loads(
        (place / "results/runs/full@text/toy/table1/plain/bleu/seed1.json").read_text()
    )
    assert result["scores"] == json.loads((run_folder(place) / "result.json").read_text())["scores"]
    for path in kept:
        assert str(place) not in path.read_bytes().decode(errors="ignore")
    assert "/fairseq_hybrid_attn" not in json.dumps(result).replace("./fairseq_hybrid_attn", "")

    before = {path: path.read_bytes() for path in kept if path.suffix == ".json"}
    with pytest.raises(UserError, match=r"also has full@text/toy/table1/plain/\S+; name its row"):
        hybrid(place, "publish", "toy/table1", "twin")
    # A run that was done again is not published beside tables of what it was.
    result_file = run_folder(place) / "result.json"
    result = result_file.read_text()
    try:
        result_file.write_text(json.dumps({**json.loads(result), "finished": "later"}))
        with pytest.raises(UserError, match=r"toy\.figure1\S+ is of an older result of full@text"):
            hybrid(place, "publish", "toy/table1")
    finally:
        result_file.write_text(result)
    assert (place / "RESULTS.md").read_text() == document
    hybrid(place, "publish", *names)
    assert (place / "RESULTS.md").read_text() == document
    assert {path: path.read_bytes() for path in before} == before


def test_what_was_published_is_not_replaced_by_nothing(place):
    """As in another clone, which has the results and not the runs."""
    to = ("--results", "kept", "--document", "kept.md")
    hybrid(place, "publish", "toy/table1", *to)
    before = (place / "kept.md").read_text()
    elsewhere = ("--configs", "configs", "--data", "text", "--output", "elsewhere")
    with pytest.raises(UserError, match=r"kept/tables/toy\.table1.*missing in .*elsewhere"):
        hybrid(place, "publish", "toy/figure1", "toy/table1", *to, *elsewhere)
    with pytest.raises(UserError, match="also has seed 1; name it"):
        hybrid(place, "publish", "toy/figure1", "toy/table1", "--seeds", "2,3", *to)
    assert not list((place / "kept/tables").glob("toy.figure1*"))  # nothing was begun
    assert (place / "kept.md").read_text() == before


def test_a_run_that_failed_is_listed_with_its_error(place):
    seed1 = run_folder(place)
    seed2 = seed1.parent / "seed2"
    (seed2 / "logs").mkdir(parents=True)
    shutil.copy(seed1 / "begun.json", seed2)
    log = seed2 / "logs/train.log"
    log.write_text("Traceback (most recent call last):\n  x\nFloatingPointError: loss is nan\n")
    log.write_text(log.read_text() + "Some advice of several words\n\n")
    to = ("--results", "failed", "--document", "failed.md")
    try:
        hybrid(place, "publish", "toy/table1", "--seeds", "2", *to)
        document = (place / "failed.md").read_text()
        log.write_text(log.read_text() + "2026-01-01 | INFO | resumed\n")
        resumed = hybrid(place, "reproduce", "toy/table1", "--seeds", "2", "--dry-run")
    finally:
        shutil.rmtree(seed2)
    assert (
        "toy/table1/plain/bleu/seed2: begun (before its first update; failed: FloatingPointError: "
        "loss is nan)"
    ) in document
    assert "begun (before its first update)" in resumed  # no failure any more


def test_folders_of_another_clone_are_left_out():
    """Runs may have been made with another clone than the one that publishes them."""
    content = {"commands": {"train": ["x", "--user-dir", "/there/fairseq_hybrid_attn"]}}
    place = SimpleNamespace(root=Path("/here/out"), own=None)
    assert without_folders(content, place) == {
        "commands": {"train": ["x", "--user-dir", "./fairseq_hybrid_attn"]}
    }


def test_tables_that_were_not_run_are_named(place):
    arguments = ("--results", "none", "--document", "none.md", "--seeds", "3,4")
    hybrid(place, "publish", "toy/figure1", *arguments)
    document = (place / "none.md").read_text()
    assert "## Not run" in document and "**Toy curves**" in document and "plain; twin" in document
    for wrong, said in {
        ("--results", "text/test.de"): "is a file",
        ("--document", "text"): "is a directory",
        ("--document", "nowhere/x.md"): "there is no directory",
    }.items():
        with pytest.raises(UserError, match=said):
            hybrid(place, "publish", "toy/figure1", *wrong)


def test_what_runs_took_is_told_for_each_text(place):
    """Not "see there", of the runs of another text."""
    results = place / "of_two_texts"
    hybrid(place, "publish", "toy/table1", "--results", results, "--document", "of_two_texts.md")
    shutil.copytree(results / "runs/full@text", results / "runs/full@another")
    for path in results.rglob("*.json"):
        if "another" in str(path) or path.parent.name == "tables":
            other = results / str(path.relative_to(results)).replace("@text", "@another")
            text = path.read_text().replace("full@text", "full@another")
            other.write_text(text.replace('"text": "text"', '"text": "another"'))
    document = write_up(results, "results", place / "configs")
    assert document.count(" h of training in all") == 2 and "see there" not in document
