"""Export a model: a small folder of what translates text, with a card."""

from __future__ import annotations

import shlex
from pathlib import Path

from ... import __version__
from ...errors import UserError
from ..corpora.manifest import NAME as MANIFEST
from ..files.checkpoints import architecture, parameters_of, read_checkpoint
from ..files.deleting import delete
from ..files.json_files import write_json
from ..files.local_paths import without_folders
from ..files.text import read_lines
from ..files.writing import check_for_fairseq, write_text
from ..models.trained import BEGUN, CHECKPOINT, TrainedModel, find_model
from .fairseq_parts import Parts, check_fit, settings_of, write_preparation
from .folder import RunFolder
from .results import read_result

#: Sentences of the test set whose translations the card has, and the head of their table.
EXAMPLES, EXAMPLES_HEAD = 3, "| text | translation |"


def export(model: Path, output: Path, *, data: Path | None = None, parts: Parts) -> None:
    """Make the new folder ``output`` of a run, or of a checkpoint, the data on which it was trained
    and what its user knows of their text.
    """
    if output.exists():
        raise UserError(f"--output {output} exists; name a new folder")
    check_for_fairseq(output)
    part = output.with_name(f"{output.name}.part")
    delete(part, part.parent)  # of a command that was stopped
    try:
        if data:
            card = export_checkpoint(model, data, parts, part, output)
        elif parts.given:
            raise UserError("--codes, --sentencepiece, --tokenizer and --lowercase need --data")
        else:
            card = export_run(model, part, output)
    except SystemExit:  # as every UserError is
        delete(part, part.parent)
        raise
    write_text(part / "README.md", card)
    part.rename(output)


def export_checkpoint(checkpoint: Path, data: Path, parts: Parts, part: Path, output: Path) -> str:
    """Make a model's folder, ``part``, of a checkpoint and what its user knows; return its card."""
    from ..models.loading import load_model
    from ..models.sentences import Sentences

    trained = find_model(checkpoint, data)
    if trained.manifest and parts.given:
        raise UserError(f"{data} says how its text was prepared; leave out --codes and the like")
    if not trained.manifest:
        parts.check(data)
    _, task = load_model(trained)
    if trained.manifest:
        trained.prepared.copy_for_model(part)
    else:
        write_preparation(trained, parts, part)
    state = write_halved(trained, settings_of(trained.checkpoint), part)
    made, pairs = find_model(part), ("-".join(trained.languages), "-".join(trained.languages[::-1]))
    for split in ("valid", "test", "train"):
        if any(path for pair in pairs for path in trained.binary.glob(f"{split}.{pair}.*")):
            known = Sentences.of_split(task, split)
            check_fit(made, data, (known.source, known.translations))
            break
    else:
        raise UserError(f"{data} has no sentences of {pairs[0]} to check --codes and the like with")
    made_of = f"{checkpoint.name} and {made.treatment.corpus}"
    made_by = f"Made with fairseq_hybrid_attn {__version__} of {made_of}."
    return "\n".join([*beginning(made, state, output), made_by, ""])


def export_run(run: Path, part: Path, output: Path) -> str:
    """Make a run's model folder, ``part``; return its card."""
    trained = find_model(run)
    folder = RunFolder(trained.folder)
    result = read_result(folder.result)
    if result is None or not trained.settings:
        raise UserError(
            f"{run} is not a run that is done: it has no {BEGUN} and result.json. To export a "
            "checkpoint of fairseq's, name the --data on which it was trained"
        )
    trained.prepared.copy_for_model(part)
    state = write_halved(trained, trained.settings, part)
    examples: list[tuple[str, str]] = []
    if text := trained.text("raw", "test"):
        pairs = zip(read_lines(text[0]), read_lines(folder.hypotheses), strict=True)
        examples = list(pairs)[:EXAMPLES]
    return card(find_model(part), state, output, examples, result)


