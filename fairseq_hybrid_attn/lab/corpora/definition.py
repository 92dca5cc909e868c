"""What a corpus is: the recipe in ``configs/corpora/<name>.yaml``, read and checked."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from ...errors import UserError
from ..files.checksums import digest
from ..files.yaml_files import read_mapping

SUBWORD_KINDS = ("subword-nmt", "sentencepiece-bpe", "sentencepiece-unigram")
PARTS = ("train", "valid", "test")

#: Before the names of test sets, where there are several: ``test.news``.
NAMED_TEST = "test."


@dataclass(frozen=True)
class Archive:
    """A file that the corpus is made of.

    Args:
        file: its name (or path) within the folder of downloads.
        urls: places to get it from, tried in order; none if the user has to supply it.
        sha256: its checksum, where that is known.
        obtain: where to get a file that has no ``urls``; for the message.
        path: where it is on disk, if it belongs to the user.
    """

    file: str
    urls: tuple[str, ...] = ()
    sha256: str | None = None
    obtain: str | None = None
    path: Path | None = None


@dataclass(frozen=True)
class Clean:
    """Which training pairs are kept, by their tokens; ``valid``: validation pairs as well."""

    max_tokens: int | None = None
    max_ratio: float | None = None
    min_tokens: int = 1
    valid: bool = False


@dataclass(frozen=True)
class Subwords:
    """How words are split.

    Args:
        kind: of SUBWORD_KINDS.
        size: merges (subword-nmt) or vocabulary (sentencepiece), of each model.
        joint: one model and one dictionary for both sides.
        sample: learn from at most so many training sentences of each side, taken evenly from all
            of the text; from millions, sentencepiece needs hours and tens of gigabytes.
        exact: refuse a text with which ``size`` cannot be reached, rather than take less.
    """

    kind: str
    size: int
    joint: bool = True
    sample: int | None = None
    exact: bool = False

    @property
    def family(self) -> str:
        """The marks that show where words end, by the name that commands give them."""
        return "sentencepiece" if self.kind.startswith("sentencepiece") else self.kind


@dataclass(frozen=True)
class GoldSet:
    """Hand-aligned sentences, to score a model's alignments by.

    Args:
        text: the file of each language: the sentences in words, with spaces between.
        links: the file of links, in a form that ``fairseq-hybrid aer`` takes.
        base: the number of the first word there, 0 or 1.
        first: the language whose word comes first in a link.
        format: ``lines``, a line for each sentence, or ``naacl``, a line for each link.
        sure_alone: leave out sentences with links that are only possible.
        fewest_links: leave out sentences with fewer links.
    """

    text: dict[str, str]
    links: str
    base: int
    first: str
    format: str = "lines"
    sure_alone: bool = False
    fewest_links: int = 0

    @property
    def files(self) -> tuple[str, ...]:
        """Its files, by their names as archives."""
        return (*self.text.values(), self.links)


@dataclass(frozen=True)
class Corpus:
    """A corpus and what becomes of it; the fields are the keys of the recipe.

    Args:
        valid_every: if given, the reader supplies no validation set; every n-th of the
            cleaned training pairs is in it instead.
        expect: sizes that are checked; ``about``: those that are roughly known, for plans.
        replace_in_test: characters to replace in the test text that the model sees.
        gold: hand-aligned sentences that come with it; its files are archives too.
        pairs: if given, use so many of the cleaned training pairs.
        own: this is the user's text, with the treatment of the recipe ``name``.
    """

    name: str
    source: str
    target: str
    reader: str
    tokenizer: dict[str, str]
    subwords: Subwords
    archives: tuple[Archive, ...] = ()
    options: dict = field(default_factory=dict)
    clean: Clean = field(default_factory=Clean)
    lowercase: bool = False
    valid_every: int | None = None
    replace_in_test: dict[str, str] = field(default_factory=dict)
    expect: dict[str, int] = field(default_factory=dict)
    about: dict[str, int] = field(default_factory=dict)
    scores: tuple[str, ...] = ("bleu", "tokenised_bleu")
    licence: str | None = None
    notes: str | None = None
    gold: GoldSet | None = None
    pairs: int | None = None
    own: bool = False

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target language."""
        return self.source, self.target

    @property
    def has_named_tests(self) -> bool:
        """Whether its test text is made of sets with names (see ``text/test_sets.py``)."""
        return any(part.startswith(NAMED_TEST) for part in self.options.get("files", ()))

    @property
    def title(self) -> str:
        """The corpus in a few words, for messages."""
        if self.own:
            return "own text" if self.name == "own" else f"{self.name} on own text"
        return self.name

    def resolved(self) -> dict:
        """Return the recipe as plain data, without places on this machine."""
        recipe = asdict(self)
        for archive in recipe["archives"]:
            del archive["path"]
        return json.loads(json.dumps(recipe))

    @property
    def treatment(self) -> dict:
        """The part of the recipe that the result depends on."""
        recipe = self.resolved()
        for key in ("expect", "about", "scores", "licence", "notes"):
            del recipe[key]
        recipe["archives"] = [archive["file"] for archive in recipe["archives"]]
        del recipe["subwords"]["exact"]
        if self.gold is None:  # then nothing depends on it
            del recipe["gold"]
        return recipe

    @property
    def digest(self) -> str:
        """Changes with everything in the recipe that the result depends on."""
        return digest(self.treatment)


