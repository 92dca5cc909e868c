"""Scores of finished translations: metrics, whether two systems differ, BLEU by length.

What names scores is here, for plans and configurations, which compute none.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..corpora.words import has_spaces

#: The metrics of translations.
NAMES = (
    "bleu",
    "chrf",
    "ter",
    "tokenised_bleu",
    "compound_split_bleu",
    "nist_bleu",
    "wat_bleu",
    "word_bleu",
    "given_bleu",
)
#: Scores, also of alignments and trainings, of which less is better.
_LOWER_IS_BETTER = frozenset({"ter", "aer", "loss", "nll_loss", "valid_loss"})


def lower_is_better(score: str) -> bool:
    """Whether less of a score is better, also of one test set: ``ter``, ``ter.news``."""
    return score.partition(".")[0] in _LOWER_IS_BETTER


def digits(score: str) -> int:
    """How many of a score are shown after the point: losses differ little."""
    return 3 if score == "loss" else 2


@dataclass(frozen=True)
class Group:
    """Source sentences of more than ``above`` words and at most ``to``; None: no limit."""

    above: int
    to: int | None

    def __contains__(self, words: int) -> bool:
        return self.above < words and (self.to is None or words <= self.to)

    def __str__(self) -> str:
        return f"({self.above},∞)" if self.to is None else f"({self.above},{self.to}]"


def standard_scores(target_lang: str) -> tuple[str, ...]:
    """The scores that papers report today, of any corpus of a language."""
    return ("bleu", "chrf", "ter") if has_spaces(target_lang) else ("bleu", "chrf")
