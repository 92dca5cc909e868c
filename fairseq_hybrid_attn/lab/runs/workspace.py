"""The workspace: the folder in which corpora are prepared and runs are made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path

from ..config.paper_tables import Cell
from ..config.settings import Profile, Settings, load_profile
from ..corpora.definition import Corpus, load_corpus, with_options
from ..corpora.manifest import Manifest, read_manifest
from ..corpora.own import own_corpus
from ..files.checksums import digest, sha256
from ..scores import standard_scores
from .devices import Devices
from .fairseq_commands import PreparedCorpus, RunCommands, RunFolder


@dataclass(frozen=True)
class OwnText:
    """Your text in place of the papers' corpora."""

    folder: Path  # with train, valid and test files, or one pair of files
    source_lang: str | None = None  # None takes the papers' direction; likewise for the target
    target_lang: str | None = None
    like: Path | None = None  # a trained model with whose subwords and dictionaries it is prepared


@dataclass(frozen=True)
class Workspace:
    """A folder of corpora and runs, at a scale, on the papers' text or yours."""

    root: Path
    configs: Path
    profile: Profile
    own: OwnText | None = None
    user_dir: Path | None = None  # a folder of the user's code, if it is needed

    def as_record(self) -> dict:
        """What :meth:`of_record` needs, as plain data."""
        own, file = self.own, self.profile.file
        paths = {"folder": own.folder, "like": own.like} if own else {}
        absolute = {key: str(path.absolute()) for key, path in paths.items() if path}
        texts = own and {**asdict(own), "like": None, **absolute}
        return {
            "configs": str(self.configs),
            "profile": str(file.absolute()) if file else self.profile.name,
            "own": texts,
            "user_dir": self.user_dir and str(self.user_dir),
        }

    @classmethod
    def of_record(cls, root: Path, record: dict) -> Workspace:
        """The workspace at ``root`` with the configurations and the text that a run had.

        The user's code must be loaded already: a record that names code does not run it.
        """
        configs, own = Path(record["configs"]), record["own"]
        paths = {key: Path(own[key]) for key in ("folder", "like") if own and own.get(key)}
        own = own and OwnText(**{**own, **paths})
        user_dir = record.get("user_dir") and Path(record["user_dir"])
        profile = load_profile(str(record["profile"]), configs)
        return cls(root, configs, profile, own, user_dir)

    @property
    def label(self) -> str:
        """The scale and the text's name; ``results.identity`` distinguishes texts of one name."""
        if self.own is None:
            return self.profile.name
        label = f"{self.profile.name}@{self.own.folder.resolve().name}"
        if self.own.like:  # the same text in other subwords
            from ..models.trained import find_model

            files = find_model(self.own.like).treatment.digest
            label += f".like-{files[:6]}"
        return label

    @property
    def is_papers(self) -> bool:
        """Whether levels can be compared with the papers' numbers."""
        return self.profile.is_full and self.own is None

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def recipe(self, settings: Settings) -> Corpus:
        """The recipe of a corpus, applied to your text if there is any."""
        corpus = load_corpus(settings.corpus, self.configs)
        if self.own is None:
            return corpus
        own = self.own
        if own.like:
            from ..models.trained import corpus_like, find_model

            return corpus_like(find_model(own.like), corpus, own.folder)
        corpus = own_corpus(corpus, own.folder, own.source_lang, own.target_lang)
        return with_options(corpus, settings.pairs, settings.subword_size)

    def run(self, cell: Cell, seed: int) -> Run:
        """The run that gives a cell's number; raises UserError if its row has a fault."""
        return Run(self, cell.run_name, seed, cell.settings(self.profile))


@dataclass(frozen=True)
class Run:
    """A system trained with one seed: a cell of a table, or your own training."""

    workspace: Workspace
    cell: str  # paper/table/row/column
    seed: int
    settings: Settings

    @property
    def name(self) -> str:
        """``paper/table/row/column/seedN``; unique in a workspace of one label."""
        return f"{self.cell}/seed{self.seed}"

    @cached_property
    def recipe(self) -> Corpus:
        return self.workspace.recipe(self.settings)

    @property
    def text_digest(self) -> str | None:
        """A digest of your text as it is now; None if there is none."""
        if self.workspace.own is None:
            return None
        return digest(self._texts)

    @property
    def _texts(self) -> dict[str, str]:
        """A checksum of each file of your text as it is now."""
        archives = self.recipe.archives if self.workspace.own else ()
        return {item.file: _checksum(item.path) for item in archives if item.path}

    @property
    def current_manifest(self) -> Manifest | None:
        """That of its corpus; None if this is not prepared, or of another text or treatment."""
        manifest, recipe = read_manifest(self.corpus_folder), self.recipe
        if manifest is None or not manifest.is_by(recipe):
            return None
        gold = recipe.gold.files if recipe.gold else ()  # made apart from the rest
        texts = {file: sha for file, sha in self._texts.items() if file not in gold}
        return manifest if texts.items() <= manifest.archives.items() else None

    @property
    def has_corpus(self) -> bool:
        """Whether its corpus is prepared as it is now, with the word alignments that it needs."""
        manifest = self.current_manifest
        if manifest is None:
            return False
        return manifest.alignments is not None or not self.settings.needs_alignments

    @property
    def corpus_folder(self) -> Path:
        """Where its corpus is prepared; one of your text goes under the label ("SCALE@TEXT")."""
        place = self.workspace
        folder = place.root / "corpora"
        return (folder / place.label if place.own else folder) / self.settings.corpus

    @property
    def prepared_corpus(self) -> PreparedCorpus:
        recipe = self.recipe
        return PreparedCorpus(
            folder=self.corpus_folder,
            source=recipe.source,
            target=recipe.target,
            subwords=recipe.subwords.family,
            tokenizer=recipe.tokenizer[recipe.target],
            lowercase=recipe.lowercase,
            scores=tuple(dict.fromkeys((*recipe.scores, *standard_scores(recipe.target)))),
            gold=recipe.gold is not None,
            named_tests=recipe.has_named_tests,
        )

    @property
    def measures_alignment(self) -> bool:
        """Whether its word alignments are scored: if requested and possible."""
        return bool(self.settings.align) and self.recipe.gold is not None

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.workspace.runs / self.workspace.label / self.name)

    def commands(self, devices: Devices, folder: RunFolder | None = None) -> RunCommands:
        """Its command lines, or those for a checkpoint in another folder."""
        where = folder or self.folder, devices, self.workspace.user_dir
        return RunCommands(self.settings, self.prepared_corpus, *where)


def _checksum(path: Path) -> str:
    status = path.stat()
    return _checksum_of_state(path, status.st_size, status.st_mtime_ns)


@cache
def _checksum_of_state(path: Path, size: int, changed: int) -> str:
    return sha256(path)
