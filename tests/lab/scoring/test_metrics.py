"""The metrics, against BLEU worked out by hand and against the published procedures."""

import random
import re
import shutil
import subprocess
import sys

import pytest

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.scoring.metrics import (
    METRICS,
    build_metric,
    default_scores,
    split_compounds,
)
from fairseq_hybrid_attn.lab.scoring.wat import english, japanese, normalise_japanese

MULTI_BLEU = ("tokenised_bleu", "compound_split_bleu", "wat_bleu")


def value(name, translation, reference, lang="en", **settings):
    return build_metric(name, lang, **settings).score([translation], [reference]).value


def fourth_root(*fractions: float) -> float:
    product = 1.0
    for fraction in fractions:
        product *= fraction
    return 100 * product**0.25


@pytest.mark.parametrize("name", METRICS)
def test_bleu_by_hand(name):
    # Of 6, 5, 4, 3 n-grams; the second "the" has no counterpart.
    expected = fourth_root(5 / 6, 3 / 5, 2 / 4, 1 / 3)
    assert value(name, "the cat sat on the mat", "the cat sat on a mat") == pytest.approx(expected)
    # All right, but too short: exp(1 - 5/4).
    assert value(name, "a b c d", "a b c d e") == pytest.approx(77.8800783)


@pytest.mark.parametrize("name", METRICS)
def test_no_four_gram_right(name):
    result = value(name, "a b c x d e f", "a b c y d e f")
    # sacrebleu and mteval count the missing four-gram (of 4) as half a one.
    expected = 0 if name in MULTI_BLEU else fourth_root(6 / 7, 4 / 6, 2 / 5, 0.5 / 4)
    assert result == pytest.approx(expected)


def test_statistics_are_those_of_the_corpus():
    """Sums over sentences, not a mean of sentences."""
    score = build_metric("tokenised_bleu", "en").score(["a b c d", "x"], ["a b c d", "y z"])
    # 4/5 words, then 3/3, 2/2, 1/1; 5 words for 6.
    assert score.value == pytest.approx(fourth_root(4 / 5) * 0.8187307531)


@pytest.mark.parametrize("name", METRICS)
def test_case(name):
    texts = ["The a b c", "d e f g"], ["the a b c", "d e f g"]
    cased = build_metric(name, "en").score(*texts)
    # Of 8, 6, 4, 2 n-grams, those with The are wrong.
    assert cased.value == pytest.approx(fourth_root(7 / 8, 5 / 6, 3 / 4, 1 / 2))
    assert "|case:mixed|" in cased.signature
    lower = build_metric(name, "en", lowercase=True).score(*texts)
    assert lower.value == pytest.approx(100)
    assert "|case:lc|" in lower.signature


def test_moses_words():
    text = "It's a well-known \"dog\" & 5,300 others, isn't it?"
    words = "It 's a well-known \" dog \" & 5,300 others , isn 't it ?"
    assert build_metric("tokenised_bleu", "en").prepare([text])[0] == (
        words.replace("&", "&amp;").replace("'", "&apos;").replace('"', "&quot;")
    )


@pytest.mark.parametrize(
    ("words", "split"),
    [
        ("rich-text format", "rich ##AT##-##AT## text format"),
        ("a-b", "a ##AT##-##AT## b"),
        ("a-b-c", "a ##AT##-##AT## b-c"),
        ("a-b-c-d", "a ##AT##-##AT## b-c ##AT##-##AT## d"),
        ("a-bc-d", "a ##AT##-##AT## bc ##AT##-##AT## d"),
        ("a-ö-c", "a ##AT##-##AT## ö ##AT##-##AT## c"),
        ("a--b", "a ##AT##-##AT## -b"),
        ("a - b -c d-", "a - b -c d-"),
        ("", ""),
    ],
)
def test_compounds(words, split):
    assert split_compounds(words) == split


@pytest.mark.skipif(not shutil.which("perl"), reason="needs perl")
def test_compounds_are_split_as_by_perl():
    letters = "aab---öé\u00a0 "
    lines = ["".join(random.choices(letters, k=random.randrange(20))) for _ in range(500)]
    done = subprocess.run(
        ["perl", "-ple", r"s{(\S)-(\S)}{$1 ##AT##-##AT## $2}g"],
        input="".join(f"{line}\n" for line in lines).encode(),
        capture_output=True,
        check=True,
        env={},
    )
    assert [split_compounds(line) for line in lines] == done.stdout.decode().split("\n")[:-1]


def test_compound_split_bleu_by_hand():
    # x ##AT##-##AT## y a b, against … c.
    expected = fourth_root(4 / 5, 3 / 4, 2 / 3, 1 / 2)
    score = build_metric("compound_split_bleu", "de").score(["x-y a b"], ["x-y a c"])
    assert score.value == pytest.approx(expected)
    assert value("tokenised_bleu", "x-y a b", "x-y a c", lang="de") == 0
    assert "tok:moses-de,sacremoses-" in score.signature and ",atat|" in score.signature


