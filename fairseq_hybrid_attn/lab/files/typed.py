"""Plain data of YAML and JSON as what annotations say, or a message with the location of a fault.

A mapping is read as a dataclass, whose fields are the keys, with hyphens.  Other annotations are
types of plain data, ``Literal``, unions, ``dict``, ``tuple[type, ...]``, and ``Annotated[type,
rule]``: a rule is a function that says what is wrong with a value, None if nothing is.

Values are not converted: a list becomes a tuple, and one value stands for a list of one; but the
text "5" is not a number, nor is ``no`` (which YAML reads as false) a text.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
import unicodedata
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ...errors import UserError

#: The longest name in bytes: file systems take 255, and endings are added.
LONGEST = 120

#: Letters and digits of any script, but no combining or invisible characters.
_NAME = re.compile(r"\w(?:[\w .+=()-]*[\w+=()-])?")

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
    return _fields(kind, value, f"{where}: ", given) if given else _value(kind, value, f"{where}: ")


def check_part(kind: type, value: object, where: str) -> None:
    """Check a mapping that may lack keys of the dataclass ``kind``, since others supply them."""
    _fields(kind, value, f"{where}: ", None)


def at_least(least: int) -> Callable[[int], str | None]:
    """A rule: whole numbers from this one on."""
    return lambda number: None if number >= least else f"use a whole number from {least}"


def matching(pattern: str, advice: str) -> Callable[[str], str | None]:
    """A rule: texts that match a pattern; ``advice`` says what to use."""
    return lambda text: None if re.fullmatch(pattern, text) else advice


def not_empty(items: tuple) -> str | None:
    return None if items else "give one, or leave the key out"


def fault_of_name(name: str) -> str | None:
    """What is wrong with a name; None if it can name a file or folder."""
    if not _NAME.fullmatch(name) or unicodedata.normalize("NFC", name) != name:
        return (
            "use a name without slashes, of letters, digits and _ - + = ( ); spaces and dots only "
            "within it, and - not first"
        )
    return "use a shorter name" if len(name.encode()) > LONGEST else None


def fault_of_path(path: str) -> str | None:
    """What is wrong with a path within a folder, whose parts are names."""
    return next(filter(None, map(fault_of_name, path.split("/"))), None)


Count = Annotated[int, at_least(1)]
#: Names that become those of files and folders.
Name = Annotated[str, fault_of_name]
PathWithin = Annotated[str, fault_of_path]
_CODE = "use a language's code, such as de or zh_CN"
Language = Annotated[str, matching("[A-Za-z]{2,3}([-_][A-Za-z0-9]+)?", _CODE)]


def _value(kind: Any, value: object, location: str) -> Any:
    """The value; ``location`` is where it stands (``file: a: b: ``)."""
    origin, args = get_origin(kind), get_args(kind)

    def wrong(advice: str) -> UserError:
        return UserError(f"{location}{_shown(value)}: {advice}")

    if origin is Annotated:
        made = _value(args[0], value, location)
        for advice in filter(None, (rule(made) for rule in args[1:])):
            raise UserError(f"{location}{advice}") if isinstance(made, dict) else wrong(advice)
        return made
    if origin in (Union, UnionType):
        for option in args:
            with contextlib.suppress(UserError):
                return _value(option, value, location)
        options = [option for option in args if option is not NoneType]
        if len(options) == 1:
            return _value(options[0], value, location)  # with its own message
        raise wrong(f"use {_told(kind)}")
    if dataclasses.is_dataclass(kind):
        return _fields(kind, value, location, {})
    if origin is dict and isinstance(value, dict):
        return {
            _value(args[0], key, location): _value(args[1], item, f"{location}{_shown(key)}: ")
            for key, item in value.items()
        }
    if origin is tuple and isinstance(value, list | tuple):
        items = enumerate(value, 1)
        return tuple(_value(args[0], item, f"{location}no. {number}: ") for number, item in items)
    if origin is tuple and not isinstance(value, dict):
        return (_value(args[0], value, location),)
    if origin is Literal:
        fits = any(value == option and type(value) is type(option) for option in args)
    elif kind is float:
        fits = isinstance(value, (int, float)) and type(value) is not bool and math.isfinite(value)
    else:
        fits = kind in (object, Any) or type(value) is kind  # a bool is not an int here
    if not fits:
        raise wrong(f"use {_told(kind)}")
    return value


def _fields(kind: Any, value: object, location: str, given: dict[str, object] | None) -> Any:
    """The dataclass of a mapping; if ``given`` is None, only check a part of it."""
    if not isinstance(value, dict):
        raise UserError(f"{location}{_shown(value)}: use a mapping from keys to values")
    keys = {key: field for key, field in _keys(kind).items() if field.name not in (given or ())}
    if unknown := [_shown(key) for key in value if key not in keys]:
        raise UserError(f"{location}unknown {', '.join(unknown)}; known are {', '.join(keys)}")
    missing = [key for key, field in keys.items() if key not in value and _is_required(field)]
    if missing and given is not None:
        raise UserError(f"{location}no {', '.join(missing)}")
    made = dict(given or {})
    for key, field in keys.items():
        if key in value:
            part = _hints(kind)[field.name]
            if given is None and dataclasses.is_dataclass(part):
                _fields(part, value[key], f"{location}{key}: ", None)
            else:
                made[field.name] = _value(part, value[key], f"{location}{key}: ")
    return None if given is None else kind(**made)


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
