"""BLEU of a translation against the untouched reference, with sacrebleu's signature.

The translation is the output of fairseq-generate (--generated), whose subwords are joined
and which is detokenised here, or finished text (--hypotheses).

BLEU is sacrebleu's default: of the detokenised text, in sacrebleu's own tokenisation for
the target language.  It is the number to report.

Tokenised BLEU stands beside it for comparison with older papers: the formula of
multi-bleu.perl (no smoothing) over Moses tokens.  Detokenised translation and reference are
both tokenised here by sacremoses, without escaping and without splitting of hyphens, so
that they are tokenised alike whatever the tokenisation of the training data.  It is left
out for the languages that sacrebleu segments by itself: Chinese, Japanese and Korean.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib.metadata import version
from pathlib import Path

from sacrebleu.metrics import BLEU
from sacrebleu.metrics.bleu import BLEUScore

from ..errors import UserError
from .files import atomic_write, check_outputs, read_lines
from .generated import in_order, join_subwords, read_hypotheses

HELP = "BLEU of a translation, detokenised and tokenised"

#: Languages for which sacrebleu's default is not 13a; Moses does not split them into words.
SEGMENTED_BY_SACREBLEU = ("zh", "ja", "ko")

#: A score and the signature that says how it was computed.
Signed = tuple[BLEUScore, str]


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
        "--subwords",
        choices=("none", "subword-nmt", "sentencepiece"),
        help="what the tokens of OUT are; none if fairseq-generate joined them (--post-process)",
    )
    parser.add_argument(
        "--tokenizer", choices=("none", "moses"), help="how the words of OUT are tokenised"
    )
    parser.add_argument(
        "--missing",
        choices=("error", "empty"),
        help="sentences without translation in OUT: an error (default), or empty translations",
    )
    parser.add_argument("--lowercase", action="store_true", help="ignore case")
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
    references = read_lines(args.reference)
    translations, missing = read_translations(args, len(references))

    bleu = detokenised_bleu(translations, references, args.target_lang, args.lowercase)
    tokenised = None
    if args.target_lang not in SEGMENTED_BY_SACREBLEU:
        tokenised = tokenised_bleu(translations, references, args.target_lang, args.lowercase)

    if args.hypotheses_out:
        with atomic_write(args.hypotheses_out) as file:
            file.writelines(f"{line}\n".encode() for line in translations)
    if args.json:
        report = as_dict(args, bleu, tokenised, len(references), missing)
        with atomic_write(args.json) as file:
            file.write(f"{json.dumps(report, indent=2, ensure_ascii=False)}\n".encode())
    print_scores(bleu, tokenised, len(references), missing)


def language(code: str) -> str:
    """The language of a code such as en, JA or zh_CN: two or three letters, lower case.

    Raises:
        UserError: if it is none; sacrebleu would silently take its tokenisation for English.
    """
    match = re.fullmatch(r"([a-z]{2,3})([-_].+)?", code.lower())
    if not match:
        raise UserError(f"--target-lang {code!r}: use a language code such as en, de or zh")
    return match[1]


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
    outputs = {"--json": args.json, "--hypotheses-out": args.hypotheses_out}
    check_outputs(
        {flag: path for flag, path in outputs.items() if path},
        inputs=[args.generated or args.hypotheses, args.reference],
    )


def read_translations(args: argparse.Namespace, count: int) -> tuple[list[str], int]:
    """Read the translations, as text.

    Returns:
        ``count`` detokenised translations, and how many of them are missing in the file.

    Raises:
        UserError: if the file cannot be read or does not fit the reference.
    """
    if args.hypotheses:
        translations = read_lines(args.hypotheses)
        if len(translations) != count:
            raise UserError(
                f"{args.hypotheses} has {len(translations)} lines, the reference "
                f"{args.reference} has {count}"
            )
        return translations, 0
    tokens, missing = in_order(read_hypotheses(args.generated), count, args.missing or "error")
    warn_of_wrong_flags(tokens, args.subwords, args.tokenizer)
    words = [join_subwords(line, args.subwords) for line in tokens]
    if args.tokenizer == "moses":
        words = detokenise(words, args.target_lang)
    return words, missing


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


def detokenise(lines: list[str], lang: str) -> list[str]:
    """Undo Moses tokenisation and its escaping."""
    from sacremoses import MosesDetokenizer  # here, since not every language needs it

    detokenizer = MosesDetokenizer(lang=lang)
    return [detokenizer.detokenize(line.split()) for line in lines]


def detokenised_bleu(
    translations: list[str], references: list[str], lang: str, lowercase: bool
) -> Signed:
    """sacrebleu's BLEU, with its default tokenisation for the language.

    Raises:
        UserError: if that needs a package that is not installed (ja, ko).
    """
    try:
        metric = BLEU(trg_lang=lang, lowercase=lowercase)
    except RuntimeError as error:
        raise UserError(" ".join(str(error).split())) from error
    return _signed(metric, translations, references)


def tokenised_bleu(
    translations: list[str], references: list[str], lang: str, lowercase: bool
) -> Signed:
    """BLEU as multi-bleu.perl computes it, of text that is Moses-tokenised here."""
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang=lang)

    def tokenise(lines: list[str]) -> list[str]:
        return [tokenizer.tokenize(line, escape=False, return_str=True) for line in lines]

    # force: sacrebleu would warn of tokenised text, which is what is asked of it here.
    metric = BLEU(tokenize="none", smooth_method="none", lowercase=lowercase, force=True)
    return _signed(metric, tokenise(translations), tokenise(references))


def _signed(metric: BLEU, translations: list[str], references: list[str]) -> Signed:
    score = metric.corpus_score(translations, [references])
    return score, str(metric.get_signature())


def print_scores(bleu: Signed, tokenised: Signed | None, sentences: int, missing: int) -> None:
    """Print the scores for people."""
    print(f"sentences: {sentences}" + (f" ({missing} missing, scored as empty)" if missing else ""))
    print(bleu[0])
    print(f"  {bleu[1]}")
    if tokenised is None:
        print("no tokenised BLEU: sacrebleu segments this language by itself")
    else:
        print(f"tokenised {tokenised[0]}")
        print(f"  {tokenised[1]}, text Moses-tokenised by sacremoses {version('sacremoses')}")


def as_dict(
    args: argparse.Namespace,
    bleu: Signed,
    tokenised: Signed | None,
    sentences: int,
    missing: int,
) -> dict:
    """The scores for programs; BLEU from 0 to 100, None for what was not computed."""
    return {
        "bleu": bleu[0].score,
        "signature": bleu[1],
        "tokenised_bleu": tokenised and tokenised[0].score,
        "tokenised_signature": tokenised and tokenised[1],
        "sentences": sentences,
        "missing": missing,
        "target_lang": args.target_lang,
        "sacrebleu_version": version("sacrebleu"),
        "sacremoses_version": version("sacremoses") if tokenised else None,
        "translations": str(args.generated or args.hypotheses),
        "reference": str(args.reference),
    }
