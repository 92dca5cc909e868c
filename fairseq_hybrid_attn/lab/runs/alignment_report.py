"""The alignment error rates of a run, under the names by which tables ask for them.

aer          of the layer and head of the settings
aer.headN    of head N of that layer, counted from 1
aer.average  of the mean over the heads of that layer

A statistical aligner has the first alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..alignment.error_rate import Counts
from ..files.json_files import read_json

AER = "aer"


@dataclass(frozen=True)
class Rate:
    """An error rate.

    Attributes:
        value: in per cent.
        signature: how it was computed.
        sentences: the counts of each, if they were kept.
    """

    value: float
    signature: str
    sentences: list[Counts] | None


def read_rates(path: Path) -> dict[str, Rate]:
    """The error rates in what ``align`` or ``aer`` wrote with ``--json``, by name.

    Rates that are undefined have no place.  Without a file there are none.
    """
    report = read_json(path)
    if report is None:
        return {}
    return {
        name: Rate(entry["aer"], signature(report, entry, how), counts_of(entry))
        for name, how, entry in entries(report)
        if entry["aer"] is not None
    }


def entries(report: dict) -> Iterator[tuple[str, dict, dict]]:
    """Name, settings and counts of each rate that has a name."""
    if "alignments" in report:
        (entry,) = report["alignments"].values()
        yield AER, {}, entry
        return
    how = {"end": report["end_symbol"], "step": report["step"]}
    yield AER, {"layer": report["layer"], "head": report["head"], **how}, report
    for entry in report["table"]:
        if entry["layer"] == report["selected_layer"]:
            head = entry["head"]
            name = f"{AER}.{head if isinstance(head, str) else f'head{head}'}"
            yield name, {"layer": report["layer"], "head": head, **how}, entry


def signature(report: dict, entry: dict, how: dict) -> str:
    """How a rate was computed, in sacrebleu's notation."""
    parts = {
        **how,
        "sentences": report["sentences"],
        "sure": entry["sure"],
        "possible": entry["possible"],
    }
    return "|".join(f"{key}:{value}" for key, value in parts.items())


def counts_of(entry: dict) -> list[Counts] | None:
    """The counts of each sentence, in either command's form."""
    if "by_sentence" in entry:
        return [Counts(*one) for one in entry["by_sentence"]]
    if isinstance(entry.get("sentences"), list):
        names = ("links", "sure", "possible", "sure_found", "possible_found")
        return [Counts(*(one[name] for name in names)) for one in entry["sentences"]]
    return None
