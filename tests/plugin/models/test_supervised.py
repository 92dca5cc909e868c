"""Supervised attention (Ma & Zhao 2020, Eq. 13): the loss, its gradient, and what it teaches."""

import math
import shutil
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from cli import USER_DIR, generate, run, train, write_corpus
from fairseq.data import LanguagePairDataset, ListDataset, indexed_dataset
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.lstm import LSTMModel, base_architecture
from fairseq.models.transformer import TransformerModelBase
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from models import MODEL_DATACLASS_REGISTRY, TINY, build, build_tiny, dictionary
from omegaconf import OmegaConf
from test_training import train_in_two_processes, weights

from fairseq_hybrid_attn.alignment_data import check_alignments
from fairseq_hybrid_attn.criterions import SupervisedAttention, gold_attention, recorded_head
from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.models.config import nested_config

CRITERION = "label_smoothed_cross_entropy_with_supervised_attention"
PAD, EOS = 1, 2
SOURCES = [[5, 6, 7, 8, 9], [10], [9, 4], [12, 4, 4, 4, 5]]
TARGETS = [[7, 6, 5], [11], [4, 9, 8, 7], [5, 4]]
LINKS = [[(0, 2), (1, 1), (2, 0), (3, 0)], [(0, 0)], [], [(4, 0)]]
E1, E4 = math.exp(-1), math.exp(-4)  # a Gaussian of variance 0.5, one and two tokens away


def dataset(sources, targets, links, **settings):
    """fairseq's data set with alignments, and each sentence with its end symbol."""
    words = dictionary(12)
    sides = []
    for side in (sources, targets):
        lines = [torch.tensor([*line, EOS]) for line in side]
        sides += [ListDataset(lines), [len(line) for line in lines], words]
    if links is not None:
        links = ListDataset([torch.tensor(line, dtype=torch.int32).view(-1) for line in links])
    return LanguagePairDataset(*sides, align_dataset=links, shuffle=False, **settings)


def batch(sources=SOURCES, targets=TARGETS, links=LINKS, **settings):
    """A batch as fairseq collates it, longest source first."""
    pairs = dataset(sources, targets, links, **settings)
    return pairs.collater([pairs[number] for number in range(len(pairs))])


def criterion(load_dataset=None, **settings):
    task = SimpleNamespace(target_dictionary=dictionary(12), load_dataset=load_dataset)
    return SupervisedAttention(task, sentence_avg=False, label_smoothing=0.1, **settings)


def stock(**settings):
    """fairseq's own Transformer."""
    words = dictionary(12)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    known = {key: value for key, value in TINY.items() if key != "squeeze_ratio"}
    cfg = MODEL_DATACLASS_REGISTRY["transformer_mma"](**{**known, **settings})
    torch.manual_seed(0)
    return TransformerModelBase.build_model(nested_config(OmegaConf.structured(cfg)), task).eval()


def lstm(**settings):
    """fairseq's own LSTM, two layers."""
    words = dictionary(12)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    args = Namespace(
        encoder_embed_dim=16,
        encoder_hidden_size=8,
        encoder_bidirectional=True,
        encoder_layers=2,
        decoder_embed_dim=16,
        decoder_hidden_size=16,
        decoder_out_embed_dim=16,
        decoder_layers=2,
        dropout=0.0,
        criterion=CRITERION,
        **settings,
    )
    base_architecture(args)
    torch.manual_seed(0)
    return LSTMModel.build_model(args, task).eval()


MODELS = {
    "stock": stock,
    "lstm": lstm,
    "mma": lambda **settings: build_tiny("mma", **settings),
    "hysan": lambda **settings: build_tiny("hysan-gated", **settings),
    "gate": lambda **settings: build_tiny("gate-hidden", **settings),
    "future-only": lambda **settings: build_tiny("future-only", **settings),
    "lstm-on-top": lambda **settings: build_tiny("lstm-on-top", **settings),
}


# --- A* -----------------------------------------------------------------------------------------


def gold(sample, variance=0.5):
    src = sample["net_input"]["src_tokens"]
    return gold_attention(sample["alignments"], src, sample["target"], PAD, variance)


def rows(*weights):
    """Rows of weights, each scaled to sum to 1."""
    table = torch.tensor(weights)
    return table / table.sum(dim=1, keepdim=True).clamp(min=1e-9)