def in_table(text: str) -> str:
    """Text as a table of Markdown needs it."""
    return text.replace("|", r"\|")


def write_halved(trained: TrainedModel, settings: dict, part: Path) -> dict:
    """Write a model's weights in half precision, and its settings; return the checkpoint."""
    from ..models.averaging import write_checkpoint  # here: it imports torch, which takes seconds

    state = halved(read_checkpoint(trained.checkpoint))
    write_checkpoint(state, part / CHECKPOINT)
    write_json(part / BEGUN, {"settings": without_folders(settings)})
    return state


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


def beginning(trained: TrainedModel, state: dict, output: Path) -> list[str]:
    """What the model is, and how it translates."""
    about, parameters = trained.treatment, parameters_of(state)
    pairs = f"{about.counts['train']:,} sentence pairs of " if about.counts else ""
    flags = trained.settings["train"]
    without = [side for side in ("encoder", "decoder") if flags.get(f"no-{side}-positions")]
    if flags.get("no-token-positional-embeddings"):
        without = ["encoder", "decoder"]
    relative = flags.get("relative-positions")
    positions = f", with {relative} positions" * bool(relative)
    positions += f", without positions ({', '.join(without)})" * bool(without)
    kind = about.tokenizer[about.source]
    taken = f"Lines are text, which is split into words by `{kind}`."
    if kind == "given":
        taken = "Lines are tokens with spaces between, as in its training text."
        if made_by := about.recipe.get("given_by"):
            taken = f"Lines are text, or its tokens by `{made_by}`: both translate alike."
    return [
        *(f"# {output.name}: {about.source} to {about.target}", ""),
        f"`{architecture(state)}`, {parameters:,} parameters in half precision, trained on",
        f"{pairs}{about.corpus}{positions}.",
        f"Its flags are in `{BEGUN}`, the treatment of the text in `{MANIFEST}`.",
        *("", f"    fairseq-hybrid translate {_shown(output)} < text.{about.source}", ""),
        *(taken, ""),
    ]


def card(
    trained: TrainedModel,
    state: dict,
    output: Path,
    examples: list[tuple[str, str]],
    result: dict,
) -> str:
    """What the model is, its scores, the licence of its text, and the commands that made it."""
    about, name, seed = trained.treatment, result["name"], result["seed"]
    paper, table, row, column = (result[key] for key in ("paper", "table", "row", "column"))
    search = " ".join(f"--{flag} {value}" for flag, value in trained.search.items())
    run = shlex.quote(f"reproduction/runs/{result['label']}/{name}")
    made = f"reproduce {paper}/{table} {row} --columns {column} --seeds {seed},"
    if paper == "own":
        made = f"train --text TEXT --name {table} --seeds {seed}, {row} (flags in {BEGUN})"
    licence = about.recipe["licence"] or "the user's"
    scores = [
        f"| {key} | {score['value']:.2f} | `{in_table(score['signature'])}` |"
        for key, score in result["scores"].items()
        if key.partition(".")[0] in about.recipe["scores"]
    ]
    translations = [f"| {in_table(text)} | {in_table(line)} |" for text, line in examples]
    shown = ("Its translations of the first of them:", "", EXAMPLES_HEAD, "|---|---|")
    lines = [
        *beginning(trained, state, output),
        f"Scores on the test set ({about.counts['test']:,} sentences), {search}, of the weights",
        "before they were rounded to half precision:",
        *("", "| score | value | signature |", "|---|---|---|", *scores, ""),
        *((*shown, *translations, "") if examples else ()),
        f"Text: {licence.strip()}",
        *("", f"Made with fairseq_hybrid_attn {__version__}:", ""),
        f"    fairseq-hybrid {made}",
        f"    fairseq-hybrid export {run} --output {_shown(output)}",
    ]
    return "\n".join(lines) + "\n"


def _shown(output: Path) -> str:
    return shlex.quote(without_folders(str(output)))
