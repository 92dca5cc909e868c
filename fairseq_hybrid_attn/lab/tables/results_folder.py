"""The tables in a folder of results that are kept with the code, beside their runs.

  FOLDER/runs/…                          see :mod:`.kept_runs`
  FOLDER/tables/PAPER.TABLE.LABEL.json   a table: what was asked for, and what its runs' results do
                                         not say of its numbers
  FOLDER/tables/PAPER.TABLE.LABEL.png    its figure, if it can be drawn

A table is what its runs' results and the configurations give, with its own file on top: intervals
and p-values, which need the references.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from ..arguments.outputs import make_folder
from ..configuration.paper_tables import Column, Table, load_table
from ..configuration.settings import Profile
from ..figures import style
from ..files.json_files import read_json, write_json
from ..planning.plan import Plan, make_plan
from ..planning.status import State, Status, status
from ..runs.fairseq_commands import USER_DIR, RunFolder
from ..runs.results import read_result
from ..runs.workspace import OwnText, Run, Workspace
from .adding import (
    check_can_be_added,
    check_is_the_same,
    with_more_seeds,
    with_more_seeds_asked,
)
from .drawing import draw, is_drawable
from .kept_runs import checkout, keep, kept_content, result_name, result_path, without_folders
from .measuring import measure
from .numbers import TableNumbers, rebuilt
from .run_results import RunResults, check_score

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class KeptResults(RunResults):
    """Results that were kept, by the names of their runs: no text, nothing that could be stale."""

    results: dict[str, dict]

    def result(self, run: Run) -> dict | None:
        return self.results.get(result_name(run))

    def status(self, run: Run) -> Status:
        return Status(State.DONE if self.result(run) else State.NOT_BEGUN)

    def sentences(self, run: Run, score: str, column: Column) -> None:
        return None

    def check_score(self, run: Run, score: str, stored: float) -> None:
        """Nothing to compare with: :func:`check_can_be_published` did it before it was kept."""


@dataclass(frozen=True)
class KeptTable:
    numbers: TableNumbers
    command: list[str]  #: repeats it, in words of a command line
    results: dict[str, dict]  #: by the names of its runs that are done
    unfinished: dict[str, str]  #: how far its other runs were, failures included
    figure: str | None  #: the name of its figure, beside it
    table: Table | None = None  #: its configuration; None for an earlier version's file


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
        done, numbers = now, measure(RunResults(plan))  # again, if a run finished in between
    new = {result_name(run): kept_content(run) for run in done}
    states = {run.name: status(run) for run in plan.runs if run not in done}
    begun = {n: str(s) for n, s in states.items() if s.state is not State.NOT_BEGUN}
    asked, path, configs = _asked(plan), table_path(folder, plan), plan.workspace.configs
    results, kept = new, None
    if add:
        kept, earlier = _read_table(path, folder, configs), read_json(path)
        asked = with_more_seeds_asked(earlier["asked"], asked, plan.table, path)
        begun = earlier.get("begun", {}) | begun
        # A run that was done again, such as a baseline's, stays as it was published.
        again = {name: read_result(result_path(folder, name)) for name in new}
        check_is_the_same(kept.results, new, again)
        for run in done:
            if result_name(run) in kept.results and not run.folder.hypotheses.exists():
                raise UserError(f"{run.name} is without its translations; name new seeds only")
        new |= {name: result for name, result in again.items() if result}
        results = kept.results | new
    known = measure(KeptResults(_plan(asked, folder, configs), results))
    if kept:
        numbers = with_more_seeds(known, kept.numbers, numbers)
    elif all(read_json(result_path(folder, name)) == result for name, result in new.items()):
        _check_nothing_is_lost_by_text(numbers, path, folder, configs)
    drawn = is_drawable(plan) and numbers.is_measured
    content = {
        "asked": asked,
        "runs": list(results),
        "begun": begun,
        "figure": path.with_suffix(".png").name if drawn else None,
        "numbers": _beyond(
            _by_name(asdict(numbers), plan.table), _by_name(asdict(known), plan.table)
        ),
    }
    return _Made(
        path,
        without_folders(content, plan.workspace),
        [(run, new[result_name(run)]) for run in done],
        draw(plan, numbers.sections) if drawn else None,
    )


def _check_nothing_is_lost_by_text(
    now: TableNumbers, path: Path, folder: Path, configs: Path
) -> None:
    """Check what needs translations and test text, which restored runs may not have.

    For a table of the results that were published; others may have other numbers.
    """
    try:
        before = _read_table(path, folder, configs).numbers if path.exists() else now
    except UserError:  # it is replaced
        return
    lost = _measured(before) - _measured(now)
    if lost:
        raise UserError(
            f"{path} would lose its {min(lost)}: translations or test text are not here. Prepare "
            "the corpus; to translations that were not published, new seeds can be added (--add)"
        )


def _measured(numbers: TableNumbers) -> set[str]:
    """What there is of a table's numbers, in words."""
    found = {f"verdict on {one.claim!r}, seed {n}" for one in numbers.verdicts for n in one.by_seed}
    for section in numbers.sections:
        ranks = section.ranks.items()
        found |= {f"rank correlation of {among}" for among, one in ranks if one.low is not None}
        for line in section.measured:
            ours = line.ours
            where = f"of {line.row} ({section.title}{f', {line.at} updates' if line.at else ''})"
            found.add(f"number {where}")
            found |= {f"interval {where}"} if ours.interval is not None else set()
            p_values = zip(ours.seeds, ours.p_values, strict=False)  # () if there are none
            found |= {f"p-value {where}, seed {seed}" for seed, p in p_values if p is not None}
    return found


