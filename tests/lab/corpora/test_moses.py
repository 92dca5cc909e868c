"""Moses' tokenizer.perl on sentences that trigger its rules."""

from moses_printed import OF_2018, PRINTED

from fairseq_hybrid_attn.lab.corpora.tokenisers import tokeniser


def test_tokens_are_those_that_the_script_prints():
    """Up to the script's double and trailing spaces, which cleaning and fairseq drop."""
    for lang, rows in PRINTED.items():
        for text, printed in rows:
            assert tokeniser("moses", lang)(text) == " ".join(printed.split()), text
    text, printed = PRINTED["en"][7]
    printed = printed.replace("a-b well-known", "a @-@ b well @-@ known")
    assert tokeniser("moses-aggressive", "en")(text) == printed


def test_of_2018_only_last_dots_differ():
    for lang, kept in OF_2018.items():
        today, before = (
            {tokeniser(kind, lang)(text) for text, _ in PRINTED[lang]}
            for kind in ("moses", "moses-2018")
        )
        assert before - today == kept
