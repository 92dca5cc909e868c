"""Small files of three probing tasks from any text, in the form of SentEval's.

  python examples/probing/make_tasks.py prepared/tokenised/train.de --output probing
  python examples/probing/make_tasks.py news.tok.de --output probing --sizes 5000 500 500 \\
      --words 50 --first-rank 500

The text has one sentence per line, in tokens separated by spaces.  To probe, give
``fairseq-hybrid probe`` the folder (--task-files), the tasks (--tasks SentLen,WC,BShift) and the
tokens' kind: --tokens as-trained for those of the training text.

SentLen, WC and BShift need no parser.  They are made like the published ones (Conneau et al. 2018;
the description beside the files), from sentences of 5 to 28 tokens:

* SentLen: six classes of lengths.
* WC: which of many words is in the sentence.  It occurs once, and none of the others occurs.  The
  words have consecutive ranks by frequency, at least 4 letters, and are counted in lower case.  The
  published files use the 1,000 words from rank 2,001; shorter text has too few sentences for each.
* BShift: whether two neighbouring tokens are swapped.  Neither is the first of the sentence or a
  punctuation mark, and sentences with double quotes are left out.

All classes have the same number of sentences in each part, and no sentence is in two parts.  The
same seed gives the same files.
"""

from __future__ import annotations

import argparse
import html
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.files.text import read_lines, write_lines
from fairseq_hybrid_attn.lab.probing.tasks import PARTS, TASKS

#: Least and greatest number of tokens of SentLen's classes.
LENGTHS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))

ORIGINAL, INVERTED = "O", "I"

_SHORTEST, _LONGEST = LENGTHS[0][0], LENGTHS[-1][1]
_LEAST_LETTERS = 4
_QUOTES = ('"', "“", "”", "„", "«", "»", "``", "''")


class Example(NamedTuple):
    """A line of a task file."""

    part: str
    label: str
    sentence: str


