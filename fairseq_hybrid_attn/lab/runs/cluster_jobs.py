"""Do runs as jobs of a cluster: SLURM, through submitit, or this machine to try it.

A job that is preempted or out of time is requeued, and resumes from its run's last checkpoint.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ..cli.flags import positive
from ..cli.user_dir import import_user_dir
from ..files.json_files import read_json, write_json
from .devices import slots
from .workspace import Run, Workspace

#: How often a job may run out of time and be requeued.
TIMES = 100
#: SLURM's names for jobs that will still run.
WAITING = ("PENDING", "RUNNING", "REQUEUED", "CONFIGURING", "COMPLETING", "SUSPENDED", "RESIZING")
#: A cluster's notice reaches fairseq's processes as well and may end them first.  Then wait this
#: long, in seconds, for our own notice, which requeues the job.
GRACE = 5
#: The number of a run's job, in its folder.
JOB = ".job.json"
#: The flags that are about jobs only.
DEFAULTS: dict = {"cluster": "slurm", "partition": None, "hours": 24, "sbatch": []}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("as jobs of a cluster")
    group.add_argument(
        "--slurm",
        action="store_true",
        help="submit each run as a job of its own, after a job that prepares its corpus",
    )
    group.add_argument(
        "--cluster",
        choices=("slurm", "local"),
        help="local: --slurm makes its jobs processes of this machine, to try it",
    )
    group.add_argument("--partition", metavar="NAME", help="the jobs' partition")
    group.add_argument("--hours", type=positive, metavar="N", help="their time limit (default: 24)")
    group.add_argument(
        "--sbatch",
        action="append",
        metavar="KEY=VALUE",
        help="another option of sbatch, such as account=me; may be repeated",
    )
    parser.set_defaults(**DEFAULTS)


def check(args: argparse.Namespace) -> None:
    """Check that jobs can be submitted; the devices are those of the jobs, not of this machine."""
    if not args.slurm:
        # Without this, the runs would be done here, perhaps on the node on which one logs in.
        for flag, default in DEFAULTS.items():
            if getattr(args, flag) != default:
                raise UserError(
                    f"--{flag} is about jobs of a cluster; add --slurm, or leave it out"
                )
        return
    _submitit()
    if args.cluster == "slurm":
        if not (shutil.which("sbatch") and shutil.which("srun")):
            raise UserError(
                "--slurm: this machine has no sbatch, so it is not one of a SLURM cluster; submit "
                "from a login node, or leave out --slurm to run here (--cluster local tries the "
                "jobs on this machine)"
            )
        if args.device == "auto":
            args.device = "cuda"
    for option in args.sbatch:
        if "=" not in option:
            raise UserError(f"--sbatch {option}: use KEY=VALUE, such as account=me")


@dataclass(frozen=True)
class PreparingJob:
    """Prepares a corpus for the runs that need it."""

    runs: list[Run]
    place: Workspace
    downloads: Path | None

    def __call__(self) -> None:
        from .running import prepare_corpora  # here: a plan, which checks the flags, needs it not

        _, problems = prepare_corpora(self.runs, self.place, self.downloads)
        if problems:
            raise UserError("\n".join(problems))

    def checkpoint(self):
        return _submitit().helpers.DelayedSubmission(self)


@dataclass(frozen=True)
class RunJob:
    """Does a run, from where it stopped."""

    run: Run
    devices: tuple  # how they are found on the job's machine
    keep_checkpoints: bool

    def __call__(self) -> None:
        from ..files.console import Console
        from .running import RunInProgress

        import_user_dir(self.run.workspace.user_dir)
        on = slots(*self.devices)[0]
        work = RunInProgress(self.run, on, Console(), threading.Event(), self.keep_checkpoints)
        try:
            work.complete()
        except UserError:
            time.sleep(GRACE)
            raise

    def checkpoint(self):
        """What submitit runs when the job is requeued."""
        return _submitit().helpers.DelayedSubmission(self)


def submit(runs: list[Run], place: Workspace, args: argparse.Namespace) -> list[str]:
    """Submit the jobs of runs; return what went wrong, for display.

    Jobs of this machine are waited for; those of SLURM are not.
    """
    local = args.cluster == "local"
    devices = (args.device, args.gpus_per_run, 1, args.threads, args.precision)
    jobs: list = []
    problems: list[str] = []
    for folder in dict.fromkeys(run.corpus_folder for run in runs):
        users = [run for run in runs if run.corpus_folder == folder]
        waiting = {run.name: _state(run) for run in users}
        for name, state in waiting.items():
            if state:
                print(f"   {name}: {state}")
        users = [run for run in users if not waiting[run.name]]
        if not users:
            continue
        executor = _executor(place, args, folder.name, gpus=0)
        preparing = PreparingJob(users, place, args.downloads)
        corpus = _submit(executor, preparing, f"corpus {folder.name}", problems)
        if corpus is None:
            continue
        if local and corpus.exception():
            problems.append(f"  corpus {folder.name}: not prepared; see {corpus.paths.stdout}")
            continue
        for run in users if not args.prepare_only else []:
            gpus = 0 if args.device == "cpu" or local else args.gpus_per_run
            after = None if local else f"afterok:{corpus.job_id}"
            executor = _executor(place, args, run.name.replace("/", "."), gpus, after)
            while local and sum(not job.done() for _, job in jobs) >= (args.jobs or 1):
                time.sleep(1)
            job = _submit(executor, RunJob(run, devices, args.keep_checkpoints), run.name, problems)
            if job is not None:
                jobs.append((run, job))
                write_json(_record(run), {"job": job.job_id, "cluster": args.cluster})
    for run, job in jobs if local else []:
        if job.exception():
            problems.append(f"  {run.name}: its job failed; see {job.paths.stderr}")
    return problems


def _submit(executor, work: PreparingJob | RunJob, name: str, problems: list[str]):
    """Submit a job and say so; None if the cluster refuses it, which is a problem."""
    try:
        job = executor.submit(work)
    except _submitit().core.utils.FailedJobError as error:
        problems.append(f"  {name}: its job is refused: {' '.join(str(error).split())}")
        return None
    print(f"   {name}: job {job.job_id}", flush=True)
    return job


def _executor(place: Workspace, args: argparse.Namespace, name: str, gpus: int, after=None):
    executor = _submitit().AutoExecutor(
        place.root / "jobs",
        cluster=args.cluster,
        local_max_num_timeout=TIMES,
        slurm_max_num_timeout=TIMES,
    )
    options = dict(option.split("=", 1) for option in args.sbatch)
    if after:
        options |= {"dependency": after, "kill-on-invalid-dep": "yes"}
    executor.update_parameters(
        name=name,
        timeout_min=60 * args.hours,
        gpus_per_node=gpus,
        cpus_per_task=args.threads * max(1, gpus),
        slurm_additional_parameters={"requeue": True, **options},
        **({"slurm_partition": args.partition} if args.partition else {}),
    )
    return executor


def _record(run: Run) -> Path:
    run.folder.path.mkdir(parents=True, exist_ok=True)
    return run.folder.path / JOB


def _state(run: Run) -> str:
    """The job that a run has in SLURM, if it has one."""
    record = read_json(run.folder.path / JOB)
    if not record or record["cluster"] != "slurm":
        return ""
    state = _submitit().SlurmJob(run.workspace.root / "jobs", record["job"]).state
    return f"job {record['job']} is {state.lower()}" if state in WAITING else ""


def _submitit():
    try:
        return importlib.import_module("submitit")
    except ImportError:
        raise UserError(
            '--slurm: submitit is not installed; install it with: pip install -e ".[slurm]"'
        ) from None
