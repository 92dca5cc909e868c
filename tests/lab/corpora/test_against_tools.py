"""Each recipe beside the programs that it stands for, on a few hard sentences.

moses_printed.py has what perl printed; the other programs run here.

Differences: U+0085 is a space here, where SentencePiece keeps it; MeCab's tokens of ideographic
spaces are dropped.  SentencePiece's models name their text, so only their pieces are compared.
"""

import itertools
from dataclasses import replace
from pathlib import Path

import ipadic
import MeCab
import pytest
import rjieba
import yaml
from cli import run, subword_nmt
from corpora_made import CONFIGS, lines, write
from moses_printed import OF_2018, PRINTED
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from fairseq_hybrid_attn.lab.corpora import binarise, load_corpus, own_corpus
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare

#: Other directions of those here, or (mma) other test sets.
COVERED = ("iwslt14.de-en.mma", "multi30k.de-en", "multi30k.de-en.cased", "wat17.en-ja.mma")
BINARY = ("own", "ldc.en-zh")  # with one dictionary, and one a side
TEXT = {
    **{language: [text for text, _ in PRINTED[language]] for language in ("de", "en")},
    "ja": [
        "彼女は「本当？」と言った。",
        "ＣＯ２の濃度は３．５％で，CO2は3.5%だった。",
        "ﾃｽﾄ　テスト　ｶﾞｽ タンパク質",
        "東京都に住む㈱日立のα波、① 25℃。",
        "すもももももももものうち",
        "𠮷野家で食べた。👍🏽 おいしい！",
        "It is 日本語 and English & <tag>.",
        "が、か\u3099、ガ。",
    ],
    "zh": [
        "他说：“真的吗？”——是的……",
        "２０１７年增长了3.5%，CO2为10,000吨。",
        "我来到北京清华大学，研究生命起源。",
        "繁體字和简体字　混在一起 & <A&B>。",
        "𠮷野家的牛肉饭👍🏽很好吃！",
        "南京市长江大桥 南京市长江大桥",
        "Mr. Smith's 中文名字叫史密斯·约翰。",
        "㎡、½、①、Ⅳ、℃。",
    ],
}


def tokens_of(kind, language, texts):
    """The tokens of sentences by the program that a recipe names."""
    if kind == "mecab":
        found = [MeCab.Tagger(ipadic.MECAB_ARGS).parse(text).split("\n")[:-2] for text in texts]
        found = [" ".join(row.split("\t")[0] for row in rows) for rows in found]
    elif kind == "jieba":
        found = [" ".join(word for word, _ in rjieba.tag(text)) for text in texts]
    elif kind == "given":
        return [text.split(" ") for text in texts]
    elif kind == "none":
        return [text.replace("\x85", " ").split(" ") for text in texts]
    else:
        found = [" ".join(dict(PRINTED[language])[text].split()) for text in texts]
        if kind == "moses-2018":
            old = {row.removesuffix(".") + " .": row for row in OF_2018[language]}
            found = [old.get(row, row) for row in found]
    return [row.split() for row in found]


def subwords(kind, size, folder, languages, joint):
    """Learn subwords by the program that a recipe names, and split the text into them."""
    texts = [folder / f"tokenised/train.{language}" for language in languages]
    parts = [p for la in languages for p in (folder / "tokenised").glob(f"*.{la}")]
    stem = folder / ("subwords/subwords" + ("" if joint else f".{languages[0]}"))
    if kind == "subword-nmt":
        codes = Path(f"{stem}.codes")
        both = b"".join(text.read_bytes() for text in texts)
        codes.write_bytes(subword_nmt("learn_bpe", "-s", size, text=both))
        for language in languages:
            group = [part for part in parts if part.suffix == f".{language}"]
            text = b"".join(part.read_bytes() for part in group)
            rows = iter(subword_nmt("apply_bpe", "-c", codes, text=text).splitlines(True))
            for part in group:
                found = itertools.islice(rows, len(lines(part)))
                (folder / "subwords" / part.name).write_bytes(b"".join(found))
        return
    # It recommends this share of characters for languages that have many.
    coverage = 1.0 if {"ja", "zh"}.isdisjoint(languages) else 0.9995
    options = {"character_coverage": coverage, "hard_vocab_limit": False, "minloglevel": 2}
    options |= {"model_type": kind.split("-")[1], "vocab_size": size, "num_threads": 1}
    SentencePieceTrainer.train(input=list(map(str, texts)), model_prefix=str(stem), **options)
    Path(f"{stem}.vocab").unlink()
    pieces = SentencePieceProcessor(model_file=f"{stem}.model")
    for part in parts:
        rows = (" ".join(pieces.encode(line, out_type=str)) for line in lines(part))
        (folder / "subwords" / part.name).write_bytes("".join(f"{row}\n" for row in rows).encode())


