"""Preparing your own text: splitting, odd text, the command and its recipes."""

import gzip
import hashlib
import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from corpora_made import CONFIGS, lines, pairs_of, parts, recipe, sentences, write
from refusals import check_refusals

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.corpora import load_corpus, own_corpus, read_manifest, tokenisers
from fairseq_hybrid_attn.lab.corpora.cleaning import fault
from fairseq_hybrid_attn.lab.corpora.definition import Clean, parse, with_options
from fairseq_hybrid_attn.lab.corpora.held_out import letters
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare
from fairseq_hybrid_attn.lab.corpora.remarks import remarks
from fairseq_hybrid_attn.lab.corpora.words import join_subwords

PAIRS = sentences(300)  # the text of the fixtures
ORDER = {pair: number for number, pair in enumerate(PAIRS)}


def made(folder, output, **changes):
    return prepare(replace(own_corpus(recipe(), folder), **changes), output, workers=1)


def test_pair_of_files_is_split(prepared):
    split = [pairs_of(prepared, part) for part in ("train", "valid", "test")]
    assert [len(found) for found in split] == [270, 15, 15]  # 5 % are held out
    assert sorted(sum(split, [])) == sorted(PAIRS)
    for found in split:
        assert found == sorted(found, key=ORDER.get)  # in the order of the text


def test_result_is_what_fairseq_takes(prepared):
    from fairseq.data import Dictionary, data_utils

    dictionary = Dictionary.load(str(prepared / "bin/dict.en.txt"))
    data = data_utils.load_indexed_dataset(str(prepared / "bin/test.de-en.en"), dictionary)
    subwords = lines(prepared / "subwords/test.en")
    assert [dictionary.string(tokens) for tokens in data] == subwords
    joined = [join_subwords(line, "subword-nmt") for line in subwords]
    assert joined == lines(prepared / "tokenised/test.en")
    assert joined == [line.replace(".", " .") for line in lines(prepared / "raw/test.en")]
    # One dictionary for both sides.
    assert lines(prepared / "bin/dict.de.txt") == lines(prepared / "bin/dict.en.txt")


def test_manifest_lists_all_that_was_made(text, prepared):
    manifest = read_manifest(prepared)
    assert manifest.subwords["learned"] == {"subwords.codes": 30}
    assert {"sacremoses", "subword-nmt", "ve-fairseq"} <= manifest.versions.keys()
    paths = {prepared / name: sha for name, sha in manifest.files.items()}
    paths |= {text / name: sha for name, sha in manifest.archives.items()}
    for path, checksum in paths.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == checksum
    found = {str(p.relative_to(prepared)) for p in prepared.rglob("*") if p.is_file()}
    others = {name for name in found if name.startswith("stages/")} | {".lock", "manifest.json"}
    assert manifest.files.keys() == found - others
    assert str(text) not in (prepared / "manifest.json").read_text()


def test_source_sentences_are_in_one_part_only(no_preprocess, tmp_path):
    pairs = sentences(100)  # twice, with another translation, and with spaces around
    text = pairs + pairs + [(de, f"{en} x") for de, en in pairs] + [(f" {d} ", e) for d, e in pairs]
    manifest = made(write(tmp_path / "text", "x", text), tmp_path / "out")
    split = {part: pairs_of(tmp_path / "out", part) for part in ("train", "valid", "test")}
    sources = [{de.strip() for de, _ in found} for found in split.values()]
    assert [len(found) for found in sources] == [90, 5, 5]
    assert set.union(*sources) == dict(pairs).keys()
    # Held-out sentences have their first translation; training pairs are there once.
    assert manifest.counts == {"train": 180, "valid": 5, "test": 5}
    assert set(split["test"]) < set(pairs)
    assert manifest.dropped["train"] == {"duplicate": 180, "a side held out": 30}


def test_no_sentence_is_in_two_parts(no_preprocess, tmp_path):
    """Sources share translations, which differ in case and punctuation."""
    marks = (".", "!", " .", "?")
    text = [(f"{de[:-1]} {n}.", en[:-1] + marks[n]) for de, en in sentences(100) for n in range(4)]
    text += [(mark * n, mark * n) for mark in "-=" for n in range(1, 31)]  # no letters at all
    made(write(tmp_path / "text", "x", text), tmp_path / "out")
    parts = [pairs_of(tmp_path / "out", part) for part in ("train", "valid", "test")]
    assert len(parts[0]) > 300 and len(parts[1]) == len(parts[2]) == 23
    for side in (0, 1):
        held = [{letters(pair[side]) or pair[side] for pair in part} for part in parts]
        assert not (held[0] & held[1] or held[0] & held[2] or held[1] & held[2])


