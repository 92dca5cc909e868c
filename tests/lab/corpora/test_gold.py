"""Hand-aligned sentences of a corpus, and word alignments of its training text."""

import contextlib
import io
import sys
from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch
from corpora_made import CONFIGS, lines, parts, recipe, remade, skip_preprocess
from fairseq.data import data_utils

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.corpora import load_corpus, own_corpus, read_manifest
from fairseq_hybrid_attn.lab.corpora.definition import with_options
from fairseq_hybrid_attn.lab.corpora.link_files import read_gold
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare
from fairseq_hybrid_attn.lab.corpora.words import words_of

#: German, English, and links English-German from 1: one is beyond its sentence.
GOLD = [
    ("Der Hund & die Katze", "the dog & the cat", "1-1 2-2 3-3 4-4 5-5"),
    ("Das Wasser's", "water 's", "1-2 2p2"),
    ("Feuer", "fire", "1-1 1-2"),
    ("Ein\u3000Haus groß", "a_house large", "1-1 2-2"),
]


def write_gold(folder, about="base: 1\nfirst: en\n", gold=GOLD):
    for number, name in enumerate(("de", "en", "align")):
        (folder / f"gold.{name}").write_text("".join(f"{row[number]}\n" for row in gold))
    (folder / "gold.yaml").write_text(about)
    return folder


def made(folder, output, kind="subword-nmt", lowercase=False, **options):
    corpus = own_corpus(recipe(kind=kind, size=60), folder)
    return prepare(replace(corpus, lowercase=lowercase), output, workers=1, **options)


def test_words_are_those_that_were_aligned(no_preprocess, tmp_path, capsys):
    folder, gold = write_gold(parts(tmp_path / "text")), tmp_path / "out/gold"
    for kind, family in (("subword-nmt",) * 2, ("sentencepiece-unigram", "sentencepiece")):
        manifest = made(folder, tmp_path / "out", kind)
        assert lines(gold / "words.de") == [row[0] for row in GOLD]
        for language, side in (("de", 0), ("en", 1)):
            for row, line in zip(GOLD, lines(gold / f"subwords.{language}"), strict=True):
                assert len(words_of(line.split(" "), family)) == len(row[side].split(" "))
        # In the tokeniser's spelling, and no white space within a word.
        text = "".join(lines(gold / "subwords.de")).replace("@@ ", "").replace(" ", "")
        assert "&amp;" in text and "&apos;s" in text and "Ein_Haus" in text.replace("▁", "")
        # Source first, from 0; a possible link stays one, and a warning names the impossible one.
        found = read_gold(gold / "links", base=0)
        links = [[(i, i) for i in range(5)], [(1, 0), (1, 1)], [(0, 0)], [(0, 0), (1, 1)]]
        assert [sorted(sentence.possible) for sentence in found.sentences] == links
        assert sorted(found.sentences[1].sure) == [(1, 0)]
        said = "sentence 3, link 1-2 is beyond the sentence"
        assert said in capsys.readouterr().err
        assert manifest.gold.pop("remarks")[0].count(said) == 1
        sentences = {"sentences": 4, "sentences_left_out": 0}
        assert manifest.gold == {**sentences, "sure": 9, "possible": 10, "links_left_out": 1}
    # Only the model sees lower case.
    made(folder, tmp_path / "out", lowercase=True)
    assert lines(gold / "words.de")[0].startswith("Der ")
    assert lines(gold / "subwords.de")[0][0] == "d"


def test_which_sentences_are_scored(no_preprocess, tmp_path):
    about = "base: 1\nfirst: en\nsure-alone: true\nfewest-links: 2\n"
    manifest = made(write_gold(parts(tmp_path / "text"), about), tmp_path / "out")
    assert lines(tmp_path / "out/gold/words.en") == [GOLD[0][1], GOLD[3][1]]
    assert len(lines(tmp_path / "out/gold/links")) == 2
    assert manifest.gold["sentences_left_out"] == 2
    # A test set of these sentences has only those that are scored.
    corpus = own_corpus(recipe(size=60), tmp_path / "text")
    files = {**corpus.options["files"], "test.gold": ["gold.de", "gold.en"]}
    corpus = replace(corpus, options={**corpus.options, "files": files})
    assert prepare(corpus, tmp_path / "tested", workers=1).tests == {"test": 10, "gold": 2}
    assert lines(tmp_path / "tested/raw/test.en")[-2:] == [GOLD[0][1], GOLD[3][1]]
    write_gold(tmp_path / "text", about.replace("2", "9"))
    with pytest.raises(UserError, match="no sentence is left"):
        made(tmp_path / "text", tmp_path / "out")
    # The paper scores its corpus by such rules.
    gold = load_corpus("ldc.en-zh", CONFIGS).gold
    assert (gold.base, gold.first, gold.sure_alone, gold.fewest_links) == (1, "zh", True, 10)
    # Another gold set makes another test set, however its files are named.
    files["test.gold"] = "gold.{language}"
    write_gold(tmp_path / "text", about, GOLD[:3])
    assert prepare(corpus, tmp_path / "tested", workers=1).tests == {"test": 10, "gold": 1}


