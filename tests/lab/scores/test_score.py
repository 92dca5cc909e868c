"""``score``: against sacrebleu's own command and against BLEU counted by hand."""

import json
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import sacrebleu
from cli import environment
from fairseq.data.data_utils import post_process
from published import RESULTS
from refusals import check_command_refusals, check_refusals
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest
from sacrebleu_command import sacrebleu_command
from written import scores_in

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.config.own_tables import flags_of
from fairseq_hybrid_attn.lab.corpora.words import join_subwords
from fairseq_hybrid_attn.lab.scores.generate_output import read_generated
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
        f"S-{n}\tsource H-0\nH-{n}\t-0.5\t{lines[n]}\nD-{n}\t-0.5\tx\nP-{n}\t-1"
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
    texts = [reference] if isinstance(reference, str) else reference
    flags = ["--reference", *texts, "--target-lang", lang, "--write", "score.json"]
    main(["score", *flags, *arguments])
    return json.loads(Path("score.json").read_text()) | {"scores": scores_in("score.json")}


def generated(subwords="none", tokenizer="none"):
    return ["--generated", "out.txt", "--subwords", subwords, "--tokenizer", tokenizer]


TEXT = ["--hypotheses", "hyp.txt"]
OUT = ["--hypotheses-out", "out.hyp"]


def test_text_scores_as_by_sacrebleus_command(capsys):
    """And as the metrics, whose tests have numbers worked out by hand."""
    write("more.txt", ["It is a small cat, no?", "Hm.", *HYPOTHESES[2:]])
    for references in (["ref.txt"], ["ref.txt", "more.txt"]):
        texts = [Path(path).read_text().split("\n")[:-1] for path in references]
        for flags, theirs in (([], []), (["--lowercase"], ["-lc", "--chrf-lowercase"])):
            names = ["-m", "bleu", "chrf", "ter"]
            reports = sacrebleu_command(*references, "-i", "hyp.txt", *names, *theirs)
            found = score(*TEXT, *flags, reference=references)
            words = build_metric("tokenised_bleu", "en", bool(flags)).score(HYPOTHESES, *texts)
            assert found["scores"]["tokenised_bleu"]["value"] == words.value
            kinds = [of["counts"]["kind"] for of in found["scores"].values()]
            assert kinds == ["bleu", "chrf", "ter", "bleu_unsmoothed"]
            del found["scores"]["tokenised_bleu"]
            printed = iter(capsys.readouterr().out.splitlines())
            assert next(printed) == "sentences: 4"
            for (name, ours), report in zip(found.pop("scores").items(), reports, strict=True):
                assert ours["value"] == pytest.approx(report["score"], abs=1e-8), name
                assert ours["signature"] == report["signature"]
                assert next(printed).startswith(f"{report['name']} = {report['score']:.2f}")
                assert next(printed).startswith("  ± ")
                assert next(printed) == f"  {report['signature']}"
            assert (found["sentences"], found["missing"]) == (4, 0)
            assert found["versions"]["sacrebleu"] == sacrebleu.__version__


def test_scores_are_those_asked_for_in_that_order():
    names = ["wat_bleu", "nist_bleu", "compound_split_bleu"]
    found = score(*TEXT, "--scores", ", ".join(names))["scores"]
    expected = {name: build_metric(name, "en").score(HYPOTHESES, REFERENCE).value for name in names}
    assert list(found) == names and len(set(expected.values())) == 3
    assert {name: one["value"] for name, one in found.items()} == expected


def test_moses_tokens_and_their_subwords_score_as_the_text_they_stand_for():
    """In any order of sentences."""
    pieces = [line.replace("e", "e@@ ").replace("@@  ", " ") for line in MOSES]
    for kind, tokens in (("none", MOSES), ("subword-nmt", pieces)):
        write_generated(tokens, random.sample(range(4), 4))
        result = score(*generated(kind, "moses"), *OUT)
        assert Path("out.hyp").read_text().split("\n") == [*HYPOTHESES, ""], kind
        assert result["scores"] == score("--hypotheses", "out.hyp")["scores"]


def read_output(lines, *references, subwords="none", tokenizer="none"):
    """The text of lines that fairseq-generate has printed, and how many sentences are missing."""
    write("out.txt", lines)
    return read_generated(Path("out.txt"), references or [REFERENCE], subwords, tokenizer, "en")


