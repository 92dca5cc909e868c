"""Compute BLEU, chrF and TER of translations against the untouched reference, and compare systems.

  fairseq-hybrid score --hypotheses test.en --reference ref.en --target-lang en
  fairseq-hybrid score --hypotheses marian=a.en --hypotheses mma=m1.en --hypotheses mma=m2.en \
      --reference ref.en --target-lang en --by-length --write scores.md

A translation is finished text (--hypotheses), or the output of fairseq-generate (--generated),
whose subwords are joined and whose words are detokenised here.  Several systems are compared with
the first, or with --baseline; files of one NAME are its seeds.

  bleu                 sacrebleu's default for the language, the number to report
  chrf                 sacrebleu's chrF2: n-grams of characters
  ter                  sacrebleu's TER, in per cent; the lower the better; ignores case
  tokenised_bleu       multi-bleu.perl over Moses words, as in older papers
  compound_split_bleu  the same, words split at hyphens (get_ende_bleu.sh; WMT14 En-De)
  nist_bleu            mteval-v13a -c, the case-sensitive "NIST BLEU"
  wat_bleu             the procedure of the Workshop on Asian Translation, for ja and en
  word_bleu            multi-bleu.perl over jieba's words, for zh
  given_bleu           fairseq-generate's own, for text that comes tokenised (--tokenizer given)

The default is the first three, of one system the first four.  For Chinese, Japanese, Korean
and other languages without spaces between words it is the first two: the others count words.  BLEU
of Thai, Lao, Khmer, Burmese and Tibetan counts characters.  Every score but the last tokenises
translation and reference itself, so the tokenisation of the training data does not matter.

A .json has the counts of each sentence, too; a figure is of the groups of --by-length.

--comet MODEL adds COMET by the package unbabel-comet (the extra `comet`); MODEL is a checkpoint or
a name such as Unbabel/wmt22-comet-da.

--by-length also scores groups of sentences by their words (--bounds), each as a separate corpus:
words between spaces of --source, which is tokenised and not split into subwords, or else of the
reference.  The score is the first of --scores.

± is half the 95 % interval over the sentences, and over the seeds if there are several.

--test-sets FILE is a JSON file, such as {"test": 878, "news": 1000}: the text consists of these
sets in this order, and each is scored.  The scores of the set "test" have plain names; without
such a set, those of the whole text do.  The others are called bleu.news and the like.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...errors import UserError
from ..corpora.definition import read_test_sets, slices
from ..corpora.tokenisers import KINDS
from ..corpora.words import SUBWORDS
from ..figures import style
from ..files.text import read_lines
from ..files.writing import kind_of, write_text
from ..scores import lengths, standard_scores
from ..scores.comet import Comet
from ..scores.counts import Score
from ..scores.generate_output import read_generated, read_texts, warn_if_not_text
from ..scores.metrics import (
    Metric,
    build_metrics,
    check_parallel,
    default_scores,
    language,
)
from ..scores.statistics import estimate
from ..tables.by_length import draw_groups, score_by_length
from ..tables.printing import as_terminal, by_column, write_table
from ..tables.scoring import score_table
from . import outputs
from .flags import increasing, path_of_name

WRITTEN = ("table", "data", "figure")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    translations = parser.add_mutually_exclusive_group(required=True).add_argument
    translations("--generated", type=Path, metavar="OUT", help="output of fairseq-generate; or:")
    text = "detokenised translations, one per line; repeatable"
    translations(
        "--hypotheses",
        type=path_of_name,
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help=text,
    )
    text = "untouched text, one per line; or several such files"
    add(
        "--reference",
        required=True,
        type=Path,
        action="extend",
        nargs="+",
        metavar="REF",
        help=text,
    )
    add("--target-lang", required=True, metavar="LANG", help="e.g. en, de, zh")
    add("--scores", metavar="NAME,…", help="which to compute (default: see above)")
    text = "kind of subwords in OUT; none if fairseq-generate joined them (--post-process)"
    add("--subwords", choices=SUBWORDS, help=text)
    add("--tokenizer", choices=tuple(KINDS), help="how the words of OUT are tokenised")
    text = "sentences without translation in OUT: an error (default), or empty translations"
    add("--missing", choices=("error", "empty"), help=text)
    text = "ignore case: for models of lower-cased text, which cannot produce the case of the "
    add("--lowercase", action="store_true", help=text + "untouched reference")
    add("--comet", metavar="MODEL", help="COMET by this model as well; needs --source")
    text = (
        "the untouched source text, for --comet; without that, the tokenised one, for --by-length"
    )
    add("--source", type=Path, metavar="FILE", help=text)
    add("--test-sets", type=Path, metavar="FILE", help="test sets in the text, as JSON")
    add = parser.add_argument_group("several systems").add_argument
    add("--baseline", metavar="NAME", help="compare with this system (default: the first)")
    add("--pairs", action="store_true", help="compare all pairs as well")
    add = parser.add_argument_group("by the length of the sentence").add_argument
    add("--by-length", action="store_true", help="score groups of sentences as well")
    text = "upper limits of all groups but the last, in words (default: 10,20,30,40,50)"
    add("--bounds", type=increasing, default=lengths.BOUNDS, metavar="N,N,…", help=text)
    group = parser.add_argument_group("what to write")
    outputs.add_write(group, *WRITTEN)
    text = "of one translation: write the scored text to FILE"
    group.add_argument("--hypotheses-out", type=Path, metavar="FILE", help=text)


def run(args: argparse.Namespace) -> None:
    check_arguments(args)
    target = language(args.target_lang)
    several = len(args.hypotheses) > 1
    names = standard_scores(target) if several else default_scores(target)
    if args.scores is not None:
        names = tuple(name.strip() for name in args.scores.split(","))
    chosen = build_metrics(names, target, args.lowercase, args.generated and args.tokenizer)
    metrics: list[Metric | Comet] = [*chosen]
    if args.comet:
        metrics.append(Comet(args.comet, read_lines(args.source)))
    references = [read_lines(path) for path in args.reference]
    count = len(references[0])
    check_parallel({}, *references)
    detokenised = args.tokenizer != "given" and "given_bleu" not in names
    for path, lines in zip(args.reference, references, strict=True) if detokenised else ():
        warn_if_not_text(lines, path)
    systems, missing = read_texts(args.hypotheses, references, detokenised=detokenised), 0
    if args.generated:
        kinds = args.subwords, args.tokenizer, target, args.missing or "error"
        translations, missing = read_generated(args.generated, references, *kinds)
        systems = {str(args.generated): [translations]}
    sets = read_test_sets(args.test_sets, count) if args.test_sets else {}
    title = f"{count:,} sentences of {args.reference[0]}"
    table = score_table(title, metrics, systems, references, sets, args.baseline, args.pairs)
    if args.by_length:
        by_source = args.source and not args.comet  # which reads text that is not tokenised
        side, path = ("source", args.source) if by_source else ("reference", args.reference[0])
        words = lengths.count_words(read_lines(path), str(path))
        ordered = dict.fromkeys([args.baseline or next(iter(systems)), *systems])
        texts = {name: systems[name] for name in ordered}
        of_texts = texts, references, words, args.bounds, side
        table = replace(table, by_length=score_by_length(chosen[0], *of_texts))
    if several:
        print(as_terminal(table), end="")
    else:
        first = {number.score: number.scores[1] for number in table.numbers}
        if args.hypotheses_out:
            (lines,) = next(iter(systems.values()))
            write_text(args.hypotheses_out, "".join(f"{line}\n" for line in lines))
        print_scores(metrics, first, count, missing)
        if table.by_length:
            print(f"\n{by_column(table.by_length).terminal()}")
    about = {
        **{"systems": table.systems, "sentences": count, "missing": missing},
        **{"target_lang": target, "reference": list(map(str, args.reference))},
        "versions": {name: of for metric in metrics for name, of in metric.versions().items()},
        "parts": {suffix: [part.start, part.stop] for suffix, part in slices(sets, count).items()},
    }
    for path in args.write:
        if table.by_length and kind_of(path) == "figure":
            style.save(draw_groups(table.by_length, chosen[0].label, side, args.theme), path)
        else:
            write_table(path, table, **about)


def check_arguments(args: argparse.Namespace) -> None:
    how = {"--subwords": args.subwords, "--tokenizer": args.tokenizer}
    if args.generated:  # no defaults: a wrong guess would only show as a lower score
        if missing := [flag for flag, value in how.items() if not value]:
            raise UserError(f"--generated needs {' and '.join(missing)} as well (it may be none)")
    elif given := [flag for flag, value in {**how, "--missing": args.missing}.items() if value]:
        raise UserError(f"{given[0]} needs --generated; --hypotheses is text as is")
    if twice := [one for one in args.hypotheses if args.hypotheses.count(one) > 1]:
        raise UserError(f"--hypotheses: {twice[0][1]} is given twice")
    if args.comet and not args.source:
        raise UserError("--comet needs --source")
    if args.source and not (args.comet or args.by_length):
        raise UserError("--source is for --comet and --by-length")
    if args.comet and len(args.reference) > 1:
        raise UserError("--comet takes one --reference")
    if "figure" in map(kind_of, args.write) and not args.by_length:
        raise UserError("--write: a figure needs --by-length")
    names, of_one = {name for name, _ in args.hypotheses}, {"--hypotheses-out": args.hypotheses_out}
    if (args.baseline or args.pairs) and len(names) < 2:
        raise UserError("--baseline and --pairs are for several systems")
    if args.baseline and args.baseline not in names:
        raise UserError(f"--baseline {args.baseline}: no --hypotheses has this name")
    if len(args.hypotheses) > 1 and args.hypotheses_out:
        raise UserError("--hypotheses-out is for one translation")
    texts = [path for _, path in args.hypotheses]
    inputs = [args.generated, args.source, *texts, *args.reference, args.test_sets]
    outputs.check(args.write, WRITTEN, inputs, of_one)


def print_scores(
    metrics: Sequence[Metric | Comet], scores: dict[str, Score], sentences: int, missing: int
) -> None:
    print(f"sentences: {sentences}" + (f" ({missing} missing, scored as empty)" if missing else ""))
    named = {metric.name: metric for metric in metrics}
    for name, score in scores.items():
        metric, _, test_set = name.partition(".")
        assert score.counts
        line = named[metric].line(score.counts)
        print(f"{test_set}: {line}" if test_set else line)
        found = estimate((1, {1: score}))
        if found and found.half is not None:
            print(f"  ± {found.half:.2f}")
        print(f"  {score.signature}")
