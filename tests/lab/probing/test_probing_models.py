"""Probing trained models: vectors of sentences, the treatment of text, the command."""

import copy
import csv
import html
import itertools
import json
import random
import runpy
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import analysed
import pytest
import torch
from corpora_made import CONFIGS, lines
from every_model import MODELS as EVERY
from every_model import build
from models import build_tiny, task_of
from refusals import check_refusals

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.cli.command_line import main
from fairseq_hybrid_attn.lab.corpora import load_corpus, own_corpus
from fairseq_hybrid_attn.lab.corpora.definition import Subwords
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare
from fairseq_hybrid_attn.lab.corpora.tokenisers import tokenise_file
from fairseq_hybrid_attn.lab.look.sentences import Sentences
from fairseq_hybrid_attn.lab.probing import probe_command
from fairseq_hybrid_attn.lab.probing.features import LAST, mean_states, sentence_vectors
from fairseq_hybrid_attn.lab.probing.probe import SentenceEncoder
from fairseq_hybrid_attn.lab.probing.tasks import TASKS, read_task
from fairseq_hybrid_attn.lab.probing.treatment import AS_TRAINED, SentenceTreatment, treatment_of

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
        (build("fconv"), LAST, "does not know where a FConvModel has"),
        (build("mma"), 4, "--layer 4: this encoder has 0, 1, 2, 3, and last"),
        (build("lstm"), LAST, "does not know where a LSTMModel has"),
        (diverged, LAST, "of 1 sentences are not finite, first in sentence 2"),
    ):
        with pytest.raises(UserError, match=said):
            vectors(model, ["w1 w2", "w7 w3", "w4"], layer=layer)


def test_the_share_of_unknown_subwords(tmp_path):
    """Of the subwords, without end symbols."""
    rows = ["tr\tPAST\tw1 w2 zz", "tr\tPRES\tzz w3", "va\tPAST\tw4", "te\tPRES\tw5"]
    (tmp_path / "past_present.txt").write_text("\n".join(rows))
    file = read_task(tmp_path / "past_present.txt", TASKS["Tense"])
    as_it_is = SentenceTreatment("en", AS_TRAINED, "none", False, None, None)
    assert SentenceEncoder(build("mma"), task_of(), as_it_is).vectors(file).unknown == 2 / 7


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
        prepare(own, folder / name, workers=1, say=lambda message: None)
    return folder


def test_sentences_are_treated_like_the_training_text(corpus):
    """The result is what prepare makes of the same text, from the text or from Moses' tokens."""
    for kind, language, workers in (
        *(("subword-nmt", "en", 2), ("subword-nmt", "de", 1), ("sentencepiece", "en", 1)),
    ):
        folder = corpus / kind
        raw, tokens, expected = (
            lines(folder / name / f"test.{language}") for name in ("raw", "tokenised", "subwords")
        )
        as_published = list(map(html.unescape, tokens))  # SentEval's are not escaped
        given = {"none": raw, AS_TRAINED: tokens}
        if kind == "subword-nmt":  # the others are in lower case, and a tokeniser looks at case
            given["moses"] = as_published
        for what, text in given.items():
            treatment = treatment_of(folder, folder / "bin", language, what)
            assert treatment.apply(text, workers) == expected, (kind, language, what)
        # The other steps matter.
        as_trained = treatment_of(folder, folder / "bin", language, AS_TRAINED)
        assert as_trained.apply(as_published) != expected
    # Text that prepare did not make, without subwords.
    lower = SentenceTreatment("en", "none", "moses", True, None, None)
    assert lower.apply(raw) == tokens
    lower = SentenceTreatment("en", AS_TRAINED, "none", True, None, None)
    assert lower.apply(["Ein HAUS &amp; x"]) == ["ein haus &amp; x"]


def test_a_prepared_folder_that_does_not_fit(corpus, tmp_path):
    folder = corpus / "subword-nmt"
    broken = tmp_path / "broken"
    for name in ("manifest.json", "subwords/subwords.en.codes", "bin/dict.en.txt"):
        (broken / name).parent.mkdir(parents=True, exist_ok=True)
        (broken / name).write_bytes((folder / name).read_bytes())
    with (broken / "subwords/subwords.en.codes").open("a") as codes:
        codes.write("x y\n")
    for prepared, data, language, said in (
        (tmp_path, folder / "bin", "en", "there is no manifest.json of this program"),
        (folder, folder / "bin", "fr", "is en and de, but the model reads fr"),
        (folder, corpus / "sentencepiece/bin", "en", "its dict.en.txt differs from that in"),
        (broken, folder / "bin", "en", "subwords.en.codes has changed since it was made"),
    ):
        with pytest.raises(UserError, match=said):
            treatment_of(prepared, data, language, "moses")


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """A model of German with the same subwords, ``model.pt``, and ``tasks`` for it."""
    folder = tmp_path_factory.mktemp("trained")
    shutil.copytree(corpus / "sentencepiece/bin", folder / "bin")
    arch, flags = analysed.MODELS["gate1"]
    with pytest.MonkeyPatch.context() as patch:
        longer = arch, [*flags, "--max-source-positions", "200"]
        patch.setitem(analysed.MODELS, "model", longer)
        analysed.save(folder, "model")
    (folder / "text").write_text("\n".join(dict.fromkeys(english(600, seed=3))) + "\n")
    tokenise_file(folder / "text", folder / "tokens", "moses", "en", workers=1)
    options = "--tasks BShift WC --sizes 40 10 10 --words 5 --first-rank 1".split()
    maker = runpy.run_path(str(ROOT / "examples/probing/make_tasks.py"))
    maker["main"]([str(folder / "tokens"), "--output", str(folder / "tasks"), *options])
    return folder