def test_the_best_of_several_hypotheses_and_those_without_tokens():
    lines = [f"H-0\t-0.1\t{HYPOTHESES[0]}", "D-0\t-0.1\tx", "P-0\t-1", "H-0\t-0.2\tworse"]
    lines += ["D-0\t-0.2\tx", "H-1\t-0.1\t", "H-3\t-0.1", "H-2\t-0.1\tb\tc"]
    assert read_output(lines) == ([HYPOTHESES[0], "", "b\tc", ""], 0)


def test_missing_translations_can_count_as_empty():
    write_generated(HYPOTHESES, order=[3, 0])
    write("gaps.txt", [HYPOTHESES[0], "", "", HYPOTHESES[3]])
    result = score(*generated(), "--missing", "empty")
    assert result["missing"] == 2
    assert result["scores"] == score("--hypotheses", "gaps.txt")["scores"]
    write_generated([""] * 4)  # nothing translated
    result = score(*generated("sentencepiece", "moses"))
    assert [found["value"] for found in result["scores"].values()] == [0, 0, 100, 0]


def test_translations_of_empty_sources_are_empty():
    lines = ["S-1\t", "H-1\t-1\twords of nothing", "H-1\t-2\tx", "S-0\ta", "H-0\t-1\tb c"]
    lines += ["S-3\t\u3000", "H-3\t-1\tx", "S-2", "H-2\t-1\tx"]
    assert read_output(lines) == (["b c", "", "", ""], 0)


def test_flags_that_tokens_contradict(capsys):
    for tokens, subwords, tokenizer, warning in (
        ("a do@@ g", "none", "none", "--subwords subword-nmt, not none"),
        ("\u2581a \u2581dog", "subword-nmt", "none", "--subwords sentencepiece, not subword-nmt"),
        ("a dog", "sentencepiece", "none", "joined already"),
        ("it &apos;s", "none", "none", "--tokenizer moses, not none"),
        ("a dog", "none", "none", None),
        ("\u2581it ' s", "sentencepiece", "none", None),
        ("it &apos;s a do@@ g", "subword-nmt", "moses", None),
    ):
        read_output([f"H-0\t-1\t{tokens}"], ["a dog"], subwords=subwords, tokenizer=tokenizer)
        err = capsys.readouterr().err
        assert warning in err if warning else not err, (tokens, subwords, tokenizer)
    for text in ("a do@@ g", "it &apos;s"):
        write("hyp.txt", [text])
        score(*TEXT, reference="hyp.txt")
        assert "hyp.txt looks like" in capsys.readouterr().err
        score(*TEXT, "--scores", "given_bleu", reference="hyp.txt")
        assert not capsys.readouterr().err


def test_empty_hypotheses_are_told(capsys):
    write("gap.txt", [HYPOTHESES[0], "", " ", HYPOTHESES[3]])  # of an empty reference, too
    score("--hypotheses", "gap.txt")
    assert "gap.txt has 1 empty lines: 3\n" in capsys.readouterr().err


def test_the_targets_of_the_output_are_those_of_the_reference(capsys):
    """In any case and with any quotes, and with unknown words."""
    told = "He said: \u201cThe well-known book costs $5 & more.\u201d"
    typed = [REFERENCE[0].upper(), "", told, REFERENCE[3]]
    targets = [*MOSES[:3], "<<unk>> <<unk>> lives in Berlin since 1999 ."]
    pairs = enumerate(zip(targets, MOSES, strict=True))
    lines = [f"T-{n}\t{theirs}\nH-{n}\t-1\t{ours}" for n, (theirs, ours) in pairs]
    for reference in (REFERENCE, typed):
        read_output(lines, reference, tokenizer="moses")
    others = ["Stocks fell sharply.", "", "Parliament voted in favour of the new law.", "He left"]
    read_output(lines, others, REFERENCE, tokenizer="moses")  # one of several
    assert not capsys.readouterr().err
    with pytest.raises(UserError, match="sentence 0 .*small cat.*Stocks fell"):
        read_output(lines, others, tokenizer="moses")


def test_hypotheses_that_were_forced(capsys):
    lines = [f"T-{n}\t{line}\nH-{n}\t-1\t{line}" for n, line in enumerate(REFERENCE)]
    read_output(lines)
    assert "--score-reference or --prefix-size" in capsys.readouterr().err
    read_output([*lines[:3], f"T-3\t{REFERENCE[3]}\nH-3\t-1\tMr. Smith"])
    assert not capsys.readouterr().err


