"""A finished run of `reproduce`: where its model, translations and test set are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..corpora.manifest import NAME as MANIFEST
from ..corpora.test_sets import TEST_SETS
from ..files.json_files import read_json
from .fairseq_commands import PreparedCorpus, RunFolder
from .results import read_result
from .workspace import corpus_folder


@dataclass(frozen=True)
class FinishedRun:
    """A run with a model, the corpus it was trained on, and the command that trained it."""

    folder: RunFolder
    corpus: PreparedCorpus
    training: list[str]

    @property
    def has_curves(self) -> bool:
        return self.folder.log("train").exists() or self.folder.curve.exists()


def finished_run(path: Path) -> FinishedRun:
    """The run in a folder; its corpus is found relative to it, since a workspace may be moved."""
    folder = RunFolder(path.resolve())
    result = read_result(folder.result)
    if result is None:
        raise UserError(f"--run {path}: there is no {folder.result.name}; name a finished run")
    if not folder.model.is_file():
        raise UserError(f"--run {path} has no {folder.model.name}")
    if len(folder.path.parents) < 7 or folder.path.parents[5].name != "runs":
        raise UserError(
            f"--run {path} is not where `reproduce` makes runs, "
            "DIR/runs/LABEL/PAPER/TABLE/ROW/COLUMN/seedN; its corpus is looked up from there"
        )
    try:
        place = corpus_folder(folder.path.parents[6], result["label"], result["settings"]["corpus"])
        score = result["commands"]["score"]
        corpus = PreparedCorpus(
            folder=place,
            source=result["corpus"]["source"],
            target=result["corpus"]["target"],
            subwords=score[score.index("--subwords") + 1],
            tokenizer=score[score.index("--tokenizer") + 1],
            lowercase="--lowercase" in score,
            scores=tuple(result["scores"]),
            named_tests=(place / "raw" / TEST_SETS).exists(),
        )
        digest = result["corpus"]["digest"]
        training = result["commands"]["train"]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"--run {path}: {folder.result} is invalid ({error!r})") from None
    manifest = read_json(place / MANIFEST)
    if manifest is None:
        raise UserError(f"--run {path}: its corpus is not in {place}; prepare it again")
    if manifest.get("digest") != digest:
        raise UserError(f"--run {path}: the run was not made from the corpus in {place}")
    return FinishedRun(folder, corpus, training)
