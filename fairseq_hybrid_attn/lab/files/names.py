"""Names out of configurations, which become names of files and folders: one rule for all."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated

from .typed import matching

LONGEST = 120  # bytes; file systems take 255, and endings are added

#: Letters and digits of any script, but no combining or invisible characters.
_NAME = re.compile(r"\w(?:[\w .+=()-]*[\w+=()-])?")


def fault_of_name(name: str) -> str | None:
    """What is wrong with a name; None if it can name a file or folder."""
    if not _NAME.fullmatch(name) or unicodedata.normalize("NFC", name) != name:
        return (
            "use a name without slashes, of letters, digits and _ - + = ( ); spaces and dots only "
            "within it, and - not first"
        )
    return "use a shorter name" if len(name.encode()) > LONGEST else None


def fault_of_path(path: str) -> str | None:
    """What is wrong with a path within a folder, whose parts are names."""
    return next(filter(None, map(fault_of_name, path.split("/"))), None)


Name = Annotated[str, fault_of_name]
PathWithin = Annotated[str, fault_of_path]
_CODE = "use a language's code, such as de or zh_CN"
Language = Annotated[str, matching("[A-Za-z]{2,3}([-_][A-Za-z0-9]+)?", _CODE)]
