"""A plan as ``--dry-run`` prints it: what exists, what would be done, and how long it takes."""

from __future__ import annotations

import contextlib
import logging
import math
import textwrap
import warnings
from types import SimpleNamespace

from ..corpora.manifest import read_manifest
from ..files.text import count_lines
from .devices import Devices, share_out
from .fairseq_commands import flags
from .plan import Plan
from .run_folders import devices_of
from .status import REDO, State, Status, status
from .workspace import Run

#: Operations per second of a training, to estimate its time: measured on a CPU core in our own
#: runs, and guessed for a data-centre GPU in half precision.
SPEED = {"cpu": 4e10, "cuda": 3e13}
#: Tokens of an average sentence, to estimate the length of epochs before the corpus exists.
TOKENS_A_SENTENCE = 28
#: Flags that decide the size of a model, except those with a negligible effect.
SIZING = ("arch", "layers", "dim", "size", "fusion", "localness", "embed")


def to_do(state: Status, redo: bool) -> bool:
    """Whether a run in this state is done now; with ``redo``, also one that is there."""
    return redo or state.state in (State.BEGUN, State.NOT_BEGUN)


def describe(
    plan: Plan, slots: list[Devices], redo: bool, runs: list[Run], faults: list[str]
) -> str:
    """The plan of these runs; ``faults``: why others cannot be done."""
    table, place = plan.table, plan.workspace
    lines = [
        f"{table.name}: {table.title}",
        f"   profile    {place.profile.name}: {place.profile.summary}",
        *_rows_have(runs, slots[0]),
        f"   folder     {place.root}",
        f"   devices    {len(slots)} x {slots[0]}",
        "",
        *_corpora(runs),
        *_runs(runs, slots, redo),
    ]
    if faults:
        lines += ["", "Cannot be run:", *(f"   {fault}" for fault in faults)]
    if plan.cited:
        lines += ["", f"Cited by the paper, not run: {', '.join(plan.cited)}"]
    for missing in dict.fromkeys(missing for _, missing in plan.planned):
        cells = " ".join(name for name, other in plan.planned if other == missing)
        wrapped = textwrap.wrap(cells, 94, break_long_words=False, break_on_hyphens=False)
        lines += ["", f"Not measured here ({missing}):", *(f"   {line}" for line in wrapped)]
    return "\n".join(lines)


def _rows_have(runs: list[Run], devices: Devices) -> list[str]:
    """What the rows' own settings, which a profile does not override, make of it."""
    trained = [run for run in runs if not run.settings.aligner]
    facts = {
        "models": [run.settings.train.get("arch") for run in trained],
        "training": [_length(run) for run in trained],
        "precision": [devices_of(run, devices).precision for run in trained],
    }
    return [
        f"   {fact:10} {'; '.join(dict.fromkeys(map(str, values)))}"
        for fact, values in facts.items()
        if values
    ]


def _corpora(runs: list[Run]) -> list[str]:
    lines = []
    for folder in dict.fromkeys(run.corpus_folder for run in runs):
        users = [run for run in runs if run.corpus_folder == folder]
        run = users[0]
        state = "prepared" if read_manifest(folder) else "to be prepared" + _comes_from_you(run)
        lines.append(f"Corpus {run.settings.corpus}: {state}")
        if any(user.settings.align for user in users) and run.recipe.gold is None:
            lines.append("   without hand-aligned sentences: no alignment error rate")
    return lines


def _comes_from_you(run: Run) -> str:
    """Which files of a corpus cannot be downloaded."""
    if run.workspace.own is not None:
        return f" from {run.workspace.own.folder}, {run.recipe.source}-{run.recipe.target}"
    if run.recipe.lacks_text:
        return "; from your own text: name its folder with --data"
    files = [archive.file for archive in run.recipe.archives if not archive.urls]
    if run.recipe.licence and (files or not run.recipe.archives):
        return "; licensed, you supply its files (the message says which)"
    return f"; you supply {', '.join(files)}" if files else ""


