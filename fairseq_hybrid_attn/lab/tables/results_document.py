"""The document of all results that are kept, RESULTS.md."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import UserError
from ..config.paper_tables import Claim, table_names
from ..runs.plan import make_plan
from ..runs.run_folders import BF16_CRITERIA
from ..runs.status import State
from .claims import HOW_JUDGED, how_judged, terms_of
from .grids import claims_grid
from .headline import headline_table
from .kept_tables import KeptTable, command_of
from .numbers import Verdict
from .printing import as_markdown

HEAD = """\
# Results

{picture}`fairseq-hybrid publish` makes this file from [`{folder}/`]({folder}) and the papers'
numbers in `configs/`; do not edit it. BLEU on another text, or of models of another size, cannot be
compared with a paper's. Differences can, with care.
"""

PICTURE = """\
<picture>
  <source media="(prefers-color-scheme: dark)" srcset="{folder}/headline-dark.svg">
  <img alt="{title}" src="{folder}/headline-light.svg">
</picture>

"""

LATE = """\
\\*: written after the first results of these runs, or of the same systems in another table. When
the other claims were written, at least one of their numbers was not known; many were suggested by
a pilot with similar runs, whose scores were known, or by an earlier study.
"""

ABOUT = """\
Run again, a command resumes. To run one system alone, add the name of its row, which stands before
a colon in the table, or in the table's file in `configs/`. Each table with `--data text` needs its
own folder; its note says which. The time of a run is in the first line that needs it; later lines,
and the facts below, name the table whose file defines it. ‡: the code has changed since, and the
result was kept (`--accept-stale`). Of all runs:
"""

#: Folders of tables that are not a paper's.
_NOT_PAPERS = ("demo",)


def write_up(tables: list[KeptTable], name: str, configs: Path) -> str:
    """Return the document as Markdown; ``name`` is the folder of results as seen from it."""
    measured = [one for one in tables if one.numbers.is_measured]
    first = headline_table(tables)
    picture = first and PICTURE.format(folder=name, title=first.numbers.title)
    blocks = [HEAD.format(folder=name, picture=picture or "")]
    blocks += _in_short(measured)
    for one in measured:
        others = tuple(_marked(*pair) for pair in _judged(one) if not pair[0].in_short)
        blocks.append(as_markdown(replace(one.numbers, verdicts=others)))
        if one.figure:
            blocks.append(f"![{one.numbers.title}]({name}/tables/{one.figure})\n")
    blocks += _how_to_repeat(measured)
    blocks += _not_used(tables)
    blocks += _not_run(measured, configs)
    before, judged, after = "\n".join(blocks).partition(f"{HOW_JUDGED}\n\n")
    return before + judged + after.replace(judged or "\0", "")  # it is said once


def _judged(one: KeptTable) -> list[tuple[Claim, Verdict]]:
    return list(zip(one.plan.table.claims, one.numbers.verdicts, strict=True))


def _in_short(measured: list[KeptTable]) -> list[str]:
    """How many claims held, the main ones, and how to check one of them."""
    lines = []
    papers = [one for one in measured if one.numbers.is_papers]
    judged = [pair for one in papers for pair in _judged(one)]
    theirs = [(claim, verdict) for claim, verdict in judged if verdict.paper is not None]
    lines += _tally("claims with numbers in the papers", theirs)
    ours = [pair for pair in judged if pair not in theirs]
    lines += _tally("other claims, most of them questions of ours", ours)
    for one in measured:
        if one not in papers:
            where = "on another text" if one.numbers.text else f"profile {one.numbers.profile}"
            lines += _tally(f"claims of {one.numbers.table}, {where}", _judged(one))
    if not lines:
        return []
    blocks = ["## In short\n", "By the tables below:\n", "\n".join(lines) + "\n"]
    blocks += [LATE] if "marked *" in blocks[-1] else []
    main = [(one, *pair) for one in measured for pair in _judged(one) if pair[0].in_short]
    if main:
        grid = claims_grid([_named(one, _marked(claim, verdict)) for one, claim, verdict in main])
        blocks += ["The main ones, chosen when the results were known:\n", f"{grid.markdown()}\n"]
        told = how_judged(verdict for _, _, verdict in main)
        blocks += [_signatures(main), *(f"{how}\n" for how in told), *_check(*main[0])]
    return blocks


def _marked(claim: Claim, verdict: Verdict) -> Verdict:
    return replace(verdict, claim=verdict.claim + "*" * claim.after_results)


def _named(one: KeptTable, verdict: Verdict) -> Verdict:
    """With its text and scale, if they are not the papers'."""
    if one.numbers.is_papers:
        return verdict
    return replace(verdict, claim=f"{verdict.claim} ({one.numbers.label})")


