"""The document of all results that are kept, RESULTS.md."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from ..runs.status import State
from .output import as_markdown
from .results_folder import KeptTable, read_tables

HEAD = """\
# Results

`fairseq-hybrid publish` makes this file from [`{folder}/`]({folder}) and the papers' numbers in
`configs/`; do not edit it. What was not run is marked so. Levels on another text or at another size
than a paper's cannot be compared with the paper's. Differences between rows can, with the level in
mind: a system at 10 BLEU cannot fall by 16.
"""


def write_up(folder: Path, name: str, configs: Path) -> str:
    """The document, as Markdown.

    Args:
        folder: where results are kept.
        name: the folder, as seen from the document.
        configs: the folder of the tables' configurations.
    """
    tables = read_tables(folder, configs)
    blocks, written = [HEAD.format(folder=name)], set[tuple[str, str]]()
    for one in tables:
        if one.numbers.is_measured:
            blocks += [as_markdown(one.numbers), *_figure(one, name)]
            blocks += [_how(one, written), *_unfinished(one)]
            written.add((one.numbers.table, one.numbers.label))
    not_run = [_not_run(one) for one in tables if not one.numbers.is_measured]
    if not_run:
        blocks += ["## Not run\n", "\n".join(not_run) + "\n"]
    return "\n".join(blocks)


def _figure(one: KeptTable, name: str) -> list[str]:
    return [f"![{one.numbers.title}]({name}/tables/{one.figure})\n"] if one.figure else []


def _how(one: KeptTable, written: set[tuple[str, str]]) -> str:
    """The command that repeats a table, and what its runs took, unless it was told before."""
    results = list(one.results.values())
    tables = dict.fromkeys((f"{r['paper']}/{r['table']}", r["label"]) for r in results)
    told = _runs(results)
    if written.issuperset(tables):
        told = [f"{_count(results)} of {', '.join(table for table, _ in tables)}: see there"]
    command = f"```sh\n{shlex.join(one.command)}\n```\n"
    return "\n".join([command, *(f"- {line}" for line in told)]) + "\n"


def _count(results: Sequence[dict]) -> str:
    return f"{len(results)} run" + ("s" if len(results) > 1 else "")


def _runs(results: Sequence[dict]) -> list[str]:
    """What was trained, on what, with what."""
    seconds = [result["training_seconds"] for result in results]
    return [
        f"{_count(results)}, {sum(seconds) / 3600:.1f} h of training in all, "
        f"{min(seconds) / 60:.0f} to {max(seconds) / 60:.0f} min each, on "
        + "; ".join(dict.fromkeys(map(_machine, results))),
        *_by_row("budget", results, _budget),
        *_by_row("parameters", results, lambda result: f"{result['parameters']:,}"),
        *_by_row("text", results, lambda result: _text(result["corpus"])),
        *_by_row("code", results, lambda result: _commit(result["code"])),
        *_by_row("versions", results, _versions),
    ]


def _by_row(name: str, results: Sequence[dict], tell: Callable[[dict], str]) -> list[str]:
    """A fact, once if all results share it, or else with the rows that have it."""
    rows: dict[str, dict[str, None]] = {}
    for result in results:
        rows.setdefault(tell(result), {})[result["row"]] = None
    if len(rows) == 1:
        return [f"{name}: {next(iter(rows))}"]
    return [f"{name}: " + "; ".join(f"{text} ({', '.join(which)})" for text, which in rows.items())]


def _budget(result: dict) -> str:
    tokens = result["settings"]["batch"]["tokens"]
    epoch = f", ending in epoch {result['epoch']} of the text" if result["epoch"] else ""
    return f"{result['updates']:,} updates of at most {tokens:,} tokens{epoch}"


def _versions(result: dict) -> str:
    return ", ".join(f"{package} {version}" for package, version in result["versions"].items())


def _machine(result: dict) -> str:
    hardware = result["hardware"]
    return f"{result['devices']} {(*hardware['gpus'], hardware['processor'])[0]}"


def _text(corpus: dict) -> str:
    counts = ", ".join(f"{part} {count:,}" for part, count in sorted(corpus["counts"].items()))
    return (
        f"{corpus['source']}-{corpus['target']}, pairs: {counts} (digest {corpus['digest'][:12]})"
    )


def _commit(code: dict) -> str:
    commit = code["commit"] or f"digest {code['digest'][:12]}"
    return f"commit {commit}" + (", modified" if code["modified"] else "")


def _unfinished(one: KeptTable) -> list[str]:
    states = "; ".join(f"{name}: {state}" for name, state in one.unfinished.items())
    return [f"Not finished: {states}\n"] if states else []


def _not_run(one: KeptTable) -> str:
    rows = dict.fromkeys(
        f"{line.row}: {line.system}" if line.system else line.row
        for section in one.numbers.sections
        for line in section.lines
    )
    states = [
        f"{name}: {state}"
        for name, state in one.unfinished.items()
        if state != State.NOT_BEGUN.value
    ]
    begun = f" ({'; '.join(states)})" if states else ""
    title, command = one.numbers.title, shlex.join(one.command)
    return f"- **{title}** (`{command}`): not run: {'; '.join(rows)}{begun}"