def _runs(runs: list[Run], slots: list[Devices], redo: bool) -> list[str]:
    if not runs:
        return ["", "Nothing to run."]
    devices = slots[0]
    sizes: dict[tuple, int | None] = {}
    largest = 0.0
    times = []
    states = {run.name: status(run) for run in runs}
    now = sum(to_do(state, redo) for state in states.values())
    lines = ["", f"Runs: {len(runs)}" + f", of which {now} to do" * (now < len(runs))]
    for run in runs:
        state = states[run.name]
        line = f"   {run.name}: {state}"
        if state.state is State.STALE or (redo and state.state is State.DONE):
            line += "; deleted and done again" if redo else "; left as it is"
        if not to_do(state, redo):
            lines.append(line)
            continue
        key = (run.settings.corpus, *_sizing(run))
        if key not in sizes:
            sizes[key] = None
            with contextlib.suppress(Exception):  # the training will say why
                sizes[key] = parameter_count(run)
        largest = max(largest, _disk(run, sizes[key]))
        if run.settings.aligner:
            times.append(0.0)
            lines.append(f"{line}; by {run.settings.aligner}")
        else:
            times.append(_guess_seconds(run, sizes[key], devices) if sizes[key] else math.nan)
            about = "" if math.isnan(times[-1]) else f"; about {_hours(times[-1])}"
            lines.append(f"{line}; {_work(run, devices)}{about}")
    if not redo and any(state.state is State.STALE for state in states.values()):
        lines.append(f"   {REDO}")
    if times:
        at_once = min(len(slots), len(times))
        if math.isnan(sum(times)):
            lines.append("   the time can be estimated when the corpora are prepared")
        else:
            lines.append(
                f"   about {_hours(sum(times) / at_once)} in all, {at_once} side by side: a "
                "rough guess from the number of operations, not measured"
            )
        lines.append(f"   disk while a run trains: at most about {largest / 1e9:.1f} GB")
    return lines


def _work(run: Run, devices: Devices) -> str:
    max_tokens, update_freq = share_out(run.settings.batch, devices.world)
    return f"{_length(run)} ({devices.world} x {max_tokens} tokens x {update_freq})"


def _length(run: Run) -> str:
    settings = run.settings
    updates, epochs = (settings.train.get(key) for key in ("max-update", "max-epoch"))
    length = f"{updates} updates" if updates else f"{epochs} epochs"
    if "patience" in settings.train:
        length = f"at most {length}"
    return f"{length} of {settings.batch.tokens:,} tokens"


def _guess_seconds(run: Run, parameters: int, devices: Devices) -> float:
    """A rough guess of a training's time: 6 operations per token and parameter."""
    workers = devices.threads if devices.kind == "cpu" else devices.world
    return 6 * parameters * _tokens(run) / (SPEED[devices.kind] * workers)


def _tokens(run: Run) -> float:
    """About how many tokens a run trains on, at most; NaN if this is not known yet."""
    settings = run.settings
    numbers = []
    if "max-update" in settings.train:
        numbers.append(int(settings.train["max-update"]) * settings.batch.tokens)
    if "max-epoch" in settings.train:
        manifest = read_manifest(run.corpus_folder)
        counts = manifest.counts if manifest else {**run.recipe.about, **run.recipe.expect}
        if counts.get("train"):
            epochs = int(settings.train["max-epoch"])
            numbers.append(epochs * counts["train"] * TOKENS_A_SENTENCE)
    return min(numbers, default=math.nan)


def _sizing(run: Run) -> tuple:
    train = run.settings.train
    return tuple((flag, train[flag]) for flag in train if any(word in flag for word in SIZING))


def _disk(run: Run, parameters: int | None) -> float:
    """Bytes.  Checkpoints hold weights and two moments in fp32; up to three extra ones exist."""
    checkpoints = run.settings.checkpoints
    kept = 0 if run.settings.aligner else checkpoints.average + checkpoints.curve + 3
    return kept * 12.0 * (parameters or 0)


def _hours(seconds: float) -> str:
    if seconds >= 36000:
        return f"{seconds / 3600:.0f} h"
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{max(1, round(seconds / 60))} min"


def parameter_count(run: Run) -> int:
    """The number of parameters, shared ones counted once."""
    import torch
    from fairseq import options
    from fairseq.data import Dictionary
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq.models import build_model

    logging.getLogger("hydra").setLevel(logging.WARNING)
    with warnings.catch_warnings():  # hydra's, about how fairseq calls it
        warnings.simplefilter("ignore")
        args = options.parse_args_and_arch(
            options.get_training_parser(), ["data", *flags(run.settings.train)]
        )
        cfg = convert_namespace_to_omegaconf(args)
    source, target = (Dictionary() for _ in range(2))
    for dictionary, size in zip((source, target), _vocabulary(run), strict=True):
        for number in range(size - len(dictionary)):
            dictionary.add_symbol(f"word{number}")
    if run.recipe.subwords.one_dictionary:
        target = source
    task = SimpleNamespace(source_dictionary=source, target_dictionary=target)
    with torch.device("meta"):  # shapes only, no memory
        model = build_model(cfg.model, task)
    return sum(parameter.numel() for parameter in model.parameters())


def _vocabulary(run: Run) -> tuple[int, ...]:
    """The sizes of both vocabularies; those in the recipe if the corpus is not prepared."""
    if read_manifest(run.corpus_folder) is None:
        return (run.recipe.subwords.size,) * 2
    corpus = run.prepared_corpus
    return tuple(
        count_lines(corpus.binary / f"dict.{language}.txt") + 4
        for language in (corpus.source, corpus.target)
    )
