"""BLEU by the length of the source sentence, of one or more systems.

  fairseq-hybrid lengths --source test.de --source-tokenizer moses --source-lang de \\
      --reference test.en --target-lang en --hypotheses base=base.en --hypotheses mma=mma.en \\
      --figure lengths.png --json lengths.json

The test set is divided by the words of its source sentences (--bounds), and each group is scored
as a corpus of its own, with the 95 % interval of the bootstrap and its p against the first system.
Words are counted in the tokenised source, before it is split into subwords: in --source as it
stands, or as --source-subwords joins and --source-tokenizer tokenises it.

Systems are finished translations (--hypotheses) or the output of fairseq-generate (--generated,
which wants --subwords and --tokenizer as `score` does), both as NAME=FILE.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate
from tqdm import tqdm

from ...errors import UserError
from ..arguments import flags, outputs
from ..arguments.flags import positive
from ..files.text import read_lines
from ..scoring.generate_output import join_subwords, read_finished, read_generated
from ..scoring.metrics import METRICS, language
from ..text.tokenisers import KINDS, tokeniser
from . import figure
from .measure import BOUNDS, ScoresByLength, SystemScore, groups_of, score_by_length, word_counts

SUBWORDS = ("none", "subword-nmt", "sentencepiece")
#: Characters of a word, on average, above which it is hardly a word.
_LONG = 15


@dataclass(frozen=True)
class System:
    """Translations to read: finished ones, or the output of fairseq-generate."""

    name: str
    path: Path
    generated: bool


def system(generated: bool):
    """What makes a :class:`System` of ``NAME=FILE``, for argparse."""

    def parse(text: str) -> System:
        """For argparse."""
        return System(*flags.named_path(text), generated)

    return parse


def bounds(text: str) -> tuple[int, ...]:
    """Rising numbers of ``10,20,30``."""
    numbers = [positive(word) for word in text.split(",")]
    if sorted(set(numbers)) != numbers:
        raise argparse.ArgumentTypeError(f"{text!r}: use numbers that rise")
    return tuple(numbers)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    add_systems(parser)
    parser.add_argument(
        "--reference", required=True, type=Path, metavar="REF", help="untouched text, one a line"
    )
    parser.add_argument("--target-lang", required=True, metavar="LANG", help="e.g. en, de, zh")
    parser.add_argument(
        "--score", choices=tuple(METRICS), default="bleu", help="see `score` (default: bleu)"
    )
    parser.add_argument("--lowercase", action="store_true", help="ignore case; see `score`")
    add_bounds(parser)
    source = parser.add_argument_group("source, whose words are counted")
    source.add_argument("--source", required=True, type=Path, metavar="FILE", help="one a line")
    source.add_argument(
        "--source-subwords", choices=SUBWORDS, default="none", help="what FILE is split into"
    )
    source.add_argument(
        "--source-tokenizer",
        choices=tuple(KINDS),
        default="none",
        help="what splits it into words; none (default): it has spaces between words",
    )
    source.add_argument("--source-lang", metavar="LANG", help="for --source-tokenizer")
    generated = parser.add_argument_group("output of fairseq-generate")
    generated.add_argument("--subwords", choices=SUBWORDS, help="what its tokens are")
    generated.add_argument("--tokenizer", choices=tuple(KINDS), help="how its words are tokenised")
    outputs.add_outputs(parser)


def add_bounds(parser) -> None:
    """Declare the groups of lengths; ``parser`` may be a group of arguments."""
    parser.add_argument(
        "--bounds",
        type=bounds,
        default=BOUNDS,
        metavar="N,N,…",
        help="most words of each group but the last (default: 10,20,30,40,50)",
    )


def add_systems(parser: argparse.ArgumentParser) -> None:
    """Declare translations, finished ones or those of fairseq-generate."""
    for flag, help_ in {
        "--hypotheses": "a system's translations, detokenised, one a line; may be repeated",
        "--generated": "a system's output of fairseq-generate; may be repeated",
    }.items():
        parser.add_argument(
            flag,
            dest="systems",
            action="append",
            type=system(flag == "--generated"),
            metavar="NAME=FILE",
            help=help_,
        )


def run(args: argparse.Namespace) -> None:
    """Score, print, and write what is asked for.

    Raises:
        UserError: if arguments or files do not fit together, or a file cannot be read or
            written.
    """
    check(args)
    target = language(args.target_lang)
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    references = read_lines(args.reference)
    lengths = source_lengths(args)
    if len(lengths) != len(references):
        raise UserError(
            f"{args.source} has {len(lengths):,} lines, the reference {args.reference} has "
            f"{len(references):,}"
        )
    found = score_by_length(
        args.score,
        {one.name: translations(one, args, target, len(references)) for one in args.systems},
        references,
        lengths,
        target,
        groups=groups_of(args.bounds),
        lowercase=args.lowercase,
        progress=lambda parts: tqdm(parts, unit=" groups", disable=None),
    )
    print(table(found))
    print("\n".join(notes(found)))
    outputs.write(
        args,
        {**found.as_dict(), "source": str(args.source), "reference": str(args.reference)},
        found.rows(),
        lambda theme: figure.draw(list(found.groups), list(found.systems), found.label, theme),
    )


def check(args: argparse.Namespace) -> None:
    """Refuse arguments that do not go together.

    Raises:
        UserError: naming the flag and the way out.
    """
    if not args.systems:
        raise UserError("give a system: --hypotheses NAME=FILE, or --generated NAME=FILE")
    check_names(args.systems)
    check_generated(args.systems, {"--subwords": args.subwords, "--tokenizer": args.tokenizer})
    if args.source_tokenizer != "none" and not args.source_lang:
        raise UserError(f"--source-tokenizer {args.source_tokenizer} needs --source-lang")
    inputs = [args.source, args.reference, *(one.path for one in args.systems)]
    outputs.check(args, inputs)


def check_generated(systems: list[System], needed: dict[str, str | None]) -> None:
    """See to it that it is said how to read outputs of fairseq-generate, and only of such.

    Args:
        systems: at least one.
        needed: what is said, by flags; None if it is not.

    Raises:
        UserError: naming the flags.
    """
    if any(one.generated for one in systems):
        flags.require(needed, "--generated needs {} as well (none is a choice)")
        return
    for flag, value in needed.items():
        if value not in (None, "none"):
            raise UserError(f"{flag} {value} goes with --generated; --hypotheses is text as is")


def check_names(systems: list[System]) -> None:
    """See to it that each system has a name of its own.

    Raises:
        UserError: naming it.
    """
    names = [one.name for one in systems]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"two systems are called {name}; give each a name of its own")


def source_lengths(args: argparse.Namespace) -> list[int]:
    """Words of each source sentence; warns if they look like no words.

    Raises:
        UserError: if the source cannot be read or tokenised.
    """
    text = read_lines(args.source)
    lines = [join_subwords(line, args.source_subwords) for line in text]
    if args.source_tokenizer != "none":
        lines = list(map(tokeniser(args.source_tokenizer, language(args.source_lang)), lines))
    for kind in other_subwords(text, args.source_subwords):
        warn(f"{args.source} looks like --source-subwords {kind}, not {args.source_subwords}")
    way_out = "--source-tokenizer makes words of text"
    return count_words(lines, str(args.source), way_out)


def other_subwords(lines: list[str], kind: str) -> list[str]:
    """The kinds of subwords that text looks like, but is not said to be."""
    marks = {"subword-nmt": any("@@ " in line for line in lines)}
    marks["sentencepiece"] = any("\u2581" in line for line in lines)
    return [other for other, seen in marks.items() if seen and other != kind]


def count_words(lines: list[str], where: str, way_out: str) -> list[int]:
    """Words of each line; warns if they look like no words.

    Args:
        lines: sentences.
        where: they are from, for the warning.
        way_out: what helps, likewise.
    """
    counts = word_counts(lines)
    characters = sum(len("".join(line.split())) for line in lines)
    if characters > _LONG * sum(counts):
        warn(
            f"words of {where} have {characters / max(1, sum(counts)):.0f} characters on average; "
            f"are there spaces between words? {way_out}"
        )
    return counts


def translations(one: System, args: argparse.Namespace, target: str, count: int) -> list[str]:
    """A system's translations, as text.

    Raises:
        UserError: if they cannot be read or do not fit the reference.
    """
    if one.generated:
        return read_generated(one.path, count, args.subwords, args.tokenizer, target)[0]
    return read_finished(one.path, args.reference, count)


def table(found: ScoresByLength) -> str:
    """The scores, for people."""
    headings, rows = cells(found)
    sides = ["left", *["right"] * (len(headings) - 1)]
    return tabulate(rows, headings, disable_numparse=True, colalign=sides)


def cells(found: ScoresByLength) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: a group each, and the whole set."""
    headings = ["source words", "sentences"]
    for name in found.systems:
        headings += [name] if name == found.systems[0] else [name, "p"]
    return headings, [
        [group.label, f"{group.sentences:,}", *cells_of_systems(found.systems, group.scores)]
        for group in (*found.groups, found.whole)
    ]


def cells_of_systems(systems: Sequence[str], scores: dict[str, SystemScore]) -> list[str]:
    """Each system's score with its interval, and p of all but the first."""
    found = []
    for name in systems:
        one = scores.get(name)
        if one is None:
            found.append("")
        else:
            found.append(
                f"{one.value:.2f}" + ("" if one.interval is None else f" ± {one.interval:.2f}")
            )
        if name != systems[0]:
            found.append("" if one is None or one.p_value is None else f"{one.p_value:.3f}")
    return found


def notes(found: ScoresByLength) -> list[str]:
    """How it was computed, for people."""
    lines = [
        f"{found.label}: {found.signature}",
        f"± is half the 95 % interval of {found.samples:,} resampled groups"
        + (f"; p: paired bootstrap against {found.systems[0]}" if len(found.systems) > 1 else ""),
    ]
    if found.without_words:
        lines.append(
            f"in no group, since their source has no words: {len(found.without_words):,} sentences"
        )
    return lines


def warn(message: str) -> None:
    """Say that something looks wrong."""
    print(f"warning: {message}", file=sys.stderr)
