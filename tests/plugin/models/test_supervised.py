"""Supervised attention (Ma & Zhao 2020, Eq. 13): the loss, its gradient, and what it teaches."""

import math
import re
import shutil
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from cli import USER_DIR, generate, run, train
from every_model import MODELS, legacy
from fairseq.data import LanguagePairDataset, ListDataset, indexed_dataset
from fairseq.logging import metrics
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from models import EOS, PAD, assert_all_close, build_stock, build_tiny, dictionary, gradients
from omegaconf import OmegaConf

from fairseq_hybrid_attn.criterions.alignment_data import check_alignments
from fairseq_hybrid_attn.criterions.supervised_attention import (
    SupervisedAttention,
    gold_attention,
    recorded_head,
)
from fairseq_hybrid_attn.errors import UserError

SOURCES = [[5, 6, 7, 8, 9], [10], [9, 4], [12, 4, 4, 4, 5]]
TARGETS = [[7, 6, 5], [11], [4, 9, 8, 7], [5, 4]]
LINKS = [[(0, 2), (1, 1), (2, 0), (3, 0)], [(0, 0)], [], [(4, 0)]]


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


def criterion(**settings):
    task = SimpleNamespace(target_dictionary=dictionary(12), load_dataset=None)
    return SupervisedAttention(task, sentence_avg=False, label_smoothing=0.1, **settings)


def lstm(**settings):
    """fairseq's own LSTM, two layers."""
    return legacy(**MODELS["lstm-bidirectional"][1], dropout=0.0, **settings)


OTHERS = {"stock": build_stock, "lstm": lstm}
TRANSFORMERS = "stock mma hysan-gated gate-hidden local-s future-only lstm-on-top".split()


def model_of(name, **settings):
    return OTHERS[name](**settings) if name in OTHERS else build_tiny(name, **settings)


def attention_of(model, sample, *which):
    """The weights of a head for a batch, by default of the last."""
    with recorded_head(model, *which) as attention:
        model(**sample["net_input"])
    return attention(sample["net_input"]["src_tokens"].ne(PAD))


def gold(sample, variance):
    src = sample["net_input"]["src_tokens"]
    return gold_attention(sample["alignments"], src, sample["target"], PAD, variance)


def gold_by_hand(source, target, links, variance=0.5):
    """A* of one sentence: a Gaussian around each link, and nothing for the end symbols."""
    table = torch.zeros(len(target) + 1, len(source) + 1)
    for t, s in product(range(len(target)), range(len(source))):
        squares = [(s - linked) ** 2 for linked, word in set(links) if word == t]
        table[t, s] = sum(math.exp(-square / 2 / max(variance, 1e-30)) for square in squares)
    return table / table.sum(dim=1, keepdim=True).clamp(min=1e-9)


def test_gold_attention_is_gaussians_along_the_source_in_any_batch():
    """The second batch has targets of one word, so another row's alignment would show; the third
    has several links of a word, one of them twice."""
    for data in (
        (SOURCES, TARGETS, LINKS),
        ([[5, 6, 7, 8], [9, 10], [4, 5]], [[7], [4], [6]], [[(0, 0)], [(0, 0)], [(1, 0)]]),
        ([[4] * 5], [[4] * 4], [[(2, 0), (0, 1), (1, 2), (3, 2), (3, 2)]]),
    ):
        both = (False, True)
        for left_source, left_target, variance in product(both, both, (0.0, 1e-30, 0.5, 9.0)):
            sample = batch(*data, left_pad_source=left_source, left_pad_target=left_target)
            found = gold(sample, variance)
            for row, number in enumerate(sample["id"].tolist()):
                source, target, links = (side[number] for side in data)
                first = found.size(1) - len(target) - 1 if left_target else 0
                expected = torch.zeros_like(found[row])
                expected[first : first + len(target) + 1, : len(source) + 1] = gold_by_hand(
                    source, target, links, variance
                )
                torch.testing.assert_close(found[row], expected)


