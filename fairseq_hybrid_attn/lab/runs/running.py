"""Doing a run: its steps, one after the other.

Every step leaves a file or folder under its final name when it is done, so that a run which was
stopped, by whatever means, goes on with the first step that is missing.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ...errors import UserError
from ...tasks.resumable import numbered_checkpoints
from ..engine import provenance
from ..engine.console import Console, duration, progress_line
from ..engine.programs import Programs
from ..files.json_files import write_json
from ..text.training_log import last_record
from .command_lines import (
    RunFolder,
    aer_command,
    align_command,
    align_training_command,
    average_command,
    gates_command,
    generate_command,
    score_command,
    train_command,
)
from .devices import Devices, without_launcher
from .results import VALID_LOSS, make_result, scores_of, training_summary, valid_losses
from .run_folders import begin, locked, repair
from .workspace import Run

SECONDS_BETWEEN_LINES = 30


@dataclass(frozen=True)
class Step:
    """A step of a run: what it is called, whether it is done, and how to do it."""

    name: str
    done: Callable[[], bool]
    do: Callable[[], None]


class RunInProgress:
    """A run at work on its devices.

    Args:
        run: what to do.
        devices: on what.
        programs: starts programs.
        console: for the user.
        keep_checkpoints: leave the checkpoints when the result is written.
    """

    def __init__(
        self,
        run: Run,
        devices: Devices,
        programs: Programs,
        console: Console,
        keep_checkpoints: bool = False,
    ):
        self.keep_checkpoints = keep_checkpoints
        self.run = run
        self.devices = devices
        self.programs = programs
        self.console = console
        self.folder: RunFolder = run.folder
        self.environment = devices.environment(without_launcher(os.environ))
        self.lock: int | None = None
        self.launch_flags: list[str] = []  # how its processes find each other, on many nodes
        self.shown = time.monotonic()
        self.shown_record: dict | None = None

    def steps(self) -> list[Step]:
        """All steps, in order."""
        folder = self.folder
        result = Step("result", folder.result.exists, self.write_result)
        if self.run.settings.aligner:
            return [
                Step("align", folder.trained.exists, self.align_by_aligner),
                Step("error rate", folder.alignment_score.exists, self.rate_aligner),
                result,
            ]
        gates = Step("gates", folder.gates.exists, self.measure_gates)
        curve = Step("curve", folder.curve.exists, self.evaluate_curve)
        return [
            Step("train", folder.trained.exists, self.train),
            Step("average", folder.model.exists, self.average),
            *self.evaluation(folder),
            *([gates] if self.run.settings.gates else []),
            *([curve] if self.run.settings.checkpoints.curve else []),
            Step("tidy", self.is_tidy, self.tidy),
            result,  # the last, since a run that has one is not visited again
        ]

    def evaluation(self, folder: RunFolder, subset: str = "test") -> list[Step]:
        """The steps that measure a model, which is in the folder, on a set."""
        align = Step("align", folder.alignment_score.exists, partial(self.align, folder))
        return [
            Step("translate", folder.translation.exists, partial(self.translate, folder, subset)),
            Step("score", folder.score.exists, partial(self.score, folder, subset)),
            *([align] if self.run.measures_alignment else []),
        ]

    def complete(self) -> None:
        """Do all steps that are not done.

        Raises:
            UserError: if the run was begun with other settings or data.
            StepFailed: if a program fails.
            Stopped: if the user has stopped the runs.
        """
        self.folder.path.mkdir(parents=True, exist_ok=True)
        with locked(self.folder.lock, self.programs, self._say) as self.lock:
            begin(self.run, self.devices.world)
            for left in self.folder.path.glob(".*.tmp"):  # by a kill while a file was written
                left.unlink()
            self.do(self.steps())

    def do(self, steps: list[Step], what: str = "") -> None:
        """Do the steps that are not done."""
        for step in steps:
            if not step.done():
                started = time.monotonic()
                step.do()
                self._say(f"{what}{step.name}: done in {duration(time.monotonic() - started)}")

    def train(self) -> None:
        """Train to the end, from the last whole checkpoint if there is one."""
        self.folder.checkpoints.mkdir(parents=True, exist_ok=True)
        for removed in repair(self.folder.checkpoints):
            self._say(f"{removed} was cut off; removed")
        if not self.is_trained():
            self.train_here()
        write_json(
            self.folder.trained,
            {
                **training_summary(self.folder),
                "command": self.train_command(),
                "devices": str(self.devices),
                "hardware": provenance.hardware(),
            },
        )

    def is_trained(self) -> bool:
        """Whether all updates are made, if a kill kept us from noting it.

        Asked for one more time, fairseq-train makes an update before it looks how many there are.
        """
        last = self.folder.checkpoints / "checkpoint_last.pt"
        updates = self.run.settings.train.get("max-update")
        if updates is None or not last.exists():
            return False
        return training_summary(self.folder)["updates"] >= int(updates)

    def train_command(self) -> list[str]:
        """fairseq-train as it is run here."""
        run = self.run
        return [
            *train_command(run.settings, run.treatment, self.folder, self.devices, run.seed),
            *self.launch_flags,
        ]

    def train_here(self, log: str = "train") -> None:
        """Run fairseq-train, perhaps as one process of many."""
        self.programs.run(
            self.train_command(),
            self.environment,
            self.folder.log(log),
            self.lock,
            self._show_progress,
        )

    def average(self) -> None:
        """Average the last checkpoints, or take the best."""
        self._command("average", average_command(self.run.settings, self.folder))

    def translate(self, folder: RunFolder, subset: str) -> None:
        """Translate a set."""
        unfinished = folder.path / "translation.partial"
        shutil.rmtree(unfinished, ignore_errors=True)
        run = self.run
        self._command(
            "translate",
            generate_command(run.settings, run.treatment, folder, self.devices, unfinished, subset),
            folder,
        )
        unfinished.rename(folder.translation)

    def score(self, folder: RunFolder, subset: str) -> None:
        """Score the translation."""
        self._command("score", score_command(self.run.treatment, folder, subset), folder)

    def align(self, folder: RunFolder) -> None:
        """Align the hand-aligned sentences by the model's attention, and score that."""
        run = self.run
        command = align_command(run.settings, run.treatment, folder, self.devices)
        self._command("align", command, folder)

    def measure_gates(self) -> None:
        """Take the means of the model's gates."""
        run = self.run
        command = gates_command(run.settings, run.treatment, self.folder, self.devices)
        self._command("gates", command)

    def evaluate_curve(self) -> None:
        """Measure the checkpoints of the curve as the run's own model is measured."""
        interval = self.run.settings.curve_interval
        subset = self.run.settings.checkpoints.curve_on
        losses = valid_losses(self.folder.log("train"))
        saved = numbered_checkpoints(self.folder.checkpoints)
        points = [updates for updates in sorted(saved) if updates % interval == 0]
        for updates in points:
            folder = self.folder.point(updates)
            folder.path.mkdir(parents=True, exist_ok=True)
            folder.model.unlink(missing_ok=True)
            folder.model.symlink_to(saved[updates].resolve())
            self.do(self.evaluation(folder, subset), f"update {updates}: ")
            folder.model.unlink()  # its checkpoint will be gone
        curve = [
            {
                "updates": updates,
                "scores": {
                    **scores_of(self.folder.point(updates))["scores"],
                    **({VALID_LOSS: losses[updates]} if updates in losses else {}),
                },
            }
            for updates in points
        ]
        write_json(self.folder.curve, {"curve": curve, "curve_set": subset})

    def align_by_aligner(self) -> None:
        """Have the statistical aligner align training text and hand-aligned sentences together."""
        corpus, folder = self.run.treatment, self.folder
        if not corpus.gold:
            raise UserError(
                f"{self.run.settings.aligner} is measured by hand-aligned sentences, and this text "
                "has none"
            )
        folder.aligned_text.mkdir(exist_ok=True)
        for language in (corpus.source, corpus.target):
            texts = {
                "train": corpus.folder / "subwords" / f"train.{language}",
                "gold": corpus.gold_file(f"subwords.{language}"),
            }
            for name, text in texts.items():
                link = folder.aligned_text / f"{name}.{language}"
                link.unlink(missing_ok=True)
                link.symlink_to(text)
        command = align_training_command(corpus, folder)
        started = time.monotonic()
        self._command("align", command)
        write_json(
            folder.trained,
            {
                "updates": 0,
                "epoch": 0,
                "training_seconds": round(time.monotonic() - started, 1),
                "devices": str(self.devices),
                "hardware": provenance.hardware(),
            },
        )

    def rate_aligner(self) -> None:
        """Score what the statistical aligner made."""
        self._command("error-rate", aer_command(self.run.treatment, self.folder))

    def write_result(self) -> None:
        """Write the result file."""
        write_json(self.folder.result, make_result(self.run, self.devices))

    def is_tidy(self) -> bool:
        """Whether there is nothing left to remove."""
        return self.keep_checkpoints or not self.folder.checkpoints.exists()

    def tidy(self) -> None:
        """Remove the checkpoints, which have served."""
        try:
            shutil.rmtree(self.folder.checkpoints)
        except OSError as error:  # a link, say; no reason to have no result
            self._say(f"{self.folder.checkpoints} is left: {error.strerror or error}")

    def _command(self, name: str, command: list[str], folder: RunFolder | None = None) -> None:
        log = (folder or self.folder).log(name)
        self.programs.run(command, self.environment, log, self.lock)

    def _show_progress(self) -> None:
        if time.monotonic() - self.shown < SECONDS_BETWEEN_LINES:
            return
        self.shown = time.monotonic()
        record = last_record(self.folder.log("train"))
        if record is not None and record != self.shown_record:
            self.shown_record = record
            self._say(progress_line(record, self.run.settings.train.get("max-update")))

    def _say(self, line: str) -> None:
        self.console.say(f"   {self.run.name}: {line}")
