"""Plain data of YAML and JSON as what annotations say, or a list of everything that is wrong.

A mapping is read as a dataclass, whose fields are the keys, with hyphens.  Other annotations are
types of plain data, ``Literal``, unions, ``dict``, ``tuple``, and ``Annotated[type, rule]``: a rule
is a function that says what is wrong with a value, None if nothing is.

Values are not converted: a list becomes a tuple, and one value stands for a list of one; but the
text "5" is not a number, nor is ``no`` (which YAML reads as false) a text.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ...errors import UserError

#: Metadata of fields that no file gives.
BY_PROGRAM = {"by program": True}

_SIMPLE = {
    str: "a text, in quotes if YAML reads it as something else",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    NoneType: "null",
}


def read(kind: Any, value: object, where: str, **given: object) -> Any:
    """Return a value as ``kind``; ``where``, file and key, is what messages begin with.

    ``given``: fields of a dataclass that are not read from the value.
    """
    faults: list[str] = []
    made = _fields(kind, value, "", faults, given) if given else _value(kind, value, "", faults)
    _raise(faults, where)
    return made


def check_part(kind: type, value: object, where: str) -> None:
    """Check a mapping that may lack keys of the dataclass ``kind``, since others supply them."""
    faults: list[str] = []
    _fields(kind, value, "", faults, None)
    _raise(faults, where)


def at_least(least: int) -> Callable[[int], str | None]:
    """A rule: whole numbers from this one on."""
    return lambda number: None if number >= least else f"use a whole number from {least}"


def matching(pattern: str, told: str) -> Callable[[str], str | None]:
    """A rule: texts that match a pattern; ``told`` says what to use."""
    return lambda text: None if re.fullmatch(pattern, text) else told


def not_empty(items: tuple) -> str | None:
    return None if items else "give one, or leave the key out"


Count = Annotated[int, at_least(1)]


def _raise(faults: list[str], where: str) -> None:
    if len(faults) == 1:
        raise UserError(f"{where}: {faults[0]}")
    if faults:
        raise UserError("\n  ".join([f"{where}:", *faults]))


def _value(kind: Any, value: object, place: str, faults: list[str]) -> Any:
    """The value; what is wrong with it is added to ``faults``, after its place (``a: b: ``)."""
    origin, args = get_origin(kind), get_args(kind)

    def wrong(told: str) -> None:
        faults.append(f"{place}{_shown(value)}: {told}")

    if origin is Annotated:
        before = len(faults)
        made = _value(args[0], value, place, faults)
        rules = args[1:] if len(faults) == before else ()
        for told in filter(None, (rule(made) for rule in rules)):
            wrong(told)
        return made
    if origin in (Union, UnionType):
        kinds: Sequence[Any] = [option for option in args if option is not NoneType]
        if value is None and NoneType in args:
            return None
        if len(kinds) == 1:
            return _value(kinds[0], value, place, faults)
        for option in kinds:
            tried: list[str] = []
            made = _value(option, value, place, tried)
            if not tried:
                return made
        return wrong(f"use {_told(kind)}")
    if dataclasses.is_dataclass(kind):
        return _fields(kind, value, place, faults, {})
    if origin is dict and isinstance(value, dict):
        return {
            _value(args[0], key, place, faults): _value(args[1], item, f"{place}{key}: ", faults)
            for key, item in value.items()
        }
    if origin is tuple and args[-1] is Ellipsis and not isinstance(value, list | tuple | dict):
        return (_value(args[0], value, place, faults),)
    if origin is tuple and isinstance(value, list | tuple):
        kinds = [args[0]] * len(value) if args[-1] is Ellipsis else args
        if len(kinds) != len(value):
            return wrong(f"use a list of {len(kinds)}")
        return tuple(
            _value(part, item, f"{place}no. {number}: ", faults)
            for number, (part, item) in enumerate(zip(kinds, value, strict=True), 1)
        )
    if origin is Literal:
        fits = any(value == option and type(value) is type(option) for option in args)
    elif kind is float:
        fits = isinstance(value, (int, float)) and type(value) is not bool and math.isfinite(value)
    else:
        fits = kind in (object, Any) or type(value) is kind  # a bool is not an int here
    return value if fits else wrong(f"use {_told(kind)}")


def _fields(
    kind: Any, value: object, place: str, faults: list[str], given: dict[str, object] | None
) -> Any:
    """The dataclass of a mapping; if ``given`` is None, only check a part of it."""
    if not isinstance(value, dict):
        return faults.append(f"{place}{_shown(value)}: use a mapping from keys to values")
    before, partial, types = len(faults), given is None, _hints(kind)
    read = {key: field for key, field in _keys(kind).items() if field.name not in (given or ())}
    unknown = [_shown(key) for key in value if key not in read]
    if unknown:
        faults.append(f"{place}unknown {', '.join(unknown)}; known are {', '.join(read)}")
    missing = [key for key, field in read.items() if key not in value and _is_required(field)]
    if missing and not partial:
        faults.append(f"{place}no {', '.join(missing)}")
    made = dict(given or {})
    for key, field in read.items():
        if key in value:
            part = types[field.name]
            if partial and dataclasses.is_dataclass(part):
                _fields(part, value[key], f"{place}{key}: ", faults, None)
            else:
                made[field.name] = _value(part, value[key], f"{place}{key}: ", faults)
    return None if partial or len(faults) > before else kind(**made)


def _keys(kind: type) -> dict[str, dataclasses.Field]:
    return {
        field.name.replace("_", "-"): field
        for field in dataclasses.fields(kind)
        if field.metadata != BY_PROGRAM
    }


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _is_required(field: dataclasses.Field) -> bool:
    return field.default is field.default_factory is dataclasses.MISSING


def _shown(value: object) -> str:
    """A value, not all of a long one; invisible characters as Python writes them."""
    text = value if isinstance(value, str) and value.isprintable() else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _told(kind: Any) -> str:
    """What to use, in words."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _told(args[0])
    if origin is Literal:
        return " or ".join(filter(None, [", ".join(map(str, args[:-1])), str(args[-1])]))
    if origin in (Union, UnionType):
        return " or ".join(map(_told, args))
    if origin is tuple:
        return "a list"
    return _SIMPLE.get(kind, "a mapping from keys to values")
