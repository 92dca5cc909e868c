"""One's own text, hard cases, and runs that are stopped, on texts of a few hundred words."""

import contextlib
import gzip
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from cli import command, environment, run_forked
from corpora_made import CONFIGS, lines, pairs_of, parts, recipe, remade, sentences, write

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.corpora import (
    load_corpus,
    own_corpus,
    pipeline,
    prepare,
    read_manifest,
)
from fairseq_hybrid_attn.lab.corpora.cleaning import fault
from fairseq_hybrid_attn.lab.corpora.definition import Clean, parse, with_options
from fairseq_hybrid_attn.lab.corpora.subwords import sampled
from fairseq_hybrid_attn.lab.engine.stages import Stage, Workshop


def hide(monkeypatch, module):
    """As if a module were not installed."""
    monkeypatch.setitem(sys.modules, module, None)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write(tmp_path_factory.mktemp("text"), "x", sentences(300))


@pytest.fixture(scope="module")
def undisturbed(text, tmp_path_factory):
    """A run that nothing happened to."""
    output = tmp_path_factory.mktemp("undisturbed") / "out"
    prepare(own_corpus(recipe(), text), output, workers=1)
    return output


def state(folder):
    """Every file with its content and its time."""
    return {
        path.relative_to(folder): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


# -- A pair of files -------------------------------------------------------------------------


def test_pair_of_files_is_split(text, undisturbed):
    split = {part: pairs_of(undisturbed, part) for part in ("train", "valid", "test")}
    assert {part: len(pairs) for part, pairs in split.items()} == {
        "train": 270,
        "valid": 15,  # 5 % of 300
        "test": 15,
    }
    assert sorted(sum(split.values(), [])) == sorted(sentences(300))
    # In the order of the text.
    order = {pair: number for number, pair in enumerate(sentences(300))}
    for pairs in split.values():
        assert [order[pair] for pair in pairs] == sorted(order[pair] for pair in pairs)


def test_result_is_what_fairseq_takes(undisturbed):
    from fairseq.data import Dictionary, data_utils

    dictionary = Dictionary.load(str(undisturbed / "bin/dict.en.txt"))
    data = data_utils.load_indexed_dataset(str(undisturbed / "bin/test.de-en.en"), dictionary)
    subwords = lines(undisturbed / "subwords/test.en")
    assert [dictionary.string(tokens) for tokens in data] == subwords
    joined = [f"{line} ".replace("@@ ", "").rstrip() for line in subwords]
    assert joined == lines(undisturbed / "tokenised/test.en")
    assert joined == [line.replace(".", " .") for line in lines(undisturbed / "raw/test.en")]


def test_manifest(text, undisturbed):
    manifest = read_manifest(undisturbed)
    assert (manifest.corpus, manifest.own) == ("own", True)
    assert (manifest.source, manifest.target) == ("de", "en")
    assert manifest.subwords["kind"] == "subword-nmt"
    assert manifest.subwords["learned"] == {"subwords.codes": 30}
    assert {"sacremoses", "subword-nmt", "ve-fairseq"} <= manifest.versions.keys()
    for name, checksum in manifest.files.items():
        assert hashlib.sha256((undisturbed / name).read_bytes()).hexdigest() == checksum
    assert manifest.archives["x.de"] == hashlib.sha256((text / "x.de").read_bytes()).hexdigest()
    made = {str(p.relative_to(undisturbed)) for p in undisturbed.rglob("*") if p.is_file()}
    others = {name for name in made if name.startswith("stages/")} | {".lock", "manifest.json"}
    assert manifest.files.keys() == made - others


def test_again_changes_nothing(text, undisturbed):
    before, said = state(undisturbed), []
    folders = {path: path.stat().st_mtime_ns for path in undisturbed.rglob("*") if path.is_dir()}
    prepare(own_corpus(recipe(), text), undisturbed, workers=2, say=said.append)
    assert state(undisturbed) == before
    assert folders == {path: path.stat().st_mtime_ns for path in folders}
    assert not said


def test_elsewhere_and_with_more_workers_it_is_the_same(text, undisturbed, tmp_path):
    copied = write(tmp_path / "elsewhere", "x", sentences(300))
    manifest = prepare(own_corpus(recipe(), copied), tmp_path / "out", workers=3)
    assert (tmp_path / "out/manifest.json").read_bytes() == (
        undisturbed / "manifest.json"
    ).read_bytes()
    assert manifest == read_manifest(undisturbed)


def test_source_sentences_are_in_one_part_alone(no_preprocess, tmp_path):
    # Each source sentence four times: twice the same, once with another translation, once
    # with spaces around it.
    pairs = sentences(100)
    text = pairs + pairs + [(de, f"{en}!") for de, en in pairs] + [(f" {d} ", e) for d, e in pairs]
    corpus = own_corpus(recipe(), write(tmp_path / "text", "x", text))
    manifest = prepare(corpus, tmp_path / "out", workers=1)
    split = {part: pairs_of(tmp_path / "out", part) for part in ("train", "valid", "test")}
    sources = {part: {de.strip() for de, _ in found} for part, found in split.items()}
    assert {part: len(found) for part, found in sources.items()} == {
        "train": 90,
        "valid": 5,
        "test": 5,
    }
    assert sources["train"] | sources["valid"] | sources["test"] == dict(pairs).keys()
    # Held-out sentences have their first translation; training pairs are there once.
    assert manifest.counts == {"train": 180, "valid": 5, "test": 5}
    assert set(split["test"]) < set(pairs)
    assert manifest.dropped["train"] == {
        "duplicate": 180,
        "source sentence in test": 15,
        "source sentence in valid": 15,
    }


def test_sizes_of_the_recipe(no_preprocess, text, tmp_path):
    corpus = replace(recipe(), options={"valid": 7, "test": 3})
    manifest = prepare(own_corpus(corpus, text), tmp_path / "out", workers=1)
    assert manifest.counts == {"train": 290, "valid": 7, "test": 3}


def test_too_little_text(no_preprocess, tmp_path):
    corpus = own_corpus(recipe(), write(tmp_path / "text", "x", sentences(2)))
    with pytest.raises(UserError, match="2 different sentences"):
        prepare(corpus, tmp_path / "out", workers=1)
    corpus = replace(recipe(), options={"valid": 20, "test": 20})
    corpus = own_corpus(corpus, write(tmp_path / "text", "x", sentences(40)))
    with pytest.raises(UserError, match="none is left to train on"):
        prepare(corpus, tmp_path / "out", workers=1)


def test_pairs_takes_the_same_ones_and_no_other_test_set(no_preprocess, text, tmp_path):
    found = {}
    for count in (20, 40):
        corpus = own_corpus(recipe(), text, pairs=count)
        manifest = prepare(corpus, tmp_path / f"out{count}", workers=1)
        assert manifest.counts == {"train": count, "valid": 15, "test": 15}
        found[count] = pairs_of(tmp_path / f"out{count}", "train")
    assert set(found[20]) < set(found[40])
    assert found[20] != sorted(found[20])
    order = {pair: number for number, pair in enumerate(sentences(300))}
    assert [order[pair] for pair in found[40]] == sorted(order[pair] for pair in found[40])
    # From all over the text rather than from its beginning.
    assert max(order[pair] for pair in found[20]) > 150


# -- Three parts, and hard text --------------------------------------------------------------


def test_empty_lines(no_preprocess, tmp_path):
    empty = [("", "a"), ("b", " "), ("", "")]
    pairs = sentences(60)
    folder = parts(
        *[tmp_path / "text"],
        train=pairs[:20] + empty + pairs[20:40],
        valid=empty + pairs[40:50],
        test=[("", "a"), *pairs[50:], ("b", "")],
    )
    manifest = prepare(own_corpus(recipe(), folder), tmp_path / "out", workers=1)
    assert manifest.counts == {"train": 40, "valid": 10, "test": 12}
    assert manifest.dropped == {"train": {"empty side": 3}, "valid": {"empty side": 3}}
    assert pairs_of(tmp_path / "out", "train") == pairs[:40]
    assert pairs_of(tmp_path / "out", "test") == [("", "a"), *pairs[50:], ("b", "")]
    assert pairs_of(tmp_path / "out", "test", "subwords")[0][0] == ""


@pytest.mark.parametrize("form", ["crlf", "gz", "bom", "no last newline", "two files"])
def test_other_forms_of_the_same_text_give_the_same(form, undisturbed, no_preprocess, tmp_path):
    folder = write(tmp_path / "text", "x", sentences(300), end="\r\n" if form == "crlf" else "\n")
    own = folder
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        if form == "gz":
            path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content))
            path.unlink()
        elif form == "bom":
            path.write_bytes(b"\xef\xbb\xbf" + content)
        elif form == "no last newline":
            path.write_bytes(content[:-1])
        elif form == "two files":
            path.rename(path.with_name(f"of-{path.suffix[1:]}{path.suffix}"))
    if form == "two files":
        own = [folder / "of-en.en", folder / "of-de.de"]
    prepare(own_corpus(recipe(), own), tmp_path / "out", workers=1)
    for kind in ("raw", "tokenised", "subwords"):
        for path in (undisturbed / kind).iterdir():
            assert (tmp_path / "out" / kind / path.name).read_bytes() == path.read_bytes()


