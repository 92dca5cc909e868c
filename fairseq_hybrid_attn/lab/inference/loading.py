"""Loading a model for a command: where it cannot be loaded, the message says what is wrong.

fairseq fails in many places, of each foreign checkpoint in another, and tells programmers rather
than users.  What is wrong is looked for only then, so that loading costs nothing more.
"""

from __future__ import annotations

from pathlib import Path

from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from torch import nn

from ...errors import UserError
from ..files.checkpoints import architecture, read_checkpoint, setting
from .sentences import load_model

#: Each side's embedding among a model's weights, by the side's setting.
_EMBEDDINGS = {
    "source_lang": "encoder.embed_tokens.weight",
    "target_lang": "decoder.embed_tokens.weight",
}


def load(path: Path, data: Path, **languages: str | None) -> tuple[nn.Module, object]:
    """A model, in evaluation mode, and its task.

    Args:
        path: its checkpoint.
        data: the folder with its dictionaries.
        languages: ``source_lang`` and ``target_lang``, where they are not as in the checkpoint.

    Raises:
        UserError: if it cannot be loaded, saying why.
    """
    try:
        return load_model(path, data, **languages)
    except UserError as error:
        fault = _fault(path, data, languages) if path.is_file() else None
        if fault is None:
            raise
        raise UserError(f"--path {path}: {fault}") from error


def _fault(path: Path, data: Path, languages: dict[str, str | None]) -> str | None:
    """What is wrong with a checkpoint or its data; None if it is nothing that is known here."""
    if not data.is_dir():
        return f"there is no folder {data} with its dictionaries"
    try:
        state = read_checkpoint(path)
    except UserError as error:
        return str(error)
    settings = state.get("cfg") or state.get("args")
    if not (setting(settings, "model") or setting(settings, "arch")):
        return "it is no checkpoint of fairseq's: it has weights, but no settings of its model"
    arch = architecture(state)
    if arch not in ARCH_MODEL_REGISTRY and arch not in MODEL_REGISTRY:
        return (
            f"its architecture {arch} is registered neither by fairseq nor by this package, so it "
            "cannot be built"
        )
    task = setting(settings, "task") if isinstance(settings, dict) else settings
    for side, name in _EMBEDDINGS.items():
        language = languages.get(side) or setting(task, side)
        if not language:
            continue
        file = data / f"dict.{language}.txt"
        if not file.is_file():
            there = ", ".join(sorted(one.name for one in data.glob("dict.*.txt"))) or "none"
            return f"there is no dictionary {file} (there: {there}); name the folder of its data"
        known, weight = len(Dictionary.load(str(file))), state["model"].get(name)
        if weight is not None and len(weight) != known:
            return (
                f"it knows {len(weight):,} subwords, {file} has {known:,} (each with fairseq's own "
                "symbols); name the folder of its data"
            )
    return None
