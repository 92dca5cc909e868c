"""Make a small folder of a run's model, to hand on: what translates text, and a card.

  fairseq-hybrid export reproduction/runs/full/mma/table4/local/bleu/seed1 --output models/local
  fairseq-hybrid translate models/local < text.de

The weights are in half precision.  The folder also has dictionaries, subwords and settings, and no
paths of this machine.  The card, README.md, has the scores of these very weights on the run's test
set, which the command translates and scores.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from ... import __version__
from ...errors import UserError
from ..corpora.definition import TEST_SETS, read_test_sets, slices
from ..corpora.manifest import NAME as MANIFEST
from ..corpora.tokenisers import detokeniser
from ..figures.outputs import write_text
from ..files.checkpoints import architecture, read_checkpoint
from ..files.deleting import delete
from ..files.json_files import write_json
from ..files.text import read_lines
from ..files.writing import check_for_fairseq
from ..models.trained import BEGUN, CHECKPOINT, find_model
from ..scores.counts import Score
from ..scores.metrics import build_metric
from .results import read_result

if TYPE_CHECKING:
    from ..models.translator import Translator

#: Sentences of the test set whose translations the card has, and the head of their table.
EXAMPLES, EXAMPLES_HEAD = 3, "| text | translation |"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="the folder of a run that is done")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR", help="a new folder")


def run(args: argparse.Namespace) -> None:
    export(args.run, args.output)
    print(f"written to {args.output}")


def export(run: Path, output: Path) -> None:
    from ..models.averaging import write_checkpoint  # here: these import torch, which takes seconds
    from ..models.translator import load

    check_for_fairseq(output)
    trained = find_model(run)
    result = read_result(trained.folder / "result.json")
    if result is None or not trained.settings:
        raise UserError(f"{run} is not a run that is done: it has no {BEGUN} and result.json")
    if output.exists():
        raise UserError(f"--output {output} exists; name a new folder")
    part = output.with_name(f"{output.name}.part")
    delete(part, part.parent)  # of a command that was stopped
    about, target = trained.treatment, trained.languages[1]
    raw = trained.prepared / "raw"
    source, references = (read_lines(raw / f"test.{lang}") for lang in trained.languages)
    for path in (*trained.dictionaries.values(), *trained.subword_files.values()):
        copy = part / path.relative_to(trained.prepared)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    shutil.copyfile(trained.prepared / MANIFEST, part / MANIFEST)
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
    told = card(translator, output, architecture(state), scores, examples, result)
    write_text(part / "README.md", told)
    part.rename(output)


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
    output: Path,
    arch: str | None,
    scores: dict[str, Score],
    examples: list[tuple[str, str]],
    result: dict,
) -> str:
    """What the model is, its scores, the licence of its text, and the commands that made it."""
    about, name, seed = translator.trained.treatment, result["name"], result["seed"]
    paper, table, row, column = (result[key] for key in ("paper", "table", "row", "column"))
    parameters = sum(weight.numel() for weight in translator.model.parameters())
    search = " ".join(f"--{flag} {value}" for flag, value in translator.trained.search.items())
    place = shlex.quote(without_folders(str(output)))
    trained = shlex.quote(f"reproduction/runs/{result['label']}/{name}")
    made = f"reproduce {paper}/{table} {row} --columns {column} --seeds {seed},"
    if paper == "own":
        made = f"train --text TEXT --name {table} --seeds {seed}, {row} (flags in {BEGUN})"
    licence = about.recipe["licence"] or "the user's"
    flags = translator.trained.settings["train"]
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
    rows = []
    for key, score in scores.items():
        rows.append(f"| {key} | {score.value:.2f} | `{in_table(score.signature)}` |")
    lines = [
        *(f"# {output.name}: {about.source} to {about.target}", ""),
        f"`{arch}`, {parameters:,} parameters in half precision, trained on",
        f"{about.counts['train']:,} sentence pairs of {about.corpus}{no_positions}.",
        f"Its flags are in `{BEGUN}`, the treatment of the text in `{MANIFEST}`.",
        *("", f"    fairseq-hybrid translate {place} < text.{about.source}", "", taken, ""),
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
