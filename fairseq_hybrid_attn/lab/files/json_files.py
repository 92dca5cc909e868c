"""JSON files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import UserError
from .text import read_lines
from .writing import write_text


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


def read_written(what: str, path: Path, command: str, use: Callable[[Any], object]) -> dict:
    """Read what one of our commands wrote; refuse a file that is of no use.

    ``what`` it is: for messages.  ``use`` takes from the content whatever will be taken.
    """
    try:
        content: Any = parse_json(path)
        use(content)
    except UserError:
        raise
    except Exception as error:  # whatever comes of a file of another kind
        raise UserError(f"{what} was not written by `{command}`") from error
    return content


def write_json(path: Path, content: object, sort_keys: bool = False) -> None:
    """Write plain data to a JSON file atomically."""
    text = json.dumps(content, indent=2, ensure_ascii=False, sort_keys=sort_keys)
    write_text(path, f"{text}\n")
