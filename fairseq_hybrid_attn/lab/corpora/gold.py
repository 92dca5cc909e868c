"""Hand-aligned sentences, as the model of a corpus sees them.

Links refer to words by number, so the sentences are not tokenised again.  They are only brought
into the tokeniser's spelling, and split into the corpus' subwords.

words.LANGUAGE      the sentences, word by word as they were aligned
subwords.LANGUAGE   the same in subwords, for the model
links               one line per sentence: i-j for a sure link, ipj for a possible one (from 0)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...errors import UserError
from ..files.text import pairs, write_lines
from .definition import Corpus, GoldSet
from .link_files import Gold, GoldSentence, read_gold
from .subwords import model_name, splitter
from .tokenisers import spelling
from .words import split_words, words_of


def prepare_gold(
    corpus: Corpus,
    archives: dict[str, Path],
    subwords: Path,
    output: Path,
    warn: Callable[[str], None],
) -> dict:
    """Write the files of a corpus' gold set, with the models in the folder ``subwords``."""
    wanted, sentences, gold = _read(corpus, archives)
    for remark in gold.remarks:
        warn(f"{corpus.title}: {remark}")
    both = zip(sentences, gold.sentences, strict=True)
    kept = [(words, links) for words, links in both if _is_scored(wanted, links)]
    if not kept:
        raise UserError(f"{archives[wanted.links]}: no sentence is left to score")
    write_lines(output / "links", (_line_of(links) for _, links in kept))
    for side, language in enumerate(corpus.languages):
        _write_side(corpus, language, [words[side] for words, _ in kept], subwords, output)
    return {
        "gold": {
            "sentences": len(kept),
            "sentences_left_out": len(sentences) - len(kept),
            "sure": sum(len(links.sure) for _, links in kept),
            "possible": sum(len(links.possible) for _, links in kept),
            "links_left_out": gold.left_out,
            "remarks": gold.remarks,
        }
    }


def scored_rows(corpus: Corpus, archives: dict[str, Path]) -> list[bool]:
    """Return for each hand-aligned sentence whether the recipe scores it."""
    wanted, _, gold = _read(corpus, archives)
    return [_is_scored(wanted, links) for links in gold.sentences]


def _read(corpus: Corpus, archives: dict[str, Path]) -> tuple[GoldSet, list, Gold]:
    gold = corpus.gold
    if gold is None:
        raise UserError(f"{corpus.title}: its recipe has no hand-aligned sentences")
    text = [archives[file] for file in corpus.gold_text]
    sentences = [tuple(map(split_words, pair)) for pair in pairs(*text)]
    lengths = [(len(source), len(target)) for source, target in sentences]
    reverse = gold.first != corpus.source
    links = read_gold(archives[gold.links], base=gold.base, reverse=reverse, lengths=lengths)
    return gold, sentences, links


def _is_scored(gold: GoldSet, links: GoldSentence) -> bool:
    unsure = gold.sure_alone and links.possible - links.sure
    return not unsure and len(links.possible) >= gold.fewest_links


def _line_of(links: GoldSentence) -> str:
    return " ".join(
        f"{i}{'-' if (i, j) in links.sure else 'p'}{j}" for i, j in sorted(links.possible)
    )


def _write_side(
    corpus: Corpus, language: str, sentences: list, subwords: Path, output: Path
) -> None:
    spell = spelling(corpus.tokenizer[language], language)
    split = splitter(corpus.subwords.kind, subwords / model_name(corpus.subwords, language))
    pieces = []
    for number, sentence in enumerate(sentences, 1):
        spelt = " ".join(map(spell, sentence))
        pieces.append(split(spelt.lower() if corpus.lowercase else spelt))
        count = len(words_of(split_words(pieces[-1]), corpus.subwords.family))
        if count != len(sentence):
            raise UserError(
                f"{corpus.title}, the hand-aligned sentences in {language}: number {number} of "
                f"those that are scored has {len(sentence)} words, but {count} in subwords; is a "
                "word of it white space to the subword model?"
            )
    write_lines(output / f"words.{language}", map(" ".join, sentences))
    write_lines(output / f"subwords.{language}", pieces)
