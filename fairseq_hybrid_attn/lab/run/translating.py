"""Translate a set by fairseq-generate, once: the same command on the same files is not repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import UserError
from ..files.checksums import digest, sha256
from ..files.processes import run_program
from ..files.stages import Stage, Stages
from ..files.writing import make_folder
from ..models.on_text import note
from .fairseq_commands import generate_command
from .folder import RunFolder


def translated(
    data: Path, model: Path, subset: str, folder: RunFolder, **how: Any
) -> tuple[list[str], Path]:
    """The command that translates a set into a folder, and its output, kept or made.

    ``how`` is as for :func:`.generate_command`.
    """
    data, model, log = data.resolve(), model.resolve(), folder.log("translate")
    command = generate_command(data, model, subset, folder.translation, **how)
    read = [model, *data.glob(f"{subset}.*"), *data.glob("dict.*")]
    key = digest({"command": command, "sha256": {str(path): sha256(path) for path in read}})

    makes = folder.translation.name

    def make(partial: Path) -> None:
        try:
            run_program(generate_command(data, model, subset, partial / makes, **how), log)
        except UserError as error:
            raise UserError(f"{model}: {error}") from None

    output = folder.generated(subset)
    title = f"{log}: translating {subset} with {model}"
    make_folder("the folder of translations", folder.path)
    Stages(folder.path, note).ensure(Stage("translate", title, (makes,), key, make))
    return command, output
