"""Where everything about a model lies that a report needs: its data, its text, its log.

A checkpoint records its data folder.  How the text was treated is in the manifest
of `prepare` beside the data, or said by flags; how it was translated, in a run's result.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq.data.data_utils import infer_language_pair

from ...errors import UserError
from ..cli.flags import check_name
from ..corpora import read_manifest
from ..files.checkpoints import read_checkpoint, setting
from ..files.checksums import sha256
from ..models import arguments as model_args
from ..models.loading import task_settings
from ..runs.fairseq_commands import RunFolder, flags
from ..runs.results import read_result


@dataclass(frozen=True)
class Subject:
    """A model and where everything about it lies; None: there is none."""

    name: str
    model: Path
    sha256: str  #: of the model
    data: Path
    source: str
    target: str
    subset: str
    subwords: str
    tokenizer: str  #: of the target
    lowercase: bool
    corpus: Path | None  #: that `prepare` made
    test_sets: dict[str, int]  #: in ``subset``, if they have names
    reference: Path | None  #: untouched text
    hypotheses: Path | None  #: of a finished run
    log: Path | None  #: of fairseq-train, or a run's folder
    search: tuple[str, ...]  #: flags of fairseq-generate

    @property
    def search_text(self) -> str:
        return shlex.join(self.search) or "fairseq's own search (beam 5)"

    def text(self, folder: str) -> tuple[Path, Path] | None:
        """Source and target in a folder of the corpus: raw, tokenised or subwords."""
        if self.corpus is None:
            return None
        source, target = (
            self.corpus / folder / f"{self.subset}.{side}" for side in (self.source, self.target)
        )
        return source, target


def subjects_of(args: argparse.Namespace) -> list[Subject]:
    """The models of the arguments of `report`."""
    given = {
        **{"data": args.data, "subset": args.gen_subset, "subwords": args.subwords},
        **{"tokenizer": args.tokenizer, "lowercase": args.lowercase},
        **{"reference": args.reference, "search": args.generate},
    }
    names = model_args.names_given(args.names or names_of(args.models), args.models)
    for name, _ in args.probing:
        check_name("--probing", name, names)
    return [find(*pair, **given) for pair in zip(names, args.models, strict=True)]


def find(
    name: str,
    path: Path,
    *,
    data: Path | None = None,
    subset: str = "test",
    subwords: str | None = None,
    tokenizer: str | None = None,
    lowercase: bool = False,
    reference: Path | None = None,
    search: Sequence[str] | None = None,
) -> Subject:
    """Find all about a checkpoint, or the model in a folder; what is given replaces it."""
    folder = RunFolder(path if path.is_dir() else path.parent)
    model = folder.model if path.is_dir() else path
    task = task_settings(read_checkpoint(model))
    data = data or Path(str(setting(task, "data") or "").split(":")[0])
    if not data.is_dir():
        raise UserError(f"{model}: there is no folder {data}; --data names its data folder")
    # fairseq-train may have inferred them.
    sides = zip(("source", "target"), infer_language_pair(str(data)), strict=True)
    source, target = (setting(task, f"{side}_lang") or inferred for side, inferred in sides)
    if not (source and target):
        raise UserError(f"{model}: {data} does not name two languages, dict.de.txt and dict.en.txt")
    corpus = data.resolve().parent
    manifest = read_manifest(corpus)
    if manifest is not None:
        kind = str(manifest.subwords["kind"])
        subwords = subwords or ("sentencepiece" if "sentencepiece" in kind else kind)
        tokenizer = tokenizer or manifest.tokenizer.get(target, "none")
        lowercase = lowercase or manifest.lowercase
        reference = reference or corpus / "raw" / f"{subset}.{target}"
    if not (subwords and tokenizer):
        raise UserError(
            f"{model}: {data} is not by `prepare`; how is its text split? Give --subwords and "
            "--tokenizer, which may be none"
        )
    log, hypotheses = folder.path / "train.log", None
    if model.name == folder.model.name and (result := read_result(folder.result)):
        log = folder.path if folder.log("train").is_file() else log
        same = manifest is not None and manifest.digest == result["corpus"]["digest"]
        if same and subset == "test" and search is None:
            hypotheses = folder.hypotheses
        search = flags(result["settings"].get("generate")) if search is None else search
    return Subject(
        *(name, model, sha256(model), data, source, target, subset),
        subwords=subwords,
        tokenizer=tokenizer,
        lowercase=lowercase,
        corpus=corpus if manifest else None,
        test_sets=manifest.tests if manifest and subset == "test" else {},
        reference=reference,
        hypotheses=hypotheses,
        log=log if log.exists() else None,
        search=tuple(search or ()),
    )


def names_of(paths: list[Path]) -> list[str]:
    """Names from the paths; a run alone is called ROW/COLUMN/seedN."""
    (first, *others) = paths
    if first.is_dir() and not others:
        return ["/".join(first.resolve().parts[-3:])]
    return model_args.names_of(paths)
