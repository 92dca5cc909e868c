"""Patterns in torch's FlexAttention."""

import pytest
import torch
import torch.nn.functional as F
from brute_force import KINDS
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


@pytest.mark.parametrize("word", ["global", "past", "future", "local5", "local_past2"])
def test_flex_attention_follows_the_definition(word):
    """Over two blocks of 128, of which it leaves out those that a pattern forbids."""
    pattern, allowed = KINDS[word]
    n = 200
    q, k, v = torch.randn(3, 2, 3, n, 16)
    mask = torch.tensor([[allowed(i, j) for j in range(n)] for i in range(n)])
    blocks = create_block_mask(pattern.mask_mod, B=None, H=None, Q_LEN=n, KV_LEN=n, device="cpu")
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(flex_attention(q, k, v, block_mask=blocks), expected)
