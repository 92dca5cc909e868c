"""What commands write."""

import json
from pathlib import Path


def scores_in(path: Path | str) -> dict[str, dict]:
    """The scores in a .json of one system and seed, by their names."""
    ((scores,),) = json.loads(Path(path).read_text())["systems"].values()
    return scores
