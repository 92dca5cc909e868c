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
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..alignment.error_rate import Counts
from ..config.paper_tables import AER
from ..files.json_files import read_json
from ..files.typed import read
from .fairseq_commands import RunFolder
from .results import StoredScore
from .training_log import read_log

GATE = "gate"
SHARE = "share"  # the name of attention.fusion.LOCAL_SHARE
VALID_LOSS = "valid_loss"


def _naming_its_file(read_file: Callable[[Path], dict]) -> Callable[[Path], dict]:
    """Errors in a file that is not what our commands write are a sentence that names it."""

    @functools.wraps(read_file)
    def reading(path: Path) -> dict:
        try:
            return read_file(path)
        except UserError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"{path} is not what a run writes ({error!r}); delete it") from None

    return reading


def scores_of(folder: RunFolder) -> dict:
    """``scores`` of a run, or of a checkpoint of its curve; ``sentences``: translated ones."""
    score = _read_scores(folder.score)
    rates = read_rates(folder.alignment_score)
    alignment = {
        name: {"value": rate.value, "signature": rate.signature} for name, rate in rates.items()
    }
    scores = {**score["scores"], **alignment, **read_gates(folder.gates)}
    read(dict[str, StoredScore], scores, f"{folder.path}: its scores")
    return {"scores": scores, "sentences": score["sentences"]}


@_naming_its_file
def _read_scores(path: Path) -> dict:
    """``scores`` and ``sentences`` of what ``score`` wrote with ``--json``."""
    score = read_json(path) or {"scores": {}, "sentences": 0}
    return {"scores": dict(score["scores"]), "sentences": score["sentences"]}


def valid_losses(log: Path) -> dict[int, dict]:
    """The losses on the validation set that a training logged, by updates, as scores."""
    return {
        updates: {"value": values["loss"], "signature": "bits a token, by fairseq-train"}
        for updates, values in read_log(log).validation.get("valid", {}).items()
        if math.isfinite(values.get("loss", math.nan))
    }


@dataclass(frozen=True)
class Rate:
    """An alignment error rate, and how it was computed."""

    value: float  # in per cent
    signature: str
    sentences: list[Counts] | None  # the counts of each sentence, if they were kept


@_naming_its_file
def read_rates(path: Path) -> dict[str, Rate]:
    """The defined error rates in what ``align`` or ``aer`` wrote with ``--json``, by name."""
    report = read_json(path)
    if report is None:
        return {}
    rates = {}
    for name, how, entry in _entries(report):
        if entry["aer"] is not None:
            # As sacrebleu writes its signatures.
            parts = {**how, "sentences": report["sentences"]}
            parts |= {"sure": entry["sure"], "possible": entry["possible"]}
            signature = "|".join(f"{key}:{value}" for key, value in parts.items())
            rates[name] = Rate(entry["aer"], signature, _counts(entry))
    return rates


def _entries(report: dict) -> Iterator[tuple[str, dict, dict]]:
    """Name, settings and counts of each rate that has a name."""
    if "alignments" in report:
        (entry,) = report["alignments"].values()
        yield AER, {}, entry
        return
    how = {"end": report["end_symbol"], "step": report["step"]}
    yield AER, {"layer": report["layer"], "head": report["head"], **how}, report
    for entry in report["table"]:
        if entry["layer"] == report["selected_layer"]:
            head = entry["head"]
            name = f"{AER}.{head if isinstance(head, str) else f'head{head}'}"
            yield name, {"layer": report["layer"], "head": head, **how}, entry


def _counts(entry: dict) -> list[Counts] | None:
    """The counts of each sentence, in either command's form."""
    if "by_sentence" in entry:
        return [Counts(*map(operator.index, one)) for one in entry["by_sentence"]]
    if isinstance(entry.get("sentences"), list):
        names = ("links", "sure", "possible", "sure_found", "possible_found")
        return [
            Counts(*(operator.index(one[name]) for name in names)) for one in entry["sentences"]
        ]
    return None


@_naming_its_file
def read_gates(path: Path) -> dict[str, dict]:
    """The means in what ``gates`` wrote with ``--json``, by name, except those of single heads."""
    report = read_json(path)
    if report is None:
        return {}
    (model,) = report["models"]
    rows = [row for row in model["rows"] if row["head"] is None]
    found = {}
    if model["share"] is not None:
        positions = sum(row["positions"] for row in rows)
        found[GATE] = {"value": model["share"], "signature": f"{SHARE}|positions:{positions}"}
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
        found[".".join(parts)] = {"value": row["mean"], "signature": how}
    return found
