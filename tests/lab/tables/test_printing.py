"""A table's numbers as output: for a terminal, as Markdown, as CSV, as JSON."""

import csv
import io
import re
from dataclasses import replace

from fairseq_hybrid_attn.lab.files.provenance import trained_on
from fairseq_hybrid_attn.lab.scores.statistics import Estimate
from fairseq_hybrid_attn.lab.tables.measuring import ColumnHead, Number, TableNumbers
from fairseq_hybrid_attn.lab.tables.printing import as_csv, as_markdown, as_terminal, notes


def ours(value, half=0.5):
    by_seed = {1: value - 1, 2: value, 3: value + 1}
    return Estimate(value, by_seed, half, 10.0, "seeds and sentences")


def number(row, system, paper=None, value=None, **more):
    more.setdefault("state", "done" if value else "not run")
    found = ours(value) if value else None
    return Number(row, system, "bleu", "bleu", paper=paper, ours=found, signature="tok:13a", **more)


BASE = number("base", "Transformer", 31.27, 30.0, parameters=1_500_000, training_seconds=7260.0)
GAIN = Estimate(1.5, {1: 1.5}, 1.0, 10.0, "sentences")
E1 = number("e1", "HySAN", 32.28, 31.5, paper_difference=1.01, difference=GAIN)
E1 = replace(E1, state="data changed")
E2 = number("e2", "HySAN", 32.29, paper_difference=1.02)
TABLE = TableNumbers(
    **{"table": "hysan/table1", "title": "Table 1", "notes": "a note", "label": "label"},
    **{"profile": "full", "text": None, "is_papers": True, "is_own": False, "transposed": False},
    columns=(ColumnHead("bleu", "BLEU", "bleu", False, None, "base"),),
    numbers=(BASE, E1, E2),
    made_by="torch 2.13.0, 2.14.0",
)
NOPOS = replace(TABLE.columns[0], name="nopos", title="without (Table 1)")
TWO = replace(
    TABLE,
    columns=(*TABLE.columns, NOPOS),
    numbers=(*TABLE.numbers, *(replace(one, column="nopos") for one in TABLE.numbers)),
)


def wide(text, row):
    """The cells of a row in the terminal."""
    (line,) = (line for line in text.split("\n") if line.startswith(f"{row} "))
    return re.split(r" {2,}", line.strip())


def cells(text, row):
    """The cells of a row of Markdown, separated by bars that are not escaped."""
    (line,) = (line for line in text.split("\n") if line.strip("| ").startswith(row))
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_the_terminal_at_the_papers_scale():
    text = as_terminal(TABLE)
    headings = "row, system, paper, ours, paper - base, ours - base, p, seeds"
    assert wide(text, "row") == headings.split(", ")
    seeds = "1: 29.00, 2: 30.00, 3: 31.00"
    assert wide(text, "base") == ["base", "Transformer", "31.27", "30.00 ± 0.50", seeds]
    gain = "+1.50 (+0.50 to +2.50)"
    # 1.5 is 3.342 standard errors of 0.4488: p of t with ten degrees of freedom.
    assert wide(text, "e1")[2:7] == ["32.28", "31.50 ± 0.50†", "+1.01", gain, "0.007"]
    assert wide(text, "e2") == ["e2", "HySAN", "32.29", "not run", "+1.02"]


def test_markdown_has_the_same_cells_and_notes_once():
    for text, times in ((as_markdown(TABLE), 1), (as_markdown(TWO), 2)):
        assert text.startswith("# Table 1 (`hysan/table1`)\n")
        rows = [line for line in text.split("\n") if line.startswith("| e1 ")]
        assert len(rows) == times
        assert [c.strip() for c in rows[0].split("|")[1:-1]] == wide(as_terminal(TABLE), "e1")
        for note in ("a note", "† e1: data changed", "bleu: tok:13a", TABLE.made_by):
            assert text.count(note) == 1
    assert "without (Table 1):" in text


def test_other_scales_and_texts_are_named():
    """Since their levels are not the paper's."""
    text = as_terminal(replace(TABLE, profile="small", text="mine", is_papers=False))
    assert "small" in text and "(mine)" in text and "paper's" in text
    assert "+1.50" in text and "+1.01" in text


