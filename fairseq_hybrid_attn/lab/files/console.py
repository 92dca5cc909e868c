"""What users see of runs in progress."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass
class Console:
    """Print messages; those of several runs do not mix."""

    lock: threading.Lock = field(default_factory=threading.Lock)

    def say(self, *lines: str) -> None:
        with self.lock:
            print(*lines, sep="\n", flush=True)


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
