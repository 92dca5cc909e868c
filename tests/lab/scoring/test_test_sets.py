"""Several test sets in one file: written one after the other, scored each by itself."""

import json

import pytest
from corpora_made import (
    CONFIGS,
    pairs_of,
    parts,
    recipe,
    sentences,
    write,
)

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.command_line import main
from fairseq_hybrid_attn.lab.corpora import load_corpus, own_corpus, prepare
from fairseq_hybrid_attn.lab.text.test_sets import read_test_sets, slices

NEWS, TALKS, REST = sentences(7, seed=1), sentences(4, seed=2), sentences(5, seed=3)


def test_slices():
    assert slices({}, 9) == {"": slice(0, 9)}
    assert slices({"news": 3, "talks": 6}, 9) == {
        "": slice(0, 9),
        ".news": slice(0, 3),
        ".talks": slice(3, 9),
    }
    # Where one has the plain name, the others are further ones.
    assert slices({"news": 3, "test": 6}, 9) == {"": slice(3, 9), ".news": slice(0, 3)}


@pytest.mark.parametrize(
    "content, message",
    [
        ('{"news": 3, "talks": 5}', "8 sentences, the test text 9"),
        ('{"news": 9, "talks": 0}', "name sets and numbers"),
        ('{"news": "9"}', "name sets and numbers"),
        ("[9]", "name sets and numbers"),
        ("{}", "name sets and numbers"),
        ("news", "cannot be read"),
    ],
)
def test_a_file_that_does_not_fit(content, message, tmp_path):
    (tmp_path / "sets").write_text(content)
    with pytest.raises(UserError, match=message):
        read_test_sets(tmp_path / "sets", 9)


def test_a_file_that_does_not_exist(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_test_sets(tmp_path / "sets", 9)


@pytest.mark.parametrize("plain", [False, True])
def test_of_ones_own_text(plain, tmp_path, no_preprocess):
    """In the order of their names, the plain one first."""
    folder = parts(tmp_path / "text")
    for side in ("de", "en"):
        (folder / f"test.{side}").unlink()
    write(folder, "test.talks", TALKS)
    write(folder, "test.news", NEWS)
    expected = {"news": NEWS, "talks": TALKS}
    if plain:
        write(folder, "test", REST)
        expected = {"test": REST, **expected}
    corpus = own_corpus(recipe(), folder)
    assert corpus.has_named_tests
    manifest = prepare(corpus, tmp_path / "out", workers=1)
    assert pairs_of(tmp_path / "out", "test") == [
        pair for pairs in expected.values() for pair in pairs
    ]
    found = json.loads((tmp_path / "out/raw/tests.json").read_text())
    assert list(found.items()) == [(name, len(pairs)) for name, pairs in expected.items()]
    assert manifest.tests == found and manifest.counts["test"] == sum(found.values())
    assert manifest.counts["train"] == 40


def test_one_set_has_no_such_file(tmp_path, no_preprocess):
    corpus = own_corpus(recipe(), parts(tmp_path / "text"))
    assert not corpus.has_named_tests
    manifest = prepare(corpus, tmp_path / "out", workers=1)
    assert manifest.tests == {} and not (tmp_path / "out/raw/tests.json").exists()


def test_an_empty_set_is_refused(tmp_path, no_preprocess):
    corpus = own_corpus(recipe(), write(parts(tmp_path / "text"), "test.news", []))
    with pytest.raises(UserError, match=r"test\.news\.de: there are no sentences"):
        prepare(corpus, tmp_path / "out", workers=1)


def test_a_set_in_one_language_is_refused(tmp_path):
    folder = write(parts(tmp_path / "text"), "test.news", NEWS)
    (folder / "test.news.en").unlink()
    with pytest.raises(UserError, match="each text has to be in the same two languages"):
        own_corpus(recipe(), folder)


def test_the_alignment_papers_second_test_set():
    corpus = load_corpus("ldc.en-zh", CONFIGS)
    assert corpus.has_named_tests
    assert list(corpus.options["files"]) == ["train", "valid", "test", "test.thu"]


def test_scores(tmp_path, capsys):
    """Those of a set are what its sentences alone are given."""
    generated = [en.replace("dog", "cat") for _, en in (*REST, *NEWS)]
    references = [en for _, en in (*REST, *NEWS)]

    def score(hypotheses, reference, *more):
        for name, lines in (("hyp", hypotheses), ("ref", reference)):
            (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
        flags = ["--hypotheses", tmp_path / "hyp", "--reference", tmp_path / "ref"]
        flags += ["--target-lang", "en", "--json", tmp_path / "json", *more]
        main(["score", *map(str, flags)])
        return json.loads((tmp_path / "json").read_text())["scores"]

    count = len(REST)
    alone = [
        score(generated[:count], references[:count]),
        score(generated[count:], references[count:]),
    ]
    together = score(generated, references)
    capsys.readouterr()
    (tmp_path / "sets").write_text(json.dumps({"test": count, "news": len(NEWS)}))
    found = score(generated, references, "--test-sets", tmp_path / "sets")
    assert found == {**alone[0], **{f"{name}.news": entry for name, entry in alone[1].items()}}
    assert found["bleu"] != found["bleu.news"]
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("BLEU = ") and printed[5].startswith("news: BLEU = ")
    (tmp_path / "sets").write_text(json.dumps({"talks": count, "news": len(NEWS)}))
    found = score(generated, references, "--test-sets", tmp_path / "sets")
    assert found["bleu"] == together["bleu"] and found["bleu.talks"] == alone[0]["bleu"]
