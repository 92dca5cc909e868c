"""Parts of speech of words: from a file, or from a tagger that includes its model.

The tagset is that of the hybrid-gate paper's Fig. 4, the universal one of Petrov et al. 2012 ("A
Universal Part-of-Speech Tagset") with SYM for symbols and punctuation.  Tables here, after those of
that paper, map each tagger's own tagset to it.

==  =======================  =========================================================
de  HanTa (PyPI: hanta)      STTS; Wartena 2019, "A Probabilistic Morphology Model for
                             German Lemmatization"
en  HanTa                    C5, the tagset of the British National Corpus
ja  MeCab and IPAdic (PyPI:  IPA; splits the text into its words itself
    mecab-python3, ipadic)
zh  jieba (PyPI: rjieba)     ICTCLAS; the same
==  =======================  =========================================================
"""

from __future__ import annotations

import html
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tqdm import tqdm

from ...errors import UserError, few
from ..corpora.words import split_words, text_of, words_of
from ..files.text import read_lines

#: In the order of the hybrid-gate paper's Fig. 4.
UNIVERSAL = (
    *("NOUN", "VERB", "ADJ", "ADV", "CONJ", "PRON", "DET", "PRT", "ADP", "NUM", "SYM", "X"),
)

#: From beginnings of a tagger's tags to universal ones; the longest that fits counts.
_Table = dict[str, str]

_STTS: _Table = {
    **{"$": "SYM", "ADJ": "ADJ", "ADV": "ADV", "AP": "ADP", "ART": "DET", "CARD": "NUM"},
    **{"KO": "CONJ", "N": "NOUN", "P": "PRON", "PAV": "ADV", "PROAV": "ADV", "PWAV": "ADV"},
    **{"PTK": "PRT", "V": "VERB"},
}
_C5: _Table = {
    **{"AJ": "ADJ", "AT": "DET", "AV": "ADV", "AVP": "PRT", "CJ": "CONJ", "CRD": "NUM"},
    **{"DPS": "PRON", "DT": "DET", "EX": "PRON", "IN": "ADP", "N": "NOUN", "ORD": "ADJ"},
    **{"PN": "PRON", "POS": "PRT", "PR": "ADP", "PU": "SYM", "TO": "PRT", "V": "VERB"},
    **{"XX": "ADV"},
}
_IPA: _Table = {
    **{"名詞": "NOUN", "名詞,代名詞": "PRON", "名詞,数": "NUM", "名詞,形容動詞語幹": "ADJ"},
    **{"動詞": "VERB", "助動詞": "VERB", "形容詞": "ADJ", "副詞": "ADV", "連体詞": "DET"},
    **{"接続詞": "CONJ", "助詞": "PRT", "助詞,接続助詞": "CONJ", "助詞,並立助詞": "CONJ"},
    **{"助詞,格助詞": "ADP", "助詞,係助詞": "ADP", "助詞,連体化": "ADP", "記号": "SYM"},
    **{"記号,アルファベット": "X"},
}
_ICTCLAS: _Table = {
    **{"n": "NOUN", "t": "NOUN", "s": "NOUN", "j": "NOUN", "f": "PRT", "v": "VERB"},
    **{"vn": "NOUN", "vd": "ADV", "a": "ADJ", "ad": "ADV", "an": "NOUN", "b": "ADJ"},
    **{"z": "ADJ", "d": "ADV", "r": "PRON", "m": "NUM", "q": "NUM", "p": "ADP"},
    **{"c": "CONJ", "u": "PRT", "y": "PRT", "w": "SYM"},
}


def universal(tag: str, table: _Table) -> str:
    fitting = [beginning for beginning in table if tag.startswith(beginning)]
    return table[max(fitting, key=len)] if fitting else "X"


