"""``score``: against sacrebleu's own command and against BLEU counted by hand."""

import json
import random
from importlib.metadata import version
from pathlib import Path

import pytest
import sacrebleu
from refusals import check_command_refusals, check_refusals
from sacrebleu_command import sacrebleu_command

from fairseq_hybrid_attn.lab.cli.command_line import COMMANDS, main
from fairseq_hybrid_attn.lab.corpora.tokenisers import KINDS
from fairseq_hybrid_attn.lab.scores.metrics import build_metric, language

REFERENCE = [
    "It's a small dog, isn't it?",
    "",
    'He said: "The well-known book costs $5 & more."',
    "Mr. Smith lives in Berlin since 1999.",
]
HYPOTHESES = [
    "It's a small cat, isn't it?",
    "Hm.",
    'He said: "The well-known book costs 5 & more."',
    "Mr. Smith lives in Berlin.",
]
#: The hypotheses as the Moses tokenizer writes them (with -a: hyphens are tokens).
MOSES = [
    "It &apos;s a small cat , isn &apos;t it ?",
    "Hm .",
    "He said : &quot; The well @-@ known book costs 5 &amp; more . &quot;",
    "Mr. Smith lives in Berlin .",
]


def write(name, lines):
    Path(name).write_bytes("".join(f"{line}\n" for line in lines).encode())


