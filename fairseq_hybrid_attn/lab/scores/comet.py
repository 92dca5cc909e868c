"""COMET (Rei et al. 2020), by the package unbabel-comet, which the extra ``comet`` installs.

It is imported only when a score is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ...errors import UserError
from ..files.checksums import digest
from .counts import Score, SentenceCounts
from .metrics import check_parallel


@dataclass(frozen=True)
class Comet:
    """A metric like those of :mod:`.metrics`, whose score is the mean over sentences.

    ``model`` is a checkpoint, or a name that unbabel-comet downloads.
    """

    model: str
    sources: list[str]
    name: str = "comet"
    label: str = "COMET"

    def counts(self, translations: list[str], reference: list[str]) -> SentenceCounts:
        """The score of each sentence, and 1."""
        check_parallel({"translations": translations, "--source": self.sources}, reference)
        try:
            import torch
            from comet import download_model, load_from_checkpoint
        except ImportError as error:
            advice = "pip install 'fairseq-hybrid-attn[comet]'"
            raise UserError(f"--comet needs unbabel-comet ({error}): {advice}") from error
        try:
            path = self.model if Path(self.model).is_file() else download_model(self.model)
            model = load_from_checkpoint(path)
        except Exception as error:  # of many kinds: of the network, licences, other files
            raise UserError(f"--comet {self.model} cannot be loaded: {error!r}") from error
        texts = zip(self.sources, translations, reference, strict=True)
        samples = [{"src": src, "mt": mt, "ref": ref} for src, mt, ref in texts]
        scores = model.predict(samples, gpus=int(torch.cuda.is_available())).scores
        rows = np.stack([scores, np.ones(len(scores))], axis=1)
        signature = f"model:{Path(self.model).name}|version:{version('unbabel-comet')}"
        return SentenceCounts("comet", rows, digest([self.sources, reference]), signature)

    def score_of(self, counts: SentenceCounts) -> Score:
        return Score.of(counts)

    def line(self, counts: SentenceCounts) -> str:
        return f"COMET = {counts.value:.4f}"

    def versions(self) -> dict[str, str]:
        return {"unbabel-comet": version("unbabel-comet")}
