"""Tokenisers: their tokens, what undoes them, and files tokenised line by line.

The expected tokens are the textbook examples of MeCab and jieba, and what Moses' tokenizer.perl
prints for sentences that trigger its rules.
"""

import random
import sys
import types
import unicodedata

import pytest
from moses_printed import OF_2018, PRINTED

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.corpora.tokenisers import (
    KINDS,
    detokeniser,
    spelling,
    tokenise_file,
    tokeniser,
    words_split_for_good,
)

LANGUAGE = {"mecab": "ja", "kytea": "ja", "jieba": "zh"}  # of the others: en
WITHOUT_MODEL = [kind for kind in KINDS if kind not in ("kytea", "given")]

#: Everything that some program takes for white space or the end of a line.
WHITE = "\t\x0b\x0c\x1c\x1d\x1e\x85\xa0\u1680\u2003\u2028\u2029\u202f\u3000"


# -- Tokens and what undoes them ---------------------------------------------------------------


def test_tokens():
    for kind, lang, text, tokens in (
        ("moses-aggressive", "de", "Die E-Mail - neu!", "Die E @-@ Mail - neu !"),
        ("mecab", "ja", "すもももももももものうち", "すもも も もも も もも の うち"),
        ("jieba", "zh", "我来到北京清华大学", "我 来到 北京 清华大学"),
        ("jieba", "zh", "Windows 10用3.14", "Windows 10 用 3.14"),
        ("none", "ja", "  そのまま 　で\tok ", "そのまま で ok"),
        ("given", "ja", " \u3000 ok \x85&apos; ", " \u3000 ok \x85&apos; "),
        ("given", "ja", " \u3000\t", ""),
    ):
        assert tokeniser(kind, lang)(text) == tokens, (kind, lang)


def test_tokens_are_those_that_moses_prints():
    """Up to the script's double and trailing spaces, which cleaning and fairseq drop."""
    for lang, rows in PRINTED.items():
        for text, printed in rows:
            assert tokeniser("moses", lang)(text) == " ".join(printed.split()), text
    text, printed = PRINTED["en"][7]
    printed = printed.replace("a-b well-known", "a @-@ b well @-@ known")
    assert tokeniser("moses-aggressive", "en")(text) == printed


def test_of_moses_2018_only_last_dots_differ():
    for lang, kept in OF_2018.items():
        today, before = (
            {tokeniser(kind, lang)(text) for text, _ in PRINTED[lang]}
            for kind in ("moses", "moses-2018")
        )
        assert before - today == kept


def test_text_of_tokens():
    for kind, lang, tokens, text in (
        ("moses", "en", "Don &apos;t say &quot; no &quot; , &amp; go .", 'Don\'t say "no", & go.'),
        ("moses", "en", "&#91; a &#93; &lt; b &#124; c &gt;", "[a] < b | c >"),
        ("moses-aggressive", "de", "E @-@ Mail @-@ Adresse", "E-Mail-Adresse"),
        ("moses-aggressive", "de", "vor- und E @-@", "vor- und E-"),
        ("mecab", "ja", "GPU を 2 . 5 倍 速く する", "GPUを2.5倍速くする"),
        ("mecab", "ja", "New York と Deep Learning", "New YorkとDeep Learning"),
        ("mecab", "ja", "Ｎｅｗ Ｙｏｒｋ は ２ ０ １ ９ 年", "Ｎｅｗ Ｙｏｒｋは２０１９年"),
        ("mecab", "ja", "CO 2 は 10 20", "CO2は10 20"),
        ("kytea", "ja", "東京 で open source を", "東京でopen sourceを"),
        ("jieba", "zh", "我 用 Windows 10 和 GPT 4 ， 很 好 。", "我用Windows 10和GPT 4，很好。"),
        ("jieba", "zh", "", ""),
        ("none", "de", "a  b", "a  b"),
    ):
        assert detokeniser(kind, lang)(tokens) == text, (kind, tokens)
    for kind, lang, text in (
        ("moses", "en", "Don't ask: \"Who's (really) 5,300 km away?\" A & B, [d]; 50%."),
        ("moses", "de", 'Er sagte: "Das ist z.B. 3,50 Euro wert!" Und ging.'),
        ("moses-aggressive", "de", "Die EU-Kommission, E-Mail-Adressen und 20-jährige."),
        ("moses-aggressive", "en", "A state-of-the-art e-mail, isn't it?"),
        ("mecab", "ja", "彼はNew York Timesを2019年に読んだ。CO2は3.5%増えた（約300件）。"),
        ("jieba", "zh", "他在New York Times上看到：2019年Windows 10增长3.5%（约300件）。"),
        ("none", "ja", "彼はNew York Timesを読んだ。"),
    ):
        assert detokeniser(kind, lang)(tokeniser(kind, lang)(text)) == text, kind


#: Words in scripts and spellings that Moses splits at marks, joiners or apostrophes.
SPLIT_BY_MOSES = {
    "hi": "हिन्दी भाषा में अनुवाद करना बहुत कठिन है",
    "ta": "தமிழ் மொழி நான் வீடு சென்றேன் அவன் மரம் பூ",
    "fa": "می‌شود خانه کتاب‌ها درخت سگ نمی‌دانم آب گربه",
    "ca": "l'home casa d'aigua gos arbre l'escola foc gat",
    "fr": unicodedata.normalize("NFD", "été là chien à mère arbre où élan"),
}


