"""What trains and evaluates one system: corpus, training flags, batch, checkpoints, decoding."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...errors import UserError
from ..files.checksums import digest
from ..files.yaml_files import CONFIGS, check_keys, check_mappings, config_file, merge, read_mapping

#: Flags that follow from other settings or the command line; a file must not give them.
DERIVED = {
    "max-tokens": "batch: {tokens: ...}",
    "update-freq": "batch: {tokens: ...}",
    "seed": "--seeds",
    "save-dir": "the name of the run",
    "source-lang": "the corpus",
    "target-lang": "the corpus",
    "distributed-world-size": "the devices",
    "task": "this package",
    "save-interval-updates": "checkpoints: {every: ...}",
    "keep-interval-updates": "checkpoints: {average: ...}",
    "keep-interval-updates-pattern": "checkpoints: {curve: ...}",
    "keep-last-epochs": "checkpoints: {average: ...}",
    "no-epoch-checkpoints": "checkpoints: {unit: ...}",
}


@dataclass(frozen=True)
class Batch:
    """The size of a batch, in tokens of the longer side, padding included (as fairseq counts)."""

    tokens: int  # of a whole update, over all devices and accumulated batches
    per_device: int = 8192  # at most this many at once on one device, as its memory allows


@dataclass(frozen=True)
class Checkpoints:
    """Which checkpoints are kept, and which of them make the evaluated model."""

    unit: str  # update, epoch, or best: the one with the best score on the validation set
    every: int  # updates between two checkpoints (and validations); epochs for unit epoch
    average: int = 1  # number of last checkpoints whose weights are averaged; 1 for unit best
    curve: int = 0  # number of checkpoints, spread evenly, that are kept and evaluated too
    curve_on: str = "test"  # the set that these translate: test or valid


@dataclass(frozen=True)
class Settings:
    """Everything that decides a system's numbers, except seed, data and devices.

    Flags of programs have no dashes; a bare flag is True.  Without flags, ``align`` and ``gates``
    are not run.
    """

    corpus: str  # the name of a recipe in configs/corpora
    train: dict  # flags of fairseq-train
    batch: Batch
    checkpoints: Checkpoints
    generate: dict  # flags of fairseq-generate, and gnmt-lenpen
    pairs: int | None = None  # at most this many training pairs of your text; None for all
    subword_size: int | None = None  # replaces the recipe's for your text; None leaves it
    align: dict = field(default_factory=dict)  # flags of fairseq-hybrid align
    gates: dict = field(default_factory=dict)  # flags of fairseq-hybrid gates
    aligner: str | None = None  # a statistical word aligner, measured in place of a model

    @property
    def curve_interval(self) -> int:
        """Updates between the checkpoints of the curve; 0 if there is none."""
        points = self.checkpoints.curve
        return int(self.train["max-update"]) // points if points else 0

    @property
    def needs_alignments(self) -> bool:
        """Whether the training reads word alignments of its text."""
        return "load-alignments" in self.train

    def as_dict(self) -> dict:
        return asdict(self)

    @property
    def digest(self) -> str:
        return digest(self.as_dict())


#: The keys of settings: in their files, and in tables, rows, columns and profiles.
KEYS = (
    *("corpus", "train", "batch", "checkpoints", "generate", "pairs", "subword-size"),
    *("align", "gates", "aligner"),
)
#: Those whose values are flags of programs, and all whose values are mappings.
FLAGS = ("train", "generate", "align", "gates")
MAPPINGS = (*FLAGS, "batch", "checkpoints")
#: Word aligners that can be measured in place of a model.
ALIGNERS = ("eflomal",)


@dataclass(frozen=True)
class Profile:
    """A scale at which tables are run."""

    name: str  # "full" is the papers' own
    summary: str  # one line for display
    settings: dict = field(default_factory=dict)  # override every row's
    file: Path | None = None  # that it was read from

    @property
    def is_full(self) -> bool:
        """Whether results can be compared with the papers' numbers directly."""
        return not self.settings


def load_profile(name: str, configs: Path) -> Profile:
    """Read ``configs/profiles/<name>.yaml``, or the file ``name`` if that ends in .yaml."""
    named = name.endswith(".yaml")
    path = Path(name) if named else config_file(f"profiles/{name}.yaml", configs)
    if not path.is_file():
        known = {p.stem for folder in (configs, CONFIGS) for p in folder.glob("profiles/*.yaml")}
        known = ", ".join(sorted(known)) or "none"
        raise UserError(f"--profile {name}: there is no {path}; known are {known}")
    content = read_mapping(path, ("summary", *KEYS))
    check_mappings(content, MAPPINGS, str(path))
    summary = content.pop("summary", "")
    return Profile(path.stem, summary, content, path)


