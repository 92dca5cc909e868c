"""Publishing: the files that are kept of tables and runs, and the document made from them."""

import json
import re
import shutil
from pathlib import Path

import pytest
from made_runs import REFERENCES, SOURCES, worse, write_lines
from refusals import check_refusals, files

from fairseq_hybrid_attn.lab.tables.kept_runs import result_name
from fairseq_hybrid_attn.lab.tables.kept_tables import command_of, read_tables
from fairseq_hybrid_attn.lab.tables.measuring import measure
from fairseq_hybrid_attn.lab.tables.results_document import device_flags
from fairseq_hybrid_attn.lab.tables.run_results import RunResults

TABLES = ("toy/curves", "toy/gates", "toy/lengths", "toy/table1")


def test_what_is_published_is_what_was_printed(made):
    """The document is made from the files, which have no local paths."""
    made.finish(made.run("plain"), worse(REFERENCES, 0.1, "plain/bleu1"))
    printed = made.hybrid("table", *TABLES, "--format", "markdown")
    made.hybrid("publish", *TABLES)
    document = (made.folder / "RESULTS.md").read_text()
    for text in re.split(r"\n(?=### )", printed):
        assert text.rstrip() in document
    assert "## Not run\n\n- toy: cut, other\n" in document
    repeat = "- `scripts/reproduce.sh toy/gates --seeds 1 --data text --device cpu`: 2 runs of "
    assert f"{repeat}toy/table1 (text)\n" in document
    figures = re.findall(r"!\[.*\]\((.*)\)", document)
    assert figures == ["results/tables/toy.lengths.full@text.png"]  # the curves have a column more
    assert (made.folder / figures[0]).read_bytes().startswith(b"\x89PNG")
    kept = {path: path.read_bytes() for path in (made.folder / "results").rglob("*.json")}
    result = json.loads(kept[made.folder / f"results/runs/full@text/{made.run('plain').name}.json"])
    assert result["scores"] == json.loads(made.run("plain").folder.result.read_text())["scores"]
    # Another clone's plugin is named as this one's.
    folders = ["reproduction/corpora/full@text/toy", "--user-dir", "./fairseq_hybrid_attn"]
    assert result["commands"]["train"][1:] == folders
    assert not [path for path, content in kept.items() if str(made.folder).encode() in content]

    made.hybrid("publish", "toy/table1")
    assert (made.folder / "RESULTS.md").read_text() == document
    assert {path: path.read_bytes() for path in kept} == kept


@pytest.mark.parametrize("place, name", [("clone", "examples/in_a_clone"), ("home", "elsewhere")])
def test_a_folder_of_code_is_named_from_its_clone(made, place, name):
    for clone in ("clone", "fairseq_hybrid_attn"):  # a clone makes no clone of the folder it is in
        plugin = made.folder / clone / "fairseq_hybrid_attn/__init__.py"
        plugin.parent.mkdir(parents=True)
        plugin.touch()
    theirs = made.folder / place / name
    theirs.mkdir(parents=True)
    (theirs / "__init__.py").touch()
    other = f"sparse{theirs}"  # which only ends like it
    command = ["fairseq-train", other, "--user-dir", str(theirs)]
    made.finish(made.run("plain"), REFERENCES, commands={"train": command})
    made.hybrid("publish", "toy/table1", "--user-dir", str(theirs))
    (kept,) = read_tables(made.folder / "results", made.configs)
    assert command_of(kept.plan)[-2:] == ["--user-dir", name]
    result = kept.results[result_name(made.run("plain"))]
    assert result["commands"]["train"][1:] == [other, "--user-dir", f"./{name}"]


def test_paths_of_a_run_that_was_copied_here_are_named_as_its_own(made):
    run = made.run("plain")
    command = [
        "x",
        f"/another/place/runs/full@text/{run.name}/model.pt",
        "/another/place/corpora/c",
    ]
    made.finish(run, REFERENCES, commands={"train": command})
    made.hybrid("publish", "toy/table1")
    [kept] = read_tables(made.folder / "results", made.configs)
    model, corpus = kept.results[result_name(run)]["commands"]["train"][1:]
    assert model == f"reproduction/runs/full@text/{run.name}/model.pt"
    assert corpus == "reproduction/corpora/c"


