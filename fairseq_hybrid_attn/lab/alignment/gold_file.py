"""A file of gold links as a user gives it, and files of links to score against it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..corpora.link_files import Gold, Lengths, Links, read_gold, read_pharaoh

SHOWN = 10  # sentences that a message names


@dataclass(frozen=True)
class GoldFile:
    """``base``: the number of the first word; ``reverse``: the target word is before the source."""

    path: Path
    base: int
    reverse: bool

    def read(self, lengths: Lengths | None, sentences: int) -> Gold:
        """Read it and print its remarks to standard error."""
        gold = read_gold(
            self.path,
            base=self.base,
            reverse=self.reverse,
            lengths=lengths,
            sentences=sentences,
        )
        warnings = gold.remarks[:SHOWN]
        if len(gold.remarks) > SHOWN:
            warnings.append(f"and {len(gold.remarks) - SHOWN} more such links")
        if gold.left_out > SHOWN:
            warnings.append(
                f"{gold.left_out:,} gold links are beyond their sentences; are --gold-base, "
                "--gold-reversed and the words right?"
            )
        for warning in warnings:
            print(f"warning: {warning}", file=sys.stderr)
        return gold

    def as_dict(self, gold: Gold) -> dict:
        return {
            "gold": str(self.path),
            "gold_base": self.base,
            "gold_reversed": self.reverse,
            "gold_left_out": gold.left_out,
            "sentences": len(gold.sentences),
        }


def read_alignments(paths: Sequence[Path], lengths: Lengths | None) -> dict[str, list[Links]]:
    """Files of links, by their paths, of as many sentences each."""
    alignments = {str(path): read_pharaoh(path, lengths) for path in paths}
    sentences = len(alignments[str(paths[0])])
    for path, links in alignments.items():
        if len(links) != sentences:
            raise UserError(f"{path} has {len(links):,} lines, but {paths[0]} has {sentences:,}")
    return alignments
