"""Alignment error rate: against hand-computed cases; gold files of all forms, and broken ones."""

import json
import re

import pytest
from refusals import check_command_refusals, check_refusals

from fairseq_hybrid_attn.lab.alignment.error_rate import count, undefined, values
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.corpora.link_files import (
    GoldSentence,
    read_gold,
    read_lengths,
    read_pharaoh,
    write_pharaoh,
)


def gold(sure, possible=()):
    return GoldSentence(frozenset(sure), frozenset(sure) | frozenset(possible))


def write(path, *lines):
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


#: Two sentences. First: A n S = 2, A n P = 2, |A| = 3, |S| = 2, so AER = 1 - 4/5.
#: Second: A n S = 1, A n P = 2, |A| = 2, |S| = 2, so AER = 1 - 3/4.
ALIGNMENTS = [frozenset({(0, 0), (1, 1), (2, 2)}), frozenset({(0, 0), (0, 1)})]
GOLD = [gold({(0, 0), (1, 1)}, {(2, 1)}), gold({(0, 1), (1, 0)}, {(0, 0)})]


def test_what_is_undefined():
    link = frozenset({(0, 0)})
    for links, sentence, rates in (
        (frozenset(), gold(()), (None, None, None)),
        (frozenset(), gold((), link), (None, None, None)),
        (link, gold(()), (100, 0, None)),
        (frozenset(), gold(link), (100, None, 0)),
    ):
        found = count([links], [sentence])
        assert tuple(values(found).values()) == rates
        assert undefined(found) == [1] * (rates[0] is None)
    assert list(values(count([], [])).values()) == [None] * 3
    # Undefined sentences change nothing.
    with_empty = count([*ALIGNMENTS, frozenset()], [*GOLD, gold(())])
    assert values(with_empty) == values(count(ALIGNMENTS, GOLD))
    assert undefined(with_empty) == [3]


def test_pharaoh_files(tmp_path):
    alignments = [frozenset({(10, 2), (2, 10), (2, 3)}), frozenset(), frozenset({(0, 0)})]
    write_pharaoh(tmp_path / "a", alignments)
    assert (tmp_path / "a").read_text() == "2-3 2-10 10-2\n\n0-0\n"
    for lengths in (None, [(11, 11), (0, 0), (1, 1)]):
        assert read_pharaoh(tmp_path / "a", lengths) == alignments


def test_every_form_of_a_link(tmp_path):
    path = write(
        tmp_path / "g",
        "0-0 1:1 2-2S 3-3-S 4-4:S 5-5/S 6-6/1 7:7/1 8-8s 9:9:1",
        "0p0 1P1 2?2 3-3P 4-4-P 5-5:P 6-6/P 7-7/0 8:8/0 9-9p 10p10P 11-11:0",
        "",
        "0-0 0p0 1p1 1-1",
    )
    assert read_gold(path, base=0).sentences == [
        gold({(i, i) for i in range(10)}),
        gold((), {(i, i) for i in range(12)}),
        gold(()),
        gold({(0, 0), (1, 1)}),  # sure, though also called possible
    ]


def test_base_and_direction(tmp_path):
    path = write(tmp_path / "g", "1-2 3p1")
    assert read_gold(path, base=1).sentences == [gold({(0, 1)}, {(2, 0)})]
    assert read_gold(path, base=1, reverse=True).sentences == [gold({(1, 0)}, {(0, 2)})]
    told = read_gold(path, base=0)
    assert told.sentences == [gold({(1, 2)}, {(3, 1)})]
    assert "no link has a word 0" in told.remarks[0]


def test_links_beyond_the_sentence_are_reported_and_left_out(tmp_path):
    path = write(tmp_path / "g", "0-0 2-2", "1-1 1p2 2-0")
    for reverse in (False, True):
        found = read_gold(path, base=0, reverse=reverse, lengths=[(3, 3), (2, 2)])
        assert found.sentences == [gold({(0, 0), (2, 2)}), gold({(1, 1)})]
        assert found.left_out == len(found.remarks) == 2
        assert f"{path}, line 2: sentence 2, link 1p2 is beyond the sentence" in found.remarks[0]
    # Counted from 1, the last word is not beyond the sentence.
    found = read_gold(write(tmp_path / "h", "2-3 3-3"), base=1, lengths=[(2, 3)])
    assert found.sentences == [gold({(1, 2)})] and found.left_out == 1