def content(path):
    if path.suffix != ".model":
        return path.read_bytes()
    model = SentencePieceProcessor(model_file=str(path))
    return [(model.id_to_piece(n), model.get_score(n)) for n in range(len(model))]


@pytest.mark.slow
def test_recipes_are_as_by_the_programs(tmp_path, monkeypatch):
    def preprocess(words, log):
        """For most recipes the command is compared, which is the same program; not its result."""
        asked.append("--joined-dictionary" in words)
        if path.stem in BINARY:
            return run(*words, cwd=tmp_path)
        destination = Path(words[words.index("--destdir") + 1])
        for language in languages:
            (destination / f"dict.{language}.txt").touch()

    asked = []
    monkeypatch.setattr(binarise, "run_program", preprocess)
    for path in sorted((CONFIGS / "corpora").glob("*.yaml")):
        if path.stem in COVERED:
            continue
        corpus, written = load_corpus(path.stem, CONFIGS), yaml.safe_load(path.read_text())
        if "extends" in written:
            other = yaml.safe_load(path.with_name(written["extends"] + ".yaml").read_text())
            own_subwords = other["subwords"] | written.get("subwords", {})
            written = other | written | {"subwords": own_subwords}
        about, clean = written["subwords"], written["clean"]
        languages = written["source"], written["target"]
        kinds = {language: written["tokenizer"][language] for language in languages}
        text, ours, theirs = (tmp_path / path.stem / name for name in ("text", "ours", "theirs"))
        for folder in (text, theirs / "tokenised", theirs / "subwords"):
            folder.mkdir(parents=True)

        for part, count in (("train", 18), ("valid", 3), ("test", 5)):
            texts = [[TEXT[side][n % len(TEXT[side])] for n in range(count)] for side in languages]
            if "given" in kinds.values():
                texts = [[text.replace("\x85", " ") for text in side] for side in texts]
            write(text, part, list(zip(*texts, strict=True)), languages)
            rows = zip(*map(tokens_of, kinds.values(), kinds, texts), strict=True)
            ratio = clean.get("max-ratio", 99) if part == "train" else 99
            rows = [row for row in rows if max(map(len, row)) <= ratio * min(map(len, row))]
            rows = [[" ".join(side) for side in row] for row in rows]
            if written["lowercase"]:
                rows = [[side.lower() for side in row] for row in rows]
            write(theirs / "tokenised", part, rows, languages)
        size = 40 if about["kind"] == "subword-nmt" else 200
        corpus = replace(
            own_corpus(corpus, text), tokenizer=kinds, subwords=replace(corpus.subwords, size=size)
        )
        prepare(corpus, ours, workers=1)

        for group in [languages] if about["joint"] else [languages[:1], languages[1:]]:
            subwords(about["kind"], size, theirs, group, about["joint"])
        joined = about.get("joined-dictionary", about["joint"])
        folders = ["subwords"] + ["tokenised"] * ("none" not in kinds.values())
        if path.stem in BINARY:
            folders.append("bin")
            words = ["--source-lang", languages[0], "--target-lang", languages[1]]
            for part in ("train", "valid", "test"):
                words += [f"--{part}pref", theirs / "subwords" / part]
            words += ["--joined-dictionary"] * joined
            run("fairseq-preprocess", *words, "--destdir", theirs / "bin", cwd=tmp_path)
            (theirs / "bin/preprocess.log").unlink()
        for folder in folders:
            found, expected = (
                {file.name: content(file) for file in (side / folder).iterdir()}
                for side in (ours, theirs)
            )
            assert found == expected, f"{path.stem}: {folder}"
        assert asked.pop() == joined, path.stem
