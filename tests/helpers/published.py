"""The published tables, measured once."""

from functools import cache
from pathlib import Path

from fairseq_hybrid_attn.lab.config.paper_tables import Cell
from fairseq_hybrid_attn.lab.runs.plan import Plan
from fairseq_hybrid_attn.lab.tables.measuring import measure
from fairseq_hybrid_attn.lab.tables.numbers import TableNumbers
from fairseq_hybrid_attn.lab.tables.publish_command import listed

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@cache
def published_tables() -> list[tuple[Plan, TableNumbers]]:
    return [(plan, measure(plan)) for _, plan in listed(RESULTS, ROOT / "configs")]


def cell_folder(plan: Plan, cell: Cell) -> Path:
    """The folder of the runs of a cell, one for each seed."""
    return RESULTS / "runs" / plan.workspace.label / str(cell.run_name)