def test_characters_that_some_take_for_line_ends(no_preprocess, tmp_path):
    pairs = sentences(60)
    odd = ("Haus\u2028Baum\x0b\x0c\x85Hund \x1c Katze\u00a0Maus.", "house\rtree dog cat mouse.")
    folder = parts(tmp_path / "text", train=[odd, *pairs[:40]], test=[odd, *pairs[50:]])
    manifest = prepare(own_corpus(recipe(), folder), tmp_path / "out", workers=1)
    assert manifest.counts == {"train": 41, "valid": 10, "test": 11}
    assert pairs_of(tmp_path / "out", "test")[0] == (odd[0], "house tree dog cat mouse.")
    tokens = pairs_of(tmp_path / "out", "test", "tokenised")[0]
    assert tokens == ("Haus Baum Hund Katze Maus .", "house tree dog cat mouse .")


def test_different_numbers_of_lines(no_preprocess, tmp_path):
    folder = parts(tmp_path / "text")
    with open(folder / "valid.en", "a") as file:
        file.write("one more\n")
    with pytest.raises(UserError, match=r"valid.de has 10 lines, but .*valid.en has 11"):
        prepare(own_corpus(recipe(), folder), tmp_path / "out", workers=1)
    write(folder, "valid", sentences(10))
    (folder / "valid.en").write_text("one\ntwo\n")
    with pytest.raises(UserError, match=r"valid.de has 10 lines, but .*valid.en has 2"):
        prepare(own_corpus(recipe(), folder), tmp_path / "out", workers=1)


