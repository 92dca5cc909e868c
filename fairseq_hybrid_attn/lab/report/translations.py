"""A report's translations: of all models, and what they are scored against."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from ...errors import UserError
from ..arguments import flags
from ..files.text import read_lines, require_equal
from ..lengths import systems as lengths
from ..lengths.measure import BOUNDS, ScoresByLength, compare_systems, score_by_length
from ..scoring.generate_output import join_subwords
from ..scoring.metrics import build_metric, default_scores, language
from ..text.test_sets import read_test_sets, slices
from ..text.tokenisers import KINDS
from .findings import SetScore

_SYSTEMS = "--hypotheses or --generated"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("translations, by model name")
    lengths.add_systems(group)
    group.add_argument("--reference", type=Path, metavar="REF", help="untouched text, one per line")
    group.add_argument("--tokenizer", choices=KINDS, help="tokeniser of --generated; see `score`")
    group.add_argument("--lowercase", action="store_true", help="ignore case; see `score`")
    group.add_argument(
        "--test-sets", type=Path, metavar="FILE", help="test sets in the text; see `score`"
    )
    group.add_argument(
        "--source-words",
        type=Path,
        metavar="FILE",
        help="tokenised source, to count its words (default: those of the model's text)",
    )
    lengths.add_bounds(group)


def given(args: argparse.Namespace) -> dict[str, object]:
    """The values of flags about translations, all of which a finished run knows."""
    return {
        _SYSTEMS: args.systems,
        "--reference": args.reference,
        "--tokenizer": args.tokenizer,
        "--lowercase": args.lowercase,
        "--test-sets": args.test_sets,
        "--source-words": args.source_words,
    }


def check(args: argparse.Namespace) -> None:
    if not args.systems:
        others = {**given(args), "--bounds": args.bounds != BOUNDS}
        flags.refuse(others, f"{{}} is for translations; give {_SYSTEMS} as well")
        return
    lengths.check_systems(args.systems, {"--tokenizer": args.tokenizer})
    for one in args.systems:
        flags.check_name("--generated" if one.generated else "--hypotheses", one.name, args.names)
    without = set(args.names).difference(one.name for one in args.systems)
    if without:
        raise UserError(f"{_SYSTEMS}: there are no translations of {', '.join(sorted(without))}")
    needed = {"--reference": args.reference, "--target-lang": args.target_lang}
    flags.require(needed, "translations are scored: give {} as well")


@dataclass(frozen=True)
class ReportTranslations:
    """The translations of a test set."""

    systems: dict[str, list[str]]  #: by the models' names, in their order
    references: list[str]
    target: str  #: their language
    lowercase: bool
    sets: dict[str, slice]  #: the named parts of the test set, and the whole
    words: list[int] | None  #: of each source sentence, if counted in --source-words

    def scores(self) -> list[SetScore]:
        todo = [
            (name, suffix, part)
            for suffix, part in self.sets.items()
            for name in default_scores(self.target)
        ]
        return [self._score(*one) for one in tqdm(todo, unit=" scores", file=sys.stderr)]

    def _score(self, name: str, suffix: str, part: slice) -> SetScore:
        references = self.references[part]
        systems = {system: lines[part] for system, lines in self.systems.items()}
        metric = build_metric(name, self.target, self.lowercase)
        return SetScore(
            name=f"{name}{suffix}",
            label=metric.label,
            signature=metric.score(next(iter(systems.values())), references).signature,
            sentences=len(references),
            systems=compare_systems(
                name, systems, references, self.target, lowercase=self.lowercase
            ),
        )

    def by_length(
        self, source: Sequence[Sequence[str]], subwords: str, bounds: Sequence[int]
    ) -> ScoresByLength:
        """BLEU by words of the source: of --source-words, else of its joined subwords."""
        words = self.words
        if words is None:
            lines = [join_subwords(" ".join(pieces), subwords) for pieces in source]
            words = _count_words(lines, "the models' source")
        return score_by_length(
            "bleu",
            self.systems,
            self.references,
            words,
            self.target,
            bounds=bounds,
            lowercase=self.lowercase,
            progress=lambda parts: tqdm(parts, unit=" groups", file=sys.stderr),
        )


def _count_words(lines: list[str], where: str) -> list[int]:
    return lengths.count_words(lines, where, "--source-words FILE counts those of tokenised text")


def read(args: argparse.Namespace) -> ReportTranslations | None:
    """Read the translations and their reference; None if there are none."""
    if not args.systems:
        return None
    target = language(args.target_lang)
    references = read_lines(args.reference)
    count = len(references)
    words = None
    if args.source_words:
        lines = read_lines(args.source_words)
        require_equal(
            {str(args.source_words): len(lines), f"the reference {args.reference}": count}
        )
        for kind in lengths.other_subwords(lines, "none"):
            lengths.warn(f"--source-words {args.source_words} looks like {kind}, not like words")
        words = _count_words(lines, str(args.source_words))
    systems = {one.name: one for one in args.systems}
    how = args.reference, count, target, args.subwords, args.tokenizer
    return ReportTranslations(
        systems={name: systems[name].read(*how) for name in args.names},
        references=references,
        target=target,
        lowercase=args.lowercase,
        sets=slices(read_test_sets(args.test_sets, count) if args.test_sets else {}, count),
        words=words,
    )
