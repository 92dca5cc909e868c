"""BLEU of a translation against the untouched reference, with signatures to repeat it by.

The translation is the output of fairseq-generate (--generated), whose subwords are joined
and which is detokenised here, or finished text (--hypotheses).

  bleu                 sacrebleu's default for the language, the number to report
  tokenised_bleu       multi-bleu.perl over Moses words, as older papers have it
  compound_split_bleu  the same, words split at hyphens (get_ende_bleu.sh; WMT14 En-De)
  nist_bleu            mteval-v13a -c, the case-sensitive "NIST BLEU"
  wat_bleu             the procedure of the Workshop on Asian Translation, for ja and en

Without --scores it is the first two, or the first alone for Chinese, Japanese and Korean,
which Moses does not split into words.  Every score tokenises translation and reference
by itself, and so is the same whatever the tokenisation of the training data.

--test-sets FILE is a JSON file, such as {"test": 878, "news": 1000}: the text is these sets one
after the other, and each is scored.  Scores of the set "test", or without such of all together,
have plain names; the others are bleu.news and the like.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from ...errors import UserError
from ..files.json_files import write_json
from ..files.text import read_lines
from ..files.writing import atomic_write, check_outputs
from ..text.test_sets import read_test_sets, slices
from . import METRICS, Metric, Score, build_metric, default_scores
from .generated import in_order, join_subwords, read_hypotheses

HELP = "BLEU of a translation, detokenised and tokenised"

TOKENIZERS = ("none", "moses", "moses-aggressive", "mecab", "kytea", "jieba")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "--generated", type=Path, metavar="OUT", help="output of fairseq-generate; or:"
    )
    parser.add_argument(
        "--hypotheses", type=Path, metavar="FILE", help="detokenised translations, one a line"
    )
    parser.add_argument(
        "--reference", required=True, type=Path, metavar="REF", help="untouched text, one a line"
    )
    parser.add_argument("--target-lang", required=True, metavar="LANG", help="e.g. en, de, zh")
    parser.add_argument(
        "--scores", metavar="NAME,…", help="which to compute; bleu,tokenised_bleu or bleu"
    )
    parser.add_argument(
        "--subwords",
        choices=("none", "subword-nmt", "sentencepiece"),
        help="what the tokens of OUT are; none if fairseq-generate joined them (--post-process)",
    )
    parser.add_argument(
        "--tokenizer", choices=TOKENIZERS, help="how the words of OUT are tokenised"
    )
    parser.add_argument(
        "--missing",
        choices=("error", "empty"),
        help="sentences without translation in OUT: an error (default), or empty translations",
    )
    parser.add_argument(
        "--lowercase",
        action="store_true",
        help="ignore case: for models of lower-cased text, whose translations cannot have the "
        "case of the untouched reference",
    )
    parser.add_argument(
        "--kytea-model",
        type=Path,
        metavar="MODEL",
        help="wat_bleu into Japanese: KyTea's words with this model (default: MeCab's)",
    )
    parser.add_argument(
        "--test-sets", type=Path, metavar="FILE", help="what sets the text consists of"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the scores to FILE")
    parser.add_argument(
        "--hypotheses-out", type=Path, metavar="FILE", help="write what was scored to FILE"
    )


def run(args: argparse.Namespace) -> None:
    """Score, print, and write what is asked for.

    Raises:
        UserError: if arguments or files do not fit together, or a file cannot be read or
            written.
    """
    check_arguments(args)
    args.target_lang = language(args.target_lang)
    metrics = choose_metrics(args)
    references = read_lines(args.reference)
    translations, missing = read_translations(args, len(references))
    sets = read_test_sets(args.test_sets, len(references)) if args.test_sets else {}
    scores = {
        f"{metric.name}{suffix}": metric.score(translations[part], references[part])
        for suffix, part in slices(sets, len(references)).items()
        for metric in metrics
    }

    if args.hypotheses_out:
        with atomic_write(args.hypotheses_out) as file:
            file.writelines(f"{line}\n".encode() for line in translations)
    if args.json:
        report = as_dict(args, metrics, scores, len(references), missing)
        write_json(args.json, report)
    print_scores(scores, len(references), missing)
    if args.scores is None and "tokenised_bleu" not in scores:
        print("no tokenised BLEU: sacrebleu segments this language by itself")


def language(code: str) -> str:
    """The language of a code such as en, JA or zh_CN: two or three letters, lower case.

    Raises:
        UserError: if it is none; sacrebleu would silently take its tokenisation for English.
    """
    match = re.fullmatch(r"([a-z]{2,3})([-_].+)?", code.lower())
    if not match:
        raise UserError(f"--target-lang {code!r}: use a language code such as en, de or zh")
    return match[1]


def choose_metrics(args: argparse.Namespace) -> list[Metric]:
    """The metrics that are asked for, in that order.

    Raises:
        UserError: if there is no such metric, one is named twice, or one cannot be built for
            the target language.
    """
    if args.scores is None:
        names = default_scores(args.target_lang)
    else:
        names = tuple(name.strip() for name in args.scores.split(","))
    for name in names:
        if name not in METRICS:
            raise UserError(f"--scores: there is no {name!r}; choose of {', '.join(METRICS)}")
        if names.count(name) > 1:
            raise UserError(f"--scores: {name} twice")
    if args.kytea_model and "wat_bleu" not in names:
        raise UserError("--kytea-model goes with --scores wat_bleu")
    return [
        build_metric(
            name,
            args.target_lang,
            args.lowercase,
            args.kytea_model if name == "wat_bleu" else None,
        )
        for name in names
    ]


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse arguments that do not go together.

    Raises:
        UserError: naming the flag and the way out.
    """
    if (args.generated is None) == (args.hypotheses is None):
        raise UserError(
            "give one of --generated OUT (output of fairseq-generate) and "
            "--hypotheses FILE (detokenised text)"
        )
    flags = {"--subwords": args.subwords, "--tokenizer": args.tokenizer}
    if args.generated:
        lacking = [flag for flag, value in flags.items() if value is None]
        if lacking:
            # No defaults: a wrong guess would only show as a lower score.
            raise UserError(f"--generated needs {' and '.join(lacking)} as well (none is a choice)")
    else:
        for flag, value in {**flags, "--missing": args.missing}.items():
            if value not in (None, "none", "error"):
                raise UserError(f"{flag} {value} goes with --generated; --hypotheses is text as is")
    inputs = [args.generated or args.hypotheses, args.reference]
    inputs += [args.kytea_model, args.test_sets]
    outputs = {"--json": args.json, "--hypotheses-out": args.hypotheses_out}
    check_outputs(
        {flag: path for flag, path in outputs.items() if path},
        inputs=[path for path in inputs if path],
    )


