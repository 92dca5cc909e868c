"""The document of all results that are kept, RESULTS.md."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from ...errors import UserError
from ..planning.status import State
from .printing import as_markdown
from .results_folder import KeptTable, read_tables

HEAD = """\
# Results

`fairseq-hybrid publish` makes this file from [`{folder}/`]({folder}) and the papers' numbers in
`configs/`; do not edit it. What was not run is marked so. Levels on another text or at another size
than a paper's cannot be compared with the paper's. Differences between rows can, with the level in
mind: a system at 10 BLEU cannot fall by 16.
"""


def write_up(folder: Path, name: str, configs: Path) -> str:
    """Return the document as Markdown; ``name`` is the folder of results as seen from it."""
    tables = read_tables(folder, configs)
    blocks, written = [HEAD.format(folder=name)], set[tuple[str, str]]()
    for one in tables:
        if one.numbers.is_measured:
            blocks.append(as_markdown(one.numbers))
            if one.figure:
                blocks.append(f"![{one.numbers.title}]({name}/tables/{one.figure})\n")
            blocks.append(_how(one, written))
            if one.unfinished:
                blocks.append(f"Not finished: {_states(one)}\n")
            written.add((one.numbers.table, one.numbers.label))
    not_run = [_not_run(one) for one in tables if not one.numbers.is_measured]
    if not_run:
        blocks += ["## Not run\n", "\n".join(not_run) + "\n"]
    return "\n".join(blocks)


def _how(one: KeptTable, written: set[tuple[str, str]]) -> str:
    """The command that repeats a table, and what its runs took, unless already stated."""
    for name, result in one.results.items():
        check_facts(result, f"the result of {name}")
    told = _told(list(one.results.values()), written)
    command = f"```sh\n{shlex.join(one.command)}\n```\n"
    return "\n".join([command, *(f"- {line}" for line in told)]) + "\n"


def check_facts(result: dict, where: str) -> None:
    """Check that a result has what the document says of it."""
    try:
        _told([result], set())
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise UserError(
            f"{where} is not one of this package ({error!r}); delete it, and `reproduce` makes it "
            "again"
        ) from None


def _told(results: Sequence[dict], written: set[tuple[str, str]]) -> list[str]:
    tables = dict.fromkeys((f"{r['paper']}/{r['table']}", r["label"]) for r in results)
    count = f"{len(results)} run" + ("s" if len(results) > 1 else "")
    if written.issuperset(tables):
        return [f"{count} of {', '.join(table for table, _ in tables)}: see there"]
    return [f"{count}, {_time(results)}", *(_by_row(fact, results) for fact in FACTS)]


def _time(results: Sequence[dict]) -> str:
    seconds = [result["training_seconds"] for result in results]
    machines = dict.fromkeys(
        f"{result['devices']} {(*hardware['gpus'], hardware['processor'])[0]}"
        for result in results
        for hardware in [result["hardware"]]
    )
    return (
        f"{sum(seconds) / 3600:.1f} h of training in all, {min(seconds) / 60:.0f} to "
        f"{max(seconds) / 60:.0f} min each, on {'; '.join(machines)}"
    )


def _by_row(fact: str, results: Sequence[dict]) -> str:
    """A fact, once if all results share it, or else with the rows that have it."""
    rows: dict[str, dict[str, None]] = {}
    for result in results:
        rows.setdefault(FACTS[fact](result), {})[result["row"]] = None
    if len(rows) == 1:
        return f"{fact}: {next(iter(rows))}"
    return f"{fact}: " + "; ".join(f"{text} ({', '.join(which)})" for text, which in rows.items())


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
    "parameters": lambda result: f"{result['parameters']:,}",
    "text": _text,
    "code": _commit,
    "versions": lambda result: ", ".join(f"{name} {v}" for name, v in result["versions"].items()),
}


def _states(one: KeptTable, unless: str | None = None) -> str:
    """How far unfinished runs were, except those in one state."""
    states = one.unfinished.items()
    return "; ".join(f"{name}: {state}" for name, state in states if state != unless)


def _not_run(one: KeptTable) -> str:
    lines = [line for section in one.numbers.sections for line in section.lines]
    rows = dict.fromkeys(f"{line.row}: {line.system}".removesuffix(": ") for line in lines)
    states = _states(one, unless=State.NOT_BEGUN.value)
    begun = f" ({states})" if states else ""
    title, command = one.numbers.title, shlex.join(one.command)
    return f"- **{title}** (`{command}`): not run: {'; '.join(rows)}{begun}"
