"""The output of fairseq-generate: the translations in it, in the order of the corpus."""

from __future__ import annotations

import re
from pathlib import Path

from ...errors import UserError
from ..files.text import read_lines

_SHOWN = 5  # sentence ids that an error message names

# Hypothesis: H-id, score, tokens.  An editor may have cut the tab before no tokens.
_HYPOTHESIS = re.compile(r"H-(\d+)\t[^\t]*(?:\t(.*))?", re.DOTALL)
_SOURCE = re.compile(r"S-(\d+)\t.*", re.DOTALL)


def read_hypotheses(path: Path) -> dict[int, str]:
    """Read the best hypothesis (line ``H-``) of each sentence.

    Args:
        path: what fairseq-generate printed; other lines than ``H-`` may be missing.

    Returns:
        tokens, joined by spaces, by the number of the sentence in the corpus (from 0).

    Raises:
        UserError: if there are none, if one is cut short, or if a sentence is translated
            twice.
    """
    hypotheses: dict[int, str] = {}
    current = None
    for number, line in enumerate(read_lines(path), start=1):
        if source := _SOURCE.fullmatch(line):
            current = None
            _check_new(int(source[1]), hypotheses, path, number)
        elif line.startswith("H-"):
            hypothesis = _HYPOTHESIS.fullmatch(line)
            if not hypothesis:
                raise UserError(f"{path}, line {number}: not a complete H- line: {line!r}")
            sentence = int(hypothesis[1])
            if sentence == current:
                continue  # --nbest: the best comes first
            _check_new(sentence, hypotheses, path, number)
            current = sentence
            hypotheses[sentence] = hypothesis[2] or ""
    if not hypotheses:
        raise UserError(
            f"{path} has no H- lines: was fairseq-generate killed, or run with --quiet?"
        )
    return hypotheses


def in_order(hypotheses: dict[int, str], count: int, missing: str) -> tuple[list[str], int]:
    """Put translations in the order of the corpus.

    Args:
        hypotheses: translations by sentence number, from :func:`read_hypotheses`.
        count: how many sentences the corpus has.
        missing: ``error``, or ``empty`` to count a missing translation as an empty one.

    Returns:
        ``count`` translations, and how many of them were missing.

    Raises:
        UserError: if a translation is missing (and shall not be) or is of no sentence.
    """
    beyond = sorted(sentence for sentence in hypotheses if sentence >= count)
    if beyond:
        raise UserError(
            f"the reference has {count} lines, but {len(beyond)} hypotheses are of later "
            f"sentences (counted from 0): {_some(beyond)}; is it the reference of another set?"
        )
    absent = [sentence for sentence in range(count) if sentence not in hypotheses]
    if absent and missing == "error":
        raise UserError(
            f"{len(absent)} of {count} sentences have no hypothesis (counted from 0): "
            f"{_some(absent)}. Was fairseq-generate killed? Did it skip long sentences, or the "
            "last batch, as it does without --required-batch-size-multiple 1? "
            "--missing empty scores them as empty translations"
        )
    return [hypotheses.get(sentence, "") for sentence in range(count)], len(absent)


def join_subwords(tokens: str, kind: str) -> str:
    """Make words of subwords, as fairseq's ``--post-process`` does.

    Args:
        tokens: subwords with spaces between them.
        kind: ``none``, ``subword-nmt`` (a subword that goes on ends in ``@@``) or
            ``sentencepiece`` (a subword that begins a word begins with U+2581).
    """
    if kind == "sentencepiece":
        return tokens.replace(" ", "").replace("\u2581", " ").strip()
    if kind == "subword-nmt":
        return f"{tokens} ".replace("@@ ", "").rstrip()
    return tokens


def _check_new(sentence: int, hypotheses: dict[int, str], path: Path, number: int) -> None:
    if sentence in hypotheses:
        raise UserError(
            f"{path}, line {number}: sentence {sentence} again; does the file hold the output "
            "of several runs?"
        )


def _some(sentences: list[int]) -> str:
    more = ", ..." if len(sentences) > _SHOWN else ""
    return ", ".join(map(str, sentences[:_SHOWN])) + more
