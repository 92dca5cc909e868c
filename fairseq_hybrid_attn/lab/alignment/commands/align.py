"""Word alignments out of a trained model: its cross-attention while it says a given translation.

  fairseq-hybrid align data-bin --path model.pt --gen-subset test --subwords subword-nmt \
      --layer 5 --head average --output test.align
  fairseq-hybrid align data-bin --path model.pt --source test.bpe.de --target test.bpe.en \
      --subwords subword-nmt --gold test.gold --gold-base 0 --table

The sentences are a binarised part of the data folder, or two text files in the model's subwords
(the folder's dictionaries are used in either case).  Any fairseq encoder-decoder will do whose
decoder has cross-attention: fairseq's own transformer and lstm, those of this package; no
--user-dir is needed.

Each target word is linked with the source word that it attends to most: the attention of a layer
(1 is the lowest) and a head (1 is the first), or the mean of all.  Subwords are made words:
attention is summed over the pieces of a source word and averaged over those of a target word.  The
end symbol of the source is left out of the choice; with --end-symbol null, a target word that
attends to it most has no link.

--output has the links in Pharaoh format (i-j: source word, target word, from 0), a line for each
sentence in the order of the text.  --matrices has the attention itself, target words by source
words with the end symbol in the last column: FILE.npz an array for each sentence, named by its
number from 0; FILE.jsonl a line for each sentence, with its words.  --gold prints the alignment
error rate (see fairseq-hybrid aer), and with --table that of every layer, head and mean, from one
pass.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from tqdm import tqdm

from ....errors import UserError
from ...arguments import models as model_args
from ...files.json_files import write_json
from ...files.writing import atomic_write, check_outputs
from ...inference.sentences import some
from ...text.words import words_of
from ..error_rate import AlignmentScore, score
from ..forced import AVERAGE, AlignedSentence, Aligner, Choice, strongest
from ..link_files import Gold, Links, pharaoh
from .aer import (
    RATES,
    add_gold_arguments,
    gold_as_dict,
    gold_of,
    per_cent,
    rates,
    summary,
    table,
    undefined,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    model_args.add_model(parser)
    model_args.add_sentences(parser)
    parser.add_argument(
        "--layer",
        default="-1",
        metavar="N",
        help="decoder layer, from 1 = lowest; -1 (default) or last; average",
    )
    parser.add_argument(
        "--head", default=AVERAGE, metavar="N", help="head, from 1; last; average (default)"
    )
    parser.add_argument(
        "--end-symbol",
        choices=("ignore", "null"),
        default="ignore",
        help="the source's end symbol cannot be chosen (default), or is no link when it is",
    )
    parser.add_argument(
        "--step",
        choices=("predict", "read"),
        default="predict",
        help="the attention of a target word: when it is predicted (default), or one step later, "
        "when it is read",
    )
    parser.add_argument(
        "--full-context",
        action="store_true",
        help="the decoder sees the whole translation, for models that learned to align so",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write links to FILE")
    parser.add_argument(
        "--matrices", type=Path, metavar="FILE", help="write attention to FILE, .npz or .jsonl"
    )
    add_gold_arguments(parser, required=False)
    parser.add_argument(
        "--table", action="store_true", help="error rates of all layers and heads; needs --gold"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the error rates to FILE")
    parser.add_argument(
        "--by-sentence",
        action="store_true",
        help="to --json write each sentence's counts too, of all heads of the layer",
    )
    parser.add_argument(
        "--too-long",
        choices=("error", "empty"),
        default="error",
        help="sentences that are too long for the model: an error (default), or no links",
    )


def run(args: argparse.Namespace) -> None:
    """Align, write, and score."""
    layer, head = choice("--layer", args.layer), choice("--head", args.head)
    check_arguments(args)
    model, task = model_args.load_one(args)
    sentences = model_args.sentences_of(args, task)
    lengths = [
        tuple(len(words_of(side, args.subwords)) for side in pair)
        for pair in zip(sentences.source, sentences.target, strict=True)
    ]
    gold = gold_of(args, lengths, len(lengths)) if args.gold else None

    aligner = Aligner(
        model,
        args.subwords,
        max_tokens=args.max_tokens,
        device=model_args.device(args),
        read_step=args.step == "read",
        full_context=args.full_context,
    )
    skip = sentences.too_long(model, task)
    if skip and args.too_long == "error":
        raise UserError(
            f"{len(skip):,} of {len(sentences):,} sentences are longer than the model takes: "
            f"{some(skip)}; --too-long empty gives them no links"
        )
    keep_all = args.table and gold is not None
    everyone: list[dict[Key, Links]] = []  # of each sentence, what the gold is compared with
    with contextlib.ExitStack() as stack:
        write_links = links_writer(args.output, stack)
        write_matrix = matrix_writer(args.matrices, stack)
        bar = stack.enter_context(
            tqdm(total=len(sentences), unit=" sentences", file=sys.stderr, mininterval=1.0)
        )
        found = aligner.align(
            sentences,
            use=lambda sentence: SentenceResult.of(
                sentence, (layer, head), end_symbol=args.end_symbol == "null", keep_all=keep_all
            ),
            skip=skip,
            progress=bar.update,
        )
        for number, one in enumerate(found):
            one = one or SentenceResult.nothing(lengths[number])
            write_links(one.links)
            write_matrix(number, one)
            if gold:
                everyone.append({SELECTED: one.links, **one.every})
    if skip:
        left_out = f"{len(skip):,} of {len(sentences):,} ({some(skip)})"
        print(f"too long for the model, without links: {left_out}")
    if gold:
        report(args, gold, scores_of(everyone, gold))


Key = tuple[Choice, Choice]  # a layer and a head
SELECTED: Key = ("selected", "selected")  # those of --layer and --head


@dataclass
class SentenceResult:
    """What is kept of a sentence.

    Attributes:
        source: words; None of a sentence that is too long.
        target: words; likewise.
        attention: of the layer and head that are selected, ``[target, source + 1]``.
        links: of the same.
        every: links of every layer and head and their means, if they are wanted.
    """

    source: list[str] | None
    target: list[str] | None
    attention: np.ndarray
    links: Links
    every: dict[Key, Links] = field(default_factory=dict)

    @classmethod
    def of(
        cls, sentence: AlignedSentence, selected: Key, *, end_symbol: bool, keep_all: bool
    ) -> SentenceResult:
        """Take what is wanted from an aligned sentence."""
        attention = sentence.of(*selected)
        every = {}
        if keep_all:
            layers, heads = sentence.attention.shape[:2]
            every = {
                (layer, head): sentence.links(layer, head, end_symbol=end_symbol)
                for layer in (*range(1, layers + 1), AVERAGE)
                for head in (*range(1, heads + 1), AVERAGE)
            }
        links = strongest(attention, end_symbol=end_symbol)
        return cls(sentence.source, sentence.target, attention, links, every)

    @classmethod
    def nothing(cls, lengths: tuple[int, int]) -> SentenceResult:
        """Of a sentence that was left out: no links, no attention."""
        return cls(None, None, np.zeros((lengths[1], lengths[0] + 1), np.float32), frozenset())


def choice(flag: str, value: str) -> Choice:
    """A layer or head: its number, from the end if negative, or ``average``."""
    if value == AVERAGE:
        return AVERAGE
    number = -1 if value == "last" else int(value) if re.fullmatch(r"-?\d+", value) else 0
    if number == 0:
        raise UserError(f"{flag} {value}: use a number from 1, -1 or last, or {AVERAGE}")
    return number


def numbered(which: Choice, count: int) -> Choice:
    """A choice among so many that does not count from the end."""
    return which if which == AVERAGE or which > 0 else count + 1 + which


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse arguments that do not go together."""
    model_args.check_one(args)
    if not (args.output or args.matrices or args.gold):
        raise UserError("nothing to do: give --output FILE, --matrices FILE or --gold FILE")
    if args.gold and args.gold_base is None:
        raise UserError("--gold needs --gold-base: what number does the first word have, 0 or 1?")
    for flag, value in (("--table", args.table), ("--json", args.json)):
        if value and not args.gold:
            raise UserError(f"{flag} is about error rates; it needs --gold FILE")
    if args.by_sentence and not args.json:
        raise UserError("--by-sentence needs --json FILE to write to")
    if args.matrices and args.matrices.suffix not in (".npz", ".jsonl"):
        raise UserError(f"--matrices {args.matrices}: use a name that ends in .npz or .jsonl")
    outputs = {"--output": args.output, "--matrices": args.matrices, "--json": args.json}
    check_outputs(
        {flag: path for flag, path in outputs.items() if path},
        inputs=[path for path in (args.path, args.source, args.target, args.gold) if path],
    )