def test_not_utf8(no_preprocess, tmp_path):
    folder = parts(tmp_path / "text")
    content = (folder / "train.de").read_bytes().split(b"\n")
    content[6] = "Straße".encode("latin-1")
    (folder / "train.de").write_bytes(b"\n".join(content))
    with pytest.raises(UserError, match=r"train.de, line 7: not UTF-8 \(byte 0xdf\)"):
        prepare(own_corpus(recipe(), folder), tmp_path / "out", workers=1)
    assert read_manifest(tmp_path / "out") is None


def test_gzip_cut_off(no_preprocess, tmp_path):
    folder = parts(tmp_path / "text")
    content = gzip.compress((folder / "train.en").read_bytes())
    (folder / "train.en").unlink()
    (folder / "train.en.gz").write_bytes(content[:-20])
    with pytest.raises(UserError, match=r"train.en.gz is damaged or cut off"):
        prepare(own_corpus(recipe(), folder), tmp_path / "out", workers=1)


def test_part_without_sentences(no_preprocess, tmp_path):
    folder = parts(tmp_path / "text", valid=[("", "")])
    with pytest.raises(UserError, match="no usable pairs for valid.*empty side"):
        prepare(own_corpus(recipe(), folder), tmp_path / "out", workers=1)
    folder = parts(tmp_path / "text", valid=[])
    with pytest.raises(UserError, match="valid has 0 de and 0 en sentences"):
        prepare(own_corpus(recipe(), folder), tmp_path / "out", workers=1)


