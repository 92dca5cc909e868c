"""Whole systems against fairseq's stock transformer of the same size: training and translating."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import MODEL_DATACLASS_REGISTRY, build_model
from fairseq.models.transformer import TransformerModelBase
from fairseq.optim import FairseqOptimizer, build_optimizer
from fairseq.optim.adam import FairseqAdamConfig
from fairseq.optim.fp16_optimizer import FP16Optimizer
from fairseq.sequence_generator import SequenceGenerator
from omegaconf import OmegaConf

import fairseq_hybrid_attn.models  # noqa: F401  (registers the architectures)
from fairseq_hybrid_attn.criterions.cross_entropy import FusedLabelSmoothedCrossEntropy
from fairseq_hybrid_attn.models.config import nested_config

from .common import NULL, VANILLA, VANILLA_BF16, Settings, compare, computed_by
from .memory import peaks

#: From a system's name to its title in tables, its architecture and settings.
SYSTEMS = {
    "hysan-e1": ("HySAN e1, gated sum", "transformer_hysan", {}),
    "hysan-e1-sum": ("HySAN e1, sum", "transformer_hysan", {"branch_fusion": "sum"}),
    "hysan-e1-concat": ("HySAN e1, concat", "transformer_hysan", {"branch_fusion": "concat"}),
    "mma": ("MMA", "transformer_mma", {}),
    "global-heads": ("global heads alone", "transformer_mma", {"head_patterns": "global"}),
    "hybrid-gate": ("hybrid gate", "transformer_hybrid_gate", {}),
    "hybrid-gate-dropout": (
        "hybrid gate, attention dropout 0.1",
        "transformer_hybrid_gate",
        {"attention_dropout": 0.1, "activation_dropout": 0.1},
    ),
    "hybrid-gate-query": (
        "hybrid gate, from the queries",
        "transformer_hybrid_gate",
        {"gate_input": "query"},
    ),
    "localness": ("LOCAL S", "transformer_localness", {}),
    "forward-mask": ("forward encoding mask", "transformer_forward_encoding_mask", {}),
}

BEAM = 4

#: Lengths of source and hypotheses of the generation, unless others are asked for.
GENERATION_LENGTHS = (25, 100)


def run_training(settings: Settings) -> Iterator[dict]:
    """Time a training step of every system and measure its memory; yield results."""
    for result, _, _ in _timed("step", "training step", training_step, settings):
        yield result
    if settings.memory:
        for system in filter(settings.wants, SYSTEMS):
            yield from _memory(system, settings)


def run_generation(settings: Settings, lengths=GENERATION_LENGTHS) -> Iterator[dict]:
    """Time the beam search of every system at every length; yield results.

    The models are untrained, and every hypothesis has the same length, so that all systems take
    the same number of steps.
    """
    for length in lengths:
        at_length = replace(settings, length=length)
        for result, ours, theirs in _timed("generation", "generation", _translate, at_length):
            speeds = {"sentences_a_second": ours, "vanilla_sentences_a_second": theirs}
            yield result | {
                name: round(settings.sentences / statistics.median(seconds), 3)
                for name, seconds in speeds.items()
            }


def _timed(
    benchmark: str, measure: str, make: Callable[..., Callable], settings: Settings
) -> Iterator[tuple[dict, list[float], list[float]]]:
    """Time every wanted system in every way, in separate rounds.

    ``make`` takes a system, a way (``VANILLA``: stock), a dictionary and settings.

    Yields:
        a result, the seconds of its rounds, and those of vanilla.
    """
    words = dictionary(settings)
    for system in filter(settings.wants, SYSTEMS):
        calls = {name: make(system, VANILLA, words, settings) for name in (VANILLA, NULL)}
        if benchmark == "step" and settings.dtype == "bf16":
            calls[VANILLA_BF16] = make(system, VANILLA_BF16, words, settings)
        calls |= {way: make(system, way, words, settings) for way in settings.ways}
        seconds, results = compare(calls, settings)
        for candidate in list(calls)[1:]:
            result = {
                "benchmark": benchmark,
                "case": system,
                "measure": measure,
                "sentences": settings.sentences,
                "queries": settings.length,
                "candidate": candidate,
                **results[candidate],
            }
            yield result, seconds[candidate], seconds[VANILLA]


def training_step(
    system: str, way: str, words: Dictionary, settings: Settings, **flags: object
) -> TrainingStep:
    """A step of a system, or of stock fairseq; ours have the fused loss.

    float16 is ``--fp16``.  bfloat16 is ``--autocast-bf16``, and vanilla stays in single precision.
    ``flags`` are settings of the system.
    """
    stock = way in (VANILLA, VANILLA_BF16)
    bfloat16 = settings.dtype == "bf16" and way != VANILLA
    size = replace(settings, dtype="fp32") if settings.dtype == "bf16" else settings
    model = build(system, words, size, stock=stock, **flags).train()
    task = SimpleNamespace(target_dictionary=words)
    if stock:
        criterion = LabelSmoothedCrossEntropyCriterion(task, False, 0.1)
    else:
        criterion = FusedLabelSmoothedCrossEntropy(task, False, 0.1, autocast_bf16=bfloat16)
    autocast = torch.autocast(settings.device, torch.bfloat16, enabled=bfloat16 and stock)

    def loss(sample: dict) -> torch.Tensor:
        with computed_by(way), autocast:
            summed, tokens, _ = criterion(model, sample)
        return summed / tokens

    return TrainingStep(model, loss, batch(words, settings), settings.dtype)


class TrainingStep:
    """A model's loss of a batch, its gradient, and an update by fairseq's Adam.

    ``sample``: the batch.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[[dict], torch.Tensor],
        sample: dict,
        dtype: str,
    ):
        self.model, self.loss, self.sample = model, loss, sample
        parameters = [one for one in model.parameters() if one.requires_grad]
        self.parameters = sum(one.numel() for one in parameters)
        self.optimizer = _adam(parameters, half=dtype == "fp16")

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.optimizer.backward(self.loss(self.sample))
        with suppress(OverflowError):  # which lowers the scale of the loss, and skips the update
            self.optimizer.clip_grad_norm(0.0)
            self.optimizer.step()


