"""Make a small folder of a model, to hand on: what translates text, and a card.

  fairseq-hybrid export reproduction/runs/full/mma/table4/local/bleu/seed1 --output models/local
  fairseq-hybrid export checkpoint_best.pt --data data-bin --codes codes --tokenizer moses \
      --output models/baseline
  fairseq-hybrid translate models/local < text.de

The model is that of a run, or a checkpoint of fairseq-train.  fairseq's data (--data) does not say
how its text was prepared; your flags do.  If the data's sentences come out otherwise, they are
refused.

The weights are in half precision.  The folder also has dictionaries, subwords and settings, and no
paths of this machine.  The card, README.md, has the scores of a run's very weights on its test set,
which the command translates and scores.
"""

from __future__ import annotations

import argparse
import shlex
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ... import __version__
from ...errors import UserError
from ..corpora.definition import TEST_SETS, read_test_sets, slices
from ..corpora.manifest import NAME as MANIFEST
from ..corpora.manifest import copy_for_model
from ..corpora.tokenisers import KINDS, detokeniser
from ..files.checkpoints import architecture, read_checkpoint
from ..files.deleting import delete
from ..files.json_files import write_json
from ..files.text import read_lines
from ..files.writing import check_for_fairseq, write_text
from ..models.trained import BEGUN, CHECKPOINT, TrainedModel, find_model
from ..run.fairseq_parts import Parts, check_fit, settings_of, write_preparation
from ..run.results import read_result
from ..scores.counts import Score
from ..scores.metrics import build_metric

if TYPE_CHECKING:
    from torch.nn import Module

    from ..models.translator import Translator

#: Sentences of the test set whose translations the card has, and the head of their table.
EXAMPLES, EXAMPLES_HEAD = 3, "| text | translation |"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("run", type=Path, metavar="RUN|CHECKPOINT", help="a run that is done, or a checkpoint")
    add("--output", required=True, type=Path, metavar="DIR", help="a new folder")
    group = parser.add_argument_group("of a checkpoint; one for both sides, or source and target")
    text = "on what it was trained, by fairseq-preprocess or prepare"
    group.add_argument("--data", type=Path, metavar="DIR", help=text)
    for flag, what in (("codes", "of subword-nmt or fastBPE"), ("sentencepiece", "model")):
        group.add_argument(f"--{flag}", nargs="+", type=Path, default=[], metavar="FILE", help=what)
    text = "how words were separated"
    group.add_argument("--tokenizer", nargs="+", choices=tuple(KINDS), default=[], help=text)
    group.add_argument("--lowercase", action="store_true", help="the text was lower-cased")


def run(args: argparse.Namespace) -> None:
    parts = Parts(args.codes, args.sentencepiece, args.tokenizer, args.lowercase)
    if args.output.exists():
        raise UserError(f"--output {args.output} exists; name a new folder")
    check_for_fairseq(args.output)
    part = args.output.with_name(f"{args.output.name}.part")
    delete(part, part.parent)  # of a command that was stopped
    try:
        if args.data:
            told = export_checkpoint(args.run, args.data, parts, part, args.output)
        elif parts.given:
            raise UserError("--codes, --sentencepiece, --tokenizer and --lowercase need --data")
        else:
            told = export(args.run, part, args.output)
    except SystemExit:  # as every UserError is
        delete(part, part.parent)
        raise
    write_text(part / "README.md", told)
    part.rename(args.output)
    print(f"written to {args.output}")


def export_checkpoint(checkpoint: Path, data: Path, parts: Parts, part: Path, output: Path) -> str:
    """Make a model's folder, ``part``, of a checkpoint and what its user knows; return its card."""
    from ..models.averaging import write_checkpoint
    from ..models.loading import load_model
    from ..models.sentences import Sentences

    trained = find_model(checkpoint, data)
    if trained.manifest and parts.given:
        raise UserError(f"{data} says how its text was prepared; leave out --codes and the like")
    if not trained.manifest:
        parts.check(data)
    model, task = load_model(trained)
    if trained.manifest:
        copy_for_model(trained.prepared, part)
    else:
        write_preparation(trained, parts, part)
    state = halved(read_checkpoint(trained.checkpoint))
    write_checkpoint(state, part / CHECKPOINT)
    write_json(part / BEGUN, {"settings": without_folders(settings_of(trained.checkpoint))})
    made, pairs = find_model(part), ("-".join(trained.languages), "-".join(trained.languages[::-1]))
    for split in ("valid", "test", "train"):
        if any(path for pair in pairs for path in trained.binary.glob(f"{split}.{pair}.*")):
            known = Sentences.of_split(task, split)
            check_fit(made, data, (known.source, known.translations))
            break
    else:
        raise UserError(f"{data} has no sentences of {pairs[0]} to check --codes and the like with")
    lines = beginning(made, model, output, architecture(state))
    made_of = f"{checkpoint.name} and {made.treatment.corpus}"
    return "\n".join([*lines, f"Made with fairseq_hybrid_attn {__version__} of {made_of}.", ""])


