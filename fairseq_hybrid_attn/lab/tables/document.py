"""The document of all results that are kept: made of their files, and of nothing else."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from ..runs.planning import State
from .printing import as_markdown
from .publishing import Published, read_published, results_of

HEAD = """\
# Results

Made by `fairseq-hybrid publish` of the files in [`{folder}/`]({folder}), and of nothing else; do
not edit it. What was not run says so. Levels on another text or at another size than a paper's
cannot be compared with the paper's; differences between rows can, with the level in mind: what is
at 10 BLEU cannot fall by 16.
"""


def write_up(folder: Path, name: str) -> str:
    """The document, as Markdown.

    Args:
        folder: where results are kept.
        name: the folder, as seen from the document.

    Raises:
        UserError: if there are none, or a file cannot be read.
    """
    published = read_published(folder)
    blocks, written = [HEAD.format(folder=name)], set[tuple[str, str]]()
    for one in published:
        if one.comparison.is_measured:
            blocks += [as_markdown(one.comparison), *_figure(one, name)]
            blocks += [_how(one, results_of(folder, [one]), written), *_unfinished(one)]
            written.add((one.comparison.table, one.comparison.label))
    lacking = [one for one in published if not one.comparison.is_measured]
    if lacking:
        blocks += ["## Not run\n", "\n".join(map(_not_run, lacking)) + "\n"]
    return "\n".join(blocks)


def _figure(one: Published, name: str) -> list[str]:
    return [f"![{one.comparison.title}]({name}/tables/{one.figure})\n"] if one.figure else []


def _how(one: Published, results: Sequence[dict], written: set[tuple[str, str]]) -> str:
    """The command that repeats a table, and what its runs took, if it was not told before."""
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
    machines = [" ".join((r["devices"], *_machine(r["hardware"]))) for r in results]
    return [
        f"{_count(results)}, {sum(seconds) / 3600:.1f} h of training in all, "
        f"{min(seconds) / 60:.0f} to {max(seconds) / 60:.0f} min each, on "
        + "; ".join(dict.fromkeys(machines)),
        *_by_row("budget", results, _budget),
        *_by_row("parameters", results, lambda result: f"{result['parameters']:,}"),
        *_by_row("text", results, lambda result: _text(result["corpus"])),
        *_by_row("code", results, lambda result: _commit(result["code"])),
        *_by_row("versions", results, _versions),
    ]


def _by_row(name: str, results: Sequence[dict], tell: Callable[[dict], str]) -> list[str]:
    """What results have, once if it is the same for all, or else with the rows that have it."""
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


def _machine(hardware: dict) -> tuple[str, ...]:
    return tuple(hardware["gpus"][:1]) or (hardware["processor"],)


def _text(corpus: dict) -> str:
    counts = ", ".join(f"{part} {count:,}" for part, count in sorted(corpus["counts"].items()))
    return (
        f"{corpus['source']}-{corpus['target']}, pairs: {counts} (digest {corpus['digest'][:12]})"
    )


def _commit(code: dict) -> str:
    commit = code["commit"] or f"digest {code['digest'][:12]}"
    return f"commit {commit}" + (", modified" if code["modified"] else "")


def _unfinished(one: Published) -> list[str]:
    return ["Not finished: " + "; ".join(one.unfinished) + "\n"] if one.unfinished else []


def _not_run(one: Published) -> str:
    rows = dict.fromkeys(
        f"{line.row}: {line.system}" if line.system else line.row
        for section in one.comparison.sections
        for line in section.lines
    )
    far = [run for run in one.unfinished if not run.endswith(f": {State.NOT_BEGUN.value}")]
    begun = f" ({'; '.join(far)})" if far else ""
    title, command = one.comparison.title, shlex.join(one.command)
    return f"- **{title}** (`{command}`): not run: {'; '.join(rows)}{begun}"
