"""Rows of a comparison that it does not train: translations, or models that translate its test."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import UserError
from ..corpora.definition import is_test, read_test_sets
from ..corpora.own import texts_of
from ..files.checkpoints import read_checkpoint
from ..files.checksums import digest, sha256
from ..files.text import count_lines, read_lines, write_lines
from ..models.trained import find_model, how_to_export
from ..plan.plan import Plan
from ..run.fairseq_commands import all_scores
from ..scores.generate_output import warn, warn_if_not_text
from ..scores.metrics import build_metric, check_parallel, score_sets
from .measuring import GIVEN, Number, TableNumbers, compared, numbers_of

#: The files of translations, or the folders of models, of each system's seeds.
Given = Mapping[str, Sequence[Path]]


@dataclass(frozen=True)
class Beside:
    """What a comparison shows beside its systems' differences from the first.

    Attributes:
        given: rows that it does not train.
        baseline: the row that others are compared with; None: the first.
        pairs: whether all pairs are compared, too.
    """

    given: Given = field(default_factory=dict)
    baseline: str | None = None
    pairs: bool = False

    def check(self, plan: Plan) -> None:
        """Refuse, before the work, what cannot be beside the systems of a plan."""
        for name, paths in self.given.items():
            if name in _names(plan):
                raise UserError(f"--given {name}=…: a system has this name; choose another")
            if twice := [path for path in paths if paths.count(path) > 1]:
                raise UserError(f"--given {name}: {twice[0]} is given twice")
            for path in paths:
                _check(f"--given {name}={path}", path, plan)
        known = [*_names(plan), *self.given]
        if self.baseline and self.baseline not in known:
            fault = f"there is no such row; there are {', '.join(known)}"
            raise UserError(f"--baseline {self.baseline}: {fault}")

    def added(self, numbers: TableNumbers, plan: Plan, device: str) -> TableNumbers:
        if self == NOTHING:
            return numbers
        rows = (*numbers.numbers, *_rows(self.given, plan, device))
        baseline = self.baseline and _names(plan).get(self.baseline, self.baseline)
        return compared(replace(numbers, numbers=rows), baseline, self.pairs)


NOTHING = Beside()


def _names(plan: Plan) -> dict[str, str]:
    """The rows, by what a user may call them."""
    return {name: row.name for row in plan.table.rows for name in (row.system, row.name)}


def _check(flag: str, path: Path, plan: Plan) -> None:
    run = plan.runs[0]
    if path.is_dir():
        model = find_model(path)
        if model.treatment and model.languages != run.recipe.languages:
            raise UserError(f"{flag}: it translates {' to '.join(model.languages)}")
        read_checkpoint(model.checkpoint)
        if model.treatment.lowercase and not run.recipe.lowercase:
            warn(f"{flag}: it knows lower case alone, and is scored with case")
        return
    if path.suffix == ".pt":
        raise UserError(f"{flag}: {how_to_export(path)}")
    lines = read_lines(path)
    if len(lines) != (needed := _sentences(flag, plan)):
        raise UserError(f"{flag}: {len(lines):,} lines, but the test set has {needed:,}")
    if run.recipe.tokenizer[run.recipe.target] != "given":
        warn_if_not_text(lines, path)


def _sentences(flag: str, plan: Plan) -> int:
    """How many the test set has, which perhaps is not prepared yet."""
    run, own = plan.runs[0], plan.workspace.own
    if manifest := run.manifest:
        return manifest.counts["test"]
    texts = texts_of(own.paths) if own and own.is_there else {}
    tests = [next(iter(files.values())) for part, files in texts.items() if is_test(part)]
    if not tests:
        raise UserError(f"{flag}: the test set is split off your text; do --prepare-only first")
    return sum(map(count_lines, tests))


def _rows(given: Given, plan: Plan, device: str) -> list[Number]:
    """The numbers of what was given, scored as the plan's runs are."""
    corpus, recipe, found = plan.runs[0].corpus, plan.runs[0].recipe, []
    references = read_lines(corpus.text("raw", "test", recipe.target))
    sets = read_test_sets(corpus.test_sets, len(references)) if recipe.has_named_tests else {}
    shown = {column.score for column in plan.table.columns}
    names = [name for name in all_scores(recipe) if name in shown]
    metrics = [build_metric(name, recipe.target, recipe.lowercase) for name in names]
    for name, paths in given.items():
        more = itertools.count(max(plan.seeds) + 1)
        scores = {}
        for seed, path in zip(itertools.chain(plan.seeds, more), paths, strict=False):
            lines = _translated(path, plan, device) if path.is_dir() else read_lines(path)
            check_parallel({f"--given {name}={path}": lines}, references)
            of_all = score_sets(metrics, lines, [references], sets)
            scores[seed] = {name: of_all[name] for name in names}
        found += numbers_of(name, scores, GIVEN)
    return found


def _translated(model: Path, plan: Plan, device: str) -> list[str]:
    """The test set as a model translates it with the search of the plan's runs, kept for later."""
    from ..models.translator import Translator  # here: it imports torch, which takes seconds

    run, trained = plan.runs[0], find_model(model)
    source = run.corpus.text("raw", "test", run.recipe.source)
    search = run.settings.generate
    parts = trained.prepared.of_model
    key = digest([*map(sha256, (trained.checkpoint, source, *parts)), search])
    kept = plan.workspace.root / "given" / f"{key[:16]}.txt"
    if not kept.exists():
        trained = replace(trained, settings={**trained.settings, "generate": search})
        print(f"translating the test set with {model}", flush=True)
        found = Translator(trained, device).translate(read_lines(source))
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_lines(kept, [best[0].text if best else "" for best in found])
    return read_lines(kept)
