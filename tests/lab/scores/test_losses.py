"""Losses of models: by sentence, their intervals, what is refused.

That they add up to those of fairseq-validate is in tables/test_trained_tables.py.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from analysed import binarise
from fairseq import checkpoint_utils
from refusals import check_command_refusals

from fairseq_hybrid_attn.lab.cli.command_line import main
from fairseq_hybrid_attn.lab.scores.losses_command import compare

SMOOTHING = 0.2


def test_intervals_are_of_the_sentences_and_differences_are_paired():
    random = np.random.default_rng(1)
    tokens = random.integers(5, 40, 2000).astype(float)
    losses = tokens * random.normal(4, 1, len(tokens))
    noise = tokens * random.normal(0, 0.1, len(tokens))
    systems = {"base": losses, "higher": losses + 0.15 * tokens, "noisy": losses + noise}
    base, higher, noisy = compare(systems, tokens)

    def normal(values):
        """Half the interval by the normal approximation for a ratio of sums."""
        ratio = values.sum() / tokens.sum()
        return 1.96 * np.std((values - ratio * tokens) / tokens.mean()) / math.sqrt(len(tokens))

    assert base["loss"] == pytest.approx(losses.sum() / tokens.sum())
    assert base["interval"] == pytest.approx(normal(losses), rel=0.1)
    assert base["difference"] is base["difference_interval"] is None
    assert higher["difference"] == pytest.approx(0.15)
    assert higher["difference_interval"] == pytest.approx(0, abs=1e-9)
    assert noisy["difference"] == pytest.approx(noise.sum() / tokens.sum())
    assert noisy["difference_interval"] == pytest.approx(normal(noise), rel=0.1)


def test_each_sentence_has_the_loss_of_its_own_tokens(in_data, capsys):
    """By the criterion of the first model, and the mean of models of one name."""
    binarise(in_data, "valid")
    smooth("stock.pt")
    main("losses a=smooth.pt a=mma.pt b=mma.pt.copy --data bin --json losses.json".split())
    found = json.loads(Path("losses.json").read_text())
    assert f"valid: 4 sentences, {sum(found['tokens']):.0f} tokens" in capsys.readouterr().out
    alone = {name: by_hand(name) for name in ("stock.pt", "mma.pt")}
    a, b = found["systems"]
    assert found["tokens"] == [len(one) for one in alone["mma.pt"]]
    assert b["by_sentence"] == pytest.approx([sum(one) for one in alone["mma.pt"]], rel=1e-5)
    both = [(sum(one) + sum(two)) / 2 for one, two in zip(*alone.values(), strict=True)]
    assert a["by_sentence"] == pytest.approx(both, rel=1e-5)
    assert (
        a["by_model"][1] == b["loss"] == pytest.approx(sum(b["by_sentence"]) / sum(found["tokens"]))
    )
    assert b["difference"] == pytest.approx(b["loss"] - a["loss"])


def smooth(path):
    """Write ``smooth.pt``, the same with a criterion that smooths labels, and a copy of mma.pt."""
    state = torch.load(path, weights_only=True)
    criterion = {"_name": "label_smoothed_cross_entropy", "label_smoothing": SMOOTHING}
    state["cfg"]["criterion"] = criterion
    torch.save(state, "smooth.pt")
    Path("mma.pt.copy").write_bytes(Path("mma.pt").read_bytes())


def by_hand(path):
    """The smoothed loss, in bits, of each token of each sentence."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([path])
    model.eval()
    task.load_dataset("valid")
    data, found = task.dataset("valid"), []
    for number in range(4):
        source, target = data[number]["source"][None], data[number]["target"]
        previous = torch.cat([target[-1:], target[:-1]])[None]
        logits, _ = model(source, torch.tensor([source.size(1)]), previous)
        surprise = -torch.log2(torch.softmax(logits[0].double(), dim=1))
        size = surprise.size(1)
        gold = torch.full_like(surprise, SMOOTHING / (size - 1))
        gold[range(len(target)), target] = 1 - SMOOTHING
        found.append((gold * surprise).sum(dim=1).tolist())
    return found


MISTAKES = {
    "a=none.pt": "none.pt: there is no such file or folder",
    "a=text.de": "text.de cannot be loaded as a checkpoint",
    "a=mma.pt b=./mma.pt": "mma.pt is given twice",
    "a=mma.pt --gen-subset none": "--gen-subset none",
    "a=mma.pt --gen-subset long": "sentence 2: longer than the model takes",
    "a=mma.pt --gen-subset single": "an interval needs two sentences",
    "a=mma.pt --gen-subset uneven": "cannot be measured on bin",
    "a=no-criterion.pt --gen-subset long": "no-criterion.pt cannot be measured on bin",
    "a=mma.pt --json mma.pt": "one of the inputs",
    "a=mma.pt --json bin/single.de-en.en.bin": "one of the inputs",
}


def test_mistakes_are_refused(in_data):
    for name, german, english in (
        ("long", "ja\n" + "ja " * 50 + "\n", "so\nso\n"),
        ("single", "ja\n", "so\n"),
        ("uneven", "ja\nja\n", "so\n"),
    ):
        Path(f"{name}.de").write_text(german)
        Path(f"{name}.en").write_text(english)
        binarise(in_data, name, name)
    state = torch.load("mma.pt", weights_only=True)
    state["cfg"]["criterion"] = None
    torch.save(state, "no-criterion.pt")
    check_command_refusals(MISTAKES.items(), "losses", "--data", "bin", "--device", "cpu")
