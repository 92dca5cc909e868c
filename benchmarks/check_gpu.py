"""The first minutes on a GPU: does everything work there, is it exact, and how fast is it?

See ``scripts/check_gpu.sh --help``, which runs this.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

from fairseq_hybrid_attn.attention.problem import AttentionProblem
from fairseq_hybrid_attn.attention.reference import reference
from fairseq_hybrid_attn.lab.files.tabular import Grid
from fairseq_hybrid_attn.lab.files.writing import atomic_write
from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, local

from . import launches, systems, tables
from .common import CHOSEN, DTYPES, WAYS, Settings, computed_by, heading

SECONDS = 8 * 60

#: The largest error that passes, as a share of the largest number of a tensor.
ATTENTION = {"fp32": 2e-5, "fp16": 5e-3, "bf16": 3e-2}
#: The same for the gradient of all parameters of a model, by its Euclidean norm.  Two ways of
#: rounding to half precision differ by as much as this even if both are right.
MODELS = {"fp32": 1e-3, "fp16": 3e-2, "bf16": 0.2}

HYSAN = (GLOBAL, PAST, FUTURE, local(5))
#: Branches of the papers, and the width of their heads.
SHAPES = {
    "HySAN's encoder": (tuple((pattern,) for pattern in HYSAN), 64),
    "HySAN's decoder": (((PAST,), (local(5),)), 64),
    "hybrid gate": (((GLOBAL,), (local(1),)), 64),
    "MMA": (((GLOBAL, local(1), FUTURE, PAST),), 128),
}
CASES = ("hysan-e1", "mma", "hybrid-gate", "hybrid-gate-dropout")


def main() -> None:
    """Check, print Markdown, and write it with JSON."""
    arguments = _parser().parse_args()
    if not arguments.cpu and not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device here; --cpu tries the check itself without one")
    if not arguments.output.is_dir():
        raise SystemExit(f"--output {arguments.output}: there is no such folder")
    if not 1 <= arguments.seconds <= SECONDS:
        raise SystemExit(f"--seconds {arguments.seconds}: use 1 to {SECONDS}")
    settings = Settings(
        memory=False,
        device="cuda", dtype="bf16", clock="wall", rounds=5, shortest=0.2, ways=(CHOSEN,),
        cases=CASES, sentences=136, length=30,
    )  # fmt: skip
    if arguments.cpu:
        tiny = {"width": 32, "ffn": 32, "layers": 2, "vocabulary": 50, "sentences": 4, "length": 8}
        settings = replace(
            settings, device="cpu", rounds=2, shortest=0.01, cases=("mma", "hysan-e1"), **tiny
        )
    logging.disable(logging.INFO)
    try:
        document = check(settings, arguments.seconds)
    except KeyboardInterrupt:
        raise SystemExit("interrupted; nothing was written") from None
    text = markdown(document)
    for ending, content in (("json", json.dumps(document, indent=1) + "\n"), ("md", text)):
        with atomic_write(arguments.output / f"gpu-check.{ending}") as file:
            file.write(content.encode())
    print(text, end="")
    if document["faults"] or any(one["error"] > one["bound"] for one in document["accuracy"]):
        raise SystemExit("Something failed or is off; see above.")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/check_gpu.sh", add_help=False)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--output", type=Path, default=Path())
    parser.add_argument("--seconds", type=int, default=SECONDS)
    return parser


def check(settings: Settings, seconds: int) -> dict:
    """Run all parts, the most important first, until the time is over; return what was found."""
    torch.set_num_threads(settings.threads)
    begin = time.monotonic()
    document = {
        **heading(settings),
        "load_average": [round(os.getloadavg()[0], 2)],
        "accuracy": [],
        "results": [],
        "faults": [],
        "left_out": [],
    }
    parts = _parts(settings)
    with _at_most(seconds):
        try:
            for name in list(parts):
                print(f"{time.monotonic() - begin:4.0f} s  {name}", file=sys.stderr, flush=True)
                kind, run = parts[name]
                try:
                    for found in run():
                        document[kind].append(found)
                except (Exception, SystemExit) as error:  # a driver may raise anything
                    document["faults"].append(f"{name}: {type(error).__name__}: {error}")
                del parts[name]
        except _OutOfTime:
            document["left_out"] = list(parts)
    document["load_average"].append(round(os.getloadavg()[0], 2))
    document["seconds"] = round(time.monotonic() - begin, 1)
    return document


def _parts(settings: Settings) -> dict[str, tuple[str, Callable[[], Iterator[dict]]]]:
    """Return the parts: where their results belong, and what yields them."""
    parts: dict[str, tuple[str, Callable]] = {}
    small = settings.device == "cpu"
    kinds = ("fp32",) if small else ("bf16", "fp32", "fp16")
    for dtype in kinds:
        at = replace(settings, dtype=dtype)
        parts[f"attention, {dtype}"] = "accuracy", lambda at=at: attention_errors(at)
        parts[f"gradients of models, {dtype}"] = "accuracy", lambda at=at: model_errors(at)
    for dtype in kinds[:2]:
        at = replace(settings, dtype=dtype)
        parts[f"training step, {dtype}"] = (
            "results",
            lambda at=at: _with_dtype(systems.run_training(at), at),
        )
    first = replace(settings, dtype=kinds[0])
    for length, sentences in () if small else ((120, 34), (500, 8)):
        longer = replace(first, length=length, sentences=sentences)
        parts[f"training step, {length} tokens"] = (
            "results",
            lambda at=longer: _with_dtype(systems.run_training(at), at),
        )
    parts["generation"] = (
        "results",
        lambda: _with_dtype(systems.run_generation(first, (first.length,)), first),
    )
    parts["launches"] = "results", lambda: _with_dtype(launches.run(first), first)
    return parts


def _with_dtype(results: Iterator[dict], settings: Settings) -> Iterator[dict]:
    return ({**result, "dtype": settings.dtype} for result in results)


def attention_errors(settings: Settings) -> Iterator[dict]:
    """Compare the attention that the package chooses on a GPU with the definition in double."""
    lengths = (settings.length,) if settings.device == "cpu" else (30, 64, 134, 192)
    for title, (branches, d_k) in SHAPES.items():
        for n in lengths:
            generator = torch.Generator().manual_seed(n)
            q, k, v = torch.randn(3, 2, 4, n, d_k, generator=generator).to(**settings.like)
            upstream = torch.randn(len(branches), 2, 4, n, d_k, generator=generator)
            padding = torch.zeros(2, n, dtype=torch.bool, device=settings.device)
            padding[0, : n // 4] = True
            results = []
            for compute, dtype in ((reference, torch.float64), (WAYS["sdpa"], q.dtype)):
                leaves = [x.to(dtype).requires_grad_() for x in (q * d_k**-0.5, k, v)]
                problem = AttentionProblem(
                    **dict(zip("qkv", leaves, strict=True)), branches=branches, key_padding=padding
                )
                outputs = compute(problem).outputs
                gradients = torch.autograd.grad(outputs, leaves, upstream.to(outputs))
                results.append([outputs.detach(), *gradients])
            errors = [  # the largest of tensors is NaN if one of them is
                (got - want).abs().max() / want.abs().max()
                for want, got in zip(*results, strict=True)
            ]
            worst = torch.stack(errors).max().item()
            yield _accuracy(f"attention: {title}", n, settings, worst, ATTENTION)


def model_errors(settings: Settings) -> Iterator[dict]:
    """Compare the gradients of whole models, without dropout, with those by the definition."""
    words = systems.dictionary(settings)
    source, lengths, previous, target = systems.batch(words, settings)
    for system in filter(settings.wants, systems.SYSTEMS):
        if "dropout" in system:
            continue
        found = []
        for way in ("reference", "sdpa"):
            model = systems.build(system, words, settings).eval()
            with computed_by(way):
                logits = model(source, lengths, previous)
                scores = model.get_normalized_probs(logits, log_probs=True)
                loss, _ = label_smoothed_nll_loss(
                    scores.view(-1, len(words)), target.reshape(-1), 0.1, ignore_index=words.pad()
                )
                loss.backward()
            found.append(torch.cat([p.grad.double().flatten() for p in model.parameters()]))
        want, got = found
        error = ((got - want).norm() / want.norm()).item()
        title = f"gradients: {systems.SYSTEMS[system][0]}"
        yield _accuracy(title, settings.length, settings, error, MODELS)


def _accuracy(title, n, settings: Settings, error: float, bounds: dict) -> dict:
    if not error < float("inf"):  # NaN is no JSON
        error = 1e30
    bound = bounds[settings.dtype]
    return {
        "what": title, "length": n, "dtype": settings.dtype, "error": error, "bound": bound,
    }  # fmt: skip


class _OutOfTime(BaseException):
    """Not an Exception, which a part's own handling could catch."""


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """Raise :class:`_OutOfTime` inside the block when the time is over."""

    def over(*_):
        raise _OutOfTime

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def markdown(document: dict) -> str:
    """Write the tables of a check, below what was checked and what was left out."""
    settings, found = document["settings"], document["versions"]
    where, code = document["machine"], document["code"]
    device = ", ".join(where["gpus"]) if settings["device"] == "cuda" else where["processor"]
    lines = [
        f"# Check of {device or 'a processor without a name'}",
        f"{document['started']}, {document['seconds']:.0f} s, commit {code['commit'] or 'unknown'}"
        + ", with changes" * bool(code["modified"])
        + "; "
        + ", ".join(f"{name} {version}" for name, version in found.items())
        + f", CUDA {where['cuda'] or 'none'}.",
    ]
    if settings["device"] == "cpu":
        lines.append("**Tried on a CPU, at a tiny size: these numbers say nothing about a GPU.**")
    lines += [f"- FAILED: {fault}" for fault in document["faults"]]
    if document["left_out"]:
        lines.append(f"Out of time before: {'; '.join(document['left_out'])}.")
    rows = [
        [
            "off" if one["error"] > one["bound"] else "ok",
            one["what"],
            one["dtype"],
            one["length"],
            f"{one['error']:.1e}",
            f"{one['error'] / one['bound']:.2f}",
        ]
        for one in document["accuracy"]
    ]
    headings = ["", "what", "type", "length", "error", "of what is allowed"]
    if rows:
        lines += ["Against the definition:", Grid(headings, rows, left=len(headings)).markdown()]
    for dtype in DTYPES:
        results = [one for one in document["results"] if one["dtype"] == dtype]
        if results:
            lines += [f"## {dtype}", *tables.of_systems(results)]
    return "\n\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