@pytest.fixture
def run_probe(corpus, trained):
    def run(*more, tasks="BShift"):
        path = trained / "model.pt"
        files = ["--task-files", str(trained / "tasks"), "--tasks", tasks]
        fits = "--seeds 2 --hidden 5 --dropout 0 --cpu --source-lang en --target-lang de".split()
        data = str(corpus / "sentencepiece/bin")
        main(["probe", data, "--path", str(path), *files, *fits, *map(str, more)])

    return run


def test_the_command_from_text_to_accuracies(corpus, trained, run_probe, tmp_path, capsys):
    data = corpus / "sentencepiece"
    out, table, figure, again = (tmp_path / f"out.{end}" for end in ("json", "csv", "pdf", "2"))
    written = ["--json", out, "--csv", table, "--figure", figure]
    run_probe("--prepared", data, "--layer", "1", *written, tasks="BShift,WC")
    found = json.loads(out.read_text())
    assert list(found["tasks"]) == ["WC", "BShift"] and found["groups"] == {}
    printed = capsys.readouterr().out
    rows = {row["task"]: row for row in csv.DictReader(table.open())}
    assert list(rows) == ["WC", "BShift"] and figure.read_bytes().startswith(b"%PDF")
    for name, task in found["tasks"].items():
        assert len(task["seeds"]) == 2
        assert task["accuracy"] == pytest.approx(sum(task["seeds"]) / 2)
        (row,) = [line for line in printed.splitlines() if line.startswith(name)]
        assert f"{task['accuracy']:.2f}" in row.split()
        assert task["unknown_subwords"] < 0.02
        for key in ("accuracy", "deviation", "majority", "classes"):
            assert float(rows[name][key]) == task[key]
    assert found["tasks"]["WC"]["majority"] == 20.0
    assert {fit["hidden"] for fit in found["tasks"]["WC"]["classifiers"]} == {0}
    assert {fit["hidden"] for fit in found["tasks"]["BShift"]["classifiers"]} == {5}
    assert found["text"]["lowercase"] and found["text"]["tokens"] == "moses"
    assert found["layer"] == "1" and found["end_symbol"] == "in"

    # The same with the flags for text that prepare did not make.
    flags = ["--sentencepiece", data / "subwords/subwords.model", "--tokenizer", "moses"]
    run_probe(*flags, "--lowercase", "--json", again, "--layer", "1")
    assert json.loads(again.read_text())["tasks"]["BShift"] == found["tasks"]["BShift"]
    assert "warning" not in capsys.readouterr().err
    run_probe(*flags)  # capitals, which the model does not know
    assert "warning: " in capsys.readouterr().err


def test_mistakes_are_reported(corpus, run_probe, tmp_path):
    prepared = f"--prepared {corpus / 'sentencepiece'}"
    pieces = corpus / "sentencepiece/subwords/subwords.model"
    merges = corpus / "subword-nmt/subwords/subwords.en.codes"
    mistakes = {
        f"{prepared} --tasks WC,SentLen": "no sentence_length.txt; --tasks WC,BShift takes",
        f"{prepared} --layer 3": "--layer 3: this encoder has 0, 1, 2",
        f"{prepared} --layer -2": "--layer -2: use a number from 0, or last",
        f"{prepared} --tokenizer moses": "leave them out",
        f"{prepared} --max-tokens 0": "--max-tokens 0",
        f"{prepared} --tasks WC,Length": "there is no Length; choose among SentLen",
        f"{prepared} --hidden a": "--hidden a: use numbers",
        f"{prepared} --hidden 5,-1": "--hidden: give numbers from 0",
        f"{prepared} --dropout 1": "--dropout: give rates",
        f"{prepared} --json no/such/folder.json": "there is no directory",
        f"{prepared} --figure f.xyz": "ends in one of",
        "--no-subwords": "--tokenizer: how was the training text tokenised",
        "--bpe-codes none --tokenizer moses": "--bpe-codes none: there is no such file",
        f"--bpe-codes {pieces} --tokenizer moses": "is no model of subword-nmt",
        f"--sentencepiece {merges} --tokenizer moses": "is no model of sentencepiece",
        "--prepared none": "there is no manifest.json",
        "--no-subwords --tokens as-trained --tokenizer moses": "leave --tokenizer out",
    }
    check_refusals(mistakes.items(), lambda flags: run_probe(*flags.split()))
    for sentence, said in {
        "a b " * 110: r"longer, in subwords, than the model takes \(1 in all",
        "\u0001 \u0002": "nothing is left of the sentence once it is tokenised",
    }.items():
        rows = ["tr\tO\ta cat .", f"tr\tI\t{sentence}", "va\tO\ta dog .", "te\tI\ta bird ."]
        (tmp_path / "bigram_shift.txt").write_text("\n".join(rows) + "\n")
        with pytest.raises(UserError, match=f"sentence 2: .*{said}"):
            run_probe(*prepared.split(), "--task-files", tmp_path)


def test_a_model_that_translates_nothing_has_no_encoder(tmp_path):
    """A language model's task has no source language."""
    task = SimpleNamespace(cfg=SimpleNamespace(data="bin"))
    with pytest.raises(UserError, match="lm.pt: its task is not a translation"):
        probe_command.treatment(SimpleNamespace(path=tmp_path / "lm.pt", prepared=None), task)
