"""What one attention computation is given and returns.

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
    """What is given; all branches share scores and values.

    All numbers are finite, including those of padding.

    Attributes:
        q: queries, already multiplied by d_k ** -0.5, ``[b, h, n, d_k]``.
        k: keys, ``[b, h, m, d_k]``.
        v: values, ``[b, h, m, d_k]``.
        branches: l branches.  The queries are the last n of the m key positions.
        key_padding: ``[b, m]``, True = padding, never attended to; None = no padding.
        bias: added to the scores before the softmax, broadcastable to ``[b, h, n, m]``.
        dropout: probability of dropping an attention weight, drawn for each branch separately.
        need_weights: whether to return the weights as well.
        mix: the share of each branch in one common output, if it is known before attention,
            ``[l, b, 1 or h, n, 1]``; each size may also be 1.  None = separate branches.
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
    """What is returned.

    Attributes:
        outputs: of each branch and head, ``[l, b, h, n, d_k]``.  A query that may not attend to
            any key gets exactly zero.  With ``mix``: the sum of the branches, each times its
            share, ``[1, b, h, n, d_k]``.
        weights: attention weights before dropout, ``[l, b, h, n, m]``, of at least single
            precision.  Rows sum to 1, or are 0 where no key is allowed.  None if not needed.
    """

    outputs: Tensor
    weights: Tensor | None = None
