"""Several test sets in one file: written one after the other, scored each by itself."""

import json

import pytest
from corpora_made import CONFIGS, pairs_of, parts, recipe, sentences, write
from refusals import check_refusals

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.command_line import main
from fairseq_hybrid_attn.lab.corpora import load_corpus, own_corpus, prepare
from fairseq_hybrid_attn.lab.text.test_sets import read_test_sets, slices

NEWS, TALKS, REST = sentences(7, seed=1), sentences(4, seed=2), sentences(5, seed=3)


def test_slices():
    assert slices({}, 9) == {"": slice(0, 9)}
    news, rest = slice(0, 3), slice(3, 9)
    assert slices({"news": 3, "talks": 6}, 9) == {"": slice(0, 9), ".news": news, ".talks": rest}
    # Where one has the plain name, the others are further ones.
    assert slices({"news": 3, "test": 6}, 9) == {"": rest, ".news": news}


def test_files_that_do_not_fit(tmp_path):
    def read(content):
        (tmp_path / "sets").write_text(content)
        read_test_sets(tmp_path / "sets", 9)

    wrong = ('{"news": 9, "talks": 0}', '{"news": "9"}', "[9]", "{}")
    check_refusals([(content, "name sets and numbers") for content in wrong], read)
    check_refusals([("news", "cannot be read")], read)
    check_refusals([('{"news": 3, "talks": 5}', "8 sentences, the test text 9")], read)
    with pytest.raises(UserError, match="does not exist"):
        read_test_sets(tmp_path / "none", 9)


def test_your_text_has_the_plain_set_first_and_the_others_by_name(tmp_path, no_preprocess):
    folder = parts(tmp_path / "text")
    corpus = own_corpus(recipe(), folder)
    assert not corpus.has_named_tests
    one = tmp_path / "one"
    assert prepare(corpus, one, workers=1).tests == {} and not (one / "raw/tests.json").exists()

    for side in ("de", "en"):
        (folder / f"test.{side}").unlink()
    write(folder, "test.talks", TALKS)
    write(folder, "test.news", NEWS)
    named = {"news": NEWS, "talks": TALKS}
    for expected in (named, {"test": REST, **named}):
        if "test" in expected:
            write(folder, "test", REST)
        output = tmp_path / f"out{len(expected)}"
        corpus = own_corpus(recipe(), folder)
        assert corpus.has_named_tests
        manifest = prepare(corpus, output, workers=1)
        assert pairs_of(output, "test") == [pair for one in expected.values() for pair in one]
        found = json.loads((output / "raw/tests.json").read_text())
        assert list(found.items()) == [(name, len(pairs)) for name, pairs in expected.items()]
        assert manifest.tests == found and manifest.counts["test"] == sum(found.values())
        assert manifest.counts["train"] == 40


def test_an_incomplete_set_is_refused(tmp_path, no_preprocess):
    corpus = own_corpus(recipe(), write(parts(tmp_path / "empty"), "test.news", []))
    with pytest.raises(UserError, match=r"test\.news\.de: there are no sentences"):
        prepare(corpus, tmp_path / "out", workers=1)
    folder = write(parts(tmp_path / "text"), "test.news", NEWS)
    (folder / "test.news.en").unlink()
    with pytest.raises(UserError, match="each text has to be in the same two languages"):
        own_corpus(recipe(), folder)


def test_the_alignment_papers_second_test_set():
    corpus = load_corpus("ldc.en-zh", CONFIGS)
    assert corpus.has_named_tests
    assert list(corpus.options["files"]) == ["train", "valid", "test", "test.thu"]


def test_scores_of_a_set_are_those_of_its_sentences_alone(tmp_path, capsys):
    references = [en for _, en in (*REST, *NEWS)]
    generated = [line.replace("dog", "cat") for line in references]
    count = len(REST)

    def score(part=slice(None), sets=None):
        for name, lines in (("hyp", generated), ("ref", references)):
            (tmp_path / name).write_text("".join(f"{line}\n" for line in lines[part]))
        flags = ["--hypotheses", tmp_path / "hyp", "--reference", tmp_path / "ref"]
        flags += ["--target-lang", "en", "--json", tmp_path / "json"]
        if sets:
            (tmp_path / "sets").write_text(json.dumps(sets))
            flags += ["--test-sets", tmp_path / "sets"]
        main(["score", *map(str, flags)])
        return json.loads((tmp_path / "json").read_text())["scores"]

    first, second = score(slice(0, count)), score(slice(count, None))
    together = score()
    capsys.readouterr()
    found = score(sets={"test": count, "news": len(NEWS)})
    assert found == first | {f"{name}.news": entry for name, entry in second.items()}
    assert found["bleu"] != found["bleu.news"]
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("BLEU = ") and printed[5].startswith("news: BLEU = ")
    found = score(sets={"talks": count, "news": len(NEWS)})
    assert found["bleu"] == together["bleu"] and found["bleu.talks"] == first["bleu"]
