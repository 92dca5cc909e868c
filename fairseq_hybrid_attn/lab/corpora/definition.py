"""The definition of a corpus: the recipe ``configs/corpora/<name>.yaml``, read and checked."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from ...errors import UserError
from ..files.checksums import digest
from ..files.yaml_files import config_file, merge, read_mapping

SUBWORD_KINDS = ("subword-nmt", "sentencepiece-bpe", "sentencepiece-unigram")
PARTS = ("train", "valid", "test")
NAMED_TEST = "test."  # before the names of test sets, if there are several: test.news


#: Keys of an archive that take one text or several: what it looks like.
_WORDS = {
    "urls": (r"[a-z]+://\S+", "addresses such as https://…"),
    # Without the quotes, YAML reads some digits as a number.
    "sha256": ("[0-9a-f]{64}", "64 digits of 0-9 and a-f, in quotes; leave it out if unknown"),
}


@dataclass(frozen=True)
class Archive:
    file: str  # its name (or path) within the folder of downloads
    urls: tuple[str, ...] = ()  # tried in order; none if the user must supply it
    sha256: tuple[str, ...] = ()  # if known; of all its forms
    obtain: str | None = None  # where to get a file that has no urls; for the message
    path: Path | None = None  # where it is on disk, if it belongs to the user


@dataclass(frozen=True)
class Clean:
    """Which training pairs are kept, by their tokens; ``valid``: validation pairs as well."""

    max_tokens: int | None = None
    max_ratio: float | None = None
    min_tokens: int = 1
    valid: bool = False


@dataclass(frozen=True)
class Subwords:
    kind: str  # of SUBWORD_KINDS
    size: int  # merges (subword-nmt) or vocabulary (sentencepiece), of each model
    joint: bool = True  # one model for both sides
    joined_dictionary: bool | None = None  # one dictionary for both; None: if the model is joint
    # Learn from at most this many training sentences of each side, spread evenly over the text.
    # From millions, sentencepiece needs hours and tens of gigabytes.
    sample: int | None = None
    exact: bool = False  # refuse a text that is too small for the size

    @property
    def family(self) -> str:
        """The marks of word boundaries, by their name in command-line flags."""
        return "sentencepiece" if self.kind.startswith("sentencepiece") else self.kind

    @property
    def one_dictionary(self) -> bool:
        """Whether both sides have one dictionary."""
        return self.joint if self.joined_dictionary is None else self.joined_dictionary


@dataclass(frozen=True)
class GoldSet:
    """Hand-aligned sentences, against which a model's alignments are scored."""

    text: dict[str, str]  # the file of each language: sentences in words, with spaces between
    links: str  # the file of links, in a format that fairseq-hybrid aer takes
    base: int  # the number of the first word there, 0 or 1
    first: str  # the language whose word comes first in a link
    format: str = "lines"  # one line per sentence; naacl: one line per link
    sure_alone: bool = False  # leave out sentences with links that are only possible
    fewest_links: int = 0  # leave out sentences with fewer links

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.text.values(), self.links)


@dataclass(frozen=True)
class Corpus:
    """A corpus and its treatment; the fields are the keys of the recipe."""

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
    # If the reader supplies no validation set: it gets every n-th of the cleaned training pairs.
    valid_every: int | None = None
    # Replacements of characters in the test text, references included.
    replace_in_test: dict[str, str] = field(default_factory=dict)
    expect: dict[str, int] = field(default_factory=dict)  # sizes that are checked
    about: dict[str, int] = field(default_factory=dict)  # approximate sizes, for plans
    scores: tuple[str, ...] = ("bleu", "tokenised_bleu")
    licence: str | None = None
    notes: str | None = None
    gold: GoldSet | None = None  # its files are listed as archives too
    pairs: int | None = None  # use only n of the cleaned training pairs
    own: bool = False  # the user's text, with the treatment of the recipe

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.target

    @property
    def gold_text(self) -> list[str]:
        """The files of the hand-aligned sentences, source first, as in ``options["files"]``."""
        return [self.gold.text[language] for language in self.languages] if self.gold else []

    @property
    def lacks_text(self) -> bool:
        """Whether it is a treatment of the user's text, and that is not named."""
        return self.reader == "own" and "files" not in self.options

    @property
    def has_named_tests(self) -> bool:
        """Whether its test text consists of named sets (see ``text/test_sets.py``)."""
        return any(part.startswith(NAMED_TEST) for part in self.options.get("files", ()))

    @property
    def title(self) -> str:
        if self.own:
            return "own text" if self.name == "own" else f"{self.name} on own text"
        return self.name

    def resolved(self) -> dict:
        """Return the recipe as plain data, without local paths."""
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
        if self.subwords.joined_dictionary is None:
            del recipe["subwords"]["joined_dictionary"]
        return recipe

    @property
    def digest(self) -> str:
        """A digest of everything in the recipe that the result depends on."""
        return digest(self.treatment)


