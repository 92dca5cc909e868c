"""What a run was begun with is known as long as anything of it exists."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from rows import CONFIGS, FULL, TABLES

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.config.settings import Checkpoints
from fairseq_hybrid_attn.lab.files.deleting import delete
from fairseq_hybrid_attn.lab.files.json_files import read_json, write_json
from fairseq_hybrid_attn.lab.run import running
from fairseq_hybrid_attn.lab.run.devices import Devices, devices_of
from fairseq_hybrid_attn.lab.run.running import RunInProgress, delete_run, training_summary
from fairseq_hybrid_attn.lab.run.status import (
    State,
    begin,
    changes,
    check_begun,
    products,
    status,
)
from fairseq_hybrid_attn.lab.run.workspace import Run, Workspace

CPU = Devices("cpu")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(Run, "manifest", SimpleNamespace(digests=("a", "b"), alignments=None))
    found = Workspace(tmp_path, CONFIGS, FULL).run(TABLES["hysan/table1"].cells()[0], 1)
    found.folder.path.mkdir(parents=True)
    checkpoints = replace(found.settings.checkpoints, curve=0)
    return replace(found, settings=replace(found.settings, checkpoints=checkpoints))


@pytest.mark.parametrize("left", ["model.pt", "gates.json", "curve/500/score.json", "result.json"])
def test_a_run_with_an_unknown_beginning_is_not_resumed(left, run):
    """An old measurement would be combined with those of a new training."""
    path = run.folder.path / left
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    for ask in (begin, check_begun):
        with pytest.raises(UserError, match="no begun.json|result.json"):
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
    monkeypatch.setattr(Run, "manifest", None)
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


def generating(run, **flags):
    """The run with other flags of generation."""
    settings = replace(run.settings, generate={**run.settings.generate, **flags})
    return replace(run, settings=settings)


def finish(run):
    begin(run, CPU)
    for path in (run.folder.checkpoints / "checkpoint_1_20.pt", run.folder.curve):
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}")
    run.folder.translation.mkdir()
    made = (run.folder.trained, run.folder.model, run.folder.score, run.folder.hypotheses)
    for path in made:
        path.write_text("{}")
    result = {"scores": {}, "corpus": {}, "updates": 1, "parameters": 1, "finished": ""}
    begun = read_json(run.folder.begun)
    write_json(run.folder.result, {**begun, **result})


def test_what_follows_is_done_again_without_the_training(run):
    finish(run)
    assert status(run).state is State.DONE
    other = generating(run, beam=7)
    assert "trained; configuration changed: generate: beam" in str(status(other))
    assert status(other).is_to_do(redo=False)
    begin(other, CPU)
    assert status(other).detail == "trained" and status(run).detail == "trained"
    left = {path.name for path in products(run.folder)}
    assert left == {"checkpoints", "trained.json", "model.pt"}
    assert changes(other, read_json(run.folder.begun)) == ""


def test_what_cannot_follow_without_the_checkpoints_is_stale(run):
    finish(run)
    run.folder.model.unlink()
    told = str(status(generating(run, beam=7)))
    assert "configuration changed: generate: beam, and no checkpoint is left" in told


def test_another_training_is_stale(run):
    finish(run)
    train = replace(run.settings, train=run.settings.train | {"dropout": 0.7})
    other = replace(run, settings=train)
    assert str(status(other)) == "stale (configuration changed: train: dropout)"
    with pytest.raises(UserError, match="--redo"):
        begin(other, CPU)


def test_a_run_says_from_where_it_resumes(run):
    begin(run, CPU)
    assert str(status(run)) == "begun (before its first checkpoint)"
    run.folder.checkpoints.mkdir()
    for name in ("checkpoint_1_50.pt", "checkpoint_2_125.pt", "checkpoint_last.pt"):
        (run.folder.checkpoints / name).touch()
    assert str(status(run)) == "begun (resumes from update 125)"


def test_a_half_deleted_run_is_no_result_and_has_nothing_without_its_training(run, monkeypatch):
    """If a new training were made beside an old translation, they would be taken for one run."""
    deleted = 0

    def limited(path, inside):
        nonlocal deleted
        if deleted == limit and path.exists():
            raise OSError("busy")
        deleted += path.exists()
        delete(path, inside)

    monkeypatch.setattr(running, "delete", limited)
    for limit in range(7):
        finish(run)
        deleted = 0
        with pytest.raises(OSError, match="busy"):
            delete_run(run)
        folder = run.folder
        assert folder.begun.exists() and (status(run).state is State.BEGUN or not limit)
        left = {path.name for path in products(folder)}
        assert "trained.json" in left or left <= {"checkpoints"}
        monkeypatch.setattr(running, "delete", delete)
        delete_run(run)
        assert status(run).state is State.NOT_BEGUN
        monkeypatch.setattr(running, "delete", limited)


def test_a_file_that_does_not_say_what_a_run_was_begun_with(run):
    for content in ('{"x": 1}', "[]", "3", "null"):
        run.folder.begun.write_text(content)
        for ask in (status, lambda run: begin(run, CPU)):
            with pytest.raises(UserError, match="begun.json"):
                ask(run)


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


@pytest.mark.parametrize("done, averaged", [(4200, "last-updates 5"), (1200, "last-updates 2")])
def test_fewer_checkpoints_are_averaged_if_the_training_ended_early(
    done, averaged, run, monkeypatch
):
    train, made = {**run.settings.train, "max-update": 10_000}, Checkpoints("update", 500, 5)
    object.__setattr__(run, "settings", replace(run.settings, train=train, checkpoints=made))
    write_json(run.folder.trained, {"updates": done})
    commands = []
    work = RunInProgress(run, CPU)
    monkeypatch.setattr(work, "run_program", lambda log, command: commands.append(command))
    work.average()
    assert averaged in " ".join(commands[0])
    write_json(run.folder.trained, {"updates": 900})
    work.average()
    assert commands[1][-1].endswith("checkpoint_last.pt")


def test_precision_on_a_cpu(run, monkeypatch):
    """bf16 where it is faster, for our criteria; a run keeps what it was begun with."""
    auto = Devices("cpu", precision="auto")
    monkeypatch.setattr("fairseq_hybrid_attn.devices.bfloat16_pays", lambda: False)
    assert devices_of(run, auto).precision == "fp32"
    monkeypatch.setattr("fairseq_hybrid_attn.devices.bfloat16_pays", lambda: True)
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
        monkeypatch.setattr("fairseq_hybrid_attn.devices.has_bfloat16", lambda able=able: able)
        begin(run, Devices("cpu", precision=begun))
        assert devices_of(run, auto).precision == expected
        run.folder.begun.unlink()
    train = run.settings.train | {"criterion": "label_smoothed_cross_entropy"}
    object.__setattr__(run, "settings", replace(run.settings, train=train))
    assert devices_of(run, replace(auto, precision="bf16")).precision == "fp32"


def test_a_training_on_gpus_keeps_its_precision(run):
    auto, single = (Devices("cuda", precision=name) for name in ("auto", "fp32"))
    assert devices_of(run, auto).precision == "fp16"
    assert devices_of(run, replace(auto, precision="bf16")).precision == "bf16"
    begin(run, single)
    assert devices_of(run, auto).precision == devices_of(run, single).precision == "fp32"
    check_begun(run, replace(single, precision="fp16"))
    run.folder.checkpoints.mkdir()
    (run.folder.checkpoints / "checkpoint_last.pt").touch()
    for devices in (auto, single):
        check_begun(run, devices)
    with pytest.raises(UserError, match="begun in fp32 .* fp16"):
        check_begun(run, replace(single, precision="fp16"))


def test_layers_are_compiled_if_asked_and_a_run_resumes_either_way(run):
    never, always = (Devices("cuda", precision="fp16", compile=wanted) for wanted in (False, True))

    def compiled(devices, **train):
        changed = replace(run, settings=replace(run.settings, train=run.settings.train | train))
        found = devices_of(changed, devices)
        command = changed.commands(found).train(1)
        assert ("--compile" in command) == ("compiled" in str(found)) == found.compile
        return found.compile

    assert not compiled(never, **{"max-update": 100_000})
    assert compiled(always) and compiled(replace(CPU, compile=True)) and not compiled(CPU)
    for other in ({"arch": "transformer"}, {"checkpoint-activations": True}, {"max-update": 0}):
        assert not compiled(always, **other)

    begin(run, devices_of(run, never))
    run.folder.checkpoints.mkdir()
    (run.folder.checkpoints / "checkpoint_last.pt").touch()
    begin(run, devices_of(run, always))
    assert status(run).state is State.BEGUN


def test_a_training_records_whether_it_was_compiled(run):
    for wanted, told in ((True, "1 GPU, fp16, compiled"), (False, "1 GPU, fp16")):
        devices = Devices("cuda", precision="fp16", compile=wanted)
        RunInProgress(run, devices).write_trained()
        assert read_json(run.folder.trained)["devices"] == told
