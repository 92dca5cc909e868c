"""A trained model with what belongs to it, found from a path.

A run and an exported model have ``model.pt``, the weights, ``begun.json``, the settings of its run,
and of its prepared corpus (``corpora/prepared.py``) what prepares text for the model.
"""

from __future__ import annotations

import html
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from ...errors import UserError
from ..corpora import manifest as manifests
from ..corpora.definition import Archive, Corpus, Subwords
from ..corpora.manifest import Manifest, read_manifest
from ..corpora.own import own_corpus
from ..corpora.prepared import PreparedFolder
from ..corpora.subwords import splitter
from ..corpora.tokenisers import detokeniser, tokeniser
from ..files.checkpoints import read_checkpoint, setting
from ..files.checksums import sha256
from ..files.json_files import read_json
from ..files.writing import check_for_fairseq

CHECKPOINT, BEGUN = "model.pt", "begun.json"
_DATA = "give --data DIR, the output of fairseq-hybrid prepare or of fairseq-preprocess"


def how_to_export(checkpoint: Path, data: object = "DIR") -> str:
    named = shlex.join(["fairseq-hybrid", "export", str(checkpoint), "--data", str(data)])
    return (
        "a checkpoint does not say how its text was tokenised and split. Make a model's folder of "
        f"it: {named} --codes FILE --tokenizer KIND --output DIR"
    )


@dataclass(frozen=True)
class TrainedModel:
    """A checkpoint, the data that it reads, and the settings of its run."""

    path: Path  # as the user named it
    checkpoint: Path
    folder: Path  # of the run, or where the checkpoint lies
    binary: Path  # with dictionaries and binarised sets, as fairseq's commands take it
    languages: tuple[str, str]
    manifest: Manifest | None = None  # of ``binary``'s corpus; None if `prepare` did not make it
    settings: dict = field(default_factory=dict)  # of its run: "train", "generate" and others

    @property
    def treatment(self) -> Manifest:
        """How its text was treated."""
        if self.manifest is None:
            raise UserError(f"{self.path}: {how_to_export(self.checkpoint, self.binary)}")
        return self.manifest

    @property
    def prepared(self) -> PreparedFolder:
        """What `prepare` made, or what a run or an exported model keeps of it."""
        return PreparedFolder(self.binary.parent)

    @property
    def search(self) -> dict:
        """Flags of fairseq-generate with which its run translated."""
        return dict(self.settings.get("generate") or {})

    @property
    def subwords(self) -> Subwords:
        return Subwords(**self.treatment.recipe["subwords"])

    @property
    def subword_files(self) -> dict[str, Path]:
        """The model that splits words, by language."""
        return {lang: self.prepared.splitter(self.subwords, lang) for lang in self.languages}

    @property
    def dictionaries(self) -> dict[str, Path]:
        return {lang: self.binary / f"dict.{lang}.txt" for lang in self.languages}

    def text(self, form: str, subset: str) -> tuple[Path, Path] | None:
        """Source and target of a set, ``raw``, ``tokenised`` or in ``subwords``, if they exist."""
        if self.manifest is None:
            return None
        source, target = (self.prepared.text(form, subset, lang) for lang in self.languages)
        return (source, target) if source.is_file() and target.is_file() else None

    def shown(self, language: str) -> Callable[[str], str]:
        """The function that shows a word as in text: Moses writes ``&apos;`` for an apostrophe."""
        moses = self.manifest and self.manifest.tokenizer.get(language) in ("moses", "given")
        return html.unescape if moses else str

    def preparation(self, language: str) -> Callable[[str], str]:
        """The function that turns a line of text into subwords with spaces between.

        If the training text was given in tokens and its recipe names their tokeniser, the line may
        be text or tokens: tokens become text first, so that both end as the same tokens.
        """
        kind, made_by = self.treatment.tokenizer[language], self.treatment.recipe.get("given_by")
        tokenise = tokeniser(kind, language)
        if kind == "given" and made_by:
            undo, again = detokeniser(made_by, language), tokeniser(made_by, language)
            tokenise = lambda line: again(undo(line))  # noqa: E731
        split = splitter(self.subwords.kind, self.subword_files[language])
        if self.treatment.lowercase:
            return lambda line: split(tokenise(line).lower())
        return lambda line: split(tokenise(line))