def read_tables(folder: Path, configs: Path) -> list[KeptTable]:
    """All tables in a folder of results, first the headline, last those on the user's text.

    In each paper, those with their own runs come first.
    """
    paths = sorted((folder / "tables").glob("*.json"))
    if not paths:
        raise UserError(f"{folder} has no tables/*.json; `publish` writes them")

    def order(one: KeptTable) -> tuple:
        name = one.numbers.table
        own = any(f"/{name}/" in run for run in one.results)
        users, first = one.numbers.text is not None, one.table and one.table.headline
        return users, not first, name.partition("/")[0], not own, name, one.numbers.label

    return sorted((_read_table(path, folder, configs) for path in paths), key=order)


def _read_table(path: Path, folder: Path, configs: Path) -> KeptTable:
    content = read_json(path)
    try:
        results = {name: read_result(result_path(folder, name)) for name in content["runs"]}
        for name, result in results.items():
            if result is None:
                raise UserError(f"{folder}: the result of {name} is missing; publish it again")
        if "comparison" in content:
            return _of_earlier_form(content, results)
        plan = _plan(content["asked"], folder, configs)
        found = asdict(measure(KeptResults(plan, results)))
        _put(content["numbers"], _by_name(found, plan.table))
        numbers = rebuilt(TableNumbers, found)
        # Not of plan.runs, which need the text.
        cells = [cell for cell in plan.cells if cell.trainable and not cell.row.cited]
        runs = [plan.workspace.run(cell, seed) for seed in plan.seeds for cell in cells]
        others = [run.name for run in runs if result_name(run) not in results]
        unfinished = {name: content["begun"].get(name, State.NOT_BEGUN.value) for name in others}
        command = command_of(plan)
        return KeptTable(numbers, command, results, unfinished, content["figure"], table=plan.table)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{path} is not a table of this version ({error!r}); publish it again, or delete it"
        ) from None


def _of_earlier_form(content: dict, results: dict[str, dict]) -> KeptTable:
    """A table as earlier versions published it: all numbers, and the command as written then."""
    return KeptTable(
        rebuilt(TableNumbers, content["comparison"]),
        content["command"],
        results,
        dict(state.split(": ", 1) for state in content["unfinished"]),
        content["figure"],
    )


def _asked(plan: Plan) -> dict:
    own, profile, user_dir = plan.workspace.own, plan.workspace.profile, plan.workspace.user_dir
    return {
        "table": plan.table.name,
        "rows": list(dict.fromkeys(cell.row.name for cell in plan.cells)),
        "columns": list(dict.fromkeys(cell.column.name for cell in plan.cells)),
        "seeds": list(plan.seeds),
        "profile": profile.name,
        # A profile's file may be anywhere, and need not be here.
        **({"settings": profile.settings} if profile.settings else {}),
        "text": own and own.folder.resolve().name,
        "source_lang": own and own.source_lang,
        "target_lang": own and own.target_lang,
        **({"user_dir": str(user_dir.relative_to(checkout(user_dir)))} if user_dir else {}),
    }


