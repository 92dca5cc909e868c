"""A run as a shell script that a reader can follow, change and put on a cluster.

Its steps are the commands of ``reproduce``, with variables for folders, seed and GPUs.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from ...errors import UserError
from ..config.own_tables import own_table
from ..config.paper_tables import Cell, Row, Table, load_table
from ..corpora.prepared import PreparedFolder
from ..files.yaml_files import CONFIGS
from ..run.devices import Devices, share_out
from ..run.fairseq_commands import RunCommands, by_flag, flags
from ..run.folder import RunFolder
from ..run.workspace import Run

#: By paper, the flags whose values it does not give; docs/papers has the reasons.
INFERRED = {
    "hysan": "share-all-embeddings share-decoder-input-output-embed warmup-updates lr "
    "label-smoothing dropout max-tokens update-freq save-interval-updates gnmt-lenpen",
    "hybrid_gate": "encoder-normalize-before decoder-normalize-before max-update eval-bleu-args "
    "save-interval-updates beam gnmt-lenpen max-len-a max-len-b",
    "mma": "adam-betas adam-eps share-decoder-input-output-embed weight-decay "
    "save-interval-updates lenpen",
    "alignment": "adam-betas adam-eps lr-scheduler warmup-updates lr label-smoothing dropout "
    "clip-norm max-update max-tokens update-freq save-interval-updates beam unnormalized",
}
#: HySAN's branches of c1 to c4 and e1: the ticks of its Table 1 are lost in the text that we have.
_TICKS_LOST = {"global,fw,l1", "global,fw,bw,l1", "global,bw,l5", "global,fw,bw,l5", "fw,l5"}
_NO_POSITIONS = {"no-encoder-positions": True, "no-decoder-positions": True}
#: Flags of the programs that a script leaves out; fairseq knows languages by the names of files.
_LEFT_OUT = {
    "fairseq-train": "source-lang target-lang tensorboard-logdir log-format log-interval",
    "fairseq-generate": "source-lang target-lang gen-subset results-path",
    "fairseq-hybrid": "write table max-tokens",
}
#: A word of a command that the shell replaces.
_REPLACED = re.compile(r"\$(CORPUS|SAVE|TEXT|DATA|PLUGIN|SEED|GPUS|\(\(\d+ / GPUS\)\))(/[\w./-]+)?")
_IMPORTED = "$(python -c 'import fairseq_hybrid_attn as plugin; print(plugin.__path__[0])')"
_WIDTH = 120

_SCRIPT = r"""#!/usr/bin/env bash
#SBATCH --gpus-per-node={gpus} --cpus-per-task={cpus} --time=48:00:00 --requeue --open-mode=append
{about}
set -euo pipefail
{variables}
{prepare}
{train}
{average}
{generate}
{measure}
"""


def script(run: Run, made_by: list[str]) -> str:
    """The script of a run, for any seed and number of GPUs; ``made_by``: its command line.

    Raises:
        UserError: the run trains no model.
    """
    settings = run.settings
    if settings.aligner:
        raise UserError(f"{run.name} trains no model, so it has no script; use show without it")
    if run.workspace.own and len(run.workspace.own.paths) > 1:
        raise UserError("a script takes the text as a folder with train, valid and test files")
    # The checkpoints of its curve, which "reproduce" alone measures, are left out.
    plain = replace(settings, checkpoints=replace(settings.checkpoints, curve=0))
    one = Devices("cuda", precision="fp32")  # the script itself adds --fp16
    folders = PreparedFolder(Path("$CORPUS")), RunFolder(Path("$SAVE"))
    commands = RunCommands(plain, run.recipe, *folders, one, Path("$PLUGIN"))
    train, search = commands.train(run.seed), commands.generate()
    _, batches = share_out(settings.batch, 1)
    changed = {"--seed": "$SEED"}
    if batches > 1:
        changed |= {"--update-freq": f"$(({batches} / GPUS))", "--distributed-world-size": "$GPUS"}
    without = without_positions(run)
    # Otherwise fairseq would send the pickled checkpoint to the other processes.
    more = ["--load-checkpoint-on-all-dp-ranks"] if batches > 1 else []
    more += ['"$DEVICE"', *(['"${positions[@]}"'] if without else []), '"$@"']
    move = '>"$SAVE/tmp"; mv "$SAVE/tmp" "$SAVE/gen"; }'
    whole = "aligned" if settings.needs_alignments else "manifest.json"  # what is made last
    untrained = "[[ -e $SAVE/model.pt ]] || "
    align = shell(commands.align(), start="[[ -e $SAVE/gold.align ]] || ") + "\n"
    score = commands.score(scores=metrics_of(run))
    files = {"--generated": "$SAVE/gen", "--hypotheses-out": "$SAVE/test.txt"}
    return _SCRIPT.format(
        gpus=min(batches, 8),
        cpus=4 * min(batches, 8),
        about=about(run, made_by, without),
        variables="\n".join(variables(run, batches, bool(without))),
        prepare=shell(prepare(run), start=f"[[ -e $CORPUS/{whole} ]] || "),
        train=inferred(run, train, search) + shell(train, changed, more, untrained),
        average=shell(commands.average(), start=untrained),
        generate=shell(search, more=[move], start="[[ -e $SAVE/gen ]] || { "),
        measure=(align if run.measures_alignment else "") + shell(score, files),
    )


def table_row(run: Run) -> tuple[Table, Row, str]:
    """The table, the row and the name of the column that a run belongs to."""
    cell = run.cell
    if cell.is_own:
        table = own_table(
            cell.table,
            [str(run.settings.train["arch"])],
            profile=run.workspace.profile,
            configs=run.workspace.configs,
        )
        return table, replace(table.rows[0], name=cell.row), cell.column
    table = load_table(cell.table_name, run.workspace.configs)
    return table, table.row(cell.row), cell.column


def about(run: Run, made_by: list[str], without: str | None) -> str:
    table, row, column = table_row(run)
    reported = reported_scores(table, row, column)
    reported += [f"with POSITIONS=0: {without}"] if without else []
    again, scores = f"reproduce {table.name} {row.name}", ", ".join(reported) or "no score"
    if table.is_own:
        again = "compare"
    return comment(
        f"Run again, it goes on. Seeds, tables, clusters: fairseq-hybrid {again}",
        f"{table.title}: {row.system or row.name}." + f" Reported: {scores}" * (not table.is_own),
        f"Made by: {shlex.join(made_by)}",
    )


def comment(*lines: str) -> str:
    wrap = textwrap.TextWrapper(_WIDTH, initial_indent="# ", subsequent_indent="#   ")
    wrap.break_on_hyphens = False  # a command can be copied
    return "\n".join(map(wrap.fill, lines))


def reported_scores(table: Table, row: Row, run: str) -> list[str]:
    """The paper's scores of a row, in the columns of a run."""
    return [
        f"{column.title} {row.paper[column.name]:g}"
        for column in table.columns
        if column.run == run and row.paper.get(column.name) is not None
    ]