def is_test(part: str) -> bool:
    """Return whether a part is a test set."""
    return part == PARTS[2] or part.startswith(NAMED_TEST)


def load_corpus(name: str, configs: Path) -> Corpus:
    """Read a recipe, by the name of a file in ``configs/corpora`` or by its path."""
    path = recipe_path(name, configs)
    return parse(read_mapping(path), path)


def recipe_path(name: str, configs: Path) -> Path:
    """Return the file of a recipe."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    path = configs / "corpora" / f"{name}.yaml"
    if path.is_file():
        return path
    known = sorted(path.stem for path in (configs / "corpora").glob("*.yaml"))
    raise UserError(
        f"there is no recipe {name!r} in {configs / 'corpora'}; there are: "
        f"{', '.join(known) or 'none'} (or name a .yaml file)"
    )


def parse(data: object, path: Path) -> Corpus:
    """Make a corpus of a recipe's data, or list everything that is wrong with it."""
    if not isinstance(data, dict):
        raise UserError(f"{path}: a recipe is a mapping of keys to values")
    data = {str(key).replace("-", "_"): value for key, value in data.items()}
    faults: list[str] = []
    known = {item.name for item in fields(Corpus)} - {"name", "pairs", "own"}
    for key in sorted(data.keys() - known):
        faults.append(f"{key}: no such key; there are {', '.join(sorted(known))}")
    data = {key: value for key, value in data.items() if key in known and value is not None}
    for key in ("source", "target", "reader"):
        if not isinstance(data.setdefault(key, None), str):
            faults.append(f"{key}: give a word; YAML takes a bare no, on or yes for true or false")
    data["archives"] = tuple(
        _build(Archive, item, f"archives, no. {number}", faults)
        for number, item in enumerate(data.get("archives", []), 1)
    )
    data["clean"] = _build(Clean, data.get("clean", {}), "clean", faults)
    data["subwords"] = _build(Subwords, data.get("subwords", {}), "subwords", faults)
    if "gold" in data:
        data["gold"] = _build(GoldSet, data["gold"], "gold", faults)
    data["scores"] = tuple(data.get("scores", ("bleu", "tokenised_bleu")))
    data.setdefault("tokenizer", {})
    if not faults:
        faults += check(data)
    if faults:
        raise UserError("\n  ".join([f"{path} is not a valid recipe:", *faults]))
    return Corpus(name=path.stem, **data)


def _build(kind: type, data: object, place: str, faults: list[str]):
    """Make a ``kind`` of a mapping, or add what is wrong to ``faults``."""
    if not isinstance(data, dict):
        faults.append(f"{place}: use a mapping")
        return None
    values = {str(key).replace("-", "_"): value for key, value in data.items()}
    values.pop("path", None)
    names = {item.name for item in fields(kind)}
    unknown = sorted(values.keys() - names)
    if unknown:
        faults.append(f"{place}: no such key: {', '.join(unknown)}")
        return None
    if "urls" in values:
        values["urls"] = tuple(values["urls"])
    try:
        return kind(**values)
    except TypeError as error:  # a key without default is missing
        faults.append(f"{place}: {str(error).split('() ')[-1]}")
        return None


