"""The definition of a corpus: the recipe ``configs/corpora/<name>.yaml``, read and checked."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from ...errors import UserError
from ..files.checksums import digest
from ..files.json_files import read_json
from ..files.typed import (
    BY_PROGRAM,
    Count,
    Language,
    Name,
    PathWithin,
    at_least,
    fault_of_name,
    matching,
    not_empty,
    read,
)
from ..files.yaml_files import config_file, merge, read_mapping

PARTS = ("train", "valid", "test")
#: Keys of a recipe on which the result does not depend.
_ABOUT = ("expect", "about", "scores", "licence", "notes", "given_by")
NAMED_TEST = "test."  # before the names of test sets, if there are several: test.news


Address = Annotated[str, matching(r"[a-z]+://\S+", "use addresses such as https://…")]
#: Without the quotes, YAML reads some digits as a number.
_DIGITS = "use 64 digits of 0-9 and a-f, in quotes; leave it out if unknown"
Checksum = Annotated[str, matching("[0-9a-f]{64}", _DIGITS)]
Character = Annotated[str, matching("(?s).", "use a single character")]

TEST_SETS = "tests.json"  # in raw/, see :func:`read_test_sets`
TestSets = dict[str, int]  # name of a set -> its number of sentences, in their order
GOLD_BASE = 0  # the number of the first word in prepared hand-made alignments


def fault_of_tokeniser(kind: str) -> str | None:
    from .tokenisers import KINDS

    return None if kind in KINDS else f"use {', '.join(KINDS)}"


@dataclass(frozen=True)
class Archive:
    file: PathWithin  # its name (or path) within the folder of downloads
    # Tried in order; none if the user must supply it.
    urls: Annotated[tuple[Address, ...], not_empty] = ()
    sha256: Annotated[tuple[Checksum, ...], not_empty] = ()  # if known; of all its forms
    obtain: str | None = None  # where to get a file that has no urls; for the message
    # Where it is on disk, if it belongs to the user.
    path: Path | None = field(default=None, metadata=BY_PROGRAM)


@dataclass(frozen=True)
class Clean:
    """Which training pairs are kept, by their tokens; ``valid``: validation pairs as well."""

    max_tokens: Count | None = None
    max_ratio: float | None = None
    min_tokens: int = 1
    valid: bool = False

    @property
    def rules(self) -> list[str]:
        """Which pairs are left out, for display, beside those with an empty side."""
        rules = [f"fewer than {self.min_tokens} tokens"] if self.min_tokens > 1 else []
        rules += [f"more than {self.max_tokens} tokens"] if self.max_tokens else []
        return rules + ([f"a side over {self.max_ratio:g} times as long"] if self.max_ratio else [])


@dataclass(frozen=True)
class Subwords:
    kind: Literal["subword-nmt", "sentencepiece-bpe", "sentencepiece-unigram"]
    size: Count  # merges (subword-nmt) or vocabulary (sentencepiece), of each model
    joint: bool = True  # one model for both sides
    joined_dictionary: bool | None = None  # one dictionary for both; None: if the model is joint
    # Learn from at most this many training sentences of each side, spread evenly over the text.
    # From millions, sentencepiece needs hours and tens of gigabytes.
    sample: Count | None = None

    @property
    def family(self) -> str:
        """The marks of word boundaries, by their name in command-line flags."""
        return "sentencepiece" if self.kind.startswith("sentencepiece") else self.kind

    @property
    def one_dictionary(self) -> bool:
        return self.joint if self.joined_dictionary is None else self.joined_dictionary


@dataclass(frozen=True)
class GoldSet:
    """Hand-aligned sentences, against which a model's alignments are scored."""

    text: dict[str, str]  # the file of each language: sentences in words, with spaces between
    links: str  # the file of links, in a format that fairseq-hybrid aer takes
    base: Literal[0, 1]  # the number of the first word there
    first: str  # the language whose word comes first in a link
    sure_alone: bool = False  # leave out sentences with links that are only possible
    fewest_links: Annotated[int, at_least(0)] = 0  # leave out sentences with fewer links

    @property
    def files(self) -> tuple[str, ...]:
        return (*self.text.values(), self.links)


#: The readers of archives (``readers/``), and the types of the options that each takes.
READERS: dict[str, dict[str, object]] = {
    "iwslt14": {"test": tuple[Name, ...]},
    "wmt14": {},
    "wmt17": {},
    "aspec": {},
    "own": {"files": dict[Name, str | tuple[str, ...]], "valid": Count, "test": Count},
}


