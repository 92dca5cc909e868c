"""What is handed on names no folders of this machine."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FOLDERS = re.compile(r"(?<![\w./-])/(?:[^\s/]+/)*(?=[^\s/])")


def without_folders(content: Any, names: Mapping[str, str] | None = None) -> Any:
    """Plain data with the last part of each absolute path alone; ``names`` replace some paths."""
    known = "|".join(map(re.escape, names or {}))
    named = re.compile(rf"(?<![\w./-])({known})(?![\w.-])") if known else None

    def of(value: Any) -> Any:
        if isinstance(value, str):
            value = named.sub(lambda found: (names or {})[found[0]], value) if named else value
            return Path(value).name if value.startswith("/") else _FOLDERS.sub("", value)
        if isinstance(value, Namespace):
            return Namespace(**of(vars(value)))
        if isinstance(value, (list, tuple)):
            return list(map(of, value))
        if isinstance(value, dict):
            return {of(key): of(item) for key, item in value.items()}
        return value

    return of(content)
