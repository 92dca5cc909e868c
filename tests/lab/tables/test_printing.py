"""A table's numbers as output: for a terminal, as Markdown, as CSV, as JSON."""

import csv
import io
import json
import re
from dataclasses import fields, replace

from fairseq_hybrid_attn.lab.tables import numbers
from fairseq_hybrid_attn.lab.tables.printing import as_csv, as_json, as_markdown, as_terminal


def measured(value, **changed):
    fields = {
        **{"score": "bleu", "over_seeds": 0.5, "over_sentences": None, "seeds": (1, 2, 3)},
        **{"by_seed": (value - 1, value, value + 1), "signature": "tok:13a", "p_values": ()},
        **{"stale": "", "updates": 100.0, "parameters": 1000},
    }
    return numbers.Measured(value, **{**fields, **changed})


BASE = numbers.Line("base", "Transformer", 31.27, measured(30.0), "")
E1 = measured(31.5, p_values=(0.001, None, 0.25), stale="data changed")
LINES = (
    BASE,
    numbers.Line("e1", "HySAN", 32.28, E1, ""),
    numbers.Line("e2", "HySAN", 32.29, None, "not run"),
)
SECTION = numbers.Section("bleu", "BLEU", "bleu", False, None, BASE, LINES)

VERDICTS = (
    numbers.Verdict("base falls", 15.71, {1: 8.2, 2: 8.0}, (7.2, 9.0), (3,), False, "held"),
    numbers.Verdict("e1 falls", 1.5, {1: 1.1}, (0.2, 2.0), (), True, "held", after_results=True),
    numbers.Verdict("e1 falls less", None, {}, None, (1,), False, "not run"),
)
TABLE = numbers.TableNumbers(
    **{"table": "hysan/table1", "title": "Table 1", "notes": "a note", "label": "label"},
    **{"profile": "full", "text": None, "is_papers": True, "columns": 1, "transposed": False},
    **{"sections": (SECTION,), "verdicts": VERDICTS, "not_used": ("e3, stopped",)},
    made_by="torch 2.13.0, 2.14.0",
)


def of_lines(*lines):
    return replace(TABLE, sections=(replace(SECTION, lines=lines),))


def wide(table, row):
    """The cells of a row in the terminal."""
    (line,) = (line for line in as_terminal(table).split("\n") if line.startswith(f"{row} "))
    return re.split(r" {2,}", line.strip())


def cells(text, row):
    """The cells of a row of Markdown, separated by bars that are not escaped."""
    (line,) = (line for line in text.split("\n") if line.strip("| ").startswith(row))
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def records(table):
    return list(csv.DictReader(io.StringIO(as_csv(table))))


def test_the_terminal_at_the_papers_scale():
    headings = "row, system, paper, ours, paper - base, ours - base, p, seeds"
    assert wide(TABLE, "row") == headings.split(", ")
    assert wide(TABLE, "base") == [
        *("base", "Transformer", "31.27", "30.00 ± 0.50", "3: 29.00 30.00 31.00")
    ]
    assert wide(TABLE, "e1") == [
        *("e1", "HySAN", "32.28", "31.50 ± 0.50†", "+1.01", "+1.50", "0.001 - 0.250"),
        "3: 30.50 31.50 32.50",
    ]
    assert wide(TABLE, "e2") == ["e2", "HySAN", "32.29", "not run", "+1.02"]


def test_markdown_has_the_same_cells_and_notes_once():
    second = replace(SECTION, name="nopos", title="without (Table 1)")
    both = as_markdown(replace(TABLE, sections=(SECTION, second), columns=2))
    for text, times in ((as_markdown(TABLE), 1), (both, 2)):
        assert text.startswith("# Table 1 (`hysan/table1`)\n")
        rows = [line for line in text.split("\n") if line.startswith("| e1 ")]
        assert len(rows) == times
        assert [cell.strip() for cell in rows[0].split("|")[1:-1]] == wide(TABLE, "e1")
        for note in ("† e1: data changed", "bleu: tok:13a", "Seeds: 1 2 3."):
            assert text.count(f"\n- {note}\n") == 1
        assert "Its runs differ in torch 2.13.0, 2.14.0." in text
        assert "Not used: e3, stopped." in text and "Note: a note" in text
        assert "\n- ± is half the 95 % interval: over seeds" in text and "\n- p, for each" in text
        assert "levels cannot be compared" not in text
    assert "without (Table 1):" in both
    alone = replace(BASE, ours=measured(30.0, over_seeds=None, over_sentences=0.875))
    assert "30.00 ± 0.88 " in as_markdown(of_lines(alone))
    resampled = replace(BASE, ours=measured(30.0, over_sentences=0.875))
    assert "30.00 ± 0.50 ± 0.88" in as_markdown(of_lines(resampled))


def test_other_scales_and_texts_are_labelled():
    for profile, own, said in [
        ("small", None, "Profile small on its corpus:"),
        ("full", "mine", "On another text (mine):"),
        ("small", "x", "Profile small on another text (x):"),
    ]:
        text = as_terminal(replace(TABLE, profile=profile, text=own, is_papers=False))
        assert f"{said} levels cannot be compared" in text
        assert "+1.50" in text and "+1.01" in text


