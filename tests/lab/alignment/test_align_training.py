"""Alignments to train on: symmetrisation by hand, subwords, eflomal, fairseq's files."""

import random
from functools import partial
from itertools import product

import pytest
from cli import run
from fairseq.data import Dictionary
from fairseq.tasks.translation import load_langpair_dataset
from refusals import check_command_refusals

from fairseq_hybrid_attn.lab.alignment.error_rate import count
from fairseq_hybrid_attn.lab.commands import align_training
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.corpora import training_links
from fairseq_hybrid_attn.lab.corpora.link_files import GoldSentence, read_pharaoh
from fairseq_hybrid_attn.lab.corpora.training_links import (
    SYMMETRISATIONS,
    Sentence,
    align_words,
    read_bitext,
    symmetrise,
)


def links(text):
    return frozenset(tuple(map(int, link.split("-"))) for link in text.split())


#: forward, backward, grow-diag, grow-diag-final-and
BY_HAND = {
    "a diagonal neighbour": ("0-0 1-1", "0-0", "0-0 1-1", "0-0 1-1"),
    "a chain towards the front": ("3-3 1-1", "3-3 2-2 0-0", "0-0 1-1 2-2 3-3", "0-0 1-1 2-2 3-3"),
    # 0-1 is a neighbour of both, but both of its words have links.
    "no word needs it": ("0-0 1-1 0-1", "0-0 1-1", "0-0 1-1", "0-0 1-1"),
    # Each is a neighbour and joins a free word to a taken one.
    "a word with three links": ("1-1 0-1 2-1", "1-1", "0-1 1-1 2-1", "0-1 1-1 2-1"),
    # Not neighbours: only links between two free words are final-and.
    "far away": ("0-0 3-3 4-0", "0-0", "0-0", "0-0 3-3"),
    # Of 3-3 and 3-5, the forward direction's comes first and takes word 3.
    "forward first": ("0-0 3-3", "0-0 3-5", "0-0", "0-0 3-3"),
    # Final-and does not grow: 4-3 is a neighbour of 3-3, which comes too late.
    "final does not grow": ("0-0 3-3", "0-0 4-3", "0-0", "0-0 3-3"),
    "they never agree": ("0-1", "1-0", "", "0-1 1-0"),
    # In order of the source words: 0-2 joins 0-1 before 1-1 could.
    "source words in order": ("0-2 1-0 0-1", "0-2 1-0 1-1", "0-1 0-2 1-0", "0-1 0-2 1-0"),
    # 1-0 comes from 0-0 and takes word 1 of the source; 1-1 would then join two taken words, since
    # 0-0, looking sideways first, has added 0-1 before.
    "a square": ("0-0 0-1 1-1", "0-0 1-0", "0-0 0-1 1-0", "0-0 0-1 1-0"),
}


def test_symmetrisation_by_hand():
    for case, sides in BY_HAND.items():
        forward, backward, grown, final = map(links, sides)
        simple = [forward & backward, forward | backward, forward, backward]
        found = [symmetrise(forward, backward, how) for how in SYMMETRISATIONS]
        assert found == [final, grown, *simple], case


GERMAN = {f"de{n}": f"en{n}" for n in range(30)}


def bitext(count, seed=0):
    """Sentences of a made-up language pair, word for word, two by two swapped; with the links."""
    choose = random.Random(seed)
    for _ in range(count):
        words = [choose.choice(list(GERMAN)) for _ in range(choose.randint(2, 8))]
        order = [i ^ 1 if i ^ 1 < len(words) else i for i in range(len(words))]
        yield words, [GERMAN[words[i]] for i in order], {(i, j) for j, i in enumerate(order)}


