"""The attention operator alone: branches over the same q, k, v as one vanilla attention.

Vanilla is ``F.scaled_dot_product_attention`` on the same tensors: without a mask, and causal for
the branch sets of a decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_hybrid_attn.attention.paths import PATHS, choose
from fairseq_hybrid_attn.attention.problem import AttentionProblem, Branch
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past

from .common import CHOSEN, NULL, VANILLA, Settings, compare
from .memory import peaks

HEADS, HEAD_WIDTH = 4, 64  # heads: a multiple of MMA's patterns

#: The reference is not timed on longer sentences, unless it is the only path: it takes minutes
#: and gigabytes.
LONGEST_REFERENCE = 1024


@dataclass(frozen=True)
class Case:
    """
    Attributes:
        title: for the printed tables.
        branches: what is computed.
        mix: the branches' shares, if known beforehand: ``ones`` or ``gate``.
        causal: whether vanilla is causal.
        step: one query and n keys, as in a step of a beam search; forward only.
    """

    title: str
    branches: tuple[Branch, ...]
    mix: str | None = None
    causal: bool = False
    step: bool = False


HYSAN4 = ((GLOBAL,), (PAST,), (FUTURE,), (local(1),))
E1 = ((GLOBAL,), (PAST,), (FUTURE,), (local(5),))
DECODER = ((PAST,), (local_past(5),))
MMA = ((GLOBAL, local(1), FUTURE, PAST),)

CASES = {
    "hysan4": Case("{global, fw, bw, local 1}", HYSAN4),
    "hysan4-sum": Case("the same, summed", HYSAN4, mix="ones"),
    "e1": Case("{global, fw, bw, local 5}", E1),
    "decoder": Case("decoder {fw, local 5}", DECODER, causal=True),
    "mma": Case("MMA: heads global, local 1, forward, backward", MMA),
    "hybrid-gate": Case(
        "hybrid gate {global, local 1}, mixed", ((GLOBAL,), (local(1),)), mix="gate"
    ),
    "decoder-step": Case("decoder step {fw, local 5}: 1 query", DECODER, step=True),
}


def run(settings: Settings) -> Iterator[dict]:
    """Measure every case at every length; yield a result for each candidate, see README.md."""
    for name in filter(settings.wants, CASES):
        for n in settings.lengths:
            yield from _timed(name, "forward", n, settings)
            if not CASES[name].step:
                yield from _timed(name, "forward + backward", n, settings)
                if settings.memory:
                    yield from _memory(name, n, settings)


def problem(case: Case, n: int, settings: Settings, *, gradients: bool) -> AttentionProblem:
    """Make random q (scaled already), k, v of about ``settings.tokens`` positions.

    A step of a beam search has as many queries as ``settings.sentences`` and a beam of 4 make.
    """
    torch.manual_seed(n)
    b = 4 * settings.sentences if case.step else max(1, settings.tokens // n)
    q, k, v = (
        torch.randn(b, HEADS, length, HEAD_WIDTH, **settings.like)
        for length in (1 if case.step else n, n, n)
    )
    q *= HEAD_WIDTH**-0.5
    mix = None
    if case.mix == "ones":
        mix = torch.ones(len(case.branches), 1, 1, 1, 1, **settings.like)
    elif case.mix == "gate":
        gate = torch.rand(b, 1, n, 1, **settings.like)
        mix = torch.stack([1 - gate, gate])
    if gradients:
        for tensor in (q, k, v, mix if case.mix == "gate" else None):
            if tensor is not None:
                tensor.requires_grad_()
    return AttentionProblem(q=q, k=k, v=v, branches=case.branches, mix=mix)


def call_of(
    case: Case, path: str, given: AttentionProblem, *, gradients: bool
) -> Callable[[], object]:
    """Return a function that computes ``given``, by a path or by vanilla attention."""
    vanilla = path in (VANILLA, NULL)
    compute = None if vanilla else PATHS[choose(given) if path == CHOSEN else path].compute

    def forward() -> Tensor:
        if compute is not None:
            return compute(given).outputs
        q, k, v = given.q, given.k, given.v
        return F.scaled_dot_product_attention(q, k, v, is_causal=case.causal, scale=1.0)

    if not gradients:
        return forward
    outputs = () if vanilla else (1 if given.mix is not None else len(given.branches),)
    upstream = torch.randn(*outputs, *given.q.shape, dtype=given.q.dtype, device=given.q.device)
    leaves = [x for x in (given.q, given.k, given.v, given.mix) if x is not None]

    def forward_and_backward() -> None:
        forward().backward(upstream)
        for leaf in leaves:
            leaf.grad = None

    return forward_and_backward


def training_call(name: str, path: str, settings: Settings, n: int) -> Callable[[], object]:
    """Make a case's problem; return the function that computes it forward and backward."""
    given = problem(CASES[name], n, settings, gradients=True)
    return call_of(CASES[name], path, given, gradients=True)


def _timed(name: str, measure: str, n: int, settings: Settings) -> Iterator[dict]:
    case, gradients = CASES[name], measure != "forward"
    given = problem(case, n, settings, gradients=gradients)
    paths = _paths(given, n, settings)
    calls = {path: call_of(case, path, given, gradients=gradients) for path in (VANILLA, *paths)}
    with torch.set_grad_enabled(gradients):
        _, results = compare(calls, settings)
    for path, taken in paths.items():
        yield {**_about(name, measure, given, path, taken), **results[path]}


def _memory(name: str, n: int, settings: Settings) -> Iterator[dict]:
    """Peak memory of forward + backward."""
    given = problem(CASES[name], n, settings, gradients=True)
    paths = _paths(given, n, settings)
    alone = replace(settings, cases=None)
    makers = {path: partial(training_call, name, path, alone) for path in (VANILLA, *paths)}
    results = peaks(makers, n, alone)
    for path, taken in paths.items():
        yield {**_about(name, "peak memory", given, path, taken), **results[path]}


def _paths(given: AttentionProblem, n: int, settings: Settings) -> dict[str, list[str]]:
    """Return the candidates beside vanilla, each with the path that it takes."""
    found: dict[str, list[str]] = {NULL: []}
    for path in settings.paths:
        if path == CHOSEN:
            found[path] = [choose(given)]
        elif path == "reference" and n > LONGEST_REFERENCE and settings.paths != ("reference",):
            continue
        elif PATHS[path].able(given):
            found[path] = [path]
    return found


def _about(
    name: str, measure: str, given: AttentionProblem, candidate: str, paths: list[str]
) -> dict:
    b, h, n, d_k = given.q.shape
    return {
        "benchmark": "operator",
        "case": name,
        "measure": measure,
        "sentences": b,
        "heads": h,
        "queries": n,
        "keys": given.k.size(2),
        "head_width": d_k,
        "candidate": candidate,
        "paths": paths,
    }
