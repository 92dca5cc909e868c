"""Sentences to run a model on, in batches of similar length; results come in their order."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.data import Dictionary, LanguagePairDataset
from torch import Tensor

from ...errors import UserError, few
from ..corpora.words import check_kind, split_words
from ..files.text import read_lines, require_equal

#: Sentences that are sorted by length together: enough to fill batches, few enough for memory.
_WINDOW = 5_000


@dataclass(frozen=True)
class Sentences:
    # As numbers; targets are padded on the right: a decoder would read padding as the past.
    dataset: LanguagePairDataset
    source: list[list[str]]  # the subwords of each sentence, without end symbol
    target: list[list[str]] | None  # the subwords of each translation

    @classmethod
    def of_text(cls, task, source: Sequence[str], target: Sequence[str] | None = None) -> Sentences:
        """Sentences from lines of subwords with spaces between; ``task`` has the dictionaries."""
        pieces: list[list[list[str]] | None] = []
        sides: list = []
        for lines, words in ((source, task.source_dictionary), (target, task.target_dictionary)):
            if lines is None:
                pieces.append(None)
                sides += [None, None, words]
                continue
            split = list(map(split_words, lines))
            pieces.append(split)
            numbers = [_encode(line, words) for line in split]
            sides += [numbers, list(map(len, numbers)), words]
        dataset = LanguagePairDataset(
            *sides,
            left_pad_source=getattr(task.cfg, "left_pad_source", True),
            left_pad_target=False,
            shuffle=False,
        )
        source_pieces, target_pieces = pieces
        return cls(dataset, source_pieces or [], target_pieces)

    @classmethod
    def of_split(cls, task, split: str) -> Sentences:
        try:
            task.load_dataset(split)
        except FileNotFoundError as error:
            raise UserError(
                f"--gen-subset {split}: {task.cfg.data} has no such set; --data DIR names the "
                'output of "prepare" that has it'
            ) from error
        dataset = task.dataset(split)
        if not isinstance(dataset, LanguagePairDataset) or dataset.tgt is None:
            raise UserError(
                f"--gen-subset {split}: it does not hold sentences and their translations"
            )
        dataset.left_pad_target = False
        sides = ((dataset.src, dataset.src_dict), (dataset.tgt, dataset.tgt_dict))
        return cls(
            dataset,
            *([_decode(side[n], words) for n in range(len(side))] for side, words in sides),
        )

    def __post_init__(self):
        """Refuse text that has fairseq's own symbols as words: positions would be wrong."""
        words = self.dataset.src_dict
        symbols = {words.pad_word, words.eos_word}
        pairs = zip(self.source, self.target or self.source, strict=True)
        wrong = [
            number
            for number, (source, target) in enumerate(pairs)
            if not symbols.isdisjoint([*source, *target])
        ]
        if wrong:
            raise UserError(
                f"{' and '.join(sorted(symbols))} are fairseq's own symbols and cannot be words of "
                f"a text: {some(wrong)}"
            )

    def __len__(self) -> int:
        return len(self.source)

    @property
    def translations(self) -> list[list[str]]:
        """The subwords of each translation; empty ones, if there are none."""
        return [[] for _ in self.source] if self.target is None else self.target

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Source and target subwords of each sentence with end symbols; 0 without translation."""
        sources = self.dataset.src_sizes
        targets = [0] * len(self) if self.target is None else self.dataset.tgt_sizes
        return [(int(n), int(m)) for n, m in zip(sources, targets, strict=True)]

    def with_unknown(self) -> list[int]:
        """Numbers, from 0, of sentences with subwords that are not in the dictionary.

        A binarised set has lost the text of such a subword, and whether its word continues.
        """
        data = self.dataset
        sides = [(data.src, data.src_dict), (data.tgt, data.tgt_dict)]
        if self.target is None:
            sides.pop()
        return [
            number
            for number in range(len(self))
            if any(bool(side[number].eq(words.unk()).any()) for side, words in sides)
        ]

    def too_long(self, model: Any, task) -> list[int]:
        """Numbers, from 0, of sentences that are longer than the model takes."""
        limits = limits_of(model, task)
        return [
            number
            for number, lengths in enumerate(self.lengths)
            if any(n > limit for n, limit in zip(lengths, limits, strict=True))
        ]


def limits_of(model: Any, task) -> tuple[float, float]:
    """The most source and target subwords that a model takes, with end symbols."""
    limits = utils.resolve_max_positions(task.max_positions(), model.max_positions())
    source, target = limits if isinstance(limits, (tuple, list)) else (limits, limits)
    return math.inf if source is None else source, math.inf if target is None else target


def _encode(pieces: list[str], dictionary: Dictionary) -> Tensor:
    return torch.tensor([dictionary.index(piece) for piece in pieces] + [dictionary.eos()])


def _decode(numbers: Tensor, dictionary: Dictionary) -> list[str]:
    pieces = numbers.tolist()
    if pieces and pieces[-1] == dictionary.eos():
        pieces.pop()
    return [dictionary[number] for number in pieces]


def some(sentences: Sequence[int]) -> str:
    """Name a few of these sentences (from 0) in a message, counted from 1."""
    return f"sentence{'s' * (len(sentences) > 1)} {few([number + 1 for number in sentences])}"


def in_batches(
    sentences: Sentences,
    compute: Callable[[dict], Iterable],
    *,
    max_tokens: int = 4000,
    device: str = "cpu",
    skip: Sequence[int] = (),
    progress: Callable[[int], object] = lambda done: None,
) -> Iterator:
    """Compute a result for each sentence, and yield them in the order of the text.

    ``compute`` returns the results of a fairseq batch, in the order of its ``id``.  A batch has at
    most ``max_tokens``: its sentences times the longer side of the longest one; if the memory of a
    GPU is too small for that, batches are halved from there on.  For sentences to ``skip`` (from
    0), yield None.  ``progress`` is called with the number of sentences just done.
    """
    left_out = frozenset(skip)
    lengths = sentences.lengths
    numbers = iter(range(len(lengths)))
    while window := list(islice(numbers, _WINDOW)):
        wanted = [number for number in window if number not in left_out]
        # Longest first: what does not fit in memory fails at once.
        wanted.sort(key=lambda n: (max(lengths[n]), lengths[n]), reverse=True)
        done: dict[int, object] = {}
        progress(len(window) - len(wanted))
        while wanted:
            longest = max(lengths[wanted[0]])
            batch = wanted[: max(1, max_tokens // longest)]
            found = _fitting(compute, sentences.dataset, batch, device)
            if found is None:
                max_tokens = longest * (len(batch) // 2)
                continue
            done.update(zip(batch, found, strict=True))
            del wanted[: len(batch)]
            progress(len(batch))
        yield from (done.get(number) for number in window)


def _fitting(
    compute: Callable[[dict], Iterable], dataset: LanguagePairDataset, batch: list[int], device: str
) -> Iterable | None:
    """The results of a batch, in its order; None if the memory of a GPU is too small for it."""
    sample = dataset.collater([dataset[number] for number in batch])
    if device != "cpu":
        sample = utils.move_to_cuda(sample)
    try:
        results = dict(zip(sample["id"].tolist(), compute(sample), strict=True))
    except torch.OutOfMemoryError:
        if len(batch) == 1:
            raise
        return None
    return [results[number] for number in batch]


def read_sentences(
    task, split: str, files: tuple[Path, Path] | None, subwords: str, *, warn: bool = True
) -> Sentences:
    """Read the sentences of a binarised split or, if given, of two text files in ``subwords``.

    ``warn`` of those with unknown subwords.
    """
    if files:
        source, target = map(read_lines, files)
        require_equal({str(files[0]): len(source), str(files[1]): len(target)})
        sentences = Sentences.of_text(task, source, target)
        meaning = "is this text in the subwords of this model?"
    else:
        sentences = Sentences.of_split(task, split)
        meaning = (
            "a binarised set does not say where their words end, so words may be counted wrongly; "
            "text given by --source and --target does"
        )
    for side in (sentences.source, sentences.target or []):
        check_kind(side, subwords)
    unknown = sentences.with_unknown() if warn else []
    if unknown and (files or subwords != "none"):
        print(
            f"warning: {len(unknown):,} of {len(sentences):,} sentences have subwords that are not "
            f"in the dictionary ({some(unknown)}); {meaning}",
            file=sys.stderr,
        )
    return sentences
