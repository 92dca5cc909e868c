"""Compute BLEU by the length of the source sentence, for one or more systems.

  fairseq-hybrid lengths --source test.de --source-tokenizer moses --source-lang de \\
      --reference test.en --target-lang en --hypotheses base=base.en --hypotheses mma=mma.en \\
      --figure lengths.png --json lengths.json

The test set is divided by the number of words of its source sentences (--bounds). Each group is
scored as a separate corpus, with a bootstrap 95 % interval and a p-value against the first
system.  Words are counted in the tokenised source, before it is split into subwords:
--source-subwords joins subwords first, --source-tokenizer tokenises.

Systems are finished translations (--hypotheses) or the output of fairseq-generate (--generated,
which needs --subwords and --tokenizer as `score` does), both as NAME=FILE.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ...errors import UserError
from ..cli import flags
from ..cli.flags import positive
from ..corpora.tokenisers import KINDS, tokeniser
from ..corpora.words import SUBWORDS
from ..files.tabular import Grid
from ..files.text import read_lines, require_equal
from ..look import outputs
from . import lengths_figure
from .counts import SAMPLES
from .generate_output import (
    join_subwords,
    marks,
    read_finished,
    read_generated,
    warn,
    warn_if_not_text,
)
from .lengths_measure import BOUNDS, ScoresByLength, SystemScore, score_by_length, word_counts
from .metrics import METRICS, check_tokenizer, language

#: Average length of a word, in characters, above which text seems to have no spaces.
_LONG = 15


@dataclass(frozen=True)
class System:
    """A system's translations: text, or the output of fairseq-generate."""

    name: str
    path: Path
    generated: bool

    def read(
        self, path: Path, reference: list[str], target_lang: str, subwords: str, tokenizer: str
    ) -> list[str]:
        """``path``: of the reference."""
        if self.generated:
            return read_generated(self.path, [reference], subwords, tokenizer, target_lang)[0]
        return read_finished(self.path, path, len(reference))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for flag, text in {
        "--hypotheses": "a system's translations, detokenised, one per line; may be repeated",
        "--generated": "a system's output from fairseq-generate; may be repeated",
    }.items():
        kind = partial(_system, generated=flag == "--generated")
        how = {"dest": "systems", "action": "append", "metavar": "NAME=FILE"}
        parser.add_argument(flag, type=kind, help=text, **how)
    parser.add_argument(
        "--reference", required=True, type=Path, metavar="REF", help="untouched text, one per line"
    )
    parser.add_argument("--target-lang", required=True, metavar="LANG", help="e.g. en, de, zh")
    parser.add_argument(
        "--score", choices=tuple(METRICS), default="bleu", help="see `score` (default: bleu)"
    )
    parser.add_argument("--lowercase", action="store_true", help="ignore case; see `score`")
    add_bounds(parser)
    source = parser.add_argument_group("source text, to count its words")
    source.add_argument("--source", required=True, type=Path, metavar="FILE", help="one per line")
    source.add_argument(
        "--source-subwords", choices=SUBWORDS, default="none", help="kind of subwords in FILE"
    )
    source.add_argument(
        "--source-tokenizer",
        choices=KINDS,
        default="none",
        help="what splits it into words; none (default): it has spaces between words",
    )
    source.add_argument("--source-lang", metavar="LANG", help="for --source-tokenizer")
    generated = parser.add_argument_group("output of fairseq-generate")
    generated.add_argument("--subwords", choices=SUBWORDS, help="kind of its subwords")
    generated.add_argument("--tokenizer", choices=KINDS, help="how its words are tokenised")
    outputs.add_outputs(parser)


def _system(text: str, generated: bool) -> System:
    return System(*flags.named_path(text), generated)


def add_bounds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bounds",
        type=_bounds,
        default=BOUNDS,
        metavar="N,N,…",
        help="upper limits of all groups but the last, in words (default: 10,20,30,40,50)",
    )


def _bounds(text: str) -> tuple[int, ...]:
    numbers = [positive(word) for word in text.split(",")]
    if sorted(set(numbers)) != numbers:
        raise argparse.ArgumentTypeError(f"{text!r}: use increasing numbers")
    return tuple(numbers)


