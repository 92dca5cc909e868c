"""A published table with more seeds, whose earlier runs are not here any more.

Means, and intervals over seeds, are those of all seeds.  An interval over sentences cannot be
computed again without all translations: the mean of the earlier and the later one stands for it.
As both resample the same sentences, the mean's own interval is seldom wider: a standard deviation
of a mean is at most the mean of the standard deviations.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from ...errors import UserError
from ..scoring.significance import Combined
from .claims import decided
from .numbers import Line, Measured, RankAgreement, Section, TableNumbers, Verdict, over_seeds


def with_more_seeds(both: TableNumbers, kept: TableNumbers, new: TableNumbers) -> TableNumbers:
    """``both``, the runs of two sets of numbers, with what only the numbers themselves say."""
    of_kept, of_new = ({s.name: s for s in one.sections} for one in (kept, new))
    sections = [_section(s, of_kept.get(s.name), of_new.get(s.name)) for s in both.sections]
    verdicts = map(_verdict, kept.verdicts, new.verdicts)
    return replace(both, sections=tuple(sections), verdicts=tuple(verdicts))


def _section(both: Section, kept: Section | None, new: Section | None) -> Section:
    if kept is None or new is None:
        return kept or new
    of_kept, of_new = ({(line.row, line.at): line for line in s.lines} for s in (kept, new))
    lines = []
    for line in both.lines:
        place = (line.row, line.at)
        lines.append(_line(of_kept.get(place), of_new.get(place)) or line)
    baseline = _line(kept.baseline, new.baseline)
    ranks = {
        among: _rank(found, kept.ranks.get(among), new.ranks.get(among))
        for among, found in both.ranks.items()
    }
    return replace(both, lines=tuple(lines), baseline=baseline, ranks=ranks)


def _line(kept: Line | None, new: Line | None) -> Line | None:
    if kept is None or new is None or kept.ours is None or new.ours is None:
        return next((line for line in (kept, new) if line and line.ours), kept or new)
    return replace(kept, ours=_measured(kept.ours, new.ours, kept.row))


def _measured(kept: Measured, new: Measured, row: str) -> Measured:
    if known := _one_has_all(kept, new, set(kept.seeds), set(new.seeds), row):
        return known
    parts = (kept, new)
    p_values = {seed: p for one in parts for seed, p in zip(one.seeds, one.p_values, strict=False)}
    values = {seed: v for one in parts for seed, v in zip(one.seeds, one.by_seed, strict=True)}
    seeds = tuple(sorted(values))
    by_seed = tuple(values[seed] for seed in seeds)
    interval, over = over_seeds(by_seed), "seeds"
    if interval is None:
        apart = [one.interval for one in parts]
        interval, over = None if None in apart else fmean(apart), "test set, apart"
    return replace(
        kept,
        value=fmean(by_seed),
        by_seed=by_seed,
        interval=interval,
        over=over,
        seeds=seeds,
        signature=_told("; ", *(one.signature for one in parts)),
        p_values=tuple(p_values.get(seed) for seed in seeds) if p_values else (),
        stale=_told("; ", *(one.stale for one in parts)),
        updates=_weighted(parts, lambda one: one.updates, lambda one: len(one.seeds)),
        accepted=_told("; ", *(one.accepted for one in parts)),
    )


def _rank(both: RankAgreement, *parts: RankAgreement | None) -> RankAgreement:
    return replace(both, apart=tuple(one for part in parts if part for one in part.apart or [part]))


def _verdict(kept: Verdict, new: Verdict) -> Verdict:
    lacking = {*kept.lacking, *new.lacking} - {int(seed) for seed in kept.by_seed | new.by_seed}
    if kept.ours is None or new.ours is None:
        return replace(kept if kept.ours else new, lacking=tuple(sorted(lacking)))
    if known := _one_has_all(kept, new, set(kept.by_seed), set(new.by_seed), kept.claim):
        return replace(known, lacking=tuple(sorted(lacking)))
    parts = (kept, new)

    def mean(field: str) -> float:
        return _weighted(parts, lambda one: getattr(one.ours, field), lambda one: len(one.by_seed))

    by_seed = kept.by_seed | new.by_seed
    judged = replace(
        kept,
        ours=Combined(*map(mean, ("value", "low", "high"))),
        by_seed={seed: by_seed[seed] for seed in sorted(by_seed, key=int)},
        lacking=tuple(sorted(lacking)),
        stale=kept.stale or new.stale,
    )
    return replace(judged, verdict=decided(judged))


def _one_has_all(kept, new, kept_seeds: set, new_seeds: set, what: str):
    """The one that has all seeds, as a baseline may; None if they have no seed in common."""
    if kept_seeds >= new_seeds:
        return kept
    if kept_seeds < new_seeds:
        return new
    if shared := kept_seeds & new_seeds:
        raise UserError(f"{what}: seed {min(shared)} was published; add others (--seeds)")
    return None


def _weighted(parts, value, count) -> float:
    return sum(value(one) * count(one) for one in parts) / sum(map(count, parts))


def _told(between: str, *texts: str) -> str:
    """Different texts, each once; those of earlier tables may be several already."""
    return between.join(dict.fromkeys(filter(None, between.join(texts).split(between))))