def write_generated(lines, order=None):
    """``out.txt``: what fairseq-generate prints for these hypotheses."""
    output = [
        f"S-{n}\tsource H-0\nT-{n}\ttarget\nH-{n}\t-0.5\t{lines[n]}\nD-{n}\t-0.5\tx\nP-{n}\t-1"
        for n in order or range(len(lines))
    ]
    write("out.txt", [*output, "Generate test with beam=5: BLEU4 = 1.23"])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder to work in, with a reference and hypotheses."""
    monkeypatch.chdir(tmp_path)
    write("ref.txt", REFERENCE)
    write("hyp.txt", HYPOTHESES)
    return tmp_path


def score(*arguments, lang="en", reference="ref.txt"):
    flags = ["--reference", reference, "--target-lang", lang, "--json", "score.json"]
    main(["score", *flags, *arguments])
    return json.loads(Path("score.json").read_text())


def bleu(*arguments, **settings):
    return score(*arguments, **settings)["scores"]["bleu"]["value"]


def generated(subwords="none", tokenizer="none"):
    return ["--generated", "out.txt", "--subwords", subwords, "--tokenizer", tokenizer]


TEXT = ["--hypotheses", "hyp.txt"]
OUT = ["--hypotheses-out", "out.hyp"]


def test_text_scores_as_by_sacrebleus_command(capsys):
    """And as the metrics, whose tests have numbers worked out by hand."""
    for flags, theirs, case in (([], [], "mixed"), (["--lowercase"], ["-lc"], "lc")):
        report = sacrebleu_command("ref.txt", "-i", "hyp.txt", *theirs)
        expected, signature = pytest.approx(report["score"], abs=1e-8), report["signature"]
        tokenised = build_metric("tokenised_bleu", "en", bool(flags)).score(HYPOTHESES, REFERENCE)
        found = score(*TEXT, *flags)
        counts = {name: of_all["kind"] for name, of_all in found.pop("counts").items()}
        assert counts == {"bleu": "bleu", "tokenised_bleu": "bleu_unsmoothed"}
        assert found == {
            "scores": {
                "bleu": {"value": expected, "signature": signature},
                "tokenised_bleu": {"value": tokenised.value, "signature": tokenised.signature},
            },
            "sentences": 4,
            "parts": {"": [0, 4]},
            "missing": 0,
            "target_lang": "en",
            "versions": {"sacrebleu": sacrebleu.__version__, "sacremoses": version("sacremoses")},
            "translations": "hyp.txt",
            "reference": "ref.txt",
        }
        assert f"case:{case}|" in signature
        count, bleu_line, *others = capsys.readouterr().out.splitlines()
        assert count == "sentences: 4" and bleu_line.startswith(f"BLEU = {report['score']:.2f} ")
        assert others == [f"  {signature}", tokenised.line, f"  {tokenised.signature}"]


def test_scores_are_those_asked_for_in_that_order(capsys):
    names = ["wat_bleu", "nist_bleu", "compound_split_bleu"]
    result = score(*TEXT, "--scores", ", ".join(names))["scores"]
    expected = [build_metric(name, "en").score(HYPOTHESES, REFERENCE) for name in names]
    assert list(result) == names and len({one.value for one in expected}) == 3
    assert [one["value"] for one in result.values()] == [one.value for one in expected]
    lines = [line for one in expected for line in (one.line, f"  {one.signature}")]
    assert capsys.readouterr().out.splitlines() == ["sentences: 4", *lines]


def test_wat_bleu_with_a_kytea_model(monkeypatch, capsys):
    """No model comes with KyTea; a segmenter that splits everywhere stands for one."""
    write("ref.ja", ["猫が12だ"])
    write("hyp.ja", ["猫は12だ"])
    Path("jp.mod").write_bytes(b"abc")  # SHA-256 ba7816bf…, FIPS 180-2
    tokeniser = {("kytea", "ja", Path("jp.mod")): " ".join}
    metrics = "fairseq_hybrid_attn.lab.scores.metrics"
    monkeypatch.setattr(f"{metrics}.tokeniser", lambda *asked: tokeniser[asked])
    monkeypatch.setattr(f"{metrics}.version", lambda package: "0.1")
    flags = ["--scores", "wat_bleu", "--kytea-model", "jp.mod", "--hypotheses", "hyp.ja"]
    result = score(*flags, lang="ja", reference="ref.ja")["scores"]["wat_bleu"]
    assert "tok:wat-ja-kytea-0.1,jp.mod-ba7816bf|" in result["signature"]
    assert " 75.0/33.3/" in capsys.readouterr().out  # 猫 は １２ だ: three of four words


def test_moses_tokens_and_their_subwords_score_as_the_text_they_stand_for():
    """In any order of sentences."""
    pieces = [line.replace("e", "e@@ ").replace("@@  ", " ") for line in MOSES]
    for kind, tokens in (("none", MOSES), ("subword-nmt", pieces)):
        write_generated(tokens, random.sample(range(4), 4))
        result = score(*generated(kind, "moses"), *OUT)
        assert Path("out.hyp").read_text().split("\n") == [*HYPOTHESES, ""], kind
        assert result["scores"] == score("--hypotheses", "out.hyp")["scores"]


def test_tokens_of_every_kind_become_text():
    pytest.importorskip("MeCab")
    pytest.importorskip("ipadic")
    cases = [
        ("none none en", "It's a well-known dog.", "It's a well-known dog."),
        ("none moses en", "It &apos;s a well-known dog .", "It's a well-known dog."),
        ("none moses-2018 en", "It &apos;s a dog .", "It's a dog."),
        ("none given en", "it 's a dog .", "it 's a dog ."),
        ("none moses-aggressive en", "It &apos;s a well @-@ known dog .", "It's a well-known dog."),
        ("none mecab ja", "私 は BLEU を 知る 。", "私はBLEUを知る。"),
        ("none kytea ja", "私 は BLEU を 知 る 。", "私はBLEUを知る。"),
        ("none jieba zh", "我 喜欢 猫 。", "我喜欢猫。"),
        ("sentencepiece none en", "\u2581It ' s \u2581a \u2581do g .", "It's a dog."),
        ("subword-nmt moses en", "It &ap@@ os@@ ;s a d@@ o@@ g . x@@", "It's a dog. x"),
        ("none none en", "a@@ \u2581b", "a@@ \u2581b"),
    ]
    assert {kind.split()[1] for kind, *_ in cases} == set(KINDS)
    for kind, tokens, text in cases:
        *kinds, lang = kind.split()
        write("one.txt", [text])
        write_generated([tokens])
        score(*generated(*kinds), *OUT, lang=lang, reference="one.txt")
        assert Path("out.hyp").read_text() == f"{text}\n", kind


def test_the_best_of_several_hypotheses_and_those_without_tokens():
    lines = [f"H-0\t-0.1\t{HYPOTHESES[0]}", "D-0\t-0.1\tx", "P-0\t-1", "H-0\t-0.2\tworse"]
    write("out.txt", [*lines, "D-0\t-0.2\tx", "H-1\t-0.1\t", "H-3\t-0.1", "H-2\t-0.1\tb\tc"])
    result = score(*generated(), *OUT)
    assert Path("out.hyp").read_text() == f"{HYPOTHESES[0]}\n\nb\tc\n\n"
    assert (result["sentences"], result["missing"]) == (4, 0)


def test_missing_translations_can_count_as_empty(capsys):
    write_generated(HYPOTHESES, order=[3, 0])
    write("gaps.txt", [HYPOTHESES[0], "", "", HYPOTHESES[3]])
    result = score(*generated(), "--missing", "empty")
    assert result["missing"] == 2
    assert "sentences: 4 (2 missing, scored as empty)" in capsys.readouterr().out
    assert result["scores"] == score("--hypotheses", "gaps.txt")["scores"]
    write_generated([""] * 4)  # nothing translated
    result = score(*generated("sentencepiece", "moses"))
    assert [found["value"] for found in result["scores"].values()] == [0, 0]


def test_flags_that_tokens_contradict(capsys):
    write("one.txt", ["a dog"])
    for tokens, flags, warning in (
        ("a do@@ g", "none none", "look like --subwords subword-nmt, not none"),
        ("\u2581a \u2581dog", "none none", "look like --subwords sentencepiece, not none"),
        ("\u2581a \u2581dog", "subword-nmt none", "look like --subwords sentencepiece, not sub"),
        ("a dog", "sentencepiece none", "are their subwords joined already"),
        ("it &apos;s", "none none", "look like --tokenizer moses, not none"),
        ("a dog", "none none", None),
        ("\u2581it ' s", "sentencepiece none", None),
        ("it &apos;s a do@@ g", "subword-nmt moses", None),
    ):
        write_generated([tokens])
        score(*generated(*flags.split()), reference="one.txt")
        err = capsys.readouterr().err
        assert warning in err if warning else not err, (tokens, flags)
    for text, warning in (("a do@@ g", "subwords of subword"), ("it &apos;s", "words of Moses")):
        write("hyp.txt", [text])
        score(*TEXT, reference="one.txt")
        assert f"hyp.txt looks like {warning}" in capsys.readouterr().err
        write("one.txt", [text])
        score(*TEXT, reference="one.txt")
        assert "one.txt looks like" in capsys.readouterr().err
        score(*TEXT, "--scores", "given_bleu", reference="one.txt")
        assert not capsys.readouterr().err


def test_lines_end_at_newlines_only():
    """Python's splitlines would find more lines than sacrebleu does."""
    odd = ["one\u2028two three four", "five\x0bsix seven\x85 eight", "nine\x1cten\x0celeven"]
    write("odd.txt", odd)
    write("hyp.txt", [odd[0], "five six seven eight", odd[2]])
    expected = sacrebleu_command("odd.txt", "-i", "hyp.txt")["score"]
    assert bleu(*TEXT, reference="odd.txt") == pytest.approx(expected, abs=1e-8)
    write_generated(odd)
    assert bleu(*generated(), reference="odd.txt") == pytest.approx(100)
    # Of Windows, and without one at the end.
    Path("hyp.txt").write_bytes("\r\n".join(REFERENCE).encode())
    assert bleu(*TEXT, *OUT) == pytest.approx(100)
    assert Path("out.hyp").read_text().split("\n") == [*REFERENCE, ""]


