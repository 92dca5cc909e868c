"""From a recipe to a prepared corpus, stage by stage.

work/read      the archives' text, one sentence a line          removed when no longer
work/tokens    the same, tokenised                              needed
raw            text of the pairs that are used, untouched
tokenised      the same, tokenised
subwords       the same in subwords, and the models
bin            dictionaries and binary files of fairseq-preprocess
gold           hand-aligned sentences, if the recipe has them
aligned        bin with word alignments of the training text, if they are asked for
manifest.json  counts, checksums, versions, recipe
stages         what each stage depends on and made
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path

from ...errors import UserError
from ..engine.lock import locked
from ..engine.processes import default_workers
from ..engine.stages import Say, Stage, Workshop
from ..files.checksums import digest, sha256
from ..files.text import count_lines, lines, writing
from ..text.test_sets import TEST_SETS
from . import manifest
from .aligned import align_training_text, refuse_missing_aligner
from .binarise import binarise
from .cleaning import select
from .definition import PARTS, Corpus
from .download import fetch, identify, place
from .gold import prepare_gold
from .manifest import Manifest
from .readers import READERS
from .subwords import split_into_subwords

#: Part of every key; to be raised when the same recipe is to give another result.
FORMAT = 1

_FAIRSEQ = ("ve-fairseq", "fairseq-fixed", "fairseq")


def prepare(
    corpus: Corpus,
    output: Path,
    downloads: Path | None = None,
    workers: int | None = None,
    say: Callable[[str], None] | None = None,
    alignments: bool = False,
) -> Manifest:
    """Make a prepared corpus, or what of it is missing or outdated.

    Args:
        corpus: the recipe.
        output: folder of the result; made if need be.
        downloads: folder where the archives are, or go; ``output/downloads`` if None.
        workers: how many processes; as many as there are cores if None.
        say: is told what happens; prints if None.
        alignments: align the words of the training text as well.

    Raises:
        UserError: if something is missing, damaged, or cannot be written.
    """
    say = say or (lambda message: print(f"   {corpus.title}: {message}", flush=True))
    make_folder(output)
    with locked(output / ".lock", say):
        run = _Run(corpus, output, downloads or output / "downloads", workers, say, alignments)
        run.shop.clear()
        try:
            result = run.everything()
        finally:
            run.shop.clear()
    for part, counts in result.differences.items():
        warn(f"{corpus.title}: {part} has {counts['found']:,} pairs, not {counts['expected']:,}")
    return result


def make_folder(output: Path) -> None:
    """Have a folder to work in.

    Raises:
        UserError: if it cannot be made, or has other things in it, which might be overwritten.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in output.iterdir() if not path.name.startswith(".partial-")}
    except OSError as error:
        raise UserError(f"{output} cannot be made or read: {error.strerror}") from error
    if names - {".lock", "downloads"} and "stages" not in names:
        raise UserError(
            f"{output} has files in it that were not made here; name a new or an empty folder"
        )


def warn(message: str) -> None:
    """Tell of something that the user may want to do something about."""
    print(f"warning: {message}", file=sys.stderr, flush=True)