@dataclass(frozen=True)
class Corpus:
    """A corpus and its treatment; the fields are the keys of the recipe."""

    name: str
    source: Language
    target: Language
    reader: Literal["iwslt14", "wmt14", "wmt17", "aspec", "own"]
    tokenizer: dict[str, Annotated[str, fault_of_tokeniser]]
    subwords: Subwords
    # The tokeniser that made the tokens of given text, for what a user types.
    given_by: Annotated[str, fault_of_tokeniser] | None = None
    archives: tuple[Archive, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    clean: Clean = field(default_factory=Clean)
    lowercase: bool = False
    # If the reader supplies no validation set: it gets every n-th of the cleaned training pairs.
    valid_every: Annotated[int, at_least(2)] | None = None
    # Replacements of characters in the test text, references included.
    replace_in_test: dict[Character, str] = field(default_factory=dict)
    # Sizes that are checked.
    expect: dict[Literal["train", "valid", "test"], int] = field(default_factory=dict)
    about: dict[str, int] = field(default_factory=dict)  # approximate sizes, for plans
    scores: tuple[str, ...] = ("bleu", "tokenised_bleu")
    licence: str | None = None
    notes: str | None = None
    gold: GoldSet | None = None  # its files are listed as archives too
    # Use only n of the cleaned training pairs.
    pairs: int | None = field(default=None, metadata=BY_PROGRAM)
    # The user's text, with the treatment of the recipe.
    own: bool = field(default=False, metadata=BY_PROGRAM)
    # Dictionaries and models of subwords that a trained model has; they are not learned then.
    like: tuple[Archive, ...] = field(default=(), metadata=BY_PROGRAM)

    @property
    def languages(self) -> tuple[str, str]:
        return self.source, self.target

    @property
    def gold_text(self) -> list[str]:
        """The files of the hand-aligned sentences, source first, as in :attr:`files`."""
        return [self.gold.text[language] for language in self.languages] if self.gold else []

    @property
    def files(self) -> dict[str, list[str]]:
        """``options["files"]`` with the names of both sides, source first."""
        files = {}
        for part, names in self.options.get("files", {}).items():
            if isinstance(names, str):
                names = [names.replace("{language}", language) for language in self.languages]
            endings = [name.removesuffix(".gz").rpartition(".")[2] for name in names]
            if len(names) != 2 or endings == [self.target, self.source]:
                raise UserError(
                    f"the recipe's options: files: {part}: {names}; name the {self.source} and the "
                    f"{self.target} file, in this order"
                )
            files[part] = list(names)
        return files

    @property
    def lacks_text(self) -> bool:
        """Whether it is a treatment of the user's text, and that is not named."""
        return self.reader == "own" and "files" not in self.options

    @property
    def has_named_tests(self) -> bool:
        """Whether its test text consists of named sets."""
        return any(part.startswith(NAMED_TEST) for part in self.options.get("files", ()))

    @property
    def title(self) -> str:
        if self.own:
            return "own text" if self.name == "own" else f"{self.name} on own text"
        return self.name

    def resolved(self) -> dict:
        """Return the recipe as plain data, without local paths."""
        recipe = asdict(self)
        for archive in (*recipe["archives"], *recipe["like"]):
            del archive["path"]
        if not self.like:
            del recipe["like"]
        return json.loads(json.dumps(recipe))

    @property
    def treatment(self) -> dict:
        """The part of the recipe that the result depends on, as plain data.

        What a recipe need not say is left out, so that the digests of published results hold.
        """
        recipe = {key: value for key, value in self.resolved().items() if key not in _ABOUT}
        recipe["archives"] = [archive.file for archive in self.archives]
        for part, key in ((recipe, "gold"), (recipe["subwords"], "joined_dictionary")):
            if part[key] is None:
                del part[key]
        return recipe

    def digests(self, texts: dict[str, str]) -> tuple[str, str]:
        """Digests of what decides the training data, and of what decides the test data.

        ``texts`` are the checksums of the user's files, by name.
        """
        training = self.treatment
        test = {key: training.pop(key, None) for key in ("gold", "replace_in_test")}
        files = training["options"].pop("files", {})
        training["files"] = {part: of for part, of in files.items() if not is_test(part)}
        test["files"] = {part: of for part, of in files.items() if is_test(part)}
        if files:  # all others name them
            del training["archives"]
        read = {name for names in training["files"].values() for name in names}
        first = {name: sha for name, sha in texts.items() if name in read}
        rest = {name: sha for name, sha in texts.items() if name not in read}
        return digest([training, first]), digest([test, rest])

    def digest(self, texts: dict[str, str]) -> str:
        """A digest of all that the result depends on; ``texts`` as for :meth:`digests`."""
        return digest([self.treatment, texts])


def is_test(part: str) -> bool:
    return part == PARTS[2] or part.startswith(NAMED_TEST)


def read_test_sets(path: Path, sentences: int) -> TestSets:
    """Read which test sets, one after the other, a test text consists of."""
    sets = read_json(path)
    if sets is None:
        raise UserError(f"{path} does not exist")
    counts = sets.values() if isinstance(sets, dict) else ()
    if not counts or not all(type(count) is int and count > 0 for count in counts):
        raise UserError(f'{path}: name sets and numbers of sentences, as in {{"news": 1000}}')
    if sum(sets.values()) != sentences:
        raise UserError(
            f"{path}: its sets have {sum(sets.values()):,} sentences, the test text {sentences:,}"
        )
    return sets


def slices(sets: TestSets, sentences: int) -> dict[str, slice]:
    """Return the sentences of each score, by the suffix of its name, such as ".NAME".

    The plain name (``bleu``) is for the set named ``test``, or for all sets together if none has
    that name.  ``sets`` is empty if there is a single set without a name.
    """
    parts = {"": slice(0, sentences)}
    start = 0
    for name, count in sets.items():
        parts["" if name == PARTS[2] else f".{name}"] = slice(start, start + count)
        start += count
    return parts


def load_corpus(name: str, configs: Path) -> Corpus:
    """Read a recipe, by the name of a file in ``configs/corpora`` or by its path.

    Its ``extends`` names another recipe, which supplies missing keys and must not extend a third.
    """
    path = _path(name, configs)
    data = read_mapping(path)
    if isinstance(data.get("extends"), str):
        other = _path(data.pop("extends"), configs)
        base = read_mapping(other)
        if "extends" in base:
            raise UserError(f"{path}: extends: {other} extends a recipe itself; extend that one")
        data = merge(base, data)
    return parse(data, path)


def _path(name: str, configs: Path) -> Path:
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    path = config_file(f"corpora/{name}.yaml", configs)
    if fault_of_name(name) or not path.is_file():
        folder = configs / "corpora"
        known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml"))) or "none"
        raise UserError(
            f"there is no recipe {name!r} in {folder}; there are: {known} (or name a .yaml file)"
        )
    return path


def parse(data: dict, path: Path) -> Corpus:
    """Make a corpus from a recipe's data; refuse what is wrong with it."""
    where = f"{path} is not a valid recipe"
    data = {key: value for key, value in data.items() if value is not None}
    corpus = read(Corpus, {"subwords": {}, "tokenizer": {}, **data}, where, name=path.stem)
    known, options = READERS[corpus.reader], {}
    for option, value in corpus.options.items():
        location = f"{where}: options: {option}"
        if option not in known:
            raise UserError(f"{location}: the reader {corpus.reader} has no such option")
        options[option] = read(known[option], value, location)
    corpus = replace(corpus, options=options)
    if missing := [language for language in corpus.languages if language not in corpus.tokenizer]:
        raise UserError(f"{where}: tokenizer: no {' and '.join(missing)}")
    if corpus.source == corpus.target:
        raise UserError(f"{where}: source and target are the same language")
    if corpus.gold:
        files = {archive.file for archive in corpus.archives}
        check_gold(corpus.gold, corpus.languages, files, where)
    return corpus


def check_gold(gold: GoldSet, languages: tuple[str, str], files: set[str], where: str) -> None:
    """Refuse a gold set whose files are not among these, or of other languages."""
    stray = [file for file in gold.files if file not in files]
    if set(gold.text) != set(languages):
        raise UserError(f"{where}: gold: text: give a file for {' and '.join(languages)}")
    if stray:
        advice = "name the file under archives as well"
        raise UserError(f"{where}: gold: {', '.join(stray)}: {advice}")
    if gold.first not in languages:
        advice = "use the language that comes first in a link"
        raise UserError(f"{where}: gold: first: {gold.first}; {advice}")


def with_options(
    corpus: Corpus, pairs: int | None = None, subword_size: int | None = None
) -> Corpus:
    """Return the corpus with n training ``pairs``, or another subword size."""
    if pairs is not None:
        expect = dict(corpus.expect)
        expect.pop("train", None)
        corpus = replace(corpus, pairs=pairs, expect=expect)
    if subword_size is not None:
        corpus = replace(corpus, subwords=replace(corpus.subwords, size=subword_size))
    return corpus
