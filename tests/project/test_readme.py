"""What the README shows is what the package does."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
from models import TINY, build, build_tiny

from fairseq_hybrid_attn import patterns, record_attention
from fairseq_hybrid_attn.models.config import FlatTransformerConfig

README = (Path(__file__).parents[2] / "README.md").read_text()
OURS = sorted(
    name for name, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith("fairseq_hy")
)


PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def snippet(first_line: str) -> str:
    (code,) = [
        block
        for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL)
        if block.startswith(first_line)
    ]
    return code


def test_a_pattern_of_your_own_is_a_class_and_a_word(monkeypatch):
    scope = {"dataclass": dataclass, "Pattern": patterns.Pattern}
    exec(snippet("@dataclass"), scope)
    monkeypatch.setitem(patterns.HYSAN_ENCODER, "sK", scope["Strided"])
    model = build("transformer_hysan", **{**TINY, "encoder_branches": "global,s2"})
    with record_attention(model) as records:
        model.encoder(torch.tensor([[5, 6, 7, 8, 9, 2]]))
    weights = records["encoder.layers.0.self_attn"][0].weights[1]
    i, j = torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij")
    assert (weights[..., (j - i) % 2 == 1] == 0).all()
    assert (weights[..., (j - i) % 2 == 0] > 0).all()


def test_the_snippet_on_looking_inside(monkeypatch):
    model = build_tiny("hysan-gated")
    monkeypatch.setattr(
        "fairseq.checkpoint_utils.load_model_ensemble_and_task", lambda paths: ([model], None, None)
    )
    scope = {
        "src_tokens": torch.tensor([[5, 6, 2]]),
        "src_lengths": torch.tensor([3]),
        "prev_output_tokens": torch.tensor([[2, 7]]),
    }
    exec(snippet("import fairseq_hybrid_attn"), scope)
    assert scope["record"].weights.shape == (4, 1, 4, 3, 3)


@pytest.mark.parametrize("arch", OURS)
def test_every_architecture_is_described_with_its_size(arch):
    (row,) = [
        line
        for line in README.splitlines()
        if re.match(r"\| .*\d+, \d+, \d+, \d+ \|", line)
        and (f"`{arch}`" in line or (arch.endswith("_base") and f"`{arch[:-5]}`, `…_base`" in line))
    ]
    size = [int(number) for number in re.search(r"(\d+), (\d+), (\d+), (\d+) \|", row).groups()]
    cfg = MODEL_DATACLASS_REGISTRY[arch]()
    assert size == [
        cfg.encoder_layers,
        cfg.encoder_embed_dim,
        cfg.encoder_ffn_embed_dim,
        cfg.encoder_attention_heads,
    ]
    assert (cfg.decoder_layers, cfg.decoder_attention_heads) == (size[0], size[3])
    assert (cfg.decoder_embed_dim, cfg.decoder_ffn_embed_dim) == (None, None)  # as the encoder's


def test_every_flag_of_ours_is_described():
    stock = FlatTransformerConfig.__dataclass_fields__
    for arch in OURS:
        for name in MODEL_DATACLASS_REGISTRY[arch].__dataclass_fields__:
            if name not in stock:
                assert f"`--{name.replace('_', '-')}`" in README, name


def test_install_names_what_the_package_wants():
    install = README.split("\n## Install\n")[1].split("\n## ")[0]
    for wanted in PROJECT["dependencies"]:
        if "fairseq" in wanted:
            assert f"`{wanted.split(';')[0].strip()}`" in install
    for extra in PROJECT["optional-dependencies"]:
        assert f"`{extra}`" in install
