"""The table of our own: systems of several papers at one size, on text held out honestly."""

from pathlib import Path

import pytest
from cli import run_forked
from rows import EVERY_TABLE, FULL, build, flags

from fairseq_hybrid_attn.errors import Faults
from fairseq_hybrid_attn.lab.configuration.settings import Settings
from fairseq_hybrid_attn.patterns import GLOBAL, HYSAN_DECODER, HYSAN_ENCODER, PAST, parse_patterns

SCRIPT = Path(__file__).parents[3] / "scripts/examples/held_out_text.py"
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


@pytest.mark.parametrize("row", [row.name for row in POSITIONS.rows])
def test_systems_are_those_of_the_papers(row):
    """Their patterns, as the papers' tables have them."""
    tables = {
        "transformer": ("mma/table2/transformer", "head-patterns"),
        "transformer_mma": ("mma/table2/transformer_mma", "head-patterns"),
        "hysan_e1": ("hysan/table1/e1", "encoder-branches decoder-branches"),
        "hybrid_gate": ("hybrid_gate/table1/hybrid_gate", "hybrid-layers local-window"),
    }
    name, keys = tables[row]
    table, _, theirs = name.rpartition("/")
    (cell, *_) = [c for c in EVERY_TABLE[table].cells() if c.row.name == theirs]
    theirs = cell.settings(FULL).train
    ours = RUNS[row, "positions"].train
    assert {key: ours.get(key) for key in keys.split()} == {
        key: theirs.get(key) for key in keys.split()
    }


@pytest.mark.parametrize("run", RUNS, ids="-".join)
def test_models_can_be_built(run):
    model = build(flags(RUNS[run]))
    count = sum(parameter.numel() for parameter in model.parameters())
    plain = sum(p.numel() for p in build(flags(RUNS["transformer", run[1]])).parameters())
    extra = {
        "transformer": 0,
        "transformer_mma": 0,
        "hysan_e1": 6 * 2 * 128 * 8,
        "hybrid_gate": 256,
    }
    assert count - plain == extra[run[0]]


def test_reported_numbers_are_those_of_the_papers_tables():
    theirs = {
        "positions": "hysan/table1",
        "no_positions": "hysan/table1",
        "positions_mma": "mma/table2",
        "no_encoder_positions": "mma/table3",
        "positions_hybrid": "hybrid_gate/table1",
    }
    names = {
        "hysan/table1": {"transformer": "base", "hysan_e1": "e1"},
        "mma/table2": {"transformer": "transformer", "transformer_mma": "transformer_mma"},
        "mma/table3": {
            "transformer": "transformer_nopos",
            "transformer_mma": "transformer_mma_nopos",
        },
        "hybrid_gate/table1": {"transformer": "transformer", "hybrid_gate": "hybrid_gate"},
    }
    columns = {"positions": "bleu", "no_positions": "nopos", "positions_hybrid": "bleu"}
    count = 0
    for row in POSITIONS.rows:
        for column, number in row.paper.items():
            if number is not None:
                count += 1
                table = theirs[column]
                reported = EVERY_TABLE[table].row(names[table][row.name]).paper
                assert number == reported[columns.get(column, "de-en")]
    assert count == 10


# --- the text ---------------------------------------------------------------------------------


def put_together(folder, *flags, expect=0):
    done = run_forked(SCRIPT, ("out", "--languages", "de", "en", *flags), folder)
    assert done.returncode == expect, done.stderr
    assert "Traceback" not in done.stderr
    return done


def write(folder, name, pairs):
    for side, language in enumerate(("de", "en")):
        (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs))


def read(folder, part):
    sides = [(folder / f"out/{part}.{side}").read_text().splitlines() for side in ("de", "en")]
    return list(zip(*sides, strict=True))


def test_what_is_held_out_is_nowhere_else(tmp_path):
    """English sentences with several translations; one of running text is in the other."""
    single = [(f"Satz {n} {how}", f"Sentence {n}.") for n in range(40) for how in ("so", "anders")]
    running = [(f"Rede {n}", f"Speech {n}.") for n in range(30)]
    running[3] = ("SATZ 7, so!", "Something else")
    write(tmp_path, "single", single)
    write(tmp_path, "running", running)
    flags = ["--sentences", "tatoeba=single", "--running", "europarl=running", "--held-out", "5"]
    done = put_together(tmp_path, *flags)
    test, valid = read(tmp_path, "test.tatoeba"), read(tmp_path, "valid")
    assert len(test) == 5 and len(valid) == 10
    assert read(tmp_path, "test.europarl") == running[-5:]
    assert valid[5:] == running[-10:-5]
    english = {pair[1] for pair in test + valid[:5]}
    assert len(english) == 10 and all(pair[0].endswith("so") for pair in test + valid[:5])
    train = read(tmp_path, "train")
    assert not english & {pair[1] for pair in train}
    held_out_seven = "Sentence 7." in english
    expected = [pair for pair in single if pair[1] not in english] + [
        pair for n, pair in enumerate(running[:20]) if not (n == 3 and held_out_seven)
    ]
    assert train == expected
    assert f"; {int(held_out_seven)} left out of train" in done.stdout
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    put_together(tmp_path, *flags)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}


def test_a_side_that_is_held_out_is_left_out_of_train(tmp_path):
    write(
        tmp_path, "text", [("eins", "one"), ("Zwei!", "deux"), ("drei", "three"), ("zwei", "two")]
    )
    done = put_together(tmp_path, "--running", "x=text", "--held-out", "1")
    assert read(tmp_path, "train") == [("eins", "one")]
    assert "; 1 left out of train" in done.stdout


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--running", "x=absent"], "there is no absent.de and no absent.de.gz"),
        (["--running", "x=text", "--held-out", "2"], "of 3 pairs none is left"),
        (["--running", "text"], "use NAME=PREFIX"),
        ([], "name one text or more"),
        (["--running", "x=text", "--sentences", "x=text"], "each otherwise"),
        (["--running", "x=text", "--held-out", "0"], "use 1 or more"),
    ],
)
def test_mistakes_are_told(tmp_path, flags, message):
    write(tmp_path, "text", [("eins", "one"), ("zwei", "two"), ("drei", "three")])
    status = 1 if message.startswith(("there", "of 3")) else 2
    assert message in put_together(tmp_path, *flags, expect=status).stderr
    assert not (tmp_path / "out").exists()
