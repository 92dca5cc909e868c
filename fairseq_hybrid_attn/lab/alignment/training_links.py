"""Alignments of training text: eflomal in both directions, symmetrised, between subwords.

eflomal is by R. Oestling and J. Tiedemann (2016, "Efficient word alignment with Markov Chain Monte
Carlo").  To be known of its version 2.0:

* it takes its seed from the system, and no option gives it another one: runs differ;
* it compares words without regard to case;
* a sentence of more than 1,023 words is read as an empty one.
"""

from __future__ import annotations

import io
import logging
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq.tokenizer import tokenize_line

from ...errors import UserError
from ..files.text import read_lines
from ..files.writing import atomic_write
from ..text.words import Words, check_kind, piece_links, text_of, words_of
from .link_files import Links, read_pharaoh

#: Words of the longest sentence that eflomal aligns.
LONGEST = 1023

#: How two directions become one alignment.
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
    """A sentence in subwords.

    Attributes:
        pieces: how many subwords it has, as fairseq counts them.
        groups: of each word its subwords.
        words: the words.
    """

    pieces: int
    groups: Words
    words: list[str]

    @classmethod
    def of(cls, line: str, subwords: str) -> Sentence:
        """Of a line of text."""
        pieces = tokenize_line(line)  # alignment files count what fairseq-preprocess counts
        groups = words_of(pieces, subwords)
        return cls(len(pieces), groups, [text_of(word, pieces, subwords) for word in groups])


@dataclass(frozen=True)
class Pairs:
    """A text and its translation, in subwords."""

    source: list[Sentence]
    target: list[Sentence]

    @property
    def piece_lengths(self) -> list[tuple[int, int]]:
        """Of each pair, its source and its target subwords."""
        return [(s.pieces, t.pieces) for s, t in zip(self.source, self.target, strict=True)]

    def expand(self, alignments: Sequence[Links]) -> Iterator[Links]:
        """Links between subwords for those between words."""
        for links, source, target in zip(alignments, self.source, self.target, strict=True):
            yield piece_links(links, source.groups, target.groups)


def read_pairs(source: Path, target: Path, subwords: str) -> Pairs:
    """Read a text and its translation.

    Args:
        source: a sentence a line, subwords separated by spaces.
        target: the same.
        subwords: how words are split.
    """
    sides = []
    for path in (source, target):
        lines = read_lines(path)
        check_kind(map(tokenize_line, lines), subwords)
        sides.append([Sentence.of(line, subwords) for line in lines])
    if len(sides[0]) != len(sides[1]):
        raise UserError(
            f"{source} has {len(sides[0]):,} lines, but {target} has {len(sides[1]):,}; "
            "line by line, they have to be translations of each other"
        )
    return Pairs(*sides)


def align_words(
    source: Sequence[Sequence[str]],
    target: Sequence[Sequence[str]],
    *,
    samplers: int = 3,
    length: float = 1.0,
    priors: Path | None = None,
    priors_out: Path | None = None,
) -> tuple[list[Links], list[Links]]:
    """Align with eflomal, in both directions.

    Args:
        source: sentences, in words without white space.
        target: as many.
        samplers: independent ones, whose results are combined.
        length: of the sampling, relative to eflomal's own.
        priors: file of priors to start from.
        priors_out: file to write priors to, for texts that are aligned later.

    Returns:
        the links (source word, target word) in which each target word has at most one source
        word, and those in which each source word has at most one target word.
    """
    prior_lines = read_lines(priors) if priors else None
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
                priors_input=prior_lines,
            )
        except (subprocess.CalledProcessError, OSError, ValueError, TypeError, IndexError) as error:
            raise UserError(f"eflomal failed: {error}") from error
        if priors_out:
            counted = eflomal.calculate_priors(
                *lines, *(path.read_text(encoding="ascii").splitlines() for path in paths)
            )
            _write_priors(eflomal, priors_out, counted)
        forward, backward = (read_pharaoh(path, lengths) for path in paths)
    return forward, backward


def load_eflomal():
    """The aligner's module."""
    try:
        import eflomal
    except ImportError as error:
        raise UserError(
            f"the aligner eflomal is not installed ({error}): pip install "
            "'fairseq-hybrid-attn[alignment]', or pip install eflomal; it needs a C compiler"
        ) from error
    logging.getLogger("eflomal").setLevel(logging.ERROR)  # fairseq has it show all it does
    return eflomal


def _write_priors(eflomal, path: Path, counted) -> None:
    text = io.StringIO()
    eflomal.write_priors(text, *counted)
    with atomic_write(path) as file:
        file.write(text.getvalue().encode())


def symmetrise(forward: Links, backward: Links, how: str) -> Links:
    """One alignment from two directions.

    Args:
        forward: links of one direction; where the order of links matters, they come first.
        backward: links of the other, as (source word, target word) too.
        how: one of ``SYMMETRISATIONS``.
    """
    if how == "forward":
        return forward
    if how == "backward":
        return backward
    if how == "union":
        return forward | backward
    if how == "intersection":
        return forward & backward
    links = _grow_diag(forward & backward, forward | backward)
    if how == "grow-diag-final-and":
        for direction in (forward, backward):
            links = _final_and(links, direction)
    return links


def _grow_diag(links: Links, union: Links) -> Links:
    """Grow by neighbours (Koehn et al. 2005, "Edinburgh system description", GROW-DIAG).

    Sweeps over the links, source word by source word; a neighbour, diagonal ones too, that one
    of the directions has is added if its source word or its target word has no link yet.  A link
    that is added counts at once, and for the same sweep where the sweep has yet to come to it.
    Ends with a sweep that adds nothing.
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
    """Add a direction's links whose source and target word both have none (FINAL-AND)."""
    done = set(links)
    sources, targets = {i for i, _ in done}, {j for _, j in done}
    for i, j in sorted(direction):
        if i not in sources and j not in targets:
            done.add((i, j))
            sources.add(i)
            targets.add(j)
    return frozenset(done)
