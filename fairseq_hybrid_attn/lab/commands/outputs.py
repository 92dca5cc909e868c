"""What a command writes beside what it prints: ``--write FILE``, of a kind that its ending says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ..figures import style
from ..files.writing import ENDINGS, check_written, kind_of


def add_write(parser, *kinds: str) -> None:
    """Declare files of these of :data:`ENDINGS`; ``parser`` may be a group of arguments."""
    text = "; ".join(f"{', '.join(ENDINGS[kind])}: the {kind}" for kind in kinds)
    add = parser.add_argument
    add(
        "--write",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help=f"{text} (repeatable)",
    )
    if "figure" in kinds:
        add_theme(parser)


def add_theme(parser) -> None:
    text = "background of figures (default: light)"
    parser.add_argument("--theme", choices=tuple(style.THEMES), default="light", help=text)


def check(
    paths: Sequence[Path],
    kinds: Iterable[str],
    inputs: Iterable[Path | None],
    others: Mapping[str, Path | None] | None = None,
) -> None:
    """Check up front that these, and ``others`` by flag, can be written."""
    check_written(paths, kinds, inputs, others)
    if any(kind_of(path) == "figure" for path in paths):
        style.require()


def write(paths: Iterable[Path], **kinds: Callable[[Path], None]) -> None:
    """Write each file as its kind is written."""
    for path in paths:
        kinds[kind_of(path)](path)
