"""Write tables into a folder of results (:mod:`.kept_tables`), and lose nothing that it has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from ..files.json_files import read_json, write_json
from ..look import style
from ..look.outputs import make_folder
from ..runs.fairseq_commands import RunFolder
from ..runs.plan import Plan
from ..runs.results import read_result
from ..runs.status import State, status
from ..runs.workspace import Run
from .adding import check_can_be_added, check_is_the_same, with_more_seeds, with_more_seeds_asked
from .drawing import draw, is_drawable
from .kept_runs import (
    are_of_one_training,
    keep,
    kept_content,
    kept_files,
    result_name,
    result_path,
    without_folders,
)
from .kept_tables import (
    KeptResults,
    asked_for,
    beyond,
    measures,
    plan_of,
    read_table,
    runs_kept,
    table_path,
)
from .measuring import measure
from .numbers import TableNumbers
from .run_results import RunResults, check_score

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class _Made:
    """What publishing a table writes."""

    path: Path
    content: dict
    runs: list[tuple[Run, dict]]  #: with what is kept of the result
    figure: Figure | None

    def write(self, folder: Path) -> None:
        for run, result in self.runs:
            keep(run, result, folder)
        make_folder("--results", self.path.parent)
        if self.figure:
            style.save(self.figure, self.path.with_suffix(".png"))
        write_json(self.path, self.content)


def publish(plans: list[Plan], folder: Path, add: bool = False) -> None:
    """Write tables, their figures and their runs' results.

    ``add``: beside the seeds that were published before, whose runs need not be here.
    """
    for one in [_make(plan, folder, add) for plan in plans]:  # all, before the first is written
        one.write(folder)


def _make(plan: Plan, folder: Path, add: bool) -> _Made:
    done = None
    while done != (now := [run for run in plan.runs if run.folder.result.exists()]):
        # Again, if a run finished in between.
        done, numbers = now, measure(RunResults(plan, of_plan=True))
    new = {result_name(run): kept_content(run) for run in done}
    states = {run.name: status(run) for run in plan.runs if run not in done}
    begun = {n: str(s) for n, s in states.items() if s.state is not State.NOT_BEGUN}
    asked, path, configs = asked_for(plan), table_path(folder, plan), plan.workspace.configs
    results, kept = new, None
    if add:
        kept, earlier = read_table(path, folder, configs), read_json(path)
        asked = with_more_seeds_asked(earlier["asked"], asked, plan.table, path)
        begun = earlier.get("begun", {}) | begun
        # A run that was done again, such as a baseline's, stays as it was published.
        published = {name: read_result(result_path(folder, name)) for name in new}
        check_is_the_same(kept.results, new, published)
        for run in done:
            files = kept_files(folder, run)
            if result_name(run) in kept.results and not any(file.exists() for file in files):
                raise UserError(f"{run.name} is without its translations; name new seeds only")
        new |= {name: result for name, result in published.items() if result}
        results = kept.results | new
    whole = plan_of(asked, folder, configs)
    known = measure(KeptResults(whole, results))
    if kept:
        numbers = with_more_seeds(known, kept.numbers, numbers)
        known_runs = results.keys() == kept.results.keys()
        if known_runs and _what_it_has(numbers) == _what_it_has(kept.numbers):
            raise UserError("nothing to add: no finished run of these seeds, or all are published")
    _check_no_number_is_lost(numbers, results, path, folder, whole)
    drawn = is_drawable(plan) and numbers.is_measured
    content = {
        "asked": asked,
        "measures": measures(whole),
        "runs": list(results),
        "begun": begun,
        "figure": path.with_suffix(".png").name if drawn else None,
        "numbers": beyond(numbers, known, plan.table),
    }
    return _Made(
        path,
        without_folders(content, plan.workspace),
        [(run, new[result_name(run)]) for run in done],
        draw(plan, numbers.sections) if drawn else None,
    )


def _check_no_number_is_lost(
    now: TableNumbers, results: dict[str, dict], path: Path, folder: Path, plan: Plan
) -> None:
    """Check what needs translations and test text, which may not be here.

    Runs that were trained again may have other numbers.
    """
    published = {name: read_json(result_path(folder, name)) for name in runs_kept(path)}
    if not all(are_of_one_training(one, results.get(name)) for name, one in published.items()):
        return
    if not path.exists():
        return
    try:
        before = _what_it_has(read_table(path, folder, plan.workspace.configs, edited=True).numbers)
    except UserError:  # it is replaced
        return
    if lost := before - _what_it_has(now):
        raise UserError(
            f"{path} would lose its {min(lost)}: translations or test text are not here. Prepare "
            "the corpus; to translations that were not published, new seeds can be added (--add)"
        )


def _what_it_has(numbers: TableNumbers) -> set[str]:
    """Which numbers a table has, in words."""
    found = {f"verdict on {one.claim!r}, seed {n}" for one in numbers.verdicts for n in one.by_seed}
    found |= {f"interval on {v.claim!r}, seed {n}" for v in numbers.verdicts for n in v.resampled}
    for section in numbers.sections:
        for among, one in section.ranks.items():
            what = f"rank correlation of {among} ({section.title})"
            seeds = " ".join(one.apart).split() if one.low is None else one.seeds
            found |= {f"{what}, seed {n}" for n in seeds}
        for line in section.measured:
            ours = line.ours
            where = f"of {line.row} ({section.title}{f', {line.at} updates' if line.at else ''})"
            found.add(f"number {where}")
            found |= {f"interval {where}"} if ours.interval is not None else set()
            if ours.resampled is not None and not line.at:  # translations of a curve are not kept
                found.add(f"interval over sentences {where}")
            p_values = zip(ours.seeds, ours.p_values, strict=False)  # () if there are none
            if line != section.baseline:  # it has some if another row was the baseline before
                found |= {f"p-value {where}, seed {seed}" for seed, p in p_values if p is not None}
    return found


def check_can_be_published(plans: list[Plan], folder: Path, add: bool = False) -> None:
    """Check that publishing loses nothing, and leaves no tables of older results behind.

    ``add``: see :func:`publish`.

    Results that their translations contradict are refused: those who read them cannot tell.
    """
    for plan in plans:
        if plan.faults:
            raise UserError(plan.faults[0])
        if not add:
            _check_nothing_is_lost(plan, folder)
        else:
            check_can_be_added(plan, table_path(folder, plan))
        for run in plan.runs:
            result = read_result(run.folder.result)
            for score, found in (result["scores"] if result else {}).items():
                check_score(run, score, found["value"])
    if add:  # published results stay as they are
        return
    asked = {table_path(folder, plan) for plan in plans}
    changed = set()
    for name, run in {result_name(run): run for plan in plans for run in plan.runs}.items():
        if read_json(result_path(folder, name)) not in (None, kept_content(run)):
            changed.add(name)
    for path in sorted((folder / "tables").glob("*.json")):
        older = sorted(changed.intersection(runs_kept(path)))
        if path not in asked and older:
            raise UserError(
                f"{path} is of an older result of {older[0]}; publish its table as well"
            )


def _check_nothing_is_lost(plan: Plan, folder: Path) -> None:
    """Check that the plan has the runs that were published; another clone may not have them."""
    asked = {result_name(run) for run in plan.runs}
    path, root = table_path(folder, plan), plan.workspace.root
    for name in runs_kept(path):
        seed = name.rpartition("/seed")[2]
        if not RunFolder(root / "runs" / name).result.exists():
            lost = f"has runs that are missing in {root}, such as {name}; name the folder they "
            lost += "are in (--output), `restore` them, add other seeds to the table (--add)"
        elif seed not in map(str, plan.seeds):
            lost = f"also has seed {seed}; name it (--seeds)"
        elif name not in asked:
            lost = f"also has {name}; name its row and its column"
        else:
            continue
        raise UserError(f"{path} {lost}, or delete the file")