def _signatures(main: list[tuple[KeptTable, Claim, Verdict]]) -> str:
    """Those of the scores that claims add up, each with its tables."""
    tables: dict[str, dict[str, None]] = {}
    for one, claim, _ in main:
        cells = {(c.row.name, c.column.name) for _, c in terms_of(one.plan.table, claim)}
        for section in one.numbers.sections:
            for line in (line for line in section.measured if (line.row, section.name) in cells):
                tables.setdefault(line.ours.signature, {})[one.numbers.table] = None
    return "\n".join(f"- {', '.join(of)}: {signature}" for signature, of in tables.items()) + "\n"


def _tally(what: str, judged: list[tuple[Claim, Verdict]]) -> list[str]:
    counts = Counter(verdict.verdict for _, verdict in judged)
    late = sum(claim.after_results for claim, _ in judged)
    what += f" ({late} written after the first results, marked *)" if late else ""
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    return [f"- of {len(judged)} {what}: {told}"] if judged else []


def _check(first: KeptTable, claim: Claim, verdict: Verdict) -> list[str]:
    """The command that repeats a claim's runs of the first seed."""
    table, place = first.plan.table, first.plan.workspace
    cells = [cell for _, cell in terms_of(table, claim)]
    seed = next(iter(verdict.by_seed), None)
    wanted = {f"{first.numbers.label}/{cell.run_name}/seed{seed}" for cell in cells}
    runs = [result for name, result in first.results.items() if name in wanted]
    if not runs or first.numbers.text is not None:
        return []
    rows, columns = [cell.row.name for cell in cells], [cell.column.name for cell in cells]
    words = command_of(make_plan(table, place, rows, columns, (int(seed),))) + device_flags(runs)
    told = f"To repeat the first with seed {seed}: `{shlex.join(words)}`"
    gave = f"{verdict.by_seed[seed]:+.2f}"
    machines = "; ".join(dict.fromkeys(map(_machine, runs)))
    return [f"{told}. It gave {gave} ({_count(runs)}, {_time(runs)}, on {machines}).\n"]


def _how_to_repeat(measured: list[KeptTable]) -> list[str]:
    """The commands and what they took; facts of their runs, each once for those that share it."""
    if not measured:
        return []
    lines, runs = [], dict[str, dict]()
    for one in measured:
        for name, result in one.results.items():
            check_facts(result, f"the result of {name}")
        own = {name: result for name, result in one.results.items() if name not in runs}
        others = dict.fromkeys(_owner(r) for name, r in one.results.items() if name in runs)
        runs |= own
        took = [f"{_count(own)}, {_time(list(own.values()))}"] if own else []
        if others:
            took.append(f"{_count(one.results.keys() - own)} of {', '.join(others)}")
        if one.unfinished:
            took.append(f"{_count(one.unfinished)} without a result")
        words = command_of(one.plan) + device_flags(one.results.values())
        lines.append(f"- `{shlex.join(words)}`: {'; '.join(took)}")
    facts = [f"- {_by_table(fact, list(runs.values()))}" for fact in FACTS]
    return ["## How to repeat each\n", "\n".join(lines) + "\n", ABOUT, "\n".join(facts) + "\n"]


def device_flags(runs: Collection[dict]) -> list[str]:
    """The flags for runs on CPUs; a GPU, which is the default, gives other numbers."""
    if not all(run["devices"].startswith("CPU") for run in runs):
        return []
    several = {tuple(re.findall(r"(\d+) threads", run["devices"])) for run in runs}
    threads = several.pop() if len(several) == 1 else ()
    words = ["--device", "cpu", *(word for number in threads for word in ("--threads", number))]
    able = any(run["settings"]["train"].get("criterion") in BF16_CRITERIA for run in runs)
    single = able and not any(", bf16" in run["devices"] for run in runs)
    return words + ["--precision", "fp32"] * single


def _count(runs: Collection) -> str:
    return f"{len(runs)} run" + ("s" if len(runs) > 1 else "")


def _owner(result: dict) -> str:
    """The table that a run is of, and the text, if it is not the papers'."""
    _, at, text = result["label"].partition("@")
    return f"{result['paper']}/{result['table']}" + (f" ({text})" if at else "")


