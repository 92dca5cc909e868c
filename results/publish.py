"""Publish the evidence: write pages and figures from the runs in this folder, or add runs to it.

    python results/publish.py                           # pages/, figures/, claims.md
    python results/publish.py evidence/mma --seeds 3    # first copy runs from reproduction/

tables.yaml lists the published tables, claims.yaml what is claimed about them.  A run is copied
with its result, without local paths, the counts of its sentences and its translations; never with
its checkpoints.
"""

from __future__ import annotations

import argparse
import gzip
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.commands.workspace_flags import add_cells, add_workspace, plans
from fairseq_hybrid_attn.lab.config.paper_tables import Cell, load_table
from fairseq_hybrid_attn.lab.config.settings import load_profile
from fairseq_hybrid_attn.lab.figures import style
from fairseq_hybrid_attn.lab.files.deleting import delete
from fairseq_hybrid_attn.lab.files.json_files import write_json
from fairseq_hybrid_attn.lab.files.local_paths import without_folders
from fairseq_hybrid_attn.lab.files.tabular import Grid
from fairseq_hybrid_attn.lab.files.typed import read
from fairseq_hybrid_attn.lab.files.writing import atomic_write
from fairseq_hybrid_attn.lab.files.yaml_files import read_mapping
from fairseq_hybrid_attn.lab.plan.plan import Plan, make_plan
from fairseq_hybrid_attn.lab.run.fairseq_commands import USER_DIR, flags
from fairseq_hybrid_attn.lab.run.folder import RunFolder
from fairseq_hybrid_attn.lab.run.results import read_result
from fairseq_hybrid_attn.lab.run.workspace import OwnText, Run, Workspace
from fairseq_hybrid_attn.lab.scores.counts import Score
from fairseq_hybrid_attn.lab.scores.statistics import HOW, Estimate, estimate
from fairseq_hybrid_attn.lab.tables.drawing import draw, is_drawable
from fairseq_hybrid_attn.lab.tables.measuring import TableNumbers, measure
from fairseq_hybrid_attn.lab.tables.printing import as_markdown
from fairseq_hybrid_attn.lab.tables.stored_runs import StoredRuns

RESULTS = Path(__file__).resolve().parent
ROOT = RESULTS.parent
#: The languages of published texts of a user's.
LANGUAGES = ("de", "en")
#: An end of an interval so near to zero that a little more or less would change the verdict.
CLOSE = 0.02
#: The set-ups of claims, in the order of columns.
SHORT = "short"
SET_UPS = (SHORT, "recipe", "small size", "Japanese", "German", "alignment")


@dataclass(frozen=True)
class Published:
    """A published table: what ``tables.yaml`` says of it."""

    seeds: tuple[int, ...]
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    text: str | None = None
    set_up: str = field(default=SHORT)
    rank: dict[str, Any] = field(default_factory=dict)

    def plan(self, name: str) -> Plan:
        own = OwnText((Path(self.text),), *LANGUAGES) if self.text else None
        configs = ROOT / "configs"
        workspace = Workspace(RESULTS, configs, load_profile("full", configs), own)
        table = load_table(name, configs)
        return make_plan(table, workspace, rows=self.rows, columns=self.columns, seeds=self.seeds)

    def command(self, name: str) -> str:
        """The command that prints it."""
        words = ["fairseq-hybrid", "table", name, *self.rows]
        words += ["--seeds", ",".join(map(str, self.seeds)) + "," * (len(self.seeds) == 1)]
        source, target = LANGUAGES if self.text else (None, None)
        columns = ",".join(self.columns) or None
        words += flags(columns=columns, text=self.text, source_lang=source, target_lang=target)
        return shlex.join([*words, "--output", "results"])


@dataclass(frozen=True)
class Claim:
    """A sum of a table's numbers, positive where the claim is right (see ``claims.yaml``)."""

    says: str
    plus: tuple[tuple[str, ...], ...]
    minus: tuple[tuple[str, ...], ...]
    source: str = ""
    paper: float | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@cache
def published() -> dict[str, Published]:
    path = RESULTS / "tables.yaml"
    return read(dict[str, Published], read_mapping(path), str(path))


@cache
def claims() -> dict[str, tuple[Claim, ...]]:
    """The claims by their paper."""
    path = RESULTS / "claims.yaml"
    return read(dict[str, tuple[Claim, ...]], read_mapping(path), str(path))


@cache
def stored(table: str) -> StoredRuns:
    return StoredRuns(published()[table].plan(table))


@cache
def measured(table: str) -> TableNumbers:
    return measure(stored(table).plan, stored(table))


# -- Claims -----------------------------------------------------------------------------------


