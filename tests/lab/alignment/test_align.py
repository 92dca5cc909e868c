"""Alignments out of attention: which step, which layer, which head, which word; in any batch."""

import json
import random
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from cli import binarise, run, train, write_corpus
from every_model import MODELS, SHAPES, SYMBOLS, build, task_of
from fairseq.data import Dictionary, LanguagePairDataset, ListDataset

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.alignment.forced import (
    AlignedSentence,
    Aligner,
    cross_attention,
    strongest,
)
from fairseq_hybrid_attn.lab.alignment.link_files import read_pharaoh
from fairseq_hybrid_attn.lab.command_line import main
from fairseq_hybrid_attn.lab.inference.loading import load_model
from fairseq_hybrid_attn.lab.inference.sentences import Sentences
from fairseq_hybrid_attn.lab.text.words import (
    check_kind,
    piece_links,
    text_of,
    word_attention,
    words_of,
)


def sentences(count, seed=0, longest=9):
    """Pairs of lines in subwords; among them empty ones and equal ones."""
    choose = random.Random(seed)

    def line(least):
        return [f"w{choose.randrange(SYMBOLS)}" for _ in range(choose.randint(least, longest))]

    pairs = [(line(1), line(0)) for _ in range(count)]
    pairs[3] = ([], ["w1", "w2"])
    pairs[5] = ([], [])
    pairs[7] = pairs[2]
    source, target = zip(*pairs, strict=True)
    return [" ".join(words) for words in source], [" ".join(words) for words in target]


def align(model, source, target, *, subwords="none", left=True, **settings):
    task = task_of(left)
    sentences = Sentences.of_text(task, source, target)
    return list(Aligner(model, subwords, **settings).align(sentences))


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@pytest.mark.parametrize("name", MODELS)
def test_a_batch_is_its_sentences_alone_in_order(name, left):
    model = build(name)
    source, target = sentences(30)
    batched = align(model, source, target, left=left, max_tokens=90)
    for number, together in enumerate(batched):
        assert " ".join(together.source) == source[number]
        assert " ".join(together.target) == target[number]
        (alone,) = align(model, source[number : number + 1], target[number : number + 1])
        layers, heads = SHAPES.get(name, (2, 4))
        shape = (layers, heads, len(together.target), len(together.source) + 1)
        assert together.attention.shape == shape
        np.testing.assert_allclose(together.attention, alone.attention, rtol=0, atol=2e-6)
        np.testing.assert_allclose(together.attention.sum(-1), 1, atol=1e-5)
        for layer in (*range(1, layers + 1), "average"):
            for head in (*range(1, heads + 1), "average"):
                assert together.links(layer, head) == alone.links(layer, head)


def test_windows_of_sentences_are_in_order(monkeypatch):
    model = build("mma")
    source, target = sentences(30)
    at_once = align(model, source, target)
    monkeypatch.setattr("fairseq_hybrid_attn.lab.inference.sentences._WINDOW", 7)
    told = []
    aligner = Aligner(model, "none", max_tokens=40)
    found = list(
        aligner.align(
            Sentences.of_text(task_of(), source, target),
            use=lambda s: s.links(-1, 1),
            skip=[0, 12, 29],
            progress=told.append,
        )
    )
    assert [n for n, links in enumerate(found) if links is None] == [0, 12, 29]
    assert all(
        links == one.links(-1, 1)
        for links, one in zip(found, at_once, strict=True)
        if links is not None
    )
    assert sum(told) == 30 and len(told) > 5


def test_batches_are_no_larger_than_asked(monkeypatch):
    sizes = []

    def watch(model, sample, **settings):
        sizes.append(tuple(sample["target"].shape))
        return cross_attention(model, sample, **settings)

    monkeypatch.setattr("fairseq_hybrid_attn.lab.alignment.forced.cross_attention", watch)
    source, target = sentences(30)
    align(build("mma"), source, target, max_tokens=20)
    assert all(rows * length <= 20 for rows, length in sizes)
    assert max(rows for rows, _ in sizes) > 1 and sum(rows for rows, _ in sizes) == 30
    sizes.clear()
    align(build("mma"), source, target, max_tokens=1)
    assert [rows for rows, _ in sizes] == [1] * 30


