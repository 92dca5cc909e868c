"""Attention problems, every way of solving them, and the required precision.

Settings of problems come from a covering array: every pair of values of two factors occurs in
at least one problem.  The reference in double precision says what is right.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from itertools import combinations, product

import torch

from fairseq_hybrid_attn.attention.problem import AttentionProblem, AttentionResult
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.attention.sdpa import sdpa
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, Band, Pattern, local, local_past


@dataclasses.dataclass(frozen=True)
class Thirds(Pattern):
    """Every third key: not a band.  Shifted by one, a sentence of one word sees nothing."""

    shift: int = 0

    def allows(self, offset):
        return offset % 3 == self.shift


BRANCHES = {
    "global": ((GLOBAL,),),
    "past": ((PAST,),),
    "future": ((FUTURE,),),
    "local": ((local(2),),),
    "hysan": ((GLOBAL,), (PAST,), (FUTURE,), (local(1),)),
    "six": ((GLOBAL,), (PAST,), (FUTURE,), (local(1),), (local(2),), (local(5),)),
    "hybrid": ((GLOBAL,), (local(1),)),
    "decoder": ((PAST,), (local_past(5),)),
    "any step": ((GLOBAL,), (FUTURE,), (local(2),), (local_past(30),), (Band(0, 0),)),
    "past and future": ((PAST,), (FUTURE,)),
    "future and wide": ((FUTURE,), (local(40),)),
    "twice": ((PAST,), (GLOBAL,), (PAST,), (GLOBAL,)),
    "wide": ((local(1000),), (Band(0, 3),), (Band(70, 2),)),
    "heads": ((GLOBAL, local(1), FUTURE, PAST),),
    "heads of papers": ((GLOBAL, GLOBAL, local(3), local(3), FUTURE, FUTURE, PAST, PAST),),
    "scattered heads": ((PAST, GLOBAL, local(40), PAST, FUTURE, local(2)),),
    "heads alike": ((PAST, PAST), (local_past(2), local_past(2))),
    "heads and branches": ((local(3), PAST, PAST, GLOBAL), (GLOBAL,), (FUTURE, local(40)) * 2),
    # No paper has these: bands beside the diagonal leave queries without any key.
    "half bands": ((Band(behind=2), Band(ahead=3)),),
    "beside": ((Band(ahead=-1),), (GLOBAL,)),
    "heads beside": ((Band(behind=-3), Band(ahead=-2), Band(-2, 5), local(1)),),
    "a gap": ((Band(9, -4),), (Band(behind=60, ahead=-50),), (Band(-1, 3),)),
    "far away": ((Band(behind=90, ahead=-80),), (PAST,)),
    "empty": ((Band(5, -7),),),
    "nobody": ((Band(behind=-200),), (local(3),)),
    "not a band": ((GLOBAL,), (Thirds(),)),
    "only not a band": ((Thirds(1),),),
}
PADDED = ["none", "left", "right", "scattered", "expanded"]
LAYOUTS = {
    "plain": ("plain", "plain", "plain"),
    "of a projection": ("projected", "projected", "projected"),
    "odd": ("projected", "shared", "spread"),
    "odder": ("spread", "projected", "shared"),
}
COMMON = {
    "branches": list(BRANCHES),
    "padded": PADDED,
    # Whether scores are exact in single precision, and their standard deviation.
    "numbers": [(True, 1.0), (True, 20.0), (False, 1.0), (False, 14.0)],
    "layout": list(LAYOUTS),
    "mix": [None, "bhn1", "b1n1", "1111", "bh11"],  # sizes; 1 = all alike
    "dtype": [torch.float32, torch.float64],
    "batch": [(4, 2), (1, 1), (3, 3)],
    "width": [8, 3, 16],
}
#: ``learned``: what a gradient comes from; None = weights are not even requested.
FACTORS = {
    "sentences": COMMON
    | {"lengths": [*((n, n) for n in (1, 2, 5, 17, 33, 70, 110)), (3, 40), (40, 99)]},
    "steps": COMMON
    | {"lengths": [(1, m) for m in (1, 2, 6, 25, 127, 128, 150)], "learned": [None, "both"]},
    "more": COMMON
    | {"lengths": [(1, 1), (1, 25), (4, 4), (3, 9), (20, 20), (130, 130)]}
    | {"bias": [None, "b1nm", "bhnm", "11nm"], "learned": [None, "outputs", "weights", "both"]},
}


def covering(factors: dict[str, list]) -> list[dict]:
    """Settings in which every pair of values occurs, chosen greedily; always the same."""
    draw = random.Random(0)
    missing = {
        ((a, x), (b, y)): True
        for (a, its), (b, others) in combinations(factors.items(), 2)
        for x, y in product(its, others)
    }
    found = []
    while missing:
        wanted = dict(next(iter(missing)))
        some = [
            {name: draw.choice(choices) for name, choices in factors.items()} | wanted
            for _ in range(40)
        ]
        pairs = [[x for x in combinations(each.items(), 2) if x in missing] for each in some]
        settings, covered = max(zip(some, pairs, strict=True), key=lambda x: len(x[1]))
        found.append(settings)
        for pair in covered:
            del missing[pair]
    return found


def drawn(seed: int) -> dict:
    """Random settings."""
    draw = random.Random(seed)
    return {name: draw.choice(choices) for name, choices in COMMON.items()}


def make(
    branches,
    lengths,
    *,
    batch=(4, 2),
    width=8,
    dtype=torch.float32,
    padded="none",
    numbers=(True, 1.0),
    mix=None,
    bias=None,
    layout="plain",
    seed=0,
    device="cpu",
    **settings,
):
    """A random problem; of several sentences, one has no padding and one nothing else.

    Where queries and keys have few bits, scores are exact in single precision, and only the
    error of what a way does with them is measured.
    """
    branches = BRANCHES.get(branches, branches)
    (n, m), (b, h) = (lengths, lengths) if isinstance(lengths, int) else lengths, batch
    h = max(map(len, branches)) if max(map(len, branches)) > 1 else h
    exact, scale = numbers
    generator = torch.Generator().manual_seed(seed)

    def draw(*sizes):
        return torch.randn(*sizes, generator=generator, dtype=torch.float64)

    def leaf(x):
        return x.detach().to(device, dtype).requires_grad_()

    q, k, v = draw(b, h, n, width) * scale * width**-0.5, draw(b, h, m, width), draw(b, h, m, width)
    if exact:
        q, k = (q * 16).round() / 16, (k * 16).round() / 16
    q, k, v = (
        leaf(_laid_out(x.to(dtype), how)) for x, how in zip((q, k, v), LAYOUTS[layout], strict=True)
    )
    sizes = {"b": b, "h": h, "n": n, "m": m, "1": 1}
    if mix is not None:
        mix = leaf(draw(len(branches), *(sizes[size] for size in mix)).sin())
    if bias is not None:
        bias = leaf(draw(*(sizes[size] for size in bias)))
    padding = None if padded == "none" else _padding(b, m, padded, generator).to(device)
    return AttentionProblem(
        q=q, k=k, v=v, branches=branches, key_padding=padding, bias=bias, mix=mix, **settings
    )


def _laid_out(x, how):
    """``[b, h, n, d_k]`` in another order in memory."""
    if how == "projected":  # as a layer makes it: a view of [n, b, h * d_k]
        return x.permute(2, 0, 1, 3).contiguous().permute(1, 2, 0, 3)
    if how == "spread":
        return x.mT.contiguous().mT
    return x[:1].expand(x.shape) if how == "shared" else x


def _padding(b, m, padded, generator):
    padding = torch.zeros(b, m, dtype=torch.bool)
    for sentence in range(b):
        some = int(torch.randint(0, m + 1, (1,), generator=generator))
        if b > 1 and padded != "expanded":  # from nothing at all (the first) to everything
            some = {0: 0, b - 1: m}.get(sentence, some)
        scattered = torch.randperm(m, generator=generator)[:some]
        places = {"right": slice(m - some, m), "scattered": scattered}
        padding[sentence, places.get(padded, slice(0, some))] = True
    return padding[:1].expand(b, m) if padded == "expanded" else padding


#: Ways of computing a problem.
WAYS = {"reference": reference, "sdpa": sdpa}


def able(problem) -> dict[str, Callable[[AttentionProblem], AttentionResult]]:
    """The ways that can solve ``problem``: sdpa gives no weights, and takes no empty batch."""
    some = not problem.need_weights and problem.q.numel() > 0
    return {name: way for name, way in WAYS.items() if some or name != "sdpa"}


def tensors(problem) -> dict:
    """The tensors that are not None, by name."""
    named = {name: getattr(problem, name) for name in ("q", "k", "v", "bias", "mix")}
    return {name: x for name, x in named.items() if x is not None}


def converted(problem, dtype, wanted=("q", "k", "v", "bias", "mix")):
    """The same numbers as new leaves: what ``dtype`` cannot hold is not a way's fault."""
    new = {
        name: x.detach().to(dtype).requires_grad_(x.requires_grad and name in wanted)
        for name, x in tensors(problem).items()
    }
    return dataclasses.replace(problem, **new)


