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
from ..files.deleting import delete
from ..files.text import lines, pairs, write_lines
from .definition import Corpus, GoldSet
from .link_files import Gold, GoldSentence, read_gold
from .subwords import model_name, split
from .tokenisers import spelling
from .words import split_words, words_of


def prepare_gold(
    corpus: Corpus,
    archives: dict[str, Path],
    subwords: Path,
    output: Path,
    workers: int,
    warn: Callable[[str], None],
) -> dict:
    """Write the files of a corpus' gold set, with the models in the folder ``subwords``."""
    gold = _gold_of(corpus)
    sentences, links_read = _read(corpus, archives)
    for remark in links_read.remarks:
        warn(f"{corpus.title}: {remark}")
    both = zip(sentences, links_read.sentences, strict=True)
    kept = [(words, links) for words, links in both if _is_wanted(gold, links)]
    if not kept:
        raise UserError(f"{archives[gold.links]}: no sentence is left to score")
    write_lines(output / "links", (_line_of(links) for _, links in kept))
    for side, language in enumerate(corpus.languages):
        _write_side(corpus, language, [words[side] for words, _ in kept], subwords, output, workers)
    return {
        "gold": {
            "sentences": len(kept),
            "sentences_left_out": len(sentences) - len(kept),
            "sure": sum(len(links.sure) for _, links in kept),
            "possible": sum(len(links.possible) for _, links in kept),
            "links_left_out": links_read.left_out,
            "remarks": links_read.remarks,
        }
    }


def scored_rows(corpus: Corpus, archives: dict[str, Path]) -> list[bool]:
    """Return for each hand-aligned sentence whether the recipe scores it."""
    gold = _gold_of(corpus)
    return [_is_wanted(gold, links) for links in _read(corpus, archives)[1].sentences]


def _gold_of(corpus: Corpus) -> GoldSet:
    if corpus.gold is None:
        raise UserError(f"{corpus.name} has no hand-aligned sentences")
    return corpus.gold


def _read(corpus: Corpus, archives: dict[str, Path]) -> tuple[list, Gold]:
    gold, text = _gold_of(corpus), [archives[file] for file in corpus.gold_text]
    sentences = [tuple(map(split_words, pair)) for pair in pairs(*text)]
    found = read_gold(
        archives[gold.links],
        base=gold.base,
        reverse=gold.first != corpus.source,
        lengths=[(len(source), len(target)) for source, target in sentences],
    )
    return sentences, found


def _is_wanted(gold: GoldSet, links: GoldSentence) -> bool:
    unsure = gold.sure_alone and links.possible - links.sure
    return not unsure and len(links.possible) >= gold.fewest_links


def _line_of(links: GoldSentence) -> str:
    return " ".join(
        f"{i}{'-' if (i, j) in links.sure else 'p'}{j}" for i, j in sorted(links.possible)
    )


def _write_side(
    corpus: Corpus, language: str, sentences: list, subwords: Path, output: Path, workers: int
) -> None:
    spell = spelling(corpus.tokenizer[language], language)
    spelt = (" ".join(map(spell, sentence)) for sentence in sentences)
    model_text, pieces = output / f"spelt.{language}", output / f"subwords.{language}"
    write_lines(output / f"words.{language}", map(" ".join, sentences))
    write_lines(model_text, (line.lower() if corpus.lowercase else line for line in spelt))
    model = subwords / model_name(corpus.subwords, language)
    split(model_text, pieces, corpus.subwords.kind, model, workers)
    delete(model_text, output)
    for number, (sentence, line) in enumerate(zip(sentences, lines(pieces), strict=True), 1):
        count = len(words_of(split_words(line), corpus.subwords.family))
        if count != len(sentence):
            raise UserError(
                f"{corpus.title}, {_gold_of(corpus).text[language]}: sentence {number} of those "
                f"that are scored has {len(sentence)} words, but {count} in subwords; is a "
                "word of it white space to the subword model?"
            )