def test_languages_without_spaces_are_segmented_by_sacrebleu(capsys):
    pytest.importorskip("MeCab")
    pytest.importorskip("ipadic")
    for lang, reference, hypothesis in (
        ("zh", "你好,世界和平 2024。", "你好,世界 2024。"),
        ("ja", "私は猫が好きです。", "私は犬が好きです。"),
    ):
        write("one.txt", [reference])
        write("hyp.txt", [hypothesis])
        report = sacrebleu_command("one.txt", "-i", "hyp.txt", "-l", f"en-{lang}")
        assert f"tok:{'ja-mecab' if lang == 'ja' else 'zh'}" in report["signature"]
        value = pytest.approx(report["score"], abs=1e-8)
        found = {"value": value, "signature": report["signature"]}
        assert score(*TEXT, lang=lang, reference="one.txt")["scores"] == {"bleu": found}
        assert "no tokenised BLEU" in capsys.readouterr().out


def test_refusals():
    write("three.txt", HYPOTHESES[:3])
    write("long.txt", ["x"] * 9)
    write("empty.txt", [])
    Path("latin.txt").write_bytes(b"one\ncaf\xe9\n")
    Path("folder").mkdir()
    write_generated(HYPOTHESES)
    write("killed.txt", ["S-0\tx"])
    write("cut.txt", ["H-0\t-0.1\tx", "H-1"])
    write("gaps.txt", ["H-1\t-0.1\tx"])
    write("many.txt", ["H-1\t-0.1\tx", "H-0\t-0.1\tx"])
    write("beyond.txt", [f"H-{i}\t-0.1\tx" for i in range(5)])
    write("twice.txt", ["S-0\tx", "H-0\t-1\tx", "D-0\t-1\tx", "P-0\t-1", "", "S-0\tx"])
    write("apart.txt", ["H-0\t-0.1\tx", "H-1\t-0.1\tx", "H-0\t-0.1\tx"])
    write("old.json", ["kept"])
    # Arguments that come later prevail.
    command = ["score", "--reference", "ref.txt", "--target-lang", "en", "--json", "old.json"]
    text = "--hypotheses hyp.txt"
    check_command_refusals(
        [
            ("", "give one of --generated OUT"),
            (f"--generated out.txt {text}", "give one of --generated OUT"),
            ("--generated out.txt", "--generated needs --subwords and --tokenizer"),
            ("--generated out.txt --subwords none", "--generated needs --tokenizer as well"),
            (f"{text} --tokenizer moses", "--tokenizer moses needs --generated"),
            (f"{text} --missing empty", "--missing empty needs --generated"),
            (f"{text} --scores blue", "there is no score 'blue'; choose from bleu, tok"),
            (f"{text} --scores bleu,", "there is no score ''"),
            (f"{text} --scores bleu,bleu", "--scores: bleu twice"),
            *(
                (f"{text} --target-lang {lang} --scores {name}", f"not for {lang}; choose bleu")
                for name in ("tokenised_bleu", "compound_split_bleu", "nist_bleu")
                for lang in ("zh", "ja", "ko")
            ),
            (f"{text} --target-lang de --scores wat_bleu", "into ja and en, not into de"),
            (f"{text} --kytea-model x", "--kytea-model needs --scores wat_bleu"),
            (f"{text} --scores wat_bleu --kytea-model x", "is for wat_bleu into ja, not for wat"),
            (
                f"{text} --target-lang ja --scores wat_bleu --kytea-model nowhere",
                "KyTea model nowhere is not a file",
            ),
            ("--hypotheses nowhere.txt", "nowhere.txt cannot be read: No such file"),
            (f"{text} --reference folder", "folder cannot be read: Is a directory"),
            (f"{text} --reference empty.txt", "empty.txt is empty"),
            ("--hypotheses latin.txt", "latin.txt, line 2: not UTF-8 .byte 0xe9"),
            ("--hypotheses three.txt", "three.txt has 3 lines, the reference ref.txt has 4"),
            (f"{text} --json ref.txt", "--json ref.txt: ref.txt is one of the inputs"),
            (f"{text} --hypotheses-out ./hyp.txt", "is one of the inputs"),
            (f"{text} --json x --hypotheses-out x", "--json writes there too"),
        ],
        *command,
    )
    check_command_refusals(
        [
            ("out.txt --scores bleu,given_bleu", "use --tokenizer given"),
            ("out.txt --tokenizer jieba", "jieba is for zh, not for en"),
            ("killed.txt", "killed.txt has no H- lines"),
            ("cut.txt", "cut.txt, line 2: not a complete H- line: 'H-1'"),
            ("gaps.txt", "3 of 4 sentences have no hypothesis .*: 0, 2, 3. Was"),
            ("many.txt --reference long.txt", "7 of 9 sentences .*: 2, 3, 4, 5, 6, ..."),
            ("beyond.txt", "reference has 4 lines, but 1 hypotheses .*: 4; is it"),
            ("twice.txt", "twice.txt, line 6: sentence 0 again"),
            ("apart.txt", "apart.txt, line 3: sentence 0 again"),
        ],
        *(*command, "--subwords", "none", "--tokenizer", "none", "--generated"),
    )


def test_help_lists_every_command_in_a_line_of_80_columns(capsys):
    for arguments, code in (["--help"], 0), ([], 2), (["scores"], 2):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == code
    out, err = capsys.readouterr()
    assert "invalid choice: 'scores'" in err
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    listed = [line.split()[0] for line in lines if line.startswith("  ") and "-h," not in line]
    assert listed == list(COMMANDS) and len(listed) == 21


def test_language_codes():
    codes = {"en": "en", "JA": "ja", "zh-CN": "zh", "zh_CN": "zh", "deu": "deu"}
    codes |= {"jpn": "ja", "zho": "zh", "yue": "zh", "kor": "ko"}  # scored as English otherwise
    assert [language(code) for code in codes] == list(codes.values())
    wrong = [(code, "--target-lang") for code in ("", "e", "english", "e1", "-en")]
    check_refusals(wrong, language)
    chinese = [build_metric("bleu", code).score(["我们好"], ["我们好"]) for code in ("zh", "zh_CN")]
    assert chinese[0] == chinese[1] and "tok:zh" in chinese[0].signature
