"""A trained model with what prepares text for it: dictionaries, subwords, tokenisers.

A run has them in its corpus.  A model that was handed on has them beside it:

model.pt           the weights
manifest.json      languages, tokenisers and kind of subwords, as of a prepared corpus
bin/dict.*.txt     the dictionaries
subwords/          the models that split words
begun.json         the settings of its run, as in a run's folder
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from ...errors import UserError
from ..corpora import manifest
from ..corpora.definition import Archive, Corpus, Subwords
from ..corpora.manifest import Manifest, read_manifest
from ..corpora.own import own_corpus
from ..corpora.subwords import model_name, splitter
from ..corpora.tokenisers import tokeniser
from ..files.checkpoints import read_checkpoint, setting
from ..files.checksums import sha256
from ..files.json_files import read_json

CHECKPOINT, BEGUN = "model.pt", "begun.json"


@dataclass(frozen=True)
class TrainedModel:
    """A checkpoint, the folder of a prepared corpus for it, and the settings of its run."""

    checkpoint: Path
    prepared: Path
    settings: dict  # "train", "generate" and others; empty if it is of no run of ours

    @property
    def binary(self) -> Path:
        """The folder with its dictionaries, as fairseq's commands take it."""
        return self.prepared / "bin"

    @cached_property
    def manifest(self) -> Manifest:
        found = read_manifest(self.prepared)
        if found is None:
            raise UserError(f"{self.prepared / manifest.NAME} does not say how to prepare text")
        return found

    @property
    def languages(self) -> tuple[str, str]:
        return self.manifest.source, self.manifest.target

    @property
    def subwords(self) -> Subwords:
        return Subwords(**self.manifest.recipe["subwords"])

    @property
    def subword_files(self) -> dict[str, Path]:
        """The model that splits words, by language."""
        folder = self.prepared / "subwords"
        return {lang: folder / model_name(self.subwords, lang) for lang in self.languages}

    @property
    def dictionaries(self) -> dict[str, Path]:
        return {lang: self.binary / f"dict.{lang}.txt" for lang in self.languages}

    def check(self) -> None:
        """Refuse dictionaries and subwords that are not those that the corpus was made with."""
        for path in {*self.subword_files.values(), *self.dictionaries.values()}:
            name = path.relative_to(self.prepared).as_posix()
            if not path.is_file():
                raise UserError(f"{path}: there is no such file, and {self.checkpoint} needs it")
            if sha256(path) != self.manifest.files.get(name):
                raise UserError(f"{path} is not the one that {manifest.NAME} was written for")

    def preparation(self, language: str) -> Callable[[str], str]:
        """The function that turns a line of text into subwords with spaces between."""
        tokenise = tokeniser(self.manifest.tokenizer[language], language)
        split = splitter(self.subwords.kind, self.subword_files[language])
        if self.manifest.lowercase:
            return lambda line: split(tokenise(line).lower())
        return lambda line: split(tokenise(line))


def find_model(path: Path, data: Path | None = None) -> TrainedModel:
    """The model of a run's folder, of one that was handed on, or of a checkpoint.

    What prepares its text is in ``data`` (from ``fairseq-hybrid prepare``), or else beside the
    model, in the corpus of its run, or beside the data that the checkpoint was trained on.
    """
    if not path.exists():
        raise UserError(f"{path}: there is no such file or folder")
    checkpoint = path / CHECKPOINT if path.is_dir() else path
    if not checkpoint.is_file():
        raise UserError(f"{path} has no {CHECKPOINT}: name a run that is done, or a checkpoint")
    folder = checkpoint.resolve().parent
    folder = folder.parent if folder.name == "checkpoints" else folder
    begun = read_json(folder / BEGUN) or {}
    settings = begun.get("settings") or {}
    if data is None:
        data = _prepared(checkpoint, folder, begun)
    found = TrainedModel(checkpoint, data, settings)
    found.check()
    return found


def _prepared(checkpoint: Path, folder: Path, begun: dict) -> Path:
    if (folder / manifest.NAME).is_file():
        return folder
    runs = next((parent for parent in folder.parents if parent.name == "runs"), None)
    if "workspace" in begun and runs:  # ROOT/runs/LABEL/PAPER/TABLE/ROW/COLUMN/SEED
        label = folder.relative_to(runs).parts[0] if begun["workspace"]["own"] else ""
        corpus = runs.parent / "corpora" / label / begun["settings"]["corpus"]
        if (corpus / manifest.NAME).is_file():
            return corpus
    state = read_checkpoint(checkpoint)
    settings = state.get("cfg") or state.get("args")
    task = setting(settings, "task") if isinstance(settings, dict) else settings
    trained_on = setting(task, "data")
    if trained_on and (Path(trained_on).parent / manifest.NAME).is_file():
        return Path(trained_on).parent
    raise UserError(
        f"{checkpoint}: nothing beside it says how its text is tokenised and split; give "
        "--data DIR, the output of fairseq-hybrid prepare"
    )


def corpus_like(trained: TrainedModel, recipe: Corpus, text: Path | Sequence[Path]) -> Corpus:
    """The recipe for the user's ``text``, prepared as the text of a trained model was.

    Tokenisers, subwords and dictionaries are the model's, and so must be the languages.
    """
    about, files = trained.manifest, {*trained.subword_files.values()}
    if "given" in about.tokenizer.values():
        _note_of_tokens(trained.checkpoint)
    files |= {*trained.dictionaries.values()}
    names = sorted((path.relative_to(trained.prepared).as_posix(), path) for path in files)
    return replace(
        own_corpus(recipe, text, *trained.languages),
        tokenizer=dict(about.tokenizer),
        lowercase=about.lowercase,
        subwords=trained.subwords,
        scores=tuple(about.recipe["scores"]),
        like=tuple(Archive(name, sha256=(about.files[name],), path=path) for name, path in names),
    )


@cache
def _note_of_tokens(checkpoint: Path) -> None:
    told = "was trained on text in tokens: put spaces before full stops, as its tokeniser did"
    print(f"note: {checkpoint} {told}", file=sys.stderr)
