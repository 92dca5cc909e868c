"""JSON files."""

from __future__ import annotations

import json
from pathlib import Path

from ...errors import UserError
from .writing import atomic_write


def read_json(path: Path) -> dict | None:
    """Read a JSON file; None if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); delete it and run again") from None


def as_json(content: object, sort_keys: bool = False) -> bytes:
    """Return plain data as this package writes it to JSON files."""
    text = json.dumps(content, indent=2, ensure_ascii=False, sort_keys=sort_keys)
    return f"{text}\n".encode()


def write_json(path: Path, content: object, sort_keys: bool = False) -> None:
    """Write a JSON file atomically."""
    with atomic_write(path) as file:
        file.write(as_json(content, sort_keys))