def split(word):
    """Words have one, two or three pieces."""
    pieces = [[word], [f"{word[:2]}@@", word[2:]], [f"{word[0]}@@", f"{word[1]}@@", word[2:]]]
    return pieces[int(word[2:]) % 3]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A training text of 600 pairs and a development text of 20 with empty lines, in subwords."""
    monkeypatch.chdir(tmp_path)
    pairs = list(bitext(620))
    for part, lines in (("train", pairs[:600]), ("valid", pairs[600:])):
        for side, place in (("de", 0), ("en", 1)):
            text = [" ".join(p for word in line[place] for p in split(word)) for line in lines]
            if part == "valid":
                text[3] = ""
                text[5] = "" if side == "en" else text[5]
            (tmp_path / f"{part}.{side}").write_text("".join(f"{line}\n" for line in text))
    return tmp_path


FLAGS = "align-training --source-lang de --target-lang en --subwords subword-nmt".split()


def test_the_command_makes_what_fairseq_trains_on(folder):
    """Through fairseq-preprocess to the data set of ``--load-alignments``."""
    pytest.importorskip("eflomal")
    main([*FLAGS, "--trainpref", "train", "--validpref", "valid", "--word-suffix", "words"])
    pairs = list(bitext(620))[:600]
    words = read_pharaoh(folder / "train.words")
    gold = [GoldSentence(frozenset(links), frozenset(links)) for _, _, links in pairs]
    assert count(words, gold).value < 3
    valid = read_pharaoh(folder / "valid.words")
    assert valid[3] == valid[5] == frozenset()
    # Every piece of a word with every piece of the other.
    pieces = read_pharaoh(folder / "train.align")
    for (*sides, _), of_words, of_pieces in zip(pairs, words, pieces, strict=True):
        source, target = ([n for n, w in enumerate(side) for _ in split(w)] for side in sides)
        linked = product(enumerate(source), enumerate(target))
        assert of_pieces == {(i, j) for (i, k), (j, o) in linked if (k, o) in of_words}

    run(
        "fairseq-preprocess",
        *("-s", "de", "-t", "en", "--destdir", "bin", "--align-suffix", "align"),
        *("--trainpref", "train", "--validpref", "valid"),
        cwd=folder,
    )
    dictionaries = [Dictionary.load(str(folder / f"bin/dict.{side}.txt")) for side in ("de", "en")]
    for part, expected in (("train", pieces), ("valid", read_pharaoh(folder / "valid.align"))):
        dataset = load_langpair_dataset(
            *(str(folder / "bin"), part, "de", dictionaries[0], "en", dictionaries[1], False),
            *("mmap", -1, True, False, 1024, 1024),
            load_alignments=True,
        )
        for entry, of_pieces in zip(dataset, expected, strict=True):
            assert set(map(tuple, entry["alignment"].view(-1, 2).tolist())) == of_pieces
            sizes = len(entry["source"]) - 1, len(entry["target"]) - 1
            assert all(i < sizes[0] and j < sizes[1] for i, j in of_pieces)


def test_long_sentences_are_reported(tmp_path, monkeypatch, capsys):
    pytest.importorskip("eflomal")
    monkeypatch.chdir(tmp_path)
    for side in ("de", "en"):
        lines = [" ".join(["x"] * n) for n in (2, 1023, 1024)]
        (tmp_path / f"t.{side}").write_text("".join(f"{line}\n" for line in lines))
    quick = partial(align_words, samplers=1, length=0.001)
    monkeypatch.setattr(align_training, "align_words", quick)
    main([*FLAGS, "--testpref", "t"])
    assert "1 sentences have more than 1,023" in capsys.readouterr().err
    found = read_pharaoh(tmp_path / "t.align")
    assert found[1] and not found[2]


def test_refusals(folder, monkeypatch):
    monkeypatch.setattr(training_links, "load_eflomal", lambda: pytest.fail("eflomal was run"))
    refused = {
        "": "--trainpref",
        "--trainpref train --testpref train": "must differ",
        "--trainpref train --word-suffix align": "writes there too",
    }
    check_command_refusals(refused.items(), *FLAGS)


def test_pairs_count_what_fairseq_counts(tmp_path):
    """fairseq-preprocess takes any white space for the end of a subword."""
    (tmp_path / "t.de").write_text("ei@@ n\u3000Hund  @@\u00a0. \n")
    (tmp_path / "t.en").write_text("\n")
    found = read_bitext(tmp_path / "t.de", tmp_path / "t.en", "subword-nmt")
    assert found.source == [Sentence([[0, 1], [2], [3, 4]], ["ein", "Hund", "."])]
    assert found.target == [Sentence([], [])]