@dataclass(frozen=True)
class Wanted:
    """What files to make.

    ``sizes`` are sentences in tr, va and te, rounded down to the same number for each class.
    ``words`` is the number of classes of WC, ``first_rank`` the first one's rank by frequency.
    """

    sizes: tuple[int, int, int] = (10_000, 1_000, 1_000)
    seed: int = 1
    words: int = 100
    first_rank: int = 2001

    def __post_init__(self):
        if min(self.sizes) < 1:
            raise UserError(f"--sizes: give three numbers from 1, for {', '.join(PARTS)}")
        if self.words < 2:
            raise UserError(f"--words {self.words}: use 2 or more")
        if self.first_rank < 1:
            raise UserError(f"--first-rank {self.first_rank}: use 1 or more")

    def of_each(self, classes: int) -> tuple[int, ...]:
        """The number of sentences of each class in each part."""
        counts = tuple(size // classes for size in self.sizes)
        if 0 in counts:
            raise UserError(f"--sizes {self.sizes}: too few for {classes} classes")
        return counts


def usable(lines: Iterable[str]) -> list[str]:
    """Return the sentences of 5 to 28 tokens, each once, ignoring case."""
    sentences = {}
    for line in lines:
        words = line.split()
        if _SHORTEST <= len(words) <= _LONGEST:
            sentences.setdefault(" ".join(words).lower(), " ".join(words))
    return list(sentences.values())


def sentence_length(sentences: Sequence[str], wanted: Wanted) -> list[Example]:
    """The sentences by their number of tokens, in the classes ``LENGTHS`` (SentLen)."""
    classes = {str(label): [] for label in range(len(LENGTHS))}
    for sentence in sentences:
        length = len(sentence.split())
        (label,) = (n for n, (least, most) in enumerate(LENGTHS) if least <= length <= most)
        classes[str(label)].append(sentence)
    names = {str(n): f"{least} to {most} tokens" for n, (least, most) in enumerate(LENGTHS)}
    return _balanced("SentLen", classes, wanted, names)


def word_content(sentences: Sequence[str], wanted: Wanted) -> list[Example]:
    """The sentences with exactly one of ``wanted.words`` frequent words, by that word (WC)."""
    counts = Counter(word for sentence in sentences for word in sentence.lower().split())
    # Equally frequent words in alphabetical order: the same everywhere.
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[wanted.first_rank - 1 :]
    fit = [word for word in ranked if len(word) >= _LEAST_LETTERS and word.isalpha()]
    targets = fit[: wanted.words]
    if len(targets) < wanted.words:
        raise UserError(
            f"WC: from --first-rank {wanted.first_rank} on, the text has only {len(fit):,} words "
            f"of {_LEAST_LETTERS} letters; use a smaller --first-rank or fewer --words"
        )
    classes = {target: [] for target in targets}
    for sentence in sentences:
        among = [word for word in sentence.lower().split() if word in classes]
        if len(among) == 1:
            classes[among[0]].append(sentence)
    return _balanced("WC", classes, wanted)


def bigram_shift(sentences: Sequence[str], wanted: Wanted) -> list[Example]:
    """Half of the sentences as they are, in half two neighbouring words swapped (BShift)."""
    choose = random.Random(wanted.seed)
    known = {sentence.lower() for sentence in sentences}
    classes = {ORIGINAL: [], INVERTED: []}
    for sentence in _shuffled(sentences, choose):
        inverted = _with_inversion(sentence, choose)
        if inverted is None or inverted.lower() in known:
            continue
        # To the class with fewer sentences, so that as many as possible are used.
        if len(classes[ORIGINAL]) <= len(classes[INVERTED]):
            classes[ORIGINAL].append(sentence)
        else:
            classes[INVERTED].append(inverted)
            known.add(inverted.lower())
    return _balanced("BShift", classes, wanted)


def _with_inversion(sentence: str, choose: random.Random) -> str | None:
    """Swap two neighbours of a sentence; None if there are none to swap."""
    text = html.unescape(sentence)  # Moses' tokeniser writes &quot;
    if any(quote in text for quote in _QUOTES):
        return None
    words = sentence.split()
    places = [
        place
        for place in range(1, len(words) - 1)
        if all(_is_word(word) for word in words[place : place + 2])
        and words[place].lower() != words[place + 1].lower()
    ]
    if not places:
        return None
    at = choose.choice(places)
    words[at : at + 2] = reversed(words[at : at + 2])
    return " ".join(words)


def _is_word(token: str) -> bool:
    return any(character.isalnum() for character in html.unescape(token))


def _shuffled(items: Iterable, choose: random.Random) -> list:
    items = list(items)
    choose.shuffle(items)
    return items


def _balanced(
    task: str,
    classes: dict[str, list[str]],
    wanted: Wanted,
    names: dict[str, str] | None = None,
) -> list[Example]:
    """Distribute the sentences of each class over the parts, and mix each part.

    Messages call the classes by ``names``, or by their labels.
    """
    counts = wanted.of_each(len(classes))
    poorest = min(classes, key=lambda label: len(classes[label]))
    there, needed = len(classes[poorest]), sum(counts)
    if there < needed:
        way_out = "smaller --sizes or --first-rank" if task == "WC" else "smaller --sizes"
        raise UserError(
            f"{task}: {needed:,} sentences of each class are needed, but of "
            f"{(names or {}).get(poorest, poorest)!r} the text has {there:,}; use more text or "
            f"{way_out}"
        )
    choose = random.Random(wanted.seed)
    parts: dict[str, list[Example]] = {part: [] for part in PARTS}
    for label, sentences in classes.items():
        chosen = iter(_shuffled(sentences, choose))
        for part, count in zip(PARTS, counts, strict=True):
            parts[part] += [Example(part, label, next(chosen)) for _ in range(count)]
    return [example for part in PARTS for example in _shuffled(parts[part], choose)]


#: What makes the examples of a task, by its name.
GENERATORS: dict[str, Callable[[Sequence[str], Wanted], list[Example]]] = {
    "SentLen": sentence_length,
    "WC": word_content,
    "BShift": bigram_shift,
}


def main(words: Sequence[str] | None = None) -> None:
    """Make the files, all or none, and print their sizes."""
    defaults = Wanted()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("text", type=Path, metavar="TEXT", help="one sentence per line, in tokens")
    add("--output", required=True, type=Path, metavar="DIR")
    add("--tasks", nargs="+", choices=GENERATORS, default=list(GENERATORS), help="default: all")
    text = f"sentences of {', '.join(PARTS)} (default: {' '.join(map(str, defaults.sizes))})"
    add("--sizes", type=int, nargs=len(PARTS), default=defaults.sizes, metavar="N", help=text)
    add("--words", type=int, default=defaults.words, help="classes of WC (default: %(default)s)")
    text = "frequency rank of WC's first word (default: %(default)s)"
    add("--first-rank", type=int, default=defaults.first_rank, help=text)
    add("--seed", type=int, default=defaults.seed, help="default: %(default)s")
    args = parser.parse_args(words)
    wanted = Wanted(tuple(args.sizes), args.seed, args.words, args.first_rank)
    for task in TASKS.values():  # published files, or files of other text
        if (args.output / task.file).exists():
            raise UserError(f"--output {args.output}: {task.file} exists; choose another folder")
    sentences = usable(read_lines(args.text))
    made = {TASKS[name]: GENERATORS[name](sentences, wanted) for name in args.tasks}
    args.output.mkdir(parents=True, exist_ok=True)
    for task, examples in made.items():
        write_lines(args.output / task.file, map("\t".join, examples))
        counts = Counter(example.part for example in examples)
        classes = len({example.label for example in examples})
        sizes = ", ".join(f"{part} {counts[part]:,}" for part in PARTS)
        print(f"{args.output / task.file}: {classes} classes; {sizes}")


if __name__ == "__main__":
    main()
