"""Fusions of HySAN's branches whose output starts as large as that of one attention.

HySAN adds its l branches up (Eq. 13): the plain sum starts with up to l times the output of one
attention, the gated sum, whose gates all start near 1 / 2, with up to l / 2 times.  ``mean`` and
``gated-from-mean`` start with the mean of the branches; ``gated-with-bias`` is between the latter
and the gated sum.  ``evidence/scales`` compares them.
"""

import math

import torch
from torch import nn

from fairseq_hybrid_attn import register_fusion
from fairseq_hybrid_attn.attention.fusion import Fusion, GateKind


class Mean(Fusion):
    """Mean of the branches.  Has no parameters."""

    def mixture(self, hidden, queries):
        return queries.new_full((), 1 / self.num_branches).expand(self.num_branches, 1, 1, 1, 1)

    def forward(self, branches, hidden, queries):
        return branches.mean(dim=0), None


class GatedWithBias(Fusion):
    """HySAN's gated sum with a bias in each gate that starts at 0, so that gates start near 1 / 2.

    SG(x) = sigmoid(f2(ReLU(f1(x))) + bias), with f1 and f2 as in the gated sum, at its default
    ratio of 16.

    Gate values: ``[l, n, b, d]``.
    """

    gate_kind = GateKind(name="squeeze", meaning="mean over the numbers of a branch's output")

    def __init__(self, embed_dim, num_heads, num_branches):
        super().__init__(embed_dim, num_heads, num_branches)
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
