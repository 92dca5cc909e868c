"""Our own study of positions (configs/evidence): systems of several papers at one size."""

from rows import CELLS, EVERY_TABLE, FULL

from fairseq_hybrid_attn.errors import Faults
from fairseq_hybrid_attn.lab.config.settings import Settings
from fairseq_hybrid_attn.patterns import GLOBAL, PAST
from fairseq_hybrid_attn.words import HYSAN_DECODER, HYSAN_ENCODER, parse_patterns

POSITIONS = EVERY_TABLE["evidence/positions"]
RUNS = {
    (cell.row.name, cell.column.name): cell.settings(FULL)
    for cell in POSITIONS.cells()
    if cell.owner is cell
}
#: The flags that a row is about.
PATTERNS = ("arch", "head-patterns", "encoder-branches", "decoder-branches", "branch-fusion")
WITHOUT = ("no-encoder-positions", "no-decoder-positions")


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
        ("europarl",),
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


def test_the_sum_without_patterns_is_that_of_e1():
    """Its settings are those of e1, except that no branch hides what another one shows."""
    cells = EVERY_TABLE["evidence/sum"].cells()
    (ours,) = [cell.settings(FULL) for cell in cells if cell.owner is cell]
    e1, faults, n = RUNS["hysan_e1", "positions"], Faults("settings"), 1000
    assert common(ours) == common(e1)
    for flag, vocabulary, everything in [
        ("encoder-branches", HYSAN_ENCODER, GLOBAL),
        ("decoder-branches", HYSAN_DECODER, PAST),
    ]:
        mine, theirs = (
            parse_patterns(flag, one.train[flag], vocabulary, faults) for one in (ours, e1)
        )
        assert len(mine) == len(theirs)
        assert all(pattern.mask(n, n).equal(everything.mask(n, n)) for pattern in mine)
    faults.raise_if_any()


def test_columns_are_about_positions_alone_and_systems_are_those_of_the_papers():
    on = {"positions": WITHOUT, "no_positions": (), "no_encoder_positions": WITHOUT[1:]}
    for (_, column), settings in RUNS.items():
        assert {flag for flag in WITHOUT if not settings.train.get(flag)} == set(on[column])
    for row, cell, keys in [
        ("transformer", "mma/table2/transformer/de-en", "head-patterns"),
        ("transformer_mma", "mma/table2/transformer_mma/de-en", "head-patterns"),
        ("hysan_e1", "hysan/table1/e1/bleu", "encoder-branches decoder-branches"),
        ("hybrid_gate", "hybrid_gate/table1/hybrid_gate/bleu", "hybrid-layers local-window"),
    ]:
        theirs, ours = CELLS[cell].settings(FULL).train, RUNS[row, "positions"].train
        assert all(ours.get(key) == theirs.get(key) for key in keys.split()), row


def test_reported_numbers_are_those_of_the_papers_tables():
    ours = {
        f"{row.name}/{column}": number
        for row in POSITIONS.rows
        for column, number in row.paper.items()
        if number is not None
    }
    theirs = {
        "transformer/positions": "hysan/table1/base/bleu",
        "hysan_e1/positions": "hysan/table1/e1/bleu",
        "transformer/no_positions": "hysan/table1/base/nopos",
        "hysan_e1/no_positions": "hysan/table1/e1/nopos",
        "transformer/positions_mma": "mma/table2/transformer/de-en",
        "transformer_mma/positions_mma": "mma/table2/transformer_mma/de-en",
        "transformer/no_encoder_positions": "mma/table3/transformer_nopos/de-en",
        "transformer_mma/no_encoder_positions": "mma/table3/transformer_mma_nopos/de-en",
    }
    assert ours == {name: CELLS[cell].paper for name, cell in theirs.items()}