def test_each_link_is_a_gaussian_along_the_source():
    (found,) = gold(batch([[4] * 5], [[4] * 4], [[(2, 0), (0, 1), (1, 2), (3, 2)]]))
    expected = rows(
        [E4, E1, 1, E1, E4, 0],
        [1, E1, E4, math.exp(-9), math.exp(-16), 0],  # cut off, and nothing for the end symbol
        [E1 + math.exp(-9), 1 + E4, 2 * E1, 1 + E4, E1 + math.exp(-9), 0],
        [0.0] * 6,  # no link
        [0.0] * 6,  # the end symbol
    )
    torch.testing.assert_close(found, expected)


def test_other_variances():
    sample = batch([[4] * 3], [[4] * 3], [[(2, 0), (0, 1), (1, 1)]])
    expected = rows([0, 0, 1, 0], [1, 1, 0, 0], *([[0.0] * 4] * 2))
    torch.testing.assert_close(gold(sample, 0.0)[0], expected)
    torch.testing.assert_close(gold(sample, 1e-30)[0], expected)
    wide = rows(
        [math.exp(-2 / 9), math.exp(-0.5 / 9), 1, 0], [1 + math.exp(-0.5 / 9)] * 2 + [0] * 2
    )
    torch.testing.assert_close(gold(sample, 9.0)[0, 0], wide[0])


def test_a_link_given_twice_counts_once():
    once, twice = (
        batch([[4] * 3], [[4]], [links]) for links in ([(0, 0), (2, 0)], [(0, 0), (2, 0), (2, 0)])
    )
    assert gold(once).equal(gold(twice))


@pytest.mark.parametrize("left_target", [False, True])
@pytest.mark.parametrize("left_source", [False, True])
def test_gold_of_a_batch_is_that_of_each_sentence(left_source, left_target):
    sample = batch(left_pad_source=left_source, left_pad_target=left_target)
    for row, number in enumerate(sample["id"].tolist()):
        found = gold(sample)[row]
        n, m = len(SOURCES[number]) + 1, len(TARGETS[number]) + 1
        first = len(found) - m if left_target else 0
        if LINKS[number]:
            alone = batch(*([side[number]] for side in (SOURCES, TARGETS, LINKS)))
            torch.testing.assert_close(found[first : first + m, :n], gold(alone)[0])
        else:
            assert not found.any()
        assert not found[:, n:].any() and not found[:first].any() and not found[first + m :].any()


def test_gold_of_a_batch_is_of_its_own_rows():
    """Sentences of several words, so that another row's alignment would show."""
    sample = batch([[5, 6, 7, 8], [9, 10], [4, 5]], [[7], [4], [6]], [[(0, 0)], [(0, 0)], [(1, 0)]])
    for row, number in enumerate(sample["id"].tolist()):
        strongest = gold(sample)[row, 0].argmax().item()
        assert strongest == [0, 0, 1][number]


# --- Eq. 13 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_distances_are_equation_13_alone_and_in_any_batch(name):
    model, loss = MODELS[name](), criterion()
    alone = {}
    for number in range(4):
        sample = batch(*([side[number]] for side in (SOURCES, TARGETS, LINKS)))
        real = torch.ones(1, len(SOURCES[number]) + 1, dtype=torch.bool)
        with recorded_head(model) as attention:
            model(**sample["net_input"])
        (weights,) = attention(real)
        torch.testing.assert_close(weights.sum(1), torch.ones(len(TARGETS[number]) + 1))
        distance = 0.0
        if LINKS[number]:
            for t, row in enumerate(gold(sample)[0].tolist()):
                if any(row):
                    distance += sum(
                        (g - float(w)) ** 2 for g, w in zip(row, weights[t], strict=True)
                    )
        alone[number] = math.sqrt(distance)
    assert alone[2] == 0 and min(alone[0], alone[1], alone[3]) > 0.1
    for left in (True, False):
        sample = batch(left_pad_source=left)
        with recorded_head(model) as attention:
            model(**sample["net_input"])
        distances, supervised = loss.distances(
            sample, attention(sample["net_input"]["src_tokens"].ne(PAD))
        )
        order = sample["id"].tolist()
        assert distances.tolist() == pytest.approx([alone[number] for number in order], abs=1e-5)
        assert supervised.tolist() == [number != 2 for number in order]


def heads_by_hand(layer, query, key):
    """The weights of each head, from the projections."""
    attention = layer.encoder_attn
    q, k = attention.q_proj(query), attention.k_proj(key)
    size = q.size(-1) // attention.num_heads
    return [
        torch.einsum("tbd,sbd->bts", q[..., h : h + size], k[..., h : h + size])
        .div(math.sqrt(size))
        .softmax(-1)
        for h in range(0, q.size(-1), size)
    ]


