"""Whether our numbers put the rows of a column into the paper's order."""

from __future__ import annotations

from statistics import fmean

import numpy as np
from scipy.stats import rankdata

from ..config.paper_tables import Cell
from ..scores.significance import ends
from .numbers import Line, RankAgreement
from .run_results import RunResults


def rank_agreement(
    results: RunResults, lines: list[tuple[Cell, Line]], significance: bool
) -> RankAgreement | None:
    """Spearman's rank correlation over the rows that have both numbers; None for fewer than three.

    Ours are means over the seeds that all of these rows have.  The interval is that of the same
    correlation on resampled test sets, the same sentences for all rows.  Rows that are nearly equal
    change places there, which draws it towards zero; it may not contain the value.
    """
    ranked = [(cell, line) for cell, line in lines if line.ours and line.paper is not None]
    if len(ranked) < 3:
        return None
    seeds = sorted(set.intersection(*(set(line.ours.seeds) for _, line in ranked)))
    if not seeds:
        return None
    papers = np.array([line.paper for _, line in ranked])
    by_seed = [dict(zip(line.ours.seeds, line.ours.by_seed, strict=True)) for _, line in ranked]
    ours = np.array([[fmean(of_row[seed] for seed in seeds) for of_row in by_seed]])
    if np.ptp(papers) == 0 or np.ptp(ours) == 0:
        return None
    drawn = _on_resampled_text(results, ranked, seeds) if significance else None
    low, high = (None, None)
    if drawn is not None:
        low, high = ends(_spearman(papers, drawn))
    value = float(_spearman(papers, ours)[0])
    return RankAgreement(value, low, high, len(ranked), tuple(seeds))


def _spearman(papers: np.ndarray, ours: np.ndarray) -> np.ndarray:
    """The correlation of ``papers`` (``[rows]``) with each line of ``ours`` (``[draws, rows]``)."""
    one = rankdata(papers) - (len(papers) + 1) / 2
    other = rankdata(ours, axis=1) - (len(papers) + 1) / 2
    norms = np.sqrt((one**2).sum() * (other**2).sum(axis=1))
    return (other @ one) / np.where(norms == 0, 1, norms)


def _on_resampled_text(
    results: RunResults, ranked: list[tuple[Cell, Line]], seeds: list[int]
) -> np.ndarray | None:
    """Scores of rows on resampled test sets, ``[draws, rows]``, means over seeds.

    None if translations are missing, or are of different sentences.
    """
    text, scores = None, []
    for cell, line in ranked:
        of_seeds = []
        for run in results.runs(cell):
            if run.seed not in seeds:
                continue
            found = results.sentences(run, line.ours.score, cell.column)
            drawn = None if found is None else found.over_draws()
            if drawn is None or (text is not None and found.text != text):
                return None
            text = found.text
            of_seeds.append(drawn)
        scores.append(np.mean(of_seeds, axis=0))
    return np.stack(scores, axis=1)