def test_words_that_cannot_be_put_together_are_noticed():
    for lang, line in SPLIT_BY_MOSES.items():
        assert words_split_for_good([line], "moses", lang), lang
    assert not words_split_for_good(["Don't ask: 'Who's away?' A & B, 50%."], "moses", "en")


def test_spelling():
    for kind, lang, word, spelt in (
        ("moses", "en", "'s", "&apos;s"),
        ("moses", "de", "a|b", "a&#124;b"),
        ("jieba", "zh", "AT&T", "AT&T"),
        ("none", "de", "a\u3000b\u00a0c", "a_b_c"),
    ):
        assert spelling(kind, lang)(word) == spelt


def test_tokens_are_separated_by_single_spaces_and_no_character_is_lost():
    """fairseq splits at all white space, subword-nmt at the space: both must see the same."""
    letters = list("ab1,.'\"&-<|日本中文のテ　é😀\u200b\ufeff\x00\x07\x9f ") + list(WHITE)
    odd = "研究では、GPU 2台（約300時間）を使い3.5%改善した。 日本語 中文字符"
    for kind in WITHOUT_MODEL:
        tokenise = tokeniser(kind, LANGUAGE.get(kind, "en"))
        random.seed(1)
        for _ in range(500):
            text = "".join(random.choices(letters, k=random.randrange(30)))
            tokens = tokenise(text)
            assert tokens.split() == (tokens.split(" ") if tokens else []), (kind, text)
            assert tokens.splitlines() == ([tokens] if tokens else []), (kind, text)
        assert tokenise(odd).replace(" ", "") == odd.replace(" ", ""), kind
        if not kind.startswith("moses"):
            # Control characters are spaces: a NUL would end the string for MeCab.
            assert tokenise("ab\x00cd\x01ef") == "ab cd ef"


# -- Files ------------------------------------------------------------------------------------


def test_files_have_the_tokens_of_their_lines(tmp_path, monkeypatch):
    """Cut into many blocks; the last line has no end."""
    monkeypatch.setattr("fairseq_hybrid_attn.lab.files.text.BLOCK", 5)
    random.seed(2)
    letters = list("abc é日本の中文., ") + list(WHITE)
    text = ["".join(random.choices(letters, k=random.randrange(40))) for _ in range(300)]
    text[7:9] = ["", "A line\r"]
    (tmp_path / "in").write_bytes("\n".join(text).encode())
    for kind in ("moses", "mecab"):
        lang = LANGUAGE.get(kind, "en")
        tokenise_file(tmp_path / "in", tmp_path / "out", kind, lang, workers=2)
        found = (tmp_path / "out").read_bytes().decode()
        assert found.split("\n") == [*map(tokeniser(kind, lang), text), ""], kind


def test_lowercase_after_tokenising(tmp_path):
    """MR. SMITH keeps the period, since Mr. is a known abbreviation; mr. would not be."""
    (tmp_path / "in").write_bytes("Mr. Smith ÄRGERT sich &\n".encode())
    tokenise_file(tmp_path / "in", tmp_path / "out", "moses", "en", workers=1, lowercase=True)
    assert (tmp_path / "out").read_text("utf-8") == "mr. smith ärgert sich &amp;\n"


# -- KyTea: its package brings no model, so a stand-in takes its place here --------------------


@pytest.fixture
def kytea(monkeypatch):
    """A stand-in for KyTea's module, which refuses a model that is broken."""

    class Mykytea:
        def __init__(self, options):
            if "broken" in options:
                raise RuntimeError("Badly formed model")

    monkeypatch.setitem(sys.modules, "Mykytea", types.SimpleNamespace(Mykytea=Mykytea))
    monkeypatch.delenv("KYTEA_MODEL", raising=False)


def test_kytea_without_a_model_or_with_a_bad_one(kytea, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"(?s)phontron.com/kytea.*KYTEA_MODEL=.*mecab"):
        tokeniser("kytea", "ja")
    for name, said in (("broken", "not a model"), ("with space", "space"), (None, "not a file")):
        if name:
            (tmp_path / name).write_bytes(b"")
        monkeypatch.setenv("KYTEA_MODEL", str(tmp_path / (name or "none")))
        with pytest.raises(UserError, match=said):
            tokeniser("kytea", "ja")


def test_regions_are_their_language():
    text = "It's 5 o'clock, Dr. Smith."
    for make in (tokeniser, spelling, detokeniser):
        for code in ("en_GB", "en-US", "EN"):
            assert make("moses", code)(text) == make("moses", "en")(text)


# -- Mistakes ---------------------------------------------------------------------------------


def test_wrong_kind_or_language():
    for make in (tokeniser, detokeniser):
        with pytest.raises(UserError, match="no tokenizer 'mosses'"):
            make("mosses", "de")
        with pytest.raises(UserError, match="mecab is for ja"):
            make("mecab", "de")
        make("jieba", "zh_CN")


def test_missing_package(monkeypatch, tmp_path):
    (tmp_path / "model").write_bytes(b"")
    for kind, module, packages in (
        ("moses", "sacremoses", "sacremoses regex"),
        ("mecab", "MeCab", "mecab-python3 ipadic"),
        ("mecab", "ipadic", "mecab-python3 ipadic"),
        ("jieba", "rjieba", "rjieba"),
        ("kytea", "Mykytea", "kytea"),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(UserError, match=f"pip install {packages}$"):
                tokeniser(kind, LANGUAGE.get(kind, "en"), tmp_path / "model")
