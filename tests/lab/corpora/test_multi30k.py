"""Multi30k as its authors tokenised it."""

from dataclasses import replace

import pytest
from corpora_made import CONFIGS, sentences
from refusals import check_refusals

from fairseq_hybrid_attn.lab.corpora import load_corpus
from fairseq_hybrid_attn.lab.corpora.definition import Subwords
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare

NAMES = {"train": ["train"], "valid": ["val"]}
NAMES["test"] = ["test_2016_flickr", "test_2017_flickr", "test_2017_mscoco"]
SIZES = {"train": 60, "val": 7, "test_2016_flickr": 5, "test_2017_flickr": 4}  # COCO: 3


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


def test_text_and_test_sets_are_the_published_ones(downloads, no_preprocess, tmp_path):
    manifest = made("multi30k.en-de", downloads, tmp_path)
    assert manifest.counts == {"train": 60, "valid": 7, "test": 12}
    assert manifest.tests == {"flickr2016": 5, "flickr2017": 4, "mscoco2017": 3}
    for language in ("en", "de"):
        for part, names in NAMES.items():
            files = [downloads / f"multi30k/tok/{name}.lc.norm.tok.{language}" for name in names]
            text = b"".join(path.read_bytes() for path in files)
            for kind in ("raw", "tokenised"):
                assert (tmp_path / kind / f"{part}.{language}").read_bytes() == text


def test_a_recipe_that_extends_one_that_extends_is_refused(tmp_path):
    (tmp_path / "corpora").mkdir()
    for name, base in {"a": "b", "b": "c", "c": "c", "d": "[c]", "e": "nothing"}.items():
        (tmp_path / f"corpora/{name}.yaml").write_text(f"extends: {base}\n")
    refused = dict.fromkeys("ac", "extends a recipe itself")
    refused |= {"d": "unknown extends", "e": "no recipe 'nothing'"}
    check_refusals(refused.items(), lambda name: load_corpus(name, tmp_path))
