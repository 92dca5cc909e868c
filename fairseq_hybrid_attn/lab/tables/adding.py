"""More seeds of a published table whose earlier runs are not here any more.

Seeds whose translations were restored add the intervals of claims that were written since.

Means, and intervals over seeds, are those of all seeds.  An interval over sentences cannot be
computed again without all translations: the mean of the earlier and the later one stands for it.
The interval of the mean is seldom wider than this, since a standard deviation of a mean is at most
the mean of the standard deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from ...errors import UserError
from ..config.paper_tables import Table
from ..files.json_files import read_json
from ..runs.plan import Plan
from .claims import decided
from .drawing import is_drawable
from .numbers import Line, Measured, RankAgreement, Section, TableNumbers, Verdict, over_seeds


def check_can_be_added(plan: Plan, path: Path) -> None:
    """Check that a plan is for seeds of a published table."""
    if not isinstance(read_json(path), dict):
        raise UserError(f"{plan.table.name} is not published in {path}; publish it without --add")
    if is_drawable(plan):
        raise UserError(f"{plan.table.name} can be drawn, which needs all of its runs")


def with_more_seeds_asked(kept: dict, new: dict, table: Table, path: Path) -> dict:
    """What a table was asked for, and more seeds of it; maybe of some rows and columns only."""
    parts = ("rows", "columns", "seeds")
    others = {*kept, *new}.difference(parts)
    for key in parts[:2]:
        if not set(new[key]) <= set(kept[key]):
            raise UserError(f"{path} has other {key}; name only some of {', '.join(kept[key])}")
    if any(kept.get(key) != new.get(key) for key in others):
        raise UserError(f"{path} is of another profile, text or --user-dir")
    if table.baseline in kept["rows"] and table.baseline not in new["rows"]:
        raise UserError(f"{path}: also name the row {table.baseline}, which others differ from")
    return {**kept, "seeds": sorted({*kept["seeds"], *new["seeds"]})}


def check_is_the_same(
    kept: dict[str, dict], new: dict[str, dict], published: dict[str, dict | None]
) -> None:
    """Check that new results are of the runs that were published, but for their seeds.

    ``published``: what there was under the names of the new ones.
    """
    of_cell = {name.rpartition("/")[0]: result for name, result in kept.items()}
    for name, result in new.items():
        other = of_cell.get(name.rpartition("/")[0])
        if other and _data(other) != _data(result):
            raise UserError(f"{name}: its configuration or data are not those of published seeds")
        for score in other["scores"].keys() & result["scores"].keys() if other else ():
            signatures = [one["scores"][score]["signature"] for one in (other, result)]
            if signatures[0] != signatures[1]:
                told = "is {1}, of published seeds {0}".format(*signatures)
                raise UserError(f"{name}: its {score} {told}")
        if before := published[name]:
            for score in before["scores"].keys() & result["scores"].keys():
                found = [one["scores"][score]["value"] for one in (before, result)]
                if found[0] != found[1]:
                    told = "was published with {} {:.4f}, and has {:.4f} here".format(score, *found)
                    raise UserError(f"{name} {told}; delete the run here, and `restore` it")


def _data(result: dict) -> dict:
    return {part: digest for part, digest in result["identity"].items() if part != "code"}


def with_more_seeds(both: TableNumbers, kept: TableNumbers, new: TableNumbers) -> TableNumbers:
    """``both``, measured from results alone, with what only the two sets of numbers say."""
    of_kept, of_new = ({s.name: s for s in one.sections} for one in (kept, new))
    sections = [_section(s, of_kept[s.name], of_new.get(s.name)) for s in both.sections]
    verdicts = map(_verdict, both.verdicts, kept.verdicts, new.verdicts)
    return replace(both, sections=tuple(sections), verdicts=tuple(verdicts))


def _section(both: Section, kept: Section, new: Section | None) -> Section:
    if new is None:
        return kept
    of_new = {(line.row, line.at): line for line in new.lines}
    lines = tuple(_line(line, of_new.get((line.row, line.at))) for line in kept.lines)
    ranks = {among: _rank(found, among, kept, new) for among, found in both.ranks.items()}
    return replace(kept, lines=lines, baseline=_line(kept.baseline, new.baseline), ranks=ranks)


def _line(kept: Line | None, new: Line | None) -> Line | None:
    if kept is None or new is None or kept.ours is None or new.ours is None:
        return next((line for line in (kept, new) if line and line.ours), new or kept)
    return replace(kept, ours=_merged(kept.ours, new.ours, kept.row))


def _merged(kept: Measured, new: Measured, row: str) -> Measured:
    if known := _one_has_all(kept, new, set(kept.seeds), set(new.seeds), row):
        if known.resampled is None and kept.seeds == new.seeds:  # it was published without
            more = {"over": new.over, "over_sentences": new.over_sentences}
            p_values = known.p_values or new.p_values
            return replace(known, interval=new.interval, p_values=p_values, **more)
        return known
    if kept.signature != new.signature:
        told = f"is {new.signature}, of published seeds {kept.signature}"
        raise UserError(f"{row}: its {new.score} {told}; publish all seeds, without --add")
    parts = (kept, new)
    p_values = {seed: p for one in parts for seed, p in zip(one.seeds, one.p_values, strict=False)}
    values = {seed: v for one in parts for seed, v in zip(one.seeds, one.by_seed, strict=True)}
    seeds = tuple(sorted(values))
    by_seed = tuple(values[seed] for seed in seeds)
    resampled = None
    if None not in [one.resampled for one in parts]:
        resampled = _mean(parts, lambda one: one.resampled, lambda one: len(one.seeds))
    interval, over = over_seeds(by_seed), "seeds"
    if interval is None:
        over = kept.over if resampled is None else "test set, apart"
        interval, resampled = resampled, None
    return replace(
        kept,
        value=fmean(by_seed),
        by_seed=by_seed,
        interval=interval,
        over=over,
        seeds=seeds,
        p_values=tuple(p_values.get(seed) for seed in seeds) if p_values else (),
        stale=_told(one.stale for one in parts),
        updates=_mean(parts, lambda one: one.updates, lambda one: len(one.seeds)),
        accepted=_told(one.accepted for one in parts),
        over_sentences=resampled,
    )


def _rank(both: RankAgreement, among: str, *parts: Section) -> RankAgreement:
    """The order of all rows; parts with fewer of them say nothing of it."""
    apart = {}
    found = (section.ranks.get(among) for section in parts)
    for one in (one for one in found if one and one.rows == both.rows):
        if one.seeds == both.seeds and one.low is not None:
            return one
        apart |= one.apart or ({} if one.low is None else {" ".join(map(str, one.seeds)): one})
    return replace(both, apart=apart)


def _verdict(both: Verdict, kept: Verdict, new: Verdict) -> Verdict:
    by_seed = new.by_seed | kept.by_seed | both.by_seed  # what is stored, before what is here
    if not by_seed:
        return both
    parts = [one for one in (kept, new) if one.resampled]
    if len(parts) == 2:
        known = _one_has_all(kept, new, set(kept.resampled), set(new.resampled), kept.claim)
        parts = [known] if known else parts
    adds = not new.by_seed.keys() <= kept.by_seed.keys()
    bounds = None
    if parts:  # the mean of how far the ends are from each part's own mean
        ours = fmean(by_seed.values())
        bounds = tuple(
            ours
            + _mean(
                parts,
                lambda one, n=n: one.over_sentences[n] - one.ours,
                lambda one: len(one.resampled),
            )
            for n in (0, 1)
        )
    resampled = {seed for one in parts for seed in one.resampled}
    found = replace(
        both,
        by_seed={seed: by_seed[seed] for seed in sorted(by_seed, key=int)},
        over_sentences=bounds,
        resampled=tuple(sorted(resampled, key=int)),
        lacking=tuple(sorted({*kept.lacking, *new.lacking} - set(map(int, by_seed)))),
        stale=kept.stale or (adds and new.stale),
    )
    return replace(found, verdict=decided(found))


def _one_has_all(kept, new, kept_seeds: set, new_seeds: set, what: str):
    """The one that has all seeds, as a baseline may; None if they have no seed in common."""
    if kept_seeds >= new_seeds:
        return kept
    if kept_seeds < new_seeds:
        return new
    if shared := kept_seeds & new_seeds:
        raise UserError(f"{what}: seed {min(shared)} was published; add others (--seeds)")
    return None


def _mean(parts: Sequence, value: Callable[..., float], count: Callable[..., int]) -> float:
    return sum(value(one) * count(one) for one in parts) / sum(map(count, parts))


def _told(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(part for text in texts if text for part in text.split("; ")))
