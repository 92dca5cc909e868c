r"""Moses' tokenizer.perl (mosesdecoder, commit 34452895f) without -penn and -protected.

Tokens are the script's on every line compared (docs/corpora.md); its double and trailing spaces
are not kept.  sacremoses is a port too, but does not count Chinese and Korean characters as
letters.  It also keeps the last dot of ``Smith & Co.``, which Moses has split off since November
2018 (commit 9fc964da7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import regex

_NUMERIC = "#NUMERIC_ONLY#"
_ESCAPES = {"&": "amp", "|": "#124", "<": "lt", ">": "gt", "'": "apos", '"': "quot"}
_ESCAPES |= {"[": "#91", "]": "#93"}
#: Characters and how they are written in tokens.
ESCAPE = str.maketrans({character: f"&{name};" for character, name in _ESCAPES.items()})

#: By language: characters that words may contain, unless no lower-case letter follows.
_WITHIN = {"fi": ":", "sv": ":", "ca": "·", "tdt": "'"}
_COMMAS = [(r"(\P{N}),", r"\1 , "), (r",(\P{N})", r" , \1"), (r"(\p{N}),$", r"\1 ,")]
_ALONE = [
    (r"(\P{Alpha})'(\P{Alpha})", r"\1 ' \2"),
    (r"(\P{Alpha})'(\p{Alpha})", r"\1 ' \2"),
    (r"(\p{Alpha})'(\P{Alpha})", r"\1 ' \2"),
]
_RIGHT = [
    _ALONE[0],
    (r"([^\p{Alpha}\p{N}])'(\p{Alpha})", r"\1 ' \2"),
    _ALONE[2],
    (r"(\p{Alpha})'(\p{Alpha})", r"\1 '\2"),
    (r"(\p{N})'(s)", r"\1 '\2"),
]
_LEFT = [*_ALONE, (r"(\p{Alpha})'(\p{Alpha})", r"\1' \2")]
#: By language; elsewhere, apostrophes are tokens.
_APOSTROPHES = {"en": _RIGHT, "so": _ALONE, "tdt": _ALONE}
_APOSTROPHES |= dict.fromkeys(("fr", "it", "ga", "ca"), _LEFT)


def moses(
    lang: str, prefixes: Iterable[str], aggressive: bool = False, split_last: bool = True
) -> Callable[[str], str]:
    """Return the function that tokenises a line.

    Args:
        prefixes: lines of Moses' nonbreaking_prefix.LANG: words that keep their dot.
        aggressive: the flag -a: splits at hyphens.
        split_last: always split off the last word's dot, as Moses has done since November 2018.
    """
    numeric = {prefix.removesuffix(_NUMERIC).strip() for prefix in prefixes if _NUMERIC in prefix}
    always = set(prefixes) - numeric
    rules = [(regex.compile(pattern), new) for pattern, new in _rules(lang, aggressive)]

    def keeps_dot(word: str, following: str) -> bool:
        return bool(
            ("." in word and regex.search(r"\p{Alpha}", word))
            or word in always
            or regex.match(r"\p{Lower}", following)
            or (word in numeric and regex.match("[0-9]", following))
        )

    def tokenise(line: str) -> str:
        for pattern, new in rules:
            line = pattern.sub(new, line)
        words = line.rstrip(" ").split(" ")
        last = len(words) - 1
        for index, word in enumerate(words):
            if len(word) > 1 and word.endswith("."):
                following = words[index + 1] if index < last else ""
                if (split_last and index == last) or not keeps_dot(word[:-1], following):
                    words[index] = f"{word[:-1]} ."
        line = regex.sub(r"\.'$", " . '", " ".join(words))
        dots = regex.sub("(?:DOT)+MULTI", lambda run: "." * (len(run[0]) // 3 - 1), line)
        return " ".join(dots.translate(ESCAPE).split())

    return tokenise


def _rules(lang: str, aggressive: bool) -> list:
    """Patterns and replacements, in order, that come before the dots of words."""
    within = _WITHIN.get(lang, "")
    rules: list = [(r"\p{White_Space}+", " "), (r"[\x00-\x1f]", ""), (" +", " "), ("^ | $", "")]
    rules += [(rf"([^\p{{Alnum}}\p{{White_Space}}.'`,\-{within}])", r" \1 ")]
    # Not in Catalan, where the script compares the bytes of its dot with characters.
    if within and lang != "ca":
        rules += [(rf"({within})(?=$|\P{{Ll}})", r" \1 ")]
    if aggressive:
        rules += [(r"(\p{Alnum})-(?=\p{Alnum})", r"\1 @-@ ")]
    # Several dots stay together: until the end they are a word in letters.
    rules += [(r"\.{2,}", lambda run: f" {'DOT' * len(run[0])}MULTI "), *_COMMAS]
    return rules + _APOSTROPHES.get(lang, [("'", " ' ")])
