"""Find what a report needs of a model: its data, test text and log, from a checkpoint or a run.

A checkpoint records the data folder it was trained on and where it was saved.  Both may have been
moved since, so the same names are looked up beside the checkpoint as well.  What `prepare` and
`reproduce` have written next to data and model says the rest.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from fairseq.data.data_utils import infer_language_pair

from ...errors import UserError
from ..config.paper_tables import load_table
from ..corpora import read_manifest
from ..corpora.test_sets import TEST_SETS
from ..files.checkpoints import read_checkpoint, setting
from ..files.checksums import sha256
from ..files.json_files import read_json
from ..files.text import lines
from ..look import model_arguments as model_args
from ..look.model_arguments import note
from ..runs.fairseq_commands import PreparedCorpus, RunFolder
from ..runs.finished_run import finished_run
from ..runs.results import read_result
from ..runs.run_folders import read_begun
from ..runs.training_log import read_log

#: The model in a folder, best first: of a run, averaged, and fairseq's own.
MODELS = ("model.pt", "average.pt", "checkpoint_best.pt", "checkpoint_last.pt")
#: Sets to describe, if none is named.
SUBSETS = ("test", "valid")
#: How many folders above a checkpoint, and parts of its data folder's name, are looked at.
_ABOVE, _PARTS = 4, 4
#: Usual names of data folders.
_FOLDERS = ("data-bin", "bin")
_MARKS = {"subword-nmt": lambda word: word.endswith("@@"), "sentencepiece": lambda w: w[0] == "▁"}
_ESCAPED = ("&apos;", "&quot;", "&amp;", "@-@")  # by Moses


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
    lowercase: bool = False
    tokenizer: str | None = None  #: of the target
    reference: Path | None = None
    raw_source: Path | None = None  #: untouched, for display
    text: tuple[Path, Path] | None = None  #: the set in subwords; binary data lose rare ones
    source_words: Path | None = None
    test_sets: Path | None = None
    hypotheses: Path | None = None  #: of a finished run
    log: Path | None = None
    generate: tuple[str, ...] = ()  #: flags of fairseq-generate
    training: list[str] | None = None  #: the command
    beside: dict[str, float] | None = None  #: BLEU of its table's baseline and other rows

    @property
    def search(self) -> str:
        """Beam and length penalty, fairseq's unless given, and other flags of the search."""
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("--beam", default="5")
        parser.add_argument("--lenpen", default="1")
        known, others = parser.parse_known_args(self.generate)
        words = [f"beam {known.beam}"]
        if "--gnmt-lenpen" not in others:  # which takes its place
            words.append(f"length penalty {known.lenpen}")
        return ", ".join(words + ([" ".join(others)] if others else []))

    @property
    def corpus_name(self) -> str:
        """The name of its data's folder, or of the one above a folder with a usual name."""
        folder = self.data.resolve()
        return (folder.parent if folder.name in _FOLDERS else folder).name

    def arguments(self, args: argparse.Namespace) -> argparse.Namespace:
        """The arguments of the commands that look into a model."""
        source, target = self.text or (None, None)
        known = {"data": self.data, "path": [self.model], "names": [self.name]}
        known |= {"source_lang": self.source, "target_lang": self.target}
        known |= {"source": source, "target": target, "subwords": self.subwords}
        return argparse.Namespace(
            **{**vars(args), **known, "gen_subset": None if source else self.subset}
        )


def find(name: str, path: Path, args: argparse.Namespace) -> Subject:
    """Find all about a model; flags in ``args`` replace what is found."""
    model = model_of(path)
    found = None if args.data else _of_run(name, model, args)
    found = _with_flags(found or _of_checkpoint(name, model, args), args)
    if not _has(found.data, found.subset, found.source, found.target):
        raise UserError(
            f"{model}: there is no {found.subset}.{found.source}-{found.target} in {found.data}; "
            "name another folder with --data, or another set with --gen-subset"
        )
    return found


def names_of(paths: list[Path]) -> list[str]:
    """Names for models: of their folders, where these differ and the files are called as usual.

    A run alone is called ROW/COLUMN/seedN, wherever its folder is now.
    """
    named = [path.resolve().parent if path.name in MODELS else path for path in paths]
    named = [path.parent if path.name == "checkpoints" else path for path in named]
    if len(named) == 1:
        with suppress(UserError, KeyError, TypeError):  # another program's file of this name
            result = read_result(RunFolder(named[0]).result)
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