def find_model(path: Path, data: Path | None = None) -> TrainedModel:
    """The model of a run's folder, of an exported one, or of a checkpoint.

    Its text is treated as that of ``data`` (from `prepare`; or of fairseq-preprocess, which does
    not say how).  By default, this is the corpus of a run, what lies beside an exported model, or
    the folder on which the checkpoint was trained.
    """
    if not path.exists():
        raise UserError(f"{path}: there is no such file or folder")
    checkpoint = path / CHECKPOINT if path.is_dir() else path
    if not checkpoint.is_file():
        saved = sorted(path.glob("checkpoint*.pt"))
        such_as = f", such as {saved[0]}" if saved else ""
        raise UserError(
            f"{path} has no {CHECKPOINT}: name a run that is done, or a checkpoint{such_as}"
        )
    folder = checkpoint.resolve().parent
    folder = folder.parent if folder.name == "checkpoints" else folder
    begun = read_json(folder / BEGUN)
    begun = begun if isinstance(begun, dict) else {}
    settings, task = begun.get("settings") or {}, None
    data = data or _data_of(folder, begun)
    binary, manifest = _read_data(data) if data else (None, None)
    if not (manifest and settings):  # then the checkpoint alone says what it was trained on
        state = read_checkpoint(checkpoint)
        of_all = state.get("cfg") or state.get("args")
        if not (setting(of_all, "model") or setting(of_all, "arch")):
            fault = "it has weights, but no settings of its model"
            raise UserError(f"{path} is not a fairseq checkpoint: {fault}")
        sides = {name.partition(".")[0] for name in state["model"]}
        if "decoder" in sides and "encoder" not in sides:
            raise UserError(f"{path} is a language model; give a model that translates")
        task = setting(of_all, "task") if isinstance(of_all, dict) else of_all
    if binary is None:
        trained_on = Path(str(setting(task, "data") or "").split(":")[0])
        if not trained_on.is_dir():
            raise UserError(
                f"{path}: the folder {trained_on} that it was trained on is gone; {_DATA}"
            )
        binary, manifest = _read_data(trained_on)
    for part in (checkpoint, binary):
        check_for_fairseq(part)
    languages = _languages(task, binary, manifest)
    found = TrainedModel(path, checkpoint, folder, binary, languages, manifest, settings)
    _check_files(found)
    return found


def _data_of(folder: Path, begun: dict) -> Path | None:
    """Where a run's corpus lies, while it is the one of its training; or else what it keeps of it.

    An exported model keeps the same.
    """
    kept = read_manifest(folder)
    if kept is None:
        return None
    corpus = folder / str(begun.get("corpus", ""))  # it has the text and the test sets as well
    found = read_manifest(corpus)
    return corpus.resolve() if found and found.digest == kept.digest else folder


def _read_data(data: Path) -> tuple[Path, Manifest | None]:
    """The folder with dictionaries in what `prepare` or fairseq-preprocess made; the manifest."""
    if not data.is_dir():
        raise UserError(f"--data {data}: there is no such folder")
    for prepared in (data, data.resolve().parent):
        if manifest := read_manifest(prepared):
            return PreparedFolder(prepared).binary, manifest
    if not any(data.glob("dict.*.txt")):
        raise UserError(f"{data} has neither {manifests.NAME} nor dictionaries; {_DATA}")
    return data, None


def _languages(task: object, binary: Path, manifest: Manifest | None) -> tuple[str, str]:
    """Those of the checkpoint, or else of the data, from which fairseq-train may infer them."""
    from fairseq.data.data_utils import infer_language_pair  # here: it takes seconds

    known = (manifest.source, manifest.target) if manifest else infer_language_pair(str(binary))
    sides = zip(("source_lang", "target_lang"), known, strict=True)
    source, target = (setting(task, side) or other for side, other in sides)
    if not (source and target):
        raise UserError(f"neither the model nor the files in {binary} name its two languages")
    return source, target


def _check_files(found: TrainedModel) -> None:
    """Refuse files that are missing, or not those with which its text was prepared."""
    needed = {*found.dictionaries.values()}
    if found.manifest:
        needed |= {*found.subword_files.values()}
    for path in sorted(needed):
        if not path.is_file():
            raise UserError(f"{found.path} needs {path}, which does not exist")
        if found.manifest:
            name = path.relative_to(found.prepared.path).as_posix()
            if sha256(path) != found.manifest.files.get(name):
                raise UserError(f"{path} is not the one that {manifests.NAME} was written for")


def corpus_like(trained: TrainedModel, recipe: Corpus, text: Path | Sequence[Path]) -> Corpus:
    """The recipe for the user's ``text``, prepared as the text of a trained model was.

    Tokenisers, subwords and dictionaries are the model's, and so must be the languages.
    """
    about, files = trained.treatment, {*trained.subword_files.values()}
    if "given" in about.tokenizer.values():
        _note_of_tokens(trained.checkpoint)
    files |= {*trained.dictionaries.values()}
    names = sorted((path.relative_to(trained.prepared.path).as_posix(), path) for path in files)
    return replace(
        own_corpus(recipe, text, *trained.languages),
        tokenizer=dict(about.tokenizer),
        given_by=about.recipe.get("given_by"),
        lowercase=about.lowercase,
        subwords=trained.subwords,
        scores=tuple(about.recipe["scores"]),
        like=tuple(Archive(name, sha256=(about.files[name],), path=path) for name, path in names),
    )


@cache
def _note_of_tokens(checkpoint: Path) -> None:
    message = "was trained on text in tokens: put spaces before full stops, as its tokeniser did"
    print(f"note: {checkpoint} {message}", file=sys.stderr)
