"""Do runs: prepare their corpora, then do step after step, resumed where they stopped."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from zipfile import is_zipfile

from ...errors import UserError
from ..config.settings import WEIGHTS_OF
from ..corpora.pipeline import prepare
from ..files import provenance
from ..files.checkpoints import parameters_of, read_checkpoint, repair
from ..files.checkpoints import updates as updates_of
from ..files.deleting import check_inside, delete
from ..files.json_files import read_json, write_json
from ..files.processes import at_work, default_workers, locked, run_program
from ..files.writing import atomic_write, say
from ..scores.counts import Score
from .checks import check_run
from .curve import write_curve
from .devices import Devices, devices_of, without_launcher
from .fairseq_commands import RunCommands
from .folder import RunFolder
from .results import as_stored, read_begun
from .run_scores import VALID_LOSS, scores_of, valid_losses, write_counts
from .status import begin, changes
from .training_log import duration, last_record, parameters, progress_line
from .workspace import Run

SECONDS_BETWEEN_LINES = 30


class Stopped(Exception):
    """The user has stopped the runs."""


class RunInProgress:
    """A run at work on its devices, until ``stopped`` is set."""

    def __init__(
        self,
        run: Run,
        devices: Devices,
        keep_checkpoints: bool = False,
        stopped: threading.Event | None = None,
    ):
        self.run, self.devices = run, devices_of(run, devices)
        self.keep_checkpoints = keep_checkpoints
        self.stopped = stopped or threading.Event()
        self.folder: RunFolder = run.folder
        self.environment = devices.environment(without_launcher(os.environ))
        # Other if torchrun or SLURM started one process of its training for each device.
        self.training_environment = self.environment
        self.launch_flags: list[str] = []  # how these processes find each other
        self.lock: int | None = None
        self.shown = time.monotonic()
        self.shown_record: dict | None = None

    def complete(self) -> None:
        """Do all steps that are not done; raise Stopped if the user stops the runs."""
        self.folder.path.mkdir(parents=True, exist_ok=True)
        with locked(self.folder.lock, self._say, self._raise_if_stopped) as self.lock:
            begin(self.run, self.devices)
            for left in self.folder.path.glob(".*.tmp"):  # by a kill while a file was written
                delete(left, self.run.workspace.runs)
            settings, folder, commands = self.run.settings, self.folder, self.commands()
            self.check()
            if settings.aligner:
                self.step("align", [folder.trained], self.align_by_aligner)
                self.program("error rate", [folder.alignment_score], commands.aer())
            else:
                self.step("train", [folder.trained], self.train)
                self.step("average", [folder.model], self.average)
                self.evaluate(folder, "test")
                if settings.gates:
                    self.program("gates", [folder.gates], commands.gates())
                if settings.checkpoints.curve:
                    self.step("curve", [folder.curve], self.evaluate_curve)
            self.step("result", [folder.result], self.write_result)

    def evaluate(self, folder: RunFolder, subset: str, prefix: str = "") -> None:
        commands = self.commands(folder)

        def translate() -> None:
            unfinished = RunFolder(folder.path / "unfinished")
            command = commands.generate(unfinished.translation, subset)
            delete(unfinished.path, self.run.workspace.runs)
            self.run_program("translate", command, folder)
            unfinished.translation.rename(folder.translation)
            delete(unfinished.path, self.run.workspace.runs)

        self.step(f"{prefix}translate", [folder.translation], translate)
        # At checkpoints of a curve, the recipe's alone: of bad translations, TER takes minutes.
        at_end = folder == self.folder
        scores = () if at_end else self.run.recipe.scores
        makes, command = [folder.score, folder.hypotheses], commands.score(subset, scores)
        self.program("score", makes, command, folder, prefix)
        if self.run.measures_alignment:
            makes = [folder.alignment_score, folder.alignment]
            self.program("align", makes, commands.align(), folder, prefix)

    def commands(self, folder: RunFolder | None = None) -> RunCommands:
        return self.run.commands(self.devices, folder)

    def step(self, name: str, makes: list[Path], make: Callable[[], None]) -> None:
        """Do a step, unless what it makes stands there; no file is there before it is complete."""
        if all(path.exists() for path in makes):
            return
        started = time.monotonic()
        make()
        self._say(f"{name}: done in {duration(time.monotonic() - started)}")

    def program(
        self,
        name: str,
        makes: list[Path],
        command: list[str],
        folder: RunFolder | None = None,
        prefix: str = "",
    ) -> None:
        """A step that runs a program, which itself writes only complete files."""
        log = name.replace(" ", "-")
        self.step(f"{prefix}{name}", makes, lambda: self.run_program(log, command, folder))

    def train(self) -> None:
        """Train to the end, from the last whole checkpoint if there is one."""
        self.folder.checkpoints.mkdir(parents=True, exist_ok=True)
        for removed in repair(self.folder.checkpoints, self.run.workspace.runs):
            self._say(f"{removed} was cut off; removed")
        if self.run.settings.updates == 0:
            self.write_trained(updates=0, epoch=0, training_seconds=0.0)
            return
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
        updates = self.run.settings.updates
        if updates is None or not is_zipfile(last):  # or cut off: rank 0 repairs it
            return False
        return training_summary(self.folder)["updates"] >= updates

    def train_command(self) -> list[str]:
        return [*self.commands().train(self.run.seed), *self.launch_flags]

    def check(self) -> None:
        """Refuse what cannot go well: now the text is prepared."""
        check_run(self.run, self.devices)
        model = self.run.settings.train.get(WEIGHTS_OF)
        if model and not self.folder.trained.exists():
            from .fine_tuning import check_dictionaries  # which imports torch

            languages = self.run.recipe.languages
            check_dictionaries(Path(str(model)), self.run.corpus.binary, languages)

    def train_here(self, log: str = "train") -> None:
        self._say(f"trains on {self.devices}")
        self.run_program(log, self.train_command(), environment=self.training_environment)

    def average(self) -> None:
        """Average the last checkpoints, or fewer if the training has ended early."""
        settings = self.run.settings
        if settings.updates == 0:
            with atomic_write(self.folder.model) as file:
                file.write(Path(str(settings.train[WEIGHTS_OF])).read_bytes())
            return
        done = (read_json(self.folder.trained) or {}).get("updates")
        self.run_program("average", self.commands().average(done))

    def evaluate_curve(self) -> None:
        """Measure the checkpoints of the curve like the run's own model."""
        from ...tasks.resumable import numbered_checkpoints

        interval = self.run.settings.curve_interval
        subset = self.run.settings.checkpoints.curve_on
        losses = valid_losses(self.folder.log("train"))

        def score(updates: int, checkpoint: Path) -> dict[str, Score]:
            folder = self.folder.point(updates)
            folder.path.mkdir(parents=True, exist_ok=True)
            delete(folder.model, self.run.workspace.runs)
            folder.model.symlink_to(checkpoint.resolve())
            self.evaluate(folder, subset, f"update {updates}: ")
            delete(folder.model, self.run.workspace.runs)  # its checkpoint will be gone
            loss = {VALID_LOSS: losses[updates]} if updates in losses else {}
            return scores_of(folder) | loss

        saved = numbered_checkpoints(self.folder.checkpoints).items()
        chosen = {updates: path for updates, path in saved if updates % interval == 0}
        write_curve(self.folder.curve, subset, chosen, score)

    def align_by_aligner(self) -> None:
        """Align training text and hand-aligned sentences together by the statistical aligner."""
        corpus, folder = self.run.corpus, self.folder
        if not self.run.recipe.gold:
            raise UserError(
                f"{self.run.settings.aligner} is measured on hand-aligned sentences, and this text "
                "has none"
            )
        folder.aligned_text.mkdir(exist_ok=True)
        for language in self.run.recipe.languages:
            texts = {
                "train": corpus.text("subwords", "train", language),
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

    def write_result(self) -> None:
        result = make_result(self.run, self.devices)
        if not self.keep_checkpoints:
            try:
                delete(self.folder.checkpoints, self.run.workspace.runs)
            except OSError as error:  # the result is written anyway
                self._say(f"{self.folder.checkpoints} was not removed: {error.strerror or error}")
        write_counts(self.run)
        write_json(self.folder.result, result)

    def run_program(
        self,
        log: str,
        command: list[str],
        folder: RunFolder | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Run a program to its end, with its log in the run's folder or another one."""

        def look() -> None:
            self._raise_if_stopped()
            if log == "train":
                self._show_progress()

        path = (folder or self.folder).log(log)
        run_program(command, path, environment or self.environment, self.lock, look)

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
            self._say(progress_line(record, self.run.settings.updates))

    def _say(self, line: str) -> None:
        say(f"   {self.run.name}: {line}")


def make_result(run: Run, devices: Devices) -> dict:
    """A run's numbers, and all that is needed to trace and repeat them."""
    folder = run.folder
    trained = read_json(folder.trained) or {}
    begun = read_begun(folder.begun) or {}
    manifest = run.manifest
    if manifest is None:
        raise UserError("its corpus is no longer there; prepare it again")
    if changed := changes(run, begun):
        raise UserError(f"while it was done, this has changed: {changed}; run it again")
    return {
        "name": run.name,
        **run.cell._asdict(),
        "seed": run.seed,
        "profile": run.workspace.profile.name,
        "label": run.label,
        "identity": begun["identity"],
        "corpus": {
            "name": manifest.corpus,
            "source": manifest.source,
            "target": manifest.target,
            "counts": manifest.counts,
            **({"tests": manifest.tests} if manifest.tests else {}),
            "archives": manifest.archives,
            "gold": manifest.gold,
            **({"alignments": manifest.alignments} if run.settings.needs_alignments else {}),
            "digest": manifest.digest,
        },
        "settings": run.settings.as_dict(),
        "commands": {
            **run.commands(devices).by_step(run.seed, trained["updates"]),
            **({"train": trained["command"]} if "command" in trained else {}),
        },
        "updates": trained["updates"],
        "epoch": trained["epoch"],
        "training_seconds": trained["training_seconds"],
        "parameters": _parameters(run),
        "scores": as_stored(scores_of(folder)),
        "sentences": (read_json(folder.score) or {}).get("sentences", 0),
        **(read_json(folder.curve) or {}),
        "devices": trained["devices"],
        "hardware": trained["hardware"],
        "versions": provenance.versions(),
        "code": provenance.code(),
        "finished": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _parameters(run: Run) -> int:
    if run.settings.aligner:
        return 0
    if run.settings.updates != 0:
        return parameters(run.folder.log("train"))
    return parameters_of(read_checkpoint(run.folder.model))


def training_summary(folder: RunFolder) -> dict:
    """How far a training got, from its last checkpoint."""
    path = folder.checkpoints / "checkpoint_last.pt"
    if not path.is_file():
        raise UserError(f"the training has ended without {path}; see {folder.log('train')}")
    state = read_checkpoint(path)
    where = state["extra_state"]["train_iterator"]
    ended = where.get("iterations_in_epoch") == 0  # fairseq then names the next epoch
    return {
        "updates": updates_of(state),
        "epoch": max(1, where["epoch"] - ended),
        # fairseq's own count, over all interruptions; a tensor if several processes trained.
        "training_seconds": round(float(state["extra_state"]["previous_training_time"]), 1),
    }


def delete_run(run: Run) -> None:
    """Delete a run, so that it can start over."""
    folder, inside = run.folder, run.workspace.runs
    if not folder.path.exists():
        return

    check_inside(folder.begun, inside)  # before anything is written

    def refuse() -> None:
        raise UserError(f"{at_work(folder.lock) or 'another process'} is at work on it")

    with locked(folder.lock, lambda _: None, refuse):
        # The last that was made first: if this is interrupted, what is left is still a run's.
        first = [*folder.following, folder.model, folder.trained, folder.checkpoints]
        others = {*folder.path.iterdir()} - {*first, folder.lock, folder.begun}
        for path in (*first, *others, folder.begun):
            delete(path, inside)  # but the lock, which waiting processes hold


def prepare_corpora(runs: list[Run], downloads: Path | None) -> tuple[list[Run], list[str]]:
    """Prepare the corpora of runs; return the runs whose corpus is ready, and what went wrong."""
    failed: dict[Path, str] = {}
    for folder in dict.fromkeys(run.corpus_folder for run in runs):
        users = [run for run in runs if run.corpus_folder == folder]
        run = users[0]
        say(f"\n== Corpus {run.settings.corpus} in {folder}")
        try:
            if run.recipe.lacks_text:
                raise UserError("this recipe is for your own text; name it by --text DIR")
            made = prepare(
                run.recipe,
                folder,
                downloads=downloads or run.workspace.root / "downloads",
                workers=default_workers(),
                alignments=any(user.settings.needs_alignments for user in users),
            )
            say(f"   {made.pairs}")
        except UserError as error:
            failed[folder] = f"  corpus {folder.name}: {error}"
    ready = [run for run in runs if run.corpus_folder not in failed]
    return ready, list(failed.values())