def test_distances_are_equation_13_alone_and_in_any_batch():
    for name in (*TRANSFORMERS, "lstm"):
        model, alone = model_of(name), []
        for data in zip(SOURCES, TARGETS, LINKS, strict=True):
            sample = batch(*([part] for part in data))
            (weights,) = attention_of(model, sample)
            torch.testing.assert_close(weights.sum(1), torch.ones(len(data[1]) + 1))
            wanted = gold_by_hand(*data)
            squares = (wanted - weights.detach()).double() ** 2
            alone.append(math.sqrt(squares[wanted.sum(1) > 0].sum()))
        assert alone[2] == 0 and min(alone[0], alone[1], alone[3]) > 0.1, name
        for left in (True, False):
            sample = batch(left_pad_source=left)
            distances, supervised = criterion().distances(sample, attention_of(model, sample))
            order = sample["id"].tolist()
            assert distances.tolist() == pytest.approx([alone[i] for i in order], abs=1e-5), name
            assert supervised.tolist() == [number != 2 for number in order], name


def test_a_head_is_that_head():
    """Before dropout of attention weights."""
    sample = batch([SOURCES[0]], [TARGETS[0]], [LINKS[0]])
    for name in TRANSFORMERS:
        model, given = model_of(name, attention_dropout=0.5), {}
        layers = model.decoder.layers
        for layer in layers:
            layer.encoder_attn.register_forward_pre_hook(
                lambda attention, _, settings, to=given: to.update({attention: settings}),
                with_kwargs=True,
            )
        for which, layer, head in (((), -1, 3), ((1, 2), 0, 1), ((-2, -4), -2, 0)):
            found = attention_of(model.train(), sample, *which)
            attention = layers[layer].encoder_attn.eval()
            _, expected = attention(**{**given[attention], "need_head_weights": True})
            torch.testing.assert_close(found, expected[head], msg=f"{name} {which}")
        assert not any(layer._forward_hooks for layer in layers)  # they are gone


def test_the_loss_is_fairseq_s_plus_the_weighted_sum_of_distances():
    """Without alignments, it is the translation loss alone."""
    model, sample = build_stock(), batch()
    plain, size, logged = criterion(supervision_weight=0.0)(model, sample)
    distances = logged["attention_loss"]
    assert logged["supervised_sentences"] == 3 and distances > 0.3
    assert distances == criterion().distances(sample, attention_of(model, sample))[0].sum()
    assert "total" not in logged  # no accuracy unless requested
    for weight in (1.0, 2.5):
        weighted = criterion(supervision_weight=weight, report_accuracy=True)
        loss, same_size, logged = weighted(model, sample)
        torch.testing.assert_close(loss, plain + weight * distances)
        assert logged["loss"] == loss and same_size == size == sample["ntokens"]
        assert logged["total"] == sample["ntokens"]
    for sample in (batch(links=None), batch(links=[[], [], [], []])):
        assert "alignments" not in sample
        loss, _, logged = criterion()(model, sample)
        assert loss == criterion(supervision_weight=0.0)(model, sample)[0]
        assert logged["attention_loss"] == 0 and logged["supervised_sentences"] == 0


def test_logs_are_summed_over_processes_and_batches():
    loss, model = criterion(), build_stock()
    assert loss.logging_outputs_can_be_summed()
    samples = (batch(), batch(links=None), batch(SOURCES[::-1], TARGETS[::-1], LINKS[::-1]))
    logs = [loss(model, sample)[2] for sample in samples]
    assert len({tuple(log) for log in logs}) == 1  # the same keys in the same order
    mean = sum(float(log["attention_loss"]) for log in logs) / 6
    for outputs in (logs, [{key: sum(log[key] for log in logs) for key in logs[0]}]):
        with metrics.aggregate() as aggregated:
            loss.reduce_metrics(outputs)
        found = aggregated.get_smoothed_values()["attention_loss"]
        assert found == pytest.approx(mean, abs=1e-3) and found > 0.1


def gradients_of_distances(model, *which):
    """By the name of the parameter; None where the loss does not reach."""
    sample = batch()
    attention = attention_of(model, sample, *which)
    criterion().distances(sample, attention)[0].sum().backward()
    return gradients(model)


ABOVE = (
    *("encoder_attn.v_proj", "encoder_attn.out_proj", "encoder_attn_layer_norm"),
    *("fc1", "fc2", "final_layer_norm"),
)


