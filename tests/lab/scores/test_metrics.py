"""The metrics, against BLEU computed by hand and against the published procedures."""

import math
import random
import re
import shutil
import subprocess
import sys

import pytest

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.scores.metrics import METRICS, build_metric, split_compounds
from fairseq_hybrid_attn.lab.scores.wat import english, japanese, normalise_japanese

MULTI_BLEU = ("tokenised_bleu", "compound_split_bleu", "wat_bleu", "given_bleu")
INTO_ENGLISH = [name for name in METRICS if name not in ("chrf", "ter", "word_bleu")]


def value(name, translation, reference, lang="en"):
    return build_metric(name, lang).score([translation], [reference]).value


def fourth_root(*fractions):
    return pytest.approx(100 * math.prod(fractions) ** 0.25)


def test_bleu_by_hand():
    for name in INTO_ENGLISH:
        # Of 6, 5, 4, 3 n-grams; the second "the" has no counterpart.
        expected = fourth_root(5 / 6, 3 / 5, 2 / 4, 1 / 3)
        assert value(name, "the cat sat on the mat", "the cat sat on a mat") == expected, name
        # All right, but too short.
        assert value(name, "a b c d", "a b c d e") == pytest.approx(100 * math.exp(1 - 5 / 4)), name
        assert value(name, "", "a b c d") == 0, name
        # No four-gram is right: sacrebleu and mteval count half a one (of 4).
        expected = 0 if name in MULTI_BLEU else fourth_root(6 / 7, 4 / 6, 2 / 5, 0.5 / 4)
        assert value(name, "a b c x d e f", "a b c y d e f") == expected, name


def test_bleu_of_languages_without_spaces_or_words_counts_characters():
    for lang, sentence in (("th", "ผมกินข้าว"), ("khm", "ខ្ញុំញ៉ាំបាយ"), ("bo", "ང་ཁ་ལག་ཟ་")):
        metric, length = build_metric("bleu", lang), len(sentence)
        right = [n / (n + 1) for n in range(length - 1, length - 5, -1)]  # all but the last
        assert metric.score([sentence[:-1] + "x"], [sentence]).value == fourth_root(*right)
        assert "|tok:char|" in metric.signature()


def test_case():
    texts = ["The a b c", "d e f g"], ["the a b c", "d e f g"]
    labels = "BLEU", "tokenised BLEU", "compound-split BLEU", "NIST BLEU", "WAT BLEU"
    for name, label in zip(INTO_ENGLISH, (*labels, "BLEU of given tokens"), strict=True):
        cased = build_metric(name, "en").score(*texts)
        # Of 8, 6, 4, 2 n-grams, those with The are wrong.
        assert cased.value == fourth_root(7 / 8, 5 / 6, 3 / 4, 1 / 2), name
        metric = build_metric(name, "en", lowercase=True)
        lower = metric.score(*texts)
        assert "|case:mixed|" in cased.signature and "|case:lc|" in lower.signature, name
        assert metric.line(lower.counts).startswith(f"{label} = 100.00 ")


def test_a_translation_in_lower_case_is_as_good_as_its_reference():
    """Moses splits off the dot of a sentence, and keeps that of Mr., by the case that follows."""
    reference = ["I went home. Then Mr. Lee came. We saw it.", "It is over. We are done."]
    for name in INTO_ENGLISH:
        metric = build_metric(name, "en", lowercase=True)
        found = metric.score([line.lower() for line in reference], reference)
        assert found.value == pytest.approx(100), name


def test_moses_words():
    text = "It's a well-known \"dog\" & 5,300 others, isn't it?"
    words = "It 's a well-known \" dog \" & 5,300 others , isn 't it ?"
    metric = build_metric("tokenised_bleu", "en")
    escapes = {"&": "&amp;", "'": "&apos;", '"': "&quot;"}
    assert metric.prepare([text]) == [words.translate(str.maketrans(escapes))]
    metric.score([text], [text])
    assert "|tok:moses-en,sacremoses-" in metric.signature()
    assert "|smooth:none|" in metric.signature()


def test_given_tokens_are_scored_as_by_fairseq():
    from fairseq.data import Dictionary
    from fairseq.scoring.bleu import BleuConfig, Scorer

    references = ["a boy &apos;s dog , (red) runs .", "x-y z u v ."]
    translations = ["a boy &apos;s dog , (red runs .", "x - y z u v"]
    words = Dictionary()
    scorer = Scorer(BleuConfig(words.pad(), words.eos(), words.unk()))
    for pair in zip(references, translations, strict=True):
        scorer.add(*(words.encode_line(line, add_if_not_exist=True).int() for line in pair))
    metric = build_metric("given_bleu", "de")
    score = metric.score(translations, references)
    assert score.value == pytest.approx(scorer.score(), abs=1e-4) and score.value > 30
    assert "|tok:none|smooth:none|" in score.signature


