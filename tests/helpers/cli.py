"""fairseq's commands and ours, each in a process of its own, and what tests train with them: small
models, and text of letters and its reversal."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from forked import LONGEST, REPOSITORY, environment, run_forked

USER_DIR = f"{REPOSITORY}/fairseq_hybrid_attn"
MODULES = {
    "fairseq-preprocess": "fairseq_cli.preprocess",
    "fairseq-train": "fairseq_cli.train",
    "fairseq-hydra-train": "fairseq_cli.hydra_train",
    "fairseq-generate": "fairseq_cli.generate",
    "fairseq-interactive": "fairseq_cli.interactive",
    "fairseq-eval-lm": "fairseq_cli.eval_lm",
    "fairseq-validate": "fairseq_cli.validate",
    "fairseq-hybrid": "fairseq_hybrid_attn",
}
TINY = (
    "--encoder-embed-dim 16 --encoder-ffn-embed-dim 32 --encoder-attention-heads 4 "
    "--decoder-attention-heads 4 --encoder-layers 2 --decoder-layers 2 "
    "--max-source-positions 40 --max-target-positions 40"
).split()
TRAINING_FLAGS = (
    "--cpu --optimizer adam --lr 1e-3 --max-tokens 400 --log-format simple "
    "--criterion fused_label_smoothed_cross_entropy --label-smoothing 0.1 "
    "--skip-invalid-size-inputs-valid-test"
).split()


def command(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", MODULES[name], *map(str, arguments)]


def run(name, *arguments, cwd, expect=0, stdin="", **variables) -> subprocess.CompletedProcess:
    """Run a command to its end; its output is shown if its exit status is not ``expect``."""
    if not variables:
        done = run_forked(MODULES[name], arguments, cwd, stdin)
    else:  # a new process, which may read them on import
        words, env = command(name, *arguments), environment(**variables)
        how = {"input": stdin, "capture_output": True, "text": True, "timeout": LONGEST}
        done = subprocess.run(words, cwd=cwd, env=env, **how)
    if done.returncode != expect:
        raise AssertionError(
            f"{name} ended with {done.returncode}, not {expect}\n"
            f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
    return done


@contextlib.contextmanager
def changed_folder(folder: Path):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def subword_nmt(program: str, *arguments: object, text: bytes) -> bytes:
    """Run a program of subword-nmt on a text."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        done = run_forked(f"subword_nmt.{program}", ["-i", file.name, *arguments])
    assert not done.returncode, done.stderr
    return done.stdout.encode()


def train(data, save_dir, arch, *flags, cwd, expect=0):
    return run(
        "fairseq-train",
        data,
        *("--user-dir", USER_DIR, "--arch", arch, "--save-dir", save_dir),
        *(*TINY, "--share-all-embeddings"),
        *TRAINING_FLAGS,
        *flags,
        cwd=cwd,
        expect=expect,
    )


def generate(data, checkpoint, *flags, cwd, expect=0):
    # Unless batches may have any size, fairseq silently leaves out the last batch.
    return run(
        "fairseq-generate",
        data,
        *("--user-dir", USER_DIR, "--path", checkpoint, "--cpu", "--max-tokens", 1000),
        *("--required-batch-size-multiple", 1),
        *flags,
        cwd=cwd,
        expect=expect,
    )


def train_in_two_processes(data, save_dir, arch, *flags, cwd) -> None:
    """Train with torch's distributed data parallelism on a CPU."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def process(rank: int) -> None:
        train(
            *(data, save_dir, arch, *flags, "--distributed-world-size", 2),
            *("--distributed-rank", rank, "--distributed-init-method", f"tcp://localhost:{port}"),
            *("--distributed-no-spawn", "--distributed-backend", "gloo"),
            *("--ddp-backend", "legacy_ddp"),
            cwd=cwd,
        )

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(process, (0, 1)))


def weights(path: Path) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint."""
    return torch.load(path, weights_only=True)["model"]


def write_corpus(folder: Path, *, hard_cases: bool) -> None:
    """Write sequences and their reversal.

    With ``hard_cases`` every split has empty lines, one-word lines, and one line that is
    longer than a tiny model takes.
    """
    letters = "abcdefghij"
    choose = random.Random(0)
    for split, size in (("train", 200), ("valid", 20), ("test", 20)):
        lines = []
        for number in range(size):
            if hard_cases and number in (3, 7):
                lines.append([])
            elif hard_cases and number in (4, 11):
                lines.append([choose.choice(letters)])
            elif hard_cases and number == 5:
                lines.append([choose.choice(letters) for _ in range(60)])
            else:
                lines.append([choose.choice(letters) for _ in range(choose.randint(2, 12))])
        for side, order in (("de", 1), ("en", -1)):
            text = "".join(" ".join(line[::order]) + "\n" for line in lines)
            (folder / f"{split}.{side}").write_text(text)


def binarise(folder: Path, *flags: str) -> Path:
    run(
        "fairseq-preprocess",
        *("-s", "de", "-t", "en", "--joined-dictionary", "--destdir", "bin"),
        *("--trainpref", "train", "--validpref", "valid", "--testpref", "test", *flags),
        cwd=folder,
    )
    return folder / "bin"
