"""Numbered checkpoints come at every interval, also where an epoch ends."""

import pytest
import torch
from cli import binarise, train, write_corpus

from fairseq_hybrid_attn.tasks.resumable import numbered_checkpoints

BY_UPDATES = (
    "--task translation_resumable --save-interval-updates 3 --keep-interval-updates 2 "
    "--no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000"
).split()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, hard_cases=False)
    return binarise(folder)


# With so many tokens an update, an epoch has one update, or three: each third one ends an epoch.
@pytest.mark.parametrize("tokens, epochs", [(4000, 12), (700, 4)])
def test_last_checkpoints_are_evenly_spaced(tokens, epochs, corpus, tmp_path):
    flags = [*BY_UPDATES, "--max-tokens", tokens, "--max-update", 12]
    train(corpus, "model", "transformer_mma", *flags, cwd=tmp_path)
    found = numbered_checkpoints(tmp_path / "model")
    assert sorted(found) == [9, 12]
    assert found[12].name == f"checkpoint_{epochs}_12.pt"  # 12 updates are so many epochs
    states = {
        updates: torch.load(path, map_location="cpu", weights_only=True)
        for updates, path in found.items()
    }
    for updates, state in states.items():
        assert state["optimizer_history"][-1]["num_updates"] == updates
    last = torch.load(tmp_path / "model/checkpoint_last.pt", map_location="cpu", weights_only=True)
    assert all(torch.equal(last["model"][k], v) for k, v in states[12]["model"].items())
    assert not list((tmp_path / "model").glob("*.tmp"))


@pytest.mark.parametrize("tokens", [4000, 700])
def test_checkpoints_of_a_curve_stay(tokens, corpus, tmp_path):
    flags = [*BY_UPDATES, "--keep-interval-updates-pattern", 6]
    flags += ["--max-tokens", tokens, "--max-update", 21]
    train(corpus, "model", "transformer_mma", *flags, cwd=tmp_path)
    assert sorted(numbered_checkpoints(tmp_path / "model")) == [6, 12, 15, 18, 21]
