"""Compute BLEU, chrF and TER of a translation against the untouched reference, with signatures.

The translation is the output of fairseq-generate (--generated) or finished text (--hypotheses).
In the former, subwords are joined and words are detokenised here.

  bleu                 sacrebleu's default for the language, the number to report
  chrf                 sacrebleu's chrF2: n-grams of characters
  ter                  sacrebleu's TER, in per cent; the lower the better; ignores case
  tokenised_bleu       multi-bleu.perl over Moses words, as in older papers
  compound_split_bleu  the same, words split at hyphens (get_ende_bleu.sh; WMT14 En-De)
  nist_bleu            mteval-v13a -c, the case-sensitive "NIST BLEU"
  wat_bleu             the procedure of the Workshop on Asian Translation, for ja and en
  word_bleu            multi-bleu.perl over jieba's words, for zh
  given_bleu           fairseq-generate's own, for text that comes tokenised (--tokenizer given)

The default is the first four.  For languages without spaces between words it is the first two: the
others count words.  BLEU of Thai, Lao, Khmer, Burmese and Tibetan counts characters.  Every score
but the last tokenises translation and reference itself, so the tokenisation of the training data
does not matter.

--comet MODEL adds COMET by the package unbabel-comet (the extra `comet`); MODEL is a checkpoint or
a name such as Unbabel/wmt22-comet-da.

± is half the 95 % interval over the sentences.  For the difference between two systems, with its
p, see `lengths`, whose last line is of the whole set.

--test-sets FILE is a JSON file, such as {"test": 878, "news": 1000}: the text consists of these
sets in this order, and each is scored.  The scores of the set "test" have plain names; without
such a set, those of the whole text do.  The others are called bleu.news and the like.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ...errors import UserError
from ..corpora.definition import read_test_sets, slices
from ..corpora.tokenisers import KINDS
from ..corpora.words import SUBWORDS
from ..files.json_files import write_json
from ..files.text import few, read_lines
from ..files.writing import atomic_write, check_outputs
from .comet import Comet
from .counts import Score, scores_as_dict
from .generate_output import read_generated, warn, warn_if_not_text
from .metrics import (
    Metric,
    build_metric,
    check_parallel,
    check_tokenizer,
    default_scores,
    language,
    score_sets,
)
from .statistics import estimate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    translations = parser.add_mutually_exclusive_group(required=True).add_argument
    translations("--generated", type=Path, metavar="OUT", help="output of fairseq-generate; or:")
    text = "detokenised translations, one per line"
    translations("--hypotheses", type=Path, metavar="FILE", help=text)
    text = "untouched text, one per line"
    text += "; or several such files"
    add("--reference", required=True, type=Path, nargs="+", metavar="REF", help=text)
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
    add("--source", type=Path, metavar="FILE", help="the untouched source text, for --comet")
    add("--test-sets", type=Path, metavar="FILE", help="test sets in the text, as JSON")
    text = "write the scores to FILE, and the counts of each sentence that they are computed from"
    add("--json", type=Path, metavar="FILE", help=text)
    add("--hypotheses-out", type=Path, metavar="FILE", help="write the scored text to FILE")


def run(args: argparse.Namespace) -> None:
    check_arguments(args)
    target = language(args.target_lang)
    metrics: list[Metric | Comet] = [*choose_metrics(args, target)]
    if args.comet:
        metrics.append(Comet(args.comet, read_lines(args.source)))
    references = [read_lines(path) for path in args.reference]
    count = len(references[0])
    check_parallel({}, *references)
    missing = 0
    if args.hypotheses:
        translations = read_lines(args.hypotheses)
    else:
        kinds = (args.subwords, args.tokenizer, target, args.missing or "error")
        translations, missing = read_generated(args.generated, references, *kinds)
    if args.tokenizer != "given" and all(one.name != "given_bleu" for one in metrics):
        for path, lines in zip(args.reference, references, strict=True):
            warn_if_not_text(lines, path)
        if args.hypotheses:
            warn_if_not_text(translations, args.hypotheses)
    sets = read_test_sets(args.test_sets, count) if args.test_sets else {}
    scores = score_sets(metrics, translations, references, sets)
    pairs = enumerate(zip(translations, references[0], strict=True), 1)
    empty = [number for number, (ours, theirs) in pairs if theirs.strip() and not ours.strip()]
    if args.hypotheses and empty:
        warn(f"{args.hypotheses} has {len(empty):,} empty lines: {few(empty)}")
    named = {metric.name: metric for metric in metrics}
    shown = {
        name: named[name.partition(".")[0]].line(score.counts)
        for name, score in scores.items()
        if score.counts
    }

    if args.hypotheses_out:
        with atomic_write(args.hypotheses_out) as file:
            file.writelines(f"{line}\n".encode() for line in translations)
    if args.json:
        versions = {key: found for metric in metrics for key, found in metric.versions().items()}
        content = {
            **{"scores": scores_as_dict(scores), "sentences": count, "missing": missing},
            **{"target_lang": target, "versions": versions},
            "translations": str(args.generated or args.hypotheses),
            "reference": list(map(str, args.reference)),
            "parts": {
                suffix: [part.start, part.stop] for suffix, part in slices(sets, count).items()
            },
        }
        write_json(args.json, content)
    print_scores(scores, shown, count, missing)


def choose_metrics(args: argparse.Namespace, target: str) -> list[Metric]:
    if args.scores is None:
        names = default_scores(target)
    else:
        names = tuple(name.strip() for name in args.scores.split(","))
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--scores: {name} twice")
        check_tokenizer(name, args.tokenizer if args.generated else None)
    return [build_metric(name, target, args.lowercase) for name in names]


def check_arguments(args: argparse.Namespace) -> None:
    how = {"--subwords": args.subwords, "--tokenizer": args.tokenizer}
    if args.generated:  # no defaults: a wrong guess would only show as a lower score
        if missing := [flag for flag, value in how.items() if not value]:
            raise UserError(f"--generated needs {' and '.join(missing)} as well (it may be none)")
    elif given := [flag for flag, value in {**how, "--missing": args.missing}.items() if value]:
        raise UserError(f"{given[0]} needs --generated; --hypotheses is text as is")
    if bool(args.comet) != bool(args.source):
        raise UserError("--comet and --source: give both or neither")
    if args.comet and len(args.reference) > 1:
        raise UserError("--comet takes one --reference")
    inputs = [args.generated, args.hypotheses, args.source, *args.reference, args.test_sets]
    check_outputs({"--json": args.json, "--hypotheses-out": args.hypotheses_out}, inputs)


def print_scores(
    scores: dict[str, Score], shown: dict[str, str], sentences: int, missing: int
) -> None:
    print(f"sentences: {sentences}" + (f" ({missing} missing, scored as empty)" if missing else ""))
    for name, score in scores.items():
        _, _, test_set = name.partition(".")
        print(f"{test_set}: {shown[name]}" if test_set else shown[name])
        found = estimate((1, {1: score}))
        if found and found.half is not None:
            print(f"  ± {found.half:.2f}")
        print(f"  {score.signature}")
