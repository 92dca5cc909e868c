"""A run as a shell script that a reader can follow, change and put on a cluster.

Its steps are the commands of ``reproduce``, with variables for folders, seed and devices.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ...errors import UserError
from ..config.paper_tables import Row, Table, load_table
from ..files.yaml_files import CONFIGS
from .devices import Devices
from .fairseq_commands import GENERATE_TOKENS, RunCommands, RunFolder, flags
from .status import BF16_CRITERIA
from .workspace import Run

#: Authors, year and title of each paper, and the hardware that it names, if any.
PAPERS = {
    "hysan": "Song et al. 2018, Hybrid Self-Attention Network for Machine Translation (small "
    "models: 1 GPU, others: 8)",
    "hybrid_gate": "Xu et al. 2019, Leveraging Local and Global Patterns for Self-Attention "
    "Networks",
    "mma": "Cui et al. 2019, Mixed Multi-Head Self-Attention for Neural Machine Translation",
    "alignment": "Ma & Zhao 2020, Research on the fundamental principle of the attention module in "
    "sequence-to-sequence model",
}
#: Flags of fairseq-train whose value is a variable; None: not in the script.
TRAIN = {
    "--seed": "$SEED",
    "--max-tokens": "$MAX_TOKENS",
    "--update-freq": "$FREQ",
    "--distributed-world-size": "$GPUS",
    "--tensorboard-logdir": None,
    "--log-format": None,
    "--log-interval": None,
}
#: A word of a command that the shell replaces.
_REPLACED = re.compile(
    r"\$(CORPUS|SAVE|TEXT|DOWNLOADS|PLUGIN|SEED|GPUS|MAX_TOKENS|FREQ)(/[\w./-]+)?"
    r"|\$\(\(CPU [?:\d ]+\)\)"
)
_WIDTH = 120

_SCRIPT = r"""#!/usr/bin/env bash
{about}
set -euo pipefail
{variables}

stop() {{ printf '%s\n' "$*" >&2 && exit 1; }}
trap 'kill $(jobs -p) 2>/dev/null || :; wait; stop "Stopped; run again, it goes on."' INT TERM
command -v fairseq-hybrid >/dev/null || stop "activate the environment that has fairseq_hybrid_attn (docs/install.md)"
[[ "$GPUS $FP16 $CPU" =~ ^[1-9][0-9]{{0,3}}(\ [01]){{2}}$ ]] || stop "GPUS=$GPUS: use a number; FP16=$FP16 CPU=$CPU: 0 or 1"
((GPUS == 1 || CPU == 0)) || stop "GPUS=$GPUS CPU=1: on the CPU it is one process; leave GPUS out"
((CPU)) || python -c "import torch; exit(torch.cuda.device_count() < $GPUS)" || stop "GPUS=$GPUS: too many; use CPU=1"
PLUGIN={plugin}
FREQ=$(((TOKENS + GPUS * AT_ONCE - 1) / (GPUS * AT_ONCE))) # an update has GPUS x FREQ x MAX_TOKENS
MAX_TOKENS=$((TOKENS / (GPUS * FREQ)))
launch=() device=() half=--fp16 newest=""
((GPUS == 1)) || launch=(torchrun --standalone --nproc-per-node "$GPUS" --no-python)
((CPU == 0)) || export CUDA_VISIBLE_DEVICES="" {half}
((FP16 == 0)) || device=("$half")
mkdir -p "$SAVE/checkpoints"
exec 9>"$SAVE/lock"; flock --nonblock 9 || stop "$SAVE: a script is at work there"
{prepare}
{train}
[[ -e $SAVE/trained || -n $(ls "$SAVE/checkpoints") ]] || echo "$*" >"$SAVE/begun"
[[ $(<"$SAVE/begun") == "$*" ]] || stop "SAVE=$SAVE was begun otherwise; use another SAVE, or remove it"
if [[ ! -e $SAVE/trained ]]; then
    for file in "$SAVE"/checkpoints/checkpoint*.pt; do # copy the newest again, if a kill cut off a copy of it
        python -m zipfile -l "$file" >/dev/null 2>&1 || [[ ! -e $file ]] || cp "$newest" "$file"
        [[ $file -ot $newest ]] || newest=$file
    done
    "$@" & wait "$!"
    touch "$SAVE/trained"