def one_batch(source=((5, 6, 7, 8, 9, 2),), target=((4, 5, 6, 7, 2),)):
    source, target = torch.tensor(source), torch.tensor(target)
    return {
        "target": target,
        "net_input": {
            "src_tokens": source,
            "src_lengths": torch.tensor([source.size(1)] * len(source)),
            "prev_output_tokens": target.roll(1, dims=1),
        },
    }


@pytest.mark.parametrize("name", ["stock", "stock-prenorm", "stock-checkpointed", "hysan", "mma"])
def test_layers_and_heads_are_those_of_the_modules(name):
    """Of every layer and head, against the scores computed from the module's own inputs; of the
    first head and of the mean, against what fairseq's decoder returns for them."""
    model = build(name)
    sample = one_batch()
    inputs, seen = {}, []
    hooks = [
        layer.encoder_attn.register_forward_pre_hook(
            lambda module, args, kwargs, key=key: inputs.update({key: kwargs}), with_kwargs=True
        )
        for key, layer in enumerate(model.decoder.layers)
    ]
    (found,) = cross_attention(model, sample)
    for hook in hooks:
        hook.remove()
    for layer, module in enumerate(model.decoder.layers):
        attention = module.encoder_attn
        with torch.no_grad():
            q = attention.q_proj(inputs[layer]["query"])[:, 0].view(-1, 4, 4)
            k = attention.k_proj(inputs[layer]["key"])[:, 0].view(-1, 4, 4)
        for head in range(4):
            weights = (q[:, head] @ k[:, head].T / 2).softmax(-1)
            torch.testing.assert_close(found[layer, head], weights, rtol=0, atol=1e-6)
            seen.append(weights)
        net = sample["net_input"]
        with torch.no_grad():
            encoder_out = model.encoder(net["src_tokens"], src_lengths=net["src_lengths"])
            for heads, expected in ((1, found[layer, 0]), (None, found[layer].mean(0))):
                theirs = model.decoder(
                    net["prev_output_tokens"],
                    encoder_out=encoder_out,
                    alignment_layer=layer,
                    alignment_heads=heads,
                )[1]["attn"][0][0]
                torch.testing.assert_close(expected, theirs, rtol=0, atol=1e-6)
    assert all(not a.allclose(b, atol=1e-4) for n, a in enumerate(seen) for b in seen[:n])


@pytest.mark.parametrize("name", ["stock", "stock-checkpointed", "lightconv"])
def test_looking_changes_nothing(name):
    model = build(name)
    sample = one_batch()
    with torch.no_grad():
        before = model(**sample["net_input"])
        cross_attention(model, sample)
        after = model(**sample["net_input"])
    assert before[0].equal(after[0]) and before[1]["attn"][0].equal(after[1]["attn"][0])
    layers = model.decoder.layers
    assert not any(
        layer.encoder_attn._forward_hooks or layer.encoder_attn._forward_pre_hooks
        for layer in layers
    )


def test_hooks_go_when_the_decoder_fails(monkeypatch):
    model = build("stock")
    monkeypatch.setattr(model.decoder.layers[1], "fc1", None)
    with pytest.raises(TypeError):
        cross_attention(model, one_batch())
    assert not model.decoder.layers[0].encoder_attn._forward_hooks


def test_choosing_layers_and_heads():
    attention = np.random.default_rng(0).random((3, 4, 2, 6)).astype("float32")
    sentence = AlignedSentence(list("abcde"), list("xy"), attention)
    for layer, expected in ((1, 0), (3, 2), (-1, 2), (-3, 0)):
        for head, place in ((1, 0), (4, 3), (-1, 3), (-2, 2)):
            assert (sentence.of(layer, head) == attention[expected, place]).all()
        np.testing.assert_allclose(
            sentence.of(layer, "average"), attention[expected].mean(0), rtol=1e-6
        )
    np.testing.assert_allclose(sentence.of("average", 2), attention[:, 1].mean(0), rtol=1e-6)
    np.testing.assert_allclose(sentence.of("average", "average"), attention.mean((0, 1)), rtol=1e-6)
    for layer, head, flag in (
        (4, 1, "--layer 4: there are 3"),
        (0, 1, "--layer 0"),
        (1, 5, "--head 5"),
        (1, -5, "--head -5"),
    ):
        with pytest.raises(UserError, match=flag):
            sentence.of(layer, head)


