"""Tables of your own: systems by their flags, at a size that suits your text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import UserError, did_you_mean
from ..files.checksums import digest
from ..files.typed import fault_of_name
from ..files.yaml_files import merge
from .paper_tables import OWN_PAPER, Column, Row, Table
from .settings import FULL, WEIGHTS_OF, Profile, RawSettings, load_profile, load_raw

#: See :func:`own_table`.
Inherit = Callable[[str, dict], tuple[dict, list[str]]]
#: What the systems share, but for what a profile and you give: the base model.
OWN: dict = {
    "extends": "transformer",  # the flags that the papers share
    "corpus": "own",
    "train": {"share-all-embeddings": True, "dropout": 0.1, "max-update": 100_000},
    "batch": {"tokens": 25_000, "per-device": 8192},
    "checkpoints": {"unit": "update", "every": 1000, "average": 5},
    "generate": {"beam": 4, "lenpen": 0.6},
}
#: The profiles of smaller texts: below so many training pairs.
SMALLER = {"few": 10_000, "tiny": 50_000, "iwslt": 500_000}
#: The columns: scores of a run, with their titles.
SCORES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
#: Flags of a model's size.
_SHAPE = [
    f"{side}-{part}"
    for side in ("encoder", "decoder")
    for part in ("layers", "embed-dim", "ffn-embed-dim", "attention-heads")
]
_LONGEST = 100  # bytes of a row's name, which names folders


def profile_of_text(pairs: int, configs: Path) -> Profile:
    """The profile that suits a text of so many training pairs."""
    name = next((name for name, below in SMALLER.items() if pairs < below), None)
    if name is None:
        summary = "base of Vaswani et al. 2017, width 512, 6 + 6 layers"
        profile = replace(FULL, summary=summary)
    else:
        profile = load_profile(name, configs)
    return replace(profile, summary=f"for {pairs:,} training pairs: {profile.summary}")


def own_table(
    name: str,
    systems: Sequence[str],
    *,
    profile: Profile,
    configs: Path,
    shared: Sequence[str] = (),
    given: Mapping | None = None,
    base: dict = OWN,
    start: str | None = None,
    inherit: Inherit | None = None,
) -> Table:
    """The table ``own/NAME``; the first system is its baseline.

    Args:
        systems: an architecture each, perhaps with flags: ``transformer_hysan --encoder-branches
            global,l5``.
        profile: the scale, whose lengths are shortened if these flags ask for fewer updates.
        configs: the folder of configurations.
        shared: flags of all systems, which a system's own replace.
        given: other settings of all systems (``batch``, ``checkpoints``).
        base: what all share but for a profile and these: :data:`OWN`, or a model's settings.
        start: what to call the model that all begin with, which is then the first system.
        inherit: of an architecture and the flags given with it, its flags of that model; and which
            values differ from the model's. None: it has the model's architecture, and all flags.
    """
    from fairseq.models import MODEL_REGISTRY  # here: it takes seconds

    if fault := fault_of_name(name):  # it names folders
        raise UserError(f"--name {name!r}: {fault}")
    for_all = flags_of(shared)
    raw = load_raw(base, configs, OWN_PAPER)
    before = merge(raw.merged, profile.settings)
    rows: dict[str, Row] = {}
    notes: list[str] = []
    if start:
        as_it_is = {"max-update": 0, "max-epoch": None, "patience": None}
        rows["start"] = Row("start", RawSettings({}, {"train": as_it_is}), system=start)
    for system in systems:
        arch, flags = _system(system)
        if "arch" in for_all | flags:
            raise UserError(
                "--arch: name the systems themselves, such as transformer transformer_mma"
            )
        train = {**for_all, **flags, "arch": arch}
        if inherit:
            inherited, changed = inherit(arch, {**for_all, **flags})
            train = {**inherited, **train}
            notes += [f"{system}: {', '.join(changed)}."] if changed else []
        if "max-epoch" in train:
            train.setdefault("max-update", None)
        if base is OWN and arch not in MODEL_REGISTRY:  # transformer_iwslt_de_en has its own size
            train = dict.fromkeys(_SHAPE) | train
        row = _name(arch, flags)
        if row.casefold() in map(str.casefold, rows):
            raise UserError(f"{system}: this system is there twice, or its name {row} is")
        shortened = _shortened({**(given or {}), "train": train}, before)
        rows[row] = Row(row, RawSettings({}, load_raw(shortened, configs, system).own), system)
    columns = tuple(
        Column(score, title, score, RawSettings({}, {}), run="bleu")
        for score, title in SCORES.items()
    )
    return Table(
        name=f"{OWN_PAPER}/{name}",
        title="Systems on your text",
        columns=columns,
        rows=tuple(rows.values()),
        raw=raw,
        configs=configs,
        baseline=next(iter(rows)),
        notes=" ".join(notes),
    )


def _shortened(settings: dict, before: dict) -> dict:
    """A system's settings, whose warm-up and checkpoints fit other updates than ``before``.

    The warm-up is not longer than before, but for a fine-tuning, whose default length is short.
    Of the updates, the same share is averaged as before, unless both ``every`` and ``average``
    are given.  It validates as often as before, however dense checkpoints are.
    """
    train, made = dict(settings["train"]), dict(settings.get("checkpoints", {}))
    usual = before["checkpoints"]
    usually = before["train"].get("max-update")
    updates = train.get("max-update", usually)
    by_updates = usual["unit"] == "update" and usually
    if by_updates and updates is None and not {"every", "average"} <= made.keys():
        made["share"] = usual["every"] * usual["average"] / usually
        if made.get("every", usual["every"]) != usual["every"]:
            train.setdefault("validate-interval-updates", usual["every"])
    if not isinstance(updates, int) or not usually or updates < 1:
        return {**settings, "train": train, "checkpoints": made}
    if "max-update" in train:
        warm_up = before["train"].get("warmup-updates")
        if warm_up and (updates < usually or WEIGHTS_OF in before["train"]):
            train.setdefault("warmup-updates", max(1, warm_up * updates // usually))
        if before["train"].get("total-num-update"):
            train.setdefault("total-num-update", updates)  # when the rate ends
    if by_updates:
        averaged = usual["every"] * usual["average"] * updates // usually
        at_once = averaged // made["every"] if "every" in made else min(averaged, usual["average"])
        made.setdefault("average", max(1, at_once))
        made.setdefault("every", max(1, averaged // made["average"]))
        validated = max(1, min(usual["every"], updates // usual["average"]))
        if made["every"] != validated:
            train.setdefault("validate-interval-updates", validated)
    return {**settings, "train": train, "checkpoints": made}


def _system(text: str) -> tuple[str, dict[str, object]]:
    try:
        arch, *words = shlex.split(text) or [""]
    except ValueError as error:
        raise UserError(f"{text}: {error}") from None
    if not re.fullmatch(r"\w+", arch):
        raise UserError(f"{text!r}: a system begins with an architecture, such as transformer_mma")
    from fairseq.models import ARCH_MODEL_REGISTRY

    from ... import models  # noqa: F401  which registers ours

    if arch not in ARCH_MODEL_REGISTRY:
        near = did_you_mean(arch, ARCH_MODEL_REGISTRY)
        raise UserError(f"{text}: there is no architecture {arch}{near}")
    return arch, flags_of(words)


def _name(arch: str, flags: dict[str, object]) -> str:
    """The name of a system's row, and so of its runs, in whatever order its flags are given."""
    words = [f"+{flag}" + f"={flags[flag]}" * (flags[flag] is not True) for flag in sorted(flags)]
    name = re.sub(r"[^\w.+=()-]", "-", arch + "".join(words)).rstrip(".-")
    if len(name.encode()) <= _LONGEST:
        return name
    return f"{name.encode()[: _LONGEST - 9].decode(errors='ignore')}+{digest(flags)[:8]}"


def flags_of(words: Sequence[str]) -> dict[str, object]:
    """The flags of a command line: ``--dropout 0.3 --share-all-embeddings``; false: without it."""
    flags: dict[str, object] = {}
    last = ""
    for word in words:
        if word.startswith("--"):
            last, given, value = word[2:].partition("=")
            if last in flags:
                raise UserError(f"--{last} is given twice")
            if given and not value:
                raise UserError(f"{word}: the value is missing")
            flags[last] = _plain(value) if given else True
        elif not flags or flags[last] is not True:
            raise UserError(f"{word}: use --FLAG VALUE, with quotes around a value with spaces")
        else:
            flags[last] = _plain(word)
    return flags


def _plain(word: str) -> object:
    """A value as a file of settings would have it: a number, false, or text."""
    if word == "false":
        return False
    if not re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", word):  # 1:30 and 010 are numbers in YAML
        return word
    return float(word) if "." in word else int(word)
