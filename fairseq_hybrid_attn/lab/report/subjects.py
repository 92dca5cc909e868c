"""Where everything about a model lies that a report needs: its data, its text, its log.

A checkpoint records the data folder it was trained on.  What `prepare` has written beside the data
says how the text was treated, and a run's result beside its model how it was translated.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

from fairseq.data.data_utils import infer_language_pair

from ...errors import UserError
from ..corpora import read_manifest
from ..corpora.manifest import Manifest
from ..corpora.test_sets import TEST_SETS
from ..files.checkpoints import read_checkpoint, setting
from ..files.text import lines
from ..look import model_arguments as model_args
from ..look.loading import task_settings
from ..runs.fairseq_commands import RunFolder, flags
from ..runs.results import read_result

#: The model in a folder, best first: of a run, averaged, and fairseq's own.
MODELS = ("model.pt", "average.pt", "checkpoint_best.pt", "checkpoint_last.pt")
#: Sets to describe, if none is named.
SUBSETS = ("test", "valid")


@dataclass(frozen=True)
class Given:
    """What the user says about all models, in place of what is found; None: nothing."""

    data: Path | None = None
    subset: str | None = None
    subwords: str | None = None
    tokenizer: str | None = None
    reference: Path | None = None
    lowercase: bool = False
    search: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Subject:
    """A model and where everything about it lies; None: it was not found."""

    name: str
    model: Path
    data: Path
    source: str
    target: str
    subset: str
    subwords: str
    tokenizer: str = "none"  #: of the target
    lowercase: bool = False
    reference: Path | None = None
    raw_source: Path | None = None  #: untouched, for display
    text: tuple[Path, Path] | None = None  #: the set in subwords; binary data lose rare ones
    source_words: Path | None = None
    test_sets: Path | None = None
    hypotheses: Path | None = None  #: of a finished run
    log: Path | None = None  #: or a run's folder
    search: tuple[str, ...] = ()  #: flags of fairseq-generate
    training: tuple[str, ...] = ()  #: the command, of a run

    @property
    def search_text(self) -> str:
        return shlex.join(self.search) or "fairseq's own search (beam 5)"

    @property
    def corpus_name(self) -> str:
        """The name of its data's folder, or of the one above a folder with a usual name."""
        folder = self.data.resolve()
        return (folder.parent if folder.name in ("bin", "data-bin") else folder).name


def find(name: str, path: Path, given: Given) -> Subject:
    """Find all about a model; what is ``given`` replaces it."""
    model = model_of(path)
    if not model.is_file():
        raise UserError(f"{model}: there is no such checkpoint or folder")
    task = task_settings(read_checkpoint(model))
    if isinstance(task, dict) and "target_lang" not in task:
        raise UserError(f"{model} does not translate: its task is {task.get('_name')}")
    data = given.data or Path(str(setting(task, "data") or "").split(":")[0])
    if not any(data.glob("dict.*.txt")):
        raise UserError(f"{model}: {data} has no dictionaries; --data names its data folder")
    inferred = infer_language_pair(str(data))
    source = setting(task, "source_lang") or inferred[0]
    target = setting(task, "target_lang") or inferred[1]
    if not (source and target):
        raise UserError(f"{model}: neither it nor {data} says which languages it translates")
    if not (data / f"dict.{target}.txt").is_file():
        raise UserError(f"{model}: {data} has no dict.{target}.txt; is it a data folder?")
    there = [subset for subset in SUBSETS if _has(data, subset, source, target)]
    subset = given.subset or (there or SUBSETS)[0]
    if not _has(data, subset, source, target):
        raise UserError(
            f"{model}: there is no {subset}.{source}-{target} in {data}; "
            "name another folder with --data, or another set with --gen-subset"
        )
    subject = Subject(name, model, data, source, target, subset, subwords="none")
    corpus = data.resolve().parent
    manifest = read_manifest(corpus)
    if manifest is not None and target in manifest.tokenizer:
        subject = _with_corpus(subject, corpus, manifest)
    else:
        subject = replace(subject, subwords=_marks(data / f"dict.{target}.txt"))
        manifest = None
    return _with_given(_with_run(subject, manifest), given)


