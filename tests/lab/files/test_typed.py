"""Plain data is what annotations say, and a fault is told with its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import pytest
from cli import run

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.files.typed import (
    BY_PROGRAM,
    Count,
    Name,
    PathWithin,
    check_part,
    matching,
    read,
)


@dataclass(frozen=True)
class Side:
    language: str
    max_tokens: Count | None = None


@dataclass(frozen=True)
class Example:
    name: str
    sides: tuple[Side, ...]
    kind: Literal["a", "b", 1] = "a"
    ratio: float | None = None
    flags: dict[str, str | float | bool | None] = field(default_factory=dict)
    code: Annotated[str, matching("[a-z]", "use a letter")] = "x"
    path: str = field(default="", metadata=BY_PROGRAM)


DE = {"language": "de"}


def test_values_are_taken_as_they_are():
    given = {"kind": 1, "ratio": 2, "flags": {"a": "5", "b": True, "c": 0.1}}
    found = read(Example, {"sides": [{**DE, "max-tokens": 7}], **given}, "x.yaml", name="n")
    assert found.sides == (Side("de", 7),) and found.name == "n"
    assert (found.kind, found.ratio, found.flags) == (1, 2, given["flags"])
    assert read(Example, {"sides": [DE], "ratio": None}, "x", name="n").sides == (Side("de"),)
    assert read(tuple[str, ...], "one", "x") == ("one",)


WRONG = [
    ({"sides": 5}, "x.yaml: sides: 5: use a mapping from keys to values"),
    ({"sides": [DE, {"max-tokens": 1}]}, "sides: no. 2: no language"),
    ({"sides": [DE, {**DE, "max-tokens": True}]}, "no. 2: max-tokens: True: use a whole number"),
    ({"sides": [DE, {**DE, "max-tokens": 0}]}, "no. 2: max-tokens: 0: use a whole number from 1"),
    ({"sides": [{"language": False}]}, "sides: no. 1: language: False: use a text, in quotes"),
    ({"sides": None}, "sides: None: use a mapping"),
    ({"kind": True}, "kind: True: use a, b or 1"),
    ({"ratio": "5"}, "ratio: 5: use a number"),
    ({"ratio": float("nan")}, "ratio: nan: use a number"),
    ({"flags": {"a": [1]}}, "flags: a: [1]: use a text", "or a number or true or false or null"),
    ({"flags": {5: "a"}}, "flags: 5: use a text"),
    ({"flags": []}, "flags: []: use a mapping"),
    ({"code": "x\n"}, r"code: 'x\n': use a letter"),
    ({"path": "/etc"}, "unknown path"),
    ({"name": "n"}, "unknown name"),
    ({"max_tokens": 1, 7: 8}, "unknown max_tokens, 7; known are sides, kind"),
    ({"code": "x" * 10_000}, "code: xxx", "xx...: use a letter"),
]


def test_faults_are_told_with_their_places():
    for change, *told in WRONG:
        with pytest.raises(UserError) as refused:
            read(Example, {"sides": [DE], **change}, "x.yaml", name="n")
        for text in told:
            assert text in str(refused.value), change
        assert len(str(refused.value)) < 400


def test_a_part_of_a_mapping_may_lack_keys_and_nothing_else():
    check_part(Example, {"sides": [DE], "name": "n"}, "x")
    check_part(Example, {}, "x")
    for wrong in ({"ratio": "a"}, {"no": 1}, {"sides": [{}]}, [], None):
        with pytest.raises(UserError, match="^x: "):
            check_part(Example, wrong, "x")


def test_names_cannot_leave_their_folder():
    for name in ("e1", "de-en", "w_2.5", "größe", "日本", "A+B=C (2)", "x" * 120):
        assert read(Name, name, "x") == name
    for name in (
        *("", ".", "..", "/", "a/b", "../a", "/etc", "a\\b", "..\\a", "C:a", "~", "~a", "-out"),
        *(".hidden", "a.", "a ", " a", "a\n", "\na", "a\tb", "a\0", "\x1b[2J", "\ud800", "a\u2028"),
        *("\u202etxt", "a\u200b", "e\u0301", "\uff0e\uff0e", "a\uff0fb", "\u2024\u2024", "\u212b"),
        *("a?", "a*", "a|b", "a<b", 'a"b', "a:b"),
        *("x" * 121, "é" * 61, "$HOME", "`id`", "a;b", "%41", "{a}", "a@b"),
    ):
        with pytest.raises(UserError, match="^x: "):
            read(Name, name, "x")
        if name.isprintable() and name:
            with pytest.raises(UserError):
                read(PathWithin, f"folder/{name}" if "/" not in name else f"../{name}", "x")
    assert read(PathWithin, "wmt13/a.tgz", "x") == "wmt13/a.tgz"
    for path in ("a//b", "/a", "a/", "a/../b", "./a", "../a"):
        with pytest.raises(UserError, match="^x: "):
            read(PathWithin, path, "x")


def test_a_terminal_of_ascii_shows_what_it_can():
    variables = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = run("fairseq-hybrid", "--help", cwd=".", **variables)
    assert r"fairseq-hybrid COMMAND \u2026" in done.stdout
