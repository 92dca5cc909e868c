"""JSON files."""

from __future__ import annotations

import json
from pathlib import Path

from ...errors import UserError
from .text import read_lines
from .writing import atomic_write


def read_json(path: Path) -> dict | None:
    """Read a JSON file; None if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read ({error}); delete it and run again") from None


def parse_json(path: Path) -> object:
    """Read a file that the user names, which must exist; a JSONDecodeError if it is not JSON."""
    try:
        return json.loads("\n".join(read_lines(path)))
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:  # thousands of digits, or of brackets
        raise UserError(f"{path} cannot be read ({error})") from None


def read_written(what: str, path: Path, command: str, keys: set[str]) -> dict:
    """Read what one of our commands wrote, which has these keys; ``what``: for messages."""
    try:
        content = parse_json(path)
    except json.JSONDecodeError:
        content = None
    if not (isinstance(content, dict) and keys <= content.keys()):
        raise UserError(f"{what} was not written by `{command}`")
    return content


def write_json(path: Path, content: object, sort_keys: bool = False) -> None:
    """Write plain data to a JSON file atomically."""
    text = json.dumps(content, indent=2, ensure_ascii=False, sort_keys=sort_keys)
    with atomic_write(path) as file:
        file.write(f"{text}\n".encode(errors="backslashreplace"))  # names of files may be Latin-1