def test_compounds_are_split_as_by_the_perl_script():
    at = " ##AT##-##AT## "
    by_hand = {
        "rich-text format": f"rich{at}text format",
        "a-b-c-d": f"a{at}b-c{at}d",
        "a-bc-d": f"a{at}bc{at}d",
        "a-ö-c": f"a{at}ö{at}c",
        "a--b": f"a{at}-b",
        "a - b -c d-": "a - b -c d-",
        "": "",
    }
    assert [split_compounds(words) for words in by_hand] == list(by_hand.values())
    if shutil.which("perl"):
        letters = "aab---öé\u00a0 "
        lines = ["".join(random.choices(letters, k=random.randrange(20))) for _ in range(500)]
        command = ["perl", "-ple", r"s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g"]
        text = "".join(f"{line}\n" for line in lines).encode()
        theirs = subprocess.run(command, input=text, capture_output=True, check=True, env={}).stdout
        assert [split_compounds(line) for line in lines] == theirs.decode().split("\n")[:-1]


def test_compound_split_bleu_by_hand():
    # x ##AT##-##AT## y a b, against … c.
    score = build_metric("compound_split_bleu", "de").score(["x-y a b"], ["x-y a c"])
    assert score.value == fourth_root(4 / 5, 3 / 4, 2 / 3, 1 / 2)
    assert value("tokenised_bleu", "x-y a b", "x-y a c", lang="de") == 0
    assert "tok:moses-de,sacremoses-" in score.signature and ",atat|" in score.signature


def test_nist_bleu_is_sacrebleus_default_for_languages_with_spaces():
    texts = ["It's 5.3-fold &quot;big&quot; x-y, isn't it?"], ["it's 5.4-fold big x-y isn't it?"]
    nist, bleu = (build_metric(name, "de").score(*texts) for name in ("nist_bleu", "bleu"))
    assert (nist.value, nist.signature) == (bleu.value, bleu.signature)


def test_japanese_before_and_after_segmentation():
    for line, normalised in (
        ("猫 が　いる 。", "猫がいる。"),
        ("BLEU は 12.5 %", "ＢＬＥＵ は１２．５％"),
        ("deep  learning の 例", "ｄｅｅｐ ｌｅａｒｎｉｎｇ の例"),
        ("\"a\" 'b' x-y ~ \\ `", "”ａ”’ｂ’ ｘ−ｙ 〜＼｀"),
        ("猫がいる。［１．２］", "猫がいる。"),
        ("猫がいる。[1.2]", "猫がいる。［１．２］"),
        ("［１］", "［１］"),
        ("", ""),
    ):
        assert normalise_japanese(line) == normalised, line
    for segmented, words in (
        ("１ ２ ３ の 猫 ", "１２３ の 猫"),
        ("１ ２ ． ５ ％", "１２．５ ％"),
        ("１ ． ２ ． ３", "１．２ ． ３"),
        ("Ａ Ｂ ｃ  ｄ Ｅ", "ＡＢｃｄ Ｅ"),
        ("猫 ． ３", "猫 ． ３"),
        ("", ""),
    ):
        assert japanese(lambda line, words=segmented: words)("any") == words, segmented


def test_wat_bleu_by_mecab():
    pytest.importorskip("MeCab")
    pytest.importorskip("ipadic")
    metric = build_metric("wat_bleu", "ja")
    text = "私は 2017 年に BLEU を 12.5 点上げた。"
    words = "私 は ２０１７ 年 に ＢＬＥＵ を １２．５ 点 上げ た 。"
    assert metric.prepare([text]) == [words]
    score = metric.score([text], [text.replace(" ", "")])
    assert score.value == pytest.approx(100)
    assert "|tok:wat-ja-mecab-0.996-IPA|smooth:none|" in score.signature
    assert {"mecab-python3", "ipadic", "sacrebleu"} == set(metric.versions())


def test_wat_bleu_into_english():
    assert english(str)("Ａｌ２０３　−　”１　％”，isn’t") == 'Al203 - "1 %",isn\'t'
    score = build_metric("wat_bleu", "en").score(["The Ｃｕ−film of ５％."], ["The Cu-film of 5%."])
    assert score.value == pytest.approx(100)
    assert "tok:wat-moses-en,sacremoses-" in score.signature


def test_word_bleu_is_of_words_whatever_the_spaces():
    pytest.importorskip("rjieba")
    metric = build_metric("word_bleu", "zh")
    assert metric.prepare(["我来到北京清华大学"]) == metric.prepare(["我 来到 北京 清华 大学"])
    # 我 来到 北京 清华大学 。: the last is wrong.
    score = metric.score(["我来到北京清华大学 。"], ["我来到北京清华大学！"])
    assert score.value == fourth_root(4 / 5, 3 / 4, 2 / 3, 1 / 2)
    assert "|tok:jieba-zh,rjieba-" in score.signature
    with pytest.raises(UserError, match="word_bleu is for translation into zh, not into en"):
        build_metric("word_bleu", "en")


def test_japanese_without_its_packages(monkeypatch):
    def without_mecab(name):
        assert name == "ja-mecab"
        raise RuntimeError("extra dependencies\n\n    pip install sacrebleu[ja]\n")

    monkeypatch.setitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", None)
    monkeypatch.setattr("sacrebleu.metrics.bleu._get_tokenizer", without_mecab)
    for name in ("bleu", "wat_bleu"):
        with pytest.raises(UserError, match=re.escape("pip install sacrebleu[ja]")):
            build_metric(name, "ja")
