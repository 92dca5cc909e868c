"""Learn SentencePiece subwords on the training text and apply them to all of it."""

from __future__ import annotations

import argparse
from pathlib import Path

import sentencepiece

LANGUAGES = ("de", "en")


def learn(text: Path, model: Path, size: int) -> None:
    """Learn one vocabulary for both languages from ``train.*`` in ``text``.

    One thread, since with several the sums, and so the vocabulary, can differ.

    Args:
        text: folder with ``train.de`` and ``train.en``.
        model: file to write; a ``.vocab`` file appears beside it.
        size: number of subwords.
    """
    sentencepiece.SentencePieceTrainer.train(
        input=[str(text / f"train.{language}") for language in LANGUAGES],
        model_prefix=str(model.with_suffix("")),
        vocab_size=size,
        character_coverage=1.0,
        num_threads=1,
    )


def apply(model: Path, text: Path, output: Path) -> None:
    """Write each ``PART.LANGUAGE`` of ``text`` in subwords to ``output``."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    for language in LANGUAGES:
        for part in ("train", "valid", "test"):
            lines = (text / f"{part}.{language}").read_text(encoding="utf-8").splitlines()
            encoded = (" ".join(processor.encode(line, out_type=str)) for line in lines)
            (output / f"{part}.{language}").write_text(
                "".join(f"{line}\n" for line in encoded), encoding="utf-8"
            )


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="folder of PART.LANGUAGE")
    parser.add_argument("--output", type=Path, required=True, help="existing folder to write to")
    parser.add_argument("--size", type=int, required=True, help="number of subwords")
    arguments = parser.parse_args()
    model = arguments.output / "subwords.model"
    learn(arguments.text, model, arguments.size)
    apply(model, arguments.text, arguments.output)


if __name__ == "__main__":
    main()
