"""Our own study of positions (configs/evidence): systems of several papers at one size."""

from rows import CELLS, EVERY_TABLE, FULL

from fairseq_hybrid_attn.lab.config.settings import Settings

#: The flags that a row is about.
PATTERNS = ("arch", "head-patterns", "encoder-branches", "decoder-branches", "branch-fusion")
WITHOUT = ("no-encoder-positions", "no-decoder-positions", "relative-positions")


def common(settings: Settings) -> dict:
    whole = settings.as_dict()
    named = (*PATTERNS, *WITHOUT, "no-token-positional-embeddings")
    named += ("local-window", "hybrid-fusion", "localness")
    train = {k: v for k, v in whole["train"].items() if k not in named}
    points = {k: v for k, v in whole["checkpoints"].items() if not k.startswith("curve")}
    # What is measured is not part of the budget.
    return {**whole, "train": train, "checkpoints": points, "gates": {}}


def test_all_runs_on_one_text_have_one_size_and_one_budget():
    for names in (
        ("positions", "hysan_table1", "fusions", "mma", "hybrid_gate", "sum"),
        ("tiny",),
        ("japanese",),
    ):
        cells = [c for name in names for c in EVERY_TABLE[f"evidence/{name}"].cells()]
        first, *others = (common(cell.settings(FULL)) for cell in cells if cell.owner is cell)
        assert len(others) > 6 and all(other == first for other in others), names


def test_rows_are_those_of_the_papers_tables():
    """Their systems and numbers; the size is ours."""
    for name, theirs, columns in (
        ("hysan_table1", "hysan/table1", {"positions": "bleu", "no_positions": "nopos"}),
        ("fusions", "hysan/table2a", {"positions": "bleu"}),
        ("mma", "mma/table4", {"positions": "de-en"}),
        ("mma", "mma/table5", {"positions": "de-en"}),
        ("hybrid_gate", "hybrid_gate/table1", {"positions": "bleu"}),
    ):
        ours = {(c.row.name, c.column.name): c for c in EVERY_TABLE[f"evidence/{name}"].cells()}
        for column, their_column in columns.items():
            for row in EVERY_TABLE[theirs].rows:
                mine = ours["mma" if row.name == "w1" else row.name, column]
                cell = CELLS[f"{theirs}/{row.name}/{their_column}"]
                assert mine.paper == cell.paper, mine.run_name
                if mine.owner is mine and row.name != "transformer":
                    one, other = (c.settings(FULL).train for c in (mine, cell))
                    keys = (*PATTERNS[1:], "local-window", "hybrid-fusion", "localness")
                    differing = [key for key in keys if one.get(key) != other.get(key)]
                    assert not differing, (mine.run_name, differing)