class _Run:
    """One run, in a folder that no other run works in."""

    def __init__(
        self,
        corpus: Corpus,
        output: Path,
        downloads: Path,
        workers: int | None,
        say: Say,
        alignments: bool,
    ):
        self.corpus, self.output, self.downloads, self.say = corpus, output, downloads, say
        self.alignments = alignments
        self.workers = workers or default_workers()
        self.shop = Workshop(output, say, whole=output / manifest.NAME)

    def everything(self) -> Manifest:
        """Do what there is to do."""
        stages = self.plan()
        for name in self.results():
            self.shop.ensure(stages[name])
            if name == "select":  # nothing else needs these two
                self.shop.discard(stages["tokenise"])
                self.shop.discard(stages["read"])
                self.shop.remove_if_empty("work")
        stamps = {name: self.shop.stamp(name) for name in self.results()}
        # Made for another run, and good still.
        if "align" not in stamps and not self.shop.is_outdated(stages["align"]):
            stamps["align"] = self.shop.stamp("align")
        result = manifest.describe(self.corpus, stamps)
        result.write(self.output)
        return result

    def results(self) -> list[str]:
        """The stages whose folders are wanted."""
        names = ["select", "subwords", "binarise"]
        names += ["gold"] if self.corpus.gold else []
        return names + (["align"] if self.alignments else [])

    def plan(self) -> dict[str, Stage]:
        """The stages, with keys that depend on the archives.

        Archives that are gone count as they were, as long as nothing has to be made of them.
        """
        stamp = self.shop.stamp("select")
        recorded = stamp["facts"]["archives"] if stamp else {}
        found = {item.file: identify(item, self.downloads) for item in self.corpus.archives}
        known = {file: sha or recorded.get(file) for file, sha in found.items()}
        if None not in known.values():
            stages = self.stages(known)
            reading = [name for name in ("select", "gold") if name in self.results()]
            if None not in found.values() or not any(
                self.shop.is_outdated(stages[name]) for name in reading
            ):
                return stages
        self.refuse_missing()
        self.refuse_missing_packages()  # before anything large is downloaded
        return self.stages(
            {item.file: fetch(item, self.downloads, self.say) for item in self.corpus.archives}
        )

    def refuse_missing(self) -> None:
        """Tell of all archives that the user has to supply and has not.

        Raises:
            UserError: if there are any.
        """
        missing = [
            item
            for item in self.corpus.archives
            if not item.urls and not place(item, self.downloads).is_file()
        ]
        if missing:
            paths = [str(place(item, self.downloads)) for item in missing]
            reasons = dict.fromkeys(item.obtain for item in missing if item.obtain)
            raise UserError(
                "\n  ".join(
                    [
                        f"{self.corpus.title} needs files that are not downloaded by this "
                        "program; put them here:",
                        *paths,
                    ]
                )
                + "".join(f"\n{text.strip()}" for text in (*reasons, self.corpus.licence) if text)
            )

    def refuse_missing_packages(self) -> None:
        """See to it that there is all that the tokenisers need.

        Raises:
            UserError: if not, with the way to it.
        """
        from ..text.tokenisers import tokeniser

        for language in self.corpus.languages:
            tokeniser(self.corpus.tokenizer[language], language)
        if self.alignments:
            refuse_missing_aligner()

    def stages(self, archives: dict[str, str]) -> dict[str, Stage]:
        """All stages.

        Args:
            archives: the checksum of every archive.
        """
        corpus = self.corpus.treatment
        if self.corpus.reader not in READERS:
            raise UserError(f"reader {self.corpus.reader}: use one of {', '.join(READERS)}")
        stages: dict[str, Stage] = {}
        gold = {file: archives[file] for file in self.corpus.gold.files} if self.corpus.gold else {}
        key = {
            "format": FORMAT,
            "archives": {file: sha for file, sha in archives.items() if file not in gold},
        }

        def add(name, title, folders, make, depends, needs=()):
            key.update({"before": digest(key), "stage": name, "on": depends})
            stages[name] = Stage(name, title, folders, digest(key), make, needs)

        several = f" ({self.workers} worker{'s' * (self.workers > 1)})"
        reading = [corpus[item] for item in ("reader", "options", "source", "target")]
        add("read", "reading the text", ("work/read",), self.read, reading)
        treating = [corpus[item] for item in ("tokenizer", "lowercase", "replace_in_test")]
        add(
            *("tokenise", f"tokenising{several}", ("work/tokens",), self.tokenise),
            [treating, self.kytea_model()],
            [stages["read"]],
        )
        add(
            *("select", "cleaning and splitting", ("raw", "tokenised")),
            lambda folder: self.select(folder, archives),
            [corpus[item] for item in ("clean", "valid_every", "pairs")],
            [stages["read"], stages["tokenise"]],
        )
        kind = f"subwords: learning and applying {self.corpus.subwords.kind}"
        add(
            *("subwords", f"{kind}{several}", ("subwords",), self.split),
            [corpus["subwords"], self.corpus.subwords.exact],
            [stages["select"]],
        )
        add(
            *("binarise", f"binarising{several}", ("bin",), self.binarise),
            self.corpus.subwords.joint,
            [stages["subwords"]],
        )
        add(
            *("align", "aligning the words of the training text by eflomal", ("aligned",)),
            *(self.align, None, [stages["subwords"], stages["binarise"]]),
        )
        add(
            *("gold", "hand-aligned sentences", ("gold",), self.gold),
            [corpus.get("gold"), gold],
            [stages["subwords"]],
        )
        return stages

    def kytea_model(self) -> str | None:
        """The checksum of KyTea's model, if KyTea is used."""
        if "kytea" not in self.corpus.tokenizer.values():
            return None
        from ..text.tokenisers import kytea_model

        return sha256(kytea_model())

    def read(self, partial: Path) -> dict:
        """The stage read: text out of archives."""
        self.refuse_missing_packages()
        for archive in self.corpus.archives:
            fetch(archive, self.downloads, self.say)
        paths = {item.file: place(item, self.downloads) for item in self.corpus.archives}
        folder = partial / "work/read"
        READERS[self.corpus.reader](self.corpus, paths, folder)
        self.check_parts(folder)
        return {
            "dropped": _taken_out(folder / "dropped.json") or {},
            "tests": _taken_out(folder / TEST_SETS) or [],
        }

    def check_parts(self, folder: Path) -> None:
        """See to it that a reader wrote all that it should.

        Raises:
            UserError: if a part is missing, or its sides have not the same number of lines.
        """
        for part in PARTS:
            if part == "valid" and self.corpus.valid_every:
                continue
            counts = []
            for language in self.corpus.languages:
                path = folder / f"{part}.{language}"
                counts.append(count_lines(path) if path.exists() else 0)
            if 0 in counts or counts[0] != counts[1]:
                raise UserError(
                    f"{self.corpus.title}: what was read for {part} has {counts[0]:,} "
                    f"{self.corpus.source} and {counts[1]:,} {self.corpus.target} sentences"
                )

    def tokenise(self, partial: Path) -> dict:
        """The stage tokenise: tokens of all that was read."""
        from ..text.tokenisers import packages, tokenise_file

        corpus, folder = self.corpus, partial / "work/tokens"
        for source in sorted((self.output / "work/read").iterdir()):
            part, _, language = source.name.partition(".")
            kind = corpus.tokenizer[language]
            text = source
            if part == "test" and corpus.replace_in_test:
                text = partial / f"replaced.{source.name}"
                replace_characters(source, text, corpus.replace_in_test)
            tokens = folder / source.name
            tokenise_file(text, tokens, kind, language, self.workers, corpus.lowercase)
        names = {name for kind in corpus.tokenizer.values() for name in packages(kind)}
        versions = manifest.versions(*sorted(names))
        return {"versions": {"python": platform.python_version(), **versions}}

    def select(self, partial: Path, archives: dict[str, str]) -> dict:
        """The stage select: which pairs are used."""
        work = self.output / "work"
        facts = select(
            self.corpus, work / "read", work / "tokens", partial / "raw", partial / "tokenised"
        )
        for part, reasons in self.shop.stamp("read")["facts"]["dropped"].items():
            for reason, count in reasons.items():
                counts = facts["dropped"].setdefault(part, {})
                counts[reason] = counts.get(reason, 0) + count
        versions = self.shop.stamp("tokenise")["facts"]["versions"]
        tests = self.shop.stamp("read")["facts"]["tests"]
        if tests:  # in their order, so not by as_json
            (partial / "raw" / TEST_SETS).write_text(f"{json.dumps(dict(tests), indent=2)}\n")
        return {**facts, "tests": tests, "archives": archives, "versions": versions}

    def split(self, partial: Path) -> dict:
        """The stage subwords."""
        facts = split_into_subwords(
            *(self.corpus, self.output / "tokenised", partial / "subwords", self.workers, warn)
        )
        package = self.corpus.subwords.kind.removesuffix("-bpe").removesuffix("-unigram")
        return {**facts, "versions": manifest.versions(package)}

    def binarise(self, partial: Path) -> dict:
        """The stage binarise."""
        facts = binarise(self.corpus, self.output / "subwords", partial / "bin", self.workers)
        return {**facts, "versions": manifest.versions(*_FAIRSEQ)}

    def align(self, partial: Path) -> dict:
        """The stage align."""
        refuse_missing_aligner()
        facts = align_training_text(self.corpus, self.output, partial / "aligned")
        return {**facts, "versions": manifest.versions("eflomal")}

    def gold(self, partial: Path) -> dict:
        """The stage gold."""
        files = [item for item in self.corpus.archives if item.file in self.corpus.gold.files]
        for archive in files:
            fetch(archive, self.downloads, self.say)
        facts = prepare_gold(
            self.corpus,
            {item.file: place(item, self.downloads) for item in files},
            self.output / "subwords",
            partial / "gold",
            self.workers,
            warn,
        )
        return {**facts, "versions": {}}


def _taken_out(path: Path) -> object:
    """The content of a JSON file that a reader may have left beside the text; removes it."""
    content = json.loads(path.read_bytes()) if path.exists() else None
    path.unlink(missing_ok=True)
    return content


def replace_characters(source: Path, destination: Path, table: dict[str, str]) -> None:
    """Copy a text with some characters replaced."""
    translation = str.maketrans(table)
    with writing(destination) as file:
        file.writelines(f"{line.translate(translation)}\n" for line in lines(source))
