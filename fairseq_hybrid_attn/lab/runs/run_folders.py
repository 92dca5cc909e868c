"""The folder of a run: held by one process, begun once, repaired after a kill."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import is_zipfile

from ...errors import UserError
from ..engine.programs import Programs, Stopped
from ..files.json_files import write_json
from ..files.writing import atomic_write
from .results import changes, identity, products, read_begun
from .workspace import Run


@contextlib.contextmanager
def locked(path: Path, programs: Programs, say: Callable[[str], None]) -> Iterator[int]:
    """Hold a run's folder; wait while another process, perhaps on another node, holds it.

    Yields:
        the descriptor of the lock; a process that has it holds the folder.
    """
    with open(path, "a") as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    say("another process is at work on it; waiting for its end")
                    told = True
                if programs.stopped.wait(1):
                    raise Stopped from None
        yield file.fileno()


def begin(run: Run, world: int) -> None:
    """Note what a run is begun with, or see to it that this has not changed.

    Raises:
        UserError: see :func:`check_begun`.
    """
    check_begun(run, world)
    if not run.folder.begun.exists():
        content = {
            "identity": identity(run),
            "world": world,
            "settings": run.settings.as_dict(),
        }
        write_json(run.folder.begun, content)


def check_begun(run: Run, world: int) -> None:
    """See to it that a run that was begun is gone on with as it was begun.

    Args:
        run: the run.
        world: processes that are to train together.

    Raises:
        UserError: if its settings or its data have changed; its code may have, which the
            result will tell.
        UserError: if something of it is there, and nobody knows what it was begun with.
    """
    folder = run.folder
    made = products(folder)  # looked for first: another process may be at its beginning
    begun = read_begun(folder.begun)
    if begun is None:
        if made:
            raise UserError(
                f"{made[0]} is there, but not {folder.begun.name}, which tells what it was begun "
                "with. With --redo-stale it is done again from its beginning"
            )
        return
    changed = [what for what in changes(run, begun["identity"]) if what != "code"]
    if changed and not folder.result.exists():
        raise UserError(
            f"{run.name} was begun with other {' and '.join(changed)} (see {folder.begun}). "
            "With --redo-stale it is done again from its beginning"
        )
    if begun.get("world") != world and not folder.trained.exists() and folder.checkpoints.exists():
        raise UserError(
            f"{run.name} was begun on {begun.get('world')} devices. A checkpoint counts what each "
            f"of them has read, so it cannot go on on {world}; use as many again, or delete "
            f"{folder.path}"
        )


def forget(run: Run) -> None:
    """Delete a run, so that it can be done again from its beginning.

    Raises:
        UserError: if another process is at work on it.
    """
    if not run.folder.path.exists():
        return
    with open(run.folder.lock, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{run.name}: another process is at work on it") from None
        # Cut off in between, what is left is neither a result nor gone on with: it says that it was
        # begun with nothing that there is, up to its end.
        folder = run.folder
        with contextlib.suppress(UserError):  # a full disk is no reason not to delete
            write_json(folder.begun, {"identity": {}, "world": 0})
        folder.result.unlink(missing_ok=True)
        for path in folder.path.iterdir():
            if path in (folder.lock, folder.begun):  # who waits for the lock holds this very file
                continue
            if path == folder.checkpoints and path.is_symlink():  # a disk of the user's choice
                for inside in path.iterdir():
                    inside.unlink()
            elif path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        folder.begun.unlink(missing_ok=True)


def repair(checkpoints: Path) -> list[Path]:
    """Remove checkpoints that a kill has cut off, and have checkpoint_last.pt be a whole one.

    fairseq writes a numbered checkpoint, then copies it to checkpoint_last.pt; killed
    meanwhile, it leaves half a file under that name.

    Returns:
        what was removed.
    """
    for temporary in checkpoints.glob("*.tmp"):
        temporary.unlink()
    broken = [path for path in checkpoints.glob("*.pt") if not is_zipfile(path)]
    for path in broken:
        path.unlink()
    last = checkpoints / "checkpoint_last.pt"
    whole = sorted(checkpoints.glob("checkpoint[_0-9]*.pt"), key=lambda path: path.stat().st_mtime)
    whole = [path for path in whole if path.stem not in ("checkpoint_last", "checkpoint_best")]
    if not last.exists() and whole:
        with atomic_write(last) as file, open(whole[-1], "rb") as newest:
            shutil.copyfileobj(newest, file)
    return broken