def _of_run(name: str, model: Path, args: argparse.Namespace) -> Subject | None:
    """What a finished run of `reproduce` knows; None for other models, or without its corpus."""
    folder = RunFolder(model.resolve().parent)
    if model.name != folder.model.name or not folder.result.is_file():
        return None
    try:
        run = finished_run(folder.path)
    except UserError as error:  # only the model may have been moved
        note(f"{error}; its data are looked up like those of any model")
        return None
    subset = args.gen_subset or "test"
    is_test = subset == "test"
    commands = read_json(folder.result)["commands"]
    return replace(
        _of_corpus(name, model, run.corpus, subset),
        hypotheses=_translations_of(folder) if is_test else None,
        log=folder.path if run.has_curves else None,
        generate=_search_flags(commands.get("generate", ())),
        training=run.training,
        beside=_beside(folder) if is_test else None,
    )


def _with_result(found: Subject) -> Subject:
    """Add what the result beside a run's model says, wherever they lie: its search at least.

    Its translations are those of the test set if the corpus is still the one it was made from.
    """
    folder = RunFolder(found.model.resolve().parent)
    if found.model.name != folder.model.name:
        return found
    with suppress(UserError, KeyError, TypeError):  # another program's file of this name
        result = read_result(folder.result) or {}
        commands = result["commands"]
        found = replace(
            found, generate=_search_flags(commands["generate"]), training=commands["train"]
        )
        manifest = read_manifest(found.data.resolve().parent)
        same = manifest is not None and manifest.digest == result["corpus"]["digest"]
        if same and found.subset == "test" and found.reference:
            found = replace(found, hypotheses=_translations_of(folder))
    return found


def _translations_of(folder: RunFolder) -> Path | None:
    """A run's stored translations, unless its records say that another model made them."""
    files = (read_json(folder.path / "stages" / "average.json") or {}).get("files", {})
    recorded = files.get(folder.model.name, {}).get("sha256")
    if recorded is not None and recorded != sha256(folder.model):
        note(f"{folder.model} is not the model that {folder.hypotheses} is of")
        return None
    return _if_there(folder.hypotheses)


def _search_flags(command) -> tuple[str, ...]:
    """Those flags of a run's fairseq-generate that decide its search."""
    ours = {"--user-dir", "--source-lang", "--target-lang", "--path", "--gen-subset", "--cpu"}
    ours |= {"--max-tokens", "--required-batch-size-multiple", "--results-path"}
    kept, keep = [], False
    for word in command[2:]:
        keep = word not in ours if word.startswith("--") else keep
        kept += [word] if keep else []
    return tuple(kept)


def _beside(folder: RunFolder) -> dict[str, float]:
    """BLEU of the same table's other rows, same column and seed: the baseline, then the best."""
    column, seed = folder.path.parent.name, folder.path.name
    found = {}
    for row in sorted(folder.path.parents[2].iterdir()):
        file = row / column / seed / folder.result.name
        if row != folder.path.parents[1] and file.is_file():
            score = (read_json(file) or {}).get("scores", {}).get("bleu")
            found |= {row.name: score["value"]} if score else {}
    baseline = _baseline(folder)
    return dict(sorted(found.items(), key=lambda item: (item[0] != baseline, -item[1])))


def _baseline(folder: RunFolder) -> str | None:
    """The row that the others of a run's table are compared with, if its configuration is found."""
    *_, table, paper = (parent.name for parent in list(folder.path.parents)[:4])
    with suppress(UserError, KeyError, TypeError):  # moved or changed since
        return load_table(
            f"{paper}/{table}", Path(read_begun(folder.begun)["workspace"]["configs"])
        ).baseline
    return None


def _of_checkpoint(name: str, model: Path, args: argparse.Namespace) -> Subject:
    if not model.is_file():
        raise UserError(f"{model}: there is no such checkpoint or folder")
    state = read_checkpoint(model)
    settings = state.get("cfg") or state.get("args")
    task = setting(settings, "task") if isinstance(settings, dict) else settings
    if isinstance(task, dict) and "target_lang" not in task:
        raise UserError(f"{model} does not translate: its task is {task.get('_name')}")
    recorded = str(setting(task, "data") or "").split(":")[0]
    data = args.data or _data_folder(model, recorded)
    pair = [
        flag or setting(task, side) or inferred
        for flag, side, inferred in zip(
            (args.source_lang, args.target_lang),
            ("source_lang", "target_lang"),
            infer_language_pair(str(data)) if data.is_dir() else (None, None),
            strict=True,
        )
    ]
    if not any(data.glob("dict.*.txt")):
        raise UserError(f"{model}: {data} has no dictionaries; --data names a data folder")
    if not all(pair):
        raise UserError(f"{model}: which languages? Give --source-lang and --target-lang")
    if not (data / f"dict.{pair[1]}.txt").is_file():
        raise UserError(f"{model}: {data} has no dict.{pair[1]}.txt; is it a data folder?")
    subset = args.gen_subset or next((s for s in SUBSETS if _has(data, s, *pair)), SUBSETS[0])
    found = _of_data(name, model, data, *pair, subset)
    log_file = setting(setting(settings, "common"), "log_file")
    save_dir = setting(setting(settings, "checkpoint"), "save_dir")
    return _with_result(replace(found, log=_log_of(model, log_file, save_dir)))