@pytest.mark.parametrize("name", [name for name in MODELS if name != "lstm"])
def test_a_head_is_that_head(name):
    """Without dropout of attention weights, which acts after them."""
    model = MODELS[name](attention_dropout=0.5).train()
    number, inputs = len(model.decoder.layers), []
    for layer in model.decoder.layers:
        layer.encoder_attn.register_forward_pre_hook(
            lambda m, args, kwargs: inputs.append((kwargs["query"], kwargs["key"])),
            with_kwargs=True,
        )
    sample = batch([SOURCES[0]], [TARGETS[0]], [LINKS[0]])
    real = torch.ones(1, 6, dtype=torch.bool)
    for layer, head, place in (
        (-1, -1, (number - 1, 3)),
        (1, 2, (0, 1)),
        (-2, -4, (number - 2, 0)),
    ):
        inputs.clear()
        with recorded_head(model, layer, head) as attention:
            model(**sample["net_input"])
        by_hand = heads_by_hand(model.decoder.layers[place[0]], *inputs[place[0]])
        torch.testing.assert_close(attention(real), by_hand[place[1]])
    assert not any(layer._forward_hooks for layer in model.decoder.layers)  # all is as before


def test_the_loss_is_fairseq_s_plus_the_weighted_sum_of_distances():
    model, sample = stock(), batch()
    plain, size, logged = criterion(supervision_weight=0.0)(model, sample)
    distances = logged["attention_loss"]
    assert logged["supervised_sentences"] == 3 and distances > 0.3
    for weight in (1.0, 2.5):
        loss, same_size, logged = criterion(supervision_weight=weight, report_accuracy=True)(
            model, sample
        )
        torch.testing.assert_close(loss, plain + weight * distances)
        assert logged["loss"] == loss and same_size == size == sample["ntokens"]
        assert logged["total"] == sample["ntokens"]


def test_batches_without_alignments_have_their_translation_loss():
    for sample in (batch(links=None), batch(links=[[], [], [], []])):
        assert "alignments" not in sample
        loss, _, logged = criterion()(stock(), sample)
        assert loss == criterion(supervision_weight=0.0)(stock(), sample)[0]
        assert logged["attention_loss"] == 0 and logged["supervised_sentences"] == 0


def test_logs_are_summed_over_processes_and_batches():
    loss = criterion()
    assert loss.logging_outputs_can_be_summed()
    from fairseq.logging import metrics

    logs = [
        loss(stock(), sample)[2]
        for sample in (batch(), batch(links=None), batch(SOURCES[::-1], TARGETS[::-1], LINKS[::-1]))
    ]
    assert len({tuple(log) for log in logs}) == 1  # the same keys in the same order
    summed = {key: sum(log[key] for log in logs) for key in logs[0]}
    means = []
    for outputs in (logs, [summed]):
        with metrics.aggregate() as aggregated:
            loss.reduce_metrics(outputs)
        means.append(aggregated.get_smoothed_values())
    assert means[0]["attention_loss"] == means[1]["attention_loss"] > 0.1
    mean = sum(float(log["attention_loss"]) for log in logs) / 6
    assert means[0]["attention_loss"] == pytest.approx(mean, abs=1e-3)


# --- the gradient -------------------------------------------------------------------------------


def gradients(model, sample, layer=-1, head=-1):
    """Of the distances alone, by name; None where the loss does not reach."""
    model.zero_grad()
    with recorded_head(model, layer, head) as attention:
        model(**sample["net_input"])
    real = sample["net_input"]["src_tokens"].ne(PAD)
    criterion().distances(sample, attention(real))[0].sum().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


ABOVE = ("encoder_attn.v_proj", "encoder_attn.out_proj", "encoder_attn_layer_norm", "fc1", "fc2")


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("name", ["stock", "hysan", "lstm-on-top"])
def test_gradient_reaches_only_what_lies_before_the_head(name, layer):
    model = MODELS[name]()
    found = gradients(model, batch(), layer=layer, head=-1)
    here = f"decoder.layers.{layer - 1}"
    expected = {n for n in found if n.startswith(("encoder.", "decoder.embed_tokens"))}
    for n in found:
        below = n.startswith("decoder.layers.") and n < here
        inside = n.startswith(here) and not any(
            n.startswith(f"{here}.{part}") for part in (*ABOVE, "final_layer_norm")
        )
        if below or inside:
            expected.add(n)
    assert {n for n, gradient in found.items() if gradient is not None} == expected
    assert not any("output_projection" in n or "decoder.top" in n for n in expected)
    # Of the head's own projections, its rows alone; the bias of keys moves no weight at all.
    for part, rounding in (("q_proj.weight", 0), ("q_proj.bias", 0), ("k_proj.weight", 0)):
        gradient = found[f"{here}.encoder_attn.{part}"]
        assert not gradient[:-4].any() and gradient[-4:].abs().max() > rounding
    assert found[f"{here}.encoder_attn.k_proj.bias"].abs().max() < 1e-6
    assert found["encoder.layers.0.fc1.weight"].any()


