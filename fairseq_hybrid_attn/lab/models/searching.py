"""Translate sentences by fairseq's beam search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import torch
from fairseq.dataclass.configs import GenerationConfig
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import nn

from ...devices import has_bfloat16
from ...errors import UserError
from ...models.transformer import PatternedTransformer
from ...tasks.gnmt import GnmtSequenceGenerator
from .sentences import Sentences, in_batches

#: auto: fp16 on a GPU, fp32 on a CPU.
PRECISIONS = ("auto", "fp32", "fp16", "bf16")

#: Subwords of a batch on a CPU; and for each GiB of a GPU's memory that is free, which translation
#: with a beam of 5 and models of usual sizes does not fill.
_ON_CPU, _FOR_A_GIB = 4000, 1000


def batch_tokens(device: str) -> int:
    """The subwords of a batch that a device takes at once."""
    if device == "cpu":
        return _ON_CPU
    free, _ = torch.cuda.mem_get_info()
    return max(_ON_CPU, _FOR_A_GIB * free // 2**30)


def prepare_for_search(model: Any, device: str, precision: str) -> Any:
    """Move a model to a device and into a precision, and make it fast in a search."""
    half = {"fp16": torch.float16, "bf16": torch.bfloat16}
    if precision == "auto":
        precision = "fp32" if device == "cpu" else "fp16"
    if device == "cpu" and precision != "fp32":
        able = precision == "bf16" and has_bfloat16() and isinstance(model, PatternedTransformer)
        if not able:
            raise UserError(
                f"--precision {precision}: on this CPU, this model has fp32 alone; bf16 needs "
                "AVX512-BF16 or AMX, and a model of this package"
            )
    elif precision != "fp32":
        model = model.to(half[precision])
    on_cpu_bf16 = SimpleNamespace(cpu=device == "cpu", bf16=precision == "bf16")
    # It still returns the attention, of which alignments are made.
    generation = SimpleNamespace(print_alignment="hard", beam=None)
    model.prepare_for_inference_(SimpleNamespace(common=on_cpu_bf16, generation=generation))
    return model.to(device)


def search(
    model: nn.Module,
    task,
    sentences: Sentences,
    settings: Mapping[str, object],
    *,
    device: str = "cpu",
    max_tokens: int = 4000,
    progress: Callable[[int], object] = lambda done: None,
) -> Iterator[list[dict]]:
    """Yield fairseq's hypotheses for each sentence, the best first; none for an empty one.

    ``settings`` are flags of fairseq-generate, without ``--``, and ``gnmt-lenpen``.
    """
    settings = {name.replace("-", "_"): value for name, value in settings.items()}
    alpha = settings.pop("gnmt_lenpen", None)
    try:
        generation = OmegaConf.merge(OmegaConf.structured(GenerationConfig), settings)
    except OmegaConfBaseException as error:
        raise UserError(f"settings of the search: {str(error).splitlines()[0]}") from error
    of_gnmt = {}
    if alpha is not None:
        extra = {"gnmt_lenpen": float(str(alpha))}
        of_gnmt = {"seq_gen_cls": GnmtSequenceGenerator, "extra_gen_cls_kwargs": extra}
    generator = task.build_generator([model], generation, **of_gnmt)
    empty = [number for number, pieces in enumerate(sentences.source) if not pieces]
    found = in_batches(
        sentences,
        lambda sample: task.inference_step(generator, [model], sample),
        max_tokens=max_tokens,
        device=device,
        skip=empty,
        progress=progress,
    )
    return (hypotheses or [] for hypotheses in found)


def pieces_of(hypothesis: dict, task) -> list[str]:
    """The subwords of a hypothesis, without the end symbol."""
    return [task.target_dictionary[number] for number in hypothesis["tokens"][:-1].tolist()]
