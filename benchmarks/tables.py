"""Markdown tables out of result files."""

from __future__ import annotations

from . import models, operator
from .common import CHOSEN, NULL

CLOCKS = {"cpu": "processor time", "wall": "time that passes"}


def markdown(document: dict) -> str:
    """All tables of a result file, with what they were measured on before them."""
    parts = [_heading(document)]
    for measure in ("forward", "forward + backward", "peak memory"):
        rows = [r for r in document["results"] if r["measure"] == measure]
        if rows:
            parts.append(_operator(measure, rows))
    for benchmark, title in (("step", "Training step"), ("generation", "Generation")):
        rows = [r for r in document["results"] if r["benchmark"] == benchmark]
        if rows:
            parts.append(_systems(title, rows))
    return "\n\n".join(parts) + "\n"


def _heading(document: dict) -> str:
    machine, settings, versions = (document[k] for k in ("machine", "settings", "versions"))
    device = ", ".join(machine["gpus"]) if settings["device"] == "cuda" else machine["processor"]
    loads = " and ".join(str(load) for load in document["load_average"])
    return (
        f"{device}, {machine['cores']} cores, {settings['threads']} thread, {settings['dtype']}, "
        f"{CLOCKS[settings['clock']]}, Python {versions['python']}, torch {versions['torch']}; "
        f"{settings['rounds']} interleaved rounds; load of the machine {loads} before and after."
    )


def _operator(measure: str, rows: list[dict]) -> str:
    lengths = sorted({row["keys"] for row in rows})
    lines = [
        f"Operator, {measure}: ratio to `scaled_dot_product_attention`, median (least–most)",
        "",
        "| branches | path | " + " | ".join(f"n = {n}" for n in lengths) + " |",
        "|---|---|" + "---|" * len(lengths),
    ]
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == case]
        for candidate in dict.fromkeys(row["candidate"] for row in mine):
            cells = []
            for n in lengths:
                found = [r for r in mine if (r["candidate"], r["keys"]) == (candidate, n)]
                cells.append(_cell(found[0], candidate) if found else "–")
            title = operator.TITLES.get(case, case)
            lines.append(f"| {title} | {_path(candidate)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _path(candidate: str) -> str:
    return "*vanilla again*" if candidate == NULL else candidate


def _cell(row: dict, candidate: str) -> str:
    if row["measure"] == "peak memory":
        text = f"{row['megabytes']:.0f} MB, {row['ratio']['median']:.2f}"
    else:
        text = _spread(row["ratio"])
    return f"{text} {', '.join(row['paths'])}" if candidate == CHOSEN else text


def _spread(ratio: dict) -> str:
    return f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})"


def _systems(title: str, rows: list[dict]) -> str:
    speeds = any("sentences_a_second" in row for row in rows)
    unit = ", sentences a second" if speeds else ""
    lines = [
        f"{title}: time over that of fairseq's stock transformer, median (least–most){unit}",
        "",
        "| system | path | length | ratio |" + (" sentences a second |" if speeds else ""),
        "|---|---|---|---|" + ("---|" if speeds else ""),
    ]
    for row in rows:
        system = "*stock again*" if row["candidate"] == NULL else models.TITLES[row["case"]]
        path = "" if row["candidate"] == NULL else row["candidate"]
        if row["candidate"] == CHOSEN:
            path += f": {', '.join(row['paths'])}"
        line = f"| {system} | {path} | {row['queries']} | {_spread(row['ratio'])} |"
        if speeds:
            ours, stock = row["sentences_a_second"], row["vanilla_sentences_a_second"]
            line += f" {ours:.1f} (stock {stock:.1f}) |"
        lines.append(line)
    return "\n".join(lines)
