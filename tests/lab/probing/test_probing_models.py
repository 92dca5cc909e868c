"""Probing trained models: vectors of sentences, the treatment of text, the command."""

import copy
import html
import itertools
import json
import random
import runpy
import shutil
from dataclasses import replace
from pathlib import Path

import analysed
import pytest
import torch
from corpora_made import CONFIGS, lines, skip_preprocess
from every_model import MODELS as EVERY
from every_model import build
from models import build_tiny, task_of
from refusals import changed, check_refusals

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.corpora import load_corpus, own_corpus
from fairseq_hybrid_attn.lab.corpora.definition import Subwords
from fairseq_hybrid_attn.lab.corpora.manifest import read_manifest
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare
from fairseq_hybrid_attn.lab.corpora.tokenisers import tokenise_file
from fairseq_hybrid_attn.lab.models.sentences import Sentences
from fairseq_hybrid_attn.lab.models.trained import TrainedModel
from fairseq_hybrid_attn.lab.probing import AS_TRAINED
from fairseq_hybrid_attn.lab.probing.features import LAST, mean_states, sentence_vectors
from fairseq_hybrid_attn.lab.probing.probe import preparation, vectors_of
from fairseq_hybrid_attn.lab.probing.tasks import TASKS, read_task

ROOT = Path(__file__).parents[3]
#: Models with a transformer's encoder.
MODELS = [
    name for name in EVERY if name not in ("lstm", "lstm-bidirectional", "lightconv", "fconv")
]


def words(count=25, longest=11, seed=0):
    """Sentences of the words that the models know."""
    choose = random.Random(seed)
    return [
        " ".join(f"w{choose.randrange(12)}" for _ in range(choose.randint(1, longest)))
        for _ in range(count)
    ]


def vectors(model, text, left=True, **settings):
    return sentence_vectors(
        model, Sentences.of_text(task_of(left_pad_source=left), text), **settings
    )


def numbers(line):
    """A sentence of ``words`` as indices of the models' dictionary, with the end symbol, 2."""
    return [4 + int(word[1:]) for word in line.split()] + [2]


def close(one, other, atol=1e-5):
    return torch.allclose(one, other, atol=atol)


def test_a_sentence_is_the_same_alone_and_in_any_batch():
    text = words(12)
    for name, end_symbol in itertools.product(MODELS, (True, False)):
        model = build(name)
        before = copy.deepcopy(model.state_dict())
        for left in (True, False):
            told = []
            settings = {"max_tokens": 40, "progress": told.append}
            together = vectors(model, text, left, end_symbol=end_symbol, **settings)
            assert sum(told) == len(text)
            alone = [vectors(model, [line], left, end_symbol=end_symbol) for line in text]
            assert close(together, torch.cat(alone)), (name, left, end_symbol)
            assert together.std(0).mean() > 1e-3
        torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)  # not trained


@pytest.mark.parametrize("name", ["stock", "stock-prenorm", "hysan-prenorm", "mma", "gate"])
def test_vectors_are_means_of_what_each_layer_returns(name):
    """Compared with the modules' own outputs, seen by hooks, one sentence at a time."""
    model = build(name)
    seen = []
    for layer in model.encoder.layers:
        layer.register_forward_hook(lambda module, given, out: seen.append((given[0], out)))
    text = words(6)
    for end_symbol, kept in ((True, slice(None)), (False, slice(0, -1))):
        expected = {layer: [] for layer in (0, 1, 2, 3, LAST)}
        for line in text:
            seen.clear()
            tokens = torch.tensor([numbers(line)])
            with torch.no_grad():
                out = model.encoder(tokens, torch.tensor([tokens.size(1)]))["encoder_out"][0]
            states = {0: seen[0][0], 1: seen[0][1], 2: seen[1][1], 3: out, LAST: out}
            for layer, found in states.items():
                expected[layer].append(found[kept, 0].mean(0))
        for layer, mean in expected.items():
            found = vectors(model, text, layer=layer, end_symbol=end_symbol, max_tokens=60)
            assert close(found, torch.stack(mean)), layer


def test_an_lstm_on_top_is_a_further_layer():
    for name in ("lstm-on-top", "lstm-on-top-prenorm"):
        model = build_tiny(name)
        tops = []
        model.encoder.top.register_forward_hook(lambda *seen, to=tops: to.append(seen[1:]))
        vectors(model, ["w1 w2 w3 w4"])
        ((below, _), above) = tops[0]
        for layer, states in ((3, below), (4, above), (LAST, above)):
            found = vectors(model, ["w1 w2 w3 w4"], layer=layer)
            assert close(found[0], states[:, 0].mean(0), 1e-6), (name, layer)
        assert len(below) == 5


