"""Fusions: how the outputs of several branches become one.

To add a fusion, subclass :class:`Fusion`, say what its gates are and whether it looks at other
positions, and give it a word by ``register_fusion``.  Shape letters as in ``problem.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import UserError


@dataclass(frozen=True, kw_only=True)
class GateKind:
    """What the gate values of a fusion are, for whatever shows them.

    Attributes:
        name: a word for them.
        meaning: of their values, in a few words.
        branch: None: every branch has gates, ``[l, n, b, w]``.  A number, from 0: only this branch
            has, and its gates are shares between 0 and 1, ``[n, b, w]``.
        of_heads: w is h, a gate of each head, or 1.  Otherwise, the mean over w is shown.
    """

    name: str
    meaning: str
    branch: int | None = None
    of_heads: bool = False


class Fusion(nn.Module):
    """Combine l branch outputs of width d: by :meth:`mixture`, or else by :meth:`forward`.

    Attributes:
        mixes_positions: whether the result at a position depends on other positions, which a
            decoder refuses.  Each fusion says it.
        gate_kind: what the gate values are; None if there are none.
        width: width of the fused output, the input of the output projection W^o.
    """

    mixes_positions: bool
    gate_kind: GateKind | None = None

    def __init_subclass__(cls) -> None:
        if not isinstance(getattr(cls, "mixes_positions", None), bool):
            raise UserError(
                f"{cls.__name__}: add mixes_positions = False to the class; True if its result at "
                "a position depends on other positions"
            )

    def __init__(self, embed_dim: int, num_heads: int, num_branches: int):
        super().__init__()
        self.width = embed_dim
        self.num_branches = num_branches

    def mixture(self, hidden: Tensor, queries: Tensor) -> Tensor | None:
        """Return the share of each branch, if it is known before attention.

        Such branches are added up before they are multiplied with the values, which costs as
        little as a single branch.

        Args: as for :meth:`forward`.

        Returns:
            shares ``[l, b, 1 or h, n, 1]``; each size may also be 1 if all shares along it are
            equal.  None if the shares depend on the branch outputs, or with a single branch.
        """
        return None

    def forward(
        self, branches: Tensor, hidden: Tensor, queries: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Fuse the branches; by default, add them up by their shares.

        Args:
            branches: branch outputs, heads concatenated, ``[l, n, b, d]``.
            hidden: input of the attention layer (H in the hybrid-gate paper), ``[n, b, d]``.
            queries: the queries of all heads, scaled by d_k ** -0.5, ``[n, b, d]``.

        Returns:
            the fused output ``[n, b, width]``, and the gate values as in ``gate_kind``, or None.
        """
        if self.num_branches == 1:
            return branches[0], None
        shares = self.mixture(hidden, queries)
        if shares is None:
            raise TypeError(f"{type(self).__name__} defines neither mixture() nor forward()")
        shares = shares.squeeze(-1).permute(0, 3, 1, 2)  # [l, n, b, 1 or h]
        by_head = branches.unflatten(-1, (shares.size(-1), -1))
        fused = (shares.unsqueeze(-1) * by_head).sum(dim=0).flatten(-2)
        if self.gate_kind is None:
            return fused, None
        branch = self.gate_kind.branch  # if there is none of this number, whoever shows it says so
        return fused, shares[branch] if branch in range(len(shares)) else shares


class Sum(Fusion):
    """Sum of the branches (HySAN Eq. 13, "Sum"), or the only branch.  Has no parameters."""

    mixes_positions = False

    def mixture(self, hidden, queries):
        if self.num_branches == 1:
            return None
        return queries.new_ones(()).expand(self.num_branches, 1, 1, 1, 1)


class Concat(Fusion):
    """The branches side by side (HySAN Eq. 13, "Concat"; hybrid gate, "Concate").

    The linear map H from l*d to d is the attention's output projection, as the parameter
    counts of HySAN's Table 2 imply.
    """

    mixes_positions = False

    def __init__(self, embed_dim, num_heads, num_branches):
        super().__init__(embed_dim, num_heads, num_branches)
        self.width = num_branches * embed_dim

    def forward(self, branches, hidden, queries):
        return torch.cat(branches.unbind(0), dim=-1), None