def test_published_numbers_are_the_measured_ones(made):
    """All of them: texts, intervals, verdicts, of seeds that differ, of runs that are stale."""
    made.make_stale(made.run("ours"))
    made.run("ours", "nopos", 2).folder.result.unlink()
    made.run("plain", "nopos", 1).folder.hypotheses.unlink()
    names = ("toy/table1", "toy/curves", "toy/cut", "toy/other")
    made.hybrid("publish", *names, "--seeds", "2")
    found = read_tables(made.folder / "results", made.configs)
    for name, kept in zip(names, found, strict=True):
        assert kept.numbers == measure(RunResults(made.plan(name))), name
    assert found[0].unfinished == {"toy/table1/ours/nopos/seed2": "begun (before its first update)"}
    # The translations may go; the results remain.
    shutil.rmtree(made.folder / "out")
    assert [kept.numbers for kept in found] == [
        kept.numbers for kept in read_tables(made.folder / "results", made.configs)
    ]


def test_a_run_that_was_done_again_is_not_published_beside_tables_of_its_old_result(made):
    made.hybrid("publish", "toy/curves", "toy/table1")
    document = (made.folder / "RESULTS.md").read_text()
    made.finish(made.run("plain"), worse(REFERENCES, 0.1, "plain/bleu1"), finished="later")
    older = [("toy/table1", r"toy\.curves\S+ is of an older result of full@text")]
    check_refusals(older, lambda table: made.hybrid("publish", table))
    assert (made.folder / "RESULTS.md").read_text() == document
    made.hybrid("publish", "toy/curves", "toy/table1")
    (kept, *_) = read_tables(made.folder / "results", made.configs)
    assert kept.results["full@text/toy/table1/plain/bleu/seed1"]["finished"] == "later"


def test_what_was_published_is_not_replaced_by_nothing(made):
    """As in another clone, which has the results and not the runs."""
    made.hybrid("publish", "toy/table1")
    results = made.folder / "results"
    before = files(made.folder)
    cases = {
        "toy/table1 ours": r"also has full@text/toy/table1/plain/\S+; name its row",
        "toy/curves toy/table1 --seeds 2,3": "also has seed 1; name it",
        "toy/curves toy/table1 --configs configs --data text --output elsewhere": (
            r"tables/toy\.table1.*missing in .*elsewhere"
        ),
    }
    check_refusals(cases.items(), lambda words: made.hybrid("publish", *words.split()))
    assert files(made.folder) == before

    def refused(problem):
        check_refusals([(results, problem)], lambda folder: read_tables(folder, made.configs))

    (results / "runs/full@text/toy/table1/ours/nopos/seed1.json").unlink()
    refused("the result of full@text/toy/table1/ours/nopos/seed1 is")
    path = results / "tables/toy.table1.full@text.json"
    path.write_text('{"comparison": {}, "runs": []}')
    refused("is not a table of this version .*; publish it again")


def test_kept_p_values_are_not_shown_beside_another_baseline(made):
    made.hybrid("publish", "toy/table1")
    table, results = made.configs / "toy/table1.yaml", made.folder / "results"
    asked = table.read_text()
    assert "baseline: plain" in asked
    table.write_text(asked.replace("baseline: plain", "baseline: ours"))
    problem = "baseline, scores, runs or ranks of toy/table1 are not those .*; publish it again"
    check_refusals([(results, problem)], lambda folder: read_tables(folder, made.configs))
    made.hybrid("publish", "toy/table1")
    (kept,) = read_tables(results, made.configs)
    plain, ours = kept.numbers.sections[0].lines
    assert len(plain.ours.p_values) == 1 and not ours.ours.p_values
    # Without translations they would be lost.
    made.run("ours").folder.hypotheses.unlink()
    table.write_text(asked)
    again = [("toy/table1", "would lose its interval")]
    check_refusals(again, lambda name: made.hybrid("publish", name))


def test_kept_intervals_are_not_shown_beside_another_run(made):
    path = made.configs / "toy/curves.yaml"
    asked = path.read_text()
    made.hybrid("publish", "toy/curves")
    path.write_text(asked.replace("run: bleu", "run: nopos"))
    assert path.read_text() != asked
    problem = "baseline, scores, runs or ranks of toy/curves are not those .*; publish it again"
    check_refusals([(made.folder / "results", problem)], lambda at: read_tables(at, made.configs))


def test_published_claims_are_of_published_runs(made):
    """A row that is not published is not checked: its translations may contradict its result."""
    write_lines(made.run("ours", seed=2).folder.hypotheses, SOURCES)
    refused = [("publish toy/table1 --seeds 2", "its result says")]
    check_refusals(refused, lambda words: made.hybrid(*words.split()))
    made.hybrid("publish", "toy/table1", "plain", "--seeds", "2")
    [kept] = read_tables(made.folder / "results", made.configs)
    assert [one.verdict for one in kept.numbers.verdicts] == ["held", *["not run"] * 3]


