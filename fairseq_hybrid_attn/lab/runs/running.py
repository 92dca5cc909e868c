"""Do a run: its stages, one after the other, resumed where they stopped."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from zipfile import is_zipfile

from ...errors import UserError
from ...tasks.resumable import numbered_checkpoints
from ..files import provenance
from ..files.checksums import digest
from ..files.console import Console, progress_line
from ..files.deleting import delete
from ..files.json_files import write_json
from ..files.lock import locked
from ..files.processes import ProgramFailed, run_program
from ..files.stages import Stage, Workshop
from .devices import Devices, without_launcher
from .fairseq_commands import RunCommands, RunFolder
from .results import make_result, training_summary
from .run_counts import write_counts
from .run_folders import begin, devices_of, repair
from .run_scores import VALID_LOSS, scores_of, valid_losses
from .training_log import last_record
from .workspace import Run

SECONDS_BETWEEN_LINES = 30
#: Flags that can end a training after any number of updates.
ENDING = {"max-epoch", "patience", "stop-min-lr", "stop-time-hours"}


class Stopped(Exception):
    """The user has stopped the runs."""


class RunInProgress:
    """A run at work on its devices, until ``stopped`` is set."""

    def __init__(
        self,
        run: Run,
        devices: Devices,
        console: Console,
        stopped: threading.Event,
        keep_checkpoints: bool = False,
    ):
        self.run, self.devices = run, devices_of(run, devices)
        self.console, self.stopped = console, stopped
        self.keep_checkpoints = keep_checkpoints
        self.folder: RunFolder = run.folder
        self.environment = devices.environment(without_launcher(os.environ))
        self.lock: int | None = None
        self.launch_flags: list[str] = []  # how its processes find each other, on many nodes
        self.shown = time.monotonic()
        self.shown_record: dict | None = None

    def complete(self) -> None:
        """Do all stages that are not done; raise Stopped if the user stops the runs."""
        self.folder.path.mkdir(parents=True, exist_ok=True)
        with self.locked() as self.lock:
            begin(self.run, self.devices)
            for left in self.folder.path.glob(".*.tmp"):  # by a kill while a file was written
                delete(left, self.run.workspace.runs)
            self.do(self.folder, self.stages())

    def locked(self):
        """Lock the run's folder once no other process holds it; yield the lock."""
        return locked(self.folder.lock, self._say, self._raise_if_stopped)

    def do(self, folder: RunFolder, stages: list[Stage], what: str = "") -> None:
        inside = self.run.workspace.runs
        shop = Workshop(folder.path, lambda line: self._say(what + line), None, True, inside)
        shop.clear()
        shop.adopt(stages)
        for stage in stages:
            shop.ensure(stage)

    def stages(self) -> list[Stage]:
        """All stages, in order; the result is the last, since a run that has one is done."""
        folder, settings, commands = self.folder, self.run.settings, self.commands()
        if settings.aligner:
            align = self.stage("align", [folder.trained], self.align_by_aligner)
            rate = self.command("error rate", [folder.alignment_score], commands.aer(), align)
            return [align, rate, self.stage("result", [folder.result], self.write_result, rate)]
        train = self.stage("train", [folder.trained], self.train)
        average = self.stage("average", [folder.model], self.average, train)
        measured = self.evaluation(folder, "test", average)
        if settings.gates:
            measured.append(self.command("gates", [folder.gates], commands.gates(), average))
        if settings.checkpoints.curve:
            measured.append(self.stage("curve", [folder.curve], self.evaluate_curve, train))
        result = self.stage("result", [folder.result], self.write_result, *measured)
        return [train, average, *measured, result]

    def evaluation(self, folder: RunFolder, subset: str, *needs: Stage) -> list[Stage]:
        """The stages that measure the model in a folder on a set."""
        commands = self.commands(folder)

        def translate(apart: Path) -> None:
            command = commands.generate(RunFolder(apart).translation, subset)
            self.run_program("translate", command, folder)

        translated = self.stage(
            "translate", [folder.translation], translate, *needs, in_place=False
        )
        makes, command = [folder.score, folder.hypotheses], commands.score(subset)
        score = self.command("score", makes, command, translated, folder=folder)
        # A recipe may get more scores later: they are not of the corpus, so not in its digest.
        key = digest([score.key, self.run.recipe.scores])
        stages = [translated, replace(score, key=key)]
        if self.run.measures_alignment:
            makes = [folder.alignment_score, folder.alignment]
            stages.append(self.command("align", makes, commands.align(), *needs, folder=folder))
        return stages

    def commands(self, folder: RunFolder | None = None) -> RunCommands:
        return self.run.commands(self.devices, folder)

    def stage(self, name: str, makes: list[Path], make, *needs: Stage, in_place=True) -> Stage:
        """A stage; begun.json guards everything else, so the settings' digest is its key."""
        key = self.run.settings.digest
        return Stage(name, name, tuple(path.name for path in makes), key, make, needs, in_place)

    def command(self, name: str, makes: list[Path], command: list[str], *needs, folder=None):
        """A stage that runs a program, which itself writes only complete files."""
        log = name.replace(" ", "-")
        return self.stage(name, makes, lambda _: self.run_program(log, command, folder), *needs)

    def train(self, _=None) -> None:
        """Train to the end, from the last whole checkpoint if there is one."""
        if self.folder.trained.exists():  # by a process that was killed before it could record this
            return
        self.folder.checkpoints.mkdir(parents=True, exist_ok=True)
        for removed in repair(self.folder.checkpoints, self.run.workspace.runs):
            self._say(f"{removed} was cut off; removed")
        if not self.is_trained():
            try:
                self.train_here()
            finally:
                for half in self.folder.checkpoints.glob("*.tmp"):  # left on a full disk
                    delete(half, self.run.workspace.runs)
        self.write_trained(**training_summary(self.folder), command=self.train_command())

    def write_trained(self, **facts: object) -> None:
        """Record that the training is done, on which devices, and how far it got."""
        where = {"devices": str(self.devices), "hardware": provenance.hardware()}
        write_json(self.folder.trained, {**facts, **where})

    def is_trained(self) -> bool:
        """Whether all updates are made; fairseq-train would make one more before it checks."""
        last = self.folder.checkpoints / "checkpoint_last.pt"
        updates = self.run.settings.train.get("max-update")
        if updates is None or not is_zipfile(last):  # or cut off: rank 0 repairs it
            return False
        return training_summary(self.folder)["updates"] >= int(updates)

    def train_command(self) -> list[str]:
        return [*self.commands().train(self.run.seed), *self.launch_flags]

    def train_here(self, log: str = "train") -> None:
        """Run fairseq-train, perhaps as one process of many."""
        self._say(f"trains on {self.devices}")
        self.run_program(log, self.train_command())

    def average(self, _) -> None:
        """Average the last checkpoints, or fewer if the training may have ended before them."""
        checkpoints, settings = self.folder.checkpoints, self.run.settings
        early = ENDING & settings.train.keys() and settings.checkpoints.unit == "update"
        saved = len(numbered_checkpoints(checkpoints)) if early else None
        self.run_program("average", self.commands().average(saved))

    def evaluate_curve(self, _) -> None:
        """Measure the checkpoints of the curve like the run's own model."""
        interval = self.run.settings.curve_interval
        subset = self.run.settings.checkpoints.curve_on
        losses = valid_losses(self.folder.log("train"))
        saved = numbered_checkpoints(self.folder.checkpoints)
        curve = []
        for updates in (updates for updates in sorted(saved) if updates % interval == 0):
            folder = self.folder.point(updates)
            folder.path.mkdir(parents=True, exist_ok=True)
            delete(folder.model, self.run.workspace.runs)
            folder.model.symlink_to(saved[updates].resolve())
            self.do(folder, self.evaluation(folder, subset), f"update {updates}: ")
            delete(folder.model, self.run.workspace.runs)  # its checkpoint will be gone
            loss = {VALID_LOSS: losses[updates]} if updates in losses else {}
            curve.append({"updates": updates, "scores": {**scores_of(folder)["scores"], **loss}})
        write_json(self.folder.curve, {"curve": curve, "curve_set": subset})

    def align_by_aligner(self, _) -> None:
        """Align training text and hand-aligned sentences together by the statistical aligner."""
        corpus, folder = self.run.prepared_corpus, self.folder
        if not corpus.gold:
            raise UserError(
                f"{self.run.settings.aligner} is measured on hand-aligned sentences, and this text "
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
                delete(link, self.run.workspace.runs)
                link.symlink_to(text)
        started = time.monotonic()
        self.run_program("align", self.commands().align_training())
        seconds = round(time.monotonic() - started, 1)
        self.write_trained(updates=0, epoch=0, training_seconds=seconds)

    def write_result(self, _) -> None:
        result = make_result(self.run, self.devices)
        if self.folder.checkpoints.is_symlink():
            self._say(f"{self.folder.checkpoints} was not removed: it is a link")
        elif not self.keep_checkpoints:
            try:
                delete(self.folder.checkpoints, self.run.workspace.runs)
            except OSError as error:  # the result is written anyway
                self._say(f"{self.folder.checkpoints} was not removed: {error.strerror or error}")
        write_counts(self.run)
        write_json(self.folder.result, result)

    def run_program(self, log: str, command: list[str], folder: RunFolder | None = None) -> None:
        """Run a program to its end, with its log in the run's folder or another one."""
        path = (folder or self.folder).log(log)

        def look() -> None:
            self._raise_if_stopped()
            if log == "train":
                self._show_progress()

        try:
            run_program(command, path, self.environment, self.lock, look)
        except ProgramFailed as error:
            raise ProgramFailed(f"{error}\n   Full log: {path}") from None

    def _raise_if_stopped(self) -> None:
        if self.stopped.is_set():
            raise Stopped

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