def test_sizes_of_held_out_sets(text, no_preprocess, tmp_path):
    sizes = {"valid": 7, "test": 3}
    corpus = own_corpus(replace(recipe(), options=sizes), text)
    assert prepare(corpus, tmp_path / "out", workers=1).counts == {"train": 290, **sizes}
    for pairs, said in ((2, "2 different sentences"), (10, "none is left to train on")):
        few = own_corpus(corpus, write(tmp_path / "text", "x", sentences(pairs)))
        with pytest.raises(UserError, match=said):
            prepare(few, tmp_path / "out", workers=1)


def test_pairs_takes_the_same_ones_and_no_other_test_set(no_preprocess, text, tmp_path):
    chosen = {}
    for count in (20, 40):
        corpus = own_corpus(recipe(), text)
        manifest = prepare(with_options(corpus, pairs=count), tmp_path / f"out{count}", workers=1)
        assert manifest.counts == {"train": count, "valid": 15, "test": 15}
        chosen[count] = [ORDER[pair] for pair in pairs_of(tmp_path / f"out{count}", "train")]
        assert chosen[count] == sorted(chosen[count])
    assert set(chosen[20]) < set(chosen[40])
    # Always the same ones, from all over the text.
    assert chosen[20][:5] == [0, 25, 30, 72, 132]


def test_empty_lines_and_characters_that_some_take_for_line_ends(no_preprocess, tmp_path):
    empty = [("", "a"), ("b", " "), ("", "")]
    odd = ("Haus\u2028Baum\x0b\x0c\x85Hund \x1c Katze\u00a0Maus.", "house\rtree dog cat mouse.")
    pairs = sentences(60)
    folder = parts(
        tmp_path / "text",
        train=[odd, *pairs[:20], *empty, *pairs[20:40]],
        valid=empty + pairs[40:50],
        test=[("", "a"), *pairs[50:], odd, ("b", "")],
    )
    out = tmp_path / "out"
    manifest = made(folder, out)
    assert manifest.counts == {"train": 41, "valid": 10, "test": 13}
    assert manifest.dropped == {"train": {"empty side": 3}, "valid": {"empty side": 3}}
    read = (odd[0], "house tree dog cat mouse.")
    assert pairs_of(out, "train") == [read, *pairs[:40]]
    assert pairs_of(out, "test") == [("", "a"), *pairs[50:], read, ("b", "")]
    assert pairs_of(out, "test", "subwords")[0][0] == ""
    tokens = ("Haus Baum Hund Katze Maus .", "house tree dog cat mouse .")
    assert pairs_of(out, "test", "tokenised")[-2] == tokens


def test_text_that_cannot_be_used_is_refused(no_preprocess, tmp_path):
    for content, said in (
        (b"\n", "no usable pairs for valid.*empty side"),
        (b"", "valid has 0 de and 0 en sentences"),
    ):
        folder = parts(tmp_path / said[:9])
        for name in ("valid.de", "valid.en"):
            (folder / name).write_bytes(content)
        with pytest.raises(UserError, match=said):
            made(folder, tmp_path / "out")
        assert read_manifest(tmp_path / "out") is None


def test_text_in_the_output_folder_is_refused(prepared):
    with pytest.raises(UserError, match="which is overwritten"):
        made(prepared / "raw", prepared)


def folder_of(names, tmp_path):
    """A folder with these files, none of them empty."""
    folder = tmp_path / (names or "nothing")
    folder.mkdir(exist_ok=True)
    for name in names.split():
        (folder / name).write_text("x\n")
    return folder


