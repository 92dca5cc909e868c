"""Show the progress of fairseq-train (--log-format json), read from standard input.

Everything goes to a log file; now and then a line goes to standard output.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

SECONDS_BETWEEN_LINES = 10


class Progress:
    """Turns fairseq's log lines into lines of progress.

    Args:
        updates: how many the training will have.
    """

    def __init__(self, updates: int):
        self.updates = updates
        self.valid_loss = "-"

    def line(self, log_line: str) -> str | None:
        """The line to show for a line of the log, if any."""
        for tag in ("train_inner", "valid"):
            _, found, rest = log_line.partition(f"| {tag} | ")
            if found and rest.startswith("{"):
                return self._show(tag, json.loads(rest))
        return None

    def _show(self, tag: str, record: dict) -> str | None:
        if tag == "valid":
            self.valid_loss = record["valid_loss"]
            return None
        done, speed = int(record["num_updates"]), float(record["ups"])
        left = int((self.updates - done) / speed) if speed else 0
        return (
            f"   update {done:5}/{self.updates}   training loss {float(record['loss']):6.3f}   "
            f"validation loss {self.valid_loss:>6}   {left // 60}:{left % 60:02} min left"
        )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, required=True, help="file to append to")
    parser.add_argument("--updates", type=int, required=True, help="updates of the training")
    arguments = parser.parse_args()

    progress = Progress(arguments.updates)
    shown = 0.0
    with arguments.log.open("a", encoding="utf-8") as log:
        try:
            for log_line in sys.stdin:
                log.write(log_line)
                log.flush()
                line = progress.line(log_line)
                if line and time.monotonic() - shown >= SECONDS_BETWEEN_LINES:
                    print(line, flush=True)
                    shown = time.monotonic()
        except KeyboardInterrupt:
            sys.exit(130)


if __name__ == "__main__":
    main()