def test_broken_files(tmp_path):
    """Each case follows a correct first line."""

    def pharaoh(lines):
        read_pharaoh(write(tmp_path / "a", "0-0", lines), [(3, 2), (3, 2)])

    def by_sentence(lines):
        read_gold(write(tmp_path / "a", "1-1", lines), base=1, sentences=2)

    not_links = ("1", "0-x", "-1-0", "0p1", "1-2-3", "٣-0")
    for read, cases in {
        pharaoh: [
            *((f"0-0 {word}", f"line 2: '{word}'") for word in not_links),
            ("0-0 3-0", "line 2: link 3-0 is beyond"),
            ("0-2", "line 2: link 0-2 is beyond"),
            ("0-0\n0-0", "has 3 lines, but there are 2"),
        ],
        by_sentence: [
            ("1-2 x", "line 2: 'x'"),
            ("1-2Q", "line 2: '1-2Q'"),
            ("1p2S", "line 2: link 1p2S"),
            ("1-1\n1-1", "has 3 lines, but there are 2 sentences"),
            ("0-1", "--gold-base 0"),
        ],
    }.items():
        check_refusals(cases, read)


def test_words_are_split_at_the_space_alone(tmp_path):
    source = write(tmp_path / "s", "a \u3000 b", "", " a  b ")
    target = write(tmp_path / "t", "a", "b c", "")
    assert read_lengths(source, target) == [(3, 1), (0, 2), (2, 0)]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The two sentences above and an empty one, gold from 1."""
    monkeypatch.chdir(tmp_path)
    write_pharaoh(tmp_path / "ours", [*ALIGNMENTS, frozenset()])
    write(tmp_path / "gold", "1-1 2-2 3p2 4-1", "1-2 2-1 1?1", "")
    write(tmp_path / "text", "a b c", "a b", "")
    return tmp_path


def test_the_command(files, capsys):
    write_pharaoh(files / "other", [frozenset({(0, 0), (1, 1)}), frozenset(), frozenset()])
    flags = "--gold gold --gold-base 1 --source text --target text --write result.json"
    main(["aer", *flags.split(), "ours", "other"])
    out, err = capsys.readouterr()
    assert "link 4-1" in err
    for told in ("sentences: 3", "4 sure, 2 only possible", "left out: 1", "no AER in 1 sentences"):
        assert told in out
    rows = {line.split()[0]: re.split(" {2,}", line)[1:] for line in filter(None, out.split("\n"))}
    assert rows["ours"] == ["22.22", "80.00", "75.00"]
    # other: A n S = A n P = 2, |A| = 2, |S| = 4.
    assert rows["other"][::2] == ["33.33", "100.00", "50.00"]
    assert rows["other"][1] == "+11.11"
    write_pharaoh(files / "none", [frozenset()] * 3)
    main(["aer", "--gold", "gold", "--gold-base", "1", "ours", "none"])
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("none"))
    # Without the text, link 4-1 counts: ours has 1 - (3 + 4) / (5 + 5), none has 1.
    assert row.split()[:3] == ["none", "100.00", "+70.00"] and "undefined" in row
    result = json.loads((files / "result.json").read_text())
    assert result["gold_left_out"] == 1
    (ours,) = result["systems"]["ours"]
    rates = {name: score["value"] for name, score in ours.items()}
    # Of the added counts, not the mean of the rates.
    assert rates == pytest.approx({"aer": 200 / 9, "precision": 80, "recall": 75})
    assert ours["aer"]["signature"] == "sentences:3|sure:4|possible:6"
    rows = ours["aer"]["counts"]["rows"]
    assert rows == [[3, 2, 3, 2, 2], [2, 2, 3, 1, 2], [0] * 5]


def test_refusals(files, capsys):
    write(files / "short", "1-1")
    write(files / "long", "0-0", "0-0", "0-0")
    refused = {
        "ours --source text": "--target",
        "long --source text --target text": "long, line 3: link 0-0",
        "ours short": "short has 1 lines, but ours has 3",
    }
    check_command_refusals(refused.items(), *"aer --gold gold --gold-base 1".split())
    with pytest.raises(SystemExit):  # the base is never guessed
        main("aer ours --gold gold".split())
    assert "--gold-base" in capsys.readouterr().err
