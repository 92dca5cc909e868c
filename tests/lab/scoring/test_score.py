"""Scoring: against sacrebleu's own command and against BLEU counted by hand."""

import json
import math
import random
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest
import sacrebleu
from cli import run

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.command_line import main
from fairseq_hybrid_attn.lab.scoring.generate_output import join_subwords
from fairseq_hybrid_attn.lab.scoring.metrics import build_metric, language
from fairseq_hybrid_attn.lab.text.tokenisers import KINDS

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
#: Both sides by Moses's rules, by hand: no escapes, hyphens stay.
TOKENISED_REFERENCE = [
    "It 's a small dog , isn 't it ?",
    "",
    'He said : " The well-known book costs $ 5 & more . "',
    "Mr. Smith lives in Berlin since 1999 .",
]
TOKENISED_HYPOTHESES = [
    "It 's a small cat , isn 't it ?",
    "Hm .",
    'He said : " The well-known book costs 5 & more . "',
    "Mr. Smith lives in Berlin .",
]


def multi_bleu(hypotheses: list[str], references: list[str]) -> float:
    """BLEU of tokens by its definition (Papineni et al. 2002), as in multi-bleu.perl."""
    correct, total = Counter(), Counter()
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        for n in range(1, 5):
            found, wanted = (
                Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
                for tokens in (hypothesis.split(), reference.split())
            )
            correct[n] += sum(min(count, wanted[gram]) for gram, count in found.items())
            total[n] += sum(found.values())
    if not all(correct[n] for n in range(1, 5)):
        return 0.0
    ours = sum(len(line.split()) for line in hypotheses)
    theirs = sum(len(line.split()) for line in references)
    penalty = min(1.0, math.exp(1 - theirs / ours))
    return 100 * penalty * math.exp(sum(math.log(correct[n] / total[n]) for n in correct) / 4)


