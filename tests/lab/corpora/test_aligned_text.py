"""The example's text: put together, without what is hand-aligned."""

import gzip
from pathlib import Path

import pytest
import yaml
from cli import run_forked

SCRIPT = Path(__file__).parents[3] / "scripts/examples/aligned_text.py"
FILES = {
    "a.de": "Das Haus.\nDer Hund!\n",
    "a.en": "The house.\nThe dog!\n",
    "b.de": "Die Katze\nEin Vogel\n",
    "b.en": "The cat\nA bird\n",
    "gold.de": "der hund !\nfeuer\n",
    "gold.en": "the hound !\na bird\n",
    "links": "0-0 1-1 2-2\n0-1\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "b.en").unlink()
    with gzip.open(tmp_path / "b.en.gz", "wt") as file:
        file.write(FILES["b.en"])
    return tmp_path


def put_together(folder, *more):
    words = (
        "out/text --languages de en --text a --text b --gold gold --links links --base 0 --first de"
    )
    return run_forked(SCRIPT, (*words.split(), *more), folder)


@pytest.mark.parametrize("lowercase", [False, True])
def test_hand_aligned_sentences_are_left_out_by_either_side(folder, lowercase):
    done = put_together(folder, *["--lowercase"] * lowercase)
    assert done.stdout == "   2 pairs; 2 left out, since they are hand-aligned as well\n"
    found = {path.name: path.read_text() for path in (folder / "out/text").iterdir()}
    text = {"text.de": "Das Haus.\nDie Katze\n", "text.en": "The house.\nThe cat\n"}
    for name, content in text.items():
        assert found.pop(name) == (content.lower() if lowercase else content)
    assert yaml.safe_load(found.pop("gold.yaml")) == {"base": 0, "first": "de"}
    names = {"gold.de": "gold.de", "gold.en": "gold.en", "gold.align": "links"}
    assert found == {name: FILES[original] for name, original in names.items()}


def test_hand_aligned_sentences_can_be_chosen(folder):
    """In the words of gold.yaml, which preparation reads."""
    put_together(folder, "--sure-alone", "--fewest-links", "5")
    settings = yaml.safe_load((folder / "out/text/gold.yaml").read_text())
    assert settings == {"base": 0, "first": "de", "sure-alone": True, "fewest-links": 5}


@pytest.mark.parametrize("missing", ["a.en", "gold.de", "links"])
def test_missing_files_are_named(folder, missing):
    (folder / missing).unlink()
    done = put_together(folder)
    assert done.returncode == 1
    assert f"there is no {missing}" in done.stderr and "Traceback" not in done.stderr


def test_texts_that_do_not_fit_together_are_refused(folder):
    (folder / "a.en").write_text("The house.\n")
    done = put_together(folder)
    assert done.returncode == 1
    assert "a.de has 2 lines, but a.en has 1" in done.stderr and "Traceback" not in done.stderr
