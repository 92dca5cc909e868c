r"""Extract word alignments from a model's cross-attention, by forced decoding of a translation.

  fairseq-hybrid align RUN --layer 5 --head average --output test.align
  fairseq-hybrid align model.pt --data data/mine --source test.bpe.de --target test.bpe.en \
      --gold test.gold --gold-base 0 --table

Each target word is linked to the source word that it attends to most: by the attention of a layer
and a head, or by the mean of all.  Any fairseq encoder-decoder with cross-attention works.  --gold
prints the alignment error rate (see fairseq-hybrid aer).  docs/alignment.md says how.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import UserError
from ..alignment import AVERAGE, Choice
from ..alignment.error_rate import RATES, count, rates, undefined
from ..corpora.link_files import Gold, Links, write_pharaoh
from ..corpora.words import words_of
from ..files.json_files import write_json
from ..files.tabular import Grid
from ..files.writing import atomic_write, check_outputs, say
from ..models import CROSS
from ..scores.counts import Score, scores_as_dict
from . import model_flags
from .aer import add_gold_arguments, gold_as_dict, gold_of, per_cent, print_rates, rates_of

if TYPE_CHECKING:
    from ..alignment.forced import AlignedSentence
    from ..models.attentions import SentenceAttention

Key = tuple[Choice, Choice]  # a layer and a head
SELECTED: Key = ("selected", "selected")  # those of --layer and --head


def add_arguments(parser: argparse.ArgumentParser) -> None:
    model_flags.add_model(parser)
    model_flags.add_sentences(parser, typed=False)
    add = parser.add_argument
    text = "decoder layer: from 1 = lowest, -1 or last (default), or average"
    add("--layer", default="-1", metavar="N", help=text)
    text = "head: from 1, last, or average (default)"
    add("--head", default=AVERAGE, metavar="N", help=text)
    text = "never choose the source's end symbol (default), or choose it and write no link"
    add("--end-symbol", choices=("ignore", "null"), default="ignore", help=text)
    text = "the attention of a target word: when it is predicted (default), or one step later, "
    text += "when it is read"
    add("--step", choices=("predict", "read"), default="predict", help=text)
    text = "let the decoder see the whole translation, for models trained to align this way"
    add("--full-context", action="store_true", help=text)
    add("--output", type=Path, metavar="FILE", help="write links to FILE")
    add("--matrices", type=Path, metavar="FILE", help="write attention to FILE.npz")
    add_gold_arguments(parser, required=False)
    text = "error rates of all layers and heads; needs --gold"
    add("--table", action="store_true", help=text)
    add("--json", type=Path, metavar="FILE", help="write the error rates to FILE")
    text = "sentences that are too long for the model: an error (default), or no links"
    add("--too-long", choices=("error", "empty"), default="error", help=text)


def run(args: argparse.Namespace) -> None:
    from ..alignment.forced import aligned, strongest
    from ..models.sentences import some  # here: these import torch, which takes seconds
    from ..models.trained import find_model

    selected = choice("--layer", args.layer), choice("--head", args.head)
    trained = find_model(args.model, args.data)
    check_arguments(args, trained.checkpoint)
    (loaded,) = model_flags.on_text(args, {args.model.stem: trained})
    sentences = loaded.sentences
    assert sentences.target is not None  # it is forced
    lengths = [
        (len(words_of(source, loaded.subwords)), len(words_of(target, loaded.subwords)))
        for source, target in zip(sentences.source, sentences.target, strict=True)
    ]
    gold = gold_of(args, lengths, len(lengths)) if args.gold else None
    skip = sentences.too_long(loaded.model, loaded.task)
    if skip and args.too_long == "error":
        told = f"{len(skip):,} sentences are longer than the model takes: {some(skip)}"
        raise UserError(f"{args.model}: {told}; --too-long empty gives them no links")
    end_symbol = args.end_symbol == "null"
    attentions = loaded.attentions([CROSS], full_context=args.full_context)
    # A sentence that is left out has no links.
    everyone: list[dict[Key, Links]] = [{SELECTED: frozenset()} for _ in lengths]
    matrices = [np.zeros((m, n + 1), np.float32) for n, m in lengths] if args.matrices else []

    def use(number: int, observed: SentenceAttention) -> None:
        sentence = aligned(loaded, number, observed, read_step=args.step == "read")
        attention = sentence.of(*selected)
        everyone[number][SELECTED] = strongest(attention, end_symbol=end_symbol)
        if args.table:
            everyone[number] |= all_links(sentence, end_symbol)
        if args.matrices:
            matrices[number] = attention.copy()  # not a view of all layers and heads

    loaded.observe(attentions, set(range(len(lengths))).difference(skip), use)
    if args.output:
        write_pharaoh(args.output, [links[SELECTED] for links in everyone])
    if args.matrices:
        with atomic_write(args.matrices) as file:
            arrays: dict[str, Any] = {str(n): array for n, array in enumerate(matrices)}
            np.savez_compressed(file, **arrays)
    if skip:
        left_out = f"{len(skip):,} of {len(sentences):,} ({some(skip)})"
        say(f"too long for the model, without links: {left_out}")
    if gold:
        report(args, gold, everyone)


def all_links(sentence: AlignedSentence, end_symbol: bool) -> dict[Key, Links]:
    layers, heads = ([*range(1, n + 1), AVERAGE] for n in sentence.attention.shape[:2])
    return {
        (layer, head): sentence.links(layer, head, end_symbol=end_symbol)
        for layer in layers
        for head in heads
    }


def choice(flag: str, value: str) -> Choice:
    """Parse a layer or head: its number, counted from the end if negative, or ``average``."""
    if value == AVERAGE:
        return AVERAGE
    number = -1 if value == "last" else int(value) if re.fullmatch(r"-?\d+", value) else 0
    if number == 0:
        raise UserError(f"{flag} {value}: use a number from 1, -1 or last, or {AVERAGE}")
    return number


def check_arguments(args: argparse.Namespace, checkpoint: Path) -> None:
    if not (args.output or args.matrices or args.gold):
        raise UserError("nothing to do: give --output FILE, --matrices FILE or --gold FILE")
    if args.gold and args.gold_base is None:
        raise UserError("--gold needs --gold-base: what number does the first word have, 0 or 1?")
    if (args.table or args.json) and not args.gold:
        raise UserError("--table and --json are about error rates; they need --gold FILE")
    if args.matrices and args.matrices.suffix != ".npz":
        raise UserError(f"--matrices {args.matrices}: use a name that ends in .npz")
    outputs = {"--output": args.output, "--matrices": args.matrices, "--json": args.json}
    check_outputs(outputs, [checkpoint, args.source, args.target, args.gold])


def report(args: argparse.Namespace, gold: Gold, everyone: list[dict[Key, Links]]) -> None:
    """Score each layer and head, print the error rates and write them.

    In JSON, the scores are those of the selected layer: ``aer`` of the selected head, ``aer.headN``
    and ``aer.average`` of the others; ``table`` has the rates of all layers.
    """
    counts = {  # a sentence that was left out has no links
        key: count([links.get(key, frozenset()) for links in everyone], gold.sentences)
        for key in max(everyone, key=len)
    }
    selected = counts.pop(SELECTED)
    layers, heads = (list(dict.fromkeys(key[side] for key in counts)) for side in (0, 1))
    selected_layer = choice("--layer", args.layer)
    found = {key: rates_of(of_key) for key, of_key in counts.items()}
    if found and isinstance(selected_layer, int) and selected_layer < 0:
        selected_layer = layers[:-1][selected_layer]  # the last of them is the average
    how = {"end": args.end_symbol, "step": args.step}
    scores: dict[str, Score] = rates(selected, layer=args.layer, head=args.head, **how)
    for head in heads:
        of_head = rates(counts[selected_layer, head], layer=args.layer, head=head, **how)
        name = f"aer.{head if head == AVERAGE else f'head{head}'}"
        scores |= {name: of_head["aer"]} if "aer" in of_head else {}
    table = [
        {"layer": layer, "head": head, **dict(zip(RATES, of_key, strict=True))}
        for (layer, head), of_key in found.items()
    ]
    content = {"model": str(args.model), "layer": args.layer, "head": args.head}
    content |= {"end_symbol": args.end_symbol, "step": args.step}
    content |= {"undefined_sentences": undefined(selected), "table": table}
    content |= {"scores": scores_as_dict(scores)}
    if args.json:
        write_json(args.json, {**gold_as_dict(args, gold), **content})
    print_rates(gold, {f"layer {args.layer}, head {args.head}": selected})
    if found:
        rows = [
            [f"layer {layer}", *(per_cent(found[layer, head][0]) for head in heads)]
            for layer in layers
        ]
        print()
        print(Grid(["AER", *(f"head {head}" for head in heads)], rows, left=1).terminal())
