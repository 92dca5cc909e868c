"""Make a small folder of a run's model, to hand on: what translates text, and a card.

  fairseq-hybrid export reproduction/runs/full/mma/table4/local/bleu/seed1 --output models/local
  fairseq-hybrid translate models/local < text.de

The weights are in half precision.  The folder also has dictionaries, subwords and settings, and no
paths of this machine.  The card, README.md, has the scores of these very weights on the run's test
set, which the command translates and scores.
"""

from __future__ import annotations

import argparse
import shutil
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ... import __version__
from ...errors import UserError
from ..corpora.definition import TEST_SETS
from ..corpora.manifest import NAME as MANIFEST
from ..corpora.test_sets import read_test_sets, slices
from ..files.checkpoints import architecture, read_checkpoint
from ..files.json_files import write_json
from ..files.text import read_lines
from ..models.averaging import write_checkpoint
from ..models.trained import BEGUN, CHECKPOINT, find_model
from ..scores.metrics import Score, build_metric

if TYPE_CHECKING:
    from ..models.translator import Translator

#: Sentences of the test set whose translations the card has, and the head of their table.
EXAMPLES, EXAMPLES_HEAD = 3, "| text | translation |"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a run that is done")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="a new folder")


def run(args: argparse.Namespace) -> None:
    from ..models.translator import load  # here: it imports torch, which takes seconds

    trained = find_model(args.run)
    if not trained.settings:
        raise UserError(f"{args.run} is not a run: it has no {BEGUN} with settings")
    if args.output.exists():
        raise UserError(f"--output {args.output} exists; name a new folder")
    raw = trained.prepared / "raw"
    source, references = (read_lines(raw / f"test.{lang}") for lang in trained.languages)
    for path in (*trained.dictionaries.values(), *trained.subword_files.values()):
        copy = args.output / path.relative_to(trained.prepared)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    shutil.copyfile(trained.prepared / MANIFEST, args.output / MANIFEST)
    write_json(args.output / BEGUN, {"settings": without_folders(trained.settings)})
    state = halved(read_checkpoint(trained.checkpoint))
    write_checkpoint(state, args.output / CHECKPOINT)
    translator = load(args.output)
    translations = [best[0].text if best else "" for best in translator.translate(source)]
    sets = read_test_sets(raw / TEST_SETS, len(references)) if trained.manifest.tests else {}
    scores = {
        f"{name}{suffix}": build_metric(
            name, trained.languages[1], trained.manifest.lowercase
        ).score(translations[part], references[part])
        for suffix, part in slices(sets, len(references)).items()
        for name in trained.manifest.recipe["scores"]
    }
    examples = dict(zip(source[:EXAMPLES], translations, strict=False))
    told = card(translator, str(args.output), architecture(state), scores, examples, args.run)
    (args.output / "README.md").write_text(told)
    print(f"written to {args.output}")


def halved(state: dict) -> dict:
    """A checkpoint with what loading it needs alone, its weights in half precision."""
    from ..models.averaging import tied_weights

    weights, ties = state["model"], tied_weights(state["model"])
    halves = {
        name: weight.half() if weight.is_floating_point() else weight
        for name, weight in weights.items()
    }
    return {
        "args": None,
        "cfg": without_folders(state["cfg"]),
        "model": {name: halves[ties.get(name, name)] for name in halves},
        "task_state": state.get("task_state") or {},
        "optimizer_history": state["optimizer_history"],
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


def card(
    translator: Translator,
    place: str,
    arch: str | None,
    scores: dict[str, Score],
    examples: dict[str, str],
    run: Path,
) -> str:
    """What the model is, its scores, the licence of its text, and the commands that made it."""
    about, settings = translator.trained.manifest, translator.settings
    label, paper, table, row, column, seed = run.resolve().parts[-6:]
    name = f"{paper}/{table}/{row}/{column}/{seed}"
    seed = seed.removeprefix("seed")
    parameters = sum(weight.numel() for weight in translator.model.parameters())
    search = " ".join(f"--{flag} {value}" for flag, value in settings.items())
    made = f"reproduce {paper}/{table} {row} --columns {column} --seeds {seed},"
    if paper == "own":
        made = f"train --data TEXT --name {table} --seeds {seed}, {row} (flags in {BEGUN})"
    licence = about.recipe["licence"] or "the user's"
    rows = []
    for key, score in scores.items():
        signature = score.signature.replace("|", "\\|")  # as tables of Markdown need it
        rows.append(f"| {key} | {score.value:.2f} | `{signature}` |")
    lines = [
        *(f"# {Path(place).name}: {about.source} to {about.target}", ""),
        f"`{arch}`, {parameters:,} parameters in half precision, trained on",
        f"{about.counts['train']:,} sentence pairs of {about.corpus}.",
        f"Its flags are in `{BEGUN}`, the treatment of the text in `{MANIFEST}`.",
        *("", f"    fairseq-hybrid translate {place} < text.{about.source}", ""),
        f"Scores of these weights on the test set ({about.counts['test']:,} sentences), {search}:",
        *("", "| score | value | signature |", "|---|---|---|", *rows, ""),
        *("Its translations of the first of them:", "", EXAMPLES_HEAD, "|---|---|"),
        *(f"| {text} | {translation} |" for text, translation in examples.items()),
        "",
        f"Text: {licence.strip()}",
        *("", f"Made with fairseq_hybrid_attn {__version__}:", ""),
        f"    fairseq-hybrid {made}",
        f"    fairseq-hybrid export reproduction/runs/{label}/{name} --output {place}",
    ]
    return "\n".join(lines) + "\n"
