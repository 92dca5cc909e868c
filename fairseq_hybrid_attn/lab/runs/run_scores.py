"""The scores of a run, under the names by which tables ask for them.

bleu, chrf, bleu.NAME …  of translations, as `score` names them; NAME is a test set
aer                      alignment error rate, of the layer and head of the settings
aer.headN                of head N of that layer, counted from 1
aer.average              of the mean over the heads of that layer
gate                     hybrid gate: share of the local branch, over all layers that have it
gate.encoder.N           the same in layer N, counted from 1
gate.encoder.N.NOUN      the same over the words of a part of speech
gate.encoder.N.fw        HySAN: squeeze gate of a branch in layer N (or gate.decoder.N.fw)
valid_loss               the loss on the validation set; only in curves

A statistical aligner has aer only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import UserError
from ..config.paper_tables import AER
from ..files.json_files import read_json
from ..scores.counts import Score
from .fairseq_commands import RunFolder
from .training_log import read_log

GATE = "gate"
SHARE = "share"  # the name of attention.fusion.LOCAL_SHARE
VALID_LOSS = "valid_loss"


def _naming_its_file(read_file: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Errors in a file that is not what our commands write are a sentence that names it."""

    @functools.wraps(read_file)
    def reading(path: Path) -> Any:
        try:
            return read_file(path)
        except UserError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"{path} is not what a run writes ({error!r}); delete it") from None

    return reading


def scores_of(folder: RunFolder) -> dict:
    """``scores`` of a run, or of a checkpoint of its curve, and how many ``sentences`` it has.

    Counts are kept apart (``run_counts.py``).
    """
    scores = {**read_scores(folder.score), **error_rates(folder), **read_gates(folder.gates)}
    plain = {name: {"value": one.value, "signature": one.signature} for name, one in scores.items()}
    return {"scores": plain, "sentences": (read_json(folder.score) or {}).get("sentences", 0)}


@_naming_its_file
def read_scores(path: Path) -> dict[str, Score]:
    """The scores in what ``score``, ``align`` or (of one alignment) ``aer`` wrote to --json."""
    content = read_json(path) or {"scores": {}}
    if "systems" in content:
        (content,) = content["systems"].values()
    return {name: Score.of_dict(score) for name, score in content["scores"].items()}


def error_rates(folder: RunFolder) -> dict[str, Score]:
    """The alignment error rates of a run, without precision and recall."""
    found = read_scores(folder.alignment_score)
    return {name: score for name, score in found.items() if name.partition(".")[0] == AER}


def valid_losses(log: Path) -> dict[int, dict]:
    """The losses on the validation set that a training logged, by updates, as scores."""
    return {
        updates: {"value": values["loss"], "signature": "bits a token, by fairseq-train"}
        for updates, values in read_log(log).validation.get("valid", {}).items()
        if math.isfinite(values.get("loss", math.nan))
    }


@_naming_its_file
def read_gates(path: Path) -> dict[str, Score]:
    """The means in what ``gates`` wrote with ``--json``, by name, except those of single heads."""
    report = read_json(path)
    if report is None:
        return {}
    (model,) = report["models"]
    rows = [row for row in model["rows"] if row["head"] is None]
    found: dict[str, Score] = {}
    if model["share"] is not None:
        positions = sum(row["positions"] for row in rows)
        found[GATE] = Score(model["share"], f"{SHARE}|positions:{positions}")
    for row in (*rows, *model["tag_rows"]):
        parts = [GATE, row["kind"], str(row["layer"])]
        if row["gate"] != SHARE:
            parts.append(row["branch"])
        how = f"{row['gate']}|branch:{row['branch']}"
        if "tag" in row:
            parts.append(row["tag"])
            how += f"|words:{row['words']}|tags:{report['tags']}"
        else:
            how += f"|positions:{row['positions']}"
        found[".".join(parts)] = Score(row["mean"], how)
    return found
