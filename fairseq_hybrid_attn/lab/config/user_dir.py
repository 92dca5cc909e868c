"""A folder of the user's, whose models and tasks are registered (``--user-dir``)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

from ...errors import UserError


def import_user_dir(folder: Path | None) -> Path | None:
    """Import the folder of ``--user-dir``, if there is one; return its absolute path.

    Only what the user types is imported.  A checkpoint may name a folder as well, but it is data,
    and must not decide which code runs.
    """
    if folder is None:
        return None
    folder = Path(os.path.abspath(folder))  # without .., as fairseq has it
    if not folder.is_dir():
        raise UserError(f"--user-dir {folder}: there is no such folder")
    if not folder.name or "." in folder.name:
        raise UserError(f"--user-dir {folder}: Python cannot import a folder of that name")
    from ... import models  # noqa: F401  (ours first: the user's may extend them)

    loaded = sys.modules.get(folder.name)
    if loaded is not None and str(folder) not in getattr(loaded, "__path__", ()):
        raise UserError(
            f"--user-dir {folder}: Python has already imported another {folder.name}; rename it"
        )
    from fairseq.utils import import_user_module

    import_user_module(SimpleNamespace(user_dir=str(folder)))
    return folder