def _adam(parameters: list[torch.nn.Parameter], *, half: bool) -> FairseqOptimizer:
    cfg = OmegaConf.structured(FairseqConfig())
    OmegaConf.set_struct(cfg, False)
    cfg.common.fp16 = half
    # One tensor for all weights is for a GPU.
    cfg.common.fp16_no_flatten_grads = not parameters[0].is_cuda
    cfg.optimizer = OmegaConf.structured(FairseqAdamConfig(lr=[1e-4], adam_betas="(0.9, 0.98)"))
    cfg.optimizer._name = "adam"
    if half:
        return FP16Optimizer.build_optimizer(cfg, parameters)
    return build_optimizer(cfg.optimizer, parameters)


def _memory(system: str, settings: Settings) -> Iterator[dict]:
    """Peak memory of two training steps above the model: the second has Adam's moments, too."""
    own = replace(settings, cases=None)
    makers = {way: partial(_two_steps, system, way, own) for way in (VANILLA, *settings.ways)}
    if settings.dtype == "bf16":
        makers[VANILLA_BF16] = partial(_two_steps, system, VANILLA_BF16, own)
    for candidate, peak in peaks(makers, settings.length, own).items():
        if candidate != VANILLA:
            yield {
                "benchmark": "step",
                "case": system,
                "measure": "peak memory",
                "sentences": settings.sentences,
                "queries": settings.length,
                "candidate": candidate,
                **peak,
            }


def _two_steps(system: str, way: str, settings: Settings, length: int) -> Callable[[], object]:
    step = training_step(system, way, dictionary(settings), replace(settings, length=length))
    return lambda: (step(), step())


def _translate(system: str, way: str, words, settings: Settings) -> Callable[[], object]:
    """A batch through fairseq's beam search."""
    model = build(system, words, settings, stock=way == VANILLA).eval()
    model.make_generation_fast_(beamable_mm_beam_size=BEAM, need_attn=False)
    length = settings.length
    generator = SequenceGenerator([model], words, BEAM, max_len_b=length, min_len=length)
    source = sentences(words, settings, seed=1)
    lengths = source.ne(words.pad()).sum(dim=1)
    sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}

    def translate() -> object:
        with computed_by(way), torch.no_grad():
            return generator.generate([model], sample)

    return translate


def dictionary(settings: Settings) -> Dictionary:
    """Make words w0, w1, …; fairseq's special ones count as well."""
    words = Dictionary()
    for number in range(settings.vocabulary - len(words)):
        words.add_symbol(f"w{number}")
    return words


def build(
    system: str, words: Dictionary, settings: Settings, *, stock: bool = False, **flags: object
):
    """Build a system, or fairseq's own transformer of its size and dropout."""
    torch.manual_seed(0)
    size = {
        "encoder_embed_dim": settings.width,
        "encoder_ffn_embed_dim": settings.ffn,
        "encoder_layers": settings.layers,
        "decoder_layers": settings.layers,
        "encoder_attention_heads": settings.heads,
        "decoder_attention_heads": settings.heads,
        "dropout": 0.1,
        "share_all_embeddings": True,
        "max_source_positions": 1024,
        "max_target_positions": 1024,
    }
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    _, arch, own = SYSTEMS[system]
    cfg = OmegaConf.structured(MODEL_DATACLASS_REGISTRY[arch](**size, **own, **flags))
    if stock:  # our settings contain all of fairseq's
        model = TransformerModelBase.build_model(nested_config(cfg), task)
    else:
        cfg._name = arch
        model = build_model(cfg, task)
    return model.to(**settings.like)


def batch(words: Dictionary, settings: Settings) -> dict:
    """Make a batch as fairseq has it; the target is padded on the right."""
    source = sentences(words, settings, seed=1)
    lengths = source.ne(words.pad()).sum(dim=1)
    target = sentences(words, settings, seed=2).flip(1)
    previous = torch.cat([torch.full_like(target[:, :1], words.eos()), target[:, :-1]], dim=1)
    inputs = {"src_tokens": source, "src_lengths": lengths, "prev_output_tokens": previous}
    return {"net_input": inputs, "target": target, "ntokens": target.ne(words.pad()).sum()}


def sentences(words: Dictionary, settings: Settings, *, seed: int) -> torch.Tensor:
    """Make a batch as fairseq does: of similar lengths, padded on the left.

    Returns:
        ``[sentences, length]``; each ends with the end symbol, and a quarter of them are up to
        three tokens shorter than the longest.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (settings.sentences, settings.length)
    tokens = torch.randint(words.nspecial, len(words), shape, generator=generator)
    tokens[:, -1] = words.eos()
    for row in range(settings.sentences):
        tokens[row, : max(0, min(row % 16 - 12, settings.length - 1))] = words.pad()
    return tokens.to(settings.device)
