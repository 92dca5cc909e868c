"""Fine-tuning: a training on other text that begins with the weights of a trained model."""

from __future__ import annotations

from pathlib import Path

from fairseq.data import Dictionary

from ...errors import UserError
from ...tasks.resumable import DICTIONARIES, checksum_of_words
from ..config.settings import Settings
from ..files.checkpoints import read_checkpoint
from ..models.trained import TrainedModel

#: The flag of fairseq-train that loads weights alone: the optimiser and its schedule start anew.
WEIGHTS_OF = "finetune-from-model"
_EMBEDDINGS = {"source": "encoder.embed_tokens.weight", "target": "decoder.embed_tokens.weight"}


def settings_from(trained: TrainedModel) -> dict:
    """The settings of a model's own run, as a file would have them, to train on your text."""
    if "train" not in trained.settings:
        raise UserError(f"--from {trained.checkpoint}: name a run, or a model that was exported")
    before = Settings.of_dict(trained.settings)
    return {
        "corpus": "own",
        "train": {**before.train, WEIGHTS_OF: str(trained.checkpoint.resolve())},
        "batch": {"tokens": before.batch.tokens, "per-device": before.batch.per_device},
        "checkpoints": {
            "unit": before.checkpoints.unit,
            "every": before.checkpoints.every,
            "average": before.checkpoints.average,
        },
        "generate": before.generate,
    }


def check_dictionaries(model: Path, data: Path, languages: tuple[str, str]) -> None:
    """Refuse a model whose dictionaries are not those of the data, as far as it says."""
    state = read_checkpoint(model)
    weights, checksums = state["model"], (state.get("task_state") or {}).get(DICTIONARIES, {})
    for (side, name), language in zip(_EMBEDDINGS.items(), languages, strict=True):
        path = data / f"dict.{language}.txt"
        symbols = Dictionary.load(str(path)).symbols
        words, known = len(symbols), len(weights.get(name, ()))
        advice = "; --from prepares text with a model's own"
        if known != words:
            raise UserError(
                f"{path}: the {side} dictionary has {words:,} words, the model {model} has "
                f"{known:,}{advice}"
            )
        checksum = checksum_of_words(symbols)
        if checksums.get(language, checksum) != checksum:
            raise UserError(f"{path}: the words are not those of the model {model}{advice}")
