"""The curve of a training: the scores of its checkpoints, by updates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ...errors import UserError
from ..files.checkpoints import read_checkpoint, updates
from ..files.json_files import write_json
from ..files.writing import say
from ..scores.counts import Score
from ..scores.generate_output import read_generated
from ..scores.metrics import Metric
from .folder import RunFolder
from .results import as_stored

_EPOCH = re.compile(r"checkpoint\d+\.pt")


def write_curve(
    file: Path,
    subset: str,
    checkpoints: Mapping[int, Path],
    score: Callable[[int, Path], Mapping[str, Score]],
) -> None:
    """Score checkpoints on a set by a function of their updates and files."""
    points = sorted(checkpoints.items())
    curve = [{"updates": at, "scores": as_stored(score(at, path))} for at, path in points]
    write_json(file, {"curve": curve, "curve_set": subset})


def score_checkpoints(
    data: Path,
    checkpoints: Mapping[int, Path],
    output: Path,
    *,
    subset: str,
    references: list[str],
    metric: Metric,
    text: tuple[str, str, str],
    **how: Any,
) -> None:
    """Translate a set with each checkpoint, once, and score it; write ``curve.json``.

    ``text``: the kind of its subwords, tokeniser and language; ``how`` is as for
    :func:`.generate_command`.
    """
    from .translating import translated  # here: it imports torch, which takes seconds

    folder = RunFolder(output.resolve())

    def score(at: int, checkpoint: Path) -> dict[str, Score]:
        point = RunFolder(folder.path / str(at))
        _, generated = translated(data, checkpoint, subset, point, **how)
        found = metric.score(read_generated(generated, [references], *text)[0], references)
        say(f"update {at:,}: {metric.label} {found.value:.2f}")
        return {metric.name: found}

    write_curve(folder.curve, subset, checkpoints, score)


def find_checkpoints(folder: Path, every: int) -> dict[int, Path]:
    """The checkpoints at multiples of so many updates; those of epochs if there are no others."""
    from ...tasks.resumable import numbered_checkpoints  # here: it imports torch

    if not folder.is_dir():
        raise UserError(f"{folder}: there is no such folder")
    paths = numbered_checkpoints(folder)
    if not paths:
        epochs = [path for path in folder.iterdir() if _EPOCH.fullmatch(path.name)]
        paths = {updates(read_checkpoint(path)): path for path in epochs}
    if not paths:
        raise UserError(
            f"{folder} has no checkpoint_EPOCH_UPDATES.pt and no checkpointEPOCH.pt; train with "
            "--save-interval-updates N"
        )
    chosen = {at: path for at, path in paths.items() if at % every == 0}
    if not chosen:
        raise UserError(f"--every {every}: there are updates {', '.join(map(str, sorted(paths)))}")
    return chosen
