"""Links from attention: which step, which layer, which head, which word; in any batch."""

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from every_model import build, sample
from fairseq.data import LanguagePairDataset, ListDataset
from models import task_of

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.alignment.forced import AlignedSentence, aligned, strongest
from fairseq_hybrid_attn.lab.corpora.words import check_kind, text_of, words_of
from fairseq_hybrid_attn.lab.models.attentions import CROSS, Attentions
from fairseq_hybrid_attn.lab.models.on_text import ModelOnText
from fairseq_hybrid_attn.lab.models.sentences import Sentences
from fairseq_hybrid_attn.lab.models.trained import TrainedModel

#: A batch of one sentence: source and target.
ONE = [[5, 6, 7, 8, 9, 2]], [[4, 5, 6, 7, 2]]

TRAINED = TrainedModel(*[Path("m.pt")] * 4, ("de", "en"))


def sentences(count, seed=0, longest=9):
    """Pairs of lines in subwords; among them empty ones and equal ones."""
    choose = random.Random(seed)

    def line(least):
        return [f"w{choose.randrange(12)}" for _ in range(choose.randint(least, longest))]

    pairs = [(line(1), line(0)) for _ in range(count)]
    pairs[3] = ([], ["w1", "w2"])
    pairs[5] = ([], [])
    pairs[7] = pairs[2]
    source, target = zip(*pairs, strict=True)
    return [" ".join(words) for words in source], [" ".join(words) for words in target]


def align(model, source, target, numbers=None, *, subwords="none", max_tokens=4000, **settings):
    text = Sentences.of_text(task_of(), source, target)
    loaded = ModelOnText("m", TRAINED, model, task_of(), text, subwords, max_tokens=max_tokens)
    numbers = range(len(source)) if numbers is None else numbers
    return loaded.observe(
        loaded.attentions([CROSS]), numbers, lambda *seen: aligned(loaded, *seen, **settings)
    )


def cross_attention(model, batch, **settings):
    """The cross-attention to each sentence, ``[layers, heads, t, s]``."""
    seen = Attentions(model, [CROSS], **settings).observe(batch)
    return [torch.stack([layer.weights[0] for layer in sentence[CROSS]]) for sentence in seen]


def test_sentences_come_in_order_from_small_batches(monkeypatch):
    sizes, observe = [], Attentions.observe

    def watched(attentions, sample):
        sizes.append(tuple(sample["target"].shape))
        return observe(attentions, sample)

    model, (source, target), skip = build("mma"), sentences(30), [0, 12, 29]
    at_once = align(model, source, target)
    for one, *sides in zip(at_once, source, target, strict=True):
        assert [" ".join(one.source), " ".join(one.target)] == sides
        assert one.attention.shape == (2, 4, len(one.target), len(one.source) + 1)
    monkeypatch.setattr("fairseq_hybrid_attn.lab.models.sentences._WINDOW", 7)
    monkeypatch.setattr(Attentions, "observe", watched)
    wanted = [n for n in range(30) if n not in skip]
    found = align(model, source, target, wanted, max_tokens=20)
    assert [s.links(-1, 1) for s in found] == [at_once[n].links(-1, 1) for n in wanted]
    assert all(rows * length <= 20 for rows, length in sizes)
    assert max(rows for rows, _ in sizes) > 1 and sum(rows for rows, _ in sizes) == 27
    sizes.clear()
    align(model, source, target, max_tokens=1)
    assert [rows for rows, _ in sizes] == [1] * 30


def test_layers_and_heads_are_those_that_fairseq_returns():
    """Of the first head and of the mean, which its decoder can be asked for."""
    for name in ("stock", "stock-prenorm", "stock-checkpointed", "hysan", "mma"):
        model, batch = build(name), sample(*ONE)
        (found,) = cross_attention(model, batch)
        source, _, before = batch["net_input"].values()
        for layer in range(2):
            for heads, expected in ((1, found[layer, 0]), (None, found[layer].mean(0))):
                wanted = {"alignment_layer": layer, "alignment_heads": heads}
                with torch.no_grad():
                    encoder_out = model.encoder(source)
                    _, extra = model.decoder(before, encoder_out=encoder_out, **wanted)
                torch.testing.assert_close(expected, extra["attn"][0][0], rtol=0, atol=1e-6)
        heads = found.flatten(0, 1)
        assert all(not a.allclose(b, atol=1e-4) for n, a in enumerate(heads) for b in heads[:n])


def test_choosing_layers_and_heads():
    attention = np.random.default_rng(0).random((3, 4, 2, 6)).astype("float32")
    sentence = AlignedSentence(list("abcde"), list("xy"), attention)
    for layer, head, expected in (
        (1, 1, attention[0, 0]),
        (3, 4, attention[2, 3]),
        (-1, -1, attention[2, 3]),
        (-3, -2, attention[0, 2]),
        (2, "average", attention[1].mean(0)),
        ("average", 2, attention[:, 1].mean(0)),
        ("average", "average", attention.mean((0, 1))),
    ):
        np.testing.assert_allclose(sentence.of(layer, head), expected, rtol=1e-6)


