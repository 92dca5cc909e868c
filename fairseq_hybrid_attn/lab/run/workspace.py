"""The workspace: the folder in which corpora are prepared and runs are made."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from ...errors import UserError
from ..config.paper_tables import Cell, CellName
from ..config.settings import FULL, WEIGHTS_OF, Profile, Settings, load_profile
from ..corpora.definition import Corpus, load_corpus, with_options
from ..corpora.manifest import Manifest, read_manifest
from ..corpora.own import own_corpus, texts_of
from ..corpora.prepared import PreparedFolder
from ..files.checksums import sha256
from ..files.text import lines
from ..files.writing import check_for_fairseq
from ..files.yaml_files import CONFIGS
from .devices import Devices
from .fairseq_commands import RunCommands
from .finding import label_of
from .folder import RunFolder


@dataclass(frozen=True)
class OwnText:
    paths: tuple[Path, ...]  # a folder, or the two files of a parallel text
    source_lang: str | None = None  # None takes the papers' direction; likewise for the target
    target_lang: str | None = None
    like: Path | None = None  # a trained model with whose subwords and dictionaries it is prepared

    @property
    def name(self) -> str:
        name = self.paths[0].resolve().name
        return name if len(self.paths) == 1 else name.partition(".")[0]

    @property
    def is_there(self) -> bool:
        return all(path.exists() for path in self.paths)

    def __str__(self) -> str:
        return " and ".join(map(str, self.paths))

    @property
    def absolute(self) -> OwnText:
        """The same with absolute paths."""
        paths = tuple(path.absolute() for path in self.paths)
        return replace(self, paths=paths, like=self.like and self.like.absolute())

    def as_record(self) -> dict:
        """What :meth:`of_record` needs, as plain data."""
        own = self.absolute
        paths, like = list(map(str, own.paths)), own.like and str(own.like)
        return {**asdict(own), "paths": paths, "like": like}

    @classmethod
    def of_record(cls, record: dict) -> OwnText:
        paths, like = tuple(map(Path, record["paths"])), record["like"] and Path(record["like"])
        return cls(**{**record, "paths": paths, "like": like})

    @property
    def pairs(self) -> int:
        """How many training pairs it has at most."""
        texts = texts_of(self.paths)
        files = texts["train"] if "train" in texts else next(iter(texts.values()))
        return sum(1 for _ in lines(next(iter(files.values()))))


@dataclass(frozen=True)
class Workspace:
    root: Path
    configs: Path
    profile: Profile
    own: OwnText | None = None
    user_dir: Path | None = None  # a folder of the user's code, if it is needed

    @property
    def absolute(self) -> Workspace:
        """The same with absolute paths of the text."""
        return replace(self, own=self.own and self.own.absolute)

    @property
    def label(self) -> str:
        """The scale and the text's name; see :func:`.label_of` for texts of one name."""
        if self.own is None:
            return self.profile.name
        return f"{self.profile.name}@{self.own.name}"

    @property
    def is_papers(self) -> bool:
        """Whether levels can be compared with the papers' numbers."""
        return not self.profile.settings and self.own is None

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

            return corpus_like(find_model(own.like), corpus, own.paths)
        corpus = own_corpus(corpus, own.paths, own.source_lang, own.target_lang)
        return with_options(corpus, settings.pairs, settings.subword_size)

    def run(self, cell: Cell, seed: int) -> Run:
        """The run that gives a cell's number; raises UserError if its row has a fault."""
        return Run(self, cell.run_name, seed, cell.settings(self.profile))


