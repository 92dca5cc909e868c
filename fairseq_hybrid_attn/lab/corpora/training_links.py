"""Alignments of training text: eflomal in both directions, symmetrised, between subwords.

eflomal is by R. Oestling and J. Tiedemann (2016, "Efficient word alignment with Markov Chain Monte
Carlo").  Its version 2.0

* takes its seed from the system and has no option for it, so that runs differ,
* ignores case when it compares words,
* reads a sentence of more than 1,023 words as an empty one.
"""

from __future__ import annotations

import logging
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..files.text import read_lines, require_equal
from .link_files import Links, read_pharaoh
from .words import Words, check_kind, piece_links, text_of, words_of

#: The number of words in the longest sentence that eflomal aligns.
LONGEST = 1023

#: The ways to merge two directions into one alignment.
SYMMETRISATIONS = (
    "grow-diag-final-and",
    "grow-diag",
    "intersection",
    "union",
    "forward",
    "backward",
)

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True)
class Sentence:
    groups: Words  # the places of each word's subwords
    words: list[str]

    @classmethod
    def of(cls, line: str, subwords: str) -> Sentence:
        pieces = line.split()  # as fairseq-preprocess counts them
        groups = words_of(pieces, subwords)
        return cls(groups, [text_of(word, pieces, subwords) for word in groups])


@dataclass(frozen=True)
class Bitext:
    """A text and its translation, in subwords."""

    source: list[Sentence]
    target: list[Sentence]

    def expand(self, alignments: Sequence[Links]) -> Iterator[Links]:
        for links, source, target in zip(alignments, self.source, self.target, strict=True):
            yield piece_links(links, source.groups, target.groups)


def read_bitext(source: Path, target: Path, subwords: str) -> Bitext:
    sides = []
    for path in (source, target):
        lines = read_lines(path)
        check_kind(map(str.split, lines), subwords)
        sides.append([Sentence.of(line, subwords) for line in lines])
    require_equal({str(source): len(sides[0]), str(target): len(sides[1])})
    return Bitext(*sides)


def align_words(
    source: Sequence[Sequence[str]],
    target: Sequence[Sequence[str]],
    *,
    samplers: int = 3,
    length: float = 1.0,
) -> tuple[list[Links], list[Links]]:
    """Align sentences and their translations with eflomal, in both directions.

    ``length``, of the sampling, is relative to eflomal's default.

    Returns:
        for each sentence, the links in which each target word has at most one source word, and
        those in which each source word has at most one target word.
    """
    eflomal = load_eflomal()
    lines = [[" ".join(words) for words in side] for side in (source, target)]
    lengths = [(len(s), len(t)) for s, t in zip(source, target, strict=True)]
    with tempfile.TemporaryDirectory(prefix="eflomal") as folder:
        paths = [Path(folder) / name for name in ("forward", "backward")]
        try:
            eflomal.Aligner(n_samplers=samplers, rel_iterations=length).align(
                *lines,
                links_filename_fwd=str(paths[0]),
                links_filename_rev=str(paths[1]),
            )
        except (subprocess.CalledProcessError, OSError, ValueError, TypeError, IndexError) as error:
            raise UserError(f"eflomal failed: {error}") from error
        forward, backward = (read_pharaoh(path, lengths) for path in paths)
    return forward, backward


def load_eflomal():
    try:
        import eflomal
    except ImportError as error:
        raise UserError(
            f"the aligner eflomal is not installed ({error}): pip install "
            "'fairseq-hybrid-attn[alignment]', or pip install eflomal; it needs a C compiler"
        ) from error
    logging.getLogger("eflomal").setLevel(logging.ERROR)  # fairseq's logging would show all
    return eflomal


def symmetrise(forward: Links, backward: Links, how: str = SYMMETRISATIONS[0]) -> Links:
    """Merge two directions into one alignment, by one of ``SYMMETRISATIONS``."""
    simple = {
        "forward": forward,
        "backward": backward,
        "union": forward | backward,
        "intersection": forward & backward,
    }
    if how in simple:
        return simple[how]
    links = _grow_diag(simple["intersection"], simple["union"])
    if how == "grow-diag-final-and":
        for direction in (forward, backward):
            links = _final_and(links, direction)
    return links


def _grow_diag(links: Links, union: Links) -> Links:
    """Grow by neighbours (Koehn et al. 2005, "Edinburgh system description", GROW-DIAG).

    Sweep over the links in order of their source words.  Add each neighbouring link (also
    diagonally) of either direction whose source word or target word has no link yet.  An added
    link counts at once, also later in the same sweep.  End with a sweep that adds nothing.
    """
    grown = set(links)
    sources, targets = {i for i, _ in grown}, {j for _, j in grown}
    candidates = sorted(union)
    added = True
    while added:
        added = False
        for i, j in candidates:
            if (i, j) not in grown:
                continue
            for down, right in _NEIGHBOURS:
                new = (i + down, j + right)
                if new in grown or new not in union:
                    continue
                if new[0] not in sources or new[1] not in targets:
                    grown.add(new)
                    sources.add(new[0])
                    targets.add(new[1])
                    added = True
    return frozenset(grown)


def _final_and(links: Links, direction: Links) -> Links:
    """Add a direction's links between two words that have no link yet (FINAL-AND)."""
    done = set(links)
    sources, targets = {i for i, _ in done}, {j for _, j in done}
    for i, j in sorted(direction):
        if i not in sources and j not in targets:
            done.add((i, j))
            sources.add(i)
            targets.add(j)
    return frozenset(done)