@pytest.mark.parametrize("lowercase", [False, True])
def test_nist_bleu_is_sacrebleus_default_for_languages_with_spaces(lowercase):
    texts = ["It's 5.3-fold &quot;big&quot; x-y, isn't it?"], ["it's 5.4-fold big x-y isn't it?"]
    nist = build_metric("nist_bleu", "de", lowercase).score(*texts)
    bleu = build_metric("bleu", "de", lowercase).score(*texts)
    assert (nist.value, nist.signature) == (bleu.value, bleu.signature)


# -- WAT --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "normalised"),
    [
        ("猫 が　いる 。", "猫がいる。"),
        ("BLEU は 12.5 %", "ＢＬＥＵ は１２．５％"),
        ("deep  learning の 例", "ｄｅｅｐ ｌｅａｒｎｉｎｇ の例"),
        ("\"a\" 'b' x-y ~ \\ `", "”ａ”’ｂ’ ｘ−ｙ 〜＼｀"),
        ("猫がいる。［１．２］", "猫がいる。"),
        ("猫がいる。[1.2]", "猫がいる。［１．２］"),
        ("［１］", "［１］"),
        ("", ""),
    ],
)
def test_japanese_before_segmentation(line, normalised):
    assert normalise_japanese(line) == normalised


@pytest.mark.parametrize(
    ("segmented", "words"),
    [
        ("１ ２ ３ の 猫 ", "１２３ の 猫"),
        ("１ ２ ． ５ ％", "１２．５ ％"),
        ("１ ． ２ ． ３", "１．２ ． ３"),
        ("Ａ Ｂ ｃ  ｄ Ｅ", "ＡＢｃｄ Ｅ"),
        ("猫 ． ３", "猫 ． ３"),
        ("", ""),
    ],
)
def test_japanese_after_segmentation(segmented, words):
    assert japanese(lambda line: segmented)("any") == words


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


def test_a_kytea_model_names_itself(tmp_path, monkeypatch):
    """No model comes with KyTea; a segmenter that splits everywhere stands for it."""
    model = tmp_path / "jp.mod"
    model.write_bytes(b"abc")  # SHA-256 ba7816bf…, FIPS 180-2
    asked = []

    def tokeniser(kind, lang, model):
        asked.append((kind, lang, model))
        return " ".join

    monkeypatch.setattr("fairseq_hybrid_attn.lab.scoring.wat.tokeniser", tokeniser)
    monkeypatch.setattr("fairseq_hybrid_attn.lab.scoring.metrics.version", lambda package: "0.1.11")
    score = build_metric("wat_bleu", "ja", kytea_model=model).score(["猫は12"], ["猫が12"])
    assert asked == [("kytea", "ja", model)]
    assert "tok:wat-ja-kytea-0.1.11,jp.mod-ba7816bf|" in score.signature
    assert "66.7/0.0" in score.line  # 猫 は １２: two of three words


# -- What is refused --------------------------------------------------------------------------


@pytest.mark.parametrize("lang", ["zh", "ja", "ko"])
@pytest.mark.parametrize("name", ["tokenised_bleu", "compound_split_bleu", "nist_bleu"])
def test_languages_without_spaces(name, lang):
    with pytest.raises(UserError, match=f"{name} is for languages with spaces .*not for {lang}"):
        build_metric(name, lang)
    assert default_scores(lang) == ("bleu",)


def test_wrong_settings(tmp_path):
    with pytest.raises(UserError, match="no score 'blue'; choose of bleu, tokenised_bleu, comp"):
        build_metric("blue", "en")
    with pytest.raises(UserError, match="wat_bleu is for translation into ja and en, not into de"):
        build_metric("wat_bleu", "de")
    with pytest.raises(UserError, match="a KyTea model is for wat_bleu into ja"):
        build_metric("wat_bleu", "en", kytea_model=tmp_path)
    with pytest.raises(UserError, match=r"nowhere is not a file"):
        build_metric("wat_bleu", "ja", kytea_model=tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["bleu", "wat_bleu"])
def test_japanese_without_its_packages(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.tokenizers.tokenizer_ja_mecab", None)
    monkeypatch.setattr("sacrebleu.metrics.bleu._get_tokenizer", _without_mecab)
    with pytest.raises(UserError, match=re.escape("pip install sacrebleu[ja]")):
        build_metric(name, "ja")


def _without_mecab(name):
    def make():
        raise RuntimeError("extra dependencies\n\n    pip install sacrebleu[ja]\n")

    assert name == "ja-mecab"
    return make


@pytest.mark.parametrize("name", METRICS)
def test_lists_of_different_lengths(name):
    metric = build_metric(name, "en")
    with pytest.raises(UserError, match="translations: 1 lines, but the reference has 2"):
        metric.score(["a"], ["a", "b"])
    with pytest.raises(UserError, match="the reference has no lines"):
        metric.score([], [])


@pytest.mark.parametrize("name", METRICS)
def test_nothing_translated(name):
    assert value(name, "", "a b c d") == 0