def test_a_text_is_a_folder_or_two_files(tmp_path):
    folder = folder_of("x.en x.txt", tmp_path)
    (folder / "x.de.gz").write_bytes(gzip.compress(b"x\n"))
    for where in (folder, [folder / "x.en", folder / "x.de.gz"]):
        archives = own_corpus(recipe(), where).archives
        assert [archive.path.name for archive in archives] == ["x.de.gz", "x.en"]
    unclear = (
        ("x.txt x.csv", "pairs found: none"),
        ("x.de", "pairs found: none"),
        ("x.de x.en y.de y.en", "pairs found: x, y"),
        ("x.de x.en x.fr", "x: de en fr"),
        ("train.de train.en valid.de valid.en", "pairs found: train, valid"),
        ("train.de train.en valid.de valid.en test.de test.fr", "test: de fr"),
        ("x.de x.de.gz x.en", "remove one"),
    )
    check_refusals(unclear, lambda names: own_corpus(recipe(), folder_of(names, tmp_path)))
    folder = folder_of("x.de x", tmp_path)
    with pytest.raises(UserError, match="such as x.en"):
        own_corpus(recipe(), [folder / "x.de", folder / "x"])


def test_direction(tmp_path):
    for name, languages, asked, expected in (
        ("own", "de en", {}, ("de", "en")),
        ("own", "ja en", {"source_lang": "en"}, ("en", "ja")),
        ("own", "ja en", {"target_lang": "ja"}, ("en", "ja")),
        ("wmt14.en-de.hysan", "cs en", {}, ("en", "cs")),
        ("own", "fr cs", {"source_lang": "fr"}, ("fr", "cs")),
    ):
        folder = folder_of(" ".join(f"x.{language}" for language in languages.split()), tmp_path)
        found = own_corpus(load_corpus(name, CONFIGS), folder, **asked)
        assert found.languages == expected, (name, languages)
    for folder, asked, said in (
        ("x.fr x.cs", {}, "--source-lang"),
        ("x.fr x.en", {"source_lang": "de"}, "your text is en and fr"),
        ("x.fr x.en", {"source_lang": "fr", "target_lang": "fr"}, "both fr"),
    ):
        with pytest.raises(UserError, match=said):
            own_corpus(recipe(), folder_of(folder, tmp_path), **asked)


def test_treatment_is_the_recipes_and_words_are_the_languages(tmp_path):
    folder = folder_of("x.ja x.en", tmp_path)
    corpus = own_corpus(load_corpus("iwslt14.de-en.mma", CONFIGS), folder)
    assert corpus.tokenizer == {"ja": "mecab", "en": "moses"}
    assert corpus.lowercase and corpus.subwords.size == 10000
    assert corpus.expect == {} and corpus.valid_every is None
    chinese = folder_of("x.zh_CN x.en_GB", tmp_path)
    corpus = own_corpus(load_corpus("own", CONFIGS), chinese, target_lang="zh_CN")
    assert corpus.tokenizer == {"en_GB": "moses", "zh_CN": "jieba"}
    assert corpus.scores == ("bleu", "word_bleu")
    corpus = own_corpus(load_corpus("wat17.ja-en.mma", CONFIGS), folder)
    assert corpus.tokenizer == {"ja": "none", "en": "none"}


def test_text_whose_tokens_cannot_be_put_together_is_not_tokenised(no_preprocess, tmp_path, capsys):
    """A recipe's own choice stays, with a warning."""
    choose, words = random.Random(1), "हिन्दी भाषा में अनुवाद करना बहुत कठिन है".split()
    hindi = [" ".join(choose.choices(words, k=7)) for _ in range(60)]
    pairs = [(line, f"{number} of seven words in a line") for number, line in enumerate(hindi)]
    folder = write(tmp_path / "text", "x", pairs, ("hi", "en"))
    assert own_corpus(recipe(), folder).tokenizer == {"hi": "none", "en": "moses"}
    assert "Moses' tokens of hi" in capsys.readouterr().err
    made(folder, tmp_path / "out", tokenizer={"hi": "moses", "en": "moses"})
    assert "train.hi: the tokens of moses cannot be put together" in capsys.readouterr().err


def test_lengths_of_a_side_without_spaces_say_nothing(no_preprocess, tmp_path):
    pairs = [("ฉันรักแมว" * (n + 1), "I love " + "many " * n + "cats") for n in range(40)]
    manifest = made(write(tmp_path / "text", "x", pairs, ("th", "en")), tmp_path / "out")
    assert manifest.dropped == {} and sum(manifest.counts.values()) == 40
    assert own_corpus(recipe(), tmp_path / "text", "en").scores == ("bleu",)


