"""Multi30k as its authors tokenised it, beside the commands by which others prepare it."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from corpora_made import CONFIGS, sentences

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.corpora import load_corpus
from fairseq_hybrid_attn.lab.corpora.definition import Subwords
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare

NAMES = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
SIZES = {"train": 60, "val": 7, "test_2016_flickr": 5, "test_2017_flickr": 4}  # COCO: 3


def command(name, *words, **streams):
    subprocess.run([Path(sys.executable).parent / name, *map(str, words)], check=True, **streams)


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    """Made files under the names of the published ones."""
    folder = tmp_path_factory.mktemp("downloads")
    for archive in load_corpus("multi30k.en-de", CONFIGS).archives:
        path = folder / archive.file
        part, language = path.name.split(".")[0], path.suffix[1:]
        pairs = sentences(SIZES.get(part, 3), seed=len(part))
        text = [pair[language == "en"].lower().replace(".", " .") for pair in pairs]
        # As one line of the published text: two spaces, an escape, a space at the end.
        text[1] = text[1].replace(" .", "  . &apos; ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in text))
    return folder


def made(name, downloads, output):
    corpus = load_corpus(name, CONFIGS)
    archives = tuple(replace(archive, sha256=()) for archive in corpus.archives)
    subwords = Subwords("subword-nmt", 40)
    corpus = replace(corpus, archives=archives, subwords=subwords, expect={})
    return prepare(corpus, output, downloads, workers=1)


def test_text_is_that_of_the_commands(downloads, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    manifest = made("multi30k.en-de", downloads, ours)
    assert manifest.counts == {"train": 60, "valid": 7, "test": 12}
    assert manifest.tests == {"flickr2016": 5, "flickr2017": 4, "mscoco2017": 3}

    theirs.mkdir()
    published = downloads / "multi30k/tok"
    both = b"".join((published / f"train.lc.norm.tok.{la}").read_bytes() for la in ("en", "de"))
    with open(theirs / "subwords.codes", "wb") as codes:
        command("subword-nmt", "learn-bpe", "-s", 40, input=both, stdout=codes)
    for language in ("en", "de"):
        for part, name in NAMES.items():
            text, output = (
                published / f"{name}.lc.norm.tok.{language}",
                theirs / f"{part}.{language}",
            )
            codes = ("-c", theirs / "subwords.codes")
            command("subword-nmt", "apply-bpe", *codes, "-i", text, "-o", output)
            found = (ours / f"subwords/{part}.{language}").read_bytes()
            assert found.startswith(output.read_bytes()) and found.count(b" \n")
            if part != "test":  # which has the other two sets as well
                assert found == output.read_bytes()
                assert (ours / f"raw/{part}.{language}").read_bytes() == text.read_bytes()
    assert (ours / "subwords/subwords.codes").read_bytes() == (
        theirs / "subwords.codes"
    ).read_bytes()

    words = ["--source-lang", "en", "--target-lang", "de", "--joined-dictionary"]
    words += ["--trainpref", theirs / "train", "--validpref", theirs / "valid"]
    command("fairseq-preprocess", *words, "--destdir", theirs / "bin", stdout=subprocess.DEVNULL)
    for path in (theirs / "bin").iterdir():
        if path.name != "preprocess.log":
            assert (ours / "bin" / path.name).read_bytes() == path.read_bytes(), path.name


def test_other_direction_is_the_same_text(downloads, no_preprocess, tmp_path):
    for name in ("en-de", "de-en"):
        made(f"multi30k.{name}", downloads, tmp_path / name)
    for path in (tmp_path / "en-de/subwords").iterdir():
        assert (tmp_path / "de-en/subwords" / path.name).read_bytes() == path.read_bytes()


def test_only_the_published_files_are_taken(downloads, tmp_path):
    with pytest.raises(UserError, match="train.lc.norm.tok.en is damaged or a different file"):
        prepare(load_corpus("multi30k.en-de", CONFIGS), tmp_path, downloads)


def test_a_recipe_that_extends_one_that_extends_is_refused(tmp_path):
    (tmp_path / "corpora").mkdir()
    for name, base in (("a", "b"), ("b", "c"), ("c", "c"), ("d", "[c]"), ("e", "nothing")):
        (tmp_path / f"corpora/{name}.yaml").write_text(f"extends: {base}\n")
        said = {"d": "unknown extends", "e": "no recipe 'nothing'"}
        if name not in "ab":
            with pytest.raises(UserError, match=said.get(name, "extends a recipe itself")):
                load_corpus(name, tmp_path)
    with pytest.raises(UserError, match="extends a recipe itself"):
        load_corpus("a", tmp_path)
