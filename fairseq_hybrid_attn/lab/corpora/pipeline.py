"""From a recipe to a prepared corpus, stage by stage.

work/read      the archives' text, one sentence a line          removed when no longer
work/tokens    the same, tokenised                              needed
raw            text of the selected pairs, untouched except for replace-in-test
tokenised      the same, tokenised
subwords       the same in subwords, and the models
bin            dictionaries and binary files of fairseq-preprocess
gold           hand-aligned sentences, if the recipe has them
aligned        bin with word alignments of the training text, if requested
manifest.json  counts, checksums, versions, recipe
stages         what each stage depends on and made
"""

from __future__ import annotations

import contextlib
import functools
import platform
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ...errors import UserError
from ..files.checksums import digest, sha256
from ..files.json_files import write_json
from ..files.lock import locked
from ..files.processes import default_workers
from ..files.stages import Stage, Stages
from ..files.text import count_lines, lines, write_lines
from . import manifest
from .binarise import align_training_text, binarise
from .cleaning import select
from .definition import PARTS, Corpus
from .download import fetch, identify, place
from .gold import prepare_gold
from .manifest import Manifest
from .readers import READERS
from .readers import read as read_archives
from .subwords import split_into_subwords
from .test_sets import TEST_SETS
from .tokenisers import KINDS, kytea_model, tokenise_file, tokeniser
from .training_links import load_eflomal

#: Part of every key; raise it when the same recipe gives another result.
FORMAT = 2

_FAIRSEQ = ("ve-fairseq", "fairseq-fixed", "fairseq")


def prepare(
    corpus: Corpus,
    output: Path,
    downloads: Path | None = None,
    workers: int | None = None,
    say: Callable[[str], None] | None = None,
    alignments: bool = False,
    inside: Path | None = None,
) -> Manifest:
    """Prepare a corpus in ``output``; make only what is missing or outdated.

    ``downloads`` is the folder of the archives (``output/downloads``), ``workers`` the number of
    processes (one per core).  ``say`` reports progress (prints).  ``alignments``: align the words
    of the training text as well.  Nothing outside of ``inside`` (``output``) is ever deleted.
    """
    say = say or (lambda message: print(f"   {corpus.title}: {message}", flush=True))
    make_folder(output)
    for archive in corpus.archives:
        if archive.path and output.resolve() in archive.path.resolve().parents:
            raise UserError(f"{archive.path} is in {output}, which is overwritten")
    with locked(output / ".lock", say):
        downloads, workers = downloads or output / "downloads", workers or default_workers()
        shop = Stages(output, say, whole=output / manifest.NAME, inside=inside)
        run = _Preparation(corpus, output, downloads, workers, shop, alignments)
        run.shop.clear()
        try:
            result = run.everything()
        finally:
            run.shop.clear()
    for part, counts in result.differences.items():
        warn(f"{corpus.title}: {part} has {counts['found']:,} pairs, not {counts['expected']:,}")
    return result


