"""A run of `reproduce` that is done: where its model, translations and test set are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..corpora.manifest import NAME as MANIFEST
from ..errors import UserError
from ..files import read_json
from ..scoring.test_sets import TEST_SETS
from .command_lines import RunFolder
from .results import read_result


@dataclass(frozen=True)
class FinishedRun:
    """A run with a model.

    Attributes:
        folder: of the run.
        corpus: the folder of its corpus.
        source: language.
        target: language.
        subwords: how words are split.
        lowercase: whether it is scored without case.
        training: the command that trained it.
    """

    folder: RunFolder
    corpus: Path
    source: str
    target: str
    subwords: str
    lowercase: bool
    training: list[str]

    @property
    def data(self) -> Path:
        """What fairseq-preprocess made."""
        return self.corpus / "bin"

    @property
    def reference(self) -> Path:
        """The untouched translations of the test set."""
        return self.corpus / "raw" / f"test.{self.target}"

    @property
    def source_words(self) -> Path:
        """The tokenised source sentences of the test set."""
        return self.corpus / "tokenised" / f"test.{self.source}"

    @property
    def test_sets(self) -> Path | None:
        """What sets the test text consists of, if they have names."""
        path = self.corpus / "raw" / TEST_SETS
        return path if path.exists() else None

    @property
    def has_curves(self) -> bool:
        """Whether there are its log or scores of its checkpoints."""
        return self.folder.log("train").exists() or self.folder.curve.exists()


def finished_run(path: Path) -> FinishedRun:
    """A run by its folder, ``…/runs/LABEL/PAPER/TABLE/ROW/COLUMN/seedN``.

    Its corpus is looked up from there, so that a workspace may have been moved.

    Raises:
        UserError: if there is no such run with a model, or its corpus is not there as it was.
    """
    folder = RunFolder(path.resolve())
    result = read_result(folder.result)
    if result is None:
        raise UserError(f"--run {path}: there is no {folder.result.name}; name a run that is done")
    if not folder.model.is_file():
        raise UserError(f"--run {path} has no {folder.model.name}")
    if len(folder.path.parents) < 7 or folder.path.parents[5].name != "runs":
        raise UserError(
            f"--run {path} is not where `reproduce` makes runs, "
            "DIR/runs/LABEL/PAPER/TABLE/ROW/COLUMN/seedN; its corpus is looked up from there"
        )
    try:
        corpora = folder.path.parents[6] / "corpora"
        # As Workspace.corpus_folder has it: what is made of one's own text is by label.
        home = corpora / result["label"] if "@" in result["label"] else corpora
        corpus = home / result["settings"]["corpus"]
        score = result["commands"]["score"]
        run = FinishedRun(
            folder=folder,
            corpus=corpus,
            source=result["corpus"]["source"],
            target=result["corpus"]["target"],
            subwords=score[score.index("--subwords") + 1],
            lowercase="--lowercase" in score,
            training=result["commands"]["train"],
        )
        digest = result["corpus"]["digest"]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"--run {path}: {folder.result} is not as it should be ({error!r})"
        ) from None
    manifest = read_json(corpus / MANIFEST)
    if manifest is None:
        raise UserError(f"--run {path}: its corpus is not in {corpus}; prepare it again")
    if manifest.get("digest") != digest:
        raise UserError(f"--run {path}: the corpus in {corpus} is another than the run was made of")
    return run
