"""The attention operator alone: branches over the same q, k, v as one vanilla attention.

Vanilla is ``F.scaled_dot_product_attention`` on the same tensors, without a mask where one of
the patterns is global, and causal for the branch sets of a decoder, as their vanilla is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_hybrid_attn.attention.paths import PATHS, choose
from fairseq_hybrid_attn.attention.problem import AttentionProblem, Branch
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local, local_past

from . import memory
from .common import (
    CHOSEN,
    NULL,
    VANILLA,
    Settings,
    interleaved,
    milliseconds,
    ratio,
)

HEAD_WIDTH = 64

#: Unless it is asked for, the plain definition is not timed on longer sentences than this:
#: it takes minutes and gigabytes.
LONGEST_REFERENCE = 1024


@dataclass(frozen=True)
class Case:
    """
    Attributes:
        branches: what is computed.
        mix: the branches' shares, known beforehand: ``None``, ``ones`` or ``gate``.
        causal: whether vanilla is causal.
        step: one query and n keys, as in a step of a beam search; forward only.
    """

    branches: tuple[Branch, ...]
    mix: str | None = None
    causal: bool = False
    step: bool = False


HYSAN4 = ((GLOBAL,), (PAST,), (FUTURE,), (local(1),))
DECODER = ((PAST,), (local_past(5),))

CASES = {
    "hysan4": Case(HYSAN4),
    "hysan4-sum": Case(HYSAN4, mix="ones"),
    "e1": Case(((GLOBAL,), (PAST,), (FUTURE,), (local(5),))),
    "decoder": Case(DECODER, causal=True),
    "mma": Case(((GLOBAL, local(1), FUTURE, PAST),)),
    "hybrid-gate": Case(((GLOBAL,), (local(1),)), mix="gate"),
    "decoder-step": Case(DECODER, step=True),
}

#: What each case is, for the printed tables.
TITLES = {
    "hysan4": "{global, fw, bw, local 1}",
    "hysan4-sum": "the same, summed",
    "e1": "{global, fw, bw, local 5}",
    "decoder": "decoder {fw, local 5}",
    "mma": "MMA: heads global, local 1, forward, backward",
    "hybrid-gate": "hybrid gate {global, local 1}, mixed",
    "decoder-step": "decoder step {fw, local 5}: 1 query",
}


def run(settings: Settings) -> Iterator[dict]:
    """Measure every case at every length.

    Yields:
        a result for each candidate, see README.md.
    """
    for name, case in CASES.items():
        if not settings.wants(name):
            continue
        for n in settings.lengths:
            yield from _timed(name, case, n, settings)
            if settings.memory and not case.step:
                yield from _memory(name, case, n, settings)


def candidate_paths(case: Case, n: int, settings: Settings) -> list[str]:
    """Which of the wanted paths are timed at length ``n``."""
    wanted = [
        path
        for path in settings.paths
        if path != "reference" or n <= LONGEST_REFERENCE or settings.paths == ("reference",)
    ]
    given = problem(case, n, settings, gradients=not case.step)
    return [path for path in wanted if path == CHOSEN or PATHS[path].able(given)]


def problem(case: Case, n: int, settings: Settings, *, gradients: bool) -> AttentionProblem:
    """Random q, k, v; queries are scaled already.

    About ``settings.tokens`` positions; a step of a beam search has as many queries as
    ``settings.sentences`` and a beam of 4 make.
    """
    torch.manual_seed(n)
    b = 4 * settings.sentences if case.step else max(1, settings.tokens // n)
    like = {"device": settings.device, "dtype": settings.torch_dtype}
    h = 4  # a multiple of the patterns of MMA
    q, k, v = (
        torch.randn(b, h, length, HEAD_WIDTH, **like) for length in (1 if case.step else n, n, n)
    )
    q *= HEAD_WIDTH**-0.5
    mix = None
    if case.mix == "ones":
        mix = torch.ones(len(case.branches), 1, 1, 1, 1, **like)
    elif case.mix == "gate":
        gate = torch.rand(b, 1, n, 1, **like)
        mix = torch.stack([1 - gate, gate])
    if gradients:
        for tensor in (q, k, v, mix if case.mix == "gate" else None):
            if tensor is not None:
                tensor.requires_grad_()
    return AttentionProblem(q=q, k=k, v=v, branches=case.branches, mix=mix)


def vanilla(given: AttentionProblem, *, causal: bool) -> Tensor:
    """Ordinary attention over the same tensors, ``[b, h, n, d_k]``."""
    return F.scaled_dot_product_attention(given.q, given.k, given.v, is_causal=causal, scale=1.0)


def solver(path: str, given: AttentionProblem, case: Case) -> Callable[[], Tensor]:
    """A function that computes ``given`` by ``path``, or by vanilla attention."""
    if path in (VANILLA, NULL):
        return lambda: vanilla(given, causal=case.causal)
    compute = PATHS[choose(given) if path == CHOSEN else path].compute
    return lambda: compute(given).outputs


def with_backward(
    solve: Callable[[], Tensor], path: str, given: AttentionProblem
) -> Callable[[], None]:
    """Forward and backward, with an upstream gradient that is the same in every call."""
    outputs = 1 if given.mix is not None else len(given.branches)
    leading = () if path in (VANILLA, NULL) else (outputs,)
    upstream = torch.randn(*leading, *given.q.shape, dtype=given.q.dtype, device=given.q.device)
    leaves = [x for x in (given.q, given.k, given.v, given.mix) if x is not None]

    def call() -> None:
        solve().backward(upstream)
        for leaf in leaves:
            leaf.grad = None

    return call


def _timed(name: str, case: Case, n: int, settings: Settings) -> Iterator[dict]:
    for measure in ("forward",) if case.step else ("forward", "forward + backward"):
        gradients = measure != "forward"
        given = problem(case, n, settings, gradients=gradients)
        calls, took = {}, {}
        for path in [VANILLA, NULL, *candidate_paths(case, n, settings)]:
            solve = solver(path, given, case)
            calls[path] = with_backward(solve, path, given) if gradients else solve
            took[path] = choose(given) if path == CHOSEN else path
        with torch.set_grad_enabled(gradients):
            seconds = interleaved(calls, settings)
        for path in calls:
            if path == VANILLA:
                continue
            yield {
                **_about(name, measure, given),
                "candidate": path,
                "paths": [] if path == NULL else [took[path]],
                "ratio": ratio(seconds, path),
                "vanilla_ms": milliseconds(seconds[VANILLA]),
            }


def _memory(name: str, case: Case, n: int, settings: Settings) -> Iterator[dict]:
    """Peak memory of forward + backward, each in a process of its own."""
    given = problem(case, n, settings, gradients=True)
    peaks, took = {}, {}
    for path in [VANILLA, NULL, *candidate_paths(case, n, settings)]:
        peaks[path] = memory.in_a_process(name, n, path, replace(settings, cases=None))
        took[path] = choose(given) if path == CHOSEN else path
    for path, peak in peaks.items():
        if path == VANILLA:
            continue
        share = round(peak / max(1, peaks[VANILLA]), 4)
        yield {
            **_about(name, "peak memory", given),
            "candidate": path,
            "paths": [] if path == NULL else [took[path]],
            "ratio": {"median": share, "min": share, "max": share},
            "megabytes": round(peak / 2**20, 2),
            "vanilla_megabytes": round(peaks[VANILLA] / 2**20, 2),
        }


def _about(name: str, measure: str, given: AttentionProblem) -> dict:
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
    }