def export(run: Path, part: Path, output: Path) -> str:
    """Make a run's model folder, ``part``; return its card."""
    from ..models.averaging import write_checkpoint  # here: these import torch, which takes seconds
    from ..models.translator import load

    trained = find_model(run)
    result = read_result(trained.folder / "result.json")
    if result is None or not trained.settings:
        raise UserError(
            f"{run} is not a run that is done: it has no {BEGUN} and result.json. To export a "
            "checkpoint of fairseq's, name the --data on which it was trained"
        )
    about, target = trained.treatment, trained.languages[1]
    raw = trained.prepared / "raw"
    source, references = (read_lines(raw / f"test.{lang}") for lang in trained.languages)
    copy_for_model(trained.prepared, part)
    write_json(part / BEGUN, {"settings": without_folders(trained.settings)})
    state = halved(read_checkpoint(trained.checkpoint))
    write_checkpoint(state, part / CHECKPOINT)
    translator = load(part)
    best = [found[0] if found else None for found in translator.translate(source)]
    # As `score` has them: tokens that were given stay as they are.
    undo = detokeniser(about.tokenizer[target], target)
    translations = [undo(" ".join(one.tokens)) if one else "" for one in best]
    sets = read_test_sets(raw / TEST_SETS, len(references)) if about.tests else {}
    scores = {
        f"{name}{suffix}": build_metric(name, target, about.lowercase).score(
            translations[part], references[part]
        )
        for suffix, part in slices(sets, len(references)).items()
        for name in about.recipe["scores"]
    }
    first = zip(source[:EXAMPLES], best[:EXAMPLES], strict=True)
    examples = [(line, one.text if one else "") for line, one in first]
    return card(translator, output, architecture(state), scores, examples, result)


def in_table(text: str) -> str:
    """Text as a table of Markdown needs it."""
    return text.replace("|", r"\|")


def halved(state: dict) -> dict:
    """A checkpoint with what loading it needs alone, its weights in half precision."""
    from ..models.averaging import tied_weights

    weights, ties = state["model"], tied_weights(state["model"])
    halves = {
        name: weight.half() if weight.is_floating_point() else weight
        for name, weight in weights.items()
    }
    return {
        **{key: without_folders(state.get(key)) for key in ("args", "cfg")},
        "model": {name: halves[ties.get(name, name)] for name in halves},
        "task_state": state.get("task_state") or {},
        "optimizer_history": state.get("optimizer_history") or [],
        "extra_state": {},
        "last_optimizer_state": None,
    }


def without_folders(value):
    """Settings with the last part of each absolute path alone."""
    if isinstance(value, dict):
        return {key: without_folders(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_folders(part) for part in value]
    if isinstance(value, Namespace):
        return Namespace(**without_folders(vars(value)))
    return Path(value).name if isinstance(value, str) and value.startswith("/") else value


def beginning(trained: TrainedModel, model: Module, output: Path, arch: str | None) -> list[str]:
    """What the model is, and how it translates."""
    about, parameters = trained.treatment, sum(weight.numel() for weight in model.parameters())
    pairs = f"{about.counts['train']:,} sentence pairs of " if about.counts else ""
    place = shlex.quote(without_folders(str(output)))
    flags = trained.settings["train"]
    without = [side for side in ("encoder", "decoder") if flags.get(f"no-{side}-positions")]
    if flags.get("no-token-positional-embeddings"):
        without = ["encoder", "decoder"]
    no_positions = f", without positional embeddings ({', '.join(without)})" * bool(without)
    kind = about.tokenizer[about.source]
    taken = f"Lines are text, which is split into words by `{kind}`."
    if kind == "given":
        taken = "Lines are tokens with spaces between, as in its training text."
        if made_by := about.recipe.get("given_by"):
            taken = f"Lines are text, or its tokens by `{made_by}`: both translate alike."
    return [
        *(f"# {output.name}: {about.source} to {about.target}", ""),
        f"`{arch}`, {parameters:,} parameters in half precision, trained on",
        f"{pairs}{about.corpus}{no_positions}.",
        f"Its flags are in `{BEGUN}`, the treatment of the text in `{MANIFEST}`.",
        *("", f"    fairseq-hybrid translate {place} < text.{about.source}", "", taken, ""),
    ]


def card(
    translator: Translator,
    output: Path,
    arch: str | None,
    scores: dict[str, Score],
    examples: list[tuple[str, str]],
    result: dict,
) -> str:
    """What the model is, its scores, the licence of its text, and the commands that made it."""
    about, name, seed = translator.trained.treatment, result["name"], result["seed"]
    paper, table, row, column = (result[key] for key in ("paper", "table", "row", "column"))
    search = " ".join(f"--{flag} {value}" for flag, value in translator.trained.search.items())
    place = shlex.quote(without_folders(str(output)))
    trained = shlex.quote(f"reproduction/runs/{result['label']}/{name}")
    made = f"reproduce {paper}/{table} {row} --columns {column} --seeds {seed},"
    if paper == "own":
        made = f"train --text TEXT --name {table} --seeds {seed}, {row} (flags in {BEGUN})"
    licence = about.recipe["licence"] or "the user's"
    rows = []
    for key, score in scores.items():
        rows.append(f"| {key} | {score.value:.2f} | `{in_table(score.signature)}` |")
    lines = [
        *beginning(translator.trained, translator.model, output, arch),
        f"Scores of these weights on the test set ({about.counts['test']:,} sentences), {search}:",
        *("", "| score | value | signature |", "|---|---|---|", *rows, ""),
        *("Its translations of the first of them:", "", EXAMPLES_HEAD, "|---|---|"),
        *(f"| {in_table(text)} | {in_table(translation)} |" for text, translation in examples),
        "",
        f"Text: {licence.strip()}",
        *("", f"Made with fairseq_hybrid_attn {__version__}:", ""),
        f"    fairseq-hybrid {made}",
        f"    fairseq-hybrid export {trained} --output {place}",
    ]
    return "\n".join(lines) + "\n"
