"""Fine-tuning: a training on other text that begins with the weights of a trained model."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from pathlib import Path

from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY

from ...errors import UserError
from ...models.config import FlatTransformerConfig, OurSettings
from ...tasks.resumable import DICTIONARIES, checksum_of_words
from ..config.settings import WEIGHTS_OF, Settings
from ..files.checkpoints import read_checkpoint
from ..models.trained import TrainedModel, how_to_export
from .checks import parsed
from .fairseq_commands import flags

#: Settings of the task.
_LIMITS = ("max_source_positions", "max_target_positions")
#: A fine-tuning's updates, and its warm-up's, as a share: of the model's training, and of its own.
_SHARE = 0.1


def settings_from(trained: TrainedModel) -> dict:
    """The settings of a model's own run, as a file would have them, to train on your text.

    It is a tenth as long as the model's training, and goes on at the rate that this ended with.
    """
    if "train" not in trained.settings:
        raise UserError(f"--from {trained.path}: {how_to_export(trained.checkpoint)}")
    before = Settings.of_dict(trained.settings)
    train = {**before.train, WEIGHTS_OF: str(trained.checkpoint.resolve())}
    train["lr"] = last_rate(before)
    if before.epochs:
        train["max-epoch"] = max(1, round(_SHARE * before.epochs))
    if before.updates:
        updates = max(1, round(_SHARE * before.updates))
        warm_up = max(1, round(_SHARE * updates))
        lengths = {"max-update": updates, "total-num-update": updates, "warmup-updates": warm_up}
        train |= {flag: length for flag, length in lengths.items() if flag in train}
    made = before.checkpoints
    every = made.every if made.unit == "epoch" else max(1, round(_SHARE * made.every))
    return {
        "corpus": "own",
        "train": train,
        "batch": {"tokens": before.batch.tokens, "per-device": before.batch.per_device},
        "checkpoints": {"unit": made.unit, "every": every, "average": made.average},
        "generate": before.generate,
    }


def of_architecture(before: dict, arch: str, given: dict) -> tuple[dict, list[str]]:
    """The flags that train ``arch`` from a model of another architecture.

    Sizes come from the model.  Flags of the new architecture alone take its defaults, unless they
    are ``given``.  The second result lists the values that differ from the model's, for display.
    """
    theirs, named = _values(before)
    dropped = {flag: None for flag in before if _key(flag) in named}
    train = {**before, **dropped, **given, "arch": arch}
    plain = {flag: value for flag, value in train.items() if value is not None}
    ours, new = _values(plain)
    stock = {one.name for one in fields(FlatTransformerConfig)} - {*_LIMITS}
    for key in sorted(stock & theirs.keys()):
        value, flag = theirs[key], key.replace("_", "-")
        if value not in (None, False, ours.get(key)) and flag not in given:
            train[flag] = str(value) if isinstance(value, (list, tuple)) else value
    pairs = {key: (ours.get(key) or "none", theirs.get(key) or "none") for key in named | new}
    changed = [
        f"{key.replace('_', '-')} {now} (the model: {then})"
        for key, (now, then) in sorted(pairs.items())
        if now != then
    ]
    return {flag: value for flag, value in train.items() if before.get(flag) != value}, changed


def _values(train: dict) -> tuple[dict[str, object], set[str]]:
    """All settings of a training's model, and which are not fairseq's own Transformer's."""
    args = parsed("fairseq-train", *flags(train))
    kind = MODEL_DATACLASS_REGISTRY.get(args.arch)
    if kind is None:
        return vars(args), set()
    values = {one.name: one.default for one in fields(kind) if "$" not in str(one.default)}
    shared = {one.name for of in (FlatTransformerConfig, OurSettings) for one in fields(of)}
    return {**values, **vars(args)}, {one.name for one in fields(kind)} - shared


def _key(flag: str) -> str:
    return flag.replace("-", "_")


def last_rate(settings: Settings) -> float:
    """The learning rate that a training ends with, or a tenth of its highest where that is low."""
    train, updates = settings.train, settings.updates
    highest, warm_up = float(str(train["lr"])), float(train.get("warmup-updates") or 0)
    last = _SHARE * highest
    if train.get("lr-scheduler") == "inverse_sqrt" and updates and warm_up:
        last = highest * min(1.0, math.sqrt(warm_up / updates))
    return float(f"{last:.2g}")


def name_of(trained: TrainedModel) -> str:
    """What a model is called: its folder, a run by its row and seed."""
    folder = trained.checkpoint.resolve().parent
    name = folder.name
    if (folder / "result.json").exists():
        name = f"{folder.parents[1].name}.{name}"
    return re.sub(r"[^\w.+=-]", "-", name).lstrip(".-")


def check_dictionaries(model: Path, data: Path, languages: tuple[str, str]) -> None:
    """Refuse a model whose dictionaries are not those of the data, if it says which it has."""
    known = (read_checkpoint(model).get("task_state") or {}).get(DICTIONARIES, {})
    for language in languages:
        path = data / f"dict.{language}.txt"
        checksum = checksum_of_words(Dictionary.load(str(path)).symbols)
        if known.get(language, checksum) != checksum:
            raise UserError(
                f"{path}: the words are not those of the model {model}; --from prepares text with "
                "a model's own"
            )
