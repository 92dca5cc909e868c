"""``align``: models with known attention, made by hand, through the whole command."""

import json
import random
import re
import shutil
from pathlib import Path

import analysed
import numpy as np
import pytest
import torch
from cli import TINY, write_corpus
from fairseq.data import Dictionary
from refusals import check_command_refusals
from written import scores_in

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.alignment.forced import strongest
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.corpora.link_files import read_pharaoh

LETTERS = "abcdefghij"
#: One wide enough for hand-made weights: 16 letters and places, in 16 dimensions each.
BY_HAND = (
    "--encoder-embed-dim 64 --encoder-ffn-embed-dim 8 --no-scale-embedding "
    "--share-all-embeddings --encoder-learned-pos --decoder-learned-pos "
    "--max-source-positions 13 --max-target-positions 13"
).split()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Models, a binarised corpus and texts; tests work in it, each with its own names."""
    folder = tmp_path_factory.mktemp("align")
    write_corpus(folder, hard_cases=True)
    (folder / "bin").mkdir()
    for side in ("de", "en"):  # of 16 entries, with fairseq's own four
        (folder / f"bin/dict.{side}.txt").write_text("".join(f"{x} 1\n" for x in f"{LETTERS}xy"))
    analysed.binarise(folder, stem="test")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(analysed.MODELS, "blank", ("transformer", [*TINY, *BY_HAND]))
        analysed.save(folder, "blank")
    choose = random.Random(1)
    copied = [[choose.choice(LETTERS) for _ in range(choose.randint(1, 11))] for _ in range(25)]
    ends = [list(LETTERS[-n:]) for n in (3, 10, 1, 7, 2, 9, 4, 4, 6, 5, 8)]
    for task, sentences, order in (("copy", copied, 1), ("reverse", ends, -1)):
        by_hand(folder, task)
        sentences.insert(2, [])
        gold = [
            " ".join(f"{i}-{j}" for i, j in zip(places, places[::order], strict=True))
            for places in (range(1, len(sentence) + 1) for sentence in sentences)
        ]
        sides = ([" ".join(sentence[::step]) for sentence in sentences] for step in (1, order))
        for name, content in zip(("de", "en", "gold"), (*sides, gold), strict=True):
            (folder / f"{task}.{name}").write_text("".join(f"{line}\n" for line in content))
    return folder


def by_hand(folder, task):
    """Weights with which head 3 of layer 2 attends to the word that is to be written.

    Copying: step t attends to the source word in place t.  Backwards: a step attends to the
    letter before the one that was written last, and at first to the last letter, j; sources are the
    ends of the alphabet.  All else is uniform or silent.
    """
    state = torch.load(folder / "blank.pt", weights_only=True)
    weights = state["model"]
    for name, weight in weights.items():
        if not name.endswith("version"):
            weight.fill_(1 if name.endswith("norm.weight") else 0)
    words = torch.arange(16)
    for side in ("encoder", "decoder"):
        weights[f"{side}.embed_tokens.weight"][words, words] = 8
        # Places begin at 2, after the padding's number.
        weights[f"{side}.embed_positions.weight"][words[2:15], words[2:15] + 16] = 8
    query, key = (weights[f"decoder.layers.1.encoder_attn.{name}_proj.weight"] for name in "qk")
    head = words + 32
    if task == "copy":
        query[head, words + 16] = key[head, words + 16] = 10
    else:
        dictionary = Dictionary.load(str(folder / "bin/dict.en.txt"))
        letters = [dictionary.index(letter) for letter in LETTERS]
        key[head, words] = 10
        for before, letter in zip(letters, letters[1:], strict=False):
            query[32 + before, letter] = 10
        query[32 + letters[-1], 2] = 10  # first, the end symbol is read
    torch.save(state, folder / f"{task}.pt")


@pytest.fixture
def data(trained, monkeypatch):
    monkeypatch.chdir(trained)
    return trained


def command(*flags, path="copy.pt", subwords="none"):
    main(["align", path, "--data", "bin", "--subwords", subwords, *map(str, flags)])


def text(name, *sides):
    """Flags for a text; it is written first if its sides are given."""
    for side, content in zip(("de", "en"), sides, strict=False):
        Path(f"{name}.{side}").write_text(content)
    return ["--source", f"{name}.de", "--target", f"{name}.en"]


def lines(path):
    return Path(path).read_text().split("\n")[:-1]


HEAD = ("--layer", 2, "--head", 3)  # the one that attends to what is written


@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_copying_is_the_diagonal_and_backwards_the_other(data, task, capsys):
    gold = ("--gold", f"{task}.gold", "--gold-base", 1, "--table")
    command(*text(task), *HEAD, "--output", "out", "--write", "out.json", *gold, path=f"{task}.pt")
    out = capsys.readouterr().out
    lengths = [len(line.split()) for line in lines(f"{task}.de")]
    for n, links in zip(lengths, read_pharaoh(data / "out"), strict=True):
        assert links == {(i if task == "copy" else n - 1 - i, i) for i in range(n)}
    result = json.loads((data / "out.json").read_text())
    scores = scores_in(data / "out.json")
    assert [scores[name]["value"] for name in ("aer", "precision", "recall")] == [0, 100, 100]
    rows = scores["aer"]["counts"]["rows"]
    assert sum(row[0] for row in rows) == sum(row[1] for row in rows) == sum(lengths)
    rates = {(entry["layer"], entry["head"]): entry["aer"] for entry in result["heads"]}
    layers, heads = [1, 2, "average"], [1, 2, 3, 4, "average"]
    assert list(rates) == [(layer, head) for layer in layers for head in heads]
    right = {(2, 3), (2, "average"), ("average", 3), ("average", "average")}
    assert {key for key, aer in rates.items() if aer == 0} == right
    assert all(rates[key] > 20 for key in set(rates) - right)
    (row,) = [line for line in out.splitlines() if line.startswith("layer 2  ")]
    assert [f"{rates[2, head]:.2f}" for head in heads] == re.findall(r"(?<!± )\d+\.\d\d", row)


def test_counts_of_sentences_and_the_selected_layer(data):
    """Of the heads of that layer, wherever it is counted from."""
    gold = ("--gold", "copy.gold", "--gold-base", 1, "--table", "--write", "j.json")
    heads = (1, 2, 3, 4, "average")
    names = ("aer.head1", "aer.head2", "aer.head3", "aer.head4", "aer.average")
    for layer, number in ((-2, 1), ("last", 2), ("average", "average")):
        command(*text("copy"), "--layer", layer, *gold)
        scores, result = scores_in(data / "j.json"), json.loads((data / "j.json").read_text())
        assert set(scores) == {"aer", "precision", "recall", *names}
        rates = {(one["layer"], one["head"]): one["aer"] for one in result["heads"]}
        for name, head in zip(names, heads, strict=True):
            assert scores[name]["value"] == rates[number, head]
            assert len(scores[name]["counts"]["rows"]) == len(lines("copy.de"))
        assert scores["aer"]["signature"].startswith(f"layer:{layer}|head:average|end:ignore|")


def test_a_binarised_set_is_as_its_text(data):
    command(*text("test"), "--output", "a", "--too-long", "empty")
    command("--max-tokens", 30, "--output", "b", "--too-long", "empty")
    assert lines("a") == lines("b") and len(lines("a")) == 20


def test_sentences_that_are_too_long(data):
    """They are refused, or have no links in any cell of the table."""
    with pytest.raises(UserError, match="sentence 6; --too-long"):
        command("--output", "long")
    Path("one.gold").write_text("".join("1-1\n" if n == 5 else "\n" for n in range(20)))
    gold = ("--gold", "one.gold", "--gold-base", 1, "--table", "--write", "j.json")
    command("--too-long", "empty", *gold, "--output", "long", "--matrices", "long.npz")
    assert lines("long")[5] == ""
    result = json.loads((data / "j.json").read_text())
    assert len(result["heads"]) == 15
    assert {entry["recall"] for entry in result["heads"]} == {0}
    assert "|sure:1|" in scores_in(data / "j.json")["aer"]["signature"]
    left_out = np.load(data / "long.npz")["5"]
    assert left_out.shape == (60, 61) and not left_out.any()


def test_matrices(data):
    command(*text("copy"), *HEAD, "--matrices", "m.npz", "--output", "links")
    texts = list(zip(lines("copy.de"), lines("copy.en"), strict=True))
    arrays = np.load(data / "m.npz")
    assert len(arrays) == len(texts)
    for number, links in enumerate(read_pharaoh(data / "links")):
        array = arrays[str(number)]
        source, target = (line.split() for line in texts[number])
        assert array.shape == (len(target), len(source) + 1)
        np.testing.assert_allclose(array.sum(-1), 1, atol=1e-5)
        assert strongest(array) == links


def test_the_end_symbol_and_the_step(data):
    """A target that is longer than its source: the copying model then attends past the words.

    When it reads a word, it already looks at the next one.
    """
    flags = [*HEAD, "--output", "out"]
    command(*text("longer", "a b\n", "a b c\n"), *flags, "--end-symbol", "null")
    assert lines("out") == ["0-0 1-1"]
    command(*text("longer"), *flags)
    assert len(lines("out")[0].split()) == 3
    abc = text("abc", "a b c\n", "a b c\n")
    command(*abc, *flags, "--end-symbol", "null", "--step", "read")
    assert lines("out") == ["1-0 2-1"]


def test_subwords_and_gold_of_words(data, capsys):
    """Text shows where words end, whatever the model knows; a gold link past them is reported."""
    Path("bpe.gold").write_text("1-1 2-2 3-3\n\n")
    bpe = text("bpe", *["a@@ b c\n\n"] * 2)
    gold = ["--gold", "bpe.gold", "--gold-base", 1, "--output", "out"]
    command(*bpe, *gold, *HEAD, subwords="subword-nmt")
    out, err = capsys.readouterr()
    assert (data / "out").read_text() == "0-0 1-1\n\n"
    assert "link 3-3" in err and "left out: 1" in out and "0.00" in out


def test_unknown_subwords_are_told(data, capsys):
    """Of text, and of a binarised set, where only those of subwords are a mistake."""
    command(*text("unknown", *["a b\nHausbau b\n"] * 2), "--output", "o")
    assert "1 of 2 sentences have subwords" in capsys.readouterr().err
    shutil.copytree("bin", "unknown/bin")
    text("unknown/test", *["a b c\na zz@@ b\n"] * 2)
    analysed.binarise(Path("unknown"), stem="test")
    for subwords, told in (("subword-nmt", True), ("none", False)):
        flags = ("--subwords", subwords, "--output", "o")
        main(["align", "copy.pt", "--data", "unknown/bin", *flags])
        assert ("1 of 2 sentences have subwords" in capsys.readouterr().err) is told


def test_refusals(data):
    command = "align --data bin --subwords none --too-long empty"
    check_command_refusals(
        [
            ("", "nothing to do"),
            ("--output o --layer 3", "--layer 3: there are 2"),
            ("--output o --head 5", "--head 5: there are 4"),
            ("--output o --head 0", "--head 0"),
            ("--output o --layer 1.5", "--layer 1.5"),
            ("--output o --source copy.de", "--target"),
            ("--output o --source copy.de --target reverse.en", "has 26 lines, .* has 12"),
            ("--output o --matrices o.txt", ".npz"),
            ("--gold copy.gold", "--gold-base"),
            ("--output o --table", "--gold"),
        ],
        *command.split(),
        "copy.pt",
    )
