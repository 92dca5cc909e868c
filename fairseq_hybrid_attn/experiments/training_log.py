"""Reading the log of fairseq-train (``--log-format json``)."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ..errors import UserError

_PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
#: As much of the end of a log as surely holds its last record.
_TAIL = 65536


def parameters(log: Path) -> int:
    """The number of a model's parameters, shared ones counted once.

    Raises:
        UserError: if the log does not say.
    """
    found = _PARAMETERS.findall(log.read_text(encoding="utf-8", errors="replace"))
    if not found:
        raise UserError(f"{log} does not tell the number of parameters; is it fairseq-train's?")
    return int(found[-1].replace(",", ""))


def last_record(log: Path) -> dict | None:
    """The last record of training (``num_updates``, ``loss``, ``ups`` ...), if there is one."""
    try:
        with open(log, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL))
            tail = file.read().decode("utf-8", errors="replace")
    except OSError:
        return None
    for line in reversed(tail.split("\n")):
        _, found, record = line.partition("| train_inner | ")
        if found:
            try:
                return json.loads(record)
            except ValueError:  # not written to its end yet
                continue
    return None