def read_tags(path: Path, words: Sequence[Sequence[str]]) -> list[list[str]]:
    """Read tags: a line for each sentence, a tag for each of its words, spaces between."""
    tags = [split_words(line) for line in read_lines(path)]
    if len(tags) != len(words):
        raise UserError(
            f"--tags {path} has {len(tags):,} lines, but there are {len(words):,} sentences"
        )
    wrong = [
        f"line {number} has {len(line)} tags, its sentence {len(sentence)} words"
        for number, (line, sentence) in enumerate(zip(tags, words, strict=True), start=1)
        if len(line) != len(sentence)
    ]
    if wrong:
        raise UserError(
            f"--tags {path}: {few(wrong, between='; ')}. It needs a tag for each word "
            "of the model's text, as --subwords joins them"
        )
    return tags


def tags_of(
    source: Sequence[list[str]], subwords: str, path: Path | None, language: str | None
) -> list[list[str]] | None:
    """The tags of all words of sentences in ``subwords``, from a file or by a tagger, if any."""
    words = [
        [text_of(word, pieces, subwords) for word in words_of(pieces, subwords)]
        for pieces in source
    ]
    if path:
        return read_tags(path, words)
    if language:
        return tag_all(language, tqdm(words, unit=" tagged", file=sys.stderr, mininterval=1.0))
    return None


Tagger = Callable[[list[str]], list[str]]


def tag_all(language: str, sentences: Iterable[list[str]]) -> list[list[str]]:
    """The universal tags of all words of these sentences; ``language`` is one of ``TAGGERS``."""
    make, extra = TAGGERS[language]
    try:
        tag = make()
    except ImportError as error:
        raise UserError(
            f'--tagger {language}: pip install "fairseq-hybrid-attn[{extra}]" ({error})'
        ) from None
    # Moses' tokeniser writes some characters as HTML entities.
    return [tag([html.unescape(word) for word in words]) if words else [] for words in sentences]


def _hanta(model: str, table: _Table) -> Tagger:
    from HanTa.HanoverTagger import HanoverTagger

    tagger = HanoverTagger(model)
    return lambda words: [universal(tag, table) for _, _, tag in tagger.tag_sent(words)]


def _mecab() -> Tagger:
    import ipadic
    import MeCab

    tagger = MeCab.Tagger(ipadic.MECAB_ARGS)

    def tag(words: list[str]) -> list[str]:
        tokens, node = [], tagger.parseToNode("".join(words))
        while node:  # the first and the last are the sentence's ends, without text
            tokens.append((node.surface, universal(node.feature, _IPA)))
            node = node.next
        return by_characters(words, tokens)

    return tag


def _jieba() -> Tagger:
    import rjieba

    def tag(words: list[str]) -> list[str]:
        tokens = [
            # Its x is punctuation, or what it does not know.
            (text, "SYM" if pos == "x" and not text.isalnum() else universal(pos, _ICTCLAS))
            for text, pos in rjieba.tag("".join(words))
        ]
        return by_characters(words, tokens)

    return tag


def by_characters(words: Sequence[str], tokens: Sequence[tuple[str, str]]) -> list[str]:
    """Tags of words from the ``tokens`` (text, tag) of a tagger that splits the text differently.

    A word gets the tag that most of its characters have; of several, that of the last token, which
    in Japanese and Chinese is the head.  White space does not count.
    """
    tags = [(c, tag) for text, tag in tokens for c in text if not c.isspace()]
    if [c for word in words for c in word if not c.isspace()] != [c for c, _ in tags]:
        raise UserError(
            f"the tagger changed the text of a sentence: {''.join(words)!r}; give tags of its "
            "words with --tags FILE"
        )
    rest = iter(tags)
    tagged = []
    for word in words:
        of_word = [next(rest)[1] for c in word if not c.isspace()]
        counts = Counter(reversed(of_word))  # of equal counts, it has the one that it met first
        tagged.append(counts.most_common(1)[0][0] if of_word else "X")
    return tagged


#: What makes the tagger of each language, and the extra of this package that installs it.
TAGGERS: dict[str, tuple[Callable[[], Tagger], str]] = {
    "de": (lambda: _hanta("morphmodel_ger.pgz", _STTS), "analysis"),
    "en": (lambda: _hanta("morphmodel_en.pgz", _C5), "analysis"),
    "ja": (_mecab, "japanese"),
    "zh": (_jieba, "chinese"),
}
