"""What one attention computation is given, and what it gives back.

Shape letters, used in every docstring of this folder:

========  =========================================================
``b``     sentences in the batch
``h``     attention heads
``n``     query positions
``m``     key positions (n, or more when decoding step by step)
``d``     model width
``d_k``   width of a head, d / h
``l``     branches
========  =========================================================
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..patterns import Pattern

#: The patterns of one branch: a single one for all its heads, or one for each head.
Branch = tuple[Pattern, ...]


@dataclass(frozen=True, kw_only=True)
class AttentionProblem:
    """Scores are computed once and shared by all branches; values are shared as well.

    All numbers are finite, those of padding too.

    Attributes:
        q: queries, already multiplied by d_k ** -0.5, ``[b, h, n, d_k]``.
        k: keys, ``[b, h, m, d_k]``.
        v: values, ``[b, h, m, d_k]``.
        branches: l branches.  The queries are the last n of the m key positions.
        key_padding: ``[b, m]``, True = padding, never attended; None = no padding.
        bias: added to the scores before the softmax, broadcastable to ``[b, h, n, m]``.
        dropout: probability of dropping an attention weight, drawn anew for each branch.
        need_weights: whether the weights are wanted as well.
        mix: how much of each branch goes into one common output, where that is known
            before attention, ``[l, b, 1 or h, n, 1]``; each size may also be 1.  None =
            the branches are wanted one by one.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    branches: tuple[Branch, ...]
    key_padding: Tensor | None = None
    bias: Tensor | None = None
    dropout: float = 0.0
    need_weights: bool = False
    mix: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class AttentionResult:
    """
    Attributes:
        outputs: what each branch and head gathered, ``[l, b, h, n, d_k]``.  A query that
            may attend to no key at all gets exactly zero.  With ``mix`` it is the sum of
            the branches, each times its share, ``[1, b, h, n, d_k]``.
        weights: attention weights before dropout, ``[l, b, h, n, m]``, of at least
            single precision; rows sum to 1, or are 0 where no key is allowed.  None
            unless asked for.
    """

    outputs: Tensor
    weights: Tensor | None = None
