"""Runs of the user's systems are found by what they are; a stale one is not only to be deleted."""

import json
from dataclasses import replace

import pytest
from made_runs import MadeWorkspace

from fairseq_hybrid_attn.lab.config.settings import WEIGHTS_OF, Profile
from fairseq_hybrid_attn.lab.plan.plan import own_plan
from fairseq_hybrid_attn.lab.run.status import State, identity, status
from fairseq_hybrid_attn.lab.run.workspace import Workspace


@pytest.fixture
def place(tmp_path):
    return MadeWorkspace(tmp_path).workspace


def run_of(place, name, *flags):
    [run] = own_plan(place, ["transformer"], name=name, flags=flags).runs
    return run


def make(run):
    """Begin a run, and give it a model."""
    run.folder.path.mkdir(parents=True)
    begun = {"identity": identity(run), "settings": run.settings.as_dict()}
    run.folder.begun.write_text(
        json.dumps({**begun, "workspace": {"own": run.workspace.own.as_record()}})
    )
    run.folder.model.write_text("weights")
    return run


def test_a_stale_run_names_the_comparison_that_fits(place):
    make(run_of(place, "first", "--dropout=0.2"))
    make(run_of(place, "second"))
    stale = status(run_of(place, "second", "--dropout=0.2"))
    assert stale.state is State.STALE and "train: dropout" in stale.detail
    assert "--name first" in stale.detail
    assert "--name" not in status(run_of(place, "second", "--dropout=0.7")).detail


@pytest.fixture
def begins_with(place, monkeypatch):
    """A run that begins with a model, whose text is prepared as any."""
    recipe = Workspace.recipe

    def plain(place, settings):
        return recipe(replace(place, own=replace(place.own, like=None)), settings)

    monkeypatch.setattr(Workspace, "recipe", plain)

    def run(weights):
        there = replace(
            place, own=replace(place.own, like=weights), profile=Profile("from-mma", "")
        )
        found = run_of(there, "systems")
        train = found.settings.train | {WEIGHTS_OF: str(weights)}
        return replace(found, settings=replace(found.settings, train=train))

    return run


def test_two_first_models_of_one_name_have_runs_of_their_own(begins_with, tmp_path):
    first, second = (tmp_path / folder / "mma/model.pt" for folder in "ab")
    for path in (first, second):
        path.parent.mkdir(parents=True)
        path.write_text(str(path))
    made = make(begins_with(first))
    assert status(begins_with(second)).state is State.NOT_BEGUN
    other = make(begins_with(second))
    assert other.label.startswith("from-mma@text.") and made.label == "from-mma@text"
    assert [begins_with(path).folder for path in (first, second)] == [made.folder, other.folder]
    first.write_text("trained again")
    assert "begin with changed" in status(begins_with(first)).detail


def test_a_first_model_may_move(begins_with, tmp_path):
    weights, moved = tmp_path / "model.pt", tmp_path / "moved.pt"
    weights.write_text("weights")
    made = make(begins_with(weights))
    weights.rename(moved)
    assert status(begins_with(moved)).state is State.BEGUN
    assert begins_with(moved).folder == made.folder