def test_gradient_reaches_only_what_lies_before_the_head():
    for name, layer in product(("stock", "hysan-gated", "lstm-on-top"), (1, 2)):
        found, here = gradients_of_distances(model_of(name), layer), f"decoder.layers.{layer - 1}"
        below = tuple(f"decoder.layers.{number}" for number in range(layer))
        before = ("encoder.", "decoder.embed_tokens", *below)
        above = tuple(f"{here}.{part}" for part in ABOVE)
        for n, gradient in found.items():
            assert (gradient is not None) == (n.startswith(before) and not n.startswith(above)), n
        # Of the head's own projections, its rows alone; the bias of keys moves no weight at all.
        for part in ("q_proj.weight", "q_proj.bias", "k_proj.weight"):
            gradient = found[f"{here}.encoder_attn.{part}"]
            assert not gradient[:-4].any() and gradient[-4:].any()
        assert found[f"{here}.encoder_attn.k_proj.bias"].abs().max() < 1e-6
        assert found["encoder.layers.0.fc1.weight"].any()


def test_gradient_of_an_lstm():
    """The attention feeds the next step, so all but the last layer's output lies before it."""
    found = gradients_of_distances(lstm())
    without = {name for name, gradient in found.items() if gradient is None}
    assert without == {
        f"decoder.{layer}.{part}"
        for layer in ("fc_out", "additional_fc")
        for part in ("weight", "bias")
    }
    for name in ("decoder.attention.input_proj.weight", "encoder.lstm.weight_ih_l0"):
        assert found[name].any()


def test_activation_checkpointing_gives_the_same_gradients():
    """There, a module within a layer runs without a gradient at first."""
    for name in ("stock", "mma", "lstm-on-top"):
        found = []
        for checkpoint in (False, True):
            model = model_of(name, checkpoint_activations=checkpoint, dropout=0.1).train()
            torch.manual_seed(1)
            criterion(supervision_weight=10.0)(model, batch())[0].backward()
            found.append(gradients(model))
        assert_all_close(*found)


def test_gradient_is_finite_where_attention_is_the_alignment():
    """One source word, and its end symbol out of reach: the distance is 0."""
    attention = torch.tensor([[[1.0, 0.0], [0.5, 0.5]]], requires_grad=True)
    distances, _ = criterion().distances(batch([[4]], [[4]], [[(0, 0)]]), attention)
    distances.sum().backward()
    assert distances.tolist() == [0] and attention.grad.tolist() == [[[0, 0], [0, 0]]]


def test_half_precision():
    for dtype in (torch.float16, torch.bfloat16):
        loss, _, _ = criterion()(build_stock().to(dtype), batch())
        loss.backward()
        assert loss.isfinite()
        attention = attention_of(lstm().to(dtype), batch()).to(dtype)
        assert criterion().distances(batch(), attention)[0].dtype == torch.float32


def test_layerdrop():
    """A batch without the head's layer has its translation loss alone."""
    model = build_stock(decoder_layerdrop=0.6).train()
    torch.manual_seed(3)
    seen = {int(criterion()(model, batch())[2]["supervised_sentences"]) for _ in range(20)}
    assert seen == {0, 3}


def test_wrong_settings_and_missing_heads_are_refused():
    stock, one_head = build_stock(), lstm()
    self_attention = build_stock(no_cross_attention=True, cross_self_attention=True)
    for model, settings, said in (
        (stock, {"supervision_weight": -1.0}, "--supervision-weight -1.0"),
        (stock, {"gold_variance": math.inf}, "--gold-variance inf"),
        (stock, {"supervised_layer": 3}, "--supervised-layer 3: this model has 2"),
        (stock, {"supervised_head": -5}, "--supervised-head -5: this model has 4"),
        (one_head, {"supervised_layer": 2}, "--supervised-layer 2: this model has 1"),
        (lstm(decoder_attention="0"), {}, "LSTMModel has no cross-attention"),
        (self_attention, {}, "no cross-attention"),
    ):
        with pytest.raises(UserError, match=said):
            criterion(**settings)(model, batch())


def test_alignments_that_do_not_fit_are_refused(monkeypatch):
    """By their numbers of lines, or by line and link."""

    def refusal(links, sources=SOURCES, targets=TARGETS):
        with pytest.raises(UserError) as error:
            check_alignments(dataset(sources, targets, links), "train")
        return str(error.value)

    for together in (2, 10_000):
        monkeypatch.setattr("fairseq_hybrid_attn.criterions.alignment_data._TOGETHER", together)
        check_alignments(dataset(SOURCES, TARGETS, LINKS), "train")
        for links in (LINKS[:3], [*LINKS, []]):
            assert re.search(f"^train: {len(links)} lines .* 4 sentence", refusal(links))
        wrong = refusal([LINKS[0], [(1, 0)], [(0, 4), (0, 3)], [(0, -1)]])
        told = [line.partition(",")[0] for line in wrong.split("\n  ")[1:]]
        assert told == ["line 2: 1-0", "line 3: 0-4", "line 4: 0--1"]  # the first to the end symbol
        assert "the alignments have no links" in refusal([[]] * 4)


