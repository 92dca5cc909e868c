"""The counts of each sentence behind a run's scores, in a compressed file beside its result.

With it and the result, tables need neither translations nor corpus.  The file has ``counts`` by
metric (of all translations) and by error rate, ``parts`` (first and last sentence of each test set,
by the suffix of its scores' names), ``source_words`` (of each source sentence, null if the source
is not split into words), and for each point of a curve, by updates, ``counts`` and ``parts``.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ...errors import UserError
from ..corpora.words import has_spaces
from ..files.json_files import read_json
from ..files.text import read_lines
from ..files.writing import atomic_write
from ..scores import Group
from ..scores.counts import SentenceCounts
from ..scores.lengths import word_counts
from .fairseq_commands import RunFolder
from .run_scores import error_rates, read_scores
from .workspace import Run


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
        if metric == "aer":
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
    source, recipe = run.prepared_corpus.source, run.recipe
    path = run.prepared_corpus.source_words
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