def test_comet_is_the_mean_of_its_sentences(monkeypatch, capsys):
    """The package is not installed here: a model that counts characters stands for one."""
    write("src.txt", ["q", "qq", "q", "q"])
    flags = [*TEXT, "--scores", "bleu", "--source", "src.txt", "--comet"]
    with pytest.raises(UserError, match=r"fairseq-hybrid-attn\[comet\]"):
        score(*flags, "model.ckpt")

    def predict(samples, gpus):
        assert samples[0] == {"src": "q", "mt": HYPOTHESES[0], "ref": REFERENCE[0]}
        return SimpleNamespace(scores=[len(sample["src"]) / 2 for sample in samples])

    package = ModuleType("comet")
    package.download_model = {"there": "there.ckpt"}.__getitem__
    package.load_from_checkpoint = lambda path: SimpleNamespace(predict=predict)
    monkeypatch.setitem(sys.modules, "comet", package)
    monkeypatch.setattr("fairseq_hybrid_attn.lab.scores.comet.version", lambda package: "2")
    found = score(*flags, "there")
    comet = found["scores"]["comet"]
    assert (comet["value"], comet["signature"]) == (5 / 8, "model:there|version:2")
    assert "COMET = 0.6250\n  ± " in capsys.readouterr().out
    assert comet["counts"]["rows"] == [[0.5, 1], [1, 1], [0.5, 1], [0.5, 1]]


def test_languages_without_spaces_are_segmented_by_sacrebleu():
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
        found = score(*TEXT, lang=lang, reference="one.txt")["scores"]
        bleu = found["bleu"]
        assert (bleu["value"], bleu["signature"]) == (value, report["signature"])
        assert list(found) == ["bleu", "chrf"]  # of words, not: there are no spaces


def test_refusals():
    write_generated(HYPOTHESES)
    write("three.txt", HYPOTHESES[:3])
    command = ["score", "--reference", "ref.txt", "--target-lang", "en", "--write", "old.json"]
    text = "--hypotheses hyp.txt"
    check_command_refusals(
        [
            ("--generated out.txt", "--subwords and --tokenizer"),
            ("--generated out.txt --subwords none", "needs --tokenizer"),
            ("--generated out.txt --subwords none --tokenizer jieba", "jieba is for zh"),
            (
                "--generated out.txt --subwords none --tokenizer none --scores given_bleu",
                "--tokenizer given",
            ),
            (f"{text} --tokenizer moses", "--generated"),
            (f"{text} --scores blue", "'blue'"),
            (f"{text} --scores bleu,bleu", "bleu twice"),
            *(
                (f"{text} --target-lang zh --scores {name}", "not for zh; choose bleu")
                for name in ("ter", "tokenised_bleu", "compound_split_bleu", "nist_bleu")
            ),
            (f"{text} --target-lang de --scores wat_bleu", "not into de"),
            (f"{text} --comet model", "--comet needs --source"),
            (f"{text} --source ref.txt", "--source is for"),
            (f"{text} {text}", "hyp.txt is given twice"),
            (f"{text} --baseline other", "--baseline"),
            (f"{text} --reference ref.txt three.txt", "reference 2: 3 lines"),
            ("--hypotheses three.txt", "three.txt: 3 lines, but the reference has 4"),
        ],
        *command,
    )


#: Output that was cut off, or is not of the four sentences of the reference.
WRONG = [
    (["S-0\tx"], "no H- lines"),
    (["H-0\t-0.1\tx", "H-1"], "line 2: .*'H-1'"),
    (["H-1\t-0.1\tx"], "3 of 4 sentences .*: 0, 2, 3"),
    ([f"H-{i}\t-0.1\tx" for i in range(5)], "4 lines, but 1 hypotheses .*: 4"),
    (["S-0\tx", "H-0\t-1\tx", "D-0\t-1\tx", "P-0\t-1", "", "S-0\tx"], "line 6: sentence 0"),
    (["H-0\t-0.1\tx", "H-1\t-0.1\tx", "H-0\t-0.1\tx"], "line 3: sentence 0"),
]


@pytest.mark.parametrize("lines, told", WRONG)
def test_output_that_does_not_fit_is_refused(lines, told):
    with pytest.raises(UserError, match=told):
        read_output(lines)


def test_language_codes():
    codes = {"en": "en", "JA": "ja", "zh-CN": "zh", "zh_CN": "zh", "deu": "deu"}
    codes |= {"jpn": "ja", "zho": "zh", "yue": "zh", "kor": "ko"}  # scored as English otherwise
    assert [language(code) for code in codes] == list(codes.values())
    wrong = [(code, "--target-lang") for code in ("", "e", "english", "e1", "-en")]
    check_refusals(wrong, language)
    chinese = [build_metric("bleu", code).score(["我们好"], ["我们好"]) for code in ("zh", "zh_CN")]
    assert chinese[0] == chinese[1] and "tok:zh" in chinese[0].signature