SYMBOLS = 8


def pairs(size, generator):
    """Sequences, their reversal, and the links."""
    lengths = torch.randint(3, 8, (size,), generator=generator).tolist()
    sources = [torch.randint(4, 4 + SYMBOLS, (n,), generator=generator).tolist() for n in lengths]
    links = [[(i, n - 1 - i) for i in range(n)] for n in lengths]
    return sources, [source[::-1] for source in sources], links


def learned(model, weight):
    """Train; return the alignment error rate of the last head on other sentences, and the share
    of its attention on gold links."""
    generator, loss = torch.Generator().manual_seed(5), criterion(supervision_weight=weight)
    optimizer = torch.optim.Adam(model.train().parameters(), lr=5e-3)
    for _ in range(120):
        value, size, _ = loss(model, batch(*pairs(32, generator)))
        optimizer.zero_grad()
        (value / size).backward()
        optimizer.step()
    sample = batch(*pairs(100, generator))
    with torch.no_grad():
        attention = attention_of(model.eval(), sample)
    links = gold(sample, 0.0)
    hits = links.gather(2, attention.argmax(2, keepdim=True)).sum()
    # As many links as there are target words on both sides: AER = 1 - 2 hits / (2 words).
    return float(1 - hits / links.sum()), float((links * attention).sum() / links.sum())


def test_the_supervised_loss_lowers_the_alignment_error_on_held_out_sentences():
    before, after = (learned(build_stock(), weight) for weight in (0.0, 1.0))
    assert after[0] < before[0] - 0.3 and after[0] < 0.5
    assert after[1] > before[1] + 0.2


SKIP = "--skip-invalid-size-inputs-valid-test"
CRITERION = "label_smoothed_cross_entropy_with_supervised_attention"
FLAGS = ("--criterion", CRITERION, "--load-alignments", SKIP)


@pytest.mark.slow
def test_train_validate_and_generate(corpus, tmp_path):
    done = train(corpus, "model", "transformer_mma", *FLAGS, "--max-update", 4, cwd=tmp_path)
    assert "attention_loss" in done.stdout + done.stderr
    common = ["--user-dir", USER_DIR, "--cpu", "--max-tokens", 400, SKIP]
    path = ["--path", tmp_path / "model" / "checkpoint_last.pt", "--task", "translation"]
    done = run("fairseq-validate", corpus, *common, *path, cwd=tmp_path)
    assert "attention_loss" in done.stdout + done.stderr
    generate(corpus, path[1], SKIP, "--beam", 2, cwd=tmp_path)  # needs no alignments


def load(data, load_alignments=True, **settings):
    settings = {"train_subset": "train", "required_seq_len_multiple": 1, **settings}
    settings |= {"data": str(data), "load_alignments": load_alignments, "dataset_impl": "mmap"}
    task = TranslationTask.setup_task(OmegaConf.structured(TranslationConfig(**settings)))
    SupervisedAttention(task, sentence_avg=False, label_smoothing=0.1)
    for split in ("test", "valid", "train"):
        task.load_dataset(split, epoch=1, combine=False)


def test_the_task_checks_what_it_loads(corpus, tmp_path):
    load(corpus)
    for settings, said in (
        ({"load_alignments": False}, "--load-alignments"),
        ({"load_alignments": False, "train_subset": "valid"}, "^valid has no alignments"),
        ({"truncate_source": True}, "cannot be used with supervised attention"),
        ({"num_batch_buckets": 2}, "cannot be used with supervised attention"),
    ):
        with pytest.raises(UserError, match=said):
            load(corpus, **settings)
    data = shutil.copytree(corpus, tmp_path / "short")
    prefix = f"{data}/train.align.de-en"
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=None)
    for _ in range(199):
        builder.add_item(torch.zeros(2, dtype=torch.int32))
    builder.finalize(f"{prefix}.idx")
    with pytest.raises(UserError, match="199 lines of alignments, but 200 sentence pairs"):
        load(data)