fi
{average}
{generate}
[[ -e $SAVE/translation ]] || mv "$SAVE/translation.part" "$SAVE/translation"
{measure}
"""  # noqa: E501


def script(run: Run, made_by: list[str]) -> str:
    """The script of a run, for any seed and number of devices; ``made_by``: its command line.

    Raises:
        UserError: the run trains no model.
    """
    settings = run.settings
    if settings.aligner:
        raise UserError(f"{run.name} trains no model, so it has no script; use show without it")
    # The checkpoints of its curve, which "reproduce" alone measures, are left out.
    plain = replace(settings, checkpoints=replace(settings.checkpoints, curve=0))
    corpus = replace(run.prepared_corpus, folder=Path("$CORPUS"))
    gpu = Devices("cuda", precision="fp32")  # the script adds flags for others
    commands = RunCommands(plain, corpus, RunFolder(Path("$SAVE")), gpu, Path("$PLUGIN"))
    bfloat16 = settings.train.get("criterion") in BF16_CRITERIA
    own_code = run.workspace.user_dir
    imported = "$(python -c 'import fairseq_hybrid_attn as plugin; print(plugin.__path__[0])')"
    tokens = {"--max-tokens": "$((CPU ? {cpu} : {cuda}))".format(**GENERATE_TOKENS)}
    measure = [shell(commands.score())]
    if run.measures_alignment:
        only = {**tokens, "--by-sentence": None, "--table": None}  # the row's layer and head
        only |= {} if own_code else {"--user-dir": None}
        measure.insert(0, shell(commands.align(), only, start="[[ -e $SAVE/alignment.json ]] || "))
    whole = "aligned" if settings.needs_alignments else "manifest.json"  # what is made last
    return _SCRIPT.format(
        about=about(run, made_by),
        variables=variables(run),
        half="half=--autocast-bf16" if bfloat16 else "FP16=0",
        plugin=shlex.quote(str(own_code)) if own_code else imported,
        prepare=shell(prepare(run), start=f"[[ -e $CORPUS/{whole} ]] || "),
        train=shell(
            [*commands.train(run.seed), "--load-checkpoint-on-all-dp-ranks"],
            TRAIN,
            ('"${device[@]}"', '"$@"'),
            start='set -- "${launch[@]}" ',  # then "$@" is the command
        ),
        average=shell(commands.average(), start="[[ -e $SAVE/model.pt ]] || "),
        generate=shell(
            commands.generate(Path("$SAVE/translation.part")),
            tokens,
            start="[[ -e $SAVE/translation ]] || ",
        ),
        measure="\n".join(measure),
    )


def about(run: Run, made_by: list[str]) -> str:
    """The comment at the top: what the run shows, and the paper's scores."""
    table_name, row_name, column_name = run.cell.rsplit("/", 2)
    table = load_table(table_name, run.workspace.configs)
    row = table.row(row_name)
    baseline = table.baseline_cell(table.column(column_name))
    reported = reported_scores(table, row, column_name)
    if not reported and baseline is not None:
        scores = reported_scores(table, baseline.row, column_name)
        reported = [f"{score} of {baseline.row.system}" for score in scores[:1]]
    arch = str(run.settings.train.get("arch"))
    by_arch = (paper for name, paper in PAPERS.items() if name in arch)
    lines = [
        PAPERS.get(table_name.partition("/")[0]) or next(by_arch, ""),
        f"{table.title}: {row.system or row.name}. Reported: {', '.join(reported) or 'no score'}.",
        f"Made by: {shlex.join(made_by)}.",
    ]
    wrap = textwrap.TextWrapper(_WIDTH, initial_indent="# ", subsequent_indent="#   ")
    wrap.break_on_hyphens = False  # a command can be copied
    return "\n".join(wrap.fill(line) for line in filter(None, lines))


def reported_scores(table: Table, row: Row, run: str) -> list[str]:
    """The paper's scores of a row, in the columns of a run."""
    return [
        f"{column.title} {row.paper[column.name]:g} ({column.score})"
        for column in table.columns
        if column.run == run and row.paper.get(column.name) is not None
    ]


def variables(run: Run) -> str:
    """What a reader sets, with defaults; no path but that of the user's own text."""
    place, corpus, batch = run.workspace, run.settings.corpus, run.settings.batch
    folder = f"{place.label}/{corpus}" if place.own else corpus
    row = run.cell.replace("/", ".")
    text = f"TEXT=${{TEXT:-{shlex.quote(str(place.own.folder))}}}\n" if place.own else ""
    return (
        f"{text}GPUS=${{GPUS:-1}} SEED=${{SEED:-{run.seed}}} FP16=${{FP16:-1}} CPU=${{CPU:-0}} "
        "# CPU=1: without a GPU; flags go to fairseq-train\n"
        "DATA=${DATA:-data} DOWNLOADS=${DOWNLOADS:-$DATA/downloads} "
        f"CORPUS=${{CORPUS:-$DATA/{shlex.quote(folder)}}}\n"
        f"SAVE=${{SAVE:-models/{row}.seed$SEED}} # run again, it goes on there\n"
        f"TOKENS={batch.tokens} AT_ONCE={batch.per_device} # of an update; at most at once on a GPU"
    )


def prepare(run: Run) -> list[str]:
    """fairseq-hybrid prepare, of the recipe or of the user's text by it."""
    place, settings = run.workspace, run.settings
    own: dict[str, object] = {}
    if place.own is not None:
        own = {"own": "$TEXT", "source-lang": run.recipe.source, "target-lang": run.recipe.target}
        own |= {"pairs": settings.pairs, "subword-size": settings.subword_size}
    return [
        *("fairseq-hybrid", "prepare", settings.corpus),
        *flags(output="$CORPUS", downloads="$DOWNLOADS", alignments=settings.needs_alignments),
        *flags(own, configs=None if place.configs == CONFIGS else place.configs),
    ]


def shell(
    words: list[str],
    changed: Mapping[str, str | None] | None = None,
    more: tuple[str, ...] = (),
    start: str = "",
) -> str:
    """A command, a line or several, with variables in double quotes.

    ``changed`` has other values for some flags, None to leave them out; ``start`` and ``more``,
    words, are shell as it is.
    """
    pieces: list[str] = []
    left_out = False
    for flag, word in zip([words[0], *words], words, strict=False):  # with the word before it
        if word.startswith("--"):
            left_out = (changed or {}).get(word, word) is None
        if left_out:
            continue
        value = (changed or {}).get(flag) or word
        value = f'"{value}"' if _REPLACED.fullmatch(value) else shlex.quote(value)
        if pieces and not word.startswith("--"):
            pieces[-1] += f" {value}"
        else:
            pieces.append(value)
    indent = " " * (len(start) - len(start.lstrip()) + 4)
    lines = [start]
    words = [*pieces, *more]
    for number, piece in enumerate(words, 1):
        if len(lines[-1]) + len(piece) > _WIDTH - 2 * (number < len(words)):
            lines.append(indent)
        lines[-1] += piece + " "
    return " \\\n".join(line.rstrip() for line in lines)
