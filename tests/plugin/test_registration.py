"""What importing the package, or a part of it, does to fairseq."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

USE = """
import torch
from fairseq_hybrid_attn import record_attention, register_fusion, register_pattern
from fairseq_hybrid_attn.attention import AttentionPlan, PatternedAttention
from fairseq_hybrid_attn.patterns import GLOBAL, PAST, local

attention = PatternedAttention(8, 2, AttentionPlan.of_heads((PAST, local(1)), 2), batch_first=True)
with record_attention(attention) as records:
    y, _ = attention(torch.randn(2, 5, 8))
allowed = torch.stack([pattern.mask(5, 5) for pattern in (PAST, local(1))])
assert y.shape == (2, 5, 8) and records[""][0].weights[0].gt(0).equal(allowed.expand(2, 2, 5, 5))
"""
#: As where only torch is installed.
TORCH_ALONE = """
import importlib.abc, sys

HIDDEN = ("fairseq", "hydra", "omegaconf", "numpy", "sacrebleu", "yaml")

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Hidden())
"""
KNOWN = """
from fairseq.models import MODEL_REGISTRY
print("transformer_mma" in MODEL_REGISTRY)
"""


def python(code: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_attention_needs_torch_alone():
    python(TORCH_ALONE + USE)


@pytest.mark.parametrize(
    "first, known",
    {
        "import fairseq, fairseq_hybrid_attn": True,
        "import fairseq_hybrid_attn.models": True,
        "import fairseq_hybrid_attn.attention; import fairseq": False,
    }.items(),
)
def test_models_are_known_where_fairseq_is_loaded_first_or_models_are_imported(first, known):
    assert python(first + KNOWN).split()[-1] == str(known)


def test_without_fairseq_the_models_say_what_is_missing():
    code = TORCH_ALONE.replace('"numpy", ', "") + "import fairseq_hybrid_attn.models"
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "pip install ve-fairseq==0.12.3" in done.stderr
