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
from pathlib import Path

from ...errors import UserError
from ..corpora.tokenisers import KINDS, tokeniser
from ..corpora.words import SUBWORDS
from ..files.tabular import Grid
from ..files.text import read_lines, require_equal
from ..look import outputs
from . import lengths_figure
from .generate_output import join_subwords, warn_if_not_text
from .lengths_measure import ScoresByLength, SystemScore, score_by_length
from .metrics import METRICS, check_tokenizer, language
from .systems import add_bounds, add_systems, check_systems, count_words, other_subwords, warn


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_systems(parser)
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


def run(args: argparse.Namespace) -> None:
    check(args)
    target = language(args.target_lang)
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    references = read_lines(args.reference)
    lengths = source_lengths(args)
    named = {str(args.source): len(lengths), f"the reference {args.reference}": len(references)}
    require_equal(named)
    how = args.reference, len(references), target, args.subwords, args.tokenizer
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
        found.rows(),
        lambda theme: lengths_figure.draw(
            list(found.groups), list(found.systems), found.label, theme
        ),
    )


def check(args: argparse.Namespace) -> None:
    if not args.systems:
        raise UserError("give a system: --hypotheses NAME=FILE, or --generated NAME=FILE")
    generated = any(one.generated for one in args.systems)
    check_tokenizer(args.score, args.tokenizer if generated else None)
    check_systems(args.systems, {"--subwords": args.subwords, "--tokenizer": args.tokenizer})
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
    for kind in other_subwords(text, args.source_subwords):
        warn(f"{args.source} looks like --source-subwords {kind}, not {args.source_subwords}")
    return count_words(lines, str(args.source), "--source-tokenizer makes words of text")


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
        f"± is half the 95 % interval of {found.samples:,} resampled groups"
        + (f"; p: paired bootstrap against {found.systems[0]}" if len(found.systems) > 1 else ""),
    ]
    if found.without_words:
        lines.append(
            f"in no group, since their source has no words: {len(found.without_words):,} sentences"
        )
    return lines
