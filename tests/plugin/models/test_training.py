"""Stopping and resuming, and several processes, give the training that one run gives."""

import subprocess

import pytest
import torch
from cli import (
    TINY_FLAGS,
    TRAINING_FLAGS,
    USER_DIR,
    binarise,
    command,
    environment,
    train,
    write_corpus,
)

ARCH = ["transformer_hysan", "--squeeze-ratio", "4"]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    write_corpus(folder, hard_cases=False)
    return binarise(folder)


def weights(path):
    return torch.load(path, weights_only=True)["model"]


def optimizer(path):
    return torch.load(path, weights_only=True)["last_optimizer_state"]["state"]


def test_two_updates_and_two_more_are_four(corpus, tmp_path):
    """Bit for bit, with dropout: weights and the optimizer's moments."""
    flags = [*ARCH, "--dropout", "0.3", "--attention-dropout", "0.2"]
    train(corpus, "whole", *flags, "--max-update", 4, cwd=tmp_path)
    train(corpus, "parts", *flags, "--max-update", 2, cwd=tmp_path)
    half = weights(tmp_path / "parts" / "checkpoint_last.pt")
    train(corpus, "parts", *flags, "--max-update", 4, cwd=tmp_path)
    whole, parts = (tmp_path / name / "checkpoint_last.pt" for name in ("whole", "parts"))
    assert any(not half[name].equal(tensor) for name, tensor in weights(whole).items())
    for name, tensor in weights(whole).items():
        assert tensor.equal(weights(parts)[name]), name
    for number, moments in optimizer(whole).items():
        for moment in ("exp_avg", "exp_avg_sq"):
            assert moments[moment].equal(optimizer(parts)[number][moment])


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def train_in_two_processes(corpus, save_dir, *flags, cwd):
    port = free_port()
    processes = [
        subprocess.Popen(
            command(
                "fairseq-train",
                corpus,
                *("--user-dir", USER_DIR, "--save-dir", save_dir, "--arch", *ARCH),
                *TINY_FLAGS,
                *TRAINING_FLAGS,
                *flags,
                *("--distributed-world-size", 2, "--distributed-rank", rank),
                *("--distributed-init-method", f"tcp://localhost:{port}"),
                *("--distributed-no-spawn", "--distributed-backend", "gloo"),
                *("--ddp-backend", "legacy_ddp"),
            ),
            cwd=cwd,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in (0, 1)
    ]
    for process in processes:
        output, _ = process.communicate(timeout=200)
        assert process.returncode == 0, output[-3000:]


def test_two_processes_are_one_with_double_the_batches(corpus, tmp_path):
    """Also when stopped and resumed, which sends the checkpoint between the processes."""
    flags = ["--dropout", "0", "--max-update"]
    train(corpus, "one", *ARCH, *flags, 4, "--update-freq", 2, cwd=tmp_path)
    train_in_two_processes(corpus, "two", *flags, 2, cwd=tmp_path)
    train_in_two_processes(corpus, "two", *flags, 4, cwd=tmp_path)
    one, two = (weights(tmp_path / name / "checkpoint_last.pt") for name in ("one", "two"))
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=0, atol=2e-6, msg=name)