def metrics_of(run: Run) -> list[str]:
    """BLEU, and the scores of the corpus that the paper reports."""
    table, _, name = table_row(run)
    reported = {column.score.partition(".")[0] for column in table.columns if column.run == name}
    return [score for score in run.recipe.scores if score in {"bleu", *reported}]


def inferred(run: Run, train: list[str], search: list[str]) -> str:
    """A line with what the paper does not give of these commands' flags; none if it gives all."""
    paper = run.cell.paper
    if paper not in INFERRED:
        return ""
    known = {f"--{name}" for name in INFERRED[paper].split()}
    pairs = [*pairwise([*train, ""]), *pairwise([*search, ""])]
    found = [flag for flag, value in pairs if flag in known or value in _TICKS_LOST]
    named = " ".join(dict.fromkeys(found))
    named += " and which checkpoint" * (run.settings.checkpoints.unit == "best")
    return comment(f"Not in the paper (docs/papers/{paper}.md): {named}") + "\n"


def without_positions(run: Run) -> str | None:
    """What the paper reports, if a column of the row's table differs in having no positions."""
    table, row, name = table_row(run)
    for column in table.columns:
        if column.run == column.name != name and column.name in row.paper:
            train = Cell(table, row, column).settings(run.workspace.profile).train
            if train == {**run.settings.train, **_NO_POSITIONS}:
                return ", ".join(reported_scores(table, row, column.name)) or column.title
    return None