@cache
def total(table: str, plus: tuple, minus: tuple) -> Estimate | None:
    """A sum of a table's numbers over the seeds that have all; None if there is none."""
    measured(table)  # so that its page names its runs in one order
    runs, terms = stored(table), []
    for sign, names in ((1, plus), (-1, minus)):
        for row, column in names:
            plan = runs.plan
            cell = Cell(plan.table, plan.table.row(row), plan.table.column(column))
            terms.append((sign, _scores(runs, cell)))
    counts = [score.counts for _, scores in terms for score in scores.values()]
    if len({one.origin for one in counts if one and one.part is None}) > 1:
        raise UserError(f"{table}: a claim's numbers are of different texts or signatures")
    return estimate(*terms)


def _scores(runs: StoredRuns, cell: Cell) -> Mapping[int, Score]:
    return runs.scores(cell)[1][None] if runs.of_cell(cell) else {}


def judge(claim: Claim, table: str) -> tuple[Estimate | None, str]:
    """What a table's numbers say of a claim, and the symbol of it."""
    found = total(f"evidence/{table}", claim.plus, claim.minus)
    if found is None or found.half is None:
        return found, ""
    return found, "✓" if found.low > 0 else "✗" if found.high < 0 else "~"


def claims_page() -> str:
    """The claims of each paper beside our numbers, and a tally."""
    tally, blocks = [], []
    for paper, of_paper in claims().items():
        judged = [
            (claim, table, *judge(claim, table))
            for claim in of_paper
            for table in (*claim.before, *claim.after)
        ]
        symbols = [symbol for *_, symbol in judged]
        late = sum(table in claim.after for claim, table, *_ in judged)
        counts = [symbols.count(symbol) for symbol in "✓✗~"]
        tally.append([paper, *counts, symbols.count(""), late])
        named = {published()[f"evidence/{table}"].set_up for _, table, *_ in judged}
        set_ups = [one for one in SET_UPS if one in named]
        rows = [_row(claim, set_ups) for claim in of_paper]
        headings = ["claim", "source", "paper", *set_ups, "pages"]
        blocks.append(f"## {paper}\n\n{Grid(headings, rows, left=2).markdown()}\n")
    headings = ["", "✓ held", "✗ did not hold", "~ not decided", "not run", "written after*"]
    return "\n".join([CLAIMS_HEAD, Grid(headings, tally, left=1).markdown(), "", *blocks])


def _row(claim: Claim, set_ups: list[str]) -> list[str]:
    cells: dict[str, list[str]] = {}
    for table in (*claim.before, *claim.after):
        found, symbol = judge(claim, table)
        mark = r"\*" * (table in claim.after) + "¹" * bool(found and len(found.by_seed) == 1)
        shown = f"{found.text()} {symbol}" if found else "not run"
        if found and symbol and min(abs(found.low), abs(found.high)) < CLOSE:
            shown += "≈"
        scale = " (post-norm)" * (table == "scales_post_norm")
        set_up = published()[f"evidence/{table}"].set_up
        cells.setdefault(set_up, []).append(f"{shown}{mark}{scale}")
    pages = (f"[{table}](pages/evidence.{table}.md)" for table in (*claim.before, *claim.after))
    paper = "" if claim.paper is None else f"{claim.paper:.2f}"
    ours = ["; ".join(cells.get(set_up, [])) for set_up in set_ups]
    return [claim.says, claim.source, paper, *ours, ", ".join(pages)]


CLAIMS_HEAD = f"""\
# The papers' claims beside our numbers

Every claim is worded so that a positive number means that it is right. Numbers are differences of
BLEU, in "Attention and alignment" of alignment error rate. The papers' are of other texts and
larger models: compare signs, and sizes with care.

| symbol | meaning |
|---|---|
| ± | half the 95 % interval, over seeds and sentences together; of one seed (¹), over sentences |
| ✓ | held: the whole interval is above zero |
| ✗ | did not hold: the whole interval is below zero |
| ~ | not decided: neither |
| ≈ | close: an end of the interval is within {CLOSE} of zero |
| * | written after the first results of these runs, or of the same systems on the same text or in \
the [pilot](measurements/pilot.evidence.positions.json) |

| word | meaning |
|---|---|
| short | short training on Multi30k, German to English: 1,200 updates, up to three seeds |
| recipe | Transformer-Tiny's published recipe, Multi30k, English to German, two seeds |
| small size | that recipe at HySAN's small size (width 256), two seeds |
| Japanese | small_parallel_enja, Japanese to English, 5,000 updates, up to three seeds |
| German | German to English, 10,000 updates, on Tatoeba's sentences unless said, one seed |
| alignment | Europarl and Tatoeba, 100 hand-aligned sentences, one seed |
| e1 | HySAN's main model: branches global, past, future and five tokens to each side |
| alone | heads of this kind, and no others, beside the global head |
| from 1/4 | e1 with a bias that makes its four encoder gates start at 1/4 instead of 1/2 |

{HOW}
"""


