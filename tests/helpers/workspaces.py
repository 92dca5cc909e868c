"""Small workspaces: a toy table with its recipe and settings, and text to run it on."""

import copy
import re
from pathlib import Path

import yaml
from cli import write_corpus

UPDATES = 150
SETTINGS = {
    "corpus": "toy",
    "train": {
        "arch": "transformer_mma",
        "head-patterns": "global",
        "encoder-layers": 1,
        "decoder-layers": 1,
        "encoder-embed-dim": 32,
        "encoder-ffn-embed-dim": 64,
        "encoder-attention-heads": 4,
        "decoder-attention-heads": 4,
        "share-all-embeddings": True,
        "optimizer": "adam",
        "adam-betas": "(0.9, 0.98)",
        "lr": "1e-2",
        "dropout": 0.05,
        "criterion": "label_smoothed_cross_entropy",
        "label-smoothing": 0.1,
        "max-update": UPDATES,
    },
    "batch": {"tokens": 300, "per-device": 150},
    "checkpoints": {"unit": "update", "every": 25, "average": 3},
    "generate": {"beam": 2, "gnmt-lenpen": 0.6, "max-len-a": 1, "max-len-b": 5},
}
RECIPE = {
    "source": "de",
    "target": "en",
    "reader": "own",
    "tokenizer": {"de": "moses", "en": "moses"},
    "subwords": {"kind": "subword-nmt", "size": 10, "joint": True},
    "scores": ["bleu", "tokenised_bleu"],
}
TABLE = {
    "title": "Toy",
    "extends": "toy",
    "baseline": "plain",
    "columns": {"bleu": {"title": "BLEU"}, "aer": {"run": "bleu", "planned": "alignments"}},
    "rows": {
        "plain": {"system": "Transformer", "paper": {"bleu": 30.0, "aer": 20.0}},
        "mixed": {
            "system": "MMA",
            "train": {"head-patterns": "global,local,forward,backward"},
            "paper": {"bleu": 31.25},
        },
        "broken": {"train": {"valid-subset": "nowhere"}, "paper": {"bleu": 29.0}},
        "same": {"run": "toy/table1/mixed", "paper": {"bleu": 31.25}},
        "others": {"cited": True, "paper": {"bleu": 28.0}},
        "later": {"planned": "an LSTM on top", "paper": {"bleu": 27.0}},
    },
}
FILES = {
    "corpora/toy.yaml": RECIPE,
    "settings/toy.yaml": SETTINGS,
    "profiles/full.yaml": {"summary": "as it is"},
    "toy/table1.yaml": TABLE,
}


def with_rows(table: dict, **rows: dict) -> dict:
    """A table with some of its rows replaced."""
    return {**copy.deepcopy(table), "rows": {**table["rows"], **rows}}


def write_configs(folder: Path, **changed: dict) -> Path:
    """Write a folder of configurations: :data:`FILES`, some of them replaced."""
    for name, content in {**FILES, **changed}.items():
        write_yaml(folder / name, content)
    return folder


def write_yaml(path: Path, content: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def write_text(folder: Path) -> None:
    """Write train, valid and test sets of made-up words and their reversal."""
    folder.mkdir()
    write_corpus(folder, hard_cases=False)
    for path in folder.iterdir():  # letters become words, which can be split
        path.write_text(re.sub(r"(\w)", r"\1a\1u\1", path.read_text()))
