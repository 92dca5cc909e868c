"""Means, intervals and differences of a printed table, against numbers worked out by hand."""

import csv
import io
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_hybrid_attn.experiments.comparing import Line, Measured, Section, _over_seeds
from fairseq_hybrid_attn.experiments.printing import as_csv, as_markdown, as_terminal
from fairseq_hybrid_attn.experiments.settings import Profile


def test_interval_over_seeds_is_students():
    # t(0.975) is 12.7062 with one degree of freedom and 4.30265 with two.
    assert _over_seeds([30.0]) is None
    assert _over_seeds([30.0, 31.0]) == pytest.approx(12.7062 * math.sqrt(0.5) / math.sqrt(2), 1e-5)
    assert _over_seeds([1.0, 2.0, 3.0]) == pytest.approx(4.30265 / math.sqrt(3), 1e-5)
    assert _over_seeds([5.0, 5.0, 5.0]) == 0


def measured(value, **changed):
    fields = {
        "score": "bleu",
        "interval": 0.5,
        "over": "seeds",
        "seeds": (1, 2, 3),
        "signature": "tok:13a",
        "p_values": (),
        "stale": "",
        "updates": 100.0,
        "parameters": 1000,
    }
    return Measured(value, **{**fields, **changed})


BASE = Line("base", "Transformer", 31.27, measured(30.0), "")
LINES = (
    BASE,
    Line("e1", "HySAN", 32.28, measured(31.5, p_values=(0.001, 0.25), stale="data changed"), ""),
    Line("e2", "HySAN", 32.29, None, "not run"),
)
SECTION = Section(
    SimpleNamespace(name="bleu", title="BLEU", score="bleu", curve=False), BASE, LINES
)


def plan(profile, own):
    table = SimpleNamespace(
        name="hysan/table1", title="Table 1", columns=(0,), notes="a note", claims=()
    )
    workspace = SimpleNamespace(
        profile=profile,
        own=own and SimpleNamespace(folder=Path(own)),
        is_papers=profile.is_full and own is None,
        label="label",
    )
    return SimpleNamespace(table=table, workspace=workspace)


FULL, SMALL = Profile("full", ""), Profile("small", "", {"pairs": 10})


def cells(text, row):
    (line,) = (line for line in text.split("\n") if line.strip("| ").startswith(row))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_markdown_at_the_papers_scale():
    text = as_markdown(plan(FULL, None), [SECTION])
    assert cells(text, "row") == [
        *("row", "system", "paper", "ours", "ours - paper", "paper - base", "ours - base"),
        *("p", "seeds"),
    ]
    assert cells(text, "base") == [
        *("base", "Transformer", "31.27", "30.00 ± 0.50", "-1.27", "", "", "", "3")
    ]
    assert cells(text, "e1") == [
        *("e1", "HySAN", "32.28", "31.50 ± 0.50†", "-0.78", "+1.01", "+1.50", "0.001 0.250", "3")
    ]
    assert cells(text, "e2") == ["e2", "HySAN", "32.29", "not run", "", "+1.02", "", "", ""]
    assert "† e1: data changed" in text and "bleu: tok:13a" in text and "Note: a note" in text
    assert "levels cannot be compared" not in text


@pytest.mark.parametrize("profile, own", [(SMALL, None), (FULL, "/texts/mine"), (SMALL, "/x")])
def test_other_scales_and_texts_are_labelled(profile, own):
    text = as_terminal(plan(profile, own), [SECTION])
    assert "levels cannot be compared" in text and "ours - paper" not in text
    assert "+1.50" in text and "+1.01" in text


def test_a_curve_has_a_line_for_each_checkpoint():
    column = SimpleNamespace(name="aer", title="AER", score="aer", curve=True)
    lines = [replace(BASE, paper=None, at=at, ours=measured(at / 100)) for at in (1000, 2000)]
    section = Section(column, None, tuple(lines))
    text = as_terminal(plan(FULL, None), [section])
    assert [line.split()[2] for line in text.split("\n") if line.startswith("base")] == [
        "1000",
        "2000",
    ]
    found = list(csv.DictReader(io.StringIO(as_csv(plan(FULL, None), [section]))))
    assert [(line["at"], line["ours"]) for line in found] == [
        ("1000", "10.0000"),
        ("2000", "20.0000"),
    ]


def test_csv_has_every_digit_and_empty_fields_for_what_is_not_there():
    found = list(csv.DictReader(io.StringIO(as_csv(plan(FULL, None), [SECTION]))))
    assert [line["row"] for line in found] == ["base", "e1", "e2"]
    assert found[1]["our_difference"] == "1.5000" and found[1]["seeds"] == "1 2 3"
    assert found[1]["state"] == "data changed" and found[0]["state"] == "done"
    assert found[2]["ours"] == "" and found[2]["state"] == "not run"
    assert found[2]["paper_difference"] == "1.0200"
