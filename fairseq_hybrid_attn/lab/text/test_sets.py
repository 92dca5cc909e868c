"""Several test sets in one file, one after the other.

A prepared corpus has one file of test sentences.  Where several sets make it up,
``raw/tests.json`` names them in order, with their numbers of sentences.  A score of such a file
has the plain name (``bleu``) for the set named ``test``, or for all sets together if none has
that name, and ``bleu.NAME`` for each of the others.
"""

from __future__ import annotations

from pathlib import Path

from ...errors import UserError
from ..files.json_files import read_json

#: The name of that file.
TEST_SETS = "tests.json"

#: The set whose scores have plain names.
MAIN = "test"

#: Name of a set -> its number of sentences, in their order.
TestSets = dict[str, int]


def read_test_sets(path: Path, sentences: int) -> TestSets:
    """Read the sets of a file of so many test sentences."""
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
    """Return the sentences of each score, by what follows the metric in the score's name.

    ``""`` stands for the plain scores, ``".NAME"`` for those of a set.  ``sets`` is empty if there
    is only one, without a name.
    """
    found = {"": slice(0, sentences)}
    start = 0
    for name, count in sets.items():
        found["" if name == MAIN else f".{name}"] = slice(start, start + count)
        start += count
    return found
