"""The tables in a folder of results that are kept with the code, beside their runs.

  FOLDER/runs/…                          see :mod:`.kept_runs`
  FOLDER/tables/PAPER.TABLE.LABEL.json   a table: what was asked for, and what its runs' results do
                                         not say of its numbers
  FOLDER/tables/PAPER.TABLE.LABEL.png    its figure, if it can be drawn

A table is what its runs' results and the configurations give, with its own file on top: intervals
and p-values, which need the references.  :mod:`.publishing` writes them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from ...errors import UserError
from ..config.paper_tables import Column, Table, load_table
from ..config.settings import Profile
from ..files.checksums import digest
from ..files.json_files import read_json
from ..runs.fairseq_commands import USER_DIR
from ..runs.plan import Plan, make_plan
from ..runs.results import read_result
from ..runs.status import State, Status
from ..runs.workspace import OwnText, Run, Workspace
from .kept_runs import checkout, result_name, result_path
from .measuring import measure
from .numbers import TableNumbers, rebuilt
from .run_results import RunResults


@dataclass(frozen=True)
class KeptResults(RunResults):
    """Results that were kept, by the names of their runs: no text, nothing that could be stale."""

    results: dict[str, dict]

    def result(self, run: Run) -> dict | None:
        return self.results.get(result_name(run))

    def status(self, run: Run) -> Status:
        return Status(State.DONE if self.result(run) else State.NOT_BEGUN)

    def sentences(self, run: Run, score: str, column: Column, at: int | None = None) -> None:
        return None

    def check_score(self, run: Run, score: str, stored: float) -> None:
        """Nothing to compare with: publishing did it before they were kept."""


@dataclass(frozen=True)
class KeptTable:
    plan: Plan  #: what was asked for
    numbers: TableNumbers
    results: dict[str, dict]  #: by the names of its runs that are done
    unfinished: dict[str, str]  #: how far its other runs were, failures included
    figure: str | None  #: the name of its figure, beside it


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
        users, first = one.numbers.text is not None, one.plan.table.headline
        return users, not first, name.partition("/")[0], not own, name, one.numbers.label

    return sorted((read_table(path, folder, configs) for path in paths), key=order)


def read_table(path: Path, folder: Path, configs: Path, edited: bool = False) -> KeptTable:
    """Read a table.

    ``edited``: what it compares may have been edited since; intervals and p-values are then wrong.
    """
    content = read_json(path)
    try:
        results = {name: read_result(result_path(folder, name)) for name in content["runs"]}
        for name, result in results.items():
            if result is None:
                raise UserError(f"{folder}: the result of {name} is missing; publish it again")
        plan = plan_of(content["asked"], folder, configs)
        now, kept = measures(plan), content["measures"]
        if not edited and any(now.get(key) != value for key, value in kept.items()):
            raise UserError(
                f"baseline, scores, runs or ranks of {plan.table.name} are not those of its file "
                f"in {configs} any more; publish it again"
            )
        found = asdict(measure(KeptResults(plan, results)))
        _put(content["numbers"], _by_name(found, plan.table))
        numbers = rebuilt(TableNumbers, found)
        # Not of plan.runs, which need the text.
        cells = [cell for cell in plan.cells if cell.trainable and not cell.row.cited]
        runs = [plan.workspace.run(cell, seed) for seed in plan.seeds for cell in cells]
        others = [run.name for run in runs if result_name(run) not in results]
        unfinished = {name: content["begun"].get(name, State.NOT_BEGUN.value) for name in others}
        return KeptTable(plan, numbers, results, unfinished, content["figure"])
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"{path} is not a table of this version ({error!r}); publish it again, or delete it"
        ) from None


def asked_for(plan: Plan) -> dict:
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


def plan_of(asked: dict, folder: Path, configs: Path) -> Plan:
    """The inverse of :func:`asked_for`; the text and a folder of code need not be here."""
    profile = Profile(asked["profile"], "", asked.get("settings", {}))
    own = None
    if asked["text"]:
        own = OwnText(folder / asked["text"], asked["source_lang"], asked["target_lang"])
    user_dir = USER_DIR.parent / asked["user_dir"] if "user_dir" in asked else None
    place = Workspace(folder, configs, profile, own, user_dir)
    table = load_table(asked["table"], configs)
    return make_plan(table, place, asked["rows"], asked["columns"], tuple(asked["seeds"]))


def measures(plan: Plan) -> dict[str, str]:
    """Digests of what a table's file says that kept intervals and p-values are of.

    Of the table, of the runs of its numbers, and of the rows of each order, by its name.
    """
    columns = {cell.column.name: cell.column for cell in plan.cells}
    rows = {cell.row.name: cell.row for cell in plan.cells}
    shown = {
        name: [one.score, one.curve, one.source_words, one.cut] for name, one in columns.items()
    }
    whole = [plan.table.baseline, shown, {name: row.scores for name, row in rows.items()}]
    runs = {f"{one.row.name}/{one.column.name}": one.run_name for one in plan.cells}
    ranked = {f"rank: {among}": ranked for among, ranked in plan.table.rank.items()}
    return {key: digest(value) for key, value in {"table": whole, "runs": runs, **ranked}.items()}


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


def beyond(whole: TableNumbers, part: TableNumbers, table: Table) -> dict:
    """What must be put on a part of a table's numbers to get the whole."""
    return _beyond(_by_name(asdict(whole), table), _by_name(asdict(part), table))


def _beyond(whole: dict, part: dict) -> dict:
    beyond = {}
    for key, value in whole.items():
        known = part.get(key)
        if isinstance(value, dict) and isinstance(known, dict):
            value, known = _beyond(value, known), {}
        if value != known:
            beyond[key] = value
    return beyond


def _put(beyond: dict, part: dict) -> None:
    """The inverse of :func:`beyond`; it changes the part."""
    for key, value in beyond.items():
        if isinstance(value, dict) and isinstance(part.get(key), dict):
            _put(value, part[key])
        else:
            part[key] = value


def runs_kept(path: Path) -> list[str]:
    """The names of the runs that a table was published with."""
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
    asked, seeds = asked_for(plan), plan.seeds
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