def _plan(asked: dict, folder: Path, configs: Path) -> Plan:
    """The inverse of :func:`_asked`; the text and a folder of code need not be here."""
    profile = Profile(asked["profile"], "", asked.get("settings", {}))
    own = None
    if asked["text"]:
        own = OwnText(folder / asked["text"], asked["source_lang"], asked["target_lang"])
    user_dir = USER_DIR.parent / asked["user_dir"] if "user_dir" in asked else None
    place = Workspace(folder, configs, profile, own, user_dir)
    table = load_table(asked["table"], configs)
    return make_plan(table, place, asked["rows"], asked["columns"], tuple(asked["seeds"]))


def _by_name(numbers: dict, table: Table) -> dict:
    """The lines and verdicts of a table's numbers by their names: the same objects, not copies.

    A baseline that is a line of the table becomes that line.
    """
    sections = {}
    for section in numbers["sections"]:
        lines, places = section["lines"], {}
        places["lines"] = {
            line["row"] if line["at"] is None else f"{line['row']}@{line['at']}": line
            for line in lines
        }
        own = [line for line in lines if line["row"] == table.baseline]
        if own:
            section["baseline"] = own[0]
        else:
            places["baseline"] = section["baseline"]
        places["ranks"] = section["ranks"]
        sections[section["name"]] = places
    formulas = [claim.above_zero for claim in table.claims]
    return {
        "sections": sections,
        "verdicts": dict(zip(formulas, numbers["verdicts"], strict=True)),
    }


def _beyond(whole: dict, part: dict) -> dict:
    """What must be put on the part to get the whole."""
    beyond = {}
    for key, value in whole.items():
        known = part.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            value, known = _beyond(value, known), {}
        if value != known:
            beyond[key] = value
    return beyond


def _put(beyond: dict, part: dict) -> None:
    """The inverse of :func:`_beyond`; it changes the part."""
    for key, value in beyond.items():
        if isinstance(value, dict) and isinstance(part.get(key), dict):
            _put(value, part[key])
        else:
            part[key] = value


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
            for score, found in (read_result(run.folder.result) or {"scores": {}})[
                "scores"
            ].items():
                check_score(run, score, found["value"])
    asked = {table_path(folder, plan) for plan in plans}
    changed = set()
    for name, run in {result_name(run): run for plan in plans for run in plan.runs}.items():
        before, now = read_json(result_path(folder, name)), kept_content(run)
        if before not in (None, now) and not add:
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


def runs_kept(path: Path) -> list[str]:
    """The names of the runs that a table was published with, by any version."""
    content = read_json(path)
    runs = content.get("runs", []) if isinstance(content, dict) else []
    if not isinstance(runs, list) or not all(isinstance(name, str) for name in runs):
        raise UserError(f"{path}: its runs are not names; it is damaged: delete it")
    return runs


def table_path(folder: Path, plan: Plan) -> Path:
    return folder / "tables" / f"{_stem(plan)}.json"


def _stem(plan: Plan) -> str:
    return f"{plan.table.name.replace('/', '.')}.{plan.workspace.label}"


def command_of(plan: Plan) -> list[str]:
    """The command that makes a table, with names in place of local paths."""
    asked, seeds = _asked(plan), plan.seeds
    counted = seeds == tuple(range(1, len(seeds) + 1))
    listed = ",".join(map(str, seeds)) + "," * (len(seeds) == 1)  # "5" would be five seeds
    all_columns = len(asked["columns"]) == len(plan.table.columns)
    flags = {
        "--columns": None if all_columns else ",".join(asked["columns"]),
        "--seeds": str(len(seeds)) if counted else listed,
        "--profile": None if plan.workspace.profile.is_full else asked["profile"],
        "--data": asked["text"],
        "--source-lang": asked["source_lang"],
        "--target-lang": asked["target_lang"],
        "--user-dir": asked.get("user_dir"),
    }
    rows = [] if len(asked["rows"]) == len(plan.table.rows) else asked["rows"]
    given = [word for flag, value in flags.items() if value for word in (flag, value)]
    return ["scripts/reproduce.sh", plan.table.name, *rows, *given]
