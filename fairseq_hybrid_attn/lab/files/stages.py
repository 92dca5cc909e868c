"""Making files and folders step by step, each atomically, and only what has changed.

A stage is done once its stamp is written, so a killed run resumes at the first stage without one.
A stamp holds the stage's key (a digest of everything that its result depends on), and checksums of
what it was made from and of every file that it made.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from .checksums import digest, sha256
from .console import duration
from .deleting import delete
from .json_files import read_json, write_json

Say = Callable[[str], None]


@dataclass(frozen=True)
class Stage:
    """One step of the work.

    ``make`` is given the folder in which to make ``makes``: the output folder if ``in_place``, else
    a temporary one that has them as empty folders.  It returns facts about the result, as plain
    data.
    """

    name: str  # of the stamp
    title: str  # for display, as in "tokenising"
    makes: tuple[str, ...]  # paths within the output folder
    key: str  # digest of everything that the result depends on
    make: Callable[[Path], dict | None]
    needs: Sequence[Stage] = ()  # whose paths it reads
    in_place: bool = False


class Workshop:
    """Runs stages in an output folder.

    ``say`` reports each stage that is made, and why it is made again: when it begins or, if
    ``timed``, when it is done, with its time.  ``whole`` is a file that marks the output as
    complete; it is removed before anything is made.  Nothing outside of ``inside`` (the output
    folder) is ever deleted.
    """

    def __init__(
        self,
        output: Path,
        say: Say,
        whole: Path | None = None,
        timed: bool = False,
        inside: Path | None = None,
    ):
        self.output, self.say, self.timed = output, say, timed
        self._whole, self._stamps = whole, output / "stages"
        self._inside = inside or output

    def ensure(self, stage: Stage) -> dict:
        """Make a stage and what it needs, unless it is up to date; return its facts."""
        reason = self.why_stale(stage)
        if reason is None:
            return self.stamp(stage.name)["facts"]
        for needed in stage.needs:
            self.ensure(needed)
        return self._make(stage, reason)

    def why_stale(self, stage: Stage) -> str | None:
        """Why a stage must be made: None if it is up to date, "" if it was never made."""
        stamp = self.stamp(stage.name)
        if stamp is None:
            return ""
        if stamp["key"] != stage.key:
            return ", again: the recipe, the options or the input have changed"
        for name, checksum in self._materials(stage).items():
            if stamp["materials"].get(name) != checksum:
                return ", again: what it is made from has changed"
        for name, facts in stamp["files"].items():
            if not intact(self.output / name, facts):
                return f", again: {name} was changed or removed"
        return None

    def is_outdated(self, stage: Stage) -> bool:
        return self.why_stale(stage) is not None

    def stamp(self, name: str) -> dict | None:
        """The stamp of a stage; None if it is not done, or the stamp is damaged."""
        try:
            stamp = read_json(self._stamps / f"{name}.json")
        except UserError:
            return None
        whole = isinstance(stamp, dict) and {"key", "materials", "files", "facts"} <= stamp.keys()
        return stamp if whole else None

    def adopt(self, stages: Sequence[Stage]) -> None:
        """Accept what an earlier version made without stamps, up to the first missing stage."""
        if not self._stamps.exists():
            for stage in stages:
                if not all((self.output / path).exists() for path in stage.makes):
                    break
                self._stamp(stage, describe(self.output, stage.makes), {})

    def clear(self) -> None:
        """Remove partial results, of this run or of one that was killed."""
        for path in self.output.glob(".partial-*"):
            self._delete(path)

    def discard(self, stage: Stage) -> None:
        """Remove the folders of a stage whose result is no longer needed."""
        delete(self._stamps / f"{stage.name}.json", self._inside)
        for folder in stage.makes:
            self._delete(self.output / folder)

    def _delete(self, path: Path) -> None:
        with contextlib.suppress(OSError):  # what cannot be deleted is deleted the next time
            delete(path, self._inside)

    def remove_if_empty(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            (self.output / folder).rmdir()

    def _materials(self, stage: Stage) -> dict[str, str]:
        """A checksum of the files of each finished stage that a stage needs."""
        materials = {}
        for needed in stage.needs:
            stamp = self.stamp(needed.name)
            if stamp:
                files = {name: facts["sha256"] for name, facts in stamp["files"].items()}
                materials[needed.name] = digest(files)
        return materials

    def _make(self, stage: Stage, reason: str) -> dict:
        if not self.timed:
            self.say(stage.title + reason)
        started = time.monotonic()
        try:
            if self._whole is not None:
                delete(self._whole, self._inside)
            if stage.in_place:
                facts = stage.make(self.output) or {}
                self._stamp(stage, describe(self.output, stage.makes), facts)
            else:
                facts = self._make_apart(stage)
        except OSError as error:
            what = error.filename or self.output
            raise UserError(
                f"{stage.title}: {what} cannot be written: {error.strerror or error}"
            ) from error
        if self.timed:
            self.say(f"{stage.title}{reason}: done in {duration(time.monotonic() - started)}")
        return facts

    def _make_apart(self, stage: Stage) -> dict:
        """Make folders elsewhere, then move them.  The stamp is removed first and written last."""
        partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=self.output))
        try:
            for folder in stage.makes:
                (partial / folder).mkdir(parents=True)
            facts = stage.make(partial) or {}
            files = describe(partial, stage.makes)
            self._stamps.mkdir(exist_ok=True)  # first: it shows that the folder is ours
            delete(self._stamps / f"{stage.name}.json", self._inside)
            for folder in stage.makes:
                place = self.output / folder
                delete(place, self._inside)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.rename(partial / folder, place)
        finally:
            self._delete(partial)
        self._stamp(stage, files, facts)
        return facts

    def _stamp(self, stage: Stage, files: dict[str, dict], facts: dict) -> None:
        self._stamps.mkdir(exist_ok=True)
        materials = self._materials(stage)
        stamp = {"key": stage.key, "materials": materials, "files": files, "facts": facts}
        write_json(self._stamps / f"{stage.name}.json", stamp, sort_keys=True)


def describe(root: Path, paths: Sequence[str]) -> dict[str, dict]:
    """Flush every file in ``paths`` to disk; return its checksum, size and time."""
    files = {}
    for name in paths:
        inside = sorted((root / name).rglob("*")) if (root / name).is_dir() else [root / name]
        for path in inside:
            if path.is_file():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
                status = path.stat()
                files[path.relative_to(root).as_posix()] = {
                    "sha256": sha256(path),
                    "size": status.st_size,
                    "mtime_ns": status.st_mtime_ns,
                }
    return files


def intact(path: Path, facts: dict) -> bool:
    """Whether a file is unchanged; its content is read only if its time differs."""
    try:
        status = path.stat()
    except OSError:
        return False
    if status.st_size != facts["size"]:
        return False
    return status.st_mtime_ns == facts["mtime_ns"] or sha256(path) == facts["sha256"]
