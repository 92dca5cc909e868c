"""What trains and evaluates one system: corpus, training flags, batch, checkpoints, decoding."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Literal

from ...errors import UserError
from ..files.checksums import digest
from ..files.typed import Count, Name, check_part, read
from ..files.yaml_files import CONFIGS, config_file, merge, read_mapping

#: Flags of training that follow from other settings or the command line; no file may give them.
DERIVED = {
    "max-tokens": "batch: {tokens: ...}, or --tokens",
    "update-freq": "batch: {tokens: ...}, or --tokens",
    "seed": "--seeds",
    "save-dir": "the name of the run",
    "source-lang": "the corpus",
    "target-lang": "the corpus",
    "distributed-world-size": "the devices",
    "cpu": "--device",
    "fp16": "--precision",
    "bf16": "--precision",
    "cpu-bf16": "--precision",
    "compile": "--compile",
    "task": "this package",
    "save-interval": "checkpoints: {every: ...}, or --save-every",
    "save-interval-updates": "checkpoints: {every: ...}, or --save-every",
    "validate-interval": "checkpoints: {every: ...}, or --save-every",
    "keep-interval-updates": "checkpoints: {average: ...}, or --average",
    "keep-interval-updates-pattern": "checkpoints: {curve: ...}",
    "keep-last-epochs": "checkpoints: {average: ...}, or --average",
    "keep-best-checkpoints": "checkpoints: {unit: best}",
    "no-epoch-checkpoints": "checkpoints: {unit: ...}",
    # With it, fairseq would begin there again each time that the run is resumed.
    "restore-file": "the run's own checkpoints (finetune-from-model begins with another model)",
    "log-format": "this package",
    "log-interval": "this package",
    "tensorboard-logdir": "the name of the run",
}
#: Those of translation.
DERIVED_OF_GENERATE = {
    "path": "the name of the run",
    "results-path": "the name of the run",
    "gen-subset": "the corpus, or checkpoints: {curve-on: ...}",
    "source-lang": "the corpus",
    "target-lang": "the corpus",
    "max-tokens": "the devices",
    "cpu": "--device",
    "required-batch-size-multiple": "this package",
}


#: The flag of fairseq-train that loads weights alone: the optimiser and its schedule start anew.
WEIGHTS_OF = "finetune-from-model"


def fault_of_flags(flags: dict, derived: Mapping[str, str] = {}) -> str | None:
    for flag, value in flags.items():
        if flag in derived:
            return f"{flag} follows from {derived[flag]}; leave it out"
        if flag == "user-dir":
            return "user-dir runs a program: type --user-dir on the command line instead"
        # Else user-dir=DIR, and --user-dir=DIR as a value, would be flags of their own.
        if not re.fullmatch(r"[a-zA-Z0-9][\w-]*", flag):
            return f"{flag}: use the name of a flag without dashes before it, and the value apart"
        if isinstance(value, str) and re.match(r"\s*-+[^\d.\s]", value):
            return f"{flag}: {value} would be read as another flag; leave it out"
    return None


def fault_of_training(flags: dict) -> str | None:
    if fault := fault_of_flags(flags, DERIVED):
        return fault
    of_weights = 0 if WEIGHTS_OF in flags else 1  # 0: as they are
    for flag, least in {"max-update": of_weights, "max-epoch": 1}.items():
        length = flags.get(flag)
        if length is None or length is False:
            continue
        if type(length) is not int or length < least:
            return f"{flag}: {length}: use a whole number from {least}"
    return None


def fault_of_generate(flags: dict) -> str | None:
    return fault_of_flags(flags, DERIVED_OF_GENERATE)


_Flags = dict[str, str | int | float | bool | None]
Flags = Annotated[_Flags, fault_of_flags]
TrainingFlags = Annotated[_Flags, fault_of_training]
GenerateFlags = Annotated[_Flags, fault_of_generate]


@dataclass(frozen=True)
class Batch:
    """The size of a batch, in tokens of the longer side, padding included (as fairseq counts)."""

    tokens: Count  # of a whole update, over all devices and accumulated batches
    per_device: Count = 8192  # at most this many at once on one device, as its memory allows


@dataclass(frozen=True)
class Checkpoints:
    """Which checkpoints are kept, and which of them make the evaluated model."""

    unit: Literal["update", "epoch", "best"]  # best: with the best score on the validation set
    every: Count  # updates between two checkpoints (and validations); epochs for unit epoch
    average: Count = 1  # number of last checkpoints whose weights are averaged; 1 for unit best
    share: float | None = None  # of the updates, which end is averaged, if max-update is not set
    curve: Count = 0  # number of checkpoints, spread evenly, that are kept and evaluated too
    curve_on: Literal["test", "valid"] = "test"  # the set that these translate


@dataclass(frozen=True)
class Settings:
    """Everything that decides a system's numbers, except seed, data and devices.

    Flags of programs have no dashes; a bare flag is True.  Without flags, ``align`` and ``gates``
    are not run.
    """

    corpus: Name  # of a recipe in configs/corpora
    train: TrainingFlags  # of fairseq-train
    batch: Batch
    checkpoints: Checkpoints
    generate: GenerateFlags  # of fairseq-generate, and gnmt-lenpen
    pairs: Count | None = None  # at most this many training pairs of your text; None for all
    subword_size: Count | None = None  # replaces the recipe's for your text; None leaves it
    align: Flags = field(default_factory=dict)  # of fairseq-hybrid align
    gates: Flags = field(default_factory=dict)  # of fairseq-hybrid gates
    aligner: Literal["eflomal"] | None = (
        None  # a statistical word aligner, measured in place of a model
    )

    @property
    def updates(self) -> int | None:
        """After how many updates the training ends at the latest, if that is set."""
        return int(self.train["max-update"] or 0) if "max-update" in self.train else None

    @property
    def epochs(self) -> int | None:
        return int(self.train["max-epoch"] or 0) if "max-epoch" in self.train else None

    @property
    def share(self) -> float | None:
        """Which part of its updates, the last, is averaged; None if that is not known."""
        made = self.checkpoints
        if made.unit != "update" or not self.updates:
            return made.share
        return made.every * made.average / self.updates

    def averaged(self, done: int | None = None, by_share: bool = True) -> int:
        """How many checkpoints are averaged, of a training that ended after ``done`` updates.

        ``by_share``: those of the same share of the updates; else as many as are set, if there are.
        """
        made = self.checkpoints
        if made.unit != "update" or done is None:
            return made.average
        share = self.share if by_share and self.share is not None else 1.0
        return max(1, min(made.average, int(share * done / made.every + 1e-6)))

    @property
    def curve_interval(self) -> int:
        """Updates between the checkpoints of the curve; 0 if there is none."""
        points = self.checkpoints.curve
        return (self.updates or 0) // points if points else 0

    @property
    def needs_alignments(self) -> bool:
        """Whether the training reads word alignments of its text."""
        return "load-alignments" in self.train

    def as_dict(self) -> dict:
        settings = asdict(self)
        if self.checkpoints.share is None:  # as in runs that older versions made
            del settings["checkpoints"]["share"]
        return settings

    @property
    def digests(self) -> tuple[str, str]:
        """Digests of what decides the weights, and of what decides how these are measured."""
        training = self.as_dict()
        following = {key: training.pop(key) for key in MEASURING}
        return digest(training), digest(following)

    @classmethod
    def of_dict(cls, stored: dict) -> Settings:
        """The settings that :meth:`as_dict` gave; TypeError or KeyError for anything else."""
        batch, checkpoints = Batch(**stored["batch"]), Checkpoints(**stored["checkpoints"])
        return cls(**{**stored, "batch": batch, "checkpoints": checkpoints})


#: The keys of settings: in their files, and in tables, rows, columns and profiles.
KEYS = tuple(key.name.replace("_", "-") for key in fields(Settings))
#: Those whose values are flags of programs.
FLAGS = ("train", "generate", "align", "gates")
#: Those that concern a trained model alone.
MEASURING = ("generate", "align", "gates")


@dataclass(frozen=True)
class Profile:
    """A scale at which tables are run."""

    name: Name  # "full" is the papers' own
    summary: str  # one line for display
    settings: dict = field(default_factory=dict)  # override every row's


FULL = Profile("full", "each table's own corpora, sizes and numbers of updates")


def load_profile(name: str, configs: Path) -> Profile:
    """Read ``configs/profiles/<name>.yaml``, or the file ``name`` if that ends in .yaml.

    The profile ``full`` needs no file: it changes nothing.
    """
    named = name.endswith(".yaml")
    path = Path(name) if named else config_file(f"profiles/{name}.yaml", configs)
    if name == FULL.name and not path.is_file():
        return FULL
    if not path.is_file():
        known = {p.stem for folder in (configs, CONFIGS) for p in folder.glob("profiles/*.yaml")}
        names = ", ".join(sorted(known | {FULL.name}))
        raise UserError(f"--profile {name}: there is no {path}; known are {names}")
    content = read_mapping(path)
    summary = read(str, content.pop("summary", ""), f"{path}: summary")
    check_part(Settings, content, str(path))
    name = read(Name, path.stem, f"--profile {name}")  # it names folders of runs
    return Profile(name, summary, content)


@dataclass(frozen=True)
class RawSettings:
    """Settings as a mapping gives them, not yet resolved."""

    shared: dict  # of the files in configs/settings that its "extends" names
    own: dict  # its own keys, which take precedence

    @property
    def merged(self) -> dict:
        return merge(self.shared, self.own)


def load_raw(
    content: dict, configs: Path, where: str, read_so_far: dict[Path, dict | None] | None = None
) -> RawSettings:
    """The raw settings of a mapping with :data:`KEYS` and ``extends``; ``where``: for messages."""
    own = {key: content[key] for key in KEYS if key in content}
    check_part(Settings, own, where)
    files = {} if read_so_far is None else read_so_far  # None while a file is being read
    shared: dict = {}
    for name in read(tuple[Name, ...], content.get("extends") or (), f"{where}: extends"):
        path = config_file(f"settings/{name}.yaml", configs)
        if not path.is_file():
            raise UserError(f"{where}: extends {name}, but there is no {path}")
        if path not in files:
            files[path] = None
            content = read_mapping(path)
            check_part(Settings, {k: v for k, v in content.items() if k != "extends"}, str(path))
            files[path] = load_raw(content, configs, str(path), files).merged
        layer = files[path]
        if layer is None:
            raise UserError(f"{where}: extends {name}, which extends this file in turn")
        shared = merge(shared, layer)
    return RawSettings(shared, own)


def resolve(raw: dict, where: str) -> Settings:
    settings = read(Settings, raw, where)
    settings = replace(settings, **{key: _flags(getattr(settings, key)) for key in FLAGS})
    made = settings.checkpoints
    unit, every, average = made.unit, made.every, made.average
    if unit == "best" and average != 1:
        raise UserError(f"{where}: checkpoints: unit best evaluates one; leave average out")
    last = {"update": settings.updates, "epoch": settings.epochs}.get(unit)
    if last and last < every * average:
        raise UserError(
            f"{where}: {average} checkpoints {every} {unit}s apart are more than there will be by "
            f"{last}; set checkpoints: {{every: ..., average: ...}}, or --save-every and --average"
        )
    if settings.updates is settings.epochs is None:
        raise UserError(f"{where}: train: give max-update or max-epoch")
    check_curve(settings, where)
    return settings


def check_curve(settings: Settings, where: str) -> None:
    """Check that the checkpoints of a curve are among those that are saved."""
    points, every = settings.checkpoints.curve, settings.checkpoints.every
    if not points:
        return
    last = settings.updates
    if settings.checkpoints.unit == "epoch" or last is None:
        raise UserError(
            f"{where}: checkpoints: curve needs updates: a unit other than epoch, and "
            "train: max-update"
        )
    if last % points or (last // points) % every:
        raise UserError(
            f"{where}: checkpoints: curve: {points} checkpoints over {last} updates are not among "
            f"those saved every {every}"
        )


def _flags(flags: dict) -> dict:
    """Flags with their values; those set to null or false are removed."""
    # "is", since 0 == False, and a dropout of 0 must not become the default.
    return {key: value for key, value in flags.items() if value is not None and value is not False}