def is_test(part: str) -> bool:
    return part == PARTS[2] or part.startswith(NAMED_TEST)


def load_corpus(name: str, configs: Path) -> Corpus:
    """Read a recipe, by the name of a file in ``configs/corpora`` or by its path.

    Its ``extends`` names another recipe, which supplies missing keys and must not extend a third.
    """
    path = _path(name, configs)
    data = read_mapping(path)
    if isinstance(data.get("extends"), str):
        data = merge(read_mapping(_path(data.pop("extends"), configs)), data)
    return parse(data, path)


def _path(name: str, configs: Path) -> Path:
    folder = configs / "corpora"
    named = name.endswith((".yaml", ".yml"))
    path = Path(name) if named else config_file(f"corpora/{name}.yaml", configs)
    if not named and not path.is_file():
        known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml"))) or "none"
        raise UserError(
            f"there is no recipe {name!r} in {folder}; there are: {known} (or name a .yaml file)"
        )
    return path


def parse(data: object, path: Path) -> Corpus:
    """Make a corpus from a recipe's data, or list everything that is wrong with it."""
    if not isinstance(data, dict):
        raise UserError(f"{path}: a recipe is a mapping of keys to values")
    data = {str(key).replace("-", "_"): value for key, value in data.items()}
    known = {item.name for item in fields(Corpus)} - {"name", "pairs", "own"}
    listed = ", ".join(sorted(known))
    faults = [f"{key}: no such key; there are {listed}" for key in sorted(data.keys() - known)]
    data = {key: value for key, value in data.items() if key in known and value is not None}
    for key in ("source", "target", "reader"):
        if not isinstance(data.setdefault(key, None), str):
            faults.append(f"{key}: give a word; YAML reads a bare no, on or yes as true or false")
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
    """Make a ``kind`` from a mapping, or add what is wrong to ``faults``."""
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
    for key in values.keys() & _WORDS.keys():
        form, what = _WORDS[key]
        given = values[key] if isinstance(values[key], list) else [values[key]]
        wrong = [one for one in given if not isinstance(one, str) or not re.fullmatch(form, one)]
        if wrong or not given:
            faults.append(f"{place}, {key}: {(wrong or [given])[0]!r}; use {what}")
            return None
        values[key] = tuple(given)
    try:
        return kind(**values)
    except TypeError as error:  # a key without default is missing
        faults.append(f"{place}: {str(error).split('() ')[-1]}")
        return None


def check(data: dict) -> list[str]:
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
    sample = subwords.sample
    if sample is not None and (not isinstance(sample, int) or sample < 1):
        faults.append(f"subwords, sample: {sample}; use a number above 0")
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
    """Return what is wrong with a gold set, whose files must be among the archives."""
    from ..alignment.link_files import GOLD_FORMATS

    faults = []
    if not isinstance(gold.text, dict) or set(gold.text) != set(languages):
        faults.append(f"gold, text: give a file for {' and '.join(languages)}")
    elif stray := [file for file in gold.files if file not in files]:
        faults.append(f"gold: {', '.join(map(str, stray))}: name the file under archives as well")
    if isinstance(gold.base, bool) or gold.base not in (0, 1):
        faults.append(f"gold, base: {gold.base}; use the number of the first word, 0 or 1")
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
    corpus: Corpus, pairs: int | None = None, subword_size: int | None = None, exact: bool = False
) -> Corpus:
    """Return the corpus with n training ``pairs``, or another (``exact``) subword size."""
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
