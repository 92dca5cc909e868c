"""The document of all results that are kept: made of their files, and of nothing else."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from .printing import as_markdown
from .publishing import Published, read_published, results_of

HEAD = """\
# Results

Made by `fairseq-hybrid publish` of the files in [`{folder}/`]({folder}), and of nothing else; do
not edit it. What was not run says so. Levels on another text or at another size than a paper's
cannot be compared with the paper's, differences between rows can. All rows of a table have the same
budget; nothing was chosen by a test set.
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
    blocks = [HEAD.format(folder=name)]
    for one in published:
        if one.comparison.is_measured:
            blocks += [as_markdown(one.comparison), *_figure(one, name)]
            blocks += [_how(one, results_of(folder, [one])), *_unfinished(one)]
    lacking = [one for one in published if not one.comparison.is_measured]
    if lacking:
        blocks += ["## Not run\n", "\n".join(map(_not_run, lacking)) + "\n"]
    return "\n".join(blocks)


def _figure(one: Published, name: str) -> list[str]:
    return [f"![{one.comparison.title}]({name}/tables/{one.figure})\n"] if one.figure else []


def _how(one: Published, results: Sequence[dict]) -> str:
    """The command that repeats a table, and what its runs took."""
    seconds = sum(result["training_seconds"] for result in results)
    machines = [(r["devices"], *_machine(r["hardware"])) for r in results]
    versions = [
        ", ".join(f"{package} {version}" for package, version in result["versions"].items())
        for result in results
    ]
    commits = [_commit(result["code"]) for result in results]
    texts = [_text(result["corpus"]) for result in results]
    lines = [
        f"```sh\n{shlex.join(one.command)}\n```\n",
        f"- {len(results)} runs, {_hours(seconds)} of training in all, on "
        + "; ".join(" ".join(machine) for machine in dict.fromkeys(machines)),
        *(f"- text: {text}" for text in dict.fromkeys(texts)),
        *(f"- code: {commit}" for commit in dict.fromkeys(commits)),
        *(f"- {text}" for text in dict.fromkeys(versions)),
    ]
    return "\n".join(lines) + "\n"


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
    begun = f" ({'; '.join(one.unfinished)})" if one.unfinished else ""
    title, command = one.comparison.title, shlex.join(one.command)
    return f"- **{title}** (`{command}`): not run: {'; '.join(rows)}{begun}"


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
