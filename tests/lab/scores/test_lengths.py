"""BLEU by source length: groups, scores against sacrebleu's own, files, and users' mistakes."""

import json
import random

import numpy as np
import pytest
from refusals import check_command_refusals
from sacrebleu.metrics import BLEU

from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.figures import style
from fairseq_hybrid_attn.lab.scores.counts import Score, SentenceCounts
from fairseq_hybrid_attn.lab.scores.lengths import count_words
from fairseq_hybrid_attn.lab.scores.metrics import build_metric
from fairseq_hybrid_attn.lab.scores.statistics import Estimate, difference
from fairseq_hybrid_attn.lab.tables.by_length import draw
from fairseq_hybrid_attn.lab.tables.measuring import Number

CHOOSE = random.Random(7)
VOCABULARY = "the a cat dog sat ran on under mat tree , . quickly and saw well-known it's".split()


def sentence(words: int) -> str:
    return " ".join(CHOOSE.choice(VOCABULARY) for _ in range(words))


def corrupt(line: str, share: float) -> str:
    return " ".join(
        CHOOSE.choice(VOCABULARY) if CHOOSE.random() < share else word for word in line.split()
    )


# Every bound and its neighbours, sentences without words, and none of 31 to 40.
LENGTHS = [0, 1, 9, 10, 10, 11, 11, 19, 20, 21, 29, 30, 41, 50, 51, 52, 80, 0, 5, 6, 7, 15, 16, 25]
SOURCE = [" ".join(["wort"] * length) for length in LENGTHS]
REFERENCE = [sentence(max(4, length)) for length in LENGTHS]
GOOD = [corrupt(line, 0.2) for line in REFERENCE]
BAD = [corrupt(line, 0.5) for line in REFERENCE]


@pytest.fixture(autouse=True)
def files(folder):
    """A source, a reference and two systems in the current folder."""
    for name, lines in {"src": SOURCE, "ref": REFERENCE, "good": GOOD, "bad": BAD}.items():
        write(folder / name, lines)


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


FILES = "--source src --reference ref --target-lang en".split()
SYSTEMS = "--hypotheses good=good --hypotheses bad=bad".split()


def lengths(*arguments, files=FILES, systems=SYSTEMS):
    main(["score", "--by-length", *files, *systems, "--write", "out.json", *arguments])
    with open("out.json", encoding="utf-8") as file:
        return json.load(file)["by_length"]


def by_group(found):
    """The numbers of each group by its label, then by the system."""
    return {
        column["name"]: {n["row"]: n for n in found["numbers"] if n["column"] == column["name"]}
        for column in found["columns"]
    }


EDGES = [(0, 10), (10, 20), (20, 30), (30, 40), (40, 50), (50, 1000)]


def test_each_group_and_the_whole_are_scored_as_a_corpus(folder, capsys):
    """With intervals and p; a group without sentences has an empty row."""
    found = lengths()
    assert "2 sentences" in found["notes"]
    groups = by_group(found)
    for (low, high), group in zip([*EDGES, (-1, 1000)], groups.values(), strict=True):
        numbers = [n for n, length in enumerate(LENGTHS) if low < length <= high]
        assert [one["sentences"] for one in group.values()] == [len(numbers)] * 2
        if not numbers:
            assert [one["ours"] for one in group.values()] == [None] * 2 and low == 30
            continue
        references = [REFERENCE[n] for n in numbers]
        for name, lines in {"good": GOOD, "bad": BAD}.items():
            expected = BLEU().corpus_score([lines[n] for n in numbers], [references])
            assert group[name]["ours"]["value"] == pytest.approx(expected.score, abs=1e-9)

    metric = build_metric("bleu", "en")
    expected = difference({1: metric.score(BAD, REFERENCE)}, {1: metric.score(GOOD, REFERENCE)})
    found = groups["all"]["bad"]["difference"]
    assert groups["all"]["good"]["difference"] is None
    assert (found["p"], found["half"]) == pytest.approx((expected.p, expected.half))

    lines = {line.split()[0]: line.split() for line in capsys.readouterr().out.split("\n") if line}
    assert lines["(30,40]"] == ["(30,40]", "0"]
    assert lines["(0,10]"][1] == "7" and lines["(0,10]"][3] == "±"
    assert lines["all"][1] == str(len(LENGTHS))


def test_without_a_source_the_words_of_the_reference_count(capsys):
    seeds = [*SYSTEMS, "--hypotheses", "bad=good"]
    found = lengths("--scores", "chrf", files=FILES[2:], systems=seeds)
    short = sum(0 < len(line.split()) <= 10 for line in REFERENCE)
    bad = by_group(found)["(0,10]"]["bad"]
    # A single translation is beside both seeds of the other, as in the table of all sentences.
    assert bad["sentences"] == short and bad["difference"]["by_seed"].keys() == {"1", "2"}
    assert "reference words" in capsys.readouterr().out


def test_words_of_subwords_or_without_spaces_are_told(capsys):
    for line, told in (("wo@@ rt", "subword-nmt"), ("我喜欢这本书" * 5, "30 characters")):
        count_words([line], "src")
        assert told in capsys.readouterr().err


def number(row, value, half=None):
    counts = SentenceCounts("bleu", np.zeros((12, 1)), "")
    scores = {1: Score(value, "", counts)}
    return Number(row, row, "", "bleu", "done", ours=Estimate(value, {}, half), scores=scores)


def test_figures_are_written_in_all_formats_the_same_each_time():
    groups = {
        "(0,10]": [number("a", 30.0, 4.0), number("b", 20.0)],
        "(10,∞)": [Number(row, row, "", "bleu", "no sentences") for row in "ab"],
    }

    def drawn():
        return draw(groups, {"a": "a", "b": "b"}, "BLEU")

    for suffix, start in {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}.items():
        first, second = (style.render(drawn(), suffix) for _ in range(2))
        assert first == second and first.startswith(start), suffix
    (axes,) = drawn().axes
    first, second = (bars.lines for bars in axes.containers)
    assert list(first[0].get_ydata())[0] == 30.0 and list(second[0].get_ydata())[0] == 20.0
    assert first[0].get_ydata()[1] != first[0].get_ydata()[1]  # a gap
    assert [tuple(point[1] for point in bar) for bar in first[2][0].get_segments()][0] == (26, 34)


def test_a_dollar_in_a_name_is_not_a_formula(folder):
    with style.theme("light", ["a$b$"]):
        shown = style.new_figure(2, 2)
        shown.subplots().set_title("$\\frac{$ and $x_1$")
        assert style.render(shown, "svg")  # matplotlib would refuse the formula


def test_refusals(folder, capsys):
    write(folder / "short", GOOD[:3])
    three = ("--reference", "short", "--hypotheses", "short", "--target-lang", "en")
    told = {"--by-length --source src": "source: 24 lines", "--write x.png": "--by-length"}
    check_command_refusals(told.items(), "score", *three)
    with pytest.raises(SystemExit):
        lengths("--bounds", "20,10")
    assert "--bounds" in capsys.readouterr().err
