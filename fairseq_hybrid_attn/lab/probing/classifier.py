"""SentEval's classifier: its shape, its training, and the choice among several.

What SentEval does (senteval/tools/classifier.py and validation.py, with usepytorch):

* one hidden layer, Linear - Dropout - Sigmoid - Linear; with 0 hidden units, one Linear;
* Adam at torch's own settings (learning rate 0.001), L2 regularisation through its weight decay,
  cross-entropy, batches of 64 in a new order each pass over the training set;
* accuracy on the validation set after every 4 passes.  The best state is kept.  Training stops at
  the 6th time (tenacity 5) that accuracy is not above the best so far, **counted over the whole
  training, not in a row**; at the latest after 204 passes;
* L2 of 1e-5, 1e-4, 1e-3 and 1e-2 are tried; the one with the best validation accuracy (the first
  of equal ones) is tested.

SentEval starts each candidate with the same seed.  So all candidates of a hidden size start from
the same weights, see the same batches and draw the same numbers for dropout.  Here they are trained
side by side, as one computation; none depends on the others.  Legend: k = candidates side by side,
b = sentences of a batch, d = width of the vectors, c = classes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import ProbeSettings

_CHUNK = 4096  # vectors classified at a time
_NOISE = 2**31  # added to the seed: dropout and weights draw different numbers


@dataclass(frozen=True)
class Examples:
    """Vectors ``[m, d]`` and the number of each one's class, ``[m]``."""

    vectors: Tensor
    classes: Tensor

    def to(self, device: str) -> Examples:
        return Examples(self.vectors.to(device), self.classes.to(device))


@dataclass(frozen=True)
class Fit:
    """A trained classifier: accuracies in per cent, and ``passes`` until its best state."""

    test: float
    valid: float
    hidden: int
    dropout: float
    l2: float
    passes: int
    seed: int


class SideBySide(nn.Module):
    """Independent classifiers of one shape and equal initial weights; dropout and L2 differ."""

    #: Draws the numbers for dropout; None: torch's own generator.
    noise: torch.Generator | None = None
    dropout: Tensor  # [k, 1, 1]
    l2: Tensor  # [k]

    def __init__(
        self, width: int, hidden: int, classes: int, dropout: Sequence[float], l2: Sequence[float]
    ):
        super().__init__()
        sizes = [width, *([hidden] if hidden else []), classes]
        layers = [nn.Linear(*pair) for pair in itertools.pairwise(sizes)]
        self.weights = nn.ParameterList(
            layer.weight.detach().t().repeat(len(l2), 1, 1) for layer in layers
        )
        self.biases = nn.ParameterList(
            layer.bias.detach().repeat(len(l2), 1, 1) for layer in layers
        )
        self.register_buffer("dropout", torch.tensor(dropout).view(-1, 1, 1))
        self.register_buffer("l2", torch.tensor(l2))

    def forward(self, vectors: Tensor) -> Tensor:
        """Return scores ``[k, b, c]`` of vectors ``[b, d]``."""
        x = vectors.expand(len(self.l2), -1, -1)
        *hidden, last = zip(self.biases, self.weights, strict=True)
        for bias, weight in hidden:
            x = torch.sigmoid(self._drop(torch.baddbmm(bias, x, weight)))
        return torch.baddbmm(last[0], x, last[1])

    def _drop(self, x: Tensor) -> Tensor:
        if not self.training or not self.dropout.any():
            return x
        # From a separate generator: batches must not depend on whether any candidate drops units.
        drawn = torch.rand(x.shape[1:], generator=self.noise, dtype=x.dtype, device=x.device)
        return x * (drawn >= self.dropout) / (1 - self.dropout)

    def loss(self, vectors: Tensor, classes: Tensor) -> Tensor:
        """Sum cross-entropy and L2 of all; each classifier gets the gradient of its own loss.

        The gradient of l2 / 2 · θ² is l2 · θ, as Adam's weight decay adds it.
        """
        scores = self(vectors)
        wanted = classes.expand(len(self.l2), -1)
        entropy = F.cross_entropy(scores.flatten(0, 1), wanted.flatten()) * len(self.l2)
        squares = sum((w.square().sum((1, 2)) for w in self.parameters()), torch.zeros(()))
        return entropy + (self.l2 / 2 * squares).sum()

    @torch.no_grad()
    def accuracy(self, examples: Examples) -> Tensor:
        """Return the share of the examples that each classifies correctly, ``[k]``."""
        self.eval()
        right = torch.zeros(len(self.l2), dtype=torch.long, device=self.l2.device)
        for at in range(0, len(examples.classes), _CHUNK):
            said = self(examples.vectors[at : at + _CHUNK]).argmax(2)
            right += said.eq(examples.classes[at : at + _CHUNK]).sum(1)
        return right.double() / len(examples.classes)


def train_classifier(
    train: Examples,
    valid: Examples,
    test: Examples,
    classes: int,
    settings: ProbeSettings,
    seed: int,
    device: str = "cpu",
) -> Fit:
    """Train all candidates, and test the one with the best validation accuracy."""
    train, valid, test = (part.to(device) for part in (train, valid, test))
    fits: list[Fit] = []
    for hidden in settings.hidden:
        candidates = settings.candidates(hidden)
        with torch.random.fork_rng([torch.cuda.current_device()] if device == "cuda" else []):
            torch.manual_seed(seed)
            model = SideBySide(
                train.vectors.size(1), hidden, classes, *map(list, zip(*candidates, strict=True))
            ).to(device, train.vectors.dtype)
            model.noise = torch.Generator(device).manual_seed(_NOISE + seed)
            reached, passes = _train(model, train, valid, settings)
        tested = model.accuracy(test)
        fits += [
            Fit(
                test=100 * tested[number].item(),
                valid=100 * reached[number].item(),
                hidden=hidden,
                dropout=dropout,
                l2=l2,
                passes=int(passes[number]),
                seed=seed,
            )
            for number, (dropout, l2) in enumerate(candidates)
        ]
    return max(fits, key=lambda fit: fit.valid)  # the first of equals


def _train(
    model: SideBySide, train: Examples, valid: Examples, settings: ProbeSettings
) -> tuple[Tensor, Tensor]:
    """Train until all have stopped; return best validation accuracies and their passes, ``[k]``."""
    optimiser = torch.optim.Adam(model.parameters())
    best = torch.full_like(model.l2, -1, dtype=torch.double)
    best_passes = torch.zeros_like(best, dtype=torch.long)
    best_state = [parameter.detach().clone() for parameter in model.parameters()]
    failures = torch.zeros_like(best_passes)
    active = torch.ones_like(best, dtype=torch.bool)
    passes = 0
    while passes <= settings.max_passes and active.any():
        model.train()
        for _ in range(settings.passes):
            _one_pass(model, optimiser, train, settings.batch_size)
            passes += 1
        accuracy = model.accuracy(valid)
        better = active & (accuracy > best)
        best = torch.where(better, accuracy, best)
        best_passes = torch.where(better, passes, best_passes)
        for kept, parameter in zip(best_state, model.parameters(), strict=True):
            kept[better] = parameter.detach()[better]
        active &= better | (failures < settings.tenacity)
        failures += ~better
    with torch.no_grad():
        for kept, parameter in zip(best_state, model.parameters(), strict=True):
            parameter.copy_(kept)
    return best, best_passes


def _one_pass(model: SideBySide, optimiser, train: Examples, batch_size: int) -> None:
    order = torch.randperm(len(train.classes)).to(train.classes.device)
    for chosen in order.split(batch_size):
        loss = model.loss(train.vectors[chosen], train.classes[chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
