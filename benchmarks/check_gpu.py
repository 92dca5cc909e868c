"""How fast it is on a GPU: steps, translation and memory, beside fairseq's stock transformer.

``scripts/check_gpu.sh`` runs this behind ``tests/gpu``.  Parts come in the order of their weight,
and each is written as soon as it is done: a check that is ended early has all before it.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial, partialmethod
from pathlib import Path

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_hybrid_attn.lab.files.writing import atomic_write
from fairseq_hybrid_attn.lab.models.searching import batch_tokens, prepare_for_search, search
from fairseq_hybrid_attn.lab.models.sentences import Sentences

from . import others, tables
from .common import CHOSEN, VANILLA, Settings, compare, heading
from .systems import TrainingStep, batch, build, dictionary, training_step

#: fairseq's own default in its examples, and that of our runs.
GENERATE_TOKENS = 12_000
#: Up to the length of the source, as untrained models never end a sentence.
SEARCH = {"beam": 4, "max_len_a": 1.0, "max_len_b": 0}
OURS = {"mma": "MMA", "hybrid-gate": "hybrid gate", "hysan-e1": "HySAN e1"}
AGAIN = "stock again"


@dataclass(frozen=True)
class Size:
    """What is timed.

    Attributes:
        settings: of the models.
        batches: sentences in a batch, by their length: about 4,000 tokens.
        lines: to translate.
    """

    settings: Settings
    batches: dict[int, int]
    lines: int


CUDA = Size(
    Settings(device="cuda", dtype="fp16", clock="wall", rounds=5, shortest=0.2),
    {30: 136, 120: 34, 500: 8},
    2000,
)
CPU = Size(
    Settings(
        dtype="fp16", clock="wall", rounds=2, shortest=0.01,
        vocabulary=50, width=32, ffn=32, layers=2,
    ),
    {8: 4, 12: 3},
    6,
)  # fmt: skip


@dataclass
class Check:
    """The check as far as it has got."""

    size: Size
    words: Dictionary
    document: dict

    def tried(self, name: str, call: Callable[[], object]) -> object | None:
        """The call's result; if it fails, None and a fault, and the others go on."""
        try:
            return call()
        except Exception as error:  # a driver or a compiler may raise anything
            self.document["faults"].append(f"{name}: {type(error).__name__}: {error}"[:500])
            return None

    @cached_property
    def stock(self) -> TrainingStep:
        """What all steps are compared with."""
        return training_step("global-heads", VANILLA, self.words, self.size.settings)


def main() -> None:
    """Check, and print what was written."""
    parser = argparse.ArgumentParser(prog="scripts/check_gpu.sh", add_help=False)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--output", type=Path, default=Path())
    arguments = parser.parse_args()
    if not arguments.cpu and not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device here; --cpu tries the check itself without one")
    if not arguments.output.is_dir():
        raise SystemExit(f"--output {arguments.output}: there is no such folder")
    logging.disable(logging.INFO)
    if arguments.cpu:  # whose own compiler takes minutes
        torch.nn.Module.compile = partialmethod(torch.nn.Module.compile, backend="eager")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for document in check(CPU if arguments.cpu else CUDA):
        text = tables.markdown(document)
        for ending, content in (("json", json.dumps(document, indent=1) + "\n"), ("md", text)):
            with atomic_write(arguments.output / f"gpu-check.{ending}") as file:
                file.write(content.encode())
    print(text, end="")
    if document["faults"]:
        raise SystemExit("Something failed; see above.")


def check(size: Size) -> Iterator[dict]:
    """Yield what was found after each part."""
    begin, load = time.monotonic(), round(os.getloadavg()[0], 2)
    lists = {"results": [], "faults": [], "left_out": list(PARTS)}
    now = Check(size, dictionary(size.settings), {**heading(size.settings), **lists})
    for name, part in PARTS.items():
        print(f"{time.monotonic() - begin:4.0f} s  {name}", file=sys.stderr, flush=True)
        now.tried(name, lambda part=part: now.document["results"].extend(part(now)))
        now.document["left_out"].remove(name)
        now.document["seconds"] = round(time.monotonic() - begin, 1)
        now.document["load_average"] = [load, round(os.getloadavg()[0], 2)]
        yield now.document


