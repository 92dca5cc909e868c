"""Translate a set by fairseq-generate, once: the same command on the same files is not repeated."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...errors import UserError
from ..files.checksums import sha256
from ..files.deleting import delete
from ..files.json_files import read_json, write_json
from ..files.processes import run_program
from ..look.loaded import note
from ..runs.fairseq_commands import RunFolder


def translated(command: list[str], data: Path, model: Path, subset: str, folder: RunFolder) -> Path:
    """The output of a ``command`` that translates a set into a folder, kept or made."""
    output, record = folder.generated(subset), folder.translation / "made-from.json"
    made_from = {
        "command": command,
        "sha256": {str(path): sha256(path) for path in [model, *_files_of(data, subset)]},
    }
    if not (output.is_file() and _read(record) == made_from):
        delete(record, inside=folder.path)  # first: a translation that is killed is not whole
        log = folder.log("translate")
        note(f"translating {subset} with {model}; its log is {log}")
        try:
            run_program(command, log)
        except UserError as error:
            raise UserError(f"{model}: {error}\n   Full log: {log}") from None
        write_json(record, made_from)
    return output


def _files_of(data: Path, subset: str) -> Iterable[Path]:
    return sorted(p for p in data.iterdir() if p.name.startswith((f"{subset}.", "dict.")))


def _read(record: Path) -> object:
    try:
        return read_json(record)
    except UserError:  # damaged: the set is translated again
        return None