def test_gradient_of_an_lstm():
    """The attention feeds the next step, so all but the last layer's output lies before it."""
    found = gradients(lstm(), batch())
    without = {name for name, gradient in found.items() if gradient is None}
    assert without == {"decoder.fc_out.weight", "decoder.fc_out.bias"}
    assert found["decoder.attention.input_proj.weight"].any()
    assert found["encoder.lstm.weight_ih_l0"].any()


@pytest.mark.parametrize("name", ["stock", "mma", "lstm-on-top"])
def test_activation_checkpointing_gives_the_same_gradients(name):
    """There, a module within a layer runs without a gradient at first."""
    found = []
    for checkpoint in (False, True):
        model = MODELS[name](checkpoint_activations=checkpoint, dropout=0.1).train()
        torch.manual_seed(1)
        loss, _, _ = criterion(supervision_weight=10.0)(model, batch())
        loss.backward()
        found.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, msg=name)


def test_gradient_is_finite_where_attention_is_the_alignment():
    """One source word, and its end symbol out of reach: the distance is 0."""
    attention = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]], requires_grad=True)
    distances, _ = criterion().distances(batch([[4]], [[4]], [[(0, 0)]]), attention)
    distances.sum().backward()
    assert distances.tolist() == [0] and attention.grad.tolist() == [[[0, 0], [0, 0]]]


def test_half_precision():
    for dtype in (torch.float16, torch.bfloat16):
        loss, _, _ = criterion()(stock().to(dtype), batch())
        loss.backward()
        assert loss.isfinite()
        sample, half = batch(), lstm().to(dtype)
        with recorded_head(half, -1, -1) as attention:
            half(**sample["net_input"])
        weights = attention(sample["net_input"]["src_tokens"].ne(PAD)).to(dtype)
        assert criterion().distances(sample, weights)[0].dtype == torch.float32


def test_layerdrop():
    """A batch that the head's layer is dropped from is translated alone."""
    model = stock(decoder_layerdrop=0.6).train()
    torch.manual_seed(3)
    seen = {int(criterion()(model, batch())[2]["supervised_sentences"]) for _ in range(20)}
    assert seen == {0, 3}


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"supervision_weight": -1.0}, "--supervision-weight -1.0"),
        ({"supervision_weight": math.nan}, "--supervision-weight nan"),
        ({"gold_variance": -0.5}, "--gold-variance -0.5"),
        ({"gold_variance": math.inf}, "--gold-variance inf"),
    ],
)
def test_wrong_settings_are_refused(settings, said):
    with pytest.raises(UserError, match=said):
        criterion(**settings)


@pytest.mark.parametrize(
    "model, settings, said",
    [
        ("stock", {"supervised_layer": 3}, "--supervised-layer 3: this model has 2; use 1 to 2"),
        ("stock", {"supervised_layer": 0}, "--supervised-layer 0"),
        ("stock", {"supervised_head": -5}, "--supervised-head -5: this model has 4"),
        ("lstm", {"supervised_head": 2}, "--supervised-head 2: this model has 1"),
        ("lstm", {"supervised_layer": 2}, "--supervised-layer 2: this model has 1"),
    ],
)
def test_heads_that_there_are_not_are_refused(model, settings, said):
    with pytest.raises(UserError, match=said):
        criterion(**settings)(MODELS[model](), batch())


def test_models_without_cross_attention_are_refused():
    for model, said in (
        (lstm(decoder_attention="0"), "LSTMModel has no cross-attention"),
        (stock(no_cross_attention=True, cross_self_attention=True), "no cross-attention"),
        (torch.nn.Linear(1, 1), "Linear has no cross-attention"),
    ):
        with pytest.raises(UserError, match=said), recorded_head(model):
            pass


def test_alignments_that_fit_are_accepted():
    check_alignments(dataset(SOURCES, TARGETS, LINKS), "train")


