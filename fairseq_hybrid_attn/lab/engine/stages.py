"""Making folders step by step, each whole or not at all, and only when something has changed.

A stage makes one folder or several.  They are made in a folder of their own and moved to their
places when whole; then the stage's stamp is written.  Without its stamp nothing counts, so
that a run that was killed goes on with the first stage that has none.

The stamp keeps the stage's key, a digest of all that its result depends on, and checksums of
what it was made of and of every file that it made.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import UserError
from ..files.checksums import digest, sha256
from ..files.json_files import as_json
from ..files.writing import atomic_write

Say = Callable[[str], None]


@dataclass(frozen=True)
class Stage:
    """One step of the work.

    Args:
        name: of the stamp.
        title: for people, as in "tokenising".
        folders: what it makes, within the output folder.
        key: digest of everything that the result depends on.
        make: is given the folder in which to make ``folders`` (they exist, empty); returns
            what there is to know about the result, as plain data.
        needs: the stages whose folders it reads.
    """

    name: str
    title: str
    folders: tuple[str, ...]
    key: str
    make: Callable[[Path], dict]
    needs: Sequence[Stage] = field(default=())


class Workshop:
    """Runs stages in an output folder.

    Args:
        output: the folder.
        say: is told which stage is done, and why if again.
        whole: a file that says that everything is there; removed before anything is made.
    """

    def __init__(self, output: Path, say: Say, whole: Path):
        self.output, self.say, self._whole = output, say, whole
        self._stamps = output / "stages"

    def ensure(self, stage: Stage) -> dict:
        """Have the result of a stage, making it and what it needs if it is not there.

        Returns:
            what there is to know about the result.

        Raises:
            UserError: if it cannot be made.
        """
        stamp = self.stamp(stage.name)
        reason = self._outdated(stage, stamp)
        if reason is None:
            return stamp["facts"]
        for needed in stage.needs:
            self.ensure(needed)
        self.say(stage.title + reason)
        return self._make(stage)

    def stamp(self, name: str) -> dict | None:
        """What a stage left when it was done; None if it was not, or the stamp is damaged."""
        try:
            stamp = json.loads((self._stamps / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        whole = isinstance(stamp, dict) and {"key", "materials", "files", "facts"} <= stamp.keys()
        return stamp if whole else None

    def clear(self) -> None:
        """Remove what is half made, of this run or of one that was killed."""
        for path in self.output.glob(".partial-*"):
            shutil.rmtree(path, ignore_errors=True)

    def is_outdated(self, stage: Stage) -> bool:
        """Whether a stage has to be done."""
        return self._outdated(stage, self.stamp(stage.name)) is not None

    def remove_if_empty(self, folder: str) -> None:
        """Remove a folder that has nothing in it any more."""
        with contextlib.suppress(OSError):
            (self.output / folder).rmdir()

    def discard(self, stage: Stage) -> None:
        """Remove the folders of a stage whose result is needed no more."""
        path = self._stamps / f"{stage.name}.json"
        path.unlink(missing_ok=True)
        for folder in stage.folders:
            shutil.rmtree(self.output / folder, ignore_errors=True)

    def _outdated(self, stage: Stage, stamp: dict | None) -> str | None:
        """Why a stage has to be done: None if it has not, nothing to say if it never was."""
        if stamp is None:
            return ""
        if stamp["key"] != stage.key:
            return ", again: the recipe, the options or the input have changed"
        for name, checksum in self._materials(stage).items():
            if stamp["materials"].get(name) != checksum:
                return ", again: what it is made of has changed"
        for name, facts in stamp["files"].items():
            if not intact(self.output / name, facts):
                return f", again: {name} is not as it was made"
        return None

    def _materials(self, stage: Stage) -> dict[str, str]:
        """A checksum of what is there of each of the stages that a stage needs."""
        materials = {}
        for needed in stage.needs:
            stamp = self.stamp(needed.name)
            if stamp:
                files = {name: facts["sha256"] for name, facts in stamp["files"].items()}
                materials[needed.name] = digest(files)
        return materials

    def _make(self, stage: Stage) -> dict:
        partial = None
        try:
            self._whole.unlink(missing_ok=True)
            partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=self.output))
            for folder in stage.folders:
                (partial / folder).mkdir(parents=True)
            facts = stage.make(partial)
            stamp = {
                "key": stage.key,
                "materials": self._materials(stage),
                "files": describe(partial, stage.folders),
                "facts": facts,
            }
            self._put_in_place(stage, partial, stamp)
        except OSError as error:
            what = error.filename or self.output
            raise UserError(
                f"{stage.title}: {what} cannot be written: {error.strerror or error}"
            ) from error
        finally:
            if partial:
                shutil.rmtree(partial, ignore_errors=True)
        return facts

    def _put_in_place(self, stage: Stage, partial: Path, stamp: dict) -> None:
        """Move what was made; the old stamp goes first and the new one comes last."""
        path = self._stamps / f"{stage.name}.json"
        self._stamps.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        for folder in stage.folders:
            place = self.output / folder
            if place.exists():
                shutil.rmtree(place)
            place.parent.mkdir(parents=True, exist_ok=True)
            os.rename(partial / folder, place)
        with atomic_write(path) as file:
            file.write(as_json(stamp, sort_keys=True))


def describe(root: Path, folders: Sequence[str]) -> dict[str, dict]:
    """Every file in ``folders`` with its checksum, size and time of change, on disk for sure."""
    files = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                _to_disk(path)
                status = path.stat()
                files[path.relative_to(root).as_posix()] = {
                    "sha256": sha256(path),
                    "size": status.st_size,
                    "mtime_ns": status.st_mtime_ns,
                }
    return files


def intact(path: Path, facts: dict) -> bool:
    """Whether a file is as it was made; its text is looked at only if its time differs."""
    try:
        status = path.stat()
    except OSError:
        return False
    if status.st_size != facts["size"]:
        return False
    return status.st_mtime_ns == facts["mtime_ns"] or sha256(path) == facts["sha256"]


def _to_disk(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