def read_translations(args: argparse.Namespace, count: int) -> tuple[list[str], int]:
    """Read the translations, as text.

    Returns:
        ``count`` detokenised translations, and how many of them are missing in the file.

    Raises:
        UserError: if the file cannot be read or does not fit the reference.
    """
    if args.hypotheses:
        return read_finished(args.hypotheses, args.reference, count), 0
    return read_generated(
        args.generated,
        count,
        args.subwords,
        args.tokenizer,
        args.target_lang,
        args.missing or "error",
    )


def read_finished(path: Path, reference: Path, count: int) -> list[str]:
    """Read detokenised translations of the ``count`` lines of a reference.

    Raises:
        UserError: if the file cannot be read or has not as many.
    """
    translations = read_lines(path)
    if len(translations) != count:
        raise UserError(
            f"{path} has {len(translations)} lines, the reference {reference} has {count}"
        )
    return translations


def read_generated(
    path: Path, count: int, subwords: str, tokenizer: str, target_lang: str, missing: str = "error"
) -> tuple[list[str], int]:
    """Read the output of fairseq-generate, as text.

    Args:
        path: the output.
        count: sentences of the reference.
        subwords: what its tokens are; see :func:`.generated.join_subwords`.
        tokenizer: how its words are tokenised.
        target_lang: their language.
        missing: ``error`` or ``empty``; see :func:`.generated.in_order`.

    Returns:
        ``count`` detokenised translations, and how many of them are missing in the file.

    Raises:
        UserError: if the file cannot be read or does not fit the reference.
    """
    tokens, lacking = in_order(read_hypotheses(path), count, missing)
    warn_of_wrong_flags(tokens, subwords, tokenizer)
    words = [join_subwords(line, subwords) for line in tokens]
    return detokenise(words, tokenizer, target_lang), lacking


def warn_of_wrong_flags(lines: list[str], subwords: str, tokenizer: str) -> None:
    """Say so if tokens look otherwise than the flags claim; it would only lower the score."""
    text = "\n".join(lines)
    marks = {"subword-nmt": "@@ " in text, "sentencepiece": "\u2581" in text}
    for kind, seen in marks.items():
        if seen and kind != subwords:
            _warn(f"hypotheses look like --subwords {kind}, not {subwords}")
    if subwords == "sentencepiece" and text.strip() and not marks["sentencepiece"]:
        _warn("hypotheses have no \u2581: are their subwords joined already (--subwords none)?")
    if tokenizer == "none" and ("&apos;" in text or "&quot;" in text or " @-@ " in text):
        _warn("hypotheses look like --tokenizer moses, not none")


def _warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)


def detokenise(lines: list[str], tokenizer: str, lang: str) -> list[str]:
    """Make text of tokens."""
    from ..text.tokenisers import detokeniser  # here, since text needs none of it

    return list(map(detokeniser(tokenizer, lang), lines))


def print_scores(scores: dict[str, Score], sentences: int, missing: int) -> None:
    """Print the scores for people."""
    print(f"sentences: {sentences}" + (f" ({missing} missing, scored as empty)" if missing else ""))
    for name, score in scores.items():
        _, _, test_set = name.partition(".")
        print(f"{test_set}: {score.line}" if test_set else score.line)
        print(f"  {score.signature}")


def as_dict(
    args: argparse.Namespace,
    metrics: list[Metric],
    scores: dict[str, Score],
    sentences: int,
    missing: int,
) -> dict:
    """The scores for programs; BLEU from 0 to 100."""
    versions = {}
    for metric in metrics:
        versions.update(metric.versions())
    return {
        "scores": {
            name: {"value": score.value, "signature": score.signature}
            for name, score in scores.items()
        },
        "sentences": sentences,
        "missing": missing,
        "target_lang": args.target_lang,
        "versions": versions,
        "translations": str(args.generated or args.hypotheses),
        "reference": str(args.reference),
    }
