"""Put together training text and held-out sentences of several texts, as --text takes them.

From each text, --held-out sentences become validation data, and as many a test set.  Of single
sentences, these are the ones whose translation hashes lowest; of running text, the last ones, since
neighbouring sentences resemble each other.  Training pairs with a held-out side are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from texts import new_folder, pairs_of

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.corpora.held_out import HeldOut, letters
from fairseq_hybrid_attn.lab.files.text import write_lines

Pairs = list[tuple[str, str]]


def put_together(arguments: argparse.Namespace) -> str:
    """Write train, valid and test.NAME in both languages; return what to display."""
    parts: dict[str, Pairs] = {"train": [], "valid": []}
    for kind, hold_out in (("sentences", of_sentences), ("running", of_running_text)):
        for name, prefix in getattr(arguments, kind):
            every = [
                pair for pair in pairs_of(prefix, arguments.languages) if all(map(letters, pair))
            ]
            train, valid, test = hold_out(every, arguments.held_out)
            if not train:
                raise UserError(
                    f"{prefix}: of {len(every):,} pairs none is left when {arguments.held_out:,} "
                    "are held out twice"
                )
            parts["train"] += train
            parts["valid"] += valid
            parts[f"test.{name}"] = test
    held_out = HeldOut(pair for part, pairs in parts.items() if part != "train" for pair in pairs)
    train = [pair for pair in parts["train"] if pair not in held_out]
    left_out = len(parts["train"]) - len(train)
    parts["train"] = train
    inputs = [prefix for _, prefix in arguments.sentences + arguments.running]
    with new_folder(arguments.folder, inputs) as folder:
        for part, pairs in parts.items():
            for side, language in enumerate(arguments.languages):
                write_lines(folder / f"{part}.{language}", (pair[side] for pair in pairs))
    counts = ", ".join(f"{part} {len(pairs):,}" for part, pairs in parts.items())
    return f"   {counts}; {left_out:,} left out of train, since a side of them is held out"


def of_sentences(every: Pairs, count: int) -> tuple[Pairs, Pairs, Pairs]:
    """Return train, valid and test of single sentences.

    Of pairs with the same translation, the first one is held out, and the others are left out.
    """
    by_target: dict[str, list[tuple[str, str]]] = {}
    for pair in every:
        by_target.setdefault(letters(pair[1]), []).append(pair)
    order = sorted(by_target, key=lambda key: hashlib.sha256(key.encode()).digest())
    test, valid = ([by_target[key][0] for key in order[at : at + count]] for at in (0, count))
    chosen = set(order[: 2 * count])
    return [pair for pair in every if letters(pair[1]) not in chosen], valid, test


def of_running_text(every: Pairs, count: int) -> tuple[Pairs, Pairs, Pairs]:
    """Return train, valid and test of running text."""
    return every[: -2 * count], every[-2 * count : -count], every[-count:]


def named(text: str) -> tuple[str, Path]:
    """Parse NAME=PREFIX."""
    name, equals, prefix = text.partition("=")
    if not (name.isalnum() and equals and prefix):
        raise argparse.ArgumentTypeError(f"{text}: use NAME=PREFIX, the name of letters and digits")
    return name, Path(prefix)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--languages", nargs=2, required=True)
    parser.add_argument("--sentences", type=named, action="append", default=[])
    parser.add_argument("--running", type=named, action="append", default=[])
    parser.add_argument("--held-out", type=int, default=1000)
    arguments = parser.parse_args()
    names = [name for name, _ in arguments.sentences + arguments.running]
    if not names or len(set(names)) < len(names):
        parser.error("name one text or more, each with its own name: --sentences NAME=PREFIX")
    if arguments.held_out < 1:
        parser.error(f"--held-out {arguments.held_out}: use 1 or more")
    try:
        print(put_together(arguments))
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
