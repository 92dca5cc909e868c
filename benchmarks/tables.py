"""Markdown tables of result files."""

from __future__ import annotations

from fairseq_hybrid_attn.lab.files.tabular import Grid

from .common import CHOSEN, NULL, VANILLA_BF16
from .operator import CASES
from .systems import SYSTEMS

STOCK = {NULL: "*stock again*", VANILLA_BF16: "*stock in bfloat16*"}
CLOCKS = {"cpu": "processor time", "wall": "wall-clock time"}


def markdown(document: dict) -> str:
    """Write all tables of a result file, below a description of what was measured."""
    parts = [_heading(document)]
    operators = [r for r in document["results"] if r["benchmark"] == "operator"]
    for measure in ("forward", "forward + backward", "peak memory"):
        rows = [r for r in operators if r["measure"] == measure]
        if rows:
            parts += _operator(measure, rows)
    return "\n\n".join(parts + of_systems(document["results"])) + "\n"


def of_systems(results: list[dict]) -> list[str]:
    """Write the tables of whole systems: texts and tables in turn."""
    parts = []
    for measure, title in (("training step", "Training step"), ("generation", "Generation")):
        rows = [r for r in results if r["measure"] == measure]
        if rows:
            parts += _systems(title, rows)
    rows = [r for r in results if r["benchmark"] == "step" and r["measure"] == "peak memory"]
    if rows:
        parts += _memory(rows)
    rows = [r for r in results if r["benchmark"] == "launches"]
    return parts + (_launches(rows) if rows else [])


def _heading(document: dict) -> str:
    machine, settings, versions = (document[k] for k in ("machine", "settings", "versions"))
    device = ", ".join(machine["gpus"]) if settings["device"] == "cuda" else machine["processor"]
    loads = " and ".join(str(load) for load in document["load_average"])
    return (
        f"{device}, {machine['cores']} cores, {settings['threads']} thread, {settings['dtype']}, "
        f"{CLOCKS[settings['clock']]}, Python {versions['python']}, torch {versions['torch']}; "
        f"{settings['rounds']} interleaved rounds; load of the machine {loads} before and after."
    )


def _operator(measure: str, results: list[dict]) -> list[str]:
    lengths = sorted({one["keys"] for one in results})
    rows: dict[tuple[str, str], dict[int, str]] = {}
    for one in results:
        if measure == "peak memory":
            cell = f"{one['megabytes']:.0f} MB, {one['ratio']['median']:.2f}"
        else:
            cell = _spread(one["ratio"])
        if one["candidate"] == CHOSEN:
            cell += f" {', '.join(one['paths'])}"
        rows.setdefault((one["case"], one["candidate"]), {})[one["keys"]] = cell
    cells = [
        [
            CASES[case].title if case in CASES else case,
            "*vanilla again*" if candidate == NULL else candidate,
            *(row.get(n, "–") for n in lengths),
        ]
        for (case, candidate), row in rows.items()
    ]
    headings = ["branches", "path", *(f"n = {n}" for n in lengths)]
    title = f"Operator, {measure}: ratio to `scaled_dot_product_attention`, median (least–most)"
    return [title, Grid(headings, cells, left=len(headings)).markdown()]


def _systems(title: str, results: list[dict]) -> list[str]:
    speeds = any("sentences_a_second" in one for one in results)
    rows = []
    for one in results:
        path = one["candidate"]
        if path in STOCK:
            path = ""
        elif path == CHOSEN:
            path += f": {', '.join(one['paths'])}"
        row = [_system(one), path, one["queries"], _spread(one["ratio"])]
        if speeds:
            ours, stock = one["sentences_a_second"], one["vanilla_sentences_a_second"]
            row.append(f"{ours:.1f} (stock {stock:.1f})")
        rows.append(row)
    extra = ["sentences a second"] if speeds else []
    unit = ", sentences a second" if speeds else ""
    text = f"{title}: time over that of fairseq's stock transformer, median (least–most){unit}"
    headings = ["system", "path", "length", "ratio", *extra]
    return [text, Grid(headings, rows, left=len(headings)).markdown()]


def _memory(results: list[dict]) -> list[str]:
    rows = [
        [
            _system(one),
            one["queries"],
            f"{one['ratio']['median']:.2f}",
            f"{one['megabytes']:,.0f} MB (stock {one['vanilla_megabytes']:,.0f} MB)",
        ]
        for one in results
    ]
    text = "Training step: peak memory above the model, over that of fairseq's stock transformer"
    return [text, Grid(["system", "length", "ratio", "peak"], rows, left=4).markdown()]


def _system(result: dict) -> str:
    return STOCK.get(result["candidate"], SYSTEMS[result["case"]][0])


def _launches(results: list[dict]) -> list[str]:
    rows = [
        [
            SYSTEMS[one["case"]][0],
            ", ".join(one["paths"]),
            one["queries"],
            f"{one['ratio']['median']:.3f}",
            f"{one['launches']} (stock {one['vanilla_launches']})",
            f"{one['waits']} (stock {one['vanilla_waits']})",
        ]
        for one in results
    ]
    headings = ["system", "path", "length", "ratio", "launches", "the host waits"]
    text = "Training step: launches on a GPU over those of fairseq's stock transformer"
    return [text, Grid(headings, rows, left=len(headings)).markdown()]


def _spread(ratio: dict) -> str:
    return f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})"
