"""Do runs as jobs of a cluster: SLURM, through submitit, or this machine to try it.

A job that is preempted or out of time is requeued, and resumes from its run's last checkpoint.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..cli.flags import import_user_dir
from ..files.json_files import read_json, write_json
from .devices import slots
from .workspace import Run, Workspace

#: How often a job may run out of time and be requeued.
TIMES = 100
#: A job's time limit, unless --sbatch has another, and the least: SLURM gives notice of its end 90
#: to 150 seconds before, which a job must have begun to hear.
LIMIT, LEAST = "24:00:00", 3
#: What jobs ask for, unless --sbatch has other: CPUs, and memory in GB, a GPU or else a job.
CPUS_PER_GPU, CPUS_OF_CORPUS, MEMORY = 2, 4, 8
#: SLURM's states of jobs that have ended.  In any other, a job will still run.
ENDED = "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY TIMEOUT".split()
#: Seconds that squeue has to answer.
PATIENCE = 60
#: SLURM's notice reaches fairseq's processes as well and may end them first.  Then wait this long,
#: in seconds, for it to reach us; if it was SIGTERM, also until SLURM kills the job.
GRACE, UNTIL_KILLED = 5, 3600
#: The numbers of the last jobs, in the folder of their logs.
RECORD = "jobs.json"
#: Options of sbatch with which jobs would not be found, requeued or resumed.
REFUSED = "array dependency error no_requeue nodes ntasks ntasks_per_node open_mode output parsable"
REFUSED += " quiet signal test_only"
#: Options that exclude ours, and those that the job of a corpus does not take from the runs'.
INSTEAD = {
    "mem": ("mem_per_cpu", "mem_per_gpu"),
    "gpus_per_node": ("gpus", "gpus_per_task", "gres"),
}
OF_RUNS = ("cpus", "gpu", "gres", "job_name", "mem")
#: The flags that are about jobs only.
DEFAULTS: dict = {"cluster": "slurm", "sbatch": [], "corpus_sbatch": [], "setup": []}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("as jobs of a cluster")
    group.add_argument(
        "--slurm",
        action="store_true",
        help="submit each run as a job of its own, after a job that prepares its corpus; again, "
        "the same command tells which jobs wait or have failed, and submits what is missing",
    )
    group.add_argument(
        "--cluster",
        choices=("slurm", "local"),
        help="local: --slurm makes its jobs processes of this machine, to try it",
    )
    for flag, what in (
        ("sbatch", f'options of sbatch, such as "partition=gpu account=me exclusive time={LIMIT}"'),
        (
            "corpus-sbatch",
            "those of a corpus' job (default: the runs', but for CPUs, GPUs, memory)",
        ),
        ("setup", 'a command that jobs run first, such as "module load cuda"'),
    ):
        group.add_argument(f"--{flag}", action="append", metavar="TEXT", help=f"{what}; repeatable")
    parser.set_defaults(**DEFAULTS)


def check(args: argparse.Namespace) -> None:
    """Check that jobs can be submitted; the devices are those of the jobs, not of this machine."""
    if not args.slurm:
        # Without this, the runs would be done here, perhaps on the node on which one logs in.
        for name, default in DEFAULTS.items():
            if getattr(args, name) != default:
                flag = name.replace("_", "-")
                raise UserError(
                    f"--{flag} is about jobs of a cluster; add --slurm, or leave it out"
                )
        return
    _submitit()
    for options in (args.sbatch, args.corpus_sbatch):
        minutes(str(options_of(options).get("time", LIMIT)))
    if args.cluster == "slurm":
        if not (shutil.which("sbatch") and shutil.which("srun")):
            raise UserError(
                "--slurm: this machine has no sbatch, so it is not one of a SLURM cluster; submit "
                "from a login node, or leave out --slurm to run here (--cluster local tries the "
                "jobs on this machine)"
            )
        if args.jobs:
            raise UserError("--jobs is about this machine; SLURM decides how many jobs run at once")
        if args.device == "auto":
            args.device = "cuda"


def options_of(texts: list[str]) -> dict[str, str | bool]:
    """The options in texts of ``--sbatch``, with underscores in their names; True for flags."""
    options: dict[str, str | bool] = {}
    for word in shlex.split(" ".join(texts)):
        name, given, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not re.fullmatch("[a-z][a-z_]*", name):
            raise UserError(
                f"--sbatch {word}: use sbatch's long options: NAME=VALUE, or NAME alone"
            )
        if name in REFUSED.split():
            raise UserError(
                f"--sbatch {word}: with it, jobs are not found again or not resumed; leave it out"
            )
        options[name] = value if given else True
    return options


def minutes(limit: str) -> int:
    """Minutes of a time limit as SLURM writes it: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", limit)
    if not match:
        raise UserError(f"--sbatch time={limit}: use MINUTES, HOURS:MINUTES:SECONDS or DAYS-HOURS")
    days, *parts = match.groups()
    numbers = [int(part) for part in parts if part]
    if days is None and len(numbers) < 3:  # the first are minutes, not hours
        numbers.insert(0, 0)
    seconds = sum(number * unit for number, unit in zip(numbers, (3600, 60, 1), strict=False))
    if (total := (86400 * int(days or 0) + seconds) // 60) < LEAST:
        raise UserError(f"--sbatch time={limit}: jobs need {LEAST} minutes at least")
    return total


class Job(ABC):
    """What a job does; requeued, it does it again, and so resumes."""

    @abstractmethod
    def work(self) -> None:
        """Do it, to its end."""

    def __call__(self) -> None:
        logging.getLogger("submitit").propagate = False  # fairseq's logger would print it again
        told: list[int] = []
        if _submitit().JobEnvironment().cluster == "slurm":
            signal.signal(signal.SIGTERM, lambda number, frame: told.append(number))
        try:
            self.work()
        except Exception:
            time.sleep(GRACE)
            if told:  # so SLURM is about to end the job; if it failed instead, it is not requeued
                time.sleep(UNTIL_KILLED)
            raise

    def checkpoint(self):
        """What submitit runs when the job is requeued."""
        return _submitit().helpers.DelayedSubmission(self)


@dataclass(frozen=True)
class PreparingJob(Job):
    """Prepares a corpus for the runs that need it."""

    runs: list[Run]
    place: Workspace
    downloads: Path | None

    def work(self) -> None:
        from .running import prepare_corpora  # here: a plan, which checks the flags, needs it not

        _, problems = prepare_corpora(self.runs, self.place, self.downloads)
        if problems:
            raise UserError("\n".join(problems))


@dataclass(frozen=True)
class RunJob(Job):
    """Does a run, from where it stopped."""

    run: Run
    devices: tuple  # how they are found on the job's machine
    keep_checkpoints: bool

    def work(self) -> None:
        from ..files.console import Console
        from .running import RunInProgress

        import_user_dir(self.run.workspace.user_dir)
        on = slots(*self.devices)[0]
        never = threading.Event()
        RunInProgress(self.run, on, Console(), never, self.keep_checkpoints).complete()


def submit(runs: list[Run], place: Workspace, args: argparse.Namespace) -> list[str]:
    """Submit the jobs of runs; return what went wrong, also with earlier jobs, for display.

    Jobs of this machine are waited for; those of SLURM are not.
    """
    from ..files.lock import locked  # here: a plan needs it not

    folder = place.root / "jobs"
    folder.mkdir(parents=True, exist_ok=True)
    # Of two commands at once, the second finds the jobs of the first.
    with locked(folder / ".lock", lambda line: print(f"   {line}", flush=True)):
        jobs = Jobs(place, args, folder)
        for corpus in dict.fromkeys(run.corpus_folder for run in runs):
            users = [run for run in runs if run.corpus_folder == corpus]
            jobs.submit_all(corpus, [r for r in users if not jobs.waits(r.folder.path, r.name)])
        for name, job in jobs.local:
            if job.exception():
                jobs.problems.append(f"  {name}: its job failed; see {job.paths.stderr}")
        return jobs.problems


class Jobs:
    """The jobs of a workspace: tells of the last ones, and submits new ones."""

    def __init__(self, place: Workspace, args: argparse.Namespace, folder: Path):
        self.place, self.args, self.folder = place, args, folder
        self.problems: list[str] = []
        self.local: list[tuple] = []  # names and jobs
        self.last: dict[str, str] = read_json(folder / RECORD) or {}
        self.states = _states() if self.last and args.cluster == "slurm" else {}

    def waits(self, made: Path, name: str) -> bool:
        """Whether the last job that was to make a folder will still run; tell if it failed."""
        number = self.last.get(str(made.relative_to(self.place.root)))
        if number is None or self.args.cluster == "local":
            return False
        state = self.states.get(number)
        if state is not None and state not in ENDED:
            print(f"   {name}: job {number} is {state.lower()}")
            return True
        submitit = _submitit()
        paths = submitit.core.utils.JobPaths(self.folder, number)
        if paths.result_pickle.exists():
            if submitit.core.utils.pickle_load(paths.result_pickle)[0] == "success":
                return False
            state = "FAILED"
        log = "it had not begun"
        if paths.stderr.exists():
            log = f"see {paths.stderr}, and {paths.stdout.name}"
        self.problems.append(f"  {name}: its job {number} is {state or 'gone'}: {log}")
        return False

    def submit_all(self, corpus: Path, runs: list[Run]) -> None:
        """Submit jobs for runs of a corpus, and before them one for the corpus if it is needed."""
        args, after = self.args, {}
        of_runs = options_of(args.sbatch)
        if not all(run.has_corpus for run in runs):
            name = f"corpus {corpus.name}"
            self.waits(corpus, name)
            shared = {key: of for key, of in of_runs.items() if not key.startswith(OF_RUNS)}
            ours = {"job_name": name.replace(" ", "."), "cpus_per_task": CPUS_OF_CORPUS}
            ours |= {"mem": f"{MEMORY}G"}
            preparing = PreparingJob(runs, self.place, args.downloads)
            job = self._submit(preparing, ours, shared | options_of(args.corpus_sbatch), name)
            if job is None:
                return
            self._record(corpus, job)
            if args.cluster == "slurm":
                after = {"dependency": f"afterok:{job.job_id}", "kill_on_invalid_dep": "yes"}
            elif job.exception():
                self.problems.append(f"  {name}: not prepared; see {job.paths.stdout}")
                return
        gpus = 0 if args.device == "cpu" or args.cluster == "local" else args.gpus_per_run
        devices = (args.device, args.gpus_per_run, 1, args.threads, args.precision)
        for run in runs if not args.prepare_only else []:
            ours = {"job_name": f"{run.cell.row}.seed{run.seed}", **after}
            ours |= {"cpus_per_task": gpus * CPUS_PER_GPU or args.threads}
            ours |= {"mem": f"{max(1, gpus) * MEMORY}G"} | ({"gpus_per_node": gpus} if gpus else {})
            while sum(not job.done() for _, job in self.local) >= (args.jobs or 1):
                time.sleep(1)
            job = self._submit(RunJob(run, devices, args.keep_checkpoints), ours, of_runs, run.name)
            if job is not None and args.cluster == "local":
                self.local.append((run.name, job))
            elif job is not None:
                self._record(run.folder.path, job)

    def _submit(self, work: Job, ours: dict, theirs: dict, name: str):
        """Submit a job and say so; None if the cluster refuses it, which is a problem."""
        submitit, asked = _submitit(), dict(theirs)
        limit = minutes(asked.pop("time", LIMIT))
        for option, others in INSTEAD.items():
            if any(other in asked for other in others):
                ours.pop(option, None)
        asked = {"requeue": True, **ours, **asked}
        executor = submitit.AutoExecutor(
            self.folder,
            cluster=self.args.cluster,
            local_max_num_timeout=TIMES,
            slurm_max_num_timeout=TIMES,
        )
        # Newer versions of srun do not inherit the job's number of CPUs.
        setup = ["export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK", *self.args.setup]
        executor.update_parameters(
            timeout_min=limit, slurm_additional_parameters=asked, slurm_setup=setup
        )
        kept = {key: of for key, of in os.environ.items() if re.match("SBATCH_|SLURM_CONF$", key)}
        try:
            # We may be in a job ourselves, whose size SLURM would take for that of the new one.
            with submitit.helpers.clean_env(), submitit.helpers.environment_variables(**kept):
                job = executor.submit(work)
        except submitit.core.utils.FailedJobError as error:
            from ..files.deleting import delete

            for left in [
                *self.folder.glob(".submission_file_*"),
                *self.folder.glob("?" * 32 + ".pkl"),
            ]:
                if not left.is_symlink():  # those of submitted jobs are
                    delete(left, self.place.root)
            hint = "; without GPUs, add --device cpu" * ("gpus_per_node" in asked)
            said = " ".join(str(error).split())
            self.problems.append(f"  {name}: its job is refused: {said}{hint}")
            return None
        print(f"   {name}: job {job.job_id}", flush=True)
        return job

    def _record(self, made: Path, job) -> None:
        if self.args.cluster == "slurm":
            self.last[str(made.relative_to(self.place.root))] = job.job_id
            write_json(self.folder / RECORD, self.last)


def _states() -> dict[str, str]:
    """The states of the user's jobs by their numbers; SLURM soon forgets those that have ended."""
    asked = ["squeue", "--noheader", "--states=all", f"--user={os.getuid()}", "--format=%i %T"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        said = " ".join((getattr(error, "stderr", None) or str(error)).split())
        raise UserError(
            f"squeue does not tell which jobs still run, so nothing is submitted; try later: {said}"
        ) from None
    return dict(line.split() for line in done.stdout.splitlines())


def _submitit():
    try:
        return importlib.import_module("submitit")
    except ImportError:
        raise UserError(
            '--slurm: submitit is not installed; install it with: pip install -e ".[slurm]"'
        ) from None
