"""What a run was begun with is known as long as anything of it exists."""

import shutil
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from refusals import files
from rows import CONFIGS, FULL, TABLES

from fairseq_hybrid_attn import cross_entropy
from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.config.settings import Checkpoints
from fairseq_hybrid_attn.lab.files.console import Console
from fairseq_hybrid_attn.lab.runs import status as statuses
from fairseq_hybrid_attn.lab.runs.devices import Devices
from fairseq_hybrid_attn.lab.runs.running import RunInProgress, delete_run, training_summary
from fairseq_hybrid_attn.lab.runs.status import State, begin, check_begun, devices_of, status
from fairseq_hybrid_attn.lab.runs.workspace import Workspace

CPU = Devices("cpu")


@pytest.fixture
def run(tmp_path, monkeypatch):
    prepared = SimpleNamespace(digest="of a corpus", alignments=None)
    monkeypatch.setattr(statuses, "read_manifest", lambda folder: prepared)
    found = Workspace(tmp_path, CONFIGS, FULL).run(TABLES["hysan/table1"].cells()[0], 1)
    found.folder.path.mkdir(parents=True)
    return found


@pytest.mark.parametrize("left", ["model.pt", "gates.json", "curve/500/score.json", "result.json"])
def test_a_run_with_an_unknown_beginning_is_not_resumed(left, run):
    """An old measurement would be combined with those of a new training."""
    path = run.folder.path / left
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    for ask in (begin, check_begun):
        with pytest.raises(UserError, match="is there, but no begun.json|is not a result"):
            ask(run, CPU)
    assert not run.folder.begun.exists()
    if left != "result.json":
        assert status(run).state is State.STALE
        delete_run(run)
        assert status(run).state is State.NOT_BEGUN


def test_a_run_may_begin_again_on_other_devices_until_it_has_a_checkpoint(run):
    begin(run, CPU)
    run.folder.checkpoints.mkdir()  # then it fails
    two = replace(CPU, world=2)
    begin(run, two)
    (run.folder.checkpoints / "checkpoint_last.pt").touch()
    begin(run, two)
    with pytest.raises(UserError, match="was begun on 2 devices"):
        begin(run, CPU)


def test_a_run_is_not_begun_on_a_corpus_that_is_being_prepared(run, monkeypatch):
    """Its result would be of an unknown corpus."""
    monkeypatch.setattr(statuses, "read_manifest", lambda folder: None)
    with pytest.raises(UserError, match="is being prepared"):
        begin(run, CPU)
    assert status(run).state is State.NOT_BEGUN


def test_a_run_that_was_begun_is_resumed(run):
    """Logs of its other processes may exist first."""
    for name in ("logs/train-rank1.log", "tensorboard/x", ".lock", ".begun.json.1234.tmp"):
        path = run.folder.path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert status(run).state is State.NOT_BEGUN
    begin(run, CPU)
    run.folder.model.write_text("weights")
    begin(run, CPU)
    check_begun(run, CPU)


def test_a_score_that_a_recipe_gets_later_is_computed_from_what_is_there(run):
    """Without result.json, a run does the stages whose keys have changed, and the result."""

    def keys():
        work = RunInProgress(run, Devices("cpu"), Console(), threading.Event())
        return {stage.name: stage.key for stage in work.stages()}

    before = keys()
    vars(run)["recipe"] = replace(run.recipe, scores=(*run.recipe.scores, "nist_bleu"))
    assert {name for name, key in keys().items() if key != before[name]} == {"score"}


def test_a_half_deleted_run_is_neither_a_result_nor_resumed(run, monkeypatch):
    """If it were resumed, its training would be new and its translation old."""
    begin(run, CPU)
    run.folder.result.write_text("{}")
    run.folder.translation.mkdir()
    run.folder.trained.write_text("{}")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda path: (_ for _ in ()).throw(OSError("busy")))
        with pytest.raises(OSError, match="busy"):
            delete_run(run)
    assert not run.folder.result.exists() and run.folder.begun.exists()
    assert status(run).state is State.STALE
    with pytest.raises(UserError, match="--redo"):
        begin(run, CPU)
    delete_run(run)
    assert status(run).state is State.NOT_BEGUN
    begin(run, CPU)


def test_a_file_that_does_not_say_what_a_run_was_begun_with(run):
    for content in ('{"x": 1}', "[]", "3", "null"):
        run.folder.begun.write_text(content)
        for ask in (status, lambda run: begin(run, CPU)):
            with pytest.raises(UserError, match="does not say what a run was begun with"):
                ask(run)


def test_nothing_outside_of_the_workspace_is_deleted(run, tmp_path):
    """Not even if a name that was not checked, or a link, leads there."""
    victim = tmp_path / "victim"
    (victim / "a").mkdir(parents=True)
    (victim / "a/b").write_text("precious")
    odd = "/".join([".."] * 30 + [*victim.parts[1:-1]])
    strange = replace(run, cell=f"{run.cell.rpartition('/')[0]}/{odd}")
    assert strange.folder.path.parent.resolve() == tmp_path
    victim.rename(tmp_path / "seed1")
    with pytest.raises(UserError, match="outside of .*runs, where nothing is deleted"):
        delete_run(strange)
    (tmp_path / "seed1").rename(victim)
    run.folder.path.rmdir()
    run.folder.path.symlink_to(victim)
    assert status(run).state is State.STALE  # what is there is not known to be a run
    with pytest.raises(UserError, match="outside of .*runs, where nothing is deleted"):
        delete_run(run)
    run.folder.path.unlink()
    run.folder.path.mkdir()
    for name in ("text", "result.json"):
        (run.folder.path / name).symlink_to(victim)
    delete_run(run)
    assert files(victim) == {"a/b": b"precious"} and status(run).state is State.NOT_BEGUN