def solve(way, problem, learned="outputs"):
    """Outputs, weights if wanted, and gradients by name, from a random gradient of ``learned``."""
    generator = torch.Generator().manual_seed(1)
    leaves = {name: x for name, x in tensors(problem).items() if x.requires_grad}
    result = way(problem)
    parts = [result.outputs, *([result.weights] if problem.need_weights else [])]
    loss = parts[0].tanh().sum() if learned == "tanh" else 0.0
    for part in {"outputs": parts[:1], "weights": parts[1:], "both": parts}.get(learned, []):
        upstream = torch.randn(part.shape, generator=generator).bfloat16()  # the same in any
        loss = loss + (part * upstream.to(part.device, part.dtype)).sum()
    gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
    return parts, dict(zip(leaves, gradients, strict=True))


def check(problem, *, ways=None, learned="outputs", bounds=None, rounding=False, told=""):
    """Hold all ways, or those given, that are able against the reference in double precision.

    The bounds are 5e-6 for outputs and 2e-5 for gradients (of the largest if that is more than
    1), and 1e-12 in double precision.  With ``rounding``, outputs may be off by 1.5 times what
    the reference in the same precision is.  Exact zeros are required where no key is seen.
    """
    single = problem.q.dtype == torch.float32
    bound, gradient_bound = bounds or ((5e-6, 2e-5) if single else (1e-12, 1e-12))
    expected, expected_gradients = solve(reference, converted(problem, torch.float64), learned)
    limits = [bound] * len(expected)
    if rounding:
        plain, _ = solve(reference, problem, learned)
        limits = [max(bound, 1.5 * error(*pair)) for pair in zip(plain, expected, strict=True)]
    for name, way in (able(problem) if ways is None else ways).items():
        what = f"{name} {told}"
        got, gradients = solve(way, problem, learned)
        for x, want, limit in zip(got, expected, limits, strict=True):
            assert x.shape == want.shape and x.dtype == problem.v.dtype, what
            assert error(x, want) <= limit, f"{what}: {error(x, want)} > {limit}"
        for of, want in expected_gradients.items():
            relative = error(gradients[of], want) / max(1.0, want.abs().max())
            assert relative <= gradient_bound, f"{what}, gradient of {of}: {relative}"
        check_nothing_comes_of_nothing(problem, got, gradients, what)


