"""From a recipe to a prepared corpus, stage by stage.

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

import functools
import platform
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from ...errors import UserError
from ..files.checksums import digest, sha256
from ..files.json_files import write_json
from ..files.processes import default_workers, locked
from ..files.stages import Stage, Stages
from ..files.text import count_lines, lines, write_lines
from ..files.writing import check_for_fairseq
from ..files.writing import say as say_line
from . import manifest
from .binarise import align_training_text, binarise
from .cleaning import select
from .definition import PARTS, TEST_SETS, Corpus
from .download import archive_path, fetch, identify
from .gold import prepare_gold
from .manifest import Manifest
from .readers import read as read_archives
from .readers import refuse_unread
from .remarks import remarks
from .subwords import split_into_subwords
from .tokenisers import KINDS, MOSES, kytea_model, tokenise_file, tokeniser, words_split_for_good
from .training_links import load_eflomal


def prepare(
    corpus: Corpus,
    output: Path,
    downloads: Path | None = None,
    workers: int | None = None,
    say: Callable[[str], None] | None = None,
    alignments: bool = False,
) -> Manifest:
    """Prepare a corpus in ``output``; make only what is missing or outdated.

    ``downloads`` is the folder of the archives (``output/downloads``), ``workers`` the number of
    processes (one per core).  ``say`` reports progress (prints).  ``alignments``: align the words
    of the training text as well.
    """
    say = say or (lambda message: say_line(f"   {corpus.title}: {message}"))
    make_folder(output)
    for archive in corpus.archives:
        if archive.path and output.resolve() in archive.path.resolve().parents:
            raise UserError(f"{archive.path} is in {output}, which is overwritten")
    with locked(output / ".lock", say):
        downloads, workers = downloads or output / "downloads", workers or default_workers()
        store = Stages(output, say, output / manifest.NAME)
        run = _Preparation(corpus, output, downloads, workers, store, alignments)
        run.store.clear()
        try:
            result = run.everything()
        finally:
            run.store.clear()
    for part, counts in result.differences.items():
        warn(f"{corpus.title}: {part} has {counts['found']:,} pairs, not {counts['expected']:,}")
    return result


def make_folder(output: Path) -> None:
    """Make the output folder; refuse one with other files, which might be overwritten."""
    check_for_fairseq(output, ":,")
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
        store: Stages,
        align: bool,
    ):
        self.corpus, self.output, self.downloads = corpus, output, downloads
        self.store, self.say = store, store.say
        self.workers, self.alignments = workers, align
        refuse_unread(corpus)
        self.places = {item.file: archive_path(item, downloads) for item in corpus.archives}
        # The stages whose folders are wanted.
        optional = {"gold": corpus.gold, "align": align}
        self.results = ["text", "subwords", "binarise"]
        self.results += [name for name, wanted in optional.items() if wanted]

    def everything(self) -> Manifest:
        stages = self.plan()
        for name in self.results:
            self.store.ensure(stages[name])
        stamps: dict = {name: self.store.stamp(name) for name in self.results}
        # Made by an earlier run: of this text, or of another, which must not stay beside this.
        for name in {"align", "gold"} - stamps.keys():
            if name == "gold" or self.store.is_outdated(stages[name]):
                self.store.discard(stages[name])
            else:
                stamps[name] = self.store.stamp(name)
        result = manifest.describe(self.corpus, stamps)
        result.write(self.output)
        return result

    def plan(self) -> dict[str, Stage]:
        """Return the stages; archives that are gone but not needed count as unchanged."""
        stamp = self.store.stamp("text")
        recorded = stamp["facts"]["archives"] if stamp else {}
        present = {item.file: identify(item, self.downloads) for item in self.corpus.archives}
        known: dict = {file: sha or recorded.get(file) for file, sha in present.items()}
        if None not in known.values():
            stages = self.stages(known)
            reading = [stages[name] for name in ("text", "gold") if name in self.results]
            if None not in present.values() or not any(map(self.store.is_outdated, reading)):
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
            places = [f"  {self.places[item.file]}" for item in missing]
            advice = dict.fromkeys([*(item.obtain for item in missing), self.corpus.licence])
            listed = [
                f"{title}; put them here:",
                *places,
                *(text.strip() for text in advice if text),
            ]
            raise UserError("\n".join(listed))

    def refuse_missing_packages(self) -> None:
        for language in self.corpus.languages:
            tokeniser(self.corpus.tokenizer[language], language)
        if self.alignments:
            load_eflomal()

    def stages(self, archives: dict[str, str]) -> dict[str, Stage]:
        corpus = self.corpus
        gold = {file: archives[file] for file in corpus.gold.files} if corpus.gold else {}
        if corpus.gold_text in corpus.files.values():  # the hand-aligned sentences are a test set
            text, also = archives, corpus.gold
        else:
            text, also = {file: archives[file] for file in archives if file not in gold}, None
        treatment = replace(corpus, gold=also).treatment
        del treatment["subwords"]
        like = treatment.pop("like", None)
        kytea = sha256(kytea_model()) if "kytea" in corpus.tokenizer.values() else None

        def stage(
            name: str, title: str, make: Callable, folders: tuple, depends: object, *needs: Stage
        ) -> Stage:
            return Stage(name, title, folders, digest([corpus.languages, depends]), make, needs)

        make, depends = functools.partial(self.text, archives), [treatment, text, kytea]
        made = stage("text", "reading the text", make, ("raw", "tokenised"), depends)
        does = "applying the model's" if like else "learning and applying"
        title = f"subwords: {does} {corpus.subwords.kind}"
        how: object = [asdict(corpus.subwords), like] if like else asdict(corpus.subwords)
        subwords = stage("subwords", title, self.split, ("subwords",), how, made)
        joined = corpus.subwords.one_dictionary
        binary = stage("binarise", "binarising", self.binarise, ("bin",), joined, subwords)
        title = "aligning the words of the training text by eflomal"
        aligned = stage("align", title, self.align, ("aligned",), None, subwords, binary)
        depends = [corpus.resolved()["gold"], gold]
        marked = stage("gold", "hand-aligned sentences", self.gold, ("gold",), depends, subwords)
        return {stage.name: stage for stage in (made, subwords, binary, aligned, marked)}

    # The stages: each makes its folders in a partial one, and returns facts about them.

    def text(self, archives: dict[str, str], partial: Path) -> dict:
        corpus, text, tokens = self.corpus, partial / "text", partial / "tokens"
        text.mkdir()
        self.refuse_missing_packages()
        facts = {"dropped": {}, "tests": [], **read_archives(corpus, self.places, text)}
        table = str.maketrans(corpus.replace_in_test)
        for path in text.glob("test.*") if table else ():
            write_lines(path, [line.translate(table) for line in lines(path)])
        for part in PARTS:
            if part == "valid" and corpus.valid_every:
                continue
            paths = [text / f"{part}.{language}" for language in corpus.languages]
            counts = [count_lines(path) if path.exists() else 0 for path in paths]
            if 0 in counts or counts[0] != counts[1]:
                raise UserError(
                    f"{corpus.title}: what was read for {part} has {counts[0]:,} "
                    f"{corpus.source} and {counts[1]:,} {corpus.target} sentences"
                )
        self.say("tokenising")
        tokens.mkdir()
        for path in sorted(text.iterdir()):
            language = path.name.partition(".")[2]
            kind = corpus.tokenizer[language]
            tokenise_file(path, tokens / path.name, kind, language, self.workers, corpus.lowercase)
            if kind in MOSES and words_split_for_good(lines(path), kind, language):
                fault = "cannot be put together again, which lowers scores; use the tokenizer none"
                warn(f"{corpus.title}: {path.name}: the tokens of {kind} {fault}")
        self.say("cleaning and splitting")
        selected = select(corpus, text, tokens, partial / "raw", partial / "tokenised")
        for remark in remarks(corpus, partial / "raw"):
            warn(f"{corpus.title}: {remark}")
        dropped = selected["dropped"]
        for part, reasons in facts["dropped"].items():
            if reasons:
                dropped[part] = dict(Counter(dropped.get(part)) + Counter(reasons))
        if facts["tests"]:
            write_json(partial / "raw" / TEST_SETS, dict(facts["tests"]))
        packages = {name for kind in corpus.tokenizer.values() for name in KINDS[kind].packages}
        versions = {"python": platform.python_version(), **manifest.versions(*sorted(packages))}
        return {**selected, "tests": facts["tests"], "archives": archives, "versions": versions}

    def split(self, partial: Path) -> dict:
        facts = split_into_subwords(
            self.corpus, self.output / "tokenised", partial / "subwords", self.workers, warn
        )
        return {**facts, "versions": manifest.versions(self.corpus.subwords.family)}

    def binarise(self, partial: Path) -> dict:
        facts = binarise(self.corpus, self.output / "subwords", partial / "bin", self.workers)
        return {**facts, "versions": manifest.versions("ve-fairseq", "fairseq-fixed", "fairseq")}

    def align(self, partial: Path) -> dict:
        align_training_text(self.corpus, self.output, partial / "aligned")
        return {"versions": manifest.versions("eflomal")}

    def gold(self, partial: Path) -> dict:
        subwords, folder = self.output / "subwords", partial / "gold"
        facts = prepare_gold(self.corpus, self.places, subwords, folder, warn)
        return {**facts, "versions": {}}
