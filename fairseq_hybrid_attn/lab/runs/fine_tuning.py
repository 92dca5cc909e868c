"""Fine-tuning: a training on other text that begins with the weights of a trained model."""

from __future__ import annotations

import math
import re
from pathlib import Path

from fairseq.data import Dictionary

from ...errors import UserError
from ...tasks.resumable import DICTIONARIES, checksum_of_words
from ..config.settings import WEIGHTS_OF, Settings
from ..files.checkpoints import read_checkpoint
from ..models.trained import TrainedModel

#: A fine-tuning's updates, and its warm-up's, as a share: of the model's training, and of its own.
_SHARE = 0.1


def settings_from(trained: TrainedModel) -> dict:
    """The settings of a model's own run, as a file would have them, to train on your text.

    It is a tenth as long as the model's training, and goes on at the rate that this ended with.
    """
    if "train" not in trained.settings:
        raise UserError(f"--from {trained.checkpoint}: name a run, or a model that was exported")
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