def run(args: argparse.Namespace) -> None:
    check(args)
    target = language(args.target_lang)
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    references = read_lines(args.reference)
    lengths = source_lengths(args)
    named = {str(args.source): len(lengths), f"the reference {args.reference}": len(references)}
    require_equal(named)
    how = args.reference, references, target, args.subwords, args.tokenizer
    systems = {one.name: one.read(*how) for one in args.systems}
    if args.tokenizer != "given" and args.score != "given_bleu":
        warn_if_not_text(references, args.reference)
        for one in (one for one in args.systems if not one.generated):
            warn_if_not_text(systems[one.name], one.path)
    found = score_by_length(
        args.score,
        systems,
        references,
        lengths,
        target,
        bounds=args.bounds,
        lowercase=args.lowercase,
    )
    print(grid(found).terminal())
    print("\n".join(notes(found)))
    outputs.write(
        args,
        {**found.as_dict(), "source": str(args.source), "reference": str(args.reference)},
        lambda theme: lengths_figure.draw(
            list(found.groups), list(found.systems), found.label, theme
        ),
    )


def check(args: argparse.Namespace) -> None:
    if not args.systems:
        raise UserError("give a system: --hypotheses NAME=FILE, or --generated NAME=FILE")
    generated = any(one.generated for one in args.systems)
    check_tokenizer(args.score, args.tokenizer if generated else None)
    names = [system.name for system in args.systems]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"two systems are called {twice[0]}; give each its own name")
    needed = {"--subwords": args.subwords, "--tokenizer": args.tokenizer}
    if generated:
        flags.require(needed, "--generated needs {} as well (which may be none)")
    elif stray := [flag for flag, value in needed.items() if value not in (None, "none")]:
        told = f"{stray[0]} {needed[stray[0]]} needs --generated"
        raise UserError(f"{told}; --hypotheses is text as is")
    if args.source_tokenizer != "none" and not args.source_lang:
        raise UserError(f"--source-tokenizer {args.source_tokenizer} needs --source-lang")
    outputs.check(args, [args.source, args.reference, *(one.path for one in args.systems)])


def source_lengths(args: argparse.Namespace) -> list[int]:
    """Count the words of each source sentence; warn if they do not look like words."""
    text = read_lines(args.source)
    lines = [join_subwords(line, args.source_subwords) for line in text]
    if args.source_tokenizer != "none":
        source = language(args.source_lang, "--source-lang")
        lines = list(map(tokeniser(args.source_tokenizer, source), lines))
    for kind in marks(text)[0] - {args.source_subwords}:
        warn(f"{args.source} looks like --source-subwords {kind}, not {args.source_subwords}")
    return count_words(lines, str(args.source), "--source-tokenizer makes words of text")


def count_words(lines: list[str], where: str, way_out: str) -> list[int]:
    """Count the words of each line; warn, with a way out, if there seem to be no spaces."""
    counts = word_counts(lines)
    characters = sum(len("".join(line.split())) for line in lines)
    if characters > _LONG * sum(counts):
        warn(
            f"words of {where} have {characters / max(1, sum(counts)):.0f} characters on average; "
            f"are there spaces between words? {way_out}"
        )
    return counts


def grid(found: ScoresByLength) -> Grid:
    rows = [
        [group.label, f"{group.sentences:,}", *cells_of_systems(found.systems, group.scores)]
        for group in (*found.groups, found.whole)
    ]
    headings = ["source words", "sentences", *headings_of_systems(found.systems)]
    return Grid(headings, rows, left=1)


def headings_of_systems(systems: Sequence[str]) -> list[str]:
    """The headings of :func:`cells_of_systems`."""
    first, *others = systems
    return [first, *(heading for name in others for heading in (name, "p"))]


def cells_of_systems(systems: Sequence[str], scores: dict[str, SystemScore]) -> list[str]:
    """Each system's score with its interval, and p of all but the first."""
    found = []
    for name in systems:
        one = scores.get(name, SystemScore(0.0))
        interval = "" if one.interval is None else f" ± {one.interval:.2f}"
        found.append(f"{one.value:.2f}{interval}" if name in scores else "")
        if name != systems[0]:
            found.append("" if one.p_value is None else f"{one.p_value:.3f}")
    return found


def notes(found: ScoresByLength) -> list[str]:
    """How it was computed."""
    lines = [
        f"{found.label}: {found.signature}",
        f"± is half the 95 % interval of {SAMPLES:,} resampled groups"
        + (f"; p: paired bootstrap against {found.systems[0]}" if len(found.systems) > 1 else ""),
    ]
    if found.without_words:
        lines.append(
            f"in no group, since their source has no words: {len(found.without_words):,} sentences"
        )
    return lines