def links_writer(path: Path | None, stack: contextlib.ExitStack) -> Callable[[Links], None]:
    """A function that writes the links of the next sentence."""
    if path is None:
        return lambda links: None
    file = stack.enter_context(atomic_write(path))
    return lambda links: file.write(f"{pharaoh(links)}\n".encode()) and None


def matrix_writer(
    path: Path | None, stack: contextlib.ExitStack
) -> Callable[[int, SentenceResult], None]:
    """A function that writes the attention of a sentence."""
    if path is None:
        return lambda number, found: None
    file = stack.enter_context(atomic_write(path))
    if path.suffix == ".jsonl":
        return lambda number, found: _write_json_line(file, number, found)
    archive = stack.enter_context(zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED))
    return lambda number, found: _write_array(archive, number, found)


def _write_json_line(file: BinaryIO, number: int, found: SentenceResult) -> None:
    entry = {
        "sentence": number,
        "source": found.source,
        "target": found.target,
        "attention": found.attention.round(6).astype(float).round(6).tolist(),
    }
    file.write(f"{json.dumps(entry, ensure_ascii=False)}\n".encode())


def _write_array(archive: zipfile.ZipFile, number: int, found: SentenceResult) -> None:
    """An array of an .npz file, as numpy writes it, but without all of them in memory."""
    with archive.open(f"{number}.npy", "w") as file:
        np.lib.format.write_array(file, found.attention, allow_pickle=False)