def error(x, want) -> float:
    """The largest; infinite where NaN is."""
    return (x.double() - want).abs().nan_to_num(torch.inf).max().item()


def check_nothing_comes_of_nothing(problem, results, gradients, told=""):
    """Exact zeros for queries without keys, and as gradients of keys that no query sees."""
    (b, h, n, _), m = problem.q.shape, problem.k.size(2)
    masks = [[x.mask(n, m, device=problem.q.device) for x in branch] for branch in problem.branches]
    seen = torch.stack([torch.stack(of_heads).expand(b, h, n, m) for of_heads in masks])
    if problem.key_padding is not None:
        seen = seen & ~problem.key_padding[:, None, None]
    blind, unseen = ~seen.any(-1), ~seen.any(-2).any(0)
    zeros = {"q": blind.all(0), "k": unseen, "v": unseen}
    assert all(x.isfinite().all() for x in (*results, *gradients.values())), told
    assert not results[0][blind if problem.mix is None else blind.all(0, keepdim=True)].any(), told
    assert not any(x[zeros[of]].any() for of, x in gradients.items() if of in zeros), told


def check_no_worse_than_reference(way, problem, told="", margins=(1.02, 1.05)):
    """For half precision, where the reference's own error is the measure: its norm, its largest."""
    exact, plain, own = (
        solve(reference, converted(problem, torch.float64)),
        solve(reference, problem),
        solve(way, problem),
    )
    check_nothing_comes_of_nothing(problem, *own, told)
    flat = ([*parts, *gradients.values()] for parts, gradients in (exact, plain, own))
    for want, their, our in zip(*flat, strict=True):
        assert our.isfinite().all() and our.dtype == their.dtype, told
        for size, margin in zip((torch.norm, lambda x: x.abs().max()), margins, strict=True):
            ratio = size(our.double() - want) / size(their.double() - want)
            assert ratio <= margin, f"{told}: {ratio}"