def test_systems_of_your_own_are_one_grid():
    """With all scores, size and time; a score that none has is left out."""
    own = {"is_own": True, "is_papers": False, "text": "mine", "profile": "tiny"}
    numbers = tuple(replace(one, paper=None, paper_difference=None) for one in TWO.numbers)
    text = as_terminal(replace(TWO, **own, numbers=numbers))
    both = ["BLEU", "BLEU - base", "p", "without (Table 1)", "without (Table 1) - base", "p"]
    assert wide(text, "system") == ["system", *both, "seeds", "parameters", "training"]
    shown = ["Transformer", "30.00 ± 0.50", "30.00 ± 0.50", "1 2 3", "1.50 M", "2 h 1 min"]
    assert wide(text, "Transformer") == shown
    none = tuple(replace(n, ours=None) if n.column == "nopos" else n for n in numbers)
    assert "without" not in as_terminal(replace(TWO, **own, numbers=none))


def test_what_numbers_do_not_tell_is_noted():
    """Of few seeds, of seeds alone, and of very low BLEU."""
    for value, by_seed, covers in (
        (30.0, {1: 30.0}, "sentences"),
        (30.0, {1: 30.0, 2: 30.0}, "seeds and sentences"),
        (30.0, {1: 29.0, 2: 30.0, 3: 31.0}, "seeds"),
        (3.0, {1: 2.0, 2: 3.0, 3: 4.0}, "seeds and sentences"),
    ):
        found = replace(BASE, ours=Estimate(value, by_seed, 1.0, 2.0, covers))
        told = [notes(replace(TABLE, is_own=True, numbers=(one,))) for one in (found, BASE)]
        assert len(set(told[0]) - set(told[1])) == 1


def test_scores_of_one_signature_are_reported_once_and_bars_are_escaped():
    """Systems of HySAN's tables have bars: encoder | decoder."""
    numbers = tuple(replace(BASE, row=name, system="fw | fw", score=name) for name in "abcd")
    text = as_markdown(replace(TABLE, numbers=numbers))
    assert "\n- a to d: tok:13a\n" in text and cells(text, "b ")[1] == r"fw \| fw"
    assert "fw | fw" in as_terminal(replace(TABLE, numbers=numbers))


def test_a_curve_has_a_line_for_each_checkpoint():
    head = ColumnHead("bleu", "BLEU", "bleu", True, None, None)
    points = [replace(BASE, paper=None, at=at, ours=ours(at / 100)) for at in (1000, 2000)]
    curve = replace(TABLE, columns=(head,), numbers=(*points, replace(E2, paper=None)))
    lines = [words for words in map(str.split, as_terminal(curve).split("\n")) if words]
    assert ["1000", "10.00", "±", "0.50"] in lines and ["2000", "20.00", "±", "0.50"] in lines
    assert ["not", "run"] in lines
    found = [(line["at"], line["ours"]) for line in csv.DictReader(io.StringIO(as_csv(curve)))]
    assert found == [("1000", "10.0000"), ("2000", "20.0000"), ("", "")]


def test_seeds_and_times_of_unlike_devices_are_marked_and_told():
    gpu, compiled = "1 GPU, fp16, A", "1 GPU, fp16, compiled, A"
    alike = replace(BASE, trained_on=(gpu,), updates=100.0)
    for other, mark, marked in [
        ((gpu,), "", ""),
        ((compiled,), "", "2:01 min‡"),
        ((gpu, compiled), "‡", "2:01 min‡"),
    ]:
        faster = replace(E1, state="done", trained_on=other, updates=100.0, training_seconds=121.0)
        text = as_terminal(replace(TABLE, is_own=True, numbers=(alike, faster)))
        assert ("31.50 ± 0.50‡" in text) == bool(mark)
        assert ("2:01 min‡" in text) == ("2 h 1 min‡" in text) == bool(marked)
        assert (compiled in text) == bool(marked)


def test_a_result_tells_what_it_was_trained_on():
    here = {"processor": "EPYC", "gpus": ["H200", "H200"]}
    for devices, expected in {
        "CPU, 1 thread": "CPU, 1 thread, EPYC",
        "2 GPUs, fp16": "2 GPUs, fp16, H200",
    }.items():
        assert trained_on({"devices": devices, "hardware": here}) == expected
    assert trained_on({}) == ""
