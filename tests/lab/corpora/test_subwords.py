"""Learning subwords, and splitting text into them."""

from dataclasses import replace

import pytest
from corpora_made import lines, recipe
from fairseq.data import Dictionary
from refusals import check_refusals

from fairseq_hybrid_attn.lab.corpora.definition import Subwords
from fairseq_hybrid_attn.lab.corpora.subwords import (
    learn,
    sampled,
    split_into_subwords,
    splitter,
)
from fairseq_hybrid_attn.lab.corpora.words import join_subwords

KINDS = ("subword-nmt", "sentencepiece-bpe", "sentencepiece-unigram")


def test_fewer_subwords_than_there_are_or_than_characters(prepared, tmp_path):
    def split(kind, size=9000):
        said = []
        corpus = replace(recipe(), subwords=Subwords(kind, size))
        facts = split_into_subwords(corpus, prepared / "tokenised", tmp_path, 1, said.append)
        return *facts["sizes"].values(), *said

    for kind in KINDS:
        size, said = split(kind)
        assert 40 < size < 1000 and f"has only {size:,} " in said
    refused = [("sentencepiece-bpe", "more characters than that; use more than 3")]
    check_refusals(refused, lambda kind: split(kind, size=10))


@pytest.mark.parametrize("text", ["a b c d e\nb c d e\n", "ab cd ef gh\n"])
def test_text_without_pairs_to_merge(text, tmp_path):
    """Words of one character; and each pair once."""
    (tmp_path / "text").write_text(text)
    kind, model = "subword-nmt", tmp_path / "codes"
    assert learn([tmp_path / "text"], model, Subwords(kind, 60), coverage=1.0) == 0
    assert splitter(kind, model)("xy z") == "x@@ y z"


@pytest.mark.parametrize("kind", KINDS)
def test_symbols_of_fairseq_are_words_like_others(kind, tmp_path):
    """Frequent ones, which are whole pieces; the last one is within a word."""
    symbols = ("<s>", "<pad>", "</s>", "<unk>", "x<pad>")
    rows = [symbols[n % 5 :] + symbols[: n % 3] for n in range(200)]
    text, model, subwords = tmp_path / "text", tmp_path / "model", Subwords(kind, 60)
    text.write_text("".join(f"{' '.join(row)}\n" for row in rows))
    learn([text], model, subwords, coverage=1.0)
    split, dictionary = splitter(kind, model), Dictionary()
    for line in lines(text):
        pieces = split(line)
        assert join_subwords(pieces, subwords.family) == line
        *ids, end = dictionary.encode_line(pieces).tolist()
        assert min(ids) >= dictionary.nspecial and end == dictionary.eos()


def test_sample_to_learn_from_is_taken_evenly(tmp_path):
    path = tmp_path / "text"
    path.write_text("".join(f"{number}\n" for number in range(10)))
    for most, step in ((None, 1), (10, 1), (5, 2), (4, 3), (3, 4), (1, 10)):
        assert list(map(int, sampled(path, most))) == list(range(0, 10, step))