def test_the_strongest_source_word():
    attention = np.array([[0.1, 0.6, 0.1, 0.2], [0.2, 0.1, 0.1, 0.6], [0.3, 0.1, 0.3, 0.3]])
    assert strongest(attention) == {(1, 0), (0, 1), (0, 2)}
    assert strongest(attention, end_symbol=True) == {(1, 0), (0, 2)}


def test_rounding_does_not_choose():
    """Of two equal ones the first, whatever the last digits."""
    for change in (1e-7, -1e-7):
        assert strongest(np.array([[0.4, 0.4 + change, 0.2]])) == {(0, 0)}


def test_sentences_without_words():
    assert strongest(np.ones((2, 1))) == frozenset()
    assert strongest(np.ones((2, 1)), end_symbol=True) == frozenset()
    assert strongest(np.ones((0, 4))) == frozenset()


# Words


@pytest.mark.parametrize(
    "kind, line, words",
    [
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
    ],
)
def test_which_pieces_are_a_word(kind, line, words):
    pieces = line.split()
    assert words_of(pieces, kind) == words
    if words:
        assert sorted(place for word in words for place in word) == list(range(len(pieces)))
    if kind == "sentencepiece":
        text = line.replace(" ", "").replace("\u2581", " ").split()
        assert [text_of(word, pieces, kind) for word in words] == text


def test_attention_between_words_by_hand():
    """Source a|bc, target xy|z and the end symbols: sums over b and c, means over x and y."""
    attention = np.array(
        [  # a, b, c, end
            [0.5, 0.25, 0.125, 0.125],  # x
            [0.1, 0.2, 0.3, 0.4],  # y
            [0.0, 0.0, 1.0, 0.0],  # z
            [0.0, 0.0, 0.0, 1.0],  # end: no word
        ]
    )
    words = word_attention(attention, [[0], [1, 2]], [[0, 1], [2]])
    np.testing.assert_allclose(words, [[0.3, 0.4375], [0.0, 1.0]])
    both = word_attention(np.stack([attention, 2 * attention]), [[0], [1, 2]], [[0, 1], [2]])
    np.testing.assert_allclose(both, np.stack([words, 2 * words]))


def test_links_of_words_are_those_of_all_their_pieces():
    assert piece_links(frozenset({(1, 0), (0, 1)}), [[0], [1, 2]], [[0, 1], [2]]) == {
        (1, 0), (1, 1), (2, 0), (2, 1), (0, 2),
    }  # fmt: skip


def test_words_of_a_sentence_that_is_aligned():
    """Sums and means of what the decoder attends to, by the rows that predict the pieces."""
    model = build("stock")
    (found,) = align(model, ["w1 w2@@ w3"], ["w4@@ w5 w6"], subwords="subword-nmt")
    words = task_of().source_dictionary
    source = [words.index(word) for word in ("w1", "w2@@", "w3")]
    target = [words.index(word) for word in ("w4@@", "w5", "w6")]
    (pieces,) = cross_attention(model, one_batch([[*source, 2]], [[*target, 2]]))
    assert (found.source, found.target) == (["w1", "w2w3"], ["w4w5", "w6"])
    rows = torch.stack([pieces[:, :, 0:2].mean(2), pieces[:, :, 2]], dim=2)
    expected = torch.stack([rows[..., 0], rows[..., 1:3].sum(-1), rows[..., 3]], dim=-1)
    np.testing.assert_allclose(found.attention, expected, atol=1e-6)


