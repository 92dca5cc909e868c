"""Probing trained models: vectors of sentences, the treatment of text, the command."""

import csv
import html
import json
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from cli import train
from every_model import MODELS, build, task_of
from models import build_tiny, pad

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.command_line import main
from fairseq_hybrid_attn.lab.corpora import load_corpus, own_corpus, prepare
from fairseq_hybrid_attn.lab.corpora.definition import Subwords
from fairseq_hybrid_attn.lab.inference.loading import load_model
from fairseq_hybrid_attn.lab.inference.sentences import Sentences
from fairseq_hybrid_attn.lab.probing import command, features
from fairseq_hybrid_attn.lab.probing.features import LAST, mean_states, sentence_vectors
from fairseq_hybrid_attn.lab.probing.probe import SentenceEncoder, as_dict, probe
from fairseq_hybrid_attn.lab.probing.tasks import TASKS, read_task
from fairseq_hybrid_attn.lab.probing.treatment import AS_TRAINED, SentenceTreatment, treatment_of

KNOWN = [name for name in MODELS if name != "fconv"]


def lines(count=25, longest=11, seed=0):
    choose = random.Random(seed)
    return [
        " ".join(f"w{choose.randrange(12)}" for _ in range(choose.randint(1, longest)))
        for _ in range(count)
    ]


def vectors(model, text, left=True, **settings):
    return sentence_vectors(model, Sentences.of_text(task_of(left), text), **settings)


def numbers(line):
    """A sentence of ``lines`` as the models' dictionary numbers it, with the end symbol, 2."""
    return [4 + int(word[1:]) for word in line.split()] + [2]


# -- Vectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
@pytest.mark.parametrize("name", KNOWN)
def test_a_sentence_is_the_same_alone_and_in_any_batch(name, left):
    model = build(name)
    if hasattr(model.encoder, "left_pad"):
        model.encoder.left_pad = left
    text = lines()
    for end_symbol in (True, False):
        together = vectors(model, text, left, max_tokens=80, end_symbol=end_symbol)
        alone = [vectors(model, [line], left, end_symbol=end_symbol) for line in text]
        assert torch.allclose(together, torch.cat(alone), atol=1e-5)
        assert together.std(0).mean() > 1e-3


@pytest.mark.parametrize("end_symbol", [True, False])
@pytest.mark.parametrize("name", ["stock", "stock-prenorm", "hysan-prenorm", "mma", "gate"])
def test_vectors_are_means_of_what_each_layer_returns(name, end_symbol):
    """Against the outputs of the modules themselves, seen by hooks, a sentence at a time."""
    model = build(name)
    seen = []
    for layer in model.encoder.layers:
        layer.register_forward_hook(lambda module, given, out: seen.append((given[0], out)))
    text = lines(6)
    expected = {layer: [] for layer in (0, 1, 2, 3, LAST)}
    for line in text:
        seen.clear()
        tokens = torch.tensor([numbers(line)])
        with torch.no_grad():
            out = model.encoder(tokens, torch.tensor([tokens.size(1)]))["encoder_out"][0]
        kept = slice(None) if end_symbol else slice(0, -1)
        states = {0: seen[0][0], 1: seen[0][1], 2: seen[1][1], 3: out, LAST: out}
        for layer, found in states.items():
            rows = [row.tolist() for row in found[kept, 0]]
            expected[layer].append([sum(column) / len(rows) for column in zip(*rows, strict=True)])
    for layer, mean in expected.items():
        found = vectors(model, text, layer=layer, end_symbol=end_symbol, max_tokens=60)
        assert torch.allclose(found, torch.tensor(mean), atol=1e-5), layer
    if "prenorm" in name:  # the last layer is taken after the last norm
        raw = [float(value) for value in seen[-1][1][:, 0].mean(0)]
        assert not torch.allclose(found[-1], torch.tensor(raw), atol=0.1)


@pytest.mark.parametrize("name", ["lstm", "lstm-bidirectional"])
def test_vectors_of_an_lstm_are_means_of_its_outputs(name):
    model = build(name)
    encoder = model.encoder
    text = lines(6)
    found = vectors(model, text, max_tokens=60)
    without = vectors(model, text, max_tokens=60, end_symbol=False)
    for number, line in enumerate(text):
        with torch.no_grad():
            embedded = encoder.embed_tokens(torch.tensor(numbers(line))).unsqueeze(1)
            states = encoder.lstm(embedded)[0][:, 0]
        assert torch.allclose(found[number], states.mean(0), atol=1e-6)
        assert torch.allclose(without[number], states[:-1].mean(0), atol=1e-6)


