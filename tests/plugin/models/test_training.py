"""Interrupted and resumed, or in several processes, training gives what one run gives."""

import pytest
import torch
from cli import train, train_in_two_processes, weights
from models import assert_all_close

from fairseq_hybrid_attn.tasks.resumable import numbered_checkpoints

SUPERVISED = "label_smoothed_cross_entropy_with_supervised_attention"
BY_UPDATES = (
    "--task translation_resumable --save-interval-updates 3 --keep-interval-updates 2 "
    "--no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000"
).split()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["translation", "translation_resumable"])
def test_two_updates_and_two_more_are_four(task, corpus, tmp_path):
    """Bit for bit, with dropout: weights and the optimizer's moments.

    All of an epoch's updates, four or fewer, come with batches that only one task makes again.
    """
    flags = ["transformer_hysan", "--squeeze-ratio", 4, "--task", task]
    flags += ["--dropout", 0.3, "--attention-dropout", 0.2]
    if task == "translation_resumable":
        flags += ["--max-tokens", 900]  # two updates an epoch: the second pair is another epoch's
    train(corpus, "whole", *flags, "--max-update", 4, cwd=tmp_path)
    train(corpus, "parts", *flags, "--max-update", 2, cwd=tmp_path)
    whole, parts = (tmp_path / name / "checkpoint_last.pt" for name in ("whole", "parts"))
    half = weights(parts)
    train(corpus, "parts", *flags, "--max-update", 4, cwd=tmp_path)
    assert any(not half[name].equal(tensor) for name, tensor in weights(whole).items())
    assert_all_close(weights(parts), weights(whole), rtol=0, atol=0)
    moments = [
        {
            f"{number} {moment}": state[moment]
            for number, state in torch.load(path, weights_only=True)["last_optimizer_state"][
                "state"
            ].items()
            for moment in ("exp_avg", "exp_avg_sq")
        }
        for path in (parts, whole)
    ]
    assert_all_close(*moments, rtol=0, atol=0)


@pytest.mark.slow
def test_two_processes_are_one_with_double_the_batches(corpus, tmp_path):
    """Even if stopped and resumed, which sends the checkpoint between the processes; with
    supervised attention, whose logs are summed over the processes."""
    flags = ["transformer_hysan", "--squeeze-ratio", 4, "--dropout", 0, "--criterion", SUPERVISED]
    flags += ["--load-alignments", "--max-update"]
    train(corpus, "one", *flags, 4, "--update-freq", 2, cwd=tmp_path)
    train_in_two_processes(corpus, "two", *flags, 2, cwd=tmp_path)
    train_in_two_processes(corpus, "two", *flags, 4, cwd=tmp_path)
    one, two = (weights(tmp_path / name / "checkpoint_last.pt") for name in ("one", "two"))
    assert_all_close(two, one, rtol=0, atol=2e-6)


# With so many tokens an update, an epoch has one update, or three: every third one ends an epoch.
@pytest.mark.slow
@pytest.mark.parametrize("tokens, epochs", [(4000, 12), (700, 4)])
def test_numbered_checkpoints_are_evenly_spaced(tokens, epochs, corpus, tmp_path):
    flags = ["transformer_mma", *BY_UPDATES, "--max-tokens", tokens, "--max-update"]
    train(corpus, "model", *flags, 12, cwd=tmp_path)
    found = numbered_checkpoints(tmp_path / "model")
    assert sorted(found) == [9, 12]
    assert found[12].name == f"checkpoint_{epochs}_12.pt"
    for updates, path in found.items():
        state = torch.load(path, weights_only=True)
        assert state["optimizer_history"][-1]["num_updates"] == updates
    last = tmp_path / "model" / "checkpoint_last.pt"
    assert_all_close(weights(found[12]), weights(last), rtol=0, atol=0)
    assert not list((tmp_path / "model").glob("*.tmp"))
    # The checkpoints of a curve stay.
    pattern = ["--keep-interval-updates-pattern", 6]
    train(corpus, "curve", *flags, 21, *pattern, cwd=tmp_path)
    assert sorted(numbered_checkpoints(tmp_path / "curve")) == [6, 12, 15, 18, 21]