@dataclass(frozen=True)
class RawSettings:
    """Settings as a mapping gives them, not yet resolved."""

    shared: dict  # of the files in configs/settings that its "extends" names
    own: dict  # its own keys, which take precedence

    @property
    def merged(self) -> dict:
        return merge(self.shared, self.own)


def load_raw(content: dict, configs: Path, where: str) -> RawSettings:
    """The raw settings of a mapping with :data:`KEYS` and ``extends``; ``where``: for messages."""
    check_mappings(content, MAPPINGS, where)
    names = content.get("extends") or []
    shared: dict = {}
    for name in [names] if isinstance(names, str) else names:
        path = config_file(f"settings/{name}.yaml", configs)
        if not path.is_file():
            raise UserError(f"{where}: extends {name}, but there is no {path}")
        layer = load_raw(read_mapping(path, ("extends", *KEYS)), configs, str(path))
        shared = merge(shared, layer.merged)
    return RawSettings(shared, {key: content[key] for key in KEYS if key in content})


def resolve(raw: dict, where: str) -> Settings:
    missing = [k for k in ("corpus", "train", "batch", "checkpoints", "generate") if k not in raw]
    if missing:
        raise UserError(f"{where}: no {', '.join(missing)}")
    for flag, instead in DERIVED.items():
        if flag in raw["train"]:
            raise UserError(f"{where}: train: {flag} follows from {instead}; leave it out")
    batch, checkpoints = raw["batch"], raw["checkpoints"]
    check_keys(batch, ("tokens", "per-device"), f"{where}: batch")
    counts = ("every", "average", "curve")
    check_keys(checkpoints, ("unit", *counts, "curve-on"), f"{where}: checkpoints")
    if raw.get("aligner") not in (None, *ALIGNERS):
        raise UserError(f"{where}: aligner: {raw['aligner']}; use {', '.join(ALIGNERS)}")
    if checkpoints.get("unit") not in ("update", "epoch", "best"):
        raise UserError(f"{where}: checkpoints: unit: use update, epoch or best")
    given = {"every": None, **checkpoints}
    for name, number in {
        **{f"batch: {key}": number for key, number in {"tokens": None, **batch}.items()},
        **{f"checkpoints: {key}": given[key] for key in counts if key in given},
        **{key: raw[key] for key in ("pairs", "subword-size") if raw.get(key) is not None},
    }.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise UserError(f"{where}: {name}: {number} is not a whole number above 0")
    settings = Settings(
        **{key: _flags(value) for key, value in raw.items() if key in FLAGS},
        **_fields({key: raw[key] for key in KEYS if key in raw and key not in MAPPINGS}),
        batch=Batch(**_fields(batch)),
        checkpoints=Checkpoints(**_fields(checkpoints)),
    )
    made = settings.checkpoints
    unit, every, average = made.unit, made.every, made.average
    if unit == "best" and average != 1:
        raise UserError(f"{where}: checkpoints: unit best evaluates one; leave average out")
    last = settings.train.get({"update": "max-update", "epoch": "max-epoch"}.get(unit))
    if last is not None and int(last) < every * average:
        raise UserError(
            f"{where}: {average} checkpoints {every} {unit}s apart are more than there will be by "
            f"{last}"
        )
    if not {"max-update", "max-epoch"} & settings.train.keys():
        raise UserError(f"{where}: train: give max-update or max-epoch")
    check_curve(settings, where)
    return settings


def check_curve(settings: Settings, where: str) -> None:
    """Check that the checkpoints of a curve are among those that are saved."""
    points, every = settings.checkpoints.curve, settings.checkpoints.every
    if settings.checkpoints.curve_on not in ("test", "valid"):
        raise UserError(f"{where}: checkpoints: curve-on: use test or valid")
    if not points:
        return
    if settings.checkpoints.unit == "epoch" or "max-update" not in settings.train:
        raise UserError(
            f"{where}: checkpoints: curve needs updates: a unit other than epoch, and "
            "train: max-update"
        )
    last = int(settings.train["max-update"])
    if last % points or (last // points) % every:
        raise UserError(
            f"{where}: checkpoints: curve: {points} checkpoints over {last} updates are not among "
            f"those saved every {every}"
        )


def _fields(mapping: dict) -> dict:
    return {key.replace("-", "_"): value for key, value in mapping.items()}


def _flags(flags: dict) -> dict:
    """Flags with their values; those set to null or false are removed."""
    # "is", since 0 == False, and a dropout of 0 must not become the default.
    return {key: value for key, value in flags.items() if value is not None and value is not False}