def test_the_step_that_reads_a_word_is_one_later():
    model = build("stock")
    (pieces,) = cross_attention(model, one_batch([[5, 6, 7, 2]], [[8, 9, 2]]))
    for settings, rows in (({}, slice(0, 2)), ({"read_step": True}, slice(1, 3))):
        (found,) = align(model, ["w1 w2 w3"], ["w4 w5"], **settings)
        np.testing.assert_allclose(found.attention, pieces[:, :, rows], atol=1e-6)


def test_the_whole_translation_as_context():
    """The first step sees what comes after it, if and only if that is asked for."""
    for full, same in ((False, True), (True, False)):
        first, second = (
            cross_attention(build("stock"), one_batch(target=[target]), full_context=full)[0]
            for target in ([4, 5, 6, 7, 2], [4, 5, 9, 9, 2])
        )
        assert first[:, :, 0].allclose(second[:, :, 0], atol=1e-6) is same
    for name, problem in (("lstm", "--full-context"), ("hysan", "no future token")):
        with pytest.raises(UserError, match=problem):
            cross_attention(build(name), one_batch(), full_context=True)


def test_models_without_cross_attention():
    model = build("lstm")
    model.decoder.need_attn = False
    with pytest.raises(UserError, match="no cross-attention"):
        cross_attention(model, one_batch())


def test_attention_that_is_none():
    model = build("stock")
    with torch.no_grad():
        model.decoder.layers[0].encoder_attn.q_proj.weight.fill_(float("nan"))
    with pytest.raises(UserError, match="does not add up to 1"):
        cross_attention(model, one_batch())


# Models that copy and that write backwards, and the command