def test_padding_may_hold_anything_in_any_precision():
    states = torch.arange(8.0).view(4, 2, 1)  # [n, b, d]
    states[3, 0] = states[0, 1] = float("nan")
    padding = torch.tensor([[0, 0, 0, 1], [1, 0, 0, 0]], dtype=torch.bool).t()
    for end_symbol, expected in ((True, [2, 5]), (False, [1, 4])):
        found = mean_states(states, padding, end_symbol=end_symbol)
        assert found[:, 0].tolist() == expected
    alone = mean_states(torch.ones(2, 1, 3), torch.tensor([[False], [True]]), end_symbol=False)
    assert alone.tolist() == [[0.0, 0.0, 0.0]]
    states = torch.full((50, 1, 2), 60_000.0, dtype=torch.half)  # the sum is beyond half precision
    mean = mean_states(states, torch.zeros(50, 1, dtype=torch.bool), end_symbol=True)
    assert mean.dtype == torch.float32
    assert mean.tolist() == [[60_000 // 32 * 32] * 2]
    text = words(10)
    for name in ("stock", "mma", "hysan", "lstm-on-top"):
        expected = vectors(build(name), text)
        found = vectors(build(name).bfloat16(), text, max_tokens=60)
        assert found.dtype == torch.float32 and not found.requires_grad
        assert (found - expected).abs().max() < 0.1 * expected.abs().max(), name


def test_encoders_and_layers_that_cannot_be_probed():
    diverged = build("stock")
    diverged.encoder.embed_tokens.weight.data[4 + 7] = float("inf")
    for model, layer, said in (
        (build("fconv"), LAST, "FConvModel"),
        (build("lstm"), LAST, "LSTMModel"),
        (build("mma"), 4, "--layer 4: this encoder has 0, 1, 2, 3, and last"),
        (diverged, LAST, "of 1 sentences are not finite, first in sentence 2"),
    ):
        with pytest.raises(UserError, match=said):
            vectors(model, ["w1 w2", "w7 w3", "w4"], layer=layer)


def test_the_share_of_unknown_subwords(tmp_path):
    """Of the subwords, without end symbols."""
    rows = ["tr\tPAST\tw1 w2 zz", "tr\tPRES\tzz w3", "va\tPAST\tw4", "te\tPRES\tw5"]
    (tmp_path / "past_present.txt").write_text("\n".join(rows))
    file = read_task(tmp_path / "past_present.txt", TASKS["Tense"])
    assert vectors_of(file, build("mma"), task_of(), str)[1] == 2 / 7


SUBJECTS = 'Tom Peter Mary the-dog Dr. Smith "Max" O\'Neill'.split()
VERBS = "isn't sees doesn't-see can't likes won't".split()
OBJECTS = "cats? dogs, birds; R&D 3.5 [houses] Tom's x's".split()


def english(count, seed=0):
    choose = random.Random(seed)
    kinds = (SUBJECTS, VERBS, OBJECTS)
    return [
        " ".join(map(choose.choice, (*kinds, *[OBJECTS] * choose.randint(0, 4))))
        + choose.choice(".!?")
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Prepared English-German text by the name of its subwords, both sides of the same words."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text").mkdir()
    for part, count in (("train", 150), ("valid", 20), ("test", 30)):
        text = "\n".join(english(count, seed=count)) + "\n"
        (folder / f"text/{part}.en").write_text(text)
        (folder / f"text/{part}.de").write_text(text.upper())
    for name, subwords, lowercase in (
        ("subword-nmt", Subwords("subword-nmt", 60, joint=False), False),
        ("sentencepiece", Subwords("sentencepiece-bpe", 90), True),
    ):
        recipe = replace(load_corpus("own", CONFIGS), subwords=subwords, lowercase=lowercase)
        own = own_corpus(recipe, folder / "text", source_lang="en", target_lang="de")
        own = replace(own, tokenizer={"en": "moses", "de": "moses"})  # though it tears R&D apart
        with pytest.MonkeyPatch.context() as patch:
            if name == "subword-nmt":  # no model reads it
                skip_preprocess(patch)
            prepare(own, folder / name, workers=1, say=lambda message: None)
    return folder


def of_corpus(prepared):
    """A model of a prepared corpus, as far as its text is concerned."""
    model = prepared / "model.pt"
    return TrainedModel(
        model, model, prepared, prepared / "bin", ("en", "de"), read_manifest(prepared)
    )


def test_sentences_are_treated_like_the_training_text(corpus):
    """The result is what prepare makes of the same text, from the text or from Moses' tokens."""
    for kind, language in (("subword-nmt", "en"), ("subword-nmt", "de"), ("sentencepiece", "en")):
        raw, tokens, expected = (
            lines(corpus / kind / name / f"test.{language}")
            for name in ("raw", "tokenised", "subwords")
        )
        as_published = list(map(html.unescape, tokens))  # SentEval's are not escaped
        given = {"none": raw, AS_TRAINED: tokens}
        if kind == "subword-nmt":  # the others are in lower case, and a tokeniser looks at case
            given["moses"] = as_published
        trained = of_corpus(corpus / kind)
        for what, text in given.items():
            prepare = preparation(trained, language, what)
            assert list(map(prepare, text)) == expected, (kind, language, what)
        # The other steps matter.
        as_trained = preparation(trained, language, AS_TRAINED)
        assert list(map(as_trained, as_published)) != expected
        capitals = [line.upper() for line in tokens]
        assert (list(map(as_trained, capitals)) == expected) is (kind == "sentencepiece")


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """A model of German with the same subwords, ``model.pt``, and ``tasks`` for it."""
    folder = tmp_path_factory.mktemp("trained")
    shutil.copytree(corpus / "sentencepiece/bin", folder / "bin")
    arch, flags = analysed.MODELS["gate1"]
    with pytest.MonkeyPatch.context() as patch:
        longer = arch, [*flags, "--max-source-positions", "200"]
        patch.setitem(analysed.MODELS, "model", longer)
        analysed.save(folder, "model", languages=("en", "de"))
    (folder / "text").write_text("\n".join(dict.fromkeys(english(600, seed=3))) + "\n")
    tokenise_file(folder / "text", folder / "tokens", "moses", "en", workers=1)
    options = "--tasks BShift WC --sizes 40 10 10 --words 5 --first-rank 1".split()
    maker = runpy.run_path(str(ROOT / "examples/probing/make_tasks.py"))
    maker["main"]([str(folder / "tokens"), "--output", str(folder / "tasks"), *options])
    return folder


@pytest.fixture
def run_probe(corpus, trained):
    def run(*more, tasks="BShift", data=corpus / "sentencepiece/bin"):
        path = trained / "model.pt"
        files = ["--task-files", str(trained / "tasks"), "--tasks", tasks]
        fits = "--seeds 2 --hidden 5 --dropout 0 --device cpu".split()
        usual = ["probe", str(path), "--data", str(data), *files, *fits]
        main(changed(usual, [*map(str, more)]))

    return run


def test_the_command_from_text_to_accuracies(corpus, trained, run_probe, tmp_path, capsys):
    out, figure, again = (tmp_path / name for name in ("out.json", "out.pdf", "again.json"))
    run_probe("--layer", "1", "--write", out, "--write", figure, tasks="BShift,WC")
    found = json.loads(out.read_text())
    assert list(found["tasks"]) == ["WC", "BShift"] and found["groups"] == {}
    assert "warning" not in capsys.readouterr().err and figure.read_bytes().startswith(b"%PDF")
    for task in found["tasks"].values():
        assert task["accuracy"] == pytest.approx(sum(task["seeds"]) / 2)
        assert task["unknown_subwords"] < 0.02
    assert found["tasks"]["WC"]["majority"] == 20.0
    assert {fit["hidden"] for fit in found["tasks"]["WC"]["classifiers"]} == {0}
    assert {fit["hidden"] for fit in found["tasks"]["BShift"]["classifiers"]} == {5}
    assert (found["layer"], found["end_symbol"], found["tokens"]) == ("1", "in", "moses")

    # The same sentences in subwords, for data that prepare did not make.
    model = of_corpus(corpus / "sentencepiece")
    prepare = preparation(model, "en", "moses")
    rows = [line.split("\t") for line in lines(trained / "tasks/bigram_shift.txt")]
    text = "".join(f"{part}\t{label}\t{prepare(words)}\n" for part, label, words in rows)
    (tmp_path / "bigram_shift.txt").write_text(text)
    own = ["--task-files", tmp_path, "--write", again, "--layer", "1", "--tokens"]
    run_probe(*own, "subwords", data=trained / "bin")
    fits = [json.loads(path.read_text())["tasks"]["BShift"]["classifiers"] for path in (out, again)]
    assert fits[0] == fits[1]
    assert "warning" not in capsys.readouterr().err
    with pytest.raises(UserError, match="--tokens subword"):
        run_probe(*own, "moses", data=trained / "bin")
    run_probe("--tokens", "subwords")  # whole words, which the model does not know
    assert "warning: " in capsys.readouterr().err


def test_refusals(corpus, run_probe, tmp_path):
    refused = {
        "--tasks WC,SentLen": "no sentence_length.txt; --tasks WC,BShift",
        "--layer 3": "--layer 3: this encoder has 0, 1, 2",
        "--layer -2": "--layer -2",
        "--tasks WC,Length": "there is no Length",
        "--hidden a": "--hidden a",
        "--hidden 5,-1": "--hidden",
        "--dropout 1": "--dropout",
    }
    check_refusals(refused.items(), lambda flags: run_probe(*flags.split()))
    for sentence, said in {
        "a b " * 110: "longer than the model takes",
        "\u0001 \u0002": "nothing is left",
    }.items():
        rows = ["tr\tO\ta cat .", f"tr\tI\t{sentence}", "va\tO\ta dog .", "te\tI\ta bird ."]
        (tmp_path / "bigram_shift.txt").write_text("\n".join(rows) + "\n")
        with pytest.raises(UserError, match=f"sentence 2: .*{said}"):
            run_probe("--task-files", tmp_path)
    shutil.copytree(corpus / "sentencepiece", tmp_path / "changed")
    with (tmp_path / "changed/subwords/subwords.model").open("ab") as model:
        model.write(b"x")
    with pytest.raises(UserError, match="subwords.model is not the one"):
        run_probe(data=tmp_path / "changed/bin")
