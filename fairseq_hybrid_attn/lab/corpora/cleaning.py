"""Which sentence pairs become training, validation and test data.

Training pairs (and validation pairs, where the recipe says so) are cleaned the way that
Moses' clean-corpus-n.perl does: by the number of tokens of either side and their ratio.  A test
set stays as it is.
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
from ..files.text import lines, writing
from .definition import PARTS, Clean, Corpus

LONGEST_TOKEN = 1000  # characters; Moses drops a pair that has a longer one

#: Why a pair is not used, in the words of the manifest.
EMPTY, SHORT, LONG = "empty side", "too few tokens", "too many tokens"
RATIO, LONG_TOKEN, NOT_CHOSEN = "length ratio", "a token too long", "not among --pairs"

#: A pair's number within its file, its text and its tokens, each as (source, target).
Pair = tuple[int, tuple[str, str], tuple[str, str]]


def fault(source: str, target: str, clean: Clean) -> str | None:
    """Why a pair of tokenised sentences is not to be used; None if it is."""
    first, second = source.split(), target.split()
    shorter, longer = sorted((len(first), len(second)))
    if not shorter:
        return EMPTY
    if shorter < clean.min_tokens:
        return SHORT
    if clean.max_tokens and longer > clean.max_tokens:
        return LONG
    if clean.max_ratio and longer / shorter > clean.max_ratio:
        return RATIO
    if max(map(len, itertools.chain(first, second))) > LONGEST_TOKEN:
        return LONG_TOKEN
    return None


def select(corpus: Corpus, text: Path, tokens: Path, raw: Path, tokenised: Path) -> dict:
    """Write the pairs that are used, as text to ``raw`` and as tokens to ``tokenised``.

    Args:
        corpus: says which.
        text: folder of ``PART.LANGUAGE`` as read.
        tokens: folder of the same files, tokenised.
        raw: folder to write to, like ``tokenised``.

    Returns:
        ``counts`` of the pairs in each part, ``dropped``: how many were not used, by reason.

    Raises:
        UserError: if a part has no pairs.
    """
    if corpus.valid_every:
        chosen = _Split(corpus)
    dropped = {}
    with ExitStack() as stack:
        writers = {part: _Writer(stack, part, corpus.languages, raw, tokenised) for part in PARTS}
        for part in PARTS:
            if part == "valid" and corpus.valid_every:
                continue
            every = _pairs(part, corpus.languages, text, tokens)
            reasons: Counter = Counter()
            kept = every
            if part == "train":
                kept = _cleaned(every, corpus.clean, reasons)
            elif part == "valid":
                kept = _cleaned(every, corpus.clean if corpus.clean.valid else Clean(), reasons)
            if part == "train" and corpus.valid_every:
                kept = chosen.held_out(kept, writers["valid"])
            if part == "train" and corpus.pairs:
                kept = _chosen(kept, corpus.pairs, reasons)
            for pair in kept:
                writers[part].write(pair)
            if reasons:
                dropped[part] = dict(sorted(reasons.items()))
    counts = {part: writer.count for part, writer in writers.items()}
    for part, count in counts.items():
        if not count:
            why = f" (dropped: {dropped[part]})" if part in dropped else ""
            raise UserError(f"{corpus.title} has no usable pairs for {part}{why}")
    return {"counts": counts, "dropped": dropped}


class _Split:
    """Every so many-th cleaned training pair is for validation."""

    def __init__(self, corpus: Corpus):
        self.every = corpus.valid_every

    def held_out(self, pairs: Iterator[Pair], valid: _Writer) -> Iterator[Pair]:
        for number, pair in enumerate(pairs, 1):
            if number % self.every:
                yield pair
            else:
                valid.write(pair)


class _Writer:
    """The four files of a part: text and tokens of either side."""

    def __init__(
        self, stack: ExitStack, part: str, languages: tuple[str, str], raw: Path, tokenised: Path
    ):
        self.count = 0
        self._files = [
            stack.enter_context(writing(folder / f"{part}.{language}"))
            for folder in (raw, tokenised)
            for language in languages
        ]

    def write(self, pair: Pair) -> None:
        _, text, tokens = pair
        for file, line in zip(self._files, (*text, *tokens), strict=True):
            file.write(f"{line}\n")
        self.count += 1


def _pairs(part: str, languages: tuple[str, str], text: Path, tokens: Path) -> Iterator[Pair]:
    files = [lines(folder / f"{part}.{lang}") for folder in (text, tokens) for lang in languages]
    # strict: the tokenisers keep the number of lines, and the reader compared the two sides.
    for number, (one, two, three, four) in enumerate(zip(*files, strict=True)):
        yield number, (one, two), (three, four)


def _cleaned(pairs: Iterator[Pair], clean: Clean, reasons: Counter) -> Iterator[Pair]:
    for pair in pairs:
        problem = fault(*pair[2], clean)
        if problem:
            reasons[problem] += 1
        else:
            yield pair


def _chosen(pairs: Iterator[Pair], count: int, reasons: Counter) -> Iterator[Pair]:
    """The ``count`` first pairs of a shuffled corpus, in the order of the corpus.

    Shuffled by a hash of number and text, hence the same everywhere and always; in memory are
    only those chosen.
    """

    def place(pair: Pair) -> bytes:
        return hashlib.sha256("\t".join((str(pair[0]), *pair[1])).encode()).digest()

    seen = 0

    def counted() -> Iterator[Pair]:
        nonlocal seen
        for pair in pairs:
            seen += 1
            yield pair

    best = heapq.nsmallest(count, counted(), key=place)
    if seen > len(best):
        reasons[NOT_CHOSEN] += seen - len(best)
    yield from sorted(best)