LETTERS = "abcdefghij"
#: One wide enough for hand-made weights: 16 letters and places, in 16 dimensions each.
BY_HAND = [
    *("--encoder-embed-dim", 64, "--encoder-ffn-embed-dim", 8, "--no-scale-embedding"),
    *("--encoder-learned-pos", "--decoder-learned-pos", "--max-update", 1, "--dropout", 0),
    *("--max-source-positions", 13, "--max-target-positions", 13),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("align")
    write_corpus(folder, hard_cases=True)
    binarise(folder)
    train("bin", "stock", "transformer", *BY_HAND, cwd=folder)
    lstm = "--encoder-embed-dim 16 --decoder-embed-dim 16 --encoder-hidden-size 16 "
    lstm += "--decoder-hidden-size 16 --decoder-out-embed-dim 16 --max-update 1 --cpu "
    lstm += "--optimizer adam --lr 1e-3 --max-tokens 400 --arch lstm --save-dir lstm"
    run("fairseq-train", "bin", *lstm.split(), cwd=folder)
    for task in ("copy", "reverse"):
        by_hand(folder / "stock/checkpoint_last.pt", folder / f"{task}.pt", task)
    texts(folder)
    return folder


def by_hand(trained, path, task):
    """Weights with which head 3 of layer 2 attends to the word that is to be written.

    Copying: step t attends to the source word in place t.  Backwards: a step attends to the
    letter before the one that was written last, and at first to the last letter, j; sources are the
    ends of the alphabet.  All else is uniform or silent.  What is attended to is written.
    """
    state = torch.load(trained, weights_only=True)
    weights = state["model"]
    for name, weight in weights.items():
        if not name.endswith("version"):
            weight.fill_(1 if name.endswith("norm.weight") else 0)
    words = torch.arange(16)
    for side in ("encoder", "decoder"):
        weights[f"{side}.embed_tokens.weight"][words, words] = 8
        # Places begin at 2, after the padding's number.
        weights[f"{side}.embed_positions.weight"][words[2:15], words[2:15] + 16] = 8
    weights["decoder.output_projection.weight"][words, words] = 8
    cross = {name: weights[f"decoder.layers.1.encoder_attn.{name}_proj.weight"] for name in "qkv"}
    head = words + 32
    if task == "copy":
        cross["q"][head, words + 16] = cross["k"][head, words + 16] = 10
    else:
        dictionary = Dictionary.load(str(path.parent / "bin/dict.en.txt"))
        letters = [dictionary.index(letter) for letter in LETTERS]
        cross["k"][head, words] = 10
        for before, letter in zip(letters, letters[1:], strict=False):
            cross["q"][32 + before, letter] = 10
        cross["q"][32 + letters[-1], 2] = 10  # first, the end symbol is read
    cross["v"][head, words] = 1
    weights["decoder.layers.1.encoder_attn.out_proj.weight"][words, head] = 100
    torch.save(state, path)


def texts(folder):
    """Texts to copy and to write backwards, with the gold from 1, and a binarised set of each."""
    choose = random.Random(1)
    copied = [[choose.choice(LETTERS) for _ in range(choose.randint(1, 11))] for _ in range(25)]
    ends = [list(LETTERS[-n:]) for n in (3, 10, 1, 7, 2, 9, 4, 4, 6, 5, 8)]
    for name, lines, order in (("copy", copied, 1), ("reverse", ends, -1)):
        lines.insert(2, [])
        for side, step in (("de", 1), ("en", order)):
            text = "".join(" ".join(line[::step]) + "\n" for line in lines)
            (folder / f"{name}.{side}").write_text(text)
        links = [
            " ".join(
                f"{i + 1}-{(i if order == 1 else len(line) - 1 - i) + 1}" for i in range(len(line))
            )
            for line in lines
        ]
        (folder / f"{name}.gold").write_text("".join(f"{line}\n" for line in links))


def command(folder, monkeypatch, *flags, path="copy.pt", subwords="none"):
    monkeypatch.chdir(folder)
    main(["align", "bin", "--path", path, "--subwords", subwords, "--cpu", *map(str, flags)])


def text(name):
    return ["--source", f"{name}.de", "--target", f"{name}.en"]


@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_what_the_models_do(data, task):
    """They write what they should, at every step, which makes the next tests worth something."""
    model, loaded = load_model(data / f"{task}.pt", data / "bin")
    lines = [(data / f"{task}.{side}").read_text().split("\n")[:-1] for side in ("de", "en")]
    dataset = Sentences.of_text(loaded, *lines).dataset
    sample = dataset.collater([dataset[n] for n in range(len(dataset)) if n != 2])
    with torch.no_grad():
        written = model(**sample["net_input"])[0].argmax(-1)
    words = sample["target"].ne(1) & sample["target"].ne(2)
    assert written[words].equal(sample["target"][words])


@pytest.mark.parametrize("task", ["copy", "reverse"])
def test_copying_is_the_diagonal_and_backwards_the_other(data, task, monkeypatch, capsys):
    command(
        data,
        monkeypatch,
        *text(task),
        *("--layer", 2, "--head", 3, "--output", "out", "--json", "out.json"),
        *("--gold", f"{task}.gold", "--gold-base", 1, "--table"),
        path=f"{task}.pt",
    )
    out, err = capsys.readouterr()
    lengths = [len(line.split()) for line in (data / f"{task}.de").read_text().split("\n")[:-1]]
    for n, links in zip(lengths, read_pharaoh(data / "out"), strict=True):
        assert links == {(i if task == "copy" else n - 1 - i, i) for i in range(n)}
    result = json.loads((data / "out.json").read_text())
    assert (result["aer"], result["precision"], result["recall"]) == (0, 100, 100)
    assert result["links"] == result["sure"] == sum(lengths)
    assert result["undefined_sentences"] == [3] and "no AER in 1 sentences" in out
    rates = {(entry["layer"], entry["head"]): entry["aer"] for entry in result["table"]}
    names = [1, 2, "average"], [1, 2, 3, 4, "average"]
    assert list(rates) == [(layer, head) for layer in names[0] for head in names[1]]
    right = {(2, 3), (2, "average"), ("average", 3), ("average", "average")}
    assert {key for key, aer in rates.items() if aer == 0} == right
    assert all(rates[key] > 20 for key in set(rates) - right)
    row = next(line for line in out.splitlines() if line.startswith("layer 2 "))
    assert row.split() == ["layer", "2", *(f"{rates[2, head]:.2f}" for head in names[1])]
    assert f"{len(lengths)}/{len(lengths)}" in err  # progress


def test_last_layer_and_average_are_the_default(data, monkeypatch):
    command(data, monkeypatch, *text("copy"), "--output", "default")
    for flags in (("--layer", "last", "--head", "average"), ("--layer", 2, "--head", 3)):
        command(data, monkeypatch, *text("copy"), "--output", "named", *flags)
        assert (data / "named").read_bytes() == (data / "default").read_bytes()
    command(data, monkeypatch, *text("copy"), "--output", "other", "--head", "last")
    assert (data / "other").read_bytes() != (data / "default").read_bytes()


@pytest.mark.parametrize("path", ["copy.pt", "lstm/checkpoint_last.pt"])
def test_a_binarised_set_is_as_its_text(data, path, monkeypatch, capsys):
    """With a sentence that is longer than one of the models takes."""
    command(data, monkeypatch, *text("test"), "--output", "a", "--too-long", "empty", path=path)
    if path == "copy.pt":
        assert "1 of 20 (sentence 6)" in capsys.readouterr().out
        assert (data / "a").read_text().split("\n")[5] == ""
    command(data, monkeypatch, "--output", "b", "--too-long", "empty", path=path)
    assert (data / "a").read_bytes() == (data / "b").read_bytes()
    sets = ["--gen-subset", "test", "--max-tokens", 30, "--head", "last"]
    command(data, monkeypatch, *sets, "--output", "c", "--too-long", "empty", path=path)
    if path != "copy.pt":  # it has one head
        assert (data / "a").read_bytes() == (data / "c").read_bytes()


def test_too_long_sentences_are_refused(data, monkeypatch):
    with pytest.raises(
        UserError, match=r"1 of 20 sentences are longer .*: sentence 6; --too-long empty"
    ):
        command(data, monkeypatch, "--output", "a")
    assert not list(data.glob("*.tmp"))


def test_matrices(data, monkeypatch):
    flags = [*text("copy"), "--layer", 2, "--head", 3]
    command(data, monkeypatch, *flags, "--matrices", "m.npz")
    command(data, monkeypatch, *flags, "--matrices", "m.jsonl", "--output", "links")
    lines = [json.loads(line) for line in (data / "m.jsonl").read_text().splitlines()]
    texts = [(data / f"copy.{side}").read_text().split("\n")[:-1] for side in ("de", "en")]
    arrays = np.load(data / "m.npz")
    assert len(arrays) == len(lines) == len(texts[0])
    for number, links in enumerate(read_pharaoh(data / "links")):
        array, line = arrays[str(number)], lines[number]
        assert [" ".join(line["source"]), " ".join(line["target"])] == [t[number] for t in texts]
        assert line["sentence"] == number
        assert array.shape == (len(line["target"]), len(line["source"]) + 1)
        np.testing.assert_allclose(array.sum(-1), 1, atol=1e-5)
        if array.size:
            np.testing.assert_allclose(array, line["attention"], atol=1e-6)
        assert strongest(array) == links


def test_matrices_of_a_sentence_that_is_too_long(data, monkeypatch):
    flags = ["--too-long", "empty", "--matrices"]
    command(data, monkeypatch, *flags, "m.jsonl")
    command(data, monkeypatch, *flags, "m.npz")
    line = json.loads((data / "m.jsonl").read_text().splitlines()[5])
    assert line["source"] is None and not np.array(line["attention"]).any()
    assert np.load(data / "m.npz")["5"].shape == (60, 61)


def test_a_table_with_a_sentence_that_is_too_long(data, monkeypatch):
    """It counts as without links in every cell."""
    (data / "one.gold").write_text("".join("1-1\n" if n == 5 else "\n" for n in range(20)))
    gold = ["--gold", "one.gold", "--gold-base", 1, "--table", "--json", "j"]
    command(data, monkeypatch, "--too-long", "empty", *gold)
    result = json.loads((data / "j").read_text())
    assert result["recall"] == 0 and result["sure"] == 1
    assert len(result["table"]) == 15
    assert all(entry["sure"] == 1 and entry["recall"] == 0 for entry in result["table"])


def test_the_end_symbol(data, monkeypatch):
    """A target that is longer than its source: the copying model then attends past the words."""
    (data / "long.de").write_text("a b\n")
    (data / "long.en").write_text("a b c\n")
    flags = [*text("long"), "--layer", 2, "--head", 3, "--output", "out"]
    command(data, monkeypatch, *flags, "--end-symbol", "null")
    assert (data / "out").read_text() == "0-0 1-1\n"
    command(data, monkeypatch, *flags)
    assert len((data / "out").read_text().split()) == 3


def test_the_step_of_the_command(data, monkeypatch):
    """When it reads a word, the copying model looks at the next one already."""
    (data / "abc.de").write_text("a b c\n")
    (data / "abc.en").write_text("a b c\n")
    flags = [*text("abc"), "--layer", 2, "--head", 3, "--output", "out", "--end-symbol", "null"]
    command(data, monkeypatch, *flags, "--step", "read")
    assert (data / "out").read_text() == "1-0 2-1\n"


def test_subwords_and_gold_of_words(data, monkeypatch, capsys):
    """Text says where the words end, whatever the model knows; a gold link past them is told."""
    (data / "bpe.de").write_text("a@@ b c\n\n")
    (data / "bpe.en").write_text("a@@ b c\n\n")
    (data / "bpe.gold").write_text("1-1 2-2 3-3\n\n")
    gold = ["--gold", "bpe.gold", "--gold-base", 1, "--output", "out", "--layer", 2, "--head", 3]
    command(data, monkeypatch, *text("bpe"), *gold, subwords="subword-nmt")
    out, err = capsys.readouterr()
    assert (data / "out").read_text() == "0-0 1-1\n\n"
    assert "line 1: sentence 1, link 3-3 is beyond the sentence (2 source and 2 target" in err
    assert "left out: 1" in out and "0.00" in out


def test_unknown_subwords_in_a_binarised_set(data, monkeypatch, capsys):
    folder = data / "unknown"
    folder.mkdir()
    for side in ("de", "en"):
        (folder / f"test.{side}").write_text("a b c\na zz@@ b\n")
    run(
        "fairseq-preprocess",
        *("-s", "de", "-t", "en", "--srcdict", "../bin/dict.de.txt", "--joined-dictionary"),
        *("--testpref", "test", "--destdir", "bin"),
        cwd=folder,
    )
    command(folder, monkeypatch, "--output", "o", path="../copy.pt", subwords="subword-nmt")
    assert (
        "1 of 2 sentences have subwords that are not in the dictionary" in capsys.readouterr().err
    )
    command(folder, monkeypatch, "--output", "o", path="../copy.pt")
    assert "not in the dictionary" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "flags, problem",
    [
        ("", "nothing to do"),
        ("--output o --layer 3", "--layer 3: there are 2 decoder layers"),
        ("--output o --head 5", "--head 5: there are 4 heads"),
        ("--output o --head 0", "--head 0: use a number from 1"),
        ("--output o --head first", "--head first: use a number"),
        ("--output o --layer 1.5", "--layer 1.5: use"),
        ("--output o --source copy.de", "both of --source and --target"),
        ("--output o --gen-subset test --source copy.de --target copy.en", "does not go with"),
        ("--output o --source copy.de --target long.en", "copy.de has 26 lines, but long.en has 1"),
        ("--output o --gen-subset train7", "--gen-subset train7"),
        ("--output o --max-tokens 0", "--max-tokens 0"),
        ("--output copy.pt", "copy.pt is one of the inputs"),
        ("--output o --matrices o.txt", "ends in .npz or .jsonl"),
        ("--gold copy.gold", "--gold needs --gold-base"),
        ("--output o --table", "--table is about error rates"),
        ("--output o --path missing.pt", "missing.pt: there is no such file"),
        ("--output o --path copy.de", "copy.de cannot be loaded as a checkpoint"),
        ("--gold copy.gold --gold-base 1", "has 26 lines, but there are 20 sentences"),
    ],
)
def test_wrong_arguments(data, flags, problem, monkeypatch):
    (data / "long.en").write_text("a b c\n")
    with pytest.raises(UserError, match=problem):
        command(data, monkeypatch, "--too-long", "empty", *flags.split())
    assert not (data / "o").exists()


