"""Select the sentence pairs for training, validation and test data.

Training pairs (and validation pairs, where the recipe says so) are cleaned as by Moses'
clean-corpus-n.perl.  A test set stays unchanged.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from ...errors import UserError
from ..files.text import ParallelWriter, lines
from .definition import PARTS, Clean, Corpus
from .words import has_spaces

LONGEST_TOKEN = 1000  # characters; Moses drops pairs with a longer one

#: A pair's number within its file, from 0; its source and target text, source and target tokens.
NumberedPair = tuple[int, tuple[str, str, str, str]]


def fault(
    source: str, target: str, clean: Clean, has_words: tuple[bool, bool] = (True, True)
) -> str | None:
    """Return why a pair of sentences is dropped; None if it is kept.

    A side without words may be one long token, as Japanese is between spaces.
    """
    first, second = source.split(), target.split()
    shorter, longer = sorted((len(first), len(second)))
    if not shorter:
        return "empty side"
    if shorter < clean.min_tokens:
        return "too few tokens"
    if clean.max_tokens and longer > clean.max_tokens:
        return "too many tokens"
    if clean.max_ratio and all(has_words) and longer / shorter > clean.max_ratio:
        return "length ratio"
    sides = itertools.compress((first, second), has_words)
    if max(map(len, itertools.chain(*sides)), default=0) > LONGEST_TOKEN:
        return "a token too long"
    return None


def select(corpus: Corpus, text: Path, tokens: Path, raw: Path, tokenised: Path) -> dict:
    """Write the selected pairs, as text to ``raw`` and as tokens to ``tokenised``.

    ``text`` and ``tokens`` are folders of ``PART.LANGUAGE``.  Return ``counts`` of the pairs in
    each part, and ``dropped``: how many were dropped, by reason.
    """
    dropped: dict[str, Counter] = {part: Counter() for part in PARTS}
    source, target = (
        corpus.tokenizer[language] != "none" or has_spaces(language)
        for language in corpus.languages
    )
    rules = {"train": corpus.clean, "valid": corpus.clean if corpus.clean.valid else Clean()}
    with ExitStack() as stack:
        writers = {
            part: stack.enter_context(ParallelWriter(*_files(part, corpus, raw, tokenised)))
            for part in PARTS
        }
        for part in PARTS:
            if part == "valid" and corpus.valid_every:
                continue  # taken from train
            # strict: the tokenisers keep the number of lines, and the reader compared both sides.
            rows = zip(*map(lines, _files(part, corpus, text, tokens)), strict=True)
            kept: Iterator[NumberedPair] = enumerate(rows)
            if part in rules:
                kept = _cleaned(kept, rules[part], (source, target), dropped[part])
            if part == "train" and corpus.valid_every:
                kept = _without_held_out(kept, corpus.valid_every, writers["valid"])
            if part == "train" and corpus.pairs:
                kept = _chosen(kept, corpus.pairs, dropped[part])
            for _, row in kept:
                writers[part].write(row)
    reasons = {part: dict(sorted(counts.items())) for part, counts in dropped.items() if counts}
    counts = {part: writer.count for part, writer in writers.items()}
    for part, count in counts.items():
        if not count:
            why = f" (dropped: {reasons[part]})" if part in reasons else ""
            raise UserError(f"{corpus.title} has no usable pairs for {part}{why}")
    return {"counts": counts, "dropped": reasons}


def _files(part: str, corpus: Corpus, *folders: Path) -> list[Path]:
    return [folder / f"{part}.{language}" for folder in folders for language in corpus.languages]


def _cleaned(
    pairs: Iterator[NumberedPair], clean: Clean, has_words: tuple[bool, bool], reasons: Counter
) -> Iterator[NumberedPair]:
    for pair in pairs:
        problem = fault(*pair[1][2:], clean, has_words)
        if problem:
            reasons[problem] += 1
        else:
            yield pair


def _without_held_out(
    pairs: Iterator[NumberedPair], every: int, valid: ParallelWriter
) -> Iterator[NumberedPair]:
    """Write every n-th pair to the validation set, and yield the others."""
    for number, pair in enumerate(pairs, 1):
        if number % every:
            yield pair
        else:
            valid.write(pair[1])


def _chosen(pairs: Iterator[NumberedPair], count: int, reasons: Counter) -> Iterator[NumberedPair]:
    """Yield the first ``count`` pairs of a shuffled corpus, in the order of the corpus.

    A hash of number and text shuffles, so the choice is always the same.  Only the chosen pairs
    are in memory.
    """

    def order(pair: NumberedPair) -> bytes:
        return hashlib.sha256("\t".join((str(pair[0]), *pair[1][:2])).encode()).digest()

    seen = itertools.count()
    best = heapq.nsmallest(count, (pair for pair, _ in zip(pairs, seen, strict=False)), key=order)
    left_out = next(seen) - len(best)
    if left_out:
        reasons["not among --pairs"] += left_out
    yield from sorted(best)