def _data_folder(model: Path, recorded: str) -> Path:
    """Where the data lie now: as recorded, or under the same name beside the checkpoint."""
    parts = [part for part in Path(recorded).parts[-_PARTS:] if part not in ("..", "/")]
    tails = [Path(*parts[first:]) for first in range(len(parts))]
    places = [Path(recorded)] if recorded else []
    for folder in islice(model.resolve().parents, _ABOVE):
        places += [folder / tail for tail in (*tails, *_FOLDERS)]
    for place in places:
        if any(place.glob("dict.*.txt")):
            return place
    raise UserError(
        f"{model}: its data are neither in {recorded or 'a recorded folder'} nor beside it; "
        "--data names the folder with its dictionaries and test set"
    )


def _has(data: Path, subset: str, source: str, target: str) -> bool:
    pairs = (f"{source}-{target}", f"{target}-{source}")  # fairseq finds either
    return any(any(data.glob(f"{subset}.{pair}.{source}.*")) for pair in pairs)


def _of_data(name: str, model: Path, data: Path, source: str, target: str, subset: str) -> Subject:
    """What `prepare` has written beside binary data, or else what their dictionary shows."""
    folder = data.resolve().parent
    manifest = read_manifest(folder)
    if manifest is not None and target in manifest.tokenizer:
        kind = str(manifest.subwords["kind"])
        corpus = PreparedCorpus(
            folder=folder,
            source=source,
            target=target,
            subwords="sentencepiece" if kind.startswith("sentencepiece") else kind,
            tokenizer=manifest.tokenizer[target],
            lowercase=manifest.lowercase,
            scores=(),
            named_tests=(folder / "raw" / TEST_SETS).is_file(),
        )
        return replace(_of_corpus(name, model, corpus, subset), data=data)
    pieces = {line.rpartition(" ")[0] for line in lines(data / f"dict.{target}.txt")}
    marked = [kind for kind, has in _MARKS.items() if any(has(p) for p in pieces if p)]
    escaped = any(mark in piece for piece in pieces for mark in _ESCAPED)
    return Subject(
        *(name, model, data, source, target, subset),
        subwords=marked[0] if len(marked) == 1 else "none",
        tokenizer="moses" if escaped else None,
    )


def _of_corpus(name: str, model: Path, corpus: PreparedCorpus, subset: str) -> Subject:
    folder, sides = corpus.folder, (corpus.source, corpus.target)
    text = tuple(folder / "subwords" / f"{subset}.{side}" for side in sides)
    return Subject(
        *(name, model, corpus.binary, *sides, subset),
        subwords=corpus.subwords,
        tokenizer=corpus.tokenizer,
        lowercase=corpus.lowercase,
        reference=_if_there(corpus.reference(subset)),
        raw_source=_if_there(folder / "raw" / f"{subset}.{corpus.source}"),
        text=text if all(one.is_file() for one in text) else None,
        source_words=_if_there(corpus.source_words.with_name(f"{subset}.{corpus.source}")),
        test_sets=corpus.test_sets if subset == "test" else None,
    )


def _if_there(path: Path) -> Path | None:
    return path if path.is_file() else None


def _log_of(model: Path, recorded: str | None, saved: str | None) -> Path | None:
    """The log of a training, if its folder has one, or only one."""
    for path in _log_places(model, recorded, saved):
        try:
            read_log(path)
        except UserError:
            continue
        return path
    return None


def _log_places(model: Path, recorded: str | None, saved: str | None) -> Iterator[Path]:
    folder = model.resolve().parent
    if recorded:
        yield Path(recorded)
        yield folder / Path(recorded).name
    for place in (folder, folder.parent):
        yield from (place / "train.log", place / "logs" / "train.log", place / f"{folder.name}.log")
    others = sorted(folder.glob("*.log"))
    if len(others) == 1:
        yield others[0]
    # A relative name may be that of another training below the current folder.
    if saved and Path(saved).is_absolute():
        yield from (Path(saved, "train.log"), Path(saved, "logs", "train.log"))


def _with_flags(found: Subject, args: argparse.Namespace) -> Subject:
    """Replace what was found by what the user says."""
    said = {
        "reference": args.reference,
        "subwords": args.subwords,
        "tokenizer": args.tokenizer,
        "lowercase": args.lowercase or None,
    }
    said = {key: value for key, value in said.items() if value is not None}
    if args.generate is not None:
        said |= {"generate": tuple(args.generate), "hypotheses": None}
    # Its table's scores are of other translations, or against other words.
    return replace(found, **said, beside=None) if said else found