def test_a_missing_data_folder(data, monkeypatch):
    monkeypatch.chdir(data)
    with pytest.raises(UserError, match="there is no folder nowhere"):
        main("align nowhere --path copy.pt --subwords none --output o".split())


def test_the_example_in_the_docs(data, monkeypatch):
    """It runs, on a model with the words that it has."""
    page = (Path(__file__).parents[3] / "docs/alignment.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code = code.replace('"model.pt"', '"copy.pt"').replace('"data-bin"', '"bin"')
    monkeypatch.chdir(data)
    scope = {}
    exec(code.replace("ein@@ e Katze", "a@@ b c").replace("a cat", "a b"), scope)
    assert scope["sentence"].source == ["ab", "c"] and scope["sentence"].target == ["a", "b"]
    assert scope["sentence"].attention.shape[2:] == (2, 3)


BPE, PIECES = ["a@@", "b", "c"], ["\u2581a", "b", "\u2581c"]


@pytest.mark.parametrize(
    "pieces, kind", [(BPE, "sentencepiece"), (PIECES, "subword-nmt")], ids=["bpe", "pieces"]
)
def test_text_that_is_split_otherwise_is_refused(pieces, kind, data, monkeypatch):
    with pytest.raises(UserError, match=f"--subwords {kind}: the text has no mark of that"):
        check_kind([["x"], pieces], kind)
    for side in ("de", "en"):
        (data / f"odd.{side}").write_text(" ".join(pieces) + "\n")
    with pytest.raises(UserError, match=f"--subwords {kind}"):
        command(data, monkeypatch, *text("odd"), "--output", "o", subwords=kind)


def test_subwords_that_are_taken_for_words_are_told(capsys):
    check_kind([BPE], "none")
    assert "--subwords none, but the text looks like subword-nmt" in capsys.readouterr().err


@pytest.mark.parametrize("kind, pieces", [("subword-nmt", BPE), ("sentencepiece", PIECES)])
def test_text_that_is_split_as_said_is_taken(kind, pieces, capsys):
    check_kind([pieces], kind)
    check_kind([["a", "b"]], kind)  # no word of it is split
    check_kind([[*BPE, *PIECES]], kind)  # both marks: one of them is text
    check_kind([], kind)
    assert not capsys.readouterr().err


def test_unknown_subwords_are_told(data, monkeypatch, capsys):
    for side in ("de", "en"):
        (data / f"unknown.{side}").write_text("a b\nHausbau b\n")
    command(data, monkeypatch, *text("unknown"), "--output", "o")
    told = capsys.readouterr().err
    assert "1 of 2 sentences have subwords that are not in the dictionary (sentence 2)" in told
    assert "is this text in the subwords of this model" in told


@pytest.mark.parametrize("symbol", ["<pad>", "</s>"])
@pytest.mark.parametrize("side", [0, 1])
def test_the_dictionary_s_own_symbols_are_no_words(symbol, side):
    """fairseq leaves padding out, and an end symbol ends: all later words would be shifted."""
    sides = [["a b", "a b c"], ["b", "c"]]
    sides[side][1] = f"a {symbol} b"
    with pytest.raises(UserError, match="<pad> are fairseq's own symbols .*: sentence 2$"):
        Sentences.of_text(task_of(), *sides)


@pytest.mark.parametrize("symbol", [1, 2])
def test_nor_are_they_in_a_binarised_set(symbol):
    words = task_of().source_dictionary
    lines = [torch.tensor([5, symbol, 6, 2]), torch.tensor([5, 2])]
    data = LanguagePairDataset(
        *(ListDataset(lines), [4, 2], words, ListDataset(lines[:1] * 2), [4, 4], words)
    )
    task = SimpleNamespace(load_dataset=lambda split: None, dataset=lambda split: data)
    with pytest.raises(UserError, match="own symbols"):
        Sentences.of_split(task, "test")


def test_of_equal_weights_the_first_and_no_other():
    assert strongest(np.array([[0.4, 0.4, 0.2]])) == {(0, 0)}
    assert strongest(np.array([[0.4, 0.401, 0.199]])) == {(1, 0)}