class GatedSum(Fusion):
    """Sum of the branches, each scaled by its squeeze gate (HySAN Eq. 13 and 14, Fig. 3).

    SG(x) = sigmoid(f2(ReLU(f1(x)))) at each position, with f1 from d to d/r and f2 back to d.
    The branches share f1 and f2, which have no biases, as the parameter counts of Table 2
    imply.

    Raises:
        UserError: if the squeeze ratio r does not divide d.

    Gate values: ``[l, n, b, d]``.
    """

    mixes_positions = False
    gate_kind = GateKind(name="squeeze", meaning="mean over the numbers of a branch's output")

    def __init__(self, embed_dim, num_heads, num_branches, *, squeeze_ratio: int):
        super().__init__(embed_dim, num_heads, num_branches)
        if squeeze_ratio < 1 or embed_dim % squeeze_ratio:
            raise UserError(
                f"squeeze_ratio={squeeze_ratio} (--squeeze-ratio): use a divisor of the width, "
                f"{embed_dim}"
            )
        self.squeeze = nn.Linear(embed_dim, embed_dim // squeeze_ratio, bias=False)
        self.expand = nn.Linear(embed_dim // squeeze_ratio, embed_dim, bias=False)
        nn.init.xavier_uniform_(self.squeeze.weight)
        nn.init.xavier_uniform_(self.expand.weight)

    def forward(self, branches, hidden, queries):
        gates = torch.sigmoid(self.expand(torch.relu(self.squeeze(branches))))
        return (branches * gates).sum(dim=0), gates


def just_its_weights(layer: nn.Module) -> bool:
    """Whether a layer was neither replaced (quantised, adapted) nor hooked."""
    hooks = (
        layer._forward_hooks,
        layer._forward_pre_hooks,
        layer._backward_hooks,
        layer._backward_pre_hooks,
    )
    return type(layer) is nn.Linear and not any(hooks) and "forward" not in vars(layer)


#: The gates of the hybrid gate, ``[n, b, 1]`` or ``[n, b, h]``.
LOCAL_SHARE = GateKind(
    name="share",
    meaning="of the local branch, 0 = global attention only, 1 = local attention only",
    branch=1,
    of_heads=True,
)


class HiddenGate(Fusion):
    """A gating scalar between a global and a local branch (hybrid gate Eq. 4 and 5).

    (1 - g) * global + g * local with g = sigmoid(W H), one number per position, without
    a bias.  The order of the branches is global, local.

    Gate values: ``[n, b, 1]``, the share of the local branch.
    """

    mixes_positions = False
    gate_kind = LOCAL_SHARE

    def __init__(self, embed_dim, num_heads, num_branches):
        super().__init__(embed_dim, num_heads, num_branches)
        self.gate = nn.Linear(embed_dim, 1, bias=False)
        nn.init.xavier_uniform_(self.gate.weight)

    def mixture(self, hidden, queries):
        gates = torch.sigmoid(self.gate(hidden)).transpose(0, 1)  # [b, n, 1]
        return torch.stack([1 - gates, gates]).unsqueeze(2)


class QueryGate(Fusion):
    """The gate in the published code of the authors of the hybrid-gate paper.

    It looks at the scaled queries of all heads and gives one number per position *and*
    head.  W is d x h without a bias, drawn from N(0, 0.1).

    Gate values: ``[n, b, h]``, the share of the local branch.
    """

    mixes_positions = False
    gate_kind = LOCAL_SHARE

    def __init__(self, embed_dim, num_heads, num_branches):
        super().__init__(embed_dim, num_heads, num_branches)
        self.gate = nn.Linear(embed_dim, num_heads, bias=False)
        nn.init.normal_(self.gate.weight, std=0.1)

    def mixture(self, hidden, queries):
        gates = torch.sigmoid(self.gate(queries)).permute(1, 2, 0)  # [b, h, n]
        return torch.stack([1 - gates, gates]).unsqueeze(-1)
