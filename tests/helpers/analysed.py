"""A folder with untrained models and text to analyse, made quickly and in this process."""

from __future__ import annotations

from pathlib import Path

import torch
from cli import TINY
from fairseq import options, tasks
from fairseq.data import Dictionary, indexed_dataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

import fairseq_hybrid_attn.models  # noqa: F401  (registers the architectures)

LSTM = (
    "--encoder-embed-dim 16 --decoder-embed-dim 16 --encoder-hidden-size 16 "
    "--decoder-hidden-size 16 --decoder-out-embed-dim 16"
).split()
#: Checkpoints by name: architecture and flags.
MODELS = {
    "hysan": ("transformer_hysan", [*TINY, "--squeeze-ratio", "4"]),
    "nopos": (
        "transformer_hysan",
        [*TINY, "--squeeze-ratio", "4", "--no-encoder-positions", "--no-decoder-positions"],
    ),
    "mma": ("transformer_mma", TINY),
    "short": ("transformer_mma", [*TINY, "--max-source-positions", "3"]),
    "stock": ("transformer", TINY),
    "gate1": ("transformer_hybrid_gate", TINY),
    "gate2": ("transformer_hybrid_gate", [*TINY, "--local-window", "2"]),
    "lstm": ("lstm", LSTM),
}
#: Two words of three subwords, one of one; one word; nothing; three words of five subwords.
SOURCE = ("Da@@ s Haus", "ja", "", "猫@@ が 好@@ き です")
TARGET = ("the house", "ye@@ s", "so", "I li@@ ke cats")


def make_data(folder: Path, models=tuple(MODELS)) -> Path:
    """``bin`` with dictionaries, ``text.de``, ``text.en``, and ``NAME.pt`` of each model."""
    (folder / "bin").mkdir()
    for side, lines in (("de", SOURCE), ("en", TARGET)):
        pieces = dict.fromkeys(" ".join(lines).split())
        (folder / f"bin/dict.{side}.txt").write_text("".join(f"{p} 1\n" for p in pieces))
        (folder / f"text.{side}").write_text("".join(f"{line}\n" for line in lines))
    for name in models:
        save(folder, name)
    return folder


def binarise(folder: Path, split: str = "test", stem: str = "text") -> None:
    """Put the text into ``bin`` as fairseq-preprocess does, in this process."""
    for side in ("de", "en"):
        words = Dictionary.load(str(folder / f"bin/dict.{side}.txt"))
        place = str(folder / f"bin/{split}.de-en.{side}")
        builder = indexed_dataset.make_builder(f"{place}.bin", "mmap", len(words))
        for line in (folder / f"{stem}.{side}").read_text().splitlines():
            builder.add_item(words.encode_line(line, add_if_not_exist=False))
        builder.finalize(f"{place}.idx")


def save(folder: Path, name: str, path: str | None = None, languages=("de", "en")) -> None:
    """Save a new model as fairseq's trainer does, by default as ``NAME.pt``."""
    arch, flags = MODELS[name]
    source, target = languages
    flags = ["--source-lang", source, "--target-lang", target, *flags]
    args = options.parse_args_and_arch(
        options.get_training_parser(), [str(folder / "bin"), "--arch", arch, *flags]
    )
    cfg = convert_namespace_to_omegaconf(args)
    torch.manual_seed(0)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    state = {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": model.state_dict(),
        "optimizer_history": [{"optimizer_name": "", "lr_scheduler_state": {}, "num_updates": 0}],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    torch.save(state, folder / (path or f"{name}.pt"))