def sacrebleu_command(hypotheses: Path, reference: Path, *flags: str) -> tuple[float, str]:
    """Score and signature by sacrebleu's own command line."""
    done = subprocess.run(
        [sys.executable, "-m", "sacrebleu", str(reference), "-i", str(hypotheses), *flags]
        + ["-w", "8"],
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    return report["score"], report["signature"]


def write(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def write_generated(path: Path, lines: list[str], order=None) -> Path:
    """What fairseq-generate prints for these hypotheses."""
    output = []
    for number in order or range(len(lines)):
        output += [
            f"S-{number}\tsource H-0",
            f"T-{number}\ttarget",
            f"H-{number}\t-0.5\t{lines[number]}",
            f"D-{number}\t-0.5\tother text",
            f"P-{number}\t-0.5 -0.5",
        ]
    return write(path, [*output, "Generate test with beam=5: BLEU4 = 1.23"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, with a reference."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "ref.txt", REFERENCE)
    return tmp_path


def score(*arguments: str, lang: str = "en", reference: str = "ref.txt") -> dict:
    flags = ["--reference", reference, "--target-lang", lang, "--json", "score.json"]
    main(["score", *flags, *arguments])
    return json.loads(Path("score.json").read_text(encoding="utf-8"))


def bleu(*arguments: str, **settings: str) -> float:
    return score(*arguments, **settings)["scores"]["bleu"]["value"]


GENERATED = ["--generated", "out.txt"]
WORDS = ["--subwords", "none", "--tokenizer", "none"]


@pytest.mark.parametrize("flags", [[], ["--lowercase"]])
def test_text_scores_as_by_sacrebleus_command(flags, folder, capsys):
    hypotheses = write(folder / "hyp.txt", HYPOTHESES)
    expected, signature = sacrebleu_command(
        hypotheses, folder / "ref.txt", *(["-lc"] if flags else [])
    )
    result = score("--hypotheses", "hyp.txt", *flags)
    moses = version("sacremoses")
    tokenised = multi_bleu(TOKENISED_HYPOTHESES, TOKENISED_REFERENCE)
    tokenised_signature = signature.replace("tok:13a", f"tok:moses-en,sacremoses-{moses}")
    tokenised_signature = tokenised_signature.replace("smooth:exp", "smooth:none")
    assert result == {
        "scores": {
            "bleu": {"value": pytest.approx(expected, abs=1e-8), "signature": signature},
            "tokenised_bleu": {
                "value": pytest.approx(tokenised, abs=1e-8),
                "signature": tokenised_signature,
            },
        },
        "sentences": 4,
        "missing": 0,
        "target_lang": "en",
        "versions": {"sacrebleu": sacrebleu.__version__, "sacremoses": moses},
        "translations": "hyp.txt",
        "reference": "ref.txt",
    }
    assert f"case:{'lc' if flags else 'mixed'}|" in signature

    out = capsys.readouterr().out
    assert "sentences: 4\n" in out
    assert f"\nBLEU = {expected:.2f} " in out and f"  {signature}\n" in out
    assert f"\ntokenised BLEU = {tokenised:.2f} " in out and f"  {tokenised_signature}\n" in out


def test_scores_that_are_asked_for(folder, capsys):
    write(folder / "hyp.txt", HYPOTHESES)
    names = ["wat_bleu", "nist_bleu", "compound_split_bleu"]
    result = score("--hypotheses", "hyp.txt", "--scores", ", ".join(names))
    assert list(result["scores"]) == names
    for name, label in zip(names, ("WAT", "NIST", "compound-split"), strict=True):
        expected = build_metric(name, "en").score(HYPOTHESES, REFERENCE)
        found = result["scores"][name]
        assert found == {"value": expected.value, "signature": expected.signature}
        assert expected.line.startswith(f"{label} BLEU = {expected.value:.2f} ")
    out = capsys.readouterr().out
    assert f"\n{expected.line}\n  {expected.signature}\n" in out
    assert "no tokenised BLEU" not in out
    # The hyphens of both lines are right: as if "well-known" were three words.
    atat = [line.replace("l-k", "l ##AT##-##AT## k") for line in TOKENISED_HYPOTHESES]
    compound = multi_bleu(
        atat, [li.replace("l-k", "l ##AT##-##AT## k") for li in TOKENISED_REFERENCE]
    )
    assert result["scores"]["compound_split_bleu"]["value"] == pytest.approx(compound, abs=1e-8)


def test_wat_bleu_by_a_kytea_model(folder, monkeypatch):
    """The model is asked for its words; one that splits everywhere stands for it."""
    write(folder / "ja.txt", ["猫は12だ"])
    (folder / "model.bin").write_bytes(b"abc")
    asked = []

    def tokeniser(kind, lang, model):
        asked.append(model)
        return " ".join

    monkeypatch.setattr("fairseq_hybrid_attn.lab.scoring.wat.tokeniser", tokeniser)
    monkeypatch.setattr("fairseq_hybrid_attn.lab.scoring.metrics.version", lambda package: "0")
    flags = ["--scores", "wat_bleu", "--kytea-model", "model.bin", "--hypotheses", "ja.txt"]
    result = score(*flags, lang="ja", reference="ja.txt")["scores"]["wat_bleu"]
    assert result["value"] == pytest.approx(100) and asked == [Path("model.bin")]
    assert "kytea-0,model.bin-ba7816bf|" in result["signature"]


def test_lowercase_counts(folder):
    write(folder / "hyp.txt", [line.upper() for line in REFERENCE])
    assert bleu("--hypotheses", "hyp.txt") < 50
    result = score("--hypotheses", "hyp.txt", "--lowercase")["scores"]
    assert result["bleu"]["value"] == pytest.approx(100)
    assert result["tokenised_bleu"]["value"] == pytest.approx(100)


def test_moses_tokens_score_as_the_text_they_stand_for(folder):
    """In any order of sentences."""
    order = random.sample(range(4), 4)
    write_generated(folder / "out.txt", MOSES, order)
    flags = ["--subwords", "none", "--tokenizer", "moses", "--hypotheses-out", "hyp.txt"]
    result = score(*GENERATED, *flags)
    assert Path("hyp.txt").read_text().split("\n") == [*HYPOTHESES, ""]
    assert result["scores"] == score("--hypotheses", "hyp.txt")["scores"]


TOKENS = {
    "none": ("en", "It's a well-known dog.", "It's a well-known dog."),
    "moses": ("en", "It &apos;s a well-known dog .", "It's a well-known dog."),
    "moses-aggressive": ("en", "It &apos;s a well @-@ known dog .", "It's a well-known dog."),
    "mecab": ("ja", "私 は BLEU を 知る 。", "私はBLEUを知る。"),
    "kytea": ("ja", "私 は BLEU を 知 る 。", "私はBLEUを知る。"),
    "jieba": ("zh", "我 喜欢 猫 。", "我喜欢猫。"),
}


@pytest.mark.parametrize("tokenizer", TOKENS)
def test_tokens_become_text(tokenizer, folder):
    lang, tokens, text = TOKENS[tokenizer]
    write(folder / "one.txt", [text])
    write_generated(folder / "out.txt", [tokens])
    flags = ["--tokenizer", tokenizer, "--subwords", "none", "--hypotheses-out", "hyp.txt"]
    if lang == "ja":
        pytest.importorskip("MeCab")
        pytest.importorskip("ipadic")
    assert bleu(*GENERATED, *flags, lang=lang, reference="one.txt") == pytest.approx(100)
    assert Path("hyp.txt").read_text() == f"{text}\n"


def test_every_tokenizer_can_be_undone():
    assert set(KINDS) == set(TOKENS)


@pytest.mark.parametrize(
    ("kind", "subwords", "words"),
    [
        ("sentencepiece", "\u2581It ' s \u2581a \u2581do g .", "It's a dog."),
        ("sentencepiece", "\u2581 It \u2581 \u2581is", "It  is"),
        ("sentencepiece", "", ""),
        ("sentencepiece", "\u2581", ""),
        ("subword-nmt", "It &ap@@ os@@ ;s a d@@ o@@ g .", "It &apos;s a dog ."),
        ("subword-nmt", "do@@ g@@", "dog"),
        ("subword-nmt", "", ""),
        ("none", "a@@ \u2581b", "a@@ \u2581b"),
    ],
)
def test_subwords(kind, subwords, words):
    assert join_subwords(subwords, kind) == words


@pytest.mark.parametrize("kind", ["sentencepiece", "subword-nmt"])
def test_subwords_of_a_real_model(kind, folder):
    """Subwords of a model trained here are the text again."""
    text = write(folder / "train.txt", [*REFERENCE, *HYPOTHESES] * 3)
    if kind == "sentencepiece":
        import sentencepiece

        sentencepiece.SentencePieceTrainer.train(
            input=str(text), model_prefix="spm", vocab_size=45, minloglevel=2
        )
        model = sentencepiece.SentencePieceProcessor(model_file="spm.model")
        pieces, tokenizer = [" ".join(model.encode(s, out_type=str)) for s in HYPOTHESES], "none"
    else:
        from subword_nmt.apply_bpe import BPE
        from subword_nmt.learn_bpe import learn_bpe

        with open("train.txt", encoding="utf-8") as lines, open("codes", "w") as codes:
            learn_bpe(lines, codes, 10)
        with open("codes", encoding="utf-8") as codes:
            model = BPE(codes)
        pieces, tokenizer = [model.process_line(s) for s in MOSES], "moses"
    assert any(len(a.split()) > len(b.split()) for a, b in zip(pieces, MOSES, strict=True))
    write_generated(folder / "out.txt", pieces)
    score(*GENERATED, "--subwords", kind, "--tokenizer", tokenizer, "--hypotheses-out", "hyp.txt")
    assert Path("hyp.txt").read_text().split("\n") == [*HYPOTHESES, ""]


def test_the_best_of_several_hypotheses(folder):
    best = "It's a small dog, isn't it?"
    lines = ["S-0\tx", f"H-0\t-0.1\t{best}", "D-0\t-0.1\tx", "P-0\t-1", "H-0\t-0.2\tworse"]
    write(folder / "out.txt", [*lines, "D-0\t-0.2\tx", "P-0\t-1"])
    write(folder / "one.txt", [best])
    assert bleu(*GENERATED, *WORDS, reference="one.txt") == pytest.approx(100)


def test_h_lines_alone_and_hypotheses_without_tokens(folder):
    lines = [f"H-0\t-0.1\t{HYPOTHESES[0]}", "H-1\t-0.1\t", "H-3\t-0.1", "H-2\t-0.1\tb\tc"]
    write(folder / "out.txt", lines)
    result = score(*GENERATED, *WORDS, "--hypotheses-out", "hyp.txt")
    assert Path("hyp.txt").read_text() == f"{HYPOTHESES[0]}\n\nb\tc\n\n"
    assert (result["sentences"], result["missing"]) == (4, 0)


def test_nothing_translated_scores_zero(folder):
    write_generated(folder / "out.txt", ["", "", "", ""])
    for tokenizer in ("none", "moses"):
        result = score(*GENERATED, "--subwords", "sentencepiece", "--tokenizer", tokenizer)
        assert [found["value"] for found in result["scores"].values()] == [0, 0]


def test_no_common_sequence_of_four_tokens_is_zero_in_multi_bleu(folder):
    """And not quite zero in sacrebleu, which smooths."""
    write(folder / "hyp.txt", ["a b c x d e f"])
    write(folder / "one.txt", ["a b c y d e f"])
    result = score("--hypotheses", "hyp.txt", reference="one.txt")["scores"]
    assert multi_bleu(["a b c x d e f"], ["a b c y d e f"]) == 0
    assert result["tokenised_bleu"]["value"] == 0 and result["bleu"]["value"] > 10


def test_lines_end_at_newlines_only(folder):
    """Python's splitlines would find more lines than sacrebleu does."""
    odd = ["one\u2028two three four", "five\x0bsix seven\x85 eight", "nine\x1cten\x0celeven"]
    write(folder / "odd.txt", odd)
    hypotheses = write(folder / "hyp.txt", [odd[0], "five six seven eight", odd[2]])
    expected, _ = sacrebleu_command(hypotheses, folder / "odd.txt")
    result = score("--hypotheses", "hyp.txt", reference="odd.txt")
    assert result["sentences"] == 3
    assert result["scores"]["bleu"]["value"] == pytest.approx(expected, abs=1e-8)

    write_generated(folder / "out.txt", odd)
    assert bleu(*GENERATED, *WORDS, reference="odd.txt") == pytest.approx(100)


def test_windows_line_ends_and_a_missing_last_newline(folder):
    (folder / "hyp.txt").write_bytes("\r\n".join(REFERENCE).encode())
    assert bleu("--hypotheses", "hyp.txt", "--hypotheses-out", "out.txt") == pytest.approx(100)
    assert Path("out.txt").read_text().split("\n") == [*REFERENCE, ""]


def test_missing_translations_can_count_as_empty(folder, capsys):
    write_generated(folder / "out.txt", HYPOTHESES, order=[3, 0])
    write(folder / "hyp.txt", [HYPOTHESES[0], "", "", HYPOTHESES[3]])
    result = score(*GENERATED, *WORDS, "--missing", "empty")
    assert result["missing"] == 2
    assert "sentences: 4 (2 missing, scored as empty)" in capsys.readouterr().out
    assert result["scores"] == score("--hypotheses", "hyp.txt")["scores"]


def test_chinese_is_segmented_by_sacrebleu(folder, capsys):
    write(folder / "zh.txt", ["你好,世界和平 2024。", "我喜欢猫。"])
    hypotheses = write(folder / "hyp.txt", ["你好,世界 2024。", "我喜欢狗。"])
    expected, signature = sacrebleu_command(hypotheses, folder / "zh.txt", "-l", "en-zh")
    assert "tok:zh" in signature
    result = score("--hypotheses", "hyp.txt", lang="zh", reference="zh.txt")
    bleu = {"value": pytest.approx(expected, abs=1e-8), "signature": signature}
    assert result["scores"] == {"bleu": bleu}
    assert "no tokenised BLEU" in capsys.readouterr().out


def test_japanese_is_segmented_by_mecab_or_asks_for_it(folder):
    write(folder / "ja.txt", ["私は猫が好きです。"])
    write(folder / "hyp.txt", ["私は犬が好きです。"])
    try:
        import ipadic  # noqa: F401
        import MeCab  # noqa: F401
    except ImportError:
        with pytest.raises(UserError, match=r"pip install sacrebleu\[ja\]"):
            score("--hypotheses", "hyp.txt", lang="ja", reference="ja.txt")
    else:
        result = score("--hypotheses", "hyp.txt", lang="ja", reference="ja.txt")["scores"]["bleu"]
        assert "tok:ja-mecab" in result["signature"] and 0 < result["value"] < 100


@pytest.mark.parametrize(
    ("tokens", "flags", "warning"),
    [
        ("a do@@ g", "none none", "look like --subwords subword-nmt, not none"),
        ("\u2581a \u2581dog", "none none", "look like --subwords sentencepiece, not none"),
        ("\u2581a \u2581dog", "subword-nmt none", "look like --subwords sentencepiece, not sub"),
        ("a dog", "sentencepiece none", "are their subwords joined already"),
        ("it &apos;s", "none none", "look like --tokenizer moses, not none"),
        ("a dog", "none none", None),
        ("\u2581it ' s", "sentencepiece none", None),
        ("it &apos;s a do@@ g", "subword-nmt moses", None),
    ],
)
def test_flags_that_tokens_contradict(tokens, flags, warning, folder, capsys):
    write(folder / "one.txt", ["a dog"])
    write_generated(folder / "out.txt", [tokens])
    subwords, tokenizer = flags.split()
    score(*GENERATED, "--subwords", subwords, "--tokenizer", tokenizer, reference="one.txt")
    err = capsys.readouterr().err
    assert ("warning: " in err) == (warning is not None)
    assert warning is None or warning in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "give one of --generated OUT"),
        ("--generated out.txt --hypotheses hyp.txt", "give one of --generated OUT"),
        ("--generated out.txt", "--generated needs --subwords and --tokenizer"),
        ("--generated out.txt --subwords none", "--generated needs --tokenizer as well"),
        ("--hypotheses hyp.txt --tokenizer moses", "--tokenizer moses goes with --generated"),
        ("--hypotheses hyp.txt --missing empty", "--missing empty goes with --generated"),
        ("--hypotheses hyp.txt --scores blue", "there is no score 'blue'; choose of bleu, tok"),
        ("--hypotheses hyp.txt --scores bleu,", "there is no score ''"),
        ("--hypotheses hyp.txt --scores bleu,bleu", "--scores: bleu twice"),
        ("--hypotheses hyp.txt --target-lang zh --scores nist_bleu", "not for zh; choose bleu"),
        ("--hypotheses hyp.txt --kytea-model x", "--kytea-model goes with --scores wat_bleu"),
        (
            "--hypotheses hyp.txt --scores wat_bleu --kytea-model x",
            "KyTea model is for wat_bleu into ja, not for wat_bleu into en",
        ),
        (
            "--hypotheses hyp.txt --target-lang ja --scores wat_bleu --kytea-model nowhere",
            "KyTea model nowhere is not a file",
        ),
        ("--generated out.txt --subwords none --tokenizer jieba", "jieba is for zh, not for en"),
        ("--hypotheses nowhere.txt", "nowhere.txt cannot be read: No such file"),
        ("--hypotheses hyp.txt --reference nowhere.txt", "nowhere.txt cannot be read"),
        ("--hypotheses hyp.txt --reference folder", "folder cannot be read: Is a directory"),
        ("--hypotheses hyp.txt --reference empty.txt", "empty.txt is empty"),
        ("--hypotheses empty.txt", "empty.txt is empty"),
        ("--hypotheses latin.txt", "latin.txt, line 2: not UTF-8 .byte 0xe9"),
        ("--hypotheses three.txt", "three.txt has 3 lines, the reference ref.txt has 4"),
        ("--generated killed.txt", "killed.txt has no H- lines"),
        ("--generated cut.txt", "cut.txt, line 2: not a complete H- line: 'H-1'"),
        ("--generated gaps.txt", "3 of 4 sentences have no hypothesis .*: 0, 2, 3. Was"),
        ("--generated many.txt --reference long.txt", "7 of 9 sentences .*: 2, 3, 4, 5, 6, ..."),
        ("--generated beyond.txt", "reference has 4 lines, but 1 hypotheses .*: 4; is it"),
        ("--generated twice.txt", "twice.txt, line 6: sentence 0 again"),
        ("--generated apart.txt", "apart.txt, line 3: sentence 0 again"),
        ("--hypotheses hyp.txt --json ref.txt", "--json ref.txt: ref.txt is one of the inputs"),
        ("--hypotheses hyp.txt --hypotheses-out ./hyp.txt", "is one of the inputs"),
        ("--hypotheses hyp.txt --json x --hypotheses-out x", "--json writes there too"),
        ("--hypotheses hyp.txt --json nowhere/x", "there is no directory nowhere"),
        ("--hypotheses hyp.txt --json folder", "--json folder is a directory"),
    ],
)
def test_faults(arguments, message, folder):
    write(folder / "hyp.txt", HYPOTHESES)
    write(folder / "three.txt", HYPOTHESES[:3])
    write(folder / "long.txt", ["x"] * 9)
    (folder / "empty.txt").write_bytes(b"")
    (folder / "latin.txt").write_bytes("one\ncaf\xe9\n".encode("latin-1"))
    (folder / "folder").mkdir()
    write_generated(folder / "out.txt", HYPOTHESES)
    write(folder / "killed.txt", ["S-0\tx"])
    write(folder / "cut.txt", ["H-0\t-0.1\tx", "H-1"])
    write(folder / "gaps.txt", ["H-1\t-0.1\tx"])
    write(folder / "many.txt", ["H-1\t-0.1\tx", "H-0\t-0.1\tx"])
    write(folder / "beyond.txt", [f"H-{i}\t-0.1\tx" for i in range(5)])
    write(folder / "twice.txt", ["S-0\tx", "H-0\t-1\tx", "D-0\t-1\tx", "P-0\t-1", "", "S-0\tx"])
    write(folder / "apart.txt", ["H-0\t-0.1\tx", "H-1\t-0.1\tx", "H-0\t-0.1\tx"])
    # Arguments that come later prevail.
    default = ["--reference", "ref.txt", "--target-lang", "en", "--json", "old.json"]
    files = [] if "out.txt" in arguments or "--generated" not in arguments else WORDS
    (folder / "old.json").write_text("kept")
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with pytest.raises(UserError, match=message):
        main(["score", *default, *files, *arguments.split()])
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_on_the_command_line(folder):
    """Standard output has the scores and nothing else; a fault is a message."""
    write(folder / "hyp.txt", HYPOTHESES)
    flags = ["score", "--hypotheses", "hyp.txt", "--target-lang", "en", "--reference"]
    done = run("fairseq-hybrid", *flags, "ref.txt", cwd=folder)
    bleu, signature = sacrebleu_command(folder / "hyp.txt", folder / "ref.txt")
    lines = done.stdout.split("\n")
    assert len(lines) == 6 and lines[0] == "sentences: 4" and lines[2] == f"  {signature}"
    assert lines[1].startswith(f"BLEU = {bleu:.2f} ") and lines[3].startswith("tokenised BLEU = ")

    done = run("fairseq-hybrid", *flags, "nowhere.txt", cwd=folder, expect=1)
    assert done.stdout == ""
    assert "nowhere.txt cannot be read: No such file or directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert "average" in out and "score" in out


@pytest.mark.parametrize(
    "code, expected", [("en", "en"), ("JA", "ja"), ("zh-CN", "zh"), ("zh_CN", "zh"), ("deu", "deu")]
)
def test_language_codes(code, expected):
    assert language(code) == expected


@pytest.mark.parametrize("code", ["", "e", "english", "e1", "-en"])
def test_no_language_codes(code):
    with pytest.raises(UserError, match="--target-lang"):
        language(code)
