"""fairseq's commands on a GPU: trained, stopped and resumed there, and translated elsewhere."""

import shutil

import pytest
import torch
from cli import TINY, USER_DIR, run

from fairseq_hybrid_attn.devices import has_bfloat16

ALL, HALF = 50, 25
#: Flags of each precision; one tensor for all weights is for a GPU.
PRECISIONS = {
    "fp16": ["--fp16", "--fp16-no-flatten-grads"],
    "bf16": ["--autocast-bf16"],
    "fp32": [],
}


def train(corpus, save_dir, device, updates, *flags, cwd, **variables):
    run(
        *("fairseq-train", corpus, "--user-dir", USER_DIR, "--save-dir", save_dir),
        *("--arch", "transformer_hysan", *TINY, "--squeeze-ratio", 4, "--share-all-embeddings"),
        *("--task", "translation_resumable", "--criterion", "fused_label_smoothed_cross_entropy"),
        *("--label-smoothing", 0.1, "--optimizer", "adam", "--lr", "1e-3", "--max-tokens", 400),
        *("--max-update", updates, "--validate-interval-updates", ALL, "--num-workers", 0),
        *(["--cpu"] if device == "cpu" else []),
        *("--distributed-world-size", 1, *flags),
        cwd=cwd,
        **variables,
    )
    state = torch.load(cwd / save_dir / "checkpoint_last.pt", weights_only=True)
    assert state["optimizer_history"][-1]["num_updates"] == updates
    return state


def distance(state, other) -> float:
    parts = [(state["model"][name] - other["model"][name]).norm() for name in state["model"]]
    return float(torch.stack(parts).norm())


@pytest.mark.parametrize("precision", ("fp16", "bf16"))
def test_half_precision_is_stopped_and_resumed(precision, corpus, device, tmp_path):
    """Exactly in bfloat16 on a CPU; else nearly: much nearer than it moves meanwhile."""
    if device == "cpu" and precision == "bf16" and not has_bfloat16():
        pytest.skip("this CPU has no bfloat16")
    flags = PRECISIONS[precision] if device == "cpu" else PRECISIONS[precision][:1]
    saved = ["--save-interval-updates", HALF]
    whole = train(corpus, "whole", device, ALL, *flags, *saved, cwd=tmp_path)
    (checkpoint,) = (tmp_path / "whole").glob(f"checkpoint_*_{HALF}.pt")
    half = torch.load(checkpoint, weights_only=True)
    (tmp_path / "parts").mkdir()
    shutil.copyfile(checkpoint, tmp_path / "parts/checkpoint_last.pt")
    parts = train(corpus, "parts", device, ALL, *flags, cwd=tmp_path)
    assert all(tensor.isfinite().all() for tensor in parts["model"].values())
    if precision == "fp16":
        scales = [one["last_optimizer_state"]["loss_scale"] for one in (half, parts, whole)]
        assert scales[0] == scales[1] == scales[2] == 128
    losses = [one["extra_state"]["val_loss"] for one in (half, parts, whole)]
    assert losses[1] < losses[0] and abs(losses[1] - losses[2]) < 0.02 * losses[2]
    if device == "cpu" and precision == "bf16":
        assert distance(parts, whole) == 0
    assert distance(parts, whole) < 0.2 * distance(half, whole)


def hypotheses(corpus, checkpoint, device, *flags, cwd):
    done = run(
        *("fairseq-generate", corpus, "--user-dir", USER_DIR, "--path", checkpoint),
        *("--max-tokens", 1000, "--required-batch-size-multiple", 1, "--beam", 4, *flags),
        *(["--cpu"] if device == "cpu" else []),
        cwd=cwd,
    )
    lines = [line.split("\t") for line in done.stdout.splitlines() if line[:2] == "H-"]
    return {number: (float(score), text) for number, score, text in lines}


@pytest.mark.parametrize("precision", ("fp16", "fp32"))
def test_a_checkpoint_translates_on_either_device(precision, corpus, device, tmp_path):
    """In single precision, alike; in float16, with scores within 1e-2 but for ties."""
    where = device if precision == "fp16" else "cpu"
    flags = PRECISIONS[precision] if where == "cpu" else PRECISIONS[precision][:1]
    train(corpus, "model", where, ALL, *flags, cwd=tmp_path)
    checkpoint = tmp_path / "model/checkpoint_last.pt"
    exact = hypotheses(corpus, checkpoint, "cpu", cwd=tmp_path)
    assert len(exact) == 20
    for half in ([], ["--fp16"] if device == "cuda" else []):
        found = hypotheses(corpus, checkpoint, device, *half, cwd=tmp_path)
        assert found.keys() == exact.keys()
        close = 1e-2 if half else 1e-3
        assert all(abs(found[n][0] - exact[n][0]) <= close for n in exact)
        same = sum(found[n][1] == exact[n][1] for n in exact)
        assert same >= (18 if half else 20)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are not two GPUs")
def test_two_cards_are_one_with_double_the_batches(corpus, tmp_path):
    flags = ["--dropout", 0]
    one = train(corpus, "one", "cuda", 6, "--update-freq", 2, *flags, cwd=tmp_path)
    flags += ["--distributed-world-size", 2]
    own = {"OMP_NUM_THREADS": "1"}  # in a process that was not forked: it starts others
    two = train(corpus, "two", "cuda", 6, *flags, cwd=tmp_path, **own)
    assert distance(two, one) < 1e-3