def steps(makers: dict[str, Callable[[Check], TrainingStep]], now: Check) -> Iterator[dict]:
    """Time steps beside stock's at all lengths."""
    torch.compiler.reset()  # after some models, torch would compile no more of the same class
    made = {name: now.tried(name, lambda make=make: make(now)) for name, make in makers.items()}
    for length, number in now.size.batches.items():
        settings = replace(now.size.settings, length=length, sentences=number)
        sample = batch(now.words, settings)
        calls = {VANILLA: now.stock}
        for name, step in made.items():
            if step is None:
                continue
            step.sample = sample
            # Twice: what a compiler makes of a first step, it may make anew for a second.
            told = f"{name}, {length} tokens"
            if now.tried(told, lambda step=step: (step(), step())):
                calls[name] = step
        now.stock.sample = sample
        yield from _compared("training step", f"{length} tokens", calls, settings)


def ours(system: str, dtype: str | None = None, **flags: object) -> Callable[[Check], TrainingStep]:
    """What makes a step of a system of ours."""

    def make(now: Check) -> TrainingStep:
        settings = replace(now.size.settings, dtype=dtype or now.size.settings.dtype)
        return training_step(system, CHOSEN, now.words, settings, **flags)

    return make


def layers_compiled(now: Check) -> TrainingStep:
    """Stock fairseq, its layers compiled as ours are."""
    step = training_step("global-heads", VANILLA, now.words, now.size.settings)
    for layer in (*step.model.encoder.layers, *step.model.decoder.layers):
        layer.compile(dynamic=True)
    return step


def torch_compiled(now: Check) -> TrainingStep:
    """torch's transformer, compiled."""
    step = others.toolkit(others.torch_transformer, now.words, now.size.settings)
    step.model.compile(dynamic=True)
    return step


def products(now: Check) -> Iterator[dict]:
    """Time the products of matrices of a stock step alone, without those within attention."""
    for length, number in now.size.batches.items():
        settings = replace(now.size.settings, length=length, sentences=number)
        now.stock.sample = batch(now.words, settings)
        calls = {VANILLA: now.stock, "its products of matrices alone": _products(now.stock)}
        yield from _compared("training step", f"{length} tokens", calls, settings)


def _compared(
    measure: str, column: str, calls: dict[str, Callable[[], object]], settings: Settings
) -> Iterator[dict]:
    """Yield time and peak memory of all calls but the first, over those of the first."""
    peaks = {name: _peak(call, settings.device) for name, call in calls.items()}
    _, results = compare(calls, settings)
    for name in list(calls)[1:]:
        found = results[name]
        yield {
            "benchmark": "gpu",
            "measure": measure,
            "case": name,
            "candidate": column,
            "ms": round(found["ratio"]["median"] * found["vanilla_ms"], 3),
            **found,
            "megabytes": peaks[name],
            "vanilla_megabytes": peaks[VANILLA],
        }


def _peak(call: Callable[[], object], device: str) -> float:
    """The most memory that a call takes above what it finds, in megabytes; on a CPU 0."""
    if device == "cpu":
        call()
        return 0.0
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return round((torch.cuda.max_memory_allocated() - before) / 2**20, 1)


class _Recorded(TorchDispatchMode):
    """Notes the products of matrices: the operation, and its operands' sizes and strides."""

    aten = torch.ops.aten
    PRODUCTS = {aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default}

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        if operation in self.PRODUCTS:
            self.found.append((operation, [(x.size(), x.stride(), x.dtype) for x in args[:3]]))
        return operation(*args, **(kwargs or {}))


