"""Patterns in torch's FlexAttention."""

import shutil
import sys

import pytest
import torch
import torch.nn.functional as F
from brute_force import KINDS
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def follows_the_definition(attend, word):
    """Over two blocks of 128, of which it leaves out those that a pattern forbids."""
    pattern, allowed = KINDS[word]
    n = 200
    q, k, v = torch.randn(3, 2, 3, n, 16)
    mask = torch.tensor([[allowed(i, j) for j in range(n)] for i in range(n)])
    blocks = create_block_mask(pattern.mask_mod, B=None, H=None, Q_LEN=n, KV_LEN=n, device="cpu")
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(attend(q, k, v, block_mask=blocks), expected)


@pytest.mark.parametrize("word", ["global", "past", "future", "local5", "local_past2"])
def test_flex_attention_follows_the_definition(word):
    follows_the_definition(flex_attention, word)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="needs a compiler")
@pytest.mark.skipif(" " in sys.prefix, reason="torch's C++ builder needs a path without spaces")
def test_compiled_it_does_too():
    follows_the_definition(torch.compile(flex_attention), "local5")
