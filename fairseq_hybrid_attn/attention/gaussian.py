"""Gaussian biases that favour a neighbourhood: the localness baselines.

The hybrid-gate paper compares with three earlier methods (its Table 1).  Each adds
G_ij = -(j - P_i)^2 / (2 sigma_i^2), sigma_i = D_i / 2, to the scores before the softmax;
they differ in where the centre P_i and the window D_i come from.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

#: The smallest predicted window, so that a centre on the key itself gives a bias of 0, not 0 / 0.
SMALLEST_WINDOW = 1e-3


class Predictor(nn.Module):
    """n * sigmoid(U^T tanh(W Q_i)): a place in the sentence, or a length (Yang et al. 2018).

    W is d x d and U is d x 1, without biases: one number per position for all heads.
    """

    def __init__(self, embed_dim: int):
        super().__init__()
        self.transform = nn.Linear(embed_dim, embed_dim, bias=False)
        self.score = nn.Linear(embed_dim, 1, bias=False)
        nn.init.xavier_uniform_(self.transform.weight)
        nn.init.xavier_uniform_(self.score.weight)

    def forward(self, queries: Tensor, lengths: Tensor) -> Tensor:
        """Predict numbers of tokens ``[b, n, 1]``, between 0 and the sentence's length.

        Args:
            queries: unscaled queries of all heads, ``[b, n, d]``.
            lengths: number of real tokens of each sentence, ``[b]``.
        """
        share = torch.sigmoid(self.score(torch.tanh(self.transform(queries))))
        share = share.to(torch.promote_types(share.dtype, torch.float32))
        return share * lengths[:, None, None]


class GaussianBias(nn.Module):
    """The bias matrix G.

    Args:
        embed_dim: d.
        predict_centre: predict P_i from the query; otherwise P_i = i.
        window: D in tokens, constant; None: predict D_i from the query.
    """

    def __init__(self, embed_dim: int, *, predict_centre: bool, window: float | None):
        super().__init__()
        self.fixed_window = window
        self.centre = Predictor(embed_dim) if predict_centre else None
        self.window = Predictor(embed_dim) if window is None else None

    @property
    def word(self) -> str:
        """The paper's word for this bias."""
        if self.centre is None:
            return "neighbor"
        return "local-h" if self.window is None else "local-s"

    def forward(self, queries: Tensor, key_padding: Tensor | None) -> Tensor:
        """Return the bias ``[b, 1, n, n]`` in at least single precision.

        Args:
            queries: unscaled queries of all heads, ``[b, n, d]``.
            key_padding: ``[b, n]``, True = padding; None = no padding.
        """
        b, n, _ = queries.shape
        if key_padding is None:
            key_padding = torch.zeros(b, n, dtype=torch.bool, device=queries.device)
        real = ~key_padding
        lengths = real.sum(dim=1)
        # Real tokens are numbered 1 .. n, whichever side is padded.
        position = real.cumsum(dim=1)
        centre = position[:, :, None] if self.centre is None else self.centre(queries, lengths)
        if self.window is None:
            window = self.fixed_window
        else:
            window = self.window(queries, lengths).clamp(min=SMALLEST_WINDOW)
        # -(j - P)^2 / (2 (D/2)^2) = -2 ((j - P) / D)^2
        bias = -2 * ((position[:, None, :] - centre) / window) ** 2  # type: ignore[operator]  # [b, n, n]
        return bias.unsqueeze(1)
