"""Your text in place of a recipe's archives, with the recipe's treatment."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ...errors import UserError
from ..files.text import lines, pairs
from ..files.typed import read
from ..files.yaml_files import read_mapping
from .definition import PARTS, Archive, Corpus, GoldSet, check_gold, is_test
from .tokenisers import words_split_for_good
from .words import LETTERS_ALONE, base_language, has_spaces

#: By language, if not Moses.
_TOKENIZERS = {"ja": "mecab", "zh": "jieba", **dict.fromkeys(LETTERS_ALONE, "none")}
_WORDS = {"zh": ("word_bleu",)}  # scores of words, if not of Moses'

#: x.de and x.de.gz; not the endings of other files that are as short as a language's.
_NAME = re.compile(
    r"(?P<stem>.+?)\.(?!(txt|csv|tsv|md|log|zip|tar|tgz|gz|xml|sgm|pdf)\b)"
    r"(?P<language>[A-Za-z]{2,3}([-_][A-Za-z0-9]+)?)(\.gz)?"
)

#: The stem of the files of hand-aligned sentences: gold.de, gold.en, gold.align, gold.yaml.
GOLD = "gold"
Texts = dict[str, dict[str, Path]]  # stem (train, valid, test, or a pair's) -> language -> file


def own_corpus(
    corpus: Corpus,
    text: Path | Sequence[Path],
    source_lang: str | None = None,
    target_lang: str | None = None,
) -> Corpus:
    """Return the recipe with the user's text, found by the names of its files.

    ``text`` is a folder that has train, valid and test, or one pair of files that is then split; or
    the two files of a pair.  Beside test or in its place, there may be any number of test.NAME.  By
    default, English is on the same side as in the recipe.
    """
    where = [text] if isinstance(text, Path) else list(text)
    texts = texts_of(where)
    location = " ".join(map(str, where))
    source, target = direction(corpus, common_languages(texts, location), source_lang, target_lang)
    paths = {stem: [files[source], files[target]] for stem, files in texts.items()}
    gold, gold_paths = gold_of(where[0], (source, target))
    first = next(iter(paths.values()))
    tokenizer = {
        language: "none" if corpus.tokenizer[theirs] == "none" else _tokenizer(path, language)
        for path, language, theirs in zip(first, (source, target), corpus.languages, strict=True)
    }
    of_moses = ("tokenised_bleu",) if has_spaces(target) else ()
    # How many sentences to hold out, if the recipe says so.
    options = corpus.options if corpus.reader == "own" else {}
    sizes = {key: value for key, value in options.items() if key in ("valid", "test")}
    return replace(
        corpus,
        own=True,
        source=source,
        target=target,
        reader="own",
        archives=tuple(
            Archive(file=path.name, path=path.absolute())
            for path in (*itertools.chain(*paths.values()), *gold_paths)
        ),
        gold=gold,
        options={
            **sizes,
            "files": {stem: [path.name for path in pair] for stem, pair in paths.items()},
        },
        tokenizer=tokenizer,
        valid_every=None,
        expect={},
        about={},
        scores=("bleu", *_WORDS.get(base_language(target), of_moses)),
        licence=None,
    )


@cache
def _tokenizer(path: Path, language: str) -> str:
    """That of a language; ``none`` if it would split words of this text for good."""
    kind = _TOKENIZERS.get(base_language(language))
    if kind or not words_split_for_good(lines(path), "moses", language):
        return kind or "moses"
    problem = "cannot be put together again; its words are what is between spaces (tokenizer none)"
    print(f"note: {path}: Moses' tokens of {language} {problem}", file=sys.stderr)
    return "none"


def gold_of(folder: Path, languages: tuple[str, str]) -> tuple[GoldSet | None, list[Path]]:
    """Return the hand-aligned sentences of the user's text and their files, if there are any.

    ``gold.yaml`` says about ``gold.align`` what the file itself does not show: ``base`` and
    ``first``, and other keys of :class:`.GoldSet` if need be.
    """
    if not list(folder.glob(f"{GOLD}.*")):
        return None, []
    about = folder / f"{GOLD}.yaml"
    files = [folder / f"{GOLD}.{ending}" for ending in (*languages, "align")]
    missing = [path.name for path in (*files, about) if not path.is_file()]
    if missing:
        raise UserError(
            f"{folder} has hand-aligned sentences, but these files are missing: "
            f"{', '.join(missing)} (docs/alignment.md describes them)"
        )
    text = {language: path.name for language, path in zip(languages, files, strict=False)}
    gold = read(GoldSet, read_mapping(about), str(about), text=text, links=files[2].name)
    check_gold(gold, languages, set(gold.files), str(about))
    return gold, files


def texts_of(where: Sequence[Path]) -> Texts:
    """The files of a text: those of a folder, or two that are named."""
    [folder, *others] = where
    if len(others) == 1 and all(path.is_file() for path in where):
        pair = {}
        for path in where:  # under any name, even train.de and train.en
            name = _NAME.fullmatch(path.name)
            if not name:
                raise UserError(
                    f"{path}: its name must end in its language, such as {path.name}.en"
                )
            pair[name["language"]] = path
        return {"pair": pair}
    if others or not folder.is_dir():
        named = ", ".join(map(str, where))
        raise UserError(f"{named}: give a folder, or the two files of a parallel text")
    texts: Texts = {}
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        name = _NAME.fullmatch(path.name)
        if name and path.name.partition(".")[0] != GOLD:
            other = texts.setdefault(name["stem"], {}).setdefault(name["language"], path)
            if other != path:
                raise UserError(f"{other} and {path}: both are {path.stem}; remove one of them")
    parts = [*PARTS[:2], *(stem for stem in sorted(texts) if is_test(stem))]
    if len(parts) > 2 and all(part in texts for part in parts):
        return {part: texts[part] for part in parts}
    texts = {stem: files for stem, files in texts.items() if len(files) > 1}
    if len(texts) != 1:
        stems = ", ".join(sorted(texts)) or "none"
        raise UserError(
            f"{folder}: needs train, valid and test (train.de, train.en, ...; or several sets, "
            "test.NAME.de, test.NAME.en) or one pair of files that differ only in their "
            f"languages (x.de, x.en); all may be .gz; pairs found: {stems}"
        )
    return texts


def pairs_given(corpus: Corpus) -> str:
    """How many pairs the user's files have, for display; refuse files of unequal length."""
    paths = {item.file: item.path for item in corpus.archives if item.path}
    counts = {
        part: sum(1 for _ in pairs(*(paths[name] for name in names)))
        for part, names in corpus.files.items()
    }
    if len(counts) == 1:
        return f"{sum(counts.values()):,} pairs given, validation and test sets among them"
    return ", ".join(f"{part} {count:,}" for part, count in counts.items()) + " pairs given"


def common_languages(texts: Texts, location: object) -> list[str]:
    languages = {stem: sorted(files) for stem, files in texts.items()}
    first = next(iter(languages.values()))
    if len(first) != 2 or any(other != first for other in languages.values()):
        listed = "; ".join(f"{stem}: {' '.join(names)}" for stem, names in languages.items())
        raise UserError(f"{location}: each text must be in the same two languages; found {listed}")
    return first


def direction(
    corpus: Corpus, languages: Sequence[str], source: str | None, target: str | None
) -> tuple[str, str]:
    for flag, language in (("--source-lang", source), ("--target-lang", target)):
        if language and language not in languages:
            raise UserError(f"{flag} {language}: your text is {' and '.join(languages)}")
    if source and source == target:
        raise UserError(f"--source-lang and --target-lang are both {source}")
    if not (source or target):
        if set(languages) == set(corpus.languages):
            return corpus.languages
        if "en" not in languages or "en" not in corpus.languages:
            raise UserError(
                f"your text is {' and '.join(languages)}; give the direction: --source-lang L"
            )
        source, target = ("en", None) if corpus.source == "en" else (None, "en")
    first, second = languages
    return (first, second) if source == first or target == second else (second, first)
