"""Checkpoints in the layouts of older versions of fairseq, and those that fit no model."""

from argparse import Namespace

import pytest
import torch
from cli import train, weights
from fairseq import checkpoint_utils
from models import TINY, build, build_stock

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.checkpoints import misfit
from fairseq_hybrid_attn.lab.files.checkpoints import read_checkpoint


@pytest.fixture(params=["transformer_mma", "transformer"], scope="module")
def checkpoint(request, corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("older")
    train(corpus, "model", request.param, "--max-update", 2, cwd=folder)
    return folder / "model/checkpoint_last.pt"


def of_0_12_2(state: dict) -> dict:
    """With a second copy of each weight of an encoder layer; of zeros, which it would show."""
    for layer in range(2):
        at = f"encoder.layers.{layer}"
        for kind in ("weight", "bias"):
            own = state["model"][f"{at}.self_attn.q_proj.{kind}"]
            state["model"][f"{at}.in_proj_{kind}"] = torch.zeros_like(torch.cat([own] * 3))
            for name, of in {"out_proj": "self_attn.out_proj", "fc1": "fc1", "fc2": "fc2"}.items():
                zeros = torch.zeros_like(state["model"][f"{at}.{of}.{kind}"])
                state["model"][f"{at}.{name}_{kind}"] = zeros
    return state


def before_0_9(state: dict) -> dict:
    """With one projection in place of three, and settings as flags."""
    weights = state["model"]
    for name in [name for name in weights if ".q_proj." in name]:
        parts = [weights.pop(name.replace("q_proj", f"{part}_proj")) for part in "qkv"]
        weights[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
    cfg = state.pop("cfg")
    parts = [part if isinstance(part, dict) else vars(part) for part in cfg.values() if part]
    flags = {key: value for part in parts for key, value in part.items()}
    state["args"] = Namespace(**flags | {"arch": architecture(cfg), "task": "translation"})
    return state


def architecture(cfg: dict) -> str:
    return cfg["model"]["_name"] if isinstance(cfg["model"], dict) else cfg["model"].arch


@pytest.mark.parametrize("written", [of_0_12_2, before_0_9])
def test_checkpoints_of_older_versions_load(written, checkpoint, tmp_path):
    state = written(torch.load(checkpoint, weights_only=True))
    torch.save(state, tmp_path / "old.pt")
    found = {}
    for path in (checkpoint, tmp_path / "old.pt"):
        (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
        found[path] = model.state_dict()
    now, old = found.values()
    assert now.keys() == old.keys() and all(now[name].equal(old[name]) for name in now)
    if written is of_0_12_2:
        assert read_checkpoint(tmp_path / "old.pt")["model"].keys() == weights(checkpoint).keys()


def test_an_optimizer_of_another_model_is_not_resumed(checkpoint, corpus, tmp_path):
    torch.save(of_0_12_2(torch.load(checkpoint, weights_only=True)), tmp_path / "old.pt")
    arch = architecture(torch.load(checkpoint, weights_only=True)["cfg"])

    def go_on(flag, expect):
        flags = (flag, "old.pt", "--max-update", 4)
        return train(corpus, "more", arch, *flags, cwd=tmp_path, expect=expect)

    done = go_on("--restore-file", expect=1)
    assert "--finetune-from-model old.pt" in done.stderr and "Traceback" not in done.stderr
    go_on("--finetune-from-model", expect=0)


def test_weights_that_do_not_fit_are_named(trained, corpus, tmp_path):
    state = torch.load(trained, weights_only=True)
    state["model"]["encoder.surprise"] = state["model"].pop("encoder.layers.1.fc1.bias")
    torch.save(state, tmp_path / "bad.pt")
    with pytest.raises(UserError) as refused:
        checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "bad.pt")])
    more = ("transformer_hysan", "--squeeze-ratio", 4, "--finetune-from-model", "bad.pt")
    for told in (str(refused.value), train(corpus, "more", *more, cwd=tmp_path, expect=1).stderr):
        assert "bad.pt does not fit" in told and "Traceback" not in told
        assert "lacks encoder.layers.1.fc1.bias" in told and "encoder.surprise" in told


def test_new_weights_keep_their_first_values(corpus, tmp_path):
    """If asked for; a checkpoint of such a training does not ask for it again."""
    stock = build_stock(encoder_layers=2).state_dict()
    for arch in ("transformer_hybrid_gate", "transformer_hysan", "transformer_localness"):
        model = build(arch, **{**TINY, "encoder_layers": 2}, new_weights=True)
        first = {name: weight.clone() for name, weight in model.state_dict().items()}
        model.load_state_dict(dict(stock))
        found = model.state_dict()
        assert found.keys() > stock.keys()
        assert all(found[name].equal(stock.get(name, first[name])) for name in found)
        with pytest.raises(RuntimeError) as error:
            build(arch, **{**TINY, "encoder_layers": 2}).load_state_dict(dict(stock))
        assert "--new-weights" in misfit(error.value)
    train(corpus, "stock", "transformer", "--max-update", 1, cwd=tmp_path)
    more = ("--max-update", 1, "--finetune-from-model", "stock/checkpoint_last.pt", "--new-weights")
    train(corpus, "model", "transformer_hybrid_gate", *more, cwd=tmp_path)
    path = str(tmp_path / "model/checkpoint_last.pt")
    assert not checkpoint_utils.load_checkpoint_to_cpu(path)["cfg"]["model"]["new_weights"]