def test_subwords_are_joined_as_by_fairseq():
    for line in ("a b@@ c d@@", "@@ a@@ b", "▁a b ▁c ▁ ▁d", "▁ a", "", " a  b ", "a@@b c@ d"):
        for kind in ("none", "subword-nmt", "sentencepiece"):
            assert join_subwords(line, kind) == post_process(line, kind.replace("-", "_"))


def test_scores_and_tables_load_no_fairseq():
    """It takes seconds."""
    write_generated(MOSES)
    commands = (
        ["score", "--reference", "ref.txt", "--target-lang", "en", *generated(tokenizer="moses")],
        ["table", "evidence/rates", "--output", str(RESULTS)],
    )
    program = f"""import sys
from fairseq_hybrid_attn.lab.commands.command_line import main
for words in {commands}:
    main(words)
print({{"fairseq", "torch"}} & sys.modules.keys())
"""
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, env=environment(), check=True)
    assert "BLEU = " in done.stdout and done.stdout.endswith("\nset()\n")


def corrupted(lines: list[str], share: float, seed: int) -> list[str]:
    choose = random.Random(seed)
    return [" ".join(w for w in line.split() if choose.random() > share) for line in lines]


@pytest.fixture
def systems():
    """Flags of three systems, the last of two seeds, on a reference that is long enough."""
    choose = random.Random(0)
    words = "the a dog cat man sees runs in of park house . , quickly red old".split()
    reference = [" ".join(choose.choices(words, k=choose.randint(5, 15))) for _ in range(200)]
    write("ref.txt", reference)
    flags = []
    for name, share in {"base": 0.1, "same": 0.1, "worse": 0.2}.items():
        for seed in (1, 2)[: 1 + (name == "worse")]:
            write(f"{name}{seed}", corrupted(reference, share, seed))
            flags += ["--hypotheses", f"{name}={name}{seed}"]
    return flags


def compare(*arguments):
    flags = ["--reference", "ref.txt", "--target-lang", "en", "--write", "table.json"]
    main(["score", *flags, *arguments])
    return json.loads(Path("table.json").read_text())


def test_several_systems_are_compared_as_by_sacrebleu(systems):
    found = compare(*systems[:4], "--hypotheses", "worse=worse1")
    texts = {name: Path(f"{name}1").read_text().split("\n")[:-1] for name in ("base", "worse")}
    metrics = {"bleu": BLEU(), "chrf": CHRF(), "ter": TER()}
    references = [Path("ref.txt").read_text().split("\n")[:-1]]
    _, theirs = PairedTest(list(texts.items()), metrics, references, test_type="bs")()
    assert [head["name"] for head in found["columns"]] == list(metrics)
    for number, system in enumerate(texts):
        ours = {one["score"]: one["ours"] for one in found["numbers"] if one["row"] == system}
        for name in metrics:
            their = theirs[next(key for key in theirs if key.lower().startswith(name))][number]
            assert ours[name]["value"] == pytest.approx(their.score, abs=0.005)
            assert ours[name]["half"] == pytest.approx(their.ci, rel=0.1)
    same = next(one for one in found["numbers"] if one["row"] == "same")
    assert (same["difference"]["value"], same["difference"]["p"]) == (0, 1)


def test_seeds_the_baseline_and_pairs(systems, capsys):
    found = compare(*systems, "--baseline", "worse", "--pairs", "--scores", "chrf")
    base, _, worse = found["numbers"]
    assert list(worse["ours"]["by_seed"]) == ["1", "2"] and worse["difference"] is None
    alone, seeds = base["ours"]["value"], worse["ours"]["by_seed"]  # one file is beside each seed
    gains = {seed: pytest.approx(alone - of_seed) for seed, of_seed in seeds.items()}
    assert base["difference"]["by_seed"] == gains and len(set(seeds.values())) == 2
    gain = pytest.approx(worse["ours"]["value"] - alone)
    pairs = {one["row"]: one["difference"]["value"] for one in found["pairs"]}
    assert pairs == {"same - base": 0, "worse - base": gain, "worse - same": gain}
    assert "worse - same" in capsys.readouterr().out


def test_a_flag_that_is_given_twice_loses_none():
    for flags in ("--target-lang de", "--scores bleu --scores ter", "--generated out.txt"):
        with pytest.raises(SystemExit) as ended:
            score(*TEXT, *flags.split())
        assert ended.value.code == 2
    with pytest.raises(UserError, match="--dropout is given twice"):
        flags_of(["--dropout", "0.1", "--dropout", "0.2"])
