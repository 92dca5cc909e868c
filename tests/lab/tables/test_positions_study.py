"""Our own study of positions (configs/evidence): systems of several papers at one size."""

from rows import EVERY_TABLE, FULL, build, flags

from fairseq_hybrid_attn.errors import Faults
from fairseq_hybrid_attn.lab.configuration.settings import Settings
from fairseq_hybrid_attn.patterns import GLOBAL, HYSAN_DECODER, HYSAN_ENCODER, PAST, parse_patterns

POSITIONS = EVERY_TABLE["evidence/positions"]
RUNS = {
    (cell.row.name, cell.column.name): cell.settings(FULL)
    for cell in POSITIONS.cells()
    if cell.owner is cell
}
#: What a row is about.
PATTERNS = ("arch", "head-patterns", "encoder-branches", "decoder-branches", "branch-fusion")
WITHOUT = ("no-encoder-positions", "no-decoder-positions")


def common(settings: Settings) -> dict:
    whole = settings.as_dict()
    train = {k: v for k, v in whole["train"].items() if k not in (*PATTERNS, *WITHOUT)}
    return {**whole, "train": train, "gates": {}}  # what is measured is no budget


def test_all_runs_have_one_size_and_one_budget():
    assert len(RUNS) == 4 * 3
    first, *others = map(common, RUNS.values())
    assert all(other == first for other in others)


def patterns(settings, flag, vocabulary):
    faults = Faults("settings")
    found = parse_patterns(flag, settings.train[flag], vocabulary, faults)
    faults.raise_if_any()
    return found


def test_more_updates_are_all_that_evidence_longer_changes():
    updates = {"max-update": 15000, "total-num-update": 15000}
    for cell in EVERY_TABLE["evidence/longer"].cells():
        longer, short = cell.settings(FULL).as_dict(), RUNS[cell.row.name, cell.column.name]
        assert longer["train"] == {**short.train, **updates}
        assert {**longer, "train": None} == {**short.as_dict(), "train": None}


def test_the_sum_without_patterns_is_that_of_e1():
    """Its settings but for the branches, of which none hides what another shows."""
    cells = EVERY_TABLE["evidence/sum"].cells()
    (ours,) = [cell.settings(FULL) for cell in cells if cell.owner is cell]
    e1, words = RUNS["hysan_e1", "positions"], ("encoder-branches", "decoder-branches")
    assert common(ours) == common(e1)
    n = 1000
    for flag, vocabulary in zip(words, (HYSAN_ENCODER, HYSAN_DECODER), strict=True):
        mine, theirs = (patterns(one, flag, vocabulary) for one in (ours, e1))
        assert len(mine) == len(theirs)
        everything = {"encoder-branches": GLOBAL, "decoder-branches": PAST}[flag].mask(n, n)
        assert all(pattern.mask(n, n).equal(everything) for pattern in mine)


def test_columns_are_about_positions_alone():
    off = {
        "positions": set(),
        "no_positions": set(WITHOUT),
        "no_encoder_positions": {"no-encoder-positions"},
    }
    for (_, column), settings in RUNS.items():
        assert {flag for flag in WITHOUT if settings.train.get(flag)} == off[column]


def test_systems_are_those_of_the_papers():
    """Their patterns, as the papers' tables have them."""
    for row, name, keys in [
        ("transformer", "mma/table2/transformer", "head-patterns"),
        ("transformer_mma", "mma/table2/transformer_mma", "head-patterns"),
        ("hysan_e1", "hysan/table1/e1", "encoder-branches decoder-branches"),
        ("hybrid_gate", "hybrid_gate/table1/hybrid_gate", "hybrid-layers local-window"),
    ]:
        table, _, theirs = name.rpartition("/")
        (cell, *_) = [c for c in EVERY_TABLE[table].cells() if c.row.name == theirs]
        theirs, ours = cell.settings(FULL).train, RUNS[row, "positions"].train
        for key in keys.split():
            assert ours.get(key) == theirs.get(key), (row, key)


def test_models_have_the_parameters_of_their_patterns_alone():
    extra = {"transformer": 0, "transformer_mma": 0, "hysan_e1": 6 * 2 * 128 * 8}
    extra["hybrid_gate"] = 256
    counts = {
        run: sum(parameter.numel() for parameter in build(flags(settings)).parameters())
        for run, settings in RUNS.items()
    }
    for (row, column), count in counts.items():
        assert count - counts["transformer", column] == extra[row], (row, column)


def test_reported_numbers_are_those_of_the_papers_tables():
    hysan, hybrid = {"transformer": "base", "hysan_e1": "e1"}, ["transformer", "hybrid_gate"]
    mma = ["transformer", "transformer_mma"]
    theirs = {
        "positions": ("hysan/table1", "bleu", hysan),
        "no_positions": ("hysan/table1", "nopos", hysan),
        "positions_mma": ("mma/table2", "de-en", dict(zip(mma, mma, strict=True))),
        "no_encoder_positions": ("mma/table3", "de-en", {row: f"{row}_nopos" for row in mma}),
        "positions_hybrid": ("hybrid_gate/table1", "bleu", dict(zip(hybrid, hybrid, strict=True))),
    }
    count = 0
    for row in POSITIONS.rows:
        for column, number in row.paper.items():
            if number is not None:
                count += 1
                table, their_column, rows = theirs[column]
                assert number == EVERY_TABLE[table].row(rows[row.name]).paper[their_column]
    assert count == 10