def test_a_wrong_number_of_lines_is_refused():
    for links in (LINKS[:3], [*LINKS, []]):
        with pytest.raises(UserError, match=rf"train: {len(links)} lines .* 4 sentence pairs"):
            check_alignments(dataset(SOURCES, TARGETS, links), "train")


@pytest.mark.parametrize("together", [2, 10_000])
def test_links_beyond_their_sentence_are_refused_with_line_numbers(together, monkeypatch):
    monkeypatch.setattr("fairseq_hybrid_attn.alignment_data._TOGETHER", together)
    links = [LINKS[0], [(1, 0)], [(0, 4), (0, 3)], [(0, -1)]]
    with pytest.raises(UserError) as error:
        check_alignments(dataset(SOURCES, TARGETS, links), "train")
    assert str(error.value).split("\n  ")[1:] == [
        "line 2: 1-0, but the source has 1 tokens and the target 1",  # to the end symbol
        "line 3: 0-4, but the source has 2 tokens and the target 4",
        "line 4: 0--1, but the source has 5 tokens and the target 2",
    ]
    with pytest.raises(UserError, match="and 7 more"):
        check_alignments(dataset([[4]] * 12, [[4]] * 12, [[(1, 1)]] * 12), "train")


def test_alignments_without_any_link_are_refused():
    with pytest.raises(UserError, match="no link at all"):
        check_alignments(dataset(SOURCES, TARGETS, [[]] * 4), "train")


# --- learning -----------------------------------------------------------------------------------

SYMBOLS = 8


def pairs(size, generator):
    """Sequences, their reversal, and the links."""
    lengths = torch.randint(3, 8, (size,), generator=generator).tolist()
    sources = [torch.randint(4, 4 + SYMBOLS, (n,), generator=generator).tolist() for n in lengths]
    return (
        sources,
        [s[::-1] for s in sources],
        [[(i, n - 1 - i) for i in range(n)] for n in lengths],
    )


def learned(model, weight, steps, rate):
    """Train; then the alignment error rate of the last head on other sentences, the share of
    its attention on gold links, and the translation loss of a token."""
    generator = torch.Generator().manual_seed(5)
    loss = criterion(supervision_weight=weight, gold_variance=0.5)
    optimizer = torch.optim.Adam(model.train().parameters(), lr=rate)
    for _ in range(steps):
        value, size, _ = loss(model, batch(*pairs(32, generator)))
        optimizer.zero_grad()
        (value / size).backward()
        optimizer.step()
    sample = batch(*pairs(100, generator))
    with torch.no_grad(), recorded_head(model.eval()) as attention:
        _, _, logged = loss(model, sample)
        attention = attention(sample["net_input"]["src_tokens"].ne(PAD))
    links = gold(sample, variance=0.0)
    hits = links.gather(2, attention.argmax(2, keepdim=True)).sum()
    mass = (links * attention).sum()
    # As many links as there are target words on both sides: AER = 1 - 2 hits / (2 words).
    words = links.sum()
    return (
        float(1 - hits / words),
        float(mass / words),
        float(logged["nll_loss"]) / sample["ntokens"],
    )


@pytest.mark.parametrize("name, steps, rate", [("stock", 120, 5e-3), ("lstm", 120, 1e-2)])
def test_the_supervised_loss_lowers_the_alignment_error_on_held_out_sentences(name, steps, rate):
    before, after = (learned(MODELS[name](), weight, steps, rate) for weight in (0.0, 1.0))
    assert after[0] < before[0] - 0.3 and after[0] < 0.5
    assert after[1] > before[1] + 0.2


# --- the commands -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Sequences and their reversal with alignments, empty lines among them."""
    folder = tmp_path_factory.mktemp("supervised")
    write_corpus(folder, hard_cases=True)
    for split in ("train", "valid"):
        lengths = [len(line.split()) for line in (folder / f"{split}.de").read_text().split("\n")]
        links = [" ".join(f"{i}-{n - 1 - i}" for i in range(n)) for n in lengths[:-1]]
        (folder / f"{split}.align").write_text("".join(f"{line}\n" for line in links))
    run(
        "fairseq-preprocess",
        *("-s", "de", "-t", "en", "--joined-dictionary", "--destdir", "bin"),
        *("--trainpref", "train", "--validpref", "valid", "--testpref", "test"),
        *("--align-suffix", "align"),
        cwd=folder,
    )
    return folder / "bin"


FLAGS = ("--criterion", CRITERION, "--load-alignments", "--skip-invalid-size-inputs-valid-test")


