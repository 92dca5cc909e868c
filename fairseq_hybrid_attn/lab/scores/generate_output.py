"""Translations to score: the output of fairseq-generate as text, or finished text."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from sacrebleu.metrics.chrf import CHRF

from ...errors import UserError, few
from ..corpora.tokenisers import detokeniser
from ..corpora.words import MOSES_WORDS, join_subwords, kinds_of, looks_of, split_words
from ..files.text import read_lines
from .metrics import check_parallel

#: Targets compared with the reference; and the least chrF of two texts of the same sentences,
#: whatever their case, quotes and unknown words.  That of different sentences is at most about 20.
_COMPARED, _ALIKE = 200, 30

# Hypothesis: H-id, score, tokens.  An editor may have cut the tab before no tokens.
_HYPOTHESIS = re.compile(r"H-(\d{1,9})\t[^\t]*(?:\t(.*))?", re.DOTALL)
_TARGET = re.compile(r"T-(\d{1,9})\t(.*)", re.DOTALL)
_SOURCE = re.compile(r"S-(\d{1,9})(?:\t(.*))?", re.DOTALL)


def read_texts(
    files: Sequence[tuple[str, Path]], references: Sequence[list[str]], *, detokenised: bool
) -> dict[str, list[list[str]]]:
    """Finished translations by the names of systems, of each seed; warn of what they are not."""
    systems: dict[str, list[list[str]]] = {}
    for name, path in files:
        lines = read_lines(path)
        check_parallel({str(path): lines}, *references)
        pairs = enumerate(zip(lines, references[0], strict=True), 1)
        empty = [number for number, (ours, theirs) in pairs if theirs.strip() and not ours.strip()]
        if empty:
            warn(f"{path} has {len(empty):,} empty lines: {few(empty)}")
        if detokenised:
            warn_if_not_text(lines, path)
        systems.setdefault(name, []).append(lines)
    return systems


def read_generated(
    path: Path,
    references: Sequence[list[str]],
    subwords: str,
    tokenizer: str,
    target_lang: str,
    missing: str = "error",
) -> tuple[list[str], int]:
    """Read the output of fairseq-generate as detokenised text.

    ``subwords`` (one of ``words.SUBWORDS``) and ``tokenizer`` (one of ``tokenisers.KINDS``) say how
    its words were split and tokenised.  ``missing`` is ``error``, or ``empty`` to count a missing
    translation as an empty one.  Return as many translations as a reference has sentences, in the
    order of the corpus, and how many of them were missing.
    """
    hypotheses, targets = _read_output(path)
    tokens, absent = _in_corpus_order(hypotheses, len(references[0]), missing)
    _warn_of_wrong_flags(tokens, subwords, tokenizer)
    detokenise = detokeniser(tokenizer, target_lang)

    def as_text(line: str) -> str:
        return detokenise(join_subwords(line, subwords))

    _check_targets(path, targets, references, as_text)
    if all(targets.get(sentence) == line for sentence, line in hypotheses.items()):
        warn(
            f"all hypotheses of {path} are the same as its targets: were they forced, by "
            "--score-reference or --prefix-size?"
        )
    return list(map(as_text, tokens)), absent


def _read_output(path: Path) -> tuple[dict[int, str], dict[int, str]]:
    """Tokens of each best hypothesis (line ``H-``) and target (``T-``), by sentence (from 0).

    The hypothesis of an empty source is empty, whatever the model makes of it.
    """
    hypotheses: dict[int, str] = {}
    targets: dict[int, str] = {}
    current, is_empty = None, False
    for number, line in enumerate(read_lines(path), start=1):
        if source := _SOURCE.fullmatch(line):
            current, is_empty = None, not (source[2] or "").strip()
            _check_new(int(source[1]), hypotheses, path, number)
        elif target := _TARGET.fullmatch(line):
            targets[int(target[1])] = target[2].replace("<<unk>>", "<unk>")  # as in hypotheses
        elif line.startswith("H-"):
            hypothesis = _HYPOTHESIS.fullmatch(line)
            if not hypothesis:
                raise UserError(f"{path}, line {number}: not a complete H- line: {line!r}")
            sentence = int(hypothesis[1])
            if sentence == current:
                continue  # --nbest: the best comes first
            _check_new(sentence, hypotheses, path, number)
            current = sentence
            hypotheses[sentence] = "" if is_empty else hypothesis[2] or ""
    if not hypotheses:
        raise UserError(
            f"{path} has no H- lines: was fairseq-generate killed, or run with --quiet?"
        )
    return hypotheses, targets


def _check_targets(
    path: Path,
    targets: dict[int, str],
    references: Sequence[list[str]],
    as_text: Callable[[str], str],
) -> None:
    """Refuse the references of another set of as many sentences, by targets of known words."""
    known = (n for n, line in sorted(targets.items()) if line.strip() and "<unk>" not in line)
    numbers = [n for n in known if n < len(references[0])][:_COMPARED]
    ours = [as_text(targets[n]) for n in numbers]
    theirs = [[lines[n] for n in numbers] for lines in references]
    if numbers and CHRF(lowercase=True).corpus_score(ours, theirs).score < _ALIKE:
        raise UserError(
            f"{path}: the reference is of another set: sentence {numbers[0]} (counted from 0) is "
            f"{ours[0]!r} in a T- line, and {theirs[0][0]!r} there. "
            "Where the targets are made up, give translations alone, by --hypotheses"
        )


def _check_new(sentence: int, hypotheses: dict[int, str], path: Path, number: int) -> None:
    if sentence in hypotheses:
        raise UserError(
            f"{path}, line {number}: sentence {sentence} again; does the file hold the output "
            "of several runs?"
        )


def _in_corpus_order(hypotheses: dict[int, str], count: int, missing: str) -> tuple[list[str], int]:
    beyond = sorted(sentence for sentence in hypotheses if sentence >= count)
    if beyond:
        raise UserError(
            f"the reference has {count} lines, but {len(beyond)} hypotheses are of later "
            f"sentences (counted from 0): {few(beyond)}; is it the reference of another set?"
        )
    absent = [sentence for sentence in range(count) if sentence not in hypotheses]
    if absent and missing == "error":
        raise UserError(
            f"{len(absent)} of {count} sentences have no hypothesis (counted from 0): "
            f"{few(absent)}. Was fairseq-generate killed? Did it skip long sentences, or the "
            "last batch, as it does without --required-batch-size-multiple 1? "
            "--missing empty scores them as empty translations"
        )
    return [hypotheses.get(sentence, "") for sentence in range(count)], len(absent)


def _warn_of_wrong_flags(lines: list[str], subwords: str, tokenizer: str) -> None:
    """Warn if the flags contradict the tokens; otherwise only the score would show it."""
    kinds = kinds_of(map(split_words, lines))
    for kind in kinds:
        if kind != subwords:
            warn(f"hypotheses look like --subwords {kind}, not {subwords}")
    if subwords == "sentencepiece" and any(map(str.strip, lines)) and subwords not in kinds:
        warn("hypotheses have no \u2581: are their subwords joined already?")
    if tokenizer == "none" and MOSES_WORDS in looks_of(lines):
        warn("hypotheses look like --tokenizer moses, not none")


def warn_if_not_text(lines: list[str], path: Path) -> None:
    """Warn of subwords and of Moses' tokens in what should be detokenised text."""
    for look in looks_of(lines):
        warn(f"{path} looks like {look}, not like text")


def warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)
