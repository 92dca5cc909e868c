"""What the commands that do runs do: print the plan, do what is missing, and show the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ...errors import UserError
from ..config.own_tables import OWN, own_table
from ..config.settings import Profile
from ..files.processes import at_work, stop_at_signals
from ..files.writing import say
from ..models.trained import TrainedModel
from ..run.devices import slots
from ..run.status import State, remedy
from ..run.workspace import Workspace
from .cluster_jobs import JobOptions
from .dry_run import describe
from .plan import Plan, make_plan


@dataclass(frozen=True)
class Doing:
    device: str = "auto"  # auto, cpu or cuda
    gpus: int = 1  # for each run
    jobs: int | None = None  # runs side by side; None: as many as fit
    threads: int = 1  # of a run on CPU
    precision: str = "auto"
    compile: bool = False
    dry_run: bool = False
    prepare_only: bool = False
    redo: bool = False
    keep_checkpoints: bool = False
    downloads: Path | None = None
    slurm: JobOptions | None = None  # jobs of a cluster; None: here


@dataclass(frozen=True)
class Shared:
    """What the systems of a comparison share, but for their text and profile."""

    flags: tuple[str, ...] = ()  # of fairseq-train
    # As in settings: the batch's tokens and per-device, the checkpoints' every and average.
    given: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    model: TrainedModel | None = None  # that they go on with
    inherits: bool = False  # the system is the model's own: its architecture was not named


def own_plan(
    place: Workspace,
    systems: Sequence[str],
    seeds: tuple[int, ...] = (1,),
    name: str | None = None,
    shared: Shared = Shared(),
) -> Plan:
    """The plan of the table ``own/NAME`` of systems on the user's text."""
    base, start, inherit = OWN, None, None
    if (model := shared.model) and place.own:
        from ..run.fine_tuning import (  # here: others need it not
            name_of,
            of_architecture,
            settings_from,
        )

        profile = Profile(f"from-{name_of(model)}", f"starts from {model.checkpoint}")
        place = replace(place, own=replace(place.own, like=model.checkpoint), profile=profile)
        base, start = settings_from(model), f"{name_of(model)}, as it is"
        inherit = None if shared.inherits else partial(of_architecture, base["train"])
    how = shared.flags, shared.given, place.profile, place.configs
    title = "systems" if name is None else name
    table = own_table(title, systems, *how, base, start, inherit)
    return make_plan(table, place, [], [], seeds)


def do(plans: Sequence[Plan], doing: Doing, show: Callable[[Plan], str]) -> None:
    """Print plans, do what is missing of them, and print what ``show`` gives for each."""
    # The devices of jobs are not those of this machine.
    device = "cuda" if doing.slurm and doing.device == "auto" else doing.device
    how = (device, doing.gpus, doing.jobs, doing.threads, doing.precision, doing.compile)
    where = slots(*how, pretend=doing.dry_run or doing.slurm is not None)
    checked = [plan.check(where[0]) for plan in plans]
    faults = list(dict.fromkeys(f"  {fault}" for _, found in checked for fault in found))
    # Other rows of a paper's table are run; a slip in a system of your own is mended first.
    ends = doing.dry_run or (faults and plans[0].table.is_own)
    for plan, (able, found) in zip(plans, checked, strict=True):
        say(describe(plan, where, doing.redo, able, [] if ends else found) + "\n")
    known = {run.name: (run, state) for able, _ in checked for run, state in able}
    to_do = [(run, state) for run, state in known.values() if state.is_to_do(doing.redo)]
    busy = {run.name: at_work(run.folder.lock) for run, _ in to_do} if doing.redo else {}
    if told := [f"  {name}: {who} is at work on it" for name, who in busy.items() if who]:
        wait = "Nothing is deleted. Wait until these have ended, or end them, and repeat --redo:"
        raise UserError("\n".join([wait, *told]))
    if faults and ends:
        raise UserError("\n".join(["Not everything can be run:", *faults]))
    if ends:
        return
    from .scheduler import do_runs  # here: a plan needs it not

    stop_at_signals()
    try:
        problems = do_runs(to_do, plans[0].workspace, where, doing)
    except KeyboardInterrupt:
        say("stopped; the same command resumes")
        raise
    for plan in plans if not doing.prepare_only else []:
        print("\n" + show(plan), end="", flush=True)
    told = []
    if problems:
        told += ["Not everything was done:", *problems]
        told += ["Once this is fixed, the same command resumes."]
    if faults:
        told += [f"{len(faults)} cannot be run: see the plan above."]
    stale = [f"  {n}: {state}" for n, (_, state) in known.items() if state.state is State.STALE]
    if stale and not doing.redo:
        told += ["Stale, and left as it is:", *stale, f"{remedy(plans[0].table.is_own)}."]
    if told:
        raise UserError("\n".join(["", *told]))
