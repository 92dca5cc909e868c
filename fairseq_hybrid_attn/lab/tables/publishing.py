"""Results that are kept with the code: small files, and a document made of them alone.

  FOLDER/tables/PAPER.TABLE.LABEL.json                  what a table says, and how it came about
  FOLDER/tables/PAPER.TABLE.LABEL.png                   its figure, if it is one
  FOLDER/runs/LABEL/PAPER/TABLE/ROW/COLUMN/seedN.json   the results behind it

There is no text and no checkpoint among them, and folders of the machine are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import UserError
from ..figures import style
from ..files.json_files import read_json, write_json
from ..runs.command_lines import USER_DIR, RunFolder
from ..runs.planning import Plan, status
from ..runs.results import read_result
from ..runs.workspace import Run, Workspace
from .comparing import compare
from .comparison import Comparison, comparison_of
from .drawing import draw, is_drawable


@dataclass(frozen=True)
class Published:
    """A table that is kept.

    Attributes:
        comparison: its numbers.
        command: what repeats it, in words of a command line.
        runs: names of the runs that it comes from, below ``runs/``.
        unfinished: runs that have no result, with how far they are, failures included.
        figure: the name of its figure beside it, if there is one.
    """

    comparison: Comparison
    command: list[str]
    runs: list[str]
    unfinished: list[str]
    figure: str | None


def publish(plan: Plan, folder: Path) -> None:
    """Write a table, its figure and the results behind it.

    Raises:
        UserError: if something cannot be written.
    """
    done, comparison = _compared(plan)
    for run in done:
        path = result_path(folder, name_of(run))
        _make_folder(path.parent)
        write_json(path, _content(run))
    _make_folder(folder / "tables")
    figure = None
    if is_drawable(plan) and comparison.is_measured:
        figure = f"{_stem(plan)}.png"
        style.save(draw(plan, comparison.sections), folder / "tables" / figure)
    published = Published(
        comparison=comparison,
        command=command_of(plan),
        runs=[name_of(run) for run in done],
        unfinished=[f"{run.name}: {status(run)}" for run in plan.runs if run not in done],
        figure=figure,
    )
    write_json(table_path(folder, plan), without_folders(asdict(published), plan.workspace))


def _compared(plan: Plan) -> tuple[list[Run], Comparison]:
    """The runs that have a result, and their numbers; none that ended in between is in one only."""
    while True:
        done = _done(plan)
        comparison = compare(plan)
        if _done(plan) == done:
            return done, comparison


def _done(plan: Plan) -> list[Run]:
    return [run for run in plan.runs if run.folder.result.exists()]


def _content(run: Run) -> dict | None:
    """What is kept of a run; None if it has no result."""
    result = read_result(run.folder.result)
    return None if result is None else without_folders(result, run.workspace)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path} cannot be made: {error.strerror}") from None


def check_can_be_published(plans: list[Plan], folder: Path) -> None:
    """See to it that publishing would lose nothing, nor leave other tables behind.

    Raises:
        UserError: if it would.
    """
    for plan in plans:
        _check_nothing_is_lost(plan, folder)
    _check_others_follow(plans, folder)


def _check_others_follow(plans: list[Plan], folder: Path) -> None:
    """Other tables of runs that were done again would stand beside results that they are not of."""
    asked = {table_path(folder, plan) for plan in plans}
    changed = set()
    for run in {name_of(run): run for plan in plans for run in plan.runs}.values():
        kept = read_json(result_path(folder, name_of(run)))
        if kept is not None and kept != _content(run):
            changed.add(name_of(run))
    for path in sorted((folder / "tables").glob("*.json")):
        older = sorted(changed.intersection(runs_kept(path)))
        if path not in asked and older:
            raise UserError(
                f"{path} is of an older result of {older[0]}; publish its table as well"
            )


def _check_nothing_is_lost(plan: Plan, folder: Path) -> None:
    """The plan has the runs that were published, as another clone has not."""
    names = {name_of(run) for run in plan.runs}
    path, root = table_path(folder, plan), plan.workspace.root
    for name in runs_kept(path):
        seed = name.rpartition("/seed")[2]
        if not RunFolder(root / "runs" / name).result.exists():
            raise UserError(
                f"{path} is of runs that {root} lacks, such as {name}; name the folder they are "
                "in (--output), or delete the file"
            )
        if seed not in map(str, plan.seeds):
            raise UserError(f"{path} is also of seed {seed}; name it (--seeds), or delete the file")
        if name not in names:
            raise UserError(
                f"{path} is also of {name}; name its row and its column, or delete the file"
            )


def runs_kept(path: Path) -> list[str]:
    """Names of the runs that a table was published of, by whatever version; none if it was not."""
    content = read_json(path)
    return content.get("runs", []) if isinstance(content, dict) else []


def table_path(folder: Path, plan: Plan) -> Path:
    """Where a plan's table is kept."""
    return folder / "tables" / f"{_stem(plan)}.json"


