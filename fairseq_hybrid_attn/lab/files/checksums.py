"""Checksums of files and of plain data."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ...errors import UserError


def sha256(path: Path) -> str:
    found = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                found.update(block)
            return found.hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def digest(data: object) -> str:
    """The sha256 of plain data, in hexadecimal."""
    text = json.dumps(data, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()
