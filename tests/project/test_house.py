"""The structure of the package: two parts, and rooms on floors without cycles."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "fairseq_hybrid_attn"


@cache
def sources() -> dict[tuple[str, ...], ast.Module]:
    """Every module of the package by its path, except the entry point of the command line."""
    return {
        path.relative_to(PACKAGE).with_suffix("").parts: ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "__main__.py"
    }


def imported(module: tuple[str, ...], tree: ast.Module) -> list[tuple[str, ...]]:
    """The modules of this package that a module imports."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = (alias.name.split(".") for alias in node.names)
            found += [tuple(name[1:]) for name in names if name[0] == PACKAGE.name and name[1:]]
        elif isinstance(node, ast.ImportFrom):
            named = tuple((node.module or "").split(".")) if node.module else ()
            if node.level:
                base = (*module[: len(module) - node.level], *named)
            elif named[:1] == (PACKAGE.name,):
                base = named[1:]
            else:
                continue
            found += [(*base, alias.name) for alias in node.names]
    return found


def room(module: tuple[str, ...]) -> str:
    """``plugin``, or the room of the laboratory."""
    return "/".join(module[:2]) if module[0] == "lab" else "plugin"


def test_plugin_imports_nothing_of_the_laboratory():
    wrong = [
        (module, name)
        for module, tree in sources().items()
        if module[0] != "lab"
        for name in imported(module, tree)
        if name[0] == "lab"
    ]
    assert not wrong


def test_rooms_form_floors_without_cycles():
    below = defaultdict(set)
    for module, tree in sources().items():
        for name in imported(module, tree):
            below[room(module)] |= {room(name)} - {room(module)}
    built: set[str] = set()
    rooms = set(below) | {name for names in below.values() for name in names}
    while floor := {name for name in rooms - built if below[name] <= built}:
        built |= floor
    circles = {name: sorted(below[name] - built) for name in sorted(rooms - built)}
    assert not circles
