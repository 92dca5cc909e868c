"""Execute runs as jobs of SLURM, through submitit.

A job that is preempted or out of time is requeued, and resumes from its run's last checkpoint.
Which jobs wait or run is asked of squeue, by their names; whatever else was submitted for a run
that is not done has failed.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...errors import UserError
from ..config.user_dir import import_user_dir
from ..files.checksums import digest
from ..files.processes import locked
from ..files.writing import say
from ..run.devices import Devices, slots
from ..run.workspace import Run, Workspace

#: How often a job may be told that its time is almost over, and be requeued.
TIMES = 100
#: What jobs ask for unless ``--sbatch`` has other: a time limit, CPUs, and memory in GB, both for
#: each GPU or else for the job.
LIMIT, CPUS_PER_GPU, CPUS_OF_CORPUS, MEMORY = "24:00:00", 2, 4, 8
#: Options of sbatch that are set here or by submitit.  With others, jobs would not be found again,
#: requeued or resumed.
OURS = "array dependency error job_name no_requeue nodes ntasks ntasks_per_node open_mode output"
OURS += " signal"
#: By what is usual, the options that take its place.
INSTEAD = {
    "time": "time",
    "cpus_per_task": "cpus_per_task cpus_per_gpu",
    "mem": "mem mem_per_cpu mem_per_gpu",
    "gpus_per_node": "gpus gpus_per_node gpus_per_task gpus_per_socket gres",
}
#: Seconds that squeue has to answer.
PATIENCE = 60
#: SLURM's signals reach fairseq's processes as well and may end them first.  Before that counts as
#: a failure, wait this long, in seconds, for them to reach us; then as long as SLURM may take.
GRACE, UNTIL_ENDED = 5, 3600

Asked = dict[str, str | bool]


@dataclass(frozen=True)
class JobOptions:
    """What jobs ask sbatch for, by options with underscores in their names; True for flags."""

    runs: Asked
    corpora: Asked
    setup: tuple[str, ...]  # commands of a shell that come first


def asked(texts: list[str]) -> Asked:
    """The options in texts of ``--sbatch``."""
    found: Asked = {}
    for word in shlex.split(" ".join(texts)):
        name, given, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not re.fullmatch("[a-z][a-z_]*", name):
            raise UserError(
                f"--sbatch {word}: use sbatch's long options: NAME=VALUE, or NAME alone"
            )
        if name in OURS.split():
            raise UserError(f"--sbatch {word}: --slurm sets this itself; leave it out")
        found[name] = value if given else True
    return found


def submit(
    runs: list[Run],
    workspace: Workspace,
    devices: Devices,
    options: JobOptions,
    *,
    downloads: Path | None,
    prepare_only: bool,
    keep_checkpoints: bool,
) -> list[str]:
    """Submit a job for each run that none waits for, after a job for each corpus that is missing.

    Return what went wrong, also with earlier jobs, for display.  A job may start in another folder.
    """
    runs = [replace(run, workspace=run.workspace.absolute, found_in=run.label) for run in runs]
    downloads = downloads and downloads.absolute()
    folder = workspace.root / "jobs"
    folder.mkdir(parents=True, exist_ok=True)
    gpus = devices.world if devices.kind == "cuda" else 0
    usual: Asked = {"time": LIMIT, "cpus_per_task": str(gpus * CPUS_PER_GPU or devices.threads)}
    usual |= {"mem": f"{max(1, gpus) * MEMORY}G"} | ({"gpus_per_node": str(gpus)} if gpus else {})
    wanted = _with_usual(options.runs, usual)
    of_corpora: Asked = {"time": LIMIT, "cpus_per_task": str(CPUS_OF_CORPUS), "mem": f"{MEMORY}G"}
    # Of two commands at once, the second finds the jobs of the first.
    with locked(folder / ".lock", lambda line: say(f"   {line}")):
        jobs = Jobs(folder, options.setup, _queued())
        runs = [run for run in runs if not jobs.waits(run.name, run.folder.path)]
        for corpus in dict.fromkeys(run.corpus_folder for run in runs):
            users = [run for run in runs if run.corpus_folder == corpus]
            after: Asked = {}
            if not all(run.has_corpus for run in users):
                name = f"corpus {corpus.name}"
                jobs.waits(name, corpus)  # tells of it: it may lack what these runs need
                prepares = Job(prepare, (users, downloads))
                job = jobs.submit(name, corpus, prepares, _with_usual(options.corpora, of_corpora))
                if job is None:
                    continue
                after = {"dependency": f"afterok:{job}", "kill_on_invalid_dep": "yes"}
            for run in users if not prepare_only else []:
                does = Job(execute_run, (run, devices, keep_checkpoints))
                jobs.submit(run.name, run.folder.path, does, wanted | after)
        return jobs.problems


def _with_usual(given: Asked, usual: Asked) -> Asked:
    """What is given, and what is usual unless given in some way."""
    left = {name for name in usual if not given.keys() & {*INSTEAD[name].split()}}
    return {name: value for name, value in usual.items() if name in left} | given


@dataclass
class Jobs:
    """The jobs of a workspace, each under a name that tells what it makes, and where."""

    folder: Path  # of a folder of logs for each name
    setup: tuple[str, ...]
    queued: dict[str, tuple[str, str]]  # number and state of those that wait or run
    problems: list[str] = field(default_factory=list)

    def waits(self, name: str, made: Path) -> bool:
        """Whether a job that is to make a folder waits or runs; tell if the last one failed."""
        from submitit.core.utils import JobPaths, pickle_load

        job_name = _job_name(name, made)
        if job_name in self.queued:
            number, state = self.queued[job_name]
            say(f"   {name}: job {number} is {state.lower()}")
            return True
        folder = self.folder / job_name
        numbers = [int(path.name.split("_")[0]) for path in folder.glob("*_submitted.pkl")]
        if not numbers:
            return False
        paths = JobPaths(folder, str(max(numbers)))
        if paths.result_pickle.exists() and pickle_load(paths.result_pickle)[0] == "success":
            return False
        log = "it had not begun"
        if paths.stderr.exists():
            log = f"see {paths.stderr}, and {paths.stdout.name}"
        self.problems.append(f"  {name}: job {max(numbers)} FAILED: {log}")
        return False

    def submit(self, name: str, made: Path, job: Job, wanted: Asked) -> str | None:
        """Submit a job that is to make a folder; its number, or None if it is refused."""
        import submitit

        job_name = _job_name(name, made)
        executor = submitit.SlurmExecutor(self.folder / job_name, max_num_timeout=TIMES)
        # Newer versions of srun do not inherit the job's number of CPUs.
        cpus = "SLURM_CPUS_PER_TASK"
        setup = [f'[ -z "${cpus}" ] || export SRUN_CPUS_PER_TASK=${cpus}', *self.setup]
        wanted = {"job_name": job_name, "requeue": True, **wanted}
        executor.update_parameters(additional_parameters=wanted, setup=setup)
        kept = {key: of for key, of in os.environ.items() if re.match("SBATCH_|SLURM_CONF$", key)}
        try:
            # We may be in a job ourselves, whose size SLURM would take for that of the new one.
            with submitit.helpers.clean_env(), submitit.helpers.environment_variables(**kept):
                number = executor.submit(job).job_id
        except RuntimeError as error:  # which submitit's own are
            hint = "; without GPUs, add --device cpu" * ("gpus_per_node" in wanted)
            reason = " ".join(str(error).split())
            self.problems.append(f"  {name}: its job is refused: {reason}{hint}")
            return None
        say(f"   {name}: job {number}")
        return number


@dataclass(frozen=True)
class Job:
    """A call of a function; the job is requeued with the same call, which so resumes."""

    function: Callable[..., None]
    arguments: tuple

    def __call__(self) -> None:
        logging.getLogger("submitit").propagate = False  # fairseq's logger would print it again
        # After SIGTERM, SLURM ends the job, and requeues it if it is preempted and has not failed.
        signal.signal(signal.SIGTERM, lambda number, frame: time.sleep(UNTIL_ENDED))
        try:
            self.function(*self.arguments)
        except Exception:
            time.sleep(GRACE)
            raise

    def checkpoint(self):
        """What submitit runs when the job is requeued."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def prepare(runs: list[Run], downloads: Path | None) -> None:
    from ..run.running import prepare_corpora  # here: a plan, which checks the flags, needs it not

    _, problems = prepare_corpora(runs, downloads)
    if problems:
        raise UserError("\n".join(problems))


def execute_run(run: Run, devices: Devices, keep_checkpoints: bool) -> None:
    from ..run.running import RunInProgress

    import_user_dir(run.workspace.user_dir)
    [here] = slots(replace(devices, visible=()), jobs=1)
    RunInProgress(run, here, keep_checkpoints).complete()


def _job_name(name: str, made: Path) -> str:
    """``e1.seed2.1a2b3c``, ``corpus.toy.1a2b3c``: row and seed, or corpus, and which folder."""
    words = [*name.split("/")[-3::2], digest(str(made.resolve()))[:6]]
    return ".".join(words).replace(" ", ".")


def _queued() -> dict[str, tuple[str, str]]:
    """Number and state of the user's jobs that wait or run, by their names."""
    words = ["squeue", "--noheader", f"--user={os.getuid()}", "--format=%i %T %j"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        reason = " ".join((getattr(error, "stderr", None) or str(error)).split())
        raise UserError(
            f"squeue does not tell which jobs still run, so nothing is submitted; try later: "
            f"{reason}"
        ) from None
    lines = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    return {name: (number, state) for number, state, name in lines}