# -- Names and languages ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "files, said",
    [
        ([], "pairs found: none"),
        (["x.txt", "x.csv"], "pairs found: none"),
        (["x.de"], "pairs found: none"),
        (["x.txt", "x.csv"], "pairs found: none"),
        (["x.de", "x.en", "y.de", "y.en"], "pairs found: x, y"),
        (["x.de", "x.en", "x.fr"], "x: de en fr"),
        (["train.de", "train.en", "valid.de", "valid.en"], "pairs found: train, valid"),
        (["train.de", "train.en", "valid.de", "valid.en", "test.de", "test.fr"], "test: de fr"),
        (["x.de", "x.de.gz", "x.en"], "remove one"),
    ],
)
def test_unclear_folders(files, said, tmp_path):
    for name in files:
        (tmp_path / name).write_text("x\n")
    with pytest.raises(UserError, match=said):
        own_corpus(recipe(), tmp_path)


@pytest.mark.parametrize(
    "name, languages, asked, expected",
    [
        ("own", "de en", {}, ("de", "en")),
        ("own", "fr en", {}, ("fr", "en")),
        ("own", "ja en", {"source_lang": "en"}, ("en", "ja")),
        ("own", "ja en", {"target_lang": "ja"}, ("en", "ja")),
        ("wmt14.en-de.hysan", "de en", {}, ("en", "de")),
        ("wmt14.en-de.hysan", "cs en", {}, ("en", "cs")),
        ("own", "fr cs", {"source_lang": "fr"}, ("fr", "cs")),
        ("own", "fr cs", {}, "--source-lang"),
        ("own", "fr en", {"source_lang": "de"}, "your text is en and fr"),
        ("own", "fr en", {"source_lang": "fr", "target_lang": "fr"}, "both fr"),
    ],
)
def test_direction(name, languages, asked, expected, tmp_path):
    for language in languages.split():
        (tmp_path / f"x.{language}").write_text("x\n")
    if isinstance(expected, str):
        with pytest.raises(UserError, match=expected):
            own_corpus(load_corpus(name, CONFIGS), tmp_path, **asked)
    else:
        corpus = own_corpus(load_corpus(name, CONFIGS), tmp_path, **asked)
        assert corpus.languages == expected


def test_treatment_is_the_recipes_and_words_are_the_languages(tmp_path):
    for language in ("ja", "en"):
        (tmp_path / f"x.{language}").write_text("x\n")
    corpus = own_corpus(load_corpus("iwslt14.de-en.mma", CONFIGS), tmp_path)
    assert corpus.tokenizer == {"ja": "mecab", "en": "moses"}
    assert corpus.lowercase and corpus.subwords.size == 10000
    assert corpus.expect == {} and corpus.valid_every is None
    assert own_corpus(load_corpus("wat17.ja-en.mma", CONFIGS), tmp_path).tokenizer == {
        "ja": "none",
        "en": "none",
    }


# -- Subwords --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["subword-nmt", "sentencepiece-bpe", "sentencepiece-unigram"])
@pytest.mark.parametrize("joint", [True, False])
def test_subwords(kind, joint, no_preprocess, tmp_path):
    choose = random.Random(0)  # words enough for as many subwords
    words = ["".join(choose.choices("abcdefgh", k=choose.randint(2, 6))) for _ in range(200)]
    text = [(" ".join(choose.choices(words, k=6)),) * 2 for _ in range(200)]
    corpus = recipe(kind=kind, size=100, joint=joint)
    corpus = own_corpus(corpus, write(tmp_path / "text", "x", text))
    manifest = prepare(corpus, tmp_path / "out", workers=2)
    learned = manifest.subwords["learned"]
    suffix = "codes" if kind == "subword-nmt" else "model"
    sides = [""] if joint else [".de", ".en"]
    assert learned == {f"subwords{side}.{suffix}": 100 for side in sides}
    for part in ("train", "valid", "test"):
        for language in ("de", "en"):
            subwords = lines(tmp_path / f"out/subwords/{part}.{language}")
            if kind == "subword-nmt":
                words = [f"{line} ".replace("@@ ", "").rstrip() for line in subwords]
            else:
                words = [li.replace(" ", "").replace("\u2581", " ").strip() for li in subwords]
            assert words == lines(tmp_path / f"out/tokenised/{part}.{language}")