def check(data: dict) -> list[str]:
    """Return what is wrong with the values of a recipe that has all its keys."""
    from ..text.tokenisers import KINDS

    faults = []
    for language in (data["source"], data["target"]):
        kind = data["tokenizer"].get(language)
        if kind not in KINDS:
            faults.append(f"tokenizer, {language}: {kind}; use {', '.join(KINDS)}")
    if data["source"] == data["target"]:
        faults.append("source and target are the same language")
    subwords = data["subwords"]
    if subwords.kind not in SUBWORD_KINDS:
        faults.append(f"subwords, kind: {subwords.kind}; use {', '.join(SUBWORD_KINDS)}")
    if not isinstance(subwords.size, int) or subwords.size < 1:
        faults.append(f"subwords, size: {subwords.size}; use a number above 0")
    if subwords.sample is not None and not (
        isinstance(subwords.sample, int) and subwords.sample > 0
    ):
        faults.append(f"subwords, sample: {subwords.sample}; use a number above 0")
    if data.get("gold"):
        files = {archive.file for archive in data["archives"]}
        faults += check_gold(data["gold"], (data["source"], data["target"]), files)
    every = data.get("valid_every")
    if every is not None and (not isinstance(every, int) or every < 2):
        faults.append(f"valid-every: {every}; use a number above 1")
    if any(len(str(old)) != 1 for old in data.get("replace_in_test", {})):
        faults.append("replace-in-test: its keys are single characters")
    wrong = sorted(data.get("expect", {}).keys() - set(PARTS))
    if wrong:
        faults.append(f"expect: {', '.join(wrong)}; its keys are train, valid, test")
    return faults


def check_gold(gold: GoldSet, languages: tuple[str, str], files: set[str]) -> list[str]:
    """Return what is wrong with a gold set, whose files are to be among the archives."""
    from ..alignment.link_files import GOLD_FORMATS

    faults = []
    if not isinstance(gold.text, dict) or set(gold.text) != set(languages):
        faults.append(f"gold, text: give a file for {' and '.join(languages)}")
    elif stray := [file for file in gold.files if file not in files]:
        faults.append(f"gold: {', '.join(map(str, stray))}: name the file under archives as well")
    if isinstance(gold.base, bool) or gold.base not in (0, 1):
        faults.append(f"gold, base: {gold.base}; the number of the first word, 0 or 1")
    if gold.first not in languages:
        faults.append(f"gold, first: {gold.first}; use the language that comes first in a link")
    if gold.format not in GOLD_FORMATS:
        faults.append(f"gold, format: {gold.format}; use {' or '.join(GOLD_FORMATS)}")
    if not isinstance(gold.sure_alone, bool):
        faults.append(f"gold, sure-alone: {gold.sure_alone}; use true or false")
    fewest = gold.fewest_links
    if isinstance(fewest, bool) or not isinstance(fewest, int) or fewest < 0:
        faults.append(f"gold, fewest-links: {fewest}; use a number from 0")
    return faults


def with_options(
    corpus: Corpus,
    pairs: int | None = None,
    subword_size: int | None = None,
    exact: bool = False,
) -> Corpus:
    """Return the corpus with so many training pairs, or another size of subwords.

    ``exact``: refuse a text that does not have so many subwords.
    """
    for flag, value in (("--pairs", pairs), ("--subword-size", subword_size)):
        if value is not None and value < 1:
            raise UserError(f"{flag} {value}: use 1 or more")
    if pairs is not None:
        expect = {part: count for part, count in corpus.expect.items() if part != "train"}
        corpus = replace(corpus, pairs=pairs, expect=expect)
    if subword_size is not None:
        subwords = replace(corpus.subwords, size=subword_size, exact=exact)
        corpus = replace(corpus, subwords=subwords)
    return corpus
