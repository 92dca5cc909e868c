"""The losses of models, as scores."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fairseq import checkpoint_utils
from torch import nn
from tqdm import tqdm

from ...errors import UserError
from ..models.loading import device_of, load_model
from ..models.sentences import Sentences, in_batches, some
from ..models.trained import TrainedModel
from .counts import Score, SentenceCounts


def measure(models: Sequence[TrainedModel], subset: str, device: str = "auto") -> list[Score]:
    """The loss of each model on the same sentences, in bits a token."""
    criterion: Any = None
    tokens = np.empty(0)
    scores: list[Score] = []
    where = device_of(device)
    for trained in models:
        model, task = load_model(trained)
        try:
            if criterion is None:
                state = checkpoint_utils.load_checkpoint_to_cpu(str(trained.checkpoint))
                criterion = task.build_criterion(state["cfg"].criterion).eval().to(where)
            sentences = Sentences.of_split(task, subset)
            if long := sentences.too_long(model, task):
                raise UserError(f"{trained.path}: {some(long)}: longer than the model takes")
            sizes, found = by_sentence(
                sentences, task, model.to(where), criterion, trained.checkpoint
            )
        except UserError:
            raise
        except Exception as error:  # of many kinds: fairseq trusts its settings and its data
            raise UserError(
                f"{trained.path} cannot be measured on {trained.binary}: {error!r}"
            ) from error
        if not np.isfinite(found).all():
            raise UserError(f"{trained.path}: its loss is not a finite number; did it diverge?")
        if scores and not np.array_equal(sizes, tokens):
            raise UserError(f"{trained.path} and {models[0].path} have different target languages")
        tokens = sizes
        rows = np.stack([found, tokens], axis=1)
        how = f"bits a token|sentences:{len(rows)}|tokens:{tokens.sum():.0f}"
        scores.append(Score.of(SentenceCounts("loss", rows, subset, how)))
    if len(tokens) < 2:
        raise UserError(f"--gen-subset {subset}: an interval needs two sentences or more")
    return scores


def by_sentence(
    sentences: Sentences, task, model: nn.Module, criterion: nn.Module, path: Path
) -> tuple[np.ndarray, np.ndarray]:
    def compute(sample: dict) -> list[tuple[float, float]]:
        loss, _, _ = task.valid_step(sample, model, criterion)
        return [(sample["ntokens"], float(loss) / math.log(2))]

    where = str(next(model.parameters()).device)
    with tqdm(total=len(sentences), desc=path.name, file=sys.stderr, mininterval=1.0) as bar:
        # A criterion sums over its batch: of at most one token, a batch is a single sentence.
        each = in_batches(sentences, compute, max_tokens=1, device=where, progress=bar.update)
        tokens, losses = np.array(list(each), float).reshape(-1, 2).T
    return tokens, losses
