"""Several test sets in one file: written one after the other, each scored separately."""

import json

import pytest
from corpora_made import CONFIGS, pairs_of, parts, recipe, sentences, write
from refusals import check_refusals
from written import scores_in

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.corpora import load_corpus, own_corpus
from fairseq_hybrid_attn.lab.corpora.definition import read_test_sets
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare

NEWS, TALKS, REST = sentences(7, seed=1), sentences(4, seed=2), sentences(5, seed=3)


def test_files_that_do_not_fit(tmp_path):
    def read(content):
        (tmp_path / "sets").write_text(content)
        read_test_sets(tmp_path / "sets", 9)

    wrong = ('{"news": 9, "talks": 0}', '{"news": "9"}', "[9]", "{}")
    refusals = [(content, "name sets and numbers") for content in wrong]
    refusals += [('{"news": 3, "talks": 5}', "8 sentences, the test text 9")]
    check_refusals(refusals, read)


def test_your_text_has_the_plain_set_first_and_the_others_by_name(tmp_path, no_preprocess):
    folder = parts(tmp_path / "text")
    corpus = own_corpus(recipe(), folder)
    assert not corpus.has_named_tests
    assert load_corpus("ldc.en-zh", CONFIGS).has_named_tests  # as in the alignment paper
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
    news = [("", ""), ("a", "\u3000"), ("\t", "b")]
    corpus = own_corpus(recipe(), write(parts(tmp_path / "empty"), "test.news", news))
    with pytest.raises(UserError, match=r"test\.news\.de: there are no sentences"):
        prepare(corpus, tmp_path / "out", workers=1)


def test_scores_of_a_set_are_those_of_its_sentences_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    references = [en for _, en in (*REST, *NEWS)]
    pairs = [(line.replace("dog", "cat"), line) for line in references]
    count = len(REST)

    def score(part=slice(None), sets=None):
        write(tmp_path, "x", pairs[part])
        flags = "--hypotheses x.de --reference x.en --target-lang en --write x.json"
        if sets:
            (tmp_path / "sets").write_text(json.dumps(sets))
            flags += " --test-sets sets"
        main(["score", *flags.split()])
        found = scores_in(tmp_path / "x.json")
        rows = {name: one["counts"]["rows"] for name, one in found.items()}
        return {name: (one["value"], one["signature"], rows[name]) for name, one in found.items()}

    first, second = score(slice(0, count)), score(slice(count, None))
    together = score()
    capsys.readouterr()
    found = score(sets={"news": count, "test": len(NEWS)})
    assert found == second | {f"{name}.news": entry for name, entry in first.items()}
    assert found["bleu"] != found["bleu.news"]
    printed = capsys.readouterr().out.splitlines()
    assert printed[1].startswith("BLEU = ")
    assert any(line.startswith("news: BLEU = ") for line in printed)
    found = score(sets={"talks": count, "news": len(NEWS)})
    assert found["bleu"] == together["bleu"] and found["bleu.talks"] == first["bleu"]