def test_text_that_looks_wrong_is_told(no_preprocess, tmp_path, capsys):
    pairs = sentences(60)
    pieces = [(de.replace("a", "a@@ "), en.replace("s", " \u2581s")) for de, en in pairs]
    de, en = pairs[40][0].lower(), pairs[41][1].strip(".")  # each beside other words
    apart = [(de, "x " * len(de.split())), ("y " * len(en.split()), en), pairs[42]]
    for name, text, told in (
        ("right", {}, ""),
        ("subwords", {"train": pieces[:40]}, "train.de looks like subwords of subword-nmt"),
        ("moses", {"test": [("x &apos;s", "y")]}, "test.de looks like words of Moses"),
        ("one", {"valid": [(en, en) for _, en in pairs[40:50]]}, "valid: 10 of 10 pairs are the"),
        ("in train", {"train": apart, "test": pairs[39:50]}, "3 of 11 test sentences stand in"),
    ):
        found = list(remarks(recipe(), parts(tmp_path / name, **text)))
        assert bool(found) == bool(told) and told in "\n".join(found), name
    given = replace(recipe(), tokenizer={"de": "given", "en": "given"})
    assert not list(remarks(given, tmp_path / "moses"))
    made(tmp_path / "in train", tmp_path / "out")
    assert "3 of 11 test sentences stand in" in capsys.readouterr().err


def test_mistakes_get_a_message(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mistakes = (
        ("nothing", "there is no recipe 'nothing'"),
        ("own --text a --text b --text c", "a, b, c: give a folder, or the two files"),
        ("own --target-lang de", "--source-lang and --target-lang need --text"),
    )
    check_refusals(mistakes, lambda args: main(["prepare", *args.split(), "--output", "out"]))
    assert not (tmp_path / "out").exists()


def test_command_reports_what_it_made(text, no_preprocess, tmp_path, capsys):
    output = str(tmp_path / "out")
    main(["prepare", "own", "--text", str(text), "--output", output, "--pairs", "50"])
    said = capsys.readouterr()
    told = "train 50 of 270 (left out: not among --pairs 220), valid 15, test 15"
    assert f"own text, de to en: {told}\n" in said.out
    assert "merges, not 10,000" in said.err
    assert json.loads((tmp_path / "out/manifest.json").read_text())["recipe"]["pairs"] == 50


def test_missing_package_is_reported_before_any_download(tmp_path, monkeypatch):
    tokenisers._cached_tokeniser.cache_clear()
    monkeypatch.setitem(sys.modules, "rjieba", None)
    said = []
    corpus = load_corpus("wmt17.zh-en", CONFIGS)
    with pytest.raises(UserError, match="pip install rjieba"):
        prepare(corpus, tmp_path / "out", say=said.append)
    assert not said


def test_every_recipe_is_valid():
    corpora = [load_corpus(path.stem, CONFIGS) for path in (CONFIGS / "corpora").glob("*.yaml")]
    assert len(corpora) > 10
    for corpus in corpora:
        assert all(one.urls or one.obtain or corpus.licence for one in corpus.archives), corpus.name


def test_faults_of_a_recipe():
    subwords = {"kind": "subword-nmt", "size": 9}
    gold = {"text": {"de": "a", "en": "b"}, "links": "c", "base": 1, "first": "fr"}
    right = {"source": "de", "target": "en", "reader": "own", "subwords": subwords}
    right["tokenizer"] = {"de": "none", "en": "none"}
    for change, said in (
        ({"replace-in-test": {"ab": "c"}}, "ab: use a single character"),
        ({"expect": {"dev": 3}}, "dev: use train, valid or test"),
        ({"reader": "wmt16"}, "reader: wmt16: use iwslt14, wmt14, wmt17, aspec or own"),
        ({"target": "de"}, "same language"),
        ({"target": "fr"}, "tokenizer: no fr"),
        ({"options": {"file": {}}}, "options: file: the reader own has no such option"),
        ({"gold": gold}, "gold: a, b, c: name the file under archives"),
    ):
        with pytest.raises(UserError, match=said):
            parse({**right, **change}, Path("x.yaml"))


def test_cleaning():
    """Cases beyond those of the IWSLT recipes."""
    for source, target, expected in (
        ("a a a", "b", "length ratio"),
        ("a a a", "b b", None),  # 1.5 is not above 1.5
        ("a" * 1000, "b", None),
        ("a" * 1001, "b", "a token too long"),
    ):
        assert fault(source, target, Clean(max_tokens=5, max_ratio=1.5)) == expected
    assert fault("a", "b", Clean(min_tokens=2)) == "too few tokens"
    assert fault("あ" * 1001, "b", Clean(), has_words=(False, True)) is None
