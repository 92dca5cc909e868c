"""The text of our own study: held-out sentences are nowhere in the training text."""

from pathlib import Path

from cli import run_forked

SCRIPT = Path(__file__).parents[2] / "scripts/examples/held_out_text.py"


def put_together(folder, *flags, expect=0):
    done = run_forked(SCRIPT, ("out", "--languages", "de", "en", *flags), folder)
    assert done.returncode == expect, done.stderr
    return done


def write(folder, name, pairs):
    for side, language in enumerate(("de", "en")):
        (folder / f"{name}.{language}").write_text("".join(f"{pair[side]}\n" for pair in pairs))


def read(folder, part):
    sides = [(folder / f"out/{part}.{side}").read_text().splitlines() for side in ("de", "en")]
    return list(zip(*sides, strict=True))


def test_what_is_held_out_is_nowhere_else(tmp_path):
    """English sentences with several translations."""
    single = [(f"Satz {n} {how}", f"Sentence {n}.") for n in range(40) for how in ("so", "anders")]
    running = [(f"Rede {n}", f"Speech {n}.") for n in range(30)]
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
    assert train == [pair for pair in single if pair[1] not in english] + running[:20]
    assert "; 0 left out of train" in done.stdout
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    put_together(tmp_path, *flags)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}


def test_nothing_stays_of_another_text(tmp_path):
    for name in ("a", "b"):
        write(tmp_path, "text", [(f"{name}{n} x", f"{name}{n} y") for n in range(9)])
        put_together(tmp_path, "--running", f"{name}=text", "--held-out", "1")
    assert {path.name for path in (tmp_path / "out").glob("test.*")} == {"test.b.de", "test.b.en"}


def test_a_side_that_is_held_out_is_left_out_of_train(tmp_path):
    write(
        tmp_path, "text", [("eins", "one"), ("Zwei!", "deux"), ("drei", "three"), ("zwei", "two")]
    )
    done = put_together(tmp_path, "--running", "x=text", "--held-out", "1")
    assert read(tmp_path, "train") == [("eins", "one")]
    assert "; 1 left out of train" in done.stdout


def test_too_much_is_held_out(tmp_path):
    write(tmp_path, "text", [("eins", "one"), ("zwei", "two"), ("drei", "three")])
    done = put_together(tmp_path, "--running", "x=text", "--held-out", "2", expect=1)
    assert "of 3 pairs" in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