def test_the_strongest_source_word():
    attention = np.array([[0.1, 0.6, 0.1, 0.2], [0.2, 0.1, 0.1, 0.6], [0.3, 0.1, 0.3, 0.3]])
    assert strongest(attention) == {(1, 0), (0, 1), (0, 2)}
    assert strongest(attention, end_symbol=True) == {(1, 0), (0, 2)}
    # Of equal ones the first, whatever the last digits; but not of unequal ones.
    for second, chosen in ((0.4, 0), (0.4 + 1e-7, 0), (0.4 - 1e-7, 0), (0.401, 1)):
        assert strongest(np.array([[0.4, second, 0.2]])) == {(chosen, 0)}
    for without_words in (np.ones((2, 1)), np.ones((0, 4))):
        assert not strongest(without_words) and not strongest(without_words, end_symbol=True)


def test_words_and_steps_of_a_sentence_that_is_aligned():
    """Sums and means of what the decoder attends to, by the rows that predict the pieces.

    The step that reads a piece is one later.
    """
    model, words = build("stock"), task_of().source_dictionary
    source = [words.index(word) for word in ("w1", "w2@@", "w3")]
    target = [words.index(word) for word in ("w4@@", "w5", "w6")]
    (pieces,) = cross_attention(model, sample([[*source, 2]], [[*target, 2]]))
    for read in (False, True):
        steps = pieces[:, :, int(read) :]
        settings = {"subwords": "subword-nmt", "read_step": read}
        (found,) = align(model, ["w1 w2@@ w3"], ["w4@@ w5 w6"], **settings)
        assert (found.source, found.target) == (["w1", "w2w3"], ["w4w5", "w6"])
        rows = torch.stack([steps[:, :, 0:2].mean(2), steps[:, :, 2]], dim=2)
        expected = torch.stack([rows[..., 0], rows[..., 1:3].sum(-1), rows[..., 3]], dim=-1)
        np.testing.assert_allclose(found.attention, expected, atol=1e-6)


def test_the_whole_translation_as_context():
    """The first step sees what comes after it, if and only if requested."""
    for full, same in ((False, True), (True, False)):
        first, second = (
            cross_attention(build("stock"), sample(ONE[0], [target]), full_context=full)[0]
            for target in ([4, 5, 6, 7, 2], [4, 5, 9, 9, 2])
        )
        assert first[:, :, 0].allclose(second[:, :, 0], atol=1e-6) is same
    for name, said in (("lstm", "--full-context"), ("hysan", "no future token")):
        with pytest.raises(UserError, match=said):
            cross_attention(build(name), sample(*ONE), full_context=True)
    silent = build("lstm")
    silent.decoder.need_attn = False
    with pytest.raises(UserError, match="returns no attention"):
        align(silent, ["w1"], ["w2"])


def test_the_dictionarys_own_symbols_are_not_words():
    """fairseq leaves padding out, and an end symbol ends: all later words would be shifted."""
    for symbol in ("<pad>", "</s>"):
        for sides in ((f"a {symbol} b", "c"), ("a b c", f"a {symbol} b")):
            with pytest.raises(UserError, match="<pad> are fairseq's own symbols .*: sentence 2$"):
                Sentences.of_text(task_of(), ["a b", sides[0]], ["b", sides[1]])
    words = task_of().source_dictionary
    for symbol in (words.pad(), words.eos()):
        lines = [torch.tensor([5, symbol, 6, 2]), torch.tensor([5, 2])]
        data = LanguagePairDataset(
            *(ListDataset(lines), [4, 2], words, ListDataset(lines[:1] * 2), [4, 4], words)
        )
        task = SimpleNamespace(load_dataset=lambda split: None, dataset=lambda split, d=data: d)
        with pytest.raises(UserError, match="own symbols"):
            Sentences.of_split(task, "test")


def test_which_pieces_are_a_word():
    for kind, line, words in (
        ("none", "a b@@ \u2581c", [[0], [1], [2]]),
        ("subword-nmt", "ein@@ e Kat@@ z@@ e schläft", [[0, 1], [2, 3, 4], [5]]),
        ("subword-nmt", "a b@@", [[0], [1]]),
        ("subword-nmt", "@@ a @@ b", [[0, 1], [2, 3]]),
        ("subword-nmt", "a @@", [[0, 1]]),
        ("sentencepiece", "\u2581Ein e \u2581Katze .", [[0, 1], [2, 3]]),
        ("sentencepiece", "ohne \u2581Anfang", [[0], [1]]),
        ("sentencepiece", "\u2581 我们 \u2581 \u2581好", [[0, 1], [2, 3]]),
        ("sentencepiece", "\u2581a \u2581", [[0, 1]]),
        ("sentencepiece", "\u2581", []),
        ("subword-nmt", "@@", []),
        ("none", "", []),
    ):
        pieces = line.split()
        assert words_of(pieces, kind) == words, (kind, line)
        if kind == "sentencepiece":
            text = line.replace(" ", "").replace("\u2581", " ").split()
            assert [text_of(word, pieces, kind) for word in words] == text, line


def test_text_has_the_marks_of_its_subwords(capsys):
    bpe, pieces = ["a@@", "b", "c"], ["\u2581a", "b", "\u2581c"]
    for right, kind, wrong in ((bpe, "subword-nmt", pieces), (pieces, "sentencepiece", bpe)):
        check_kind([right], kind)
        check_kind([["a", "b"]], kind)  # no word of it is split
        check_kind([[*bpe, *pieces]], kind)  # both marks: one of them is text
        check_kind([], kind)
        with pytest.raises(UserError, match=f"--subwords {kind}"):
            check_kind([["x"], wrong], kind)
    assert not capsys.readouterr().err
    check_kind([bpe], "none")
    assert "looks like subword-nmt" in capsys.readouterr().err