def make_workspace(
    root: Path,
    text: OwnText | None = None,
    profile: str | None = None,
    configs: Path = CONFIGS,
    user_dir: Path | None = None,
    by_size: bool = False,
) -> Workspace:
    """The workspace in a folder; without a profile at full scale, or at that of the text's size."""
    if not configs.is_dir():
        raise UserError(f"--configs {configs}: no such folder")
    # Runs on a text can be printed without it.
    if text and not text.is_there and not any((root / "runs").glob(f"*@{text.name}")):
        raise UserError(f"--text {text}: there is no such folder or file")
    if profile is None and text and by_size:
        from ..config.own_tables import profile_of_text  # here: papers' tables need it not

        scale = profile_of_text(text.pairs, configs)
    else:
        scale = load_profile(profile or FULL.name, configs)
    workspace = Workspace(
        root=root.absolute(), configs=configs.absolute(), profile=scale, own=text, user_dir=user_dir
    )
    check_for_fairseq(workspace.runs / workspace.label, ":,")
    return workspace


@dataclass(frozen=True)
class Run:
    """A system trained with one seed: a cell of a table, or your own training."""

    workspace: Workspace
    cell: CellName
    seed: int
    settings: Settings
    found_in: str | None = None  # its label, if that is known

    @property
    def name(self) -> str:
        """``paper/table/row/column/seedN``; unique in a workspace of one label."""
        return f"{self.cell}/seed{self.seed}"

    @cached_property
    def label(self) -> str:
        """The folder of runs in which it is."""
        return self.found_in or label_of(self)

    @property
    def origin(self) -> dict[str, str | None]:
        """Digests of what it is trained on and begins with, and the direction; None: unknown."""
        train, found = self.settings.train, {"data": self.data[0], "direction": None}
        if self.texts is not None:
            found["direction"] = "-".join(self.recipe.languages)
        if WEIGHTS_OF in train:
            weights = Path(str(train[WEIGHTS_OF]))
            found["weights"] = sha256(weights) if weights.is_file() else None
        return found

    @cached_property
    def recipe(self) -> Corpus:
        return self.workspace.recipe(self.settings)

    @property
    def texts(self) -> dict[str, str] | None:
        """A checksum of each file of your text as it is now, by name; None if it is gone."""
        own = self.workspace.own
        if own is None:
            return {}
        if not own.is_there:
            return None
        paths = {item.file: item.path for item in self.recipe.archives if item.path}
        return {file: _checksum(path, path.stat().st_mtime_ns) for file, path in paths.items()}

    @property
    def data(self) -> tuple[str | None, str | None]:
        """Digests of text and treatment, of the training and of the rest; None: it is gone."""
        texts = self.texts
        return (None, None) if texts is None else self.recipe.digests(texts)

    @property
    def corpus_folder(self) -> Path:
        """Where its corpus is prepared: a folder for each text, direction and treatment."""
        texts = self.texts
        if texts is None:
            raise UserError(f"its text, {self.workspace.own}, is not there any more")
        name = f"{self.settings.corpus}-{self.recipe.digest(texts)[:12]}"
        return self.workspace.root / "corpora" / name

    @property
    def manifest(self) -> Manifest | None:
        """That of its corpus, if this is prepared, and its text is there."""
        return None if self.texts is None else read_manifest(self.corpus_folder)

    @property
    def has_corpus(self) -> bool:
        """Whether its corpus is prepared, with the word alignments that it needs."""
        manifest = self.manifest
        if manifest is None:
            return False
        return manifest.alignments is not None or not self.settings.needs_alignments

    @property
    def corpus(self) -> PreparedFolder:
        return PreparedFolder(self.corpus_folder)

    @property
    def measures_alignment(self) -> bool:
        """Whether its word alignments are scored: if requested and possible."""
        return bool(self.settings.align) and self.recipe.gold is not None

    @property
    def folder(self) -> RunFolder:
        return RunFolder(self.workspace.runs / self.label / self.name)

    def commands(self, devices: Devices, folder: RunFolder | None = None) -> RunCommands:
        """Its command lines, or those for a checkpoint in another folder."""
        return RunCommands(
            self.settings,
            self.recipe,
            self.corpus,
            folder=folder or self.folder,
            devices=devices,
            user_dir=self.workspace.user_dir,
            by_share=self.cell.is_own,
        )


@cache
def _checksum(path: Path, changed: int) -> str:
    return sha256(path)
