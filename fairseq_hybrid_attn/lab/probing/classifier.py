"""SentEval's classifier: its shape, its training, and the choice among several.

What SentEval does (senteval/tools/classifier.py and validation.py, with usepytorch):

* one hidden layer, Linear - Dropout - Sigmoid - Linear; with 0 hidden units, one Linear;
* Adam at torch's own settings (learning rate 0.001), L2 regularisation through its weight decay,
  cross-entropy, batches of 64 in a new order each pass over the training set;
* accuracy on the validation set after every 4 passes.  The best state is kept.  Training stops at
  the 6th time (tenacity 5) that accuracy is not above the best so far, **counted over the whole
  training, not in a row**; at the latest after 204 passes;
* L2 of 1e-5, 1e-4, 1e-3 and 1e-2 are tried, each from the same seed; the one with the best
  validation accuracy (the first of equal ones) is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import ProbeSettings


class Examples(NamedTuple):
    """Vectors ``[m, d]`` and the number of each one's class, ``[m]``."""

    vectors: Tensor
    classes: Tensor


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


def train_classifier(
    parts: Sequence[Examples], classes: int, settings: ProbeSettings, seed: int
) -> Fit:
    """Train all candidates, and return the one with the best validation accuracy.

    ``parts`` are those to train on, to choose by, and to report.
    """
    fits = []
    vectors = parts[0].vectors
    for hidden, dropout, l2 in settings.candidates():
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(vectors.size(1), hidden or classes))
        if hidden:
            model.extend([nn.Dropout(dropout), nn.Sigmoid(), nn.Linear(hidden, classes)])
        valid, test, passes = _train(model.to(vectors), l2, parts, settings)
        fits.append(Fit(test, valid, hidden, dropout, l2, passes, seed))
    return max(fits, key=lambda fit: fit.valid)  # the first of equals


def _train(
    model: nn.Module, l2: float, parts: Sequence[Examples], settings: ProbeSettings
) -> tuple[float, float, int]:
    """Train until it stops; return validation and test accuracy and passes of the best state."""
    train, valid, test = parts
    optimiser = torch.optim.Adam(model.parameters(), weight_decay=l2)
    best = (-1.0, -1.0, 0)
    passes = failures = 0
    while passes <= settings.max_passes and failures <= settings.tenacity:
        model.train()
        for _ in range(settings.passes):
            order = torch.randperm(len(train.classes)).to(train.classes.device)
            for chosen in order.split(settings.batch_size):
                loss = F.cross_entropy(model(train.vectors[chosen]), train.classes[chosen])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            passes += 1
        accuracy = _accuracy(model, valid)
        if accuracy > best[0]:
            best = accuracy, _accuracy(model, test), passes
        else:
            failures += 1
    return best


@torch.no_grad()
def _accuracy(model: nn.Module, examples: Examples) -> float:
    """In per cent."""
    model.eval()
    right = model(examples.vectors).argmax(1).eq(examples.classes).sum()
    return 100 * (right.item() / len(examples.classes))
