"""A workspace as `reproduce` leaves it, made by hand: runs with any translations, no models."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import json
import random
import shutil
from pathlib import Path

import numpy as np
from cli import changed_folder
from sacrebleu.metrics import BLEU
from workspaces import write_configs

from fairseq_hybrid_attn.lab.alignment.error_rate import rates
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.config.paper_tables import load_table
from fairseq_hybrid_attn.lab.config.settings import load_profile
from fairseq_hybrid_attn.lab.corpora.manifest import Manifest
from fairseq_hybrid_attn.lab.plan.plan import Plan
from fairseq_hybrid_attn.lab.run.run_scores import write_counts
from fairseq_hybrid_attn.lab.run.status import identity
from fairseq_hybrid_attn.lab.run.workspace import OwnText, Run, Workspace
from fairseq_hybrid_attn.lab.scores.counts import Score, SentenceCounts, scores_as_dict
from fairseq_hybrid_attn.lab.scores.metrics import build_metric

WORDS = "the a dog cat house tree sees hears likes old new green".split()


def sentences(count: int, seed: int, low: int = 4, high: int = 9) -> list[str]:
    choose = random.Random(seed)
    return [" ".join(choose.choices(WORDS, k=choose.randint(low, high))) for _ in range(count)]


def worse(lines: list[str], share: float, seed: object) -> list[str]:
    """The lines, with this share of the words replaced."""
    choose = random.Random(str(seed))
    return [
        " ".join(word if choose.random() > share else choose.choice(WORDS) for word in line.split())
        for line in lines
    ]


REFERENCES = sentences(60, seed=0)
SOURCES = sentences(60, seed=1, low=1, high=12)


def manifest(**facts: object) -> Manifest:
    """What is said of a corpus that was prepared."""
    counts = {"train": 2, "valid": 2, "test": 60}
    kinds = {"str": "", "bool": True, "dict | None": None, "str | None": None}
    empty = {field.name: kinds.get(field.type, {}) for field in dataclasses.fields(Manifest)}
    return Manifest(**{**empty, "source": "de", "target": "en", "counts": counts, **facts})


class MadeWorkspace:
    """Configurations, text and runs in a folder."""

    def __init__(self, folder: Path, **files: dict):
        """Write the configurations ``files`` and the text, unless the folder is a copy."""
        self.folder, self.configs = folder, folder / "configs"
        if not self.configs.is_dir():
            write_configs(self.configs, **files)
            (folder / "text").mkdir()
            parts = {"train": "xx", "valid": "xx", "test": (SOURCES, REFERENCES)}
            for part, sides in parts.items():
                for language, lines in zip(("de", "en"), sides, strict=True):
                    write_lines(folder / f"text/{part}.{language}", lines)
        own = OwnText((folder / "text",), "de", "en")
        self.workspace = Workspace(
            folder / "out", self.configs, load_profile("full", self.configs), own
        )

    def copy(self, folder: Path) -> MadeWorkspace:
        """A copy in another folder, to be changed."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return MadeWorkspace(folder)

    def plan(self, table: str = "toy/table1", seeds: tuple[int, ...] = (1, 2)) -> Plan:
        found = load_table(table, self.configs)
        return Plan(found, self.workspace, tuple(found.cells()), seeds)

    def run(self, row: str, column: str = "bleu", seed: int = 1, table="toy/table1") -> Run:
        cells = {(c.row.name, c.column.name): c for c in self.plan(table).cells}
        return self.workspace.run(cells[row, column], seed)

    def finish(self, run: Run, translations: list[str], scores=(), **facts) -> None:
        """Give a run a result and counts, and its corpus a manifest."""
        digest = run.recipe.digest({})
        write_lines(run.corpus.text("raw", "test", run.recipe.target), REFERENCES)
        write_lines(run.corpus.text("tokenised", "test", run.recipe.source), SOURCES)
        manifest(digest=digest).write(run.corpus_folder)
        write_lines(run.folder.hypotheses, translations)
        bleu = build_metric("bleu", "en").score(translations, REFERENCES)
        count = len(REFERENCES)
        kept = {"systems": {"run": [scores_as_dict({"bleu": bleu})]}, "sentences": count}
        run.folder.score.write_text(json.dumps({**kept, "parts": {"": [0, count]}}))
        plain = {"bleu": {"value": bleu.value, "signature": bleu.signature}}
        plugin = f"/there/{run.name}/fairseq_hybrid_attn"
        result = {
            **{"name": run.name, **run.cell._asdict()},
            **{"seed": run.seed, "label": run.workspace.label, "identity": identity(run)},
            "corpus": {"source": "de", "target": "en", "counts": {"test": 60}, "digest": digest},
            **{"settings": run.settings.as_dict(), "updates": 60, "epoch": 1},
            "commands": {"train": ["fairseq-train", str(run.corpus_folder), "--user-dir", plugin]},
            **{"training_seconds": 90.0, "parameters": 1000, "sentences": 60},
            "scores": {**plain, **dict(scores)},
            **{"devices": "CPU", "hardware": {"processor": "x", "gpus": []}, "versions": {"a": 1}},
            **{"code": {"commit": "c", "digest": "d", "modified": False}, "finished": "now"},
            **facts,
        }
        write_counts(run)
        run.folder.result.write_text(json.dumps(result))
        run.folder.begun.write_text(json.dumps({"identity": result["identity"]}))

    def align(self, run: Run, **counts: list[tuple]) -> None:
        """Give a run a result with alignment error rates (``aer``, ``aer_head2``) of counts."""
        found: dict[str, Score] = {}
        for name, rows in counts.items():
            of_rows = SentenceCounts("aer", np.array(rows), "gold")
            found[name.replace("_", ".")] = rates(of_rows)["aer"]
        run.folder.path.mkdir(parents=True, exist_ok=True)
        run.folder.alignment_score.write_text(
            json.dumps({"systems": {"run": [scores_as_dict(found)]}})
        )
        plain = {
            name: {"value": one.value, "signature": one.signature} for name, one in found.items()
        }
        self.finish(run, REFERENCES, plain)

    def change(self, run: Run, **facts: object) -> None:
        """Change what a run's result says."""
        result = json.loads(run.folder.result.read_text())
        run.folder.result.write_text(json.dumps({**result, **facts}))

    def make_stale(self, run: Run) -> None:
        """Give a run's result the identity of other settings."""
        result = json.loads(run.folder.result.read_text())
        result["identity"]["training"]["settings"] = "other"
        run.folder.result.write_text(json.dumps(result))

    def cells(self, table: str, *flags: str) -> dict[tuple[str, str], dict[str, str]]:
        """The table's CSV, by row and column; of a curve, the last point."""
        self.hybrid("table", table, "--write", "cells.csv", *flags)
        with open(self.folder / "cells.csv", newline="") as file:
            return {(cell["row"], cell["column"]): cell for cell in csv.DictReader(file)}

    def hybrid(self, *arguments: object) -> str:
        """What a command prints; unless ``--output`` is given, it is about this workspace."""
        words = [str(word) for word in arguments]
        if "--output" not in words:
            words += ["--configs", "configs", "--text", "text", "--output", "out"]
        with changed_folder(self.folder), contextlib.redirect_stdout(io.StringIO()) as printed:
            main(words)
        return printed.getvalue()


def score(translations: list[str], references: list[str]) -> float:
    return BLEU().corpus_score(translations, [references]).score


def write_lines(path: Path, lines: list[str] | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