# -- Pages ------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """The pages of published tables by file name."""
    found = {}
    for name, one in published().items():
        numbers = measured(name)
        blocks = [as_markdown(numbers), *rank_lines(name)]
        if figure := figure_name(name):
            blocks.append(f"![{numbers.title}](../{figure})\n")
        blocks.append(
            f"This is what `{one.command(name)}` prints; [what the papers claim](../claims.md); "
            "[what its runs were made with](runs.md).\n"
        )
        found[f"{name.replace('/', '.')}.md"] = "\n".join(blocks)
    return {**found, "runs.md": runs_page()}


def rank_lines(name: str) -> Iterator[str]:
    """Spearman's rank correlation of the paper's numbers and ours, over the seeds all rows have."""
    from scipy.stats import spearmanr

    for among, rows in published()[name].rank.items():
        for column in measured(name).columns:
            found = [
                (number.paper, number.ours.by_seed)
                for number in measured(name).of(column.name)
                if number.ours
                and number.paper is not None
                and (rows == "all" or number.row in rows)
            ]
            seeds = sorted(set.intersection(*(set(by_seed) for _, by_seed in found)))
            ours = [sum(by_seed[seed] for seed in seeds) for _, by_seed in found]
            value = spearmanr([paper for paper, _ in found], ours).statistic
            where = f"{column.title}, {among}"
            told = f"{len(found)} rows, seeds {' '.join(map(str, seeds))}"
            yield f"Rank correlation with the paper, {where}: {value:.2f}; {told}.\n"


def figure_name(name: str) -> str | None:
    """The file of a table's figure in this folder; None if it cannot be drawn."""
    plan = stored(name).plan
    if not (is_drawable(plan) and measured(name).measured):
        return None
    return f"figures/{name.replace('/', '.')}.{plan.workspace.label}.png"


RUNS_HEAD = """\
# What the runs were made with

Runs of one table with the same code, versions and hardware are one line. Hours are those of
training, all runs together. `result.json` in a run's folder has its commands and settings.
"""


def runs_page() -> str:
    """What the published runs were made with, and how long they trained, by table."""
    hours: dict[tuple[str, ...], list[float]] = {}
    for path in sorted((RESULTS / "runs").rglob("result.json")):
        run = read_result(path) or {}
        code, machine = run["code"], run["hardware"]
        made_with = (
            f"{run['paper']}/{run['table']}",
            (code["commit"] or "unknown")[:10] + " (modified)" * bool(code["modified"]),
            ", ".join([machine["processor"], *machine["gpus"]]),
            run["devices"],
            ", ".join(f"{name} {version}" for name, version in run["versions"].items()),
        )
        hours.setdefault(made_with, []).append(run["training_seconds"] / 3600)
    headings = ["table", "runs", "hours", "commit", "machine", "trained on", "versions"]
    rows = [
        [table, len(each), f"{sum(each):.1f}", *others] for (table, *others), each in hours.items()
    ]
    return f"{RUNS_HEAD}\n{Grid(headings, rows, left=1).markdown()}\n"


# -- Figures ----------------------------------------------------------------------------------

_SYSTEMS = {
    "Transformer": "transformer",
    "MMA": "transformer_mma",
    "HySAN e1": "hysan_e1",
    "e1, gates from 1/4": "gated_from_mean",
    "hybrid gate": "hybrid_gate",
}
#: The tables of each set-up that have these systems.
_TABLES = {
    "short": ("positions", "scales"),
    "recipe": ("tiny",),
    "small size": ("hysan_small",),
    "Japanese": ("japanese",),
    "Tatoeba": ("german",),
}
#: The dot plots: what is on the axis, and the terms of each system.
PLOTS = {
    "positions_lost": (
        "BLEU lost without positions on both sides",
        lambda row: (((row, "positions"),), ((row, "no_positions"),)),
    ),
    "positions_gained": (
        "BLEU above the Transformer, with positions",
        lambda row: (((row, "positions"),), (("transformer", "positions"),)),
    ),
}


