"""The mean gates of a run, under the names by which tables ask for them.

gate                     hybrid gate: share of the local branch, over all layers that have it
gate.encoder.N           the same in layer N, counted from 1
gate.encoder.N.NOUN      the same over the words of a part of speech
gate.encoder.N.fw        HySAN: squeeze gate of a branch in layer N (or gate.decoder.N.fw)
"""

from __future__ import annotations

from pathlib import Path

from ..files.json_files import read_json
from ..inference.attentions import SHARE

GATE = "gate"


def read_gates(path: Path) -> dict[str, dict]:
    """Value and signature of each mean in what ``gates`` wrote with ``--json``, by name.

    Those of single heads have no place.  Without a file there are none.
    """
    report = read_json(path)
    if report is None:
        return {}
    (model,) = report["models"]
    found = {}
    if model["share"] is not None:
        positions = sum(row["positions"] for row in _of_all_heads(model["rows"]))
        found[GATE] = {"value": model["share"], "signature": f"{SHARE}|positions:{positions}"}
    for row in (*_of_all_heads(model["rows"]), *model["tag_rows"]):
        parts = [GATE, row["kind"], str(row["layer"])]
        if row["gate"] != SHARE:
            parts.append(row["branch"])
        how = f"{row['gate']}|branch:{row['branch']}"
        if "tag" in row:
            parts.append(row["tag"])
            how += f"|words:{row['words']}|tags:{report['tags']}"
        else:
            how += f"|positions:{row['positions']}"
        found[".".join(parts)] = {"value": row["mean"], "signature": how}
    return found


def _of_all_heads(rows: list[dict]) -> list[dict]:
    return [row for row in rows if row["head"] is None]