@pytest.mark.parametrize("kind", ["subword-nmt", "sentencepiece-bpe", "sentencepiece-unigram"])
def test_more_subwords_than_there_are(kind, text, no_preprocess, tmp_path, capsys):
    corpus = own_corpus(recipe(kind=kind, size=9000), text)
    manifest = prepare(corpus, tmp_path / "out", workers=1)
    (size,) = manifest.subwords["learned"].values()
    assert 40 < size < 1000
    assert f"has only {size:,} " in capsys.readouterr().err
    # Asked for by name, it is refused, with the largest possible size, which is accepted.
    asked = with_options(corpus, subword_size=size + 1, exact=True)
    with pytest.raises(UserError, match=f"--subword-size {size + 1}: .* use {size} or less"):
        prepare(asked, tmp_path / "out2", workers=1)
    prepare(with_options(corpus, subword_size=size, exact=True), tmp_path / "out2", workers=1)


@pytest.mark.parametrize("most, expected", [(None, 10), (10, 10), (5, 5), (4, 4), (3, 3), (1, 1)])
def test_sample_to_learn_from(most, expected, tmp_path):
    path = tmp_path / "text"
    path.write_text("".join(f"{number}\n" for number in range(10)))
    found = [int(line) for line in sampled(path, most)]
    assert len(found) == expected
    assert found[0] == 0
    # Evenly from all of it.
    assert len({after - before for before, after in zip(found, found[1:], strict=False)}) <= 1


def test_fewer_subwords_than_characters(text, no_preprocess, tmp_path):
    corpus = own_corpus(recipe(kind="sentencepiece-bpe", size=10), text)
    with pytest.raises(UserError, match="more characters than that; use more than 3"):
        prepare(corpus, tmp_path / "out", workers=1)


# -- What is made again ----------------------------------------------------------------------


def test_only_what_depends_on_a_change_is_made_again(text, no_preprocess, tmp_path):
    output = tmp_path / "out"
    corpus = own_corpus(recipe(), text)
    everything = ["reading", "tokenising", "cleaning", "subwords", "binarising"]
    assert remade(corpus, output) == everything
    assert remade(replace(corpus, notes="other", scores=("bleu",)), output) == []
    assert remade(with_options(corpus, subword_size=20), output) == everything[3:]
    assert remade(corpus, output) == everything[3:]
    # The intermediate files are gone by then, hence from the start.
    assert remade(with_options(corpus, pairs=100), output) == everything
    assert remade(replace(corpus, lowercase=True), output) == everything


def test_damaged_results_are_made_again(text, no_preprocess, tmp_path):
    output = tmp_path / "out"
    corpus = own_corpus(recipe(), text)
    digest = prepare(corpus, output, workers=1).digest
    codes = output / "subwords/subwords.codes"
    content = codes.read_bytes()
    codes.write_bytes(content[:-2] + b"x\n")  # of the same size
    assert remade(corpus, output) == ["subwords"]
    assert codes.read_bytes() == content
    (output / "raw/test.en").unlink()
    assert remade(corpus, output)[:3] == ["reading", "tokenising", "cleaning"]
    (output / "manifest.json").write_text("{")
    assert remade(corpus, output) == []
    assert read_manifest(output).digest == digest
    # A copy has other times, and is as good.
    for path in output.rglob("*"):
        os.utime(path)
    assert remade(corpus, output) == []


def test_stopped_while_it_is_made_again_is_not_whole(text, no_preprocess, tmp_path, monkeypatch):
    output = tmp_path / "out"
    corpus = own_corpus(recipe(), text)
    first = prepare(corpus, output, workers=1)

    def stop(*details):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "binarise", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(with_options(corpus, subword_size=20), output, workers=1)
    assert read_manifest(output) is None
    # bin/ is still that of the first run, and the same subwords come out as then.
    assert remade(corpus, output) == ["subwords"]
    assert read_manifest(output) == first


def test_what_is_made_of_something_else_is_made_again(text, no_preprocess, tmp_path):
    """As after a kill between two stages, if a tool was replaced by a newer one meanwhile."""
    output = tmp_path / "out"
    corpus = own_corpus(recipe(), text)
    prepare(corpus, output, workers=1)
    stamp = output / "stages/subwords.json"
    subwords = json.loads(stamp.read_text())
    subwords["files"]["subwords/train.de"]["sha256"] = "0" * 64
    stamp.write_text(json.dumps(subwords))
    assert remade(corpus, output) == ["binarising"]