def test_a_changed_gold_set_remakes_nothing_else(no_preprocess, tmp_path, capsys):
    without = own_corpus(recipe(), parts(tmp_path / "text"))
    assert without.gold is None and "gold" not in without.treatment
    folder = write_gold(tmp_path / "text")
    assert own_corpus(recipe(), folder).treatment != without.treatment
    before = by_command(folder, tmp_path / "out")
    assert "hand-aligned: 4 sentences" in capsys.readouterr().out
    assert not (tmp_path / "out/aligned").exists()
    write_gold(folder, gold=GOLD[:3])
    corpus = own_corpus(load_corpus("own", CONFIGS), folder)
    corpus = with_options(corpus, subword_size=60)
    assert remade(corpus, tmp_path / "out") == ["hand-aligned"]
    assert read_manifest(tmp_path / "out").digest != before.digest
    for path in folder.glob("gold.*"):  # the gold set goes with its files
        path.unlink()
    assert made(folder, tmp_path / "out").gold is None
    assert not (tmp_path / "out/gold").exists()


def test_wrong_gold_sets_are_refused(tmp_path):
    folder = parts(tmp_path / "text")
    for change, said in (
        ({"gold.yaml": None}, "gold.yaml"),
        ({"gold.en": None, "gold.align": None}, "gold.en, gold.align"),
        ({"gold.yaml": "base: 2\nfirst: en\n"}, "0 or 1"),
        ({"gold.yaml": "base: 0\nfirst: fr\n"}, "use the language that comes first"),
    ):
        write_gold(folder)
        for name, content in change.items():
            (folder / name).unlink() if content is None else (folder / name).write_text(content)
        with pytest.raises(UserError, match=said):
            own_corpus(recipe(), folder)


def by_command(text, output, *more):
    words = ["--text", str(text), "--output", str(output), "--subword-size", "60"]
    main(["prepare", "own", *words, *more])
    return read_manifest(output)


@pytest.fixture(scope="module")
def with_alignments(tmp_path_factory):
    """A corpus prepared by the command, and what it printed."""
    pytest.importorskip("eflomal")
    folder = tmp_path_factory.mktemp("aligned")
    parts(folder / "text")
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        skip_preprocess(patch)
        by_command(folder / "text", folder / "out", "--alignments")
    return folder, read_manifest(folder / "out"), printed.getvalue()


def test_alignments_are_fairseq_s_and_fit_the_text(with_alignments):
    folder, manifest, printed = with_alignments
    out = folder / "out"
    path = str(out / "aligned/train.align.de-en")
    links = data_utils.load_indexed_dataset(path, None, "mmap")
    text = [lines(out / f"subwords/train.{language}") for language in ("de", "en")]
    written = lines(out / "aligned/train.align")
    assert len(links) == len(written) == len(text[0])
    for found, line, *pair in zip(links, written, *text, strict=True):
        assert found.tolist() == [int(n) for link in line.split() for n in link.split("-")]
        lengths = torch.tensor([len(side.split()) for side in pair])
        assert (found.view(-1, 2) < lengths).all()
    assert sum(map(len, links)) > 2 * len(links)
    # Everything in bin is there too, without a copy.
    for file in (out / "bin").iterdir():
        assert (out / "aligned" / file.name).samefile(file)
    assert manifest.alignments and manifest.versions["eflomal"]
    assert f"--load-alignments: {out / 'aligned'}" in printed


def test_alignments_do_not_change_the_other_data(with_alignments, no_preprocess, tmp_path):
    folder, manifest, _ = with_alignments
    path = folder / "out/aligned/train.align"
    before = path.stat().st_mtime_ns
    again = by_command(folder / "text", folder / "out")
    assert again == manifest and path.stat().st_mtime_ns == before  # neither lost nor made again
    without = by_command(folder / "text", tmp_path / "out")
    assert without.alignments is None and not (tmp_path / "out/aligned").exists()
    assert without.digest == manifest.digest


def test_without_eflomal_or_if_it_fails(no_preprocess, tmp_path, monkeypatch):
    folder, out = parts(tmp_path / "text"), tmp_path / "out"
    with monkeypatch.context() as patch, pytest.raises(UserError, match="pip install"):
        patch.setitem(sys.modules, "eflomal", None)
        made(folder, out, alignments=True)
    assert not (out / "subwords").exists()  # refused before the work
    pytest.importorskip("eflomal")
    failing = Mock(side_effect=UserError("out of memory"))
    monkeypatch.setattr("fairseq_hybrid_attn.lab.corpora.binarise.align_words", failing)
    with pytest.raises(UserError, match="out of memory"):
        made(folder, out, alignments=True)
    assert not (out / "aligned").exists() and not (out / "manifest.json").exists()
