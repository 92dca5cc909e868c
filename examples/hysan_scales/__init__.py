"""Fusions of HySAN's branches that separate the scale of its gated sum from the bias of its gates.

HySAN adds its l branches up (Eq. 13).  The plain sum starts about l times as large as one branch,
the gated sum, whose gates have no bias and start near 1 / 2, about l / 2 times.  ``mean`` and
``gated-from-mean`` start about as large as one branch; ``gated-with-bias`` has the bias of the
latter and the start of the gated sum.  ``evidence/scales`` compares them.
"""

import math

import torch
from torch import nn

from fairseq_hybrid_attn import UserError, register_fusion
from fairseq_hybrid_attn.attention.fusion import Fusion, GateKind


class Mean(Fusion):
    """Mean of the branches.  Has no parameters."""

    mixes_positions = False

    def mixture(self, hidden, queries):
        if self.num_branches == 1:
            return None
        return queries.new_full((), 1 / self.num_branches).expand(self.num_branches, 1, 1, 1, 1)


class GatedWithBias(Fusion):
    """HySAN's gated sum with a bias in each gate that starts at 0, so that gates start near 1 / 2.

    SG(x) = sigmoid(f2(ReLU(f1(x))) + bias), with f1 and f2 as in the gated sum, at its default
    ratio of 16.

    Gate values: ``[l, n, b, d]``.
    """

    mixes_positions = False
    gate_kind = GateKind(name="squeeze", meaning="mean over the numbers of a branch's output")

    def __init__(self, embed_dim, num_heads, num_branches):
        super().__init__(embed_dim, num_heads, num_branches)
        if embed_dim % 16 or num_branches < 2:
            raise UserError("gates with a bias need two branches, and a width that 16 divides")
        self.squeeze = nn.Linear(embed_dim, embed_dim // 16, bias=False)
        self.expand = nn.Linear(embed_dim // 16, embed_dim)
        nn.init.xavier_uniform_(self.squeeze.weight)
        nn.init.xavier_uniform_(self.expand.weight)
        nn.init.zeros_(self.expand.bias)

    def forward(self, branches, hidden, queries):
        gates = torch.sigmoid(self.expand(torch.relu(self.squeeze(branches))))
        return (branches * gates).sum(dim=0), gates


class GatedFromMean(GatedWithBias):
    """The same with a bias that starts at log(1 / (l - 1)), so that gates start near 1 / l."""

    def __init__(self, embed_dim, num_heads, num_branches):
        super().__init__(embed_dim, num_heads, num_branches)
        nn.init.constant_(self.expand.bias, -math.log(num_branches - 1))


register_fusion("mean", Mean)
register_fusion("gated-with-bias", GatedWithBias)
register_fusion("gated-from-mean", GatedFromMean)
