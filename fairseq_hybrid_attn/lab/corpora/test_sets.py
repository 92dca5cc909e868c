"""Several test sets in one file, one after the other.

``raw/tests.json`` of a prepared corpus names them in order, with their numbers of sentences.  The
score with the plain name (``bleu``) is that of the set named ``test``, or of all sets together if
none has that name; ``bleu.NAME`` are those of the others.
"""

from __future__ import annotations

from pathlib import Path

from ...errors import UserError
from ..files.json_files import read_json

MAIN = "test"
TestSets = dict[str, int]  # name of a set -> its number of sentences, in their order


def read_test_sets(path: Path, sentences: int) -> TestSets:
    sets = read_json(path)
    if sets is None:
        raise UserError(f"{path} does not exist")
    counts = sets.values() if isinstance(sets, dict) else ()
    if not counts or not all(type(count) is int and count > 0 for count in counts):
        raise UserError(f'{path}: name sets and numbers of sentences, as in {{"news": 1000}}')
    if sum(sets.values()) != sentences:
        raise UserError(
            f"{path}: its sets have {sum(sets.values()):,} sentences, the test text {sentences:,}"
        )
    return sets


def slices(sets: TestSets, sentences: int) -> dict[str, slice]:
    """Return the sentences of each score, by the suffix of its name, such as ".NAME".

    ``sets`` is empty if there is a single set without a name.
    """
    parts = {"": slice(0, sentences)}
    start = 0
    for name, count in sets.items():
        parts["" if name == MAIN else f".{name}"] = slice(start, start + count)
        start += count
    return parts