def test_differences_are_over_the_seeds_that_both_have():
    """A seed that failed must not hide the difference, nor be taken for one."""
    line = replace(BASE, row="e1", ours=measured(33.0, seeds=(2, 4), by_seed=(31.0, 35.0)))
    # 31 less 30, that of the base's seed 2
    assert "+1.00 (seed 2)" in wide(of_lines(BASE, line), "e1")
    other = replace(line, ours=replace(line.ours, seeds=(4, 5)))
    assert SECTION.our_difference(other) is None
    assert SECTION.our_difference(replace(line, at=1000)) is None  # a point of a curve
    ratios = replace(SECTION, score="length_ratio.news")
    assert SECTION.our_difference(line) and ratios.our_difference(line) is None  # untested


def test_scores_of_one_signature_are_reported_once_and_bars_are_escaped():
    """Systems of HySAN's tables have bars: encoder | decoder."""
    lines = [
        replace(BASE, row=name, system="fw | fw", ours=measured(1.0, score=name)) for name in "abcd"
    ]
    text = as_markdown(of_lines(*lines))
    assert "\n- a to d: tok:13a\n" in text and cells(text, "b ")[1] == r"fw \| fw"
    assert "fw | fw" in as_terminal(of_lines(*lines))


def test_seeds_are_listed_by_row_and_column_where_they_differ():
    second = replace(LINES[1], ours=measured(1.0, seeds=(1,), by_seed=(1.0,)))
    assert "Seeds: 1 2 3 (base); 1 (e1)." in as_markdown(of_lines(BASE, second))
    other = replace(SECTION, title="layer 2", lines=(replace(second, row="base"),))
    text = as_markdown(replace(TABLE, sections=(SECTION, other), transposed=True))
    assert "Seeds: 1 2 3 (base: BLEU; e1); 1 (base: layer 2)." in text


def test_a_curve_has_a_line_for_each_checkpoint():
    lines = [replace(BASE, paper=None, at=at, ours=measured(at / 100)) for at in (1000, 2000)]
    none = replace(LINES[2], paper=None)
    section = numbers.Section("aer", "AER", "aer", True, None, None, (*lines, none))
    curve = replace(TABLE, sections=(section,))
    points = [words for words in map(str.split, as_terminal(curve).split("\n")) if words]
    assert ["1000", "10.00", "±", "0.50"] in points and ["2000", "20.00", "±", "0.50"] in points
    assert ["not", "run"] in points
    found = [(line["at"], line["ours"]) for line in records(curve)]
    assert found == [("1000", "10.0000"), ("2000", "20.0000"), ("", "")]


def test_columns_as_lines():
    """Many columns of few rows are one grid, with the paper's number where it has one."""
    local = numbers.Section("layer2", "layer 2", "gate", False, None, None, (LINES[2],))
    text = as_markdown(replace(TABLE, sections=(SECTION, local), transposed=True))
    expected = "BLEU,31.27,30.00 ± 0.50,32.28,31.50 ± 0.50†,32.29,not run"
    assert cells(text, "BLEU") == expected.split(",")
    assert cells(text, "layer 2") == ["layer 2", "", "", "", "", "32.29", "not run"]


def test_csv_has_every_digit_and_empty_fields_for_what_is_missing():
    found = records(TABLE)
    assert [line["row"] for line in found] == ["base", "e1", "e2"]
    assert [line["state"] for line in found] == ["done", "data changed", "not run"]
    assert found[1]["our_difference"] == "1.5000" and found[1]["seeds"] == "1 2 3"
    assert found[1]["p_values"] == "0.0010 - 0.2500"
    assert found[2]["ours"] == "" and found[2]["paper_difference"] == "1.0200"
    columns = "table row column label system at score paper ours over_seeds"
    columns += " over_sentences seeds by_seed paper_difference our_difference p_values parameters"
    columns += " updates signature state"
    assert list(found[0]) == columns.split()


def test_claims_are_sentences():
    for text in (as_terminal(TABLE), as_markdown(TABLE)):
        assert (
            "- Held: base falls: ours +8.10 (+7.20 to +9.00), seed 1: +8.20, seed 2: +8.00, "
            "without seed 3; paper +15.71 (above our interval).\n"
            "- Held (one seed)† (a run is not up to date): e1 falls*: ours +1.10 (+0.20 to +2.00), "
            "seed 1: +1.10; paper +1.50.\n"
            "- Not run: e1 falls less.\n"
        ) in text
    # Student's t with two degrees of freedom: 4.303 * 0.1 / sqrt(3).
    three = replace(VERDICTS[0], by_seed={1: 8.2, 2: 8.0, 3: 8.1}, lacking=())
    words = "(+7.20 to +9.00), over seeds +7.85 to +8.35, seed 1: +8.20"
    text = as_terminal(replace(TABLE, verdicts=(three,)))
    assert words in text


def test_json_has_everything():
    content = json.loads(as_json(TABLE))
    assert list(content) == [field.name for field in fields(numbers.TableNumbers)]
    line = content["sections"][0]["lines"][1]
    assert line["ours"]["by_seed"] == list(E1.by_seed) and line["ours"]["stale"] == E1.stale
    assert content["verdicts"][0]["over_sentences"] == [7.2, 9.0]
