"""A workspace of hand-made runs that the tests of this folder share."""

import pytest
from made_runs import REFERENCES, MadeWorkspace, worse

RUN = {"run": "bleu"}
WIDE = {**RUN, "score": "bleu"}
ROWS = {row: {"run": f"toy/table1/{row}"} for row in ("plain", "ours")}
TABLES = {
    "toy/table1.yaml": {
        "title": "Toy",
        "extends": "toy",
        "baseline": "plain",
        "columns": {"bleu": {}, "nopos": {"train": {"no-encoder-positions": True}}},
        "rows": {
            "plain": {"paper": {"bleu": 30.0, "nopos": 15.0}, "system": "Plain | p"},
            "ours": {"paper": {"bleu": 31.0, "nopos": None}},
        },
    },
    "toy/curves.yaml": {
        "title": "Toy curves",
        "columns": {
            "bleu": {},
            "bleu_curve": {**WIDE, "curve": True},
            "loss_curve": {**RUN, "curve": True, "score": "valid_loss"},
            "final_loss": {**RUN, "score": "valid_loss"},
        },
        "rows": ROWS,
    },
    "toy/lengths.yaml": {
        "title": "Toy lengths",
        "baseline": "plain",
        "columns": {
            "short": {**WIDE, "source-words": [0, 5]},
            "middle": {**WIDE, "source-words": [5, 9]},
            "long": {**WIDE, "source-words": [9, None]},
            "longer": {**WIDE, "source-words": [50, None]},
            "all": {**WIDE, "source-words": [0, None]},
        },
        "rows": ROWS,
    },
    "toy/gates.yaml": {
        "title": "Toy gates",
        "baseline": "plain",
        "transposed": True,
        "columns": {
            "bleu": {},
            "gate": {**RUN, "score": "gate"},
            "aer": {**RUN, "score": "aer"},
            "second": {**RUN, "score": "bleu.second"},
            "wrong": {**RUN, "score": "gate.encoder.9"},
            "tokenised": {**RUN, "score": "tokenised_bleu"},
        },
        "rows": {**ROWS, "head2": {**ROWS["plain"], "scores": {"aer": "aer.head2"}}},
    },
}
#: The share of words that are replaced in the translations of a cell.
SHARES = {"plain/bleu": 0.1, "plain/nopos": 0.5, "ours/bleu": 0.13, "ours/nopos": 0.15}


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Runs with two seeds of all cells; do not change it."""
    made = MadeWorkspace(tmp_path_factory.mktemp("made"), **TABLES)
    for name, share in SHARES.items():
        for seed in (1, 2):
            run = made.run(*name.split("/"), seed)
            points = []
            for at in (30, 60)[seed - 1 :]:
                loss = {"value": 9 - at / 10 - seed, "signature": "valid_loss"}
                scores = {"bleu": {"value": at + seed, "signature": "bleu"}, "valid_loss": loss}
                points.append({"updates": at, "scores": scores})
            facts = {"curve": points} if name == "plain/bleu" else {}
            gate = {"gate": {"value": seed / 4, "signature": "share"}}
            made.finish(run, worse(REFERENCES, share, f"{name}{seed}"), gate, **facts)
    return made


@pytest.fixture
def made(shared, tmp_path):
    """A copy of it, which may be changed."""
    return shared.copy(tmp_path / "made")
