"""Fusions: how the outputs of several branches become one.

To add one, subclass :class:`Fusion` and name it in the model file whose flag chooses it.
Shape letters as in ``problem.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Fusion(nn.Module):
    """Combines l branch outputs of width d.

    Args:
        embed_dim: d.
        num_heads: h.
        num_branches: l.

    Attributes:
        width: width of the fused output, which the output projection W^o takes in.
    """

    def __init__(self, embed_dim: int, num_heads: int, num_branches: int):
        super().__init__()
        self.width = embed_dim

    def forward(
        self, branches: Tensor, hidden: Tensor, queries: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Fuse.

        Args:
            branches: branch outputs, heads concatenated, ``[l, n, b, d]``.
            hidden: what the attention layer was given (H in the hybrid-gate paper),
                ``[n, b, d]``.
            queries: the queries of all heads, scaled by d_k ** -0.5, ``[n, b, d]``.

        Returns:
            the fused output ``[n, b, width]``, and the gate values if there are gates
            (their shape is given by each class).
        """
        raise TypeError(f"{type(self).__name__} does not define forward()")


class Sum(Fusion):
    """Sum of the branches (HySAN Eq. 13, "Sum").  Has no parameters.

    Of a single branch, which needs no fusion, it is that branch.
    """

    def forward(self, branches, hidden, queries):
        return branches.sum(dim=0), None


class Concat(Fusion):
    """The branches side by side (HySAN Eq. 13, "Concat"; hybrid gate, "Concate").

    The linear map H from l*d to d is the attention's output projection itself, which is
    what the parameter counts of HySAN's Table 2 imply.
    """

    def __init__(self, embed_dim, num_heads, num_branches):
        super().__init__(embed_dim, num_heads, num_branches)
        self.width = num_branches * embed_dim

    def forward(self, branches, hidden, queries):
        return torch.cat(branches.unbind(0), dim=-1), None


class GatedSum(Fusion):
    """Sum of the branches, each scaled by its squeeze gate (HySAN Eq. 13 and 14, Fig. 3).

    SG(x) = sigmoid(f2(ReLU(f1(x)))) position by position, with f1 from d to d/r and f2
    back to d, without biases and shared by the branches, which is what the parameter
    counts of Table 2 imply.

    Args:
        squeeze_ratio: r, a divisor of d.

    Gate values: ``[l, n, b, d]``.
    """

    def __init__(self, embed_dim, num_heads, num_branches, *, squeeze_ratio: int):
        super().__init__(embed_dim, num_heads, num_branches)
        self.squeeze = nn.Linear(embed_dim, embed_dim // squeeze_ratio, bias=False)
        self.expand = nn.Linear(embed_dim // squeeze_ratio, embed_dim, bias=False)
        nn.init.xavier_uniform_(self.squeeze.weight)
        nn.init.xavier_uniform_(self.expand.weight)

    def forward(self, branches, hidden, queries):
        gates = torch.sigmoid(self.expand(torch.relu(self.squeeze(branches))))
        return (branches * gates).sum(dim=0), gates


class HiddenGate(Fusion):
    """A gating scalar between a global and a local branch (hybrid gate Eq. 4 and 5).

    (1 - g) * global + g * local with g = sigmoid(W H), one number per position, without
    a bias.  The branches come in the order global, local.

    Gate values: ``[n, b, 1]``, the share of the local branch.
    """

    def __init__(self, embed_dim, num_heads, num_branches):
        super().__init__(embed_dim, num_heads, num_branches)
        self.gate = nn.Linear(embed_dim, 1, bias=False)
        nn.init.xavier_uniform_(self.gate.weight)

    def forward(self, branches, hidden, queries):
        gates = torch.sigmoid(self.gate(hidden))
        return _interpolate(branches, gates), gates


class QueryGate(Fusion):
    """The gate as in the code that the authors of the hybrid-gate paper published.

    It looks at the scaled queries of all heads and gives one number per position *and*
    head; W is d x h without a bias, drawn from N(0, 0.1).

    Gate values: ``[n, b, h]``, the share of the local branch.
    """

    def __init__(self, embed_dim, num_heads, num_branches):
        super().__init__(embed_dim, num_heads, num_branches)
        self.head_dim = embed_dim // num_heads
        self.gate = nn.Linear(embed_dim, num_heads, bias=False)
        nn.init.normal_(self.gate.weight, std=0.1)

    def forward(self, branches, hidden, queries):
        gates = torch.sigmoid(self.gate(queries))
        return _interpolate(branches, gates.repeat_interleave(self.head_dim, dim=-1)), gates


def _interpolate(branches: Tensor, gates: Tensor) -> Tensor:
    global_output, local_output = branches
    return (1 - gates) * global_output + gates * local_output
