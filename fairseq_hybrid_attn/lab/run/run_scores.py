"""The scores of a run, under the names by which tables ask for them, and the counts behind them.

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

With the counts of each sentence, in a compressed file beside the result, tables need neither
translations nor corpus.  The file has ``counts`` by metric (of all translations) and by error rate,
``parts`` (first and last sentence of each test set, by the suffix of its scores' names),
``source_words`` (of each source sentence, null if the source is not split into words), and for each
point of a curve, by updates, ``counts`` and ``parts``.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ...errors import UserError
from ..config.paper_tables import AER
from ..corpora.words import has_spaces
from ..files.json_files import read_json
from ..files.text import read_lines
from ..files.writing import atomic_write
from ..scores import Group
from ..scores.counts import Score, SentenceCounts
from ..scores.lengths import word_counts
from .folder import RunFolder
from .training_log import read_log
from .workspace import Run

VALID_LOSS = "valid_loss"


def scores_of(folder: RunFolder) -> dict[str, Score]:
    """The scores of a run, or of a checkpoint of its curve."""
    return {**read_scores(folder.score), **error_rates(folder), **read_scores(folder.gates)}


def read_scores(path: Path) -> dict[str, Score]:
    """The scores in what `score`, `align`, `aer` or `gates` wrote of one system and seed."""
    content = read_json(path)
    if content is None:
        return {}
    try:
        ((scores,),) = content["systems"].values()
    except (LookupError, TypeError, ValueError, AttributeError):
        raise UserError(f"{path} is of an older version; delete it") from None
    return {name: Score.of_dict(score) for name, score in scores.items()}


def error_rates(folder: RunFolder) -> dict[str, Score]:
    """The alignment error rates of a run, without precision and recall."""
    found = read_scores(folder.alignment_score)
    return {name: score for name, score in found.items() if name.partition(".")[0] == AER}


def valid_losses(log: Path) -> dict[int, Score]:
    """The losses on the validation set that a training logged, by updates."""
    return {
        updates: Score(values["loss"], "bits a token, by fairseq-train")
        for updates, values in read_log(log).validation.get("valid", {}).items()
        if math.isfinite(values.get("loss", math.nan))
    }


@dataclass(frozen=True)
class RunCounts:
    """The counts behind the scores of a run, or of a point of its curve."""

    counts: Mapping[str, SentenceCounts] = field(default_factory=dict)
    parts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    source_words: list[int] | None = None
    curve: Mapping[int, RunCounts] = field(default_factory=dict)

    def of(self, score: str, group: Group | None = None) -> SentenceCounts | None:
        """The counts behind a score, of sentences whose sources have so many words.

        None if they are not there.
        """
        metric, dot, test_set = score.partition(".")
        if metric == AER:
            return self.counts.get(score)
        suffix = f"{dot}{test_set}"
        if metric not in self.counts or suffix not in self.parts:
            return None
        whole, sentences = self.counts[metric], range(*self.parts[suffix])
        if group is None:
            return whole.of(sentences, f"{whole.text}{suffix}")
        if self.source_words is None:
            raise UserError("its corpus does not split the source into words")
        chosen = [number for number in sentences if self.source_words[number] in group]
        return whole.of(chosen, f"{whole.text}{suffix}{group}", group.above)


def write_counts(run: Run) -> None:
    """Collect the counts that the commands that scored a run have written."""
    points = [point["updates"] for point in (read_json(run.folder.curve) or {}).get("curve", ())]
    content = {
        **counts_of(run.folder),
        "source_words": _source_words(run),
        "curve": {str(updates): counts_of(run.folder.point(updates)) for updates in points},
    }
    with atomic_write(run.folder.counts) as file:
        file.write(gzip.compress(json.dumps(content).encode(), mtime=0))


def counts_of(folder: RunFolder) -> dict:
    """``counts`` and ``parts`` of what the commands that scored a model have written."""
    parts = (read_json(folder.score) or {}).get("parts", {})
    counts = {name: score.counts for name, score in error_rates(folder).items()}
    by_metric: dict[str, dict[str, SentenceCounts]] = {}
    for name, score in read_scores(folder.score).items():
        metric, dot, test_set = name.partition(".")
        if score.counts:
            by_metric.setdefault(metric, {})[f"{dot}{test_set}"] = score.counts
    for metric, sets in by_metric.items():
        rows = {
            number: row
            for suffix, of_set in sets.items()
            for number, row in zip(range(*parts[suffix]), of_set.rows, strict=True)
        }
        one = sets[""]
        counts[metric] = replace(one, rows=np.array([rows[n] for n in sorted(rows)]))
    return {"counts": {name: of.as_dict() for name, of in counts.items() if of}, "parts": parts}


def _source_words(run: Run) -> list[int] | None:
    source, recipe = run.recipe.source, run.recipe
    path = run.corpus.text("tokenised", "test", source)
    if not path.exists() or (not has_spaces(source) and recipe.tokenizer[source] == "none"):
        return None
    return word_counts(read_lines(path))


def read_counts(path: Path) -> RunCounts:
    """Read a file of counts; without one, there are none."""
    if not path.exists():
        return RunCounts()
    try:
        content = json.loads(gzip.decompress(path.read_bytes()))
        curve = {int(at): _read(point) for at, point in content["curve"].items()}
        return replace(_read(content), source_words=content["source_words"], curve=curve)
    except (OSError, EOFError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path} is not what a run writes ({error!r}); delete it") from None


def _read(content: dict) -> RunCounts:
    counts = {name: SentenceCounts.of_dict(of) for name, of in content["counts"].items()}
    return RunCounts(counts, {part: tuple(ends) for part, ends in content["parts"].items()})
