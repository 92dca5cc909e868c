"""Interrupted and resumed, or in several processes, training gives the same as in one run."""

import re

import pytest
import torch
from cli import train, train_in_two_processes, weights
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import get_training_parser, parse_args_and_arch
from fairseq.tasks import setup_task
from models import assert_all_close

from fairseq_hybrid_attn.tasks.resumable import numbered_checkpoints

SUPERVISED = "label_smoothed_cross_entropy_with_supervised_attention"
BY_UPDATES = (
    "--task translation_resumable --save-interval-updates 3 --keep-interval-updates 2 "
    "--no-epoch-checkpoints --save-interval 1000000 --validate-interval 1000000"
).split()


@pytest.mark.slow
def test_some_updates_and_the_rest_are_all_of_them(corpus, tmp_path):
    """Bit for bit, with dropout: weights and the optimizer's moments.

    An epoch has about six updates: in the second one, fairseq's own task has different batches.
    """
    flags = ["transformer_hysan", "--squeeze-ratio", 4, "--task", "translation_resumable"]
    flags += ["--dropout", 0.3, "--attention-dropout", 0.2, "--max-update"]
    train(corpus, "whole", *flags, 12, cwd=tmp_path)
    train(corpus, "parts", *flags, 7, cwd=tmp_path)
    whole, parts = (tmp_path / name / "checkpoint_last.pt" for name in ("whole", "parts"))
    half = weights(parts)
    train(corpus, "parts", *flags, 12, cwd=tmp_path)
    assert any(not half[name].equal(tensor) for name, tensor in weights(whole).items())
    assert_all_close(weights(parts), weights(whole), rtol=0, atol=0)
    moments = [
        torch.load(path, weights_only=True)["last_optimizer_state"]["state"]
        for path in (parts, whole)
    ]
    for number, expected in moments[1].items():
        for moment in ("exp_avg", "exp_avg_sq"):
            assert expected[moment].equal(moments[0][number][moment])


@pytest.mark.slow
def test_patience_is_kept(corpus, tmp_path):
    """Without improvement since the first epoch, training stops three epochs later."""
    flags = ["transformer_mma", "--task", "translation_resumable", "--patience", 3]
    flags += ["--optimizer", "sgd", "--lr", "1e-30", "--dropout", 0, "--max-epoch"]
    train(corpus, "model", *flags, 3, cwd=tmp_path)
    train(corpus, "model", *flags, 12, cwd=tmp_path)
    assert (tmp_path / "model/checkpoint4.pt").exists()
    assert not (tmp_path / "model/checkpoint5.pt").exists()


@pytest.mark.slow
def test_dense_checkpoints_do_not_validate_more_often(corpus, tmp_path):
    flags = ["transformer_mma", *BY_UPDATES, "--max-update", 11]
    flags += ["--validate-interval-updates", 4, "--keep-interval-updates", -1]
    said = train(corpus, "model", *flags, cwd=tmp_path).stdout
    validated = re.findall(r"valid on 'valid' subset .* num_updates (\d+)", said)
    assert validated == ["4", "8", "11"]
    assert sorted(numbered_checkpoints(tmp_path / "model")) == [3, 6, 9]


def test_every_validation_is_of_the_same_sentences(corpus):
    """fairseq makes batches anew for each epoch, and would count a validation as one."""
    words = [str(corpus), "--arch", "transformer_mma", "--task", "translation_resumable"]
    cfg = convert_namespace_to_omegaconf(parse_args_and_arch(get_training_parser(), words))
    task = setup_task(cfg.task)
    for split, changes in (("train", True), ("valid", False)):
        task.load_dataset(split)
        epochs = []
        for _ in range(3):
            data = task.dataset(split)
            iterator = task.get_batch_iterator(data, max_sentences=3)
            batches = iterator.next_epoch_itr(shuffle=False, set_dataset_epoch=False)
            epochs.append(sorted(sorted(batch["id"].tolist()) for batch in batches))
        first, second, third = epochs
        assert (first != second, second != third) == (changes, changes), split


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


# With these tokens per update, an epoch has one update or three: every third one ends an epoch.
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
