"""Translate a set by fairseq-generate, once: the same command on the same files is not repeated."""

from __future__ import annotations

from pathlib import Path

from ...errors import UserError
from ..files.checksums import digest, sha256
from ..files.processes import run_program
from ..files.stages import Stage, Stages
from ..look import outputs
from ..look.loaded import note
from ..runs.fairseq_commands import RunFolder


def translated(command: list[str], data: Path, model: Path, subset: str, folder: RunFolder) -> Path:
    """The output of a ``command`` that translates a set into a folder, kept or made."""
    log = folder.log("translate")
    read = [model, *data.glob(f"{subset}.*"), *data.glob("dict.*")]
    key = digest({"command": command, "sha256": {str(path): sha256(path) for path in read}})

    def make(_: Path) -> None:
        try:
            run_program(command, log)
        except UserError as error:
            raise UserError(f"{model}: {error}\n   Full log: {log}") from None

    title = f"{log}: translating {subset} with {model}"
    makes = (f"{folder.translation.name}/{folder.generated(subset).name}",)
    outputs.make_folder("the folder of translations", folder.path)
    Stages(folder.path, note).ensure(Stage("translate", title, makes, key, make, in_place=True))
    return folder.generated(subset)
