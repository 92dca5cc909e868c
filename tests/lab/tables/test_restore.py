"""Published runs that become runs of a workspace again."""

import json
import shutil

import pytest
import yaml
from made_runs import REFERENCES, worse
from refusals import check_refusals
from workspaces import write_yaml

from fairseq_hybrid_attn.lab.tables.measuring import measure
from fairseq_hybrid_attn.lab.tables.run_results import RunResults

TABLES = ("toy/table1", "toy/curves", "toy/lengths")


def published(made):
    return {
        path.relative_to(made.folder): path.read_bytes()
        for place in ("results/runs", "results/tables", "RESULTS.md")
        for path in [made.folder / place, *(made.folder / place).rglob("*")]
        if path.is_file() and path.suffix != ".png"
    }


def test_restored_runs_give_all_numbers_again(made):
    made.hybrid("publish", *TABLES, "--seeds", "2")
    kept = published(made)
    shutil.rmtree(made.folder / "out/runs")
    # As if it had been interrupted.
    other = made.run("plain").folder.hypotheses
    other.parent.mkdir(parents=True)
    other.write_text("begun\n")
    assert (
        made.hybrid("restore", *TABLES, "--seeds", "3")
        == "8 runs: restored\n4 runs: not published\n"
    )
    made.hybrid("publish", *TABLES, "--seeds", "2")
    assert published(made) == kept
    assert made.run("ours").name in made.hybrid("runs")
    # Where there is no test text, or a translation was deleted, nothing is lost.
    made.run("plain").folder.hypotheses.unlink()
    check_refusals(
        [("toy/table1", r"would lose its interval of plain \(bleu\): translations")],
        lambda name: made.hybrid("publish", name, "--seeds", "2"),
    )
    assert published(made) == kept


def test_what_was_published_without_translations_has_no_intervals(made):
    made.hybrid("publish", "toy/table1", "--seeds", "1,")
    run = made.run("ours")
    text = made.folder / f"results/runs/full@text/{run.name}.txt.gz"
    text.unlink()
    shutil.rmtree(run.folder.path)
    other = made.run("plain").folder.result
    unchanged = other.read_text()
    changed = json.loads(unchanged) | {"finished": "here"}
    other.write_text(json.dumps(changed))
    told = made.hybrid("restore", "toy/table1", "--seeds", "1,")
    assert told == "3 runs: already here\n1 run: restored without translations\n"
    assert json.loads(other.read_text()) == changed
    plain, ours = (
        line.ours for line in measure(RunResults(made.plan(seeds=(1,)))).sections[0].lines
    )
    assert plain.interval and ours.interval is None and ours.value
    # Beside a new seed, too, nothing of the first one is lost.
    other.write_text(unchanged)
    check_refusals(
        [("toy/table1", "would lose its .*: translations or test text are not here")],
        lambda name: made.hybrid("publish", name, "--seeds", "2"),
    )


def test_a_folder_that_is_not_there_or_a_damaged_text_is_refused(made):
    made.hybrid("publish", "toy/table1", "--seeds", "1,")
    run = made.run("ours")
    text = made.folder / f"results/runs/full@text/{run.name}.txt.gz"
    text.write_bytes(text.read_bytes()[:40])
    shutil.rmtree(run.folder.path)
    cases = {
        "toy/table1 --results nowhere": "nowhere is not a folder",
        "toy/table1": "is damaged or cut off",
    }
    check_refusals(cases.items(), lambda words: made.hybrid("restore", *words.split()))
    assert not run.folder.result.exists() and not run.folder.hypotheses.exists()


@pytest.mark.parametrize(
    "claims, lost",
    [
        (True, "interval on 'ours falls less', seed 2"),
        (False, r"interval over sentences of ours \(bleu\)"),
    ],
)
def test_verdicts_and_p_values_of_three_seeds_are_not_lost(made, claims, lost):
    """Their intervals over seeds need no translations."""
    table = made.configs / "toy/table1.yaml"
    if not claims:
        write_yaml(table, {**yaml.safe_load(table.read_text()), "claims": []})
    for name in ("plain/bleu", "plain/nopos", "ours/bleu", "ours/nopos"):
        made.finish(made.run(*name.split("/"), 3), worse(REFERENCES, 0.2, f"{name}3"))
    made.hybrid("publish", "toy/table1", "--seeds", "3")
    kept = published(made)
    made.run("ours", "bleu", 2).folder.hypotheses.unlink()
    check_refusals(
        [("toy/table1", f"would lose its {lost}: transl")],
        lambda name: made.hybrid("publish", name, "--seeds", "3"),
    )
    assert published(made) == kept
