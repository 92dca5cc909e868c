"""The example's text is put together without hand-aligned sentences."""

import gzip
import shutil
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


def put_together(folder, *more, place="out/text"):
    words = "--languages de en --text a --text b --gold gold --links links --base 0 --first de"
    return run_forked(SCRIPT, (place, *words.split(), *more), folder)


def test_hand_aligned_sentences_are_left_out_by_either_side(folder):
    """The second time in lower case, and with rules in the words of gold.yaml."""
    rules = {"base": 0, "first": "de", "sure-alone": True, "fewest-links": 5}
    for more, change, about in (
        ([], str, {"base": 0, "first": "de"}),
        (["--lowercase", "--sure-alone", "--fewest-links", "5"], str.lower, rules),
    ):
        done = put_together(folder, *more)
        assert done.stdout == "   2 pairs; 2 left out, since they are hand-aligned as well\n"
        found = {path.name: path.read_text() for path in (folder / "out/text").iterdir()}
        assert yaml.safe_load(found.pop("gold.yaml")) == about
        assert found == {
            "text.de": change("Das Haus.\nDie Katze\n"),
            "text.en": change("The house.\nThe cat\n"),
            "gold.de": FILES["gold.de"],
            "gold.en": FILES["gold.en"],
            "gold.align": FILES["links"],
        }
        shutil.rmtree(folder / "out")


def test_mistakes_change_no_file(folder):
    (folder / "thesis").mkdir()
    (folder / "thesis/notes.txt").write_text("all")
    for place in (".", "thesis"):
        done = put_together(folder, place=place)
        assert done.returncode == 1 and "name a folder of its own" in done.stderr
    (folder / "links").unlink()
    assert "there is no links" in put_together(folder).stderr
    assert (folder / "a.de").read_text() == FILES["a.de"]
    assert (folder / "thesis/notes.txt").exists()