def names_of(paths: list[Path]) -> list[str]:
    """Names for models: of their folders, where these differ and the files are called as usual.

    A run alone is called ROW/COLUMN/seedN.
    """
    named = [path.resolve().parent if path.name in MODELS else path for path in paths]
    named = [path.parent if path.name == "checkpoints" else path for path in named]
    run = RunFolder(named[0])
    if len(named) == 1 and run.model.is_file() and (result := read_result(run.result)):
        return [f"{result['row']}/{result['column']}/seed{result['seed']}"]
    return model_args.names_of(named if len(set(named)) == len(named) else paths)


def model_of(path: Path) -> Path:
    """The checkpoint that a path names: itself, or the best one in a run's or training's folder."""
    if not path.is_dir():
        return path
    for folder in (path, path / "checkpoints"):
        for name in MODELS:
            if (folder / name).is_file():
                return folder / name
    raise UserError(f"{path} has none of {', '.join(MODELS)}; name a checkpoint")


def _has(data: Path, subset: str, source: str, target: str) -> bool:
    pairs = (f"{source}-{target}", f"{target}-{source}")  # fairseq finds either
    return any(any(data.glob(f"{subset}.{pair}.{source}.*")) for pair in pairs)


def _marks(dictionary: Path) -> str:
    """The kind of subwords in a dictionary: that whose marks it has."""
    pieces = [line.rpartition(" ")[0] for line in lines(dictionary)]
    kinds = {
        "subword-nmt": any(piece.endswith("@@") for piece in pieces),
        "sentencepiece": any(piece.startswith("▁") for piece in pieces),
    }
    marked = [kind for kind, has in kinds.items() if has]
    return marked[0] if len(marked) == 1 else "none"


def _with_corpus(subject: Subject, folder: Path, manifest: Manifest) -> Subject:
    """Add what `prepare` has written about the text."""
    subset, source, target = subject.subset, subject.source, subject.target
    kind = str(manifest.subwords["kind"])
    text = tuple(folder / "subwords" / f"{subset}.{side}" for side in (source, target))
    return replace(
        subject,
        subwords="sentencepiece" if kind.startswith("sentencepiece") else kind,
        tokenizer=manifest.tokenizer[target],
        lowercase=manifest.lowercase,
        reference=_if_there(folder / "raw" / f"{subset}.{target}"),
        raw_source=_if_there(folder / "raw" / f"{subset}.{source}"),
        text=text if all(path.is_file() for path in text) else None,
        source_words=_if_there(folder / "tokenised" / f"{subset}.{source}"),
        test_sets=_if_there(folder / "raw" / TEST_SETS) if subset == "test" else None,
    )


def _with_run(subject: Subject, manifest: Manifest | None) -> Subject:
    """Add the log and, of a run's model, its search and its translations of the same corpus."""
    folder = RunFolder(subject.model.resolve().parent)
    result = read_result(folder.result) if subject.model.name == folder.model.name else None
    if result is None:
        places = (folder.path / "train.log", folder.path.parent / "train.log")
        return replace(subject, log=next(filter(Path.is_file, places), None))
    same = manifest is not None and manifest.digest == result["corpus"]["digest"]
    has_curves = folder.log("train").is_file() or folder.curve.is_file()
    return replace(
        subject,
        search=tuple(flags(result["settings"].get("generate"))),
        training=tuple(result["commands"].get("train", ())),
        log=folder.path if has_curves else None,
        hypotheses=_if_there(folder.hypotheses) if same and subject.subset == "test" else None,
    )


def _with_given(subject: Subject, given: Given) -> Subject:
    """Replace what was found by what the user says."""
    if given.reference and not (given.tokenizer or subject.reference):
        raise UserError(
            f"--reference: how are the words of {subject.data} tokenised? Give --tokenizer, which "
            "may be none"
        )
    said = {
        "reference": given.reference,
        "subwords": given.subwords,
        "tokenizer": given.tokenizer,
        "lowercase": given.lowercase or None,
        "search": given.search,
    }
    said = {key: value for key, value in said.items() if value is not None}
    if given.search is not None:
        said["hypotheses"] = None
    return replace(subject, **said)


def _if_there(path: Path) -> Path | None:
    return path if path.is_file() else None
