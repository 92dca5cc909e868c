"""What a report is about: models, and what their runs, corpora or flags say of the test set."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..files.checksums import sha256
from ..models.trained import TrainedModel
from ..run.fairseq_commands import flags
from ..run.folder import RunFolder
from ..run.results import read_result


@dataclass(frozen=True)
class Request:
    """What is asked of a report; None: it is found."""

    page: Path
    command: tuple[str, ...] = ()  #: the report's own
    subset: str = "test"
    subwords: str | None = None
    tokenizer: str | None = None  #: of the target
    lowercase: bool = False
    reference: Path | None = None
    search: tuple[str, ...] | None = None  #: flags of fairseq-generate
    maps: str | None = None  #: sentences with maps
    sentences: str = "all"  #: those for gates and heads
    skip_long: bool = False
    device: str = "cpu"
    max_tokens: int = 4000
    user_dir: Path | None = None


@dataclass(frozen=True)
class Subject:
    """A model and what belongs to it; None: there is none."""

    trained: TrainedModel
    sha256: str  #: of the model
    tokenizer: str  #: of the target
    lowercase: bool
    reference: Path | None  #: untouched text
    hypotheses: Path | None  #: of a finished run
    log: Path | None  #: of fairseq-train, or a run's folder
    search: tuple[str, ...]  #: flags of fairseq-generate

    @property
    def search_text(self) -> str:
        return shlex.join(self.search) or "fairseq's own search (beam 5)"

    @property
    def files(self) -> list[Path]:
        found = (self.trained.checkpoint, self.reference, self.hypotheses, self.log)
        return [path for path in found if path]


def find_subject(trained: TrainedModel, asked: Request) -> Subject:
    """All about a model; what is asked for replaces what is found."""
    manifest, folder, search = trained.manifest, RunFolder(trained.folder), asked.search
    tokenizer, reference = asked.tokenizer, asked.reference
    if manifest:
        tokenizer = tokenizer or manifest.tokenizer.get(trained.languages[1], "none")
        if raw := trained.text("raw", asked.subset):
            reference = reference or raw[1]
    if not (tokenizer and (manifest or asked.subwords)):
        raise UserError(
            f"{trained.path}: {trained.binary} is not by `prepare`; how is its text split? Give "
            "--subwords and --tokenizer, which may be none"
        )
    log, hypotheses = trained.checkpoint.parent / "train.log", None
    if trained.checkpoint.resolve() == folder.model.resolve():
        log = folder.path if folder.log("train").is_file() else log
        if result := read_result(folder.result):
            same = manifest is not None and manifest.digest == result["corpus"]["digest"]
            if same and asked.subset == "test" and search is None:
                hypotheses = folder.hypotheses
    return Subject(
        trained=trained,
        sha256=sha256(trained.checkpoint),
        tokenizer=tokenizer,
        lowercase=asked.lowercase or bool(manifest and manifest.lowercase),
        reference=reference,
        hypotheses=hypotheses if hypotheses and hypotheses.is_file() else None,
        log=log if log.exists() else None,
        search=tuple(flags(trained.search)) if search is None else search,
    )