def _products(step: TrainingStep) -> Callable[[], object]:
    """The products of a stock step, forward and backward, without those within attention."""
    with _Recorded() as recorded:
        step()
    device, made = step.sample["target"].device, {}

    def operand(size, stride, dtype):
        if (size, stride, dtype) not in made:
            empty = torch.empty_strided(size, stride, dtype=dtype, device=device)
            made[size, stride, dtype] = empty.normal_(std=0.1)
        return made[size, stride, dtype]

    calls = [(op, [operand(*each) for each in operands]) for op, operands in recorded.found]
    return lambda: [op(*operands) for op, operands in calls][-1]


def translation(now: Check) -> Iterator[dict]:
    """Time the translation of lines by fairseq-generate's batches, and as ``translate`` does."""
    settings, task = now.size.settings, _task(now.words)
    sentences = Sentences.of_text(task, _lines(now.words, now.size.lines))

    def by(way: Callable, system: str, stock: bool = False) -> Callable[[], object]:
        single = replace(settings, dtype="fp32")
        model = build(system, now.words, single, stock=stock).eval()
        precision = "fp32" if settings.device == "cpu" else settings.dtype
        return partial(way, task, prepare_for_search(model, settings.device, precision), sentences)

    calls = {VANILLA: by(_generate, "mma", stock=True), AGAIN: by(_generate, "mma", stock=True)}
    for way, title in ((_generate, "fairseq-generate"), (_translate, "translate")):
        calls |= {f"{name}, by {title}": by(way, system) for system, name in OURS.items()}
    few = replace(settings, rounds=2)
    yield from _compared("translation", f"{now.size.lines:,} lines", calls, few)


def _generate(task, model, sentences: Sentences) -> None:
    """As fairseq-generate: its batches, its search."""
    cfg = OmegaConf.merge(OmegaConf.structured(GenerationConfig), SEARCH)
    generator = task.build_generator([model], cfg)
    data = sentences.dataset
    batches = task.get_batch_iterator(data, GENERATE_TOKENS, required_batch_size_multiple=8)
    on_cpu = next(model.parameters()).device.type == "cpu"
    for sample in batches.next_epoch_itr(shuffle=False):
        sample = sample if on_cpu else utils.move_to_cuda(sample)
        for hypotheses in task.inference_step(generator, [model], sample):
            hypotheses[0]["tokens"].cpu()


def _translate(task, model, sentences: Sentences) -> None:
    """As ``translate``: our batches, fairseq's search."""
    device = next(model.parameters()).device.type
    found = search(model, task, sentences, SEARCH, device=device, max_tokens=batch_tokens(device))
    for hypotheses in found:
        hypotheses[0]["tokens"].cpu()


def _task(words: Dictionary) -> TranslationTask:
    cfg = OmegaConf.structured(TranslationConfig(source_lang="a", target_lang="b"))
    return TranslationTask(cfg, words, words)


def _lines(words: Dictionary, number: int) -> list[str]:
    """Random words, of 5 to 60 a line as in text: half have 20 or fewer."""
    generator = torch.Generator().manual_seed(3)
    lengths = torch.randn(number, generator=generator).mul(0.6).exp().mul(20).clamp(5, 60).int()
    return [
        " ".join(
            words[int(token)]
            for token in torch.randint(words.nspecial, len(words), (int(n),), generator=generator)
        )
        for n in lengths
    ]


#: The most important first.
PARTS: dict[str, Callable[[Check], Iterator[dict]]] = {
    "steps": partial(
        steps, {AGAIN: lambda now: now.stock} | {OURS[system]: ours(system) for system in OURS}
    )
}
for system, title in OURS.items():
    compiled = f"{title}, --compile"
    PARTS[compiled] = partial(steps, {compiled: ours(system, compile=True)})
PARTS |= {
    "translation": translation,
    "products": products,
    "stock compiled": partial(steps, {"stock fairseq, layers compiled": layers_compiled}),
    "bfloat16": partial(steps, {"MMA, bf16": ours("mma", "bf16")}),
    "bfloat16 compiled": partial(
        steps, {"MMA, bf16, --compile": ours("mma", "bf16", compile=True)}
    ),
    "torch compiled": partial(steps, {"torch.nn.Transformer, compiled": torch_compiled}),
}

if __name__ == "__main__":
    main()