@pytest.mark.parametrize(
    "within, epoch", [({"iterations_in_epoch": 7}, 3), ({}, 3), ({"iterations_in_epoch": 0}, 2)]
)
def test_the_epoch_of_a_training_is_the_one_it_ended_in(within, epoch, run):
    """At the end of an epoch, fairseq's checkpoint names the next one."""
    run.folder.checkpoints.mkdir()
    extra = {"train_iterator": {"epoch": 3, **within}, "previous_training_time": 1.0}
    state = {"optimizer_history": [{"num_updates": 12}], "extra_state": extra}
    state["model"] = {"w": torch.zeros(1)}
    torch.save(state, run.folder.checkpoints / "checkpoint_last.pt")
    assert training_summary(run.folder)["epoch"] == epoch


@pytest.mark.parametrize("flag", ["max-epoch", "patience", "stop-min-lr", "stop-time-hours", None])
def test_fewer_checkpoints_are_averaged_if_a_flag_can_end_the_training(flag, run, monkeypatch):
    run.folder.checkpoints.mkdir()
    for updates in (500, 1000):
        (run.folder.checkpoints / f"checkpoint_1_{updates}.pt").touch()
    made = Checkpoints("update", every=500, average=5)
    train = run.settings.train | ({flag: 1} if flag else {})
    object.__setattr__(run, "settings", replace(run.settings, train=train, checkpoints=made))
    work = RunInProgress(run, CPU, Console(), threading.Event())
    commands = []
    monkeypatch.setattr(work, "run_program", lambda log, command: commands.append(command))
    work.average(None)
    assert commands[0][commands[0].index("--last-updates") + 1] == ("2" if flag else "5")


def test_a_training_in_bfloat16_does_not_go_on_in_another_precision(run, monkeypatch):
    monkeypatch.setattr(cross_entropy, "has_bfloat16", lambda: True)
    auto = Devices("cpu", precision="auto")
    begin(run, devices_of(run, auto))
    run.folder.checkpoints.mkdir()
    (run.folder.checkpoints / "checkpoint_last.pt").touch()
    check_begun(run, devices_of(run, auto))
    monkeypatch.setattr(cross_entropy, "has_bfloat16", lambda: False)  # another machine
    with pytest.raises(UserError, match="begun in bf16 and would go on in fp32"):
        check_begun(run, devices_of(run, auto))


def test_precision_on_a_cpu(run, monkeypatch):
    """bf16 where the CPU has it, for our criteria; a run keeps what it was begun with."""
    auto = Devices("cpu", precision="auto")
    monkeypatch.setattr(cross_entropy, "has_bfloat16", lambda: False)
    assert devices_of(run, auto).precision == "fp32"
    monkeypatch.setattr(cross_entropy, "has_bfloat16", lambda: True)
    assert devices_of(run, auto).precision == "bf16"
    assert "--autocast-bf16" in run.commands(devices_of(run, auto)).train(1)
    assert devices_of(run, replace(auto, precision="fp32")).precision == "fp32"
    assert devices_of(run, replace(auto, world=2)).precision == "fp32"
    for begun, able, expected in [
        ("fp32", True, "fp32"),
        ("bf16", True, "bf16"),
        ("bf16", False, "fp32"),  # resumed on another machine
        ("fp16", True, "fp32"),  # begun on a GPU
    ]:
        monkeypatch.setattr(cross_entropy, "has_bfloat16", lambda able=able: able)
        begin(run, Devices("cpu", precision=begun))
        assert devices_of(run, auto).precision == expected
        assert devices_of(run, replace(auto, precision="bf16")).precision == "bf16"
        run.folder.begun.unlink()
    train = run.settings.train | {"criterion": "label_smoothed_cross_entropy"}
    object.__setattr__(run, "settings", replace(run.settings, train=train))
    assert devices_of(run, replace(auto, precision="bf16")).precision == "fp32"


def test_a_training_on_gpus_keeps_its_precision(run):
    auto, single = (Devices("cuda", precision=name) for name in ("auto", "fp32"))
    assert devices_of(run, auto).precision == "fp16"
    assert devices_of(run, replace(auto, precision="bf16")).precision == "bf16"
    begin(run, single)
    assert devices_of(run, auto) == devices_of(run, single) == single
    check_begun(run, replace(single, precision="fp16"))
    run.folder.checkpoints.mkdir()
    (run.folder.checkpoints / "checkpoint_last.pt").touch()
    for devices in (auto, single):
        check_begun(run, devices)
    with pytest.raises(UserError, match="begun in fp32 and would go on in fp16; leave out"):
        check_begun(run, replace(single, precision="fp16"))