def test_train_validate_and_generate(corpus, tmp_path):
    done = train(corpus, "model", "transformer_mma", *FLAGS, "--max-update", 4, cwd=tmp_path)
    assert "attention_loss" in done.stdout + done.stderr
    checkpoint = tmp_path / "model" / "checkpoint_last.pt"
    skip = "--skip-invalid-size-inputs-valid-test"
    done = run(
        "fairseq-validate",
        corpus,
        *("--user-dir", USER_DIR, "--path", checkpoint, "--task", "translation", "--cpu"),
        *("--max-tokens", 400, skip),
        cwd=tmp_path,
    )
    assert "attention_loss" in done.stdout + done.stderr
    generate(corpus, checkpoint, skip, "--beam", 2, cwd=tmp_path)  # asks for no alignments


def test_train_an_lstm(corpus, tmp_path):
    done = run(
        "fairseq-train",
        corpus,
        *("--user-dir", USER_DIR, "--arch", "lstm", "--save-dir", "model", "--cpu"),
        *("--encoder-embed-dim", 16, "--encoder-hidden-size", 8, "--encoder-bidirectional"),
        *("--decoder-embed-dim", 16, "--decoder-hidden-size", 16, "--decoder-out-embed-dim", 16),
        *("--optimizer", "adam", "--max-tokens", 400, "--max-update", 2, "--log-format", "simple"),
        *FLAGS,
        cwd=tmp_path,
    )
    assert "attention_loss" in done.stdout + done.stderr


def test_two_processes_are_one_with_double_the_batches(corpus, tmp_path):
    flags = [*FLAGS, "--dropout", "0", "--max-update", "3", "--max-source-positions", "100"]
    arch = ["transformer_hysan", "--squeeze-ratio", "4"]
    train(corpus, "one", *arch, *flags, "--update-freq", 2, cwd=tmp_path)
    train_in_two_processes(corpus, "two", *flags, cwd=tmp_path)
    one, two = (weights(tmp_path / name / "checkpoint_last.pt") for name in ("one", "two"))
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=0, atol=2e-6, msg=name)


def with_alignments(corpus, folder, links):
    """The same data with other alignments of the training text."""
    shutil.copytree(corpus, folder)
    prefix = folder / "train.align.de-en"
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=None)
    for line in links:
        builder.add_item(torch.tensor(line, dtype=torch.int32))
    builder.finalize(f"{prefix}.idx")
    return folder


def loaded(folder, load_alignments=True, **settings):
    cfg = OmegaConf.structured(
        TranslationConfig(
            data=str(folder), load_alignments=load_alignments, dataset_impl="mmap",
            required_seq_len_multiple=1, **{"train_subset": "train", **settings},
        )
    )  # fmt: skip
    task = TranslationTask.setup_task(cfg)
    SupervisedAttention(task, sentence_avg=False, label_smoothing=0.1)
    for split in ("test", "valid", "train"):
        task.load_dataset(split, epoch=1, combine=False)
    return task.datasets


def test_the_task_checks_what_it_loads(corpus, tmp_path):
    assert loaded(corpus).keys() == {"train", "valid", "test"}
    with pytest.raises(UserError, match="--load-alignments"):
        loaded(corpus, load_alignments=False)
    with pytest.raises(UserError, match="^valid has no alignments"):
        loaded(corpus, load_alignments=False, train_subset="valid")
    for flag in ({"truncate_source": True}, {"num_batch_buckets": 2}):
        with pytest.raises(UserError, match="cannot be used with supervised attention"):
            loaded(corpus, **flag)
    with pytest.raises(UserError, match="199 lines of alignments, but 200 sentence pairs"):
        loaded(with_alignments(corpus, tmp_path / "short", [[0, 0]] * 199))


def test_wrong_alignments_end_training_with_a_message(corpus, tmp_path):
    links = [[]] * 200
    links[99] = [0, 0, 30, 0]
    data = with_alignments(corpus, tmp_path / "bin", links)
    done = train(data, "model", "transformer_mma", *FLAGS, cwd=tmp_path, expect=1)
    assert "line 100: 30-0, but the source has" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def test_every_transformer_of_this_package_is_supervised():
    ours = [
        name
        for name, model in ARCH_MODEL_REGISTRY.items()
        if model.__module__.startswith("fairseq_hybrid_attn") and "hysan_" not in name
    ]
    for arch in ours:
        _, _, logged = criterion()(build(arch, **TINY), batch())
        assert logged["supervised_sentences"] == 3, arch