def scores_of(everyone: list[dict[Key, Links]], gold: Gold) -> dict[Key, AlignmentScore]:
    """The score of each layer and head; sentences that lack one have no links in it."""
    keys = max(everyone, key=len)
    return {
        key: score([links.get(key, frozenset()) for links in everyone], gold.sentences)
        for key in keys
    }


def report(args: argparse.Namespace, gold: Gold, scores: dict[Key, AlignmentScore]) -> None:
    """Print the error rates, and write them where they are wanted."""
    selected = scores.pop(SELECTED)
    layers = [layer for layer, _ in scores if layer != AVERAGE]
    selected_layer = numbered(choice("--layer", args.layer), max(layers, default=0))
    name = f"layer {args.layer}, head {args.head}"
    for line in (*summary(gold, selected.total), *undefined(selected)):
        print(line)
    print(table([[name, *rates(selected.total)]], ["", *RATES]))
    if scores:
        heads = list(dict.fromkeys(head for _, head in scores))
        rows = [
            [f"layer {layer}", *(per_cent(scores[layer, head].total.aer) for head in heads)]
            for layer in dict.fromkeys(layer for layer, _ in scores)
        ]
        print()
        print(table(rows, ["AER", *(f"head {head}" for head in heads)]))
    if args.json:
        write_json(
            args.json,
            {
                **gold_as_dict(args, gold),
                "model": str(args.path),
                "layer": args.layer,
                "head": args.head,
                **({"selected_layer": selected_layer} if scores else {}),
                "end_symbol": args.end_symbol,
                "step": args.step,
                **as_dict(selected, args.by_sentence),
                "undefined_sentences": [number + 1 for number in selected.undefined],
                "table": [
                    {
                        "layer": layer,
                        "head": head,
                        **as_dict(found, args.by_sentence and layer == selected_layer),
                    }
                    for (layer, head), found in scores.items()
                ],
            },
        )


def as_dict(found: AlignmentScore, by_sentence: bool) -> dict:
    """A score, for JSON; counts of a sentence are [links, sure, possible, and found of either]."""
    lists = [
        [one.links, one.sure, one.possible, one.sure_found, one.possible_found]
        for one in found.sentences
    ]
    return {**found.total.as_dict(), **({"by_sentence": lists} if by_sentence else {})}