@pytest.mark.parametrize("name", ["lstm-on-top", "lstm-on-top-prenorm"])
def test_an_lstm_on_top_is_a_further_layer(name):
    model = build_tiny(name)
    tokens = torch.tensor([numbers("w1 w2 w3 w4")])
    tops = []
    model.encoder.top.register_forward_hook(lambda module, given, out: tops.append((given, out)))
    vectors(model, ["w1 w2 w3 w4"])
    ((below, _), above) = tops[0]
    for layer, states in ((3, below), (4, above), (LAST, above)):
        found = vectors(model, ["w1 w2 w3 w4"], layer=layer)
        assert torch.allclose(found[0], states[:, 0].mean(0), atol=1e-6), layer
    assert tokens.size(1) == below.size(0)


def test_which_tokens_count():
    states = torch.arange(12.0).view(4, 3, 1) ** 2  # [n, b, d]
    states[3, 0] = states[0, 1] = float("nan")  # padding holds anything
    padding = torch.tensor([[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=torch.bool).t()
    with_end = mean_states(states, padding, end_symbol=True)
    assert with_end[:, 0].tolist() == pytest.approx(
        [(0 + 9 + 36) / 3, (16 + 49 + 100) / 3, (4 + 25 + 64 + 121) / 4]
    )
    without = mean_states(states, padding, end_symbol=False)
    assert without[:, 0].tolist() == pytest.approx([4.5, (16 + 49) / 2, (4 + 25 + 64) / 3])
    alone = mean_states(torch.ones(2, 1, 3), torch.tensor([[False], [True]]), end_symbol=False)
    assert alone.tolist() == [[0.0, 0.0, 0.0]]


def test_means_of_half_precision_are_taken_in_single():
    states = torch.full((50, 1, 2), 60_000.0, dtype=torch.half)  # the sum is beyond half precision
    mean = mean_states(states, torch.zeros(50, 1, dtype=torch.bool), end_symbol=True)
    assert mean.dtype == torch.float32
    assert mean.tolist() == [[60_000 // 32 * 32] * 2]


@pytest.mark.parametrize("name", ["stock", "mma", "hysan", "lstm-on-top"])
def test_a_model_in_half_precision(name):
    text = lines(10)
    expected = vectors(build(name), text)
    found = vectors(build(name).bfloat16(), text, max_tokens=60)
    assert found.dtype == torch.float32
    assert (found - expected).abs().max() < 0.1 * expected.abs().max()


def test_the_order_is_that_of_the_text_and_nothing_is_trained():
    model = build("mma")
    text = lines(40)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    told = []
    found = vectors(model, text, max_tokens=70, progress=told.append)
    assert sum(told) == 40
    turned = vectors(model, text[::-1], max_tokens=200)
    assert torch.allclose(found, turned.flip(0), atol=1e-5)
    assert not found.requires_grad
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_foreign_encoders_and_layers_that_are_not_there():
    with pytest.raises(UserError, match="does not know where a FConvModel has"):
        vectors(build("fconv"), ["w1"])
    with pytest.raises(UserError, match="--layer 4: this encoder has 0, 1, 2, 3, and last"):
        vectors(build("mma"), ["w1"], layer=4)
    with pytest.raises(UserError, match="--layer 1: this encoder has 2, and last"):
        vectors(build("lstm-bidirectional"), ["w1"], layer=1)


def test_a_model_that_has_diverged():
    model = build("stock")
    model.encoder.embed_tokens.weight.data[4 + 7] = float("inf")
    with pytest.raises(UserError, match="of 1 sentences are not finite, first of sentence 2"):
        vectors(model, ["w1 w2", "w7 w3", "w4"])


def test_the_mask_is_that_of_the_encoder():
    """Left padding goes to the right within fairseq's LSTM, and its mask with it."""
    model = build("lstm")
    batch = pad([numbers("w1 w2 w3 w4"), numbers("w5")], 1, left=True)
    states = features.encode(model, {"src_tokens": batch, "src_lengths": torch.tensor([5, 2])})
    assert states.padding[:, 1].tolist() == [False, False, True, True, True]


def test_the_share_of_unknown_subwords(tmp_path):
    """Of the subwords, without end symbols."""
    lines = ["tr\tPAST\tw1 w2 zz", "tr\tPRES\tzz w3", "va\tPAST\tw4", "te\tPRES\tw5"]
    (tmp_path / "past_present.txt").write_text("\n".join(lines))
    file = read_task(tmp_path / "past_present.txt", TASKS["Tense"])
    as_it_is = SentenceTreatment("en", AS_TRAINED, "none", False, None, None)
    assert SentenceEncoder(build("mma"), task_of(), as_it_is).vectors(file).unknown == 2 / 7


# -- Text --------------------------------------------------------------------------------------

SUBJECTS = 'Tom Peter Mary the-dog Dr. Smith "Max" O\'Neill'.split()
VERBS = "isn't sees doesn't-see can't likes won't".split()
OBJECTS = "cats? dogs, birds; R&D 3.5 [houses] Tom's x's".split()


def english(count, seed=0):
    choose = random.Random(seed)
    return [
        " ".join(
            choose.choice(words)
            for words in (SUBJECTS, VERBS, OBJECTS, *(OBJECTS for _ in range(choose.randint(0, 4))))
        )
        + choose.choice(".!?")
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Prepared English-German text by the name of its subwords, both sides of the same words."""
    folder = tmp_path_factory.mktemp("corpus")
    (folder / "text").mkdir()
    made = {}
    for part, count in (("train", 150), ("valid", 20), ("test", 30)):
        text = english(count, seed=count)
        (folder / f"text/{part}.en").write_text("\n".join(text) + "\n")
        (folder / f"text/{part}.de").write_text("\n".join(line.upper() for line in text) + "\n")
    configs = Path(__file__).parents[3] / "configs"
    recipes = {
        "subword-nmt": {"subwords": Subwords("subword-nmt", 60, joint=False)},
        "sentencepiece": {"subwords": Subwords("sentencepiece-bpe", 90), "lowercase": True},
    }
    for name, changes in recipes.items():
        recipe = replace(load_corpus("own", configs), **changes)
        own = own_corpus(recipe, folder / "text", source_lang="en", target_lang="de")
        made[name] = folder / name
        prepare(own, made[name], workers=1, say=lambda message: None)
    return made


def read(path):
    return path.read_text().splitlines()


@pytest.mark.parametrize("kind", ["subword-nmt", "sentencepiece"])
@pytest.mark.parametrize("workers", [1, 2])
def test_sentences_are_treated_as_the_training_text(corpus, kind, workers):
    """What prepare itself has made of the same text, from the text or from Moses' tokens."""
    folder = corpus[kind]
    expected = read(folder / "subwords/test.en")
    tokens = read(folder / "tokenised/test.en")
    as_published = [html.unescape(line) for line in tokens]  # SentEval's are not escaped
    given = {"none": read(folder / "raw/test.en"), AS_TRAINED: tokens}
    if kind == "subword-nmt":  # the other tokens are in lower case, and a tokeniser looks at case
        given["moses"] = as_published
    for what, text in given.items():
        treatment = treatment_of(folder, folder / "bin", "en", what)
        assert treatment.apply(text, workers) == expected, what
    # The other steps matter.
    assert treatment_of(folder, folder / "bin", "en", AS_TRAINED).apply(as_published) != expected


def test_both_languages_have_their_own(corpus):
    folder = corpus["subword-nmt"]
    treatment = treatment_of(folder, folder / "bin", "de", "none")
    assert treatment.apply(read(folder / "raw/test.de")) == read(folder / "subwords/test.de")
    assert treatment.model.name == "subwords.de.codes"


def test_text_made_otherwise(corpus):
    folder = corpus["sentencepiece"]
    raw = read(folder / "raw/test.en")
    model = folder / "subwords/subwords.model"
    treatment = SentenceTreatment("en", "none", "moses", True, "sentencepiece", model)
    assert treatment.apply(raw) == read(folder / "subwords/test.en")
    words = SentenceTreatment("en", "none", "moses", True, None, None)
    assert words.apply(raw) == read(folder / "tokenised/test.en")
    lower = SentenceTreatment("en", AS_TRAINED, "none", True, None, None)
    assert lower.apply(["Ein HAUS &amp; x"]) == ["ein haus &amp; x"]


def test_a_prepared_folder_that_does_not_fit(corpus, tmp_path):
    folder = corpus["subword-nmt"]
    with pytest.raises(UserError, match="there is no manifest.json of this program"):
        treatment_of(tmp_path, folder / "bin", "en", "moses")
    with pytest.raises(UserError, match="is en and de, but the model reads fr"):
        treatment_of(folder, folder / "bin", "fr", "moses")
    with pytest.raises(UserError, match=r"its dict.en.txt differs from that in"):
        treatment_of(folder, corpus["sentencepiece"] / "bin", "en", "moses")
    codes = folder / "subwords/subwords.en.codes"
    before = codes.read_bytes()
    try:
        codes.write_bytes(before + b"x y\n")
        with pytest.raises(UserError, match=r"subwords.en.codes has changed since it was made"):
            treatment_of(folder, folder / "bin", "en", "moses")
    finally:
        codes.write_bytes(before)


# -- The command -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    flags = "--max-source-positions 200 --max-update 1 --source-lang en --target-lang de".split()
    dictionaries = corpus["sentencepiece"] / "bin"
    train(dictionaries, folder / "model", "transformer_hybrid_gate", *flags, cwd=folder)
    text = [line for line in dict.fromkeys(english(600, seed=3))]
    (folder / "text").write_text("\n".join(text) + "\n")
    options = "--tasks BShift,WC --sizes 40 10 10 --words 5 --first-rank 1".split()
    options += "--tokenizer moses --lang en".split()
    main(["probing-data", str(folder / "text"), "--output", str(folder / "tasks"), *options])
    return folder


def arguments(corpus, trained, *more, tasks="WC,BShift"):
    data = corpus["sentencepiece"]
    return [
        *("probe", str(data / "bin"), "--path", str(trained / "model/checkpoint_last.pt"), "--cpu"),
        *("--task-files", str(trained / "tasks"), "--tasks", tasks, "--workers", "1"),
        *("--seeds", "2", "--hidden", "5", "--dropout", "0", *map(str, more)),
    ]


def test_the_command_from_text_to_accuracies(corpus, trained, tmp_path, capsys):
    out = tmp_path / "out.json"
    data = corpus["sentencepiece"]
    main(arguments(corpus, trained, "--prepared", data, "--json", out, "--layer", "1"))
    found = json.loads(out.read_text())
    assert list(found["tasks"]) == ["WC", "BShift"] and found["groups"] == {}
    printed = capsys.readouterr().out
    for name, task in found["tasks"].items():
        assert len(task["seeds"]) == 2
        assert task["accuracy"] == pytest.approx(sum(task["seeds"]) / 2)
        (row,) = [line for line in printed.splitlines() if line.startswith(name)]
        assert f"{task['accuracy']:.2f}" in row.split()
        assert task["unknown_subwords"] < 0.02
    assert found["tasks"]["WC"]["majority"] == 20.0
    assert {fit["hidden"] for fit in found["tasks"]["WC"]["classifiers"]} == {0}
    assert {fit["hidden"] for fit in found["tasks"]["BShift"]["classifiers"]} == {5}
    assert found["text"]["lowercase"] and found["text"]["tokens"] == "moses"
    assert found["layer"] == "1" and found["end_symbol"] == "in"

    # As a line for each task, and as a figure.
    table, figure = tmp_path / "out.csv", tmp_path / "out.pdf"
    flags = ["--prepared", data, "--layer", "1", "--csv", table, "--figure", figure]
    main(arguments(corpus, trained, *flags))
    rows = list(csv.DictReader(table.open()))
    assert [row["task"] for row in rows] == ["WC", "BShift"]
    for row in rows:
        task = found["tasks"][row["task"]]
        for key in ("accuracy", "deviation", "majority", "classes"):
            assert float(row[key]) == task[key]
    assert figure.read_bytes().startswith(b"%PDF")

    # The same by the flags for text made otherwise.
    again = tmp_path / "again.json"
    flags = ["--sentencepiece", data / "subwords/subwords.model", "--tokenizer", "moses"]
    flags += ["--lowercase", "--json", again, "--layer", "1"]
    main(arguments(corpus, trained, *flags, tasks="BShift"))
    assert json.loads(again.read_text())["tasks"]["BShift"] == found["tasks"]["BShift"]

    # And by the functions.
    from fairseq_hybrid_attn.lab.probing.classifier import ProbeSettings

    model, task = load_model(trained / "model/checkpoint_last.pt", data / "bin")
    encoder = SentenceEncoder(model, task, treatment_of(data, data / "bin", "en", "moses"), layer=1)
    file = read_task(trained / "tasks/bigram_shift.txt", TASKS["BShift"])
    results = [probe(encoder.vectors(file), file, ProbeSettings((5,), (0.0,)), (1, 2))]
    assert as_dict(results)["tasks"]["BShift"] == found["tasks"]["BShift"]


def test_text_that_the_model_does_not_know_is_told(corpus, trained, capsys):
    data = corpus["sentencepiece"]
    flags = ["--sentencepiece", data / "subwords/subwords.model", "--tokenizer", "moses"]
    main(arguments(corpus, trained, *flags, tasks="BShift"))  # capitals
    assert "warning: " in capsys.readouterr().err
    main(arguments(corpus, trained, *flags, "--lowercase", tasks="BShift"))
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "more, said",
    [
        (["--tasks", "WC,SentLen"], "there is no sentence_length.txt; --tasks WC,BShift takes"),
        (["--layer", "3"], "--layer 3: this encoder has 0, 1, 2"),
        (["--layer", "-2"], "--layer -2: use a number from 0, or last"),
        (["--tokenizer", "moses"], "leave them out"),
        (["--seeds", "0"], "--seeds 0"),
        (["--max-tokens", "0"], "--max-tokens 0"),
        (["--hidden", "a"], "--hidden a: use numbers"),
        (["--dropout", "1"], "--dropout: give rates"),
        (["--batch-size", "0"], "--batch-size 0"),
        (["--json", "no/such/folder.json"], "there is no directory"),
        (["--figure", "f.xyz"], "ends in one of"),
    ],
)
def test_mistakes_are_told(corpus, trained, more, said):
    with pytest.raises(UserError, match=said):
        main(arguments(corpus, trained, "--prepared", corpus["sentencepiece"], *more))


@pytest.mark.parametrize(
    "text, said",
    [
        (["--no-subwords"], "--tokenizer: how was the training text tokenised"),
        (["--bpe-codes", "none"], "--bpe-codes none: there is no such file"),
        (["--prepared", "none"], "there is no manifest.json"),
        (["--no-subwords", "--tokens", "as-trained"], "leave --tokenizer out"),
    ],
)
def test_text_that_is_not_described(corpus, trained, text, said):
    more = [] if "tokenised" in said else ["--tokenizer", "moses"]
    more = more if "--prepared" not in text else []
    with pytest.raises(UserError, match=said):
        main(arguments(corpus, trained, *text, *more))


@pytest.mark.parametrize(
    "sentence, said",
    [
        (
            "a b " * 110,
            r"line 2: the sentence is longer, in subwords, than the model takes \(1 such",
        ),
        ("\u0001 \u0002", r"line 2: nothing is left of the sentence once it is tokenised"),
    ],
)
def test_sentences_that_the_model_cannot_take(corpus, trained, tmp_path, sentence, said):
    rows = ["tr\tO\ta cat .", f"tr\tI\t{sentence}", "va\tO\ta dog .", "te\tI\ta bird ."]
    (tmp_path / "bigram_shift.txt").write_text("\n".join(rows) + "\n")
    more = ["--prepared", corpus["sentencepiece"], "--task-files", tmp_path]
    with pytest.raises(UserError, match=said):
        main(arguments(corpus, trained, *more, tasks="BShift"))


def test_a_model_that_translates_nothing_has_no_encoder(tmp_path):
    """A language model's task has no source language."""
    task = SimpleNamespace(cfg=SimpleNamespace(data="bin"))
    with pytest.raises(UserError, match="lm.pt: its task is not a translation"):
        command.treatment(SimpleNamespace(path=tmp_path / "lm.pt", prepared=None), task)