def _not_used(tables: list[KeptTable]) -> list[str]:
    """Runs that were begun and have not ended, and what the tables' files say of others."""
    states = {name: state for one in tables for name, state in one.unfinished.items()}
    told = [f"- {n}: {state}" for n, state in states.items() if state != State.NOT_BEGUN.value]
    told += [f"- {one.numbers.table}: {run}" for one in tables for run in one.plan.table.not_used]
    return ["## Failed, stopped or not used\n", "\n".join(told) + "\n"] if told else []


def _not_run(measured: list[KeptTable], configs: Path) -> list[str]:
    """The tables of each paper that have no number here."""
    papers: dict[str, list[str]] = {}
    for name in table_names(configs):
        paper, _, table = name.partition("/")
        if paper not in _NOT_PAPERS and name not in {one.numbers.table for one in measured}:
            papers.setdefault(paper, []).append(table)
    lines = [f"- {paper}: {', '.join(names)}" for paper, names in papers.items()]
    return ["## Not run\n", "\n".join(lines) + "\n"] if lines else []


def check_facts(result: dict, where: str) -> None:
    """Check that a result has what the document says of it."""
    try:
        _time([result]), _owner(result), [of(result) for of in FACTS.values()]
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UserError(
            f"{where} is not one of this package ({error!r}); delete it, and `reproduce` makes it "
            "again"
        ) from None


def _time(results: Sequence[dict]) -> str:
    seconds = [result["training_seconds"] for result in results]
    each = " to ".join(dict.fromkeys(f"{of(seconds) / 60:.0f}" for of in (min, max)))
    return f"{each} min of training each, {sum(seconds) / 3600:.1f} h one after the other"


def _machine(result: dict) -> str:
    hardware = result["hardware"]
    return f"{result['devices']}, {(*hardware['gpus'], hardware['processor'])[0]}"


def _by_table(fact: str, results: Sequence[dict]) -> str:
    """A fact, once if all results share it, or else with the tables, rows or seeds that have it."""
    found: dict[str, dict[str, list[dict]]] = {}
    of_table: dict[str, list[dict]] = {}
    for result in results:
        table = _owner(result)
        found.setdefault(FACTS[fact](result), {}).setdefault(table, []).append(result)
        of_table.setdefault(table, []).append(result)
    if len(found) == 1:
        return f"{fact}: {next(iter(found))}"
    lines = [f"{fact}:"]
    for text, tables in found.items():
        who = [table + _which(having, of_table[table]) for table, having in tables.items()]
        lines.append(f"{text} ({'; '.join(who)})")
    return "\n  - ".join(lines)


def _which(some: list[dict], of: list[dict]) -> str:
    """Which results of a table these are: all, those of some rows, or those of some seeds."""
    if len(some) == len(of):
        return ""
    for key in ("row", "seed"):
        values = dict.fromkeys(str(result[key]) for result in some)
        if sum(str(result[key]) in values for result in of) == len(some):
            return f": {'seed ' * (key == 'seed')}{', '.join(values)}"
    columns = len({result["column"] for result in of}) > 1
    names = [one["row"] + f"/{one['column']}" * columns for one in some]
    seeds = [f" (seed {one['seed']})" for one in some]
    return ": " + ", ".join(dict.fromkeys(map(str.__add__, names, seeds)))


def _budget(result: dict) -> str:
    tokens = result["settings"]["batch"]["tokens"]
    epoch = f", ending in epoch {result['epoch']} of the text" if result["epoch"] else ""
    return f"{result['updates']:,} updates of at most {tokens:,} tokens{epoch}"


def _text(result: dict) -> str:
    corpus = result["corpus"]
    counts = ", ".join(f"{part} {count:,}" for part, count in sorted(corpus["counts"].items()))
    languages = f"{corpus['source']}-{corpus['target']}"
    return f"{languages}, pairs: {counts} (digest {corpus['digest'][:12]})"


def _commit(result: dict) -> str:
    code = result["code"]
    commit = code["commit"] or f"digest {code['digest'][:12]}"
    return f"commit {commit}" + (", modified" if code["modified"] else "")


#: What is reported about runs, besides their time.
FACTS: dict[str, Callable[[dict], str]] = {
    "budget": _budget,
    "machine": _machine,
    "parameters": lambda result: f"{result['parameters']:,}",
    "text": _text,
    "code of the package (configurations may be of later commits)": _commit,
    "versions": lambda result: ", ".join(f"{name} {v}" for name, v in result["versions"].items()),
}
