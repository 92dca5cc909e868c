"""Markdown tables of result files."""

from __future__ import annotations

from fairseq_hybrid_attn.lab.files.tabular import Grid

from .common import NULL, TOOLKITS, VANILLA_BF16
from .systems import SYSTEMS

STOCK = {NULL: "*stock again*", VANILLA_BF16: "*stock in bfloat16*"}
CLOCKS = {"cpu": "processor time", "wall": "wall-clock time"}


def markdown(document: dict) -> str:
    """Write all tables of a result file, below a description of what was measured."""
    results = document["results"]
    parts = [_heading(document)]
    on_gpu = [r for r in results if r["benchmark"] == "gpu"]
    for measure in dict.fromkeys(one["measure"] for one in on_gpu):
        parts += _gpu(measure, [one for one in on_gpu if one["measure"] == measure])
    results = [one for one in results if one["benchmark"] != "gpu"]
    for measure, title in (("training step", "Training step"), ("generation", "Generation")):
        rows = [r for r in results if r["measure"] == measure]
        if rows:
            parts += _systems(title, rows)
    rows = [r for r in results if r["measure"] == "peak memory"]
    if rows:
        parts += _memory(rows)
    rows = [r for r in results if r["benchmark"] == "others"]
    if rows:
        parts += _others(rows)
    parts += [f"- FAILED: {fault}" for fault in document.get("faults", [])]
    if document.get("left_out"):
        parts.append(f"Not done: {'; '.join(document['left_out'])}.")
    return "\n\n".join(parts) + "\n"


def _heading(document: dict) -> str:
    machine, settings, versions = (document[k] for k in ("machine", "settings", "versions"))
    names = [name for name in ("torch", *TOOLKITS) if name in versions]
    software = ", ".join(f"{name} {versions[name]}" for name in names)
    device = ", ".join(machine["gpus"]) if settings["device"] == "cuda" else machine["processor"]
    loads = " and ".join(str(load) for load in document["load_average"])
    return (
        f"{device}, {machine['cores']} cores, {settings['threads']} thread, {settings['dtype']}, "
        f"{CLOCKS[settings['clock']]}, Python {versions['python']}, {software}; "
        f"{settings['rounds']} interleaved rounds; load of the machine {loads} before and after."
    )


def _systems(title: str, results: list[dict]) -> list[str]:
    speeds = any("sentences_a_second" in one for one in results)
    rows = []
    for one in results:
        way = "" if one["candidate"] in STOCK else one["candidate"]
        row = [_system(one), way, one["queries"], _spread(one["ratio"])]
        if speeds:
            ours, stock = one["sentences_a_second"], one["vanilla_sentences_a_second"]
            row.append(f"{ours:.1f} (stock {stock:.1f})")
        rows.append(row)
    extra = ["sentences a second"] if speeds else []
    unit = ", sentences a second" if speeds else ""
    text = f"{title}: time over that of fairseq's stock transformer, median (least–most){unit}"
    headings = ["system", "way", "length", "ratio", *extra]
    return [text, Grid(headings, rows, left=len(headings)).markdown()]


def _memory(results: list[dict]) -> list[str]:
    rows = [
        [
            _system(one),
            "" if one["candidate"] in STOCK else one["candidate"],
            one["queries"],
            f"{one['ratio']['median']:.2f}",
            f"{one['megabytes']:,.0f} MB (stock {one['vanilla_megabytes']:,.0f} MB)",
        ]
        for one in results
    ]
    text = "Training step: peak memory above the model, over that of fairseq's stock transformer"
    return [text, Grid(["system", "way", "length", "ratio", "peak"], rows, left=5).markdown()]


def _system(result: dict) -> str:
    return STOCK.get(result["candidate"], SYSTEMS[result["case"]][0])


def _others(results: list[dict]) -> list[str]:
    rows: dict[str, list] = {}
    for one in results:
        row = rows.setdefault(one["case"], [one["case"], f"{one['parameters']:,}"])
        row.append(_spread(one["ratio"]))
    columns = ["system", "parameters", "single precision", "bfloat16"]
    columns = columns[: max(map(len, rows.values()))]
    text = (
        "Training step: time over that of fairseq's stock transformer in single precision, "
        "median (least–most)"
    )
    return [text, Grid(columns, list(rows.values()), left=len(columns)).markdown()]


def _gpu(measure: str, results: list[dict]) -> list[str]:
    columns = list(dict.fromkeys(one["candidate"] for one in results))
    cells: dict[str, dict[str, tuple[str, str]]] = {}
    for one in results:
        ratio = f"{_spread(one['ratio'])}, {one['ms']:.1f} ms"
        memory = f"{one['megabytes']:,.0f} (stock {one['vanilla_megabytes']:,.0f})"
        cells.setdefault(one["case"], {})[one["candidate"]] = ratio, memory
    texts = (
        f"{measure.capitalize()}: time over that of fairseq's stock transformer, median "
        "(least–most)",
        f"{measure.capitalize()}: peak memory above the models, in MB",
    )
    parts = []
    for number, text in enumerate(texts):
        rows = [
            [case, *(by.get(c, ("", ""))[number] for c in columns)] for case, by in cells.items()
        ]
        parts += [text, Grid(["", *columns], rows, left=len(columns) + 1).markdown()]
    return parts


def _spread(ratio: dict) -> str:
    return f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})"
