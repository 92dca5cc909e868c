"""Losses of models: by sentence, their intervals, what is refused.

That they are those of the training's log is in tables/test_trained_tables.py.
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

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.command_line import main
from fairseq_hybrid_attn.lab.scoring.losses import Losses, compare, mean


def system(losses, sizes, numbers=None):
    numbers = list(range(len(sizes))) if numbers is None else numbers
    return Losses(Path("m.pt"), numbers, len(sizes), losses, sizes)


def test_intervals_are_of_the_sentences_and_differences_are_paired():
    random = np.random.default_rng(1)
    sizes = random.integers(5, 40, 2000).astype(float)
    losses = sizes * random.normal(4, 1, len(sizes))
    noise = sizes * random.normal(0, 0.1, len(sizes))
    higher = [system(losses + sizes * by, sizes) for by in (0.1, 0.2)]  # bits of every token
    systems = {"base": system(losses, sizes), "higher": mean(higher)}
    systems["noisy"] = system(losses + noise, sizes)
    base, constant, noisy = compare(systems)

    def normal(values):
        """Half the interval by the normal approximation for a ratio of sums."""
        ratio = values.sum() / sizes.sum()
        return 1.96 * np.std((values - ratio * sizes) / sizes.mean()) / math.sqrt(len(sizes))

    assert base["loss"] == pytest.approx(losses.sum() / sizes.sum())
    assert base["interval"] == pytest.approx(normal(losses), rel=0.1)
    assert base["difference"] is None
    assert constant["difference"] == pytest.approx(0.15)
    assert constant["difference_interval"] == pytest.approx(0, abs=1e-9)
    assert noisy["difference"] == pytest.approx(noise.sum() / sizes.sum())
    assert noisy["difference_interval"] == pytest.approx(normal(noise), rel=0.1)

    for other in (system(losses, sizes[::-1]), system(losses, sizes, list(range(1, 2001)))):
        with pytest.raises(UserError, match="cannot be compared"):
            compare({**systems, "other": other})
        with pytest.raises(UserError, match="cannot be compared"):
            mean([systems["base"], other])


def test_each_sentence_has_the_loss_of_its_own_tokens(in_data, capsys):
    """Of twelve sentences, fairseq validates on eight: its batches are multiples of that."""
    for side in ("de", "en"):
        Path(f"long.{side}").write_text(Path(f"text.{side}").read_text() * 3)
    binarise(in_data, "valid", "long")
    main("losses bin --path a=stock.pt a=mma.pt b=mma.pt --cpu --json losses.json".split())
    assert "valid: 8 of 12 sentences" in capsys.readouterr().out
    found = json.loads(Path("losses.json").read_text())
    assert {1, 2, 3, 5, 6, 7, 9, 10, 11} > set(found["sentences"])  # not the longest
    alone = {name: by_hand(f"{name}.pt", found["sentences"]) for name in ("stock", "mma")}
    a, b = found["systems"]
    assert found["sizes"] == [len(one) for one in alone["mma"]]
    assert b["by_sentence"] == pytest.approx([sum(one) for one in alone["mma"]], rel=1e-5)
    both = [(sum(one) + sum(two)) / 2 for one, two in zip(*alone.values(), strict=True)]
    assert a["by_sentence"] == pytest.approx(both, rel=1e-5)
    assert (
        a["by_model"][1]
        == b["loss"]
        == pytest.approx(sum(map(sum, alone["mma"])) / sum(found["sizes"]))
    )


def by_hand(path, sentences):
    """The negative log-likelihood, in bits, of each token of sentences, counted from 1."""
    (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([path])
    model.eval()
    task.load_dataset("valid")
    data, found = task.dataset("valid"), []
    for number in sentences:
        source, target = data[number - 1]["source"][None], data[number - 1]["target"]
        previous = torch.cat([target[-1:], target[:-1]])[None]
        logits, _ = model(source, torch.tensor([source.size(1)]), previous)
        p = torch.softmax(logits[0].double(), dim=1)
        found.append([-math.log2(p[at, token]) for at, token in enumerate(target.tolist())])
    return found


MISTAKES = {
    "--path a=none.pt": "none.pt: there is no such file",
    "--path a=text.de": "text.de cannot be loaded as a checkpoint",
    "--path a=mma.pt --gen-subset none": "--gen-subset none",
    "--path a=mma.pt --gen-subset few": "validate on 0 of 4 sentences",
    "--path a=mma.pt --json mma.pt": "one of the inputs",
}


def test_mistakes_are_refused(in_data):
    binarise(in_data, "few")
    check_command_refusals(MISTAKES.items(), "losses", "bin", "--cpu")
