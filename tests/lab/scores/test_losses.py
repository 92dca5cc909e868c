"""Losses of models: by sentence, and what is refused.

That they add up to those of fairseq-validate is in tables/test_trained_tables.py.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from analysed import binarise
from fairseq import checkpoint_utils
from refusals import check_command_refusals

from fairseq_hybrid_attn.lab.commands.command_line import main

SMOOTHING = 0.2


def test_each_sentence_has_the_loss_of_its_own_tokens(in_data, capsys):
    """By the criterion of the first model, and the mean of models of one name."""
    binarise(in_data, "valid")
    smooth("stock.pt")
    main("losses a=smooth.pt a=mma.pt b=mma.pt.copy --data bin --write losses.json".split())
    written = json.loads(Path("losses.json").read_text())
    found = {number["row"]: number for number in written["numbers"]}
    a, b = (
        [np.array(model["loss"]["counts"]["rows"]) for model in written["systems"][name]]
        for name in "ab"
    )
    alone = {name: by_hand(name) for name in ("stock.pt", "mma.pt")}
    for rows, name in zip((*a, *b), ("stock.pt", "mma.pt", "mma.pt"), strict=True):
        assert rows[:, 0] == pytest.approx([sum(one) for one in alone[name]], rel=1e-5)
        assert rows[:, 1].tolist() == [len(one) for one in alone[name]]
    out = capsys.readouterr().out
    assert f"sentences:4|tokens:{b[0][:, 1].sum():.0f}; lower is better" in out
    losses = {
        name: np.mean([rows[:, 0].sum() / rows[:, 1].sum() for rows in models])
        for name, models in (("a", a), ("b", b))
    }
    for name, loss in losses.items():
        assert found[name]["ours"]["value"] == pytest.approx(loss)
        assert f"{loss:.3f}" in out
    # The only b is beside each a.
    first, second, other = (rows[:, 0].sum() / rows[:, 1].sum() for rows in (*a, *b))
    differences = {"1": pytest.approx(other - first), "2": pytest.approx(other - second)}
    assert found["b"]["difference"]["by_seed"] == differences


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


def test_refusals(in_data):
    texts = {"long": ("ja\n" + "ja " * 50, "so\nso"), "single": ("ja", "so")}
    for name, sides in texts.items():
        for side, text in zip(("de", "en"), sides, strict=True):
            Path(f"{name}.{side}").write_text(f"{text}\n")
        binarise(in_data, name, name)
    state = torch.load("mma.pt", weights_only=True)
    state["cfg"]["criterion"] = None
    torch.save(state, "no-criterion.pt")
    refused = {
        "a=mma.pt b=./mma.pt": "mma.pt is given twice",
        "a=mma.pt --gen-subset long": "sentence 2: longer",
        "a=mma.pt --gen-subset single": "two sentences",
        "a=no-criterion.pt --gen-subset long": "no-criterion.pt cannot be measured",
    }
    check_command_refusals(refused.items(), "losses", "--data", "bin", "--device", "cpu")