def _stem(plan: Plan) -> str:
    return f"{plan.table.name.replace('/', '.')}.{plan.workspace.label}"


def read_published(folder: Path) -> list[Published]:
    """All tables that are kept in a folder; of a paper's, those first that have runs of their own.

    Raises:
        UserError: if there is none, or one cannot be read.
    """
    paths = sorted((folder / "tables").glob("*.json"))
    if not paths:
        raise UserError(f"{folder} has no tables/*.json; `publish` writes them")
    return sorted(map(_published, paths), key=_order)


def _order(one: Published) -> tuple:
    name = one.comparison.table
    own = any(f"/{name}/" in run for run in one.runs)
    return name.partition("/")[0], not own, name, one.comparison.label


def _published(path: Path) -> Published:
    content = read_json(path)
    try:
        return Published(**{**content, "comparison": comparison_of(content["comparison"])})
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is no table of this version's ({error!r}); publish it again, or delete it"
        ) from None


def results_of(folder: Path, published: Iterable[Published]) -> list[dict]:
    """The results behind tables, each once.

    Raises:
        UserError: if one is not there.
    """
    names = dict.fromkeys(name for one in published for name in one.runs)
    results = [(name, read_result(result_path(folder, name))) for name in names]
    lacking = [name for name, result in results if result is None]
    if lacking:
        raise UserError(f"{folder} lacks the result of {lacking[0]}; publish it again")
    return [result for _, result in results]


def name_of(run: Run) -> str:
    """``label/paper/table/row/column/seedN``."""
    return f"{run.workspace.label}/{run.name}"


def result_path(folder: Path, name: str) -> Path:
    """Where a result is kept."""
    return folder / "runs" / f"{name}.json"


def command_of(plan: Plan) -> list[str]:
    """The command that makes a table, with names for the folders of the machine."""
    place = plan.workspace
    rows = list(dict.fromkeys(cell.row.name for cell in plan.cells))
    columns = list(dict.fromkeys(cell.column.name for cell in plan.cells))
    seeds = plan.seeds
    counted = seeds == tuple(range(1, len(seeds) + 1))
    command = ["scripts/reproduce.sh", plan.table.name]
    if len(rows) < len(plan.table.rows):
        command += rows
    if len(columns) < len(plan.table.columns):
        command += ["--columns", ",".join(columns)]
    command += ["--seeds", str(len(seeds)) if counted else ",".join(map(str, seeds))]
    if not place.profile.is_full:
        command += ["--profile", place.profile.name]
    if place.own:
        command += ["--data", place.own.folder.resolve().name]
        for flag, language in (
            ("--source-lang", place.own.source_lang),
            ("--target-lang", place.own.target_lang),
        ):
            command += [flag, language] if language else []
    return command


def without_folders(content: dict, workspace: Workspace) -> dict:
    """A result with names in place of the machine's folders."""
    names = {
        str(workspace.root): "reproduction",
        **{checkout: "." for checkout in (str(USER_DIR.parent), *_checkouts(content))},
        **({str(workspace.own.folder.resolve()): "text"} if workspace.own else {}),
    }

    def replaced(part: object) -> object:
        match part:
            case dict():
                return {key: replaced(value) for key, value in part.items()}
            case list() | tuple():
                return [replaced(value) for value in part]
            case str():
                for folder in sorted(names, key=len, reverse=True):
                    part = part.replace(folder, names[folder])
        return part

    return replaced(content)


def _checkouts(result: dict) -> set[str]:
    """The folders that a run's commands took the plugin from, which may be another clone."""
    commands = result.get("commands", {}).values()
    user_dirs = {
        command[at + 1]
        for command in commands
        for at, word in enumerate(command[:-1])
        if word == "--user-dir"
    }
    return {str(Path(folder).parent) for folder in user_dirs}