def make_folder(output: Path) -> None:
    """Make the output folder; refuse one with other files, which might be overwritten."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        names = {path.name for path in output.iterdir() if not path.name.startswith(".partial-")}
    except OSError as error:
        raise UserError(f"{output} cannot be made or read: {error.strerror}") from error
    if names - {".lock", "downloads"} and "stages" not in names:
        raise UserError(
            f"{output} contains files that were not made here; name a new or empty folder"
        )


def warn(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr, flush=True)


class _Preparation:
    """One run, in a folder that no other run works in."""

    def __init__(
        self,
        corpus: Corpus,
        output: Path,
        downloads: Path,
        workers: int,
        shop: Stages,
        align: bool,
    ):
        self.corpus, self.output, self.downloads = corpus, output, downloads
        self.shop, self.say = shop, shop.say
        self.workers, self.alignments = workers, align
        self.places = {item.file: place(item, downloads) for item in corpus.archives}
        # The stages whose folders are wanted.
        optional = {"gold": corpus.gold, "align": align}
        self.results = ["select", "subwords", "binarise"]
        self.results += [name for name, wanted in optional.items() if wanted]

    def everything(self) -> Manifest:
        stages = self.plan()
        for name in self.results:
            self.shop.ensure(stages[name])
            if name == "select":  # nothing else needs these two
                self.shop.discard(stages["tokenise"])
                self.shop.discard(stages["read"])
                with contextlib.suppress(OSError):  # not empty: the next time
                    (self.output / "work").rmdir()
        stamps = {name: self.shop.stamp(name) for name in self.results}
        # Made by an earlier run: of this text, or of another, which must not stay beside this.
        for name in {"align", "gold"} - stamps.keys():
            if name == "gold" or self.shop.is_outdated(stages[name]):
                self.shop.discard(stages[name])
            else:
                stamps[name] = self.shop.stamp(name)
        result = manifest.describe(self.corpus, stamps)
        result.write(self.output)
        return result

    def plan(self) -> dict[str, Stage]:
        """Return the stages; archives that are gone but not needed count as unchanged."""
        stamp = self.shop.stamp("select")
        recorded = stamp["facts"]["archives"] if stamp else {}
        found = {item.file: identify(item, self.downloads) for item in self.corpus.archives}
        known = {file: sha or recorded.get(file) for file, sha in found.items()}
        if None not in known.values():
            stages = self.stages(known)
            reading = [stages[name] for name in ("select", "gold") if name in self.results]
            if None not in found.values() or not any(map(self.shop.is_outdated, reading)):
                return stages
        self.refuse_missing_archives()
        self.refuse_missing_packages()  # before anything large is downloaded
        return self.stages(
            {item.file: fetch(item, self.downloads, self.say) for item in self.corpus.archives}
        )

    def refuse_missing_archives(self) -> None:
        given = [item for item in self.corpus.archives if not item.urls]
        missing = [item for item in given if not self.places[item.file].is_file()]
        if missing:
            title = f"{self.corpus.title} needs files that this program cannot download"
            paths = [str(self.places[item.file]) for item in missing]
            listed = [f"{title}; put them here:", *paths]
            reasons = dict.fromkeys(item.obtain for item in missing)
            advice = [text.strip() for text in (*reasons, self.corpus.licence) if text]
            raise UserError("\n".join(["\n  ".join(listed), *advice]))

    def refuse_missing_packages(self) -> None:
        for language in self.corpus.languages:
            tokeniser(self.corpus.tokenizer[language], language)
        if self.alignments:
            load_eflomal()

    def stages(self, archives: dict[str, str]) -> dict[str, Stage]:
        corpus = self.corpus.treatment
        if self.corpus.reader not in READERS:
            raise UserError(f"reader {self.corpus.reader}: use one of {', '.join(READERS)}")
        stages: dict[str, Stage] = {}
        gold = {file: archives[file] for file in self.corpus.gold.files} if self.corpus.gold else {}
        tested = self.corpus.gold_text in self.corpus.files.values()
        text = {file: checksum for file, checksum in archives.items() if tested or file not in gold}
        key: dict = {"format": FORMAT, "archives": text}

        def add(name, title, folders, make, depends, needs=()) -> None:
            key.update({"before": digest(key), "stage": name, "on": depends})
            needed = [stages[other] for other in needs]
            stages[name] = Stage(name, title, folders, digest(key), make, needed)

        def of_corpus(*keys: str) -> list:
            return [corpus[item] for item in keys]

        workers = f" ({self.workers} worker{'s' * (self.workers > 1)})"
        depends = of_corpus("reader", "options", "source", "target", "replace_in_test")
        depends += of_corpus("gold") if tested else []
        add("read", "reading the text", ["work/read"], self.read, depends)

        kytea = sha256(kytea_model()) if "kytea" in corpus["tokenizer"].values() else None
        depends = [of_corpus("tokenizer", "lowercase"), kytea]
        title = f"tokenising{workers}"
        add("tokenise", title, ["work/tokens"], self.tokenise, depends, ["read"])

        depends = of_corpus("clean", "valid_every", "pairs")
        title, folders = "cleaning and splitting", ["raw", "tokenised"]
        make = functools.partial(self.select, archives)
        add("select", title, folders, make, depends, ["read", "tokenise"])

        depends = [corpus["subwords"], self.corpus.subwords.exact]
        title = f"subwords: learning and applying {self.corpus.subwords.kind}{workers}"
        add("subwords", title, ["subwords"], self.split, depends, ["select"])

        depends, title = self.corpus.subwords.one_dictionary, f"binarising{workers}"
        add("binarise", title, ["bin"], self.binarise, depends, ["subwords"])

        title = "aligning the words of the training text by eflomal"
        add("align", title, ["aligned"], self.align, None, ["subwords", "binarise"])

        depends, title = [corpus.get("gold"), gold], "hand-aligned sentences"
        add("gold", title, ["gold"], self.gold, depends, ["subwords"])
        return stages

    # The stages: each makes its folders in a partial one, and returns facts about them.

    def read(self, partial: Path) -> dict:
        self.refuse_missing_packages()
        folder = partial / "work/read"
        facts = read_archives(self.corpus, self.places, folder)
        table = str.maketrans(self.corpus.replace_in_test)
        for path in folder.glob("test.*") if table else ():
            write_lines(path, [line.translate(table) for line in lines(path)])
        for part in PARTS:
            if part == "valid" and self.corpus.valid_every:
                continue
            paths = [folder / f"{part}.{language}" for language in self.corpus.languages]
            counts = [count_lines(path) if path.exists() else 0 for path in paths]
            if 0 in counts or counts[0] != counts[1]:
                raise UserError(
                    f"{self.corpus.title}: what was read for {part} has {counts[0]:,} "
                    f"{self.corpus.source} and {counts[1]:,} {self.corpus.target} sentences"
                )
        return {"dropped": {}, "tests": [], **facts}

    def tokenise(self, partial: Path) -> dict:
        corpus, folder = self.corpus, partial / "work/tokens"
        for source in sorted((self.output / "work/read").iterdir()):
            language = source.name.partition(".")[2]
            kind = corpus.tokenizer[language]
            tokens = folder / source.name
            tokenise_file(source, tokens, kind, language, self.workers, corpus.lowercase)
        names = {name for kind in corpus.tokenizer.values() for name in KINDS[kind].packages}
        versions = manifest.versions(*sorted(names))
        return {"versions": {"python": platform.python_version(), **versions}}

    def select(self, archives: dict[str, str], partial: Path) -> dict:
        work = self.output / "work"
        facts = select(
            self.corpus, work / "read", work / "tokens", partial / "raw", partial / "tokenised"
        )
        read = self.shop.stamp("read")["facts"]
        for part, reasons in read["dropped"].items():
            if reasons:
                counts = Counter(facts["dropped"].get(part)) + Counter(reasons)
                facts["dropped"][part] = dict(counts)
        if read["tests"]:
            write_json(partial / "raw" / TEST_SETS, dict(read["tests"]))
        versions = self.shop.stamp("tokenise")["facts"]["versions"]
        return {**facts, "tests": read["tests"], "archives": archives, "versions": versions}

    def split(self, partial: Path) -> dict:
        facts = split_into_subwords(
            self.corpus, self.output / "tokenised", partial / "subwords", self.workers, warn
        )
        package = self.corpus.subwords.kind.removesuffix("-bpe").removesuffix("-unigram")
        return {**facts, "versions": manifest.versions(package)}

    def binarise(self, partial: Path) -> dict:
        facts = binarise(self.corpus, self.output / "subwords", partial / "bin", self.workers)
        return {**facts, "versions": manifest.versions(*_FAIRSEQ)}

    def align(self, partial: Path) -> dict:
        align_training_text(self.corpus, self.output, partial / "aligned")
        return {"versions": manifest.versions("eflomal")}

    def gold(self, partial: Path) -> dict:
        subwords, folder = self.output / "subwords", partial / "gold"
        facts = prepare_gold(self.corpus, self.places, subwords, folder, self.workers, warn)
        return {**facts, "versions": {}}