def test_missing_package_is_told_before_any_download(tmp_path, monkeypatch):
    from fairseq_hybrid_attn.lab.text import tokenisers

    tokenisers._cached_tokeniser.cache_clear()
    hide(monkeypatch, "rjieba")
    said = []
    corpus = load_corpus("wmt17.zh-en", CONFIGS)
    with pytest.raises(UserError, match="pip install rjieba"):
        prepare(corpus, tmp_path / "out", say=said.append)
    assert not said


def test_changed_text_is_read_again(no_preprocess, tmp_path):
    folder = write(tmp_path / "text", "x", sentences(60))
    first = prepare(own_corpus(recipe(), folder), tmp_path / "out", workers=1)
    write(folder, "x", sentences(60, seed=1))
    second = prepare(own_corpus(recipe(), folder), tmp_path / "out", workers=1)
    assert first.digest != second.digest
    assert set(pairs_of(tmp_path / "out", "train")) < set(sentences(60, seed=1))


def test_folder_of_others_is_left_alone(text, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/precious").write_text("x")
    with pytest.raises(UserError, match="not made here"):
        prepare(own_corpus(recipe(), text), tmp_path, workers=1)
    assert state(tmp_path).keys() == {Path("raw/precious")}


# -- Runs that do not reach their end --------------------------------------------------------


def arguments(text, output):
    return ["prepare", recipe_file(output.parent), "--own", text, "--output", output]


def recipe_file(folder):
    path = folder / "own.yaml"
    text = (CONFIGS / "corpora/own.yaml").read_text()
    path.write_text(text.replace("size: 10000", "size: 30"))
    return path


def left_behind(output):
    return [path for path in output.glob(".partial-*")]


def processes_of(output):
    """The processes with this folder in their command lines (on Linux)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if os.fsencode(output) in path.read_bytes():
                found.append(path.parent.name)
    return found


def stopped(text, output, number, stage):
    """The exit status of a run that gets a signal in a stage, and what it said of it."""
    run = subprocess.Popen(
        command("fairseq-hybrid", *arguments(text, output), "--workers", 2),
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Background jobs of a shell ignore Ctrl-C; this one shall not.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    for line in run.stdout:
        if f": {stage}" in line:
            run.send_signal(number)
            break
    _, errors = run.communicate(timeout=100)
    assert read_manifest(output) is None
    deadline = time.monotonic() + 10
    while processes_of(output):  # those that it started
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return run.returncode, errors


def test_stopped_run_goes_on(text, undisturbed, tmp_path):
    output = tmp_path / "out"
    for number, stage, status in (
        (signal.SIGTERM, "tokenising", 143),
        (signal.SIGKILL, "subwords", -9),
        (signal.SIGINT, "binarising", 130),
        (signal.SIGKILL, "binarising", -9),
    ):
        found, errors = stopped(text, output, number, stage)
        assert found == status
        assert "Traceback" not in errors
        assert number == signal.SIGKILL or not left_behind(output)
    prepare(own_corpus(recipe(), text), output, workers=1)
    assert read_manifest(output) == read_manifest(undisturbed)
    assert not left_behind(output)


def test_stopped_between_any_two_steps(text, undisturbed, no_preprocess, tmp_path, monkeypatch):
    """Stopped at the first, second, ... move of a file or folder to its place."""
    complete = tmp_path / "complete"
    corpus = own_corpus(recipe(), text)
    wanted = prepare(corpus, complete, workers=1)
    moves = 0

    def stopping(original):
        def move(source, destination):
            nonlocal moves
            moves += 1
            if moves == stop:
                raise KeyboardInterrupt
            return original(source, destination)

        return move

    monkeypatch.setattr(os, "rename", stopping(os.rename))
    monkeypatch.setattr(os, "replace", stopping(os.replace))
    interrupted = 0
    for stop in range(1, 100):
        moves = 0
        output = tmp_path / f"out{stop}"
        try:
            prepare(corpus, output, workers=1)
        except KeyboardInterrupt:
            interrupted += 1
        else:
            break
        assert read_manifest(output) is None
        moves = 100
        assert prepare(corpus, output, workers=1) == wanted
    assert interrupted > 10  # six folders, six files of tokens, five stamps, the manifest


def run_on_small_disk(text, output, size):
    """A limit on the size of files, which is where this run's disk ends."""
    return subprocess.run(
        command("fairseq-hybrid", *arguments(text, output), "--workers", 1),
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


def test_full_disk(text, tmp_path):
    done = run_on_small_disk(text, tmp_path / "out", 4000)
    assert done.returncode == 1
    assert "reading the text" in done.stderr and "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not left_behind(tmp_path / "out")
    assert read_manifest(tmp_path / "out") is None


def test_full_disk_in_fairseq(text, undisturbed, tmp_path):
    output = tmp_path / "out"
    shutil.copytree(undisturbed, output)
    (output / "stages/binarise.json").unlink()
    (output / "manifest.json").unlink()
    done = run_on_small_disk(text, output, 100)
    assert done.returncode == 1
    assert "fairseq-preprocess ended with status 1; it said:" in done.stderr
    assert not left_behind(output)
    assert read_manifest(output) is None
    prepare(own_corpus(recipe(), text), output, workers=1)
    assert read_manifest(output) == read_manifest(undisturbed)


def test_disk_full_in_a_stage(tmp_path):
    def make(partial):
        raise OSError(28, "No space left on device", str(partial / "made/big"))

    stage = Stage("one", "making", ("made",), "key", make)
    with pytest.raises(UserError, match="making: .*made/big cannot be written: No space left"):
        Workshop(tmp_path, print, tmp_path / "whole").ensure(stage)
    assert not list(tmp_path.iterdir())


# -- The command -----------------------------------------------------------------------------


def hybrid(*args):
    return run_forked("fairseq_hybrid_attn", ("prepare", *args))


@pytest.mark.parametrize(
    "args, said",
    [
        (["nothing"], "there is no recipe 'nothing'"),
        (["own", "--pairs", "0"], "--pairs 0: use 1 or more"),
        (["own", "--own", "a", "b", "c"], "--own takes one folder"),
        (["own", "--source-lang", "de"], "--source-lang goes with --own"),
        (["own", "--own", "missing"], "missing is not a folder"),
    ],
)
def test_mistakes_get_a_message(args, said, tmp_path, monkeypatch):
    from fairseq_hybrid_attn.lab.command_line import main

    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=said):
        main(["prepare", *args, "--output", "out"])
    assert not (tmp_path / "out").exists()


def test_command_tells_what_it_made(text, tmp_path):
    done = hybrid(recipe_file(tmp_path), "--own", text, "--output", tmp_path / "out", "--pairs", 50)
    assert done.returncode == 0, done.stderr
    assert "own text, de to en: train 50, valid 15, test 15\n" in done.stdout
    assert "not used of train: not among --pairs 220\n" in done.stdout
    assert json.loads((tmp_path / "out/manifest.json").read_text())["recipe"]["pairs"] == 50


# -- Recipes and cleaning --------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((CONFIGS / "corpora").glob("*.yaml")), ids=lambda p: p.stem)
def test_every_recipe_is_good(path):
    from fairseq_hybrid_attn.lab.corpora.readers import READERS

    corpus = load_corpus(path.stem, CONFIGS)
    assert corpus.name == path.stem
    assert corpus.reader in READERS
    for archive in corpus.archives:
        assert archive.urls or archive.obtain or corpus.licence


def test_all_faults_of_a_recipe_at_once():
    data = {
        "source": "de",
        "target": "de",
        "reader": "own",
        "tokenizer": {"de": "perl"},
        "subwords": {"kind": "bpe", "size": 0},
        "expect": {"dev": 3},
    }
    with pytest.raises(UserError) as caught:
        parse(data, Path("x.yaml"))
    for word in ("perl", "same language", "bpe", "size: 0", "dev"):
        assert word in str(caught.value)
    with pytest.raises(UserError, match="lower: no such key"):
        parse({**data, "lower": True}, Path("x.yaml"))


@pytest.mark.parametrize(
    "source, target, expected",
    [
        ("a", "b c", "length ratio"),
        ("a a", "b b b", None),  # 1.5 is not above 1.5
        ("a a a", "b b", None),
        ("", "b", "empty side"),
        ("a " * 5, "b " * 5, None),
        ("a " * 6, "b " * 5, "too many tokens"),
        ("a" * 1000, "b", None),
        ("a" * 1001, "b", "a token too long"),
    ],
)
def test_cleaning(source, target, expected):
    assert fault(source, target, Clean(max_tokens=5, max_ratio=1.5)) == expected
