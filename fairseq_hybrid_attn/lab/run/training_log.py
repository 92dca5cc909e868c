"""Reading the log of fairseq-train: what it printed, with ``--log-format`` json or simple."""

from __future__ import annotations

import contextlib
import json
import math
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import UserError

_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
_TAIL = 65536  # bytes at the end of a log, enough to hold its last record

# fairseq's commands write "time | INFO | name | message", fairseq-hydra-train "[time][name][INFO] -
# message".
_LINE = re.compile(r"(?:.*?\| INFO \| (\S+) \| |\[[^]]*\]\[([^]]+)\]\[INFO\] - )(.*)")
_RESUMED = re.compile(r"Loaded checkpoint .* \(epoch \d+ @ (\d+) updates\)")
_BEGUN = "No existing checkpoint found "
# The simple format: of training "loss=1.2, ppl=3.4", of validation "loss 1.2 | ppl 3.4".
_INNER = re.compile(r"epoch \d+: +\d+ / \d+ (.*)")
_VALID = re.compile(r"epoch \d+ \| valid on '([^']*)' subset \| (.*)")
TRAINING = "train_inner"

Records = dict[int, dict[str, float]]  # from the number of updates to values by name


@dataclass
class TrainingLog:
    """The records of a training run, in the order of their updates."""

    # Means over the updates since the previous record: loss, ppl, lr, ….
    training: Records = field(default_factory=dict)
    # By validation set: loss, ppl, bleu with --eval-bleu, ….
    validation: dict[str, Records] = field(default_factory=dict)

    def add(self, kind: str, updates: int, values: dict[str, float]) -> None:
        """Add a record; where training went back to a checkpoint, the later record counts."""
        records = self.training if kind == TRAINING else self.validation.setdefault(kind, {})
        if records and updates < next(reversed(records)):
            self.drop_after(updates - 1)
        records[updates] = values

    def drop_after(self, after: int) -> None:
        """Drop the records after a number of updates: training was resumed there."""
        for records in (self.training, *self.validation.values()):
            for updates in [updates for updates in records if updates > after]:
                del records[updates]


def read_log(path: Path) -> TrainingLog:
    """Read all records of a log; refuse a file that has none.

    Training that was resumed at a checkpoint logs some updates twice: the later record counts.
    Values may be infinite or NaN.  Other lines, and lines that are cut off, are skipped.
    """
    log = TrainingLog()
    for line in _text(path).split("\n"):
        if not (parts := _LINE.match(line)):
            continue
        kind, message = parts[1] or parts[2], parts[3]
        if resumed := _RESUMED.match(message):
            log.drop_after(int(resumed[1]))
        elif message.startswith(_BEGUN):
            log.drop_after(0)
        elif record := _record(kind, message):
            log.add(*record)
    if not (log.training or log.validation):
        raise UserError(
            f"{path} has no training records; give what fairseq-train printed, with "
            "--log-format json (its --log-file does not say what its records are of)"
        )
    return log


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")  # its last character may be cut off
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def _record(kind: str, message: str) -> tuple[str, int, dict[str, float]] | None:
    """Return kind, updates and values of a line; None if it is not a record."""
    if message.startswith("{"):
        try:
            record = json.loads(message)
        except (ValueError, RecursionError):  # another line, or an incomplete one
            return None
        mark = "" if kind == TRAINING else f"{kind}_"  # valid_loss, of the set "valid"
        texts = {name.removeprefix(mark): value for name, value in record.items()}
        if f"{mark}num_updates" not in record or kind == "train":
            return None
    elif kind == TRAINING and (inner := _INNER.fullmatch(message)):
        texts = dict(part.split("=", 1) for part in inner[1].split(", ") if "=" in part)
    elif valid := _VALID.fullmatch(message):
        kind = valid[1]
        texts = dict(part.split(" ", 1) for part in valid[2].split(" | ") if " " in part)
    else:
        return None
    values = {name: number for name, text in texts.items() if (number := _number(text)) is not None}
    updates = values.get("num_updates")
    if updates is None or not math.isfinite(updates):
        return None
    return kind, int(updates), values


def _number(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def parameters(log: Path) -> int:
    counts = _PARAMETERS.findall(_text(log))
    if not counts:
        raise UserError(f"{log} does not state the number of parameters; is it from fairseq-train?")
    return int(counts[-1].replace(",", ""))


def last_record(log: Path) -> dict | None:
    """Return the last record of training (``num_updates``, ``loss``, ``ups``, …), if any."""
    try:
        with open(log, "rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            tail = file.read().decode("utf-8", errors="replace")
    except OSError:
        return None
    for record in reversed(re.findall(r"\| train_inner \| (.*)", tail)):
        with contextlib.suppress(ValueError):  # still incomplete
            return json.loads(record)
    return None


def progress_line(record: dict, updates: int | None) -> str:
    done, speed = int(record["num_updates"]), float(record["ups"])
    line = f"update {done}" + (f"/{updates}" if updates else f", epoch {record['epoch']}")
    line += f", loss {float(record['loss']):.3f}"
    if updates and speed:
        line += f", {duration(max(0, updates - done) / speed)} of training left"
    return line


def duration(seconds: float) -> str:
    seconds = round(seconds)
    if seconds >= 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60} min"
    return f"{seconds // 60}:{seconds % 60:02} min"