def dots(plot: str) -> dict[str, dict[str, Estimate]]:
    """The numbers of a plot: by set-up and system."""
    found: dict[str, dict[str, Estimate]] = {}
    for set_up, tables in _TABLES.items():
        for system, row in _SYSTEMS.items():
            for table in tables:
                terms, rows = PLOTS[plot][1](row), stored(f"evidence/{table}").plan.table.rows
                if row not in {one.name for one in rows} or terms[0] == terms[1]:
                    continue
                columns = {column.name for column in stored(f"evidence/{table}").plan.table.columns}
                if not {column for names in terms for _, column in names} <= columns:
                    continue
                if one := total(f"evidence/{table}", *terms):
                    found.setdefault(set_up, {})[system] = one
                    break
    return found


def draw_dots(plot: str, theme: str) -> Any:
    """A dot with a 95 % interval for each system, grouped by set-up."""
    numbers = dots(plot)
    with style.theme(theme) as colours:
        count = sum(map(len, numbers.values())) + len(numbers)
        figure = style.new_figure(6.4, 0.9 + 0.23 * count)
        axes = figure.subplots()
        axes.grid(axis="y", visible=False)
        axes.axvline(0, color=colours.ink, linewidth=0.8)
        at, places, labels = 0, [], []
        looks = {name: style.series(n, colours) for n, name in enumerate(_SYSTEMS)}
        for set_up, systems in numbers.items():
            places.append(at)
            labels.append(set_up)
            at += 1
            for name, one in systems.items():
                look = {**looks[name], "linestyle": ""}
                axes.errorbar(one.value, at, xerr=one.half, capsize=2.5, elinewidth=1.2, **look)
                places.append(at)
                labels.append(name)
                at += 1
        axes.set_yticks(places, labels)
        for label in axes.get_yticklabels():
            label.set_fontweight("bold" if label.get_text() in numbers else "normal")
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(at - 0.3, -0.7)
        low, high = _limits(numbers)
        axes.set_xlim(low, high)
        axes.set_xlabel(PLOTS[plot][0])
    return figure


def _limits(numbers: Mapping[str, Mapping[str, Estimate]]) -> tuple[float, float]:
    """The ends of the axis: all dots, and intervals that are not much wider than all of them."""
    values = [one.value for systems in numbers.values() for one in systems.values()]
    margin = 0.25 * (max(values) - min(values))
    return min(*values, 0) - margin, max(*values, 0) + margin


def write_all() -> None:
    """Write pages, figures and claims."""
    for name in published():
        if figure := figure_name(name):
            style.save(draw(stored(name).plan, measured(name)), RESULTS / figure)
    for plot in PLOTS:
        for theme in style.THEMES:
            path = RESULTS / f"figures/{plot}-{theme}.svg"
            style.save(draw_dots(plot, theme), path)
    for name, text in {"claims.md": claims_page(), **_in("pages", pages())}.items():
        with atomic_write(RESULTS / name) as file:
            file.write(text.encode())


def _in(folder: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {f"{folder}/{name}": text for name, text in texts.items()}


# -- Adding runs ------------------------------------------------------------------------------


def copy_runs(plan: Plan, folder: Path) -> None:
    """Copy the finished runs of a plan, whose results must be those of their counts."""
    if plan.faults:
        raise UserError(plan.faults[0])
    runs = StoredRuns(plan)
    done = [run for run in plan.runs if runs.result(run)]
    for run in done:
        for score in (runs.result(run) or {})["scores"]:
            runs.counts(run, score)
        copy_run(run, folder)
    print(f"{plan.table.name}: {len(done)} of {len(plan.runs)} runs are in {folder}")


def copy_run(run: Run, folder: Path) -> None:
    """Copy a run's result, counts and translations; its result without local paths."""
    source = run.folder
    kept = RunFolder(folder / "runs" / run.workspace.label / run.name)
    kept.path.mkdir(parents=True, exist_ok=True)
    translations = kept.hypotheses.with_name(f"{kept.hypotheses.name}.gz")
    for path, found, packed in (
        (kept.counts, source.counts, bytes),
        (translations, source.hypotheses, partial(gzip.compress, mtime=0)),
    ):
        delete(path, inside=folder)  # it may be of another training
        if found.exists():
            with atomic_write(path) as file:
                file.write(packed(found.read_bytes()))
    write_json(kept.result, without_paths(read_result(source.result) or {}, run.workspace))


def without_paths(content: dict, workspace: Workspace) -> dict:
    """A result with names in place of local paths."""
    names = {str(workspace.root): "reproduction", str(USER_DIR.parent): "."}
    if workspace.own:
        names |= {str(path.resolve()): "text" for path in workspace.own.paths}
    return without_folders(content, names)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_cells(parser, nargs="*")
    add_workspace(parser)
    parser.set_defaults(user_dir=None)
    args = parser.parse_args(words)
    for plan in plans(args) if args.names else []:
        copy_runs(plan, RESULTS)
    write_all()


if __name__ == "__main__":
    main()