def variables(run: Run, batches: int, without: bool) -> list[str]:
    """What a reader sets, with defaults; no path but that of the user's own text."""
    workspace, corpus = run.workspace, run.settings.corpus
    name = shlex.quote(str(run.cell).replace("/", "."))
    folder = shlex.quote(f"{workspace.label}/{corpus}" if workspace.own else corpus)
    lines = [f"TEXT=${{TEXT:-{shlex.quote(str(workspace.own))}}}"] if workspace.own else []
    lines += [
        f"SEED=${{SEED:-{run.seed}}} DATA=${{DATA:-data}}"
        + " POSITIONS=${POSITIONS:-1}" * without
        + " DEVICE=${DEVICE:---fp16} # DEVICE=--cpu: without a GPU",
        f"CORPUS=$DATA/{folder} SAVE=checkpoints/{name}.seed$SEED",
    ]
    if without:
        off = " ".join(flags(_NO_POSITIONS))
        lines += [f"positions=(); ((POSITIONS)) || {{ positions=({off}); SAVE+=.no_positions; }}"]
    if batches > 1:  # of an update
        fault = f'{{ echo "GPUS=$GPUS: use a divisor of {batches}" >&2; exit 1; }}'
        gpus = "GPUS=${GPUS:-${SLURM_GPUS_ON_NODE:-1}}"
        lines += [f"{gpus}; (({batches} % GPUS == 0)) || {fault}"]
    plugin = shlex.quote(str(workspace.user_dir)) if workspace.user_dir else _IMPORTED
    return [*lines, f"PLUGIN={plugin}"]


def prepare(run: Run) -> list[str]:
    """fairseq-hybrid prepare, of the recipe or of the user's text by it."""
    workspace, settings = run.workspace, run.settings
    of_text: dict[str, object] = {}
    if workspace.own is not None:
        of_text = {
            "text": "$TEXT",
            "source-lang": run.recipe.source,
            "target-lang": run.recipe.target,
        }
        of_text |= {"pairs": settings.pairs, "subword-size": settings.subword_size}
        if workspace.own.like:
            of_text = {"text": "$TEXT", "like": workspace.own.like}
    return [
        *("fairseq-hybrid", "prepare", *([] if "like" in of_text else [settings.corpus])),
        *flags(output="$CORPUS", downloads="$DATA"),
        *flags(of_text, alignments=settings.needs_alignments),
        *flags(configs=None if workspace.configs == CONFIGS else workspace.configs),
    ]


def shell(
    words: list[str],
    changed: Mapping[str, str] | None = None,
    more: Sequence[str] = (),
    start: str = "",
) -> str:
    """A command, a line or several, with variables in double quotes.

    ``changed`` has other values for some flags; ``start`` and ``more``, words, are shell as it is.
    """
    kept: list[str] = []
    flag, left_out = "", {f"--{name}" for name in _LEFT_OUT[words[0]].split()}
    for word in words:
        flag = word if word.startswith("--") else flag
        if flag not in left_out:
            kept.append(word if word == flag else (changed or {}).get(flag, word))
    lines = [start]
    pieces = [*by_flag(kept, _quoted), *more]
    for number, piece in enumerate(pieces, 1):
        if len(lines[-1]) + len(piece) > _WIDTH - 2 * (number < len(pieces)):
            lines.append("    ")
        lines[-1] += f"{piece} "
    return " \\\n".join(line.rstrip() for line in lines)


def _quoted(word: str) -> str:
    return f'"{word}"' if _REPLACED.fullmatch(word) else shlex.quote(word)
