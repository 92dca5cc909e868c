"""Deleting contents of a workspace, and nothing else: every deletion goes through here."""

from __future__ import annotations

import shutil
from pathlib import Path

from ...errors import UserError


def delete(path: Path, inside: Path) -> None:
    """Delete a file, a folder, or a link (not what it leads to), if there is one, in a folder.

    Wherever names and links lead, nothing is deleted that is not below ``inside``.
    """
    check_inside(path, inside)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_inside(path: Path, inside: Path) -> None:
    if path.name in ("", "..") or not path.parent.resolve().is_relative_to(inside.resolve()):
        raise UserError(
            f"{path} is {path.resolve()}, outside of {inside}, where nothing is deleted; delete it "
            "yourself if it is not needed"
        )