def test_numbers_of_two_signatures_have_no_difference(made):
    path = made.run("ours").folder.result
    result = json.loads(path.read_text())
    for score in result["scores"].values():
        score["signature"] += "|tok:intl"
    path.write_text(json.dumps(result))
    made.hybrid("publish", "toy/table1")
    [kept] = read_tables(made.folder / "results", made.configs)
    section = kept.numbers.sections[0]
    assert [section.our_difference(line) for line in section.lines] == [None, None]


def test_a_run_that_failed_is_listed_with_its_error(made):
    folder = made.run("plain", seed=3).folder
    folder.path.mkdir()
    shutil.copy(made.run("plain").folder.begun, folder.begun)
    log = folder.log("train")
    log.parent.mkdir()
    failed = "Traceback (most recent call last):\n  x\nFloatingPointError: loss is nan\n"
    log.write_text(f"{failed}Some advice of several words\n\n")
    with (made.configs / "toy/curves.yaml").open("a") as file:
        file.write("not-used: [plain with two batches]\n")
    made.hybrid("publish", "toy/curves", "--seeds", "3,4")
    document = (made.folder / "RESULTS.md").read_text()
    assert "- toy: curves, " in document.partition("## Not run")[2]
    state = "begun (before its first update; failed: FloatingPointError: loss is nan)"
    runs = f"- toy/table1/plain/bleu/seed3: {state}\n- toy/curves: plain with two batches\n"
    assert f"## Failed, stopped or not used\n\n{runs}" in document
    assert "seed4" not in document
    log.write_text(log.read_text() + "2026-01-01 | INFO | resumed\n")
    made.hybrid("publish", "toy/curves", "--seeds", "3,4")
    assert "FloatingPointError" not in (made.folder / "RESULTS.md").read_text()
    made.hybrid("publish", "toy/table1", "--seeds", "1,3")
    document = (made.folder / "RESULTS.md").read_text()
    assert re.search(r"reproduce.sh toy/table1 .*: 4 runs, .*; 4 runs without a result\n", document)


def test_what_cannot_be_written_is_refused(made):
    cases = {
        "toy/table1 plain toy/table1 ours": "toy/table1 is named twice",
        "--results text/test.de": "is a file",
        "--document text": "is a directory",
        "--document nowhere/x.md": "there is no directory",
    }
    check_refusals(
        cases.items(), lambda flags: made.hybrid("publish", "toy/curves", *flags.split())
    )
    check_refusals(
        [(made.folder, "has no tables/")], lambda folder: read_tables(folder, made.configs)
    )


def test_what_runs_took_is_stated_for_each_text(made):
    """It must not say "see there" of runs on another text."""
    made.hybrid("publish", "toy/table1")
    (made.folder / "text").rename(made.folder / "another")
    (made.folder / "out/runs/full@text").rename(made.folder / "out/runs/full@another")
    made.hybrid(
        *("publish", "toy/table1", "--configs", "configs"),
        *("--output", "out", "--data", "another", "--source-lang", "de", "--target-lang", "en"),
    )
    document = (made.folder / "RESULTS.md").read_text()
    assert document.count(" h one after the other") == 2 and "see there" not in document
    assert "\n- machine: CPU, " in document
    assert "--data another --source-lang de --target-lang en" in document


def test_a_profile_from_a_file_and_tables_of_the_checkout_are_in_the_document(made):
    (made.folder / "half.yaml").write_text("batch: {tokens: 150}\n")
    kept = Path(__file__).parents[3] / "results"
    shutil.copytree(kept, made.folder / "results")
    made.hybrid("publish", "toy/table1", "--profile", "half.yaml", "--seeds", "3,")
    document = (made.folder / "RESULTS.md").read_text()
    assert "- toy: curves, cut, gates, lengths, other, table1\n" in document
    assert "scripts/reproduce.sh evidence/europarl " in document


def test_commands_say_what_else_would_give_other_numbers():
    ours, theirs = "fused_label_smoothed_cross_entropy", "label_smoothed_cross_entropy"
    for runs, flags in [
        ([("GPU", ours)], ""),
        ([("CPU, 1 thread, bf16", ours)], "--device cpu"),
        ([("CPU, 1 thread", theirs)], "--device cpu"),
        ([("CPU, 2 threads", ours)], "--device cpu --threads 2 --precision fp32"),
        ([("CPU, 1 thread", ours), ("CPU, 1 thread, bf16", ours)], "--device cpu"),  # in its note
    ]:
        made = [{"devices": on, "settings": {"train": {"criterion": one}}} for on, one in runs]
        assert " ".join(device_flags(made)) == flags
