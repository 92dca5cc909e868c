r"""The readers of WMT14, WMT17 and ASPEC, on archives that are made here.

The expected text is written by hand beside the content of the archives.
"""

import contextlib
import io
import random
import tempfile
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from corpora_made import CONFIGS, tar
from refusals import check_refusals

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.corpora import formats, readers
from fairseq_hybrid_attn.lab.corpora.definition import load_corpus
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare
from fairseq_hybrid_attn.lab.corpora.readers import wmt14, wmt17

WMT14 = load_corpus("wmt14.en-de.hysan", CONFIGS)
WMT17 = load_corpus("wmt17.zh-en", CONFIGS)
ASPEC = load_corpus("wat17.ja-en.mma", CONFIGS)
LDC = load_corpus("ldc.en-zh", CONFIGS)
ASPEC_FILES = ("train/train-1", "train/train-2", "dev/dev", "test/test")


def zipped(files: dict[str, str | bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", compression) as archive:
        archive.mkdir("folder")
        for item in files.items():
            archive.writestr(*item)
    return written.getvalue()


def sgm(kind: str, *documents: tuple[str, list[str]]) -> str:
    """A file in WMT's format."""
    lines = [f'<{kind} setid="newstest2014" srclang="any">']
    for name, sentences in documents:
        lines += [f'<doc sysid="ref" docid="{name}" genre="news" origlang="en">', "<p>"]
        lines += [f'<seg id="{n}">{text}</seg>' for n, text in enumerate(sentences, 1)]
        lines += ["</p>", "</doc>"]
    return "\n".join([*lines, f"</{kind}>", ""])


def on_disk(folder: Path, contents: dict[str, bytes]) -> dict[str, Path]:
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return {name: folder / name for name in contents}


def read(corpus, archives: dict[str, Path]) -> tuple[dict[str, str], dict]:
    """Name and text of every file that the reader writes, and what it returns."""
    with tempfile.TemporaryDirectory() as folder:
        facts = readers.read(corpus, archives, Path(folder))
        # Not read_text: it would turn \r into \n.
        return {path.name: path.read_bytes().decode() for path in Path(folder).iterdir()}, facts


def check_refused(corpus, archives: dict[str, Path], cases) -> None:
    """Each case replaces an archive, or removes it if its content is None."""
    for name, content, said in cases:
        before = archives[name].read_bytes()
        archives[name].unlink() if content is None else archives[name].write_bytes(content)
        check_refusals([(archives, said)], lambda places: read(corpus, places))
        archives[name].write_bytes(before)


EUROPARL = "wmt13/training-parallel-europarl-v7.tgz"
COMMON_CRAWL = "wmt13/training-parallel-commoncrawl.tgz"
NEWS = "wmt14/training-parallel-nc-v9.tgz"
DEV = "wmt14/dev.tgz"
FULL = "wmt14/test-full.tgz"
CRAWL, NEWS_V9 = "commoncrawl.de-en", "training/news-commentary-v9.de-en"
SOURCE, REFERENCE = "newstest2014-deen-src.en.sgm", "newstest2014-deen-ref.de.sgm"


@pytest.fixture
def wmt14_archives(tmp_path) -> dict[str, Path]:
    full = [("x", ["A &amp; B &lt;c&gt; &quot;d&quot;", ""]), ("y", ["AT&T &amp;quot; 3 < 4"])]
    # Documents may have other names in the reference.
    fully = [("x.de", ["A &amp; B", "leer"]), ("y.de", ["&#228;"])]
    contents = {
        EUROPARL: {
            "training/europarl-v7.cs-en.en": "not this one\n",
            # The second language comes first in the archive; no newline at the end.
            "training/europarl-v7.de-en.en": "one\ntwo \u2028 parts\n\nfour",
            "training/europarl-v7.de-en.de": "eins\nzwei \x85 Teile\n\nvier\n",
        },
        COMMON_CRAWL: {f"{CRAWL}.de": "fünf\r\nsechs\r\n", f"{CRAWL}.en": "five\r\nsix\r\n"},
        NEWS: {f"{NEWS_V9}.de": "\ufeffsieben\n", f"{NEWS_V9}.en": "seven\n"},
        DEV: {
            "dev/newstest2013.de": "acht &amp;\n",
            "dev/newstest2013.en": "eight &amp;\n",
            "dev/newstest2013-src.en.sgm": "another form of it",
        },
        FULL: {
            f"test-full/{SOURCE}": sgm("srcset", *full),
            f"test-full/{REFERENCE}": sgm("refset", *fully),
            # The sources of the other direction are a different file.
            "test-full/newstest2014-deen-src.de.sgm": sgm("srcset", ("x", ["Quelle"])),
            "test-full/newstest2014-deen-ref.en.sgm": sgm("refset", ("x", ["reference"])),
        },
    }
    return on_disk(tmp_path, {name: tar(files) for name, files in contents.items()})


def test_wmt14(wmt14_archives):
    whole = {
        "train.en": "one\ntwo \u2028 parts\n\nfour\nfive\nsix\nseven\n",
        "train.de": "eins\nzwei \x85 Teile\n\nvier\nfünf\nsechs\nsieben\n",
        "valid.en": "eight &amp;\n",  # plain text is unchanged
        "valid.de": "acht &amp;\n",
        "test.en": 'A & B <c> "d"\n\nAT&T &quot; 3 < 4\n',
        "test.de": "A & B\nleer\nä\n",
    }
    back = {"test.de": "Quelle\n", "test.en": "reference\n"}
    assert read(WMT14, wmt14_archives) == (whole, {})
    reverse = replace(WMT14, source="de", target="en")
    assert read(reverse, wmt14_archives)[0] == {**whole, **back}


def test_wrong_settings_are_refused_before_reading():
    for corpus, changes, said in (
        (WMT14, {"target": "fr"}, "has en and de, not en and fr"),
        (WMT17, {"source": "en", "target": "zh"}, "has zh to en, not en to zh"),
        (ASPEC, {"target": "zh"}, "has ja and en, not ja and zh"),
        (LDC, {"options": {"files": {"a": ["a.zh", "a.en"]}}}, "name the en and the zh file, in"),
    ):
        with pytest.raises(UserError, match=said):
            read(replace(corpus, **changes), {item.file: Path() for item in corpus.archives})
    with pytest.raises(UserError, match=f"needs {EUROPARL} among its archives; it has x"):
        read(WMT14, {"x": Path()})


def test_damaged_and_wrong_archives(wmt14_archives):
    broken = []
    for name in (EUROPARL, FULL):
        content = wmt14_archives[name].read_bytes()
        wrong_checksum = content[:-8] + bytes([content[-8] ^ 1]) + content[-7:]
        broken += [(name, bad, f"{name} is damaged") for bad in (content[:-20], wrong_checksum)]
        broken += [(name, None, f"{name} cannot be read")]
    for other in (b"", b"<html>404 Not Found</html>" * 50, b"\x1f\x8b\x08", b"PK\3\4"):
        broken += [(NEWS, other, f"{NEWS} is damaged or cut off")]
    german, english = f"{NEWS_V9}.de", f"{NEWS_V9}.en"
    for files, said in (
        ({german: "x\n", "other.en": "x\n"}, f"{NEWS} has no .*v9.de-en.en; it is another"),
        ({german: "x\n", english: "x\n", f"old/{english}": "y\n"}, "has more than one .*.en"),
        ({german: b"x\nM\xfcller\n", english: "x\ny\n"}, rf"nc-v9.tgz: {german}, line 2: not"),
    ):
        broken += [(NEWS, tar(files), said)]
    # Reference documents may have other names, but not another order or length.
    source = sgm("srcset", ("x", ["1", "2"]), ("y", ["3"]))
    for reference, said in (
        ([("x", ["1"]), ("y", ["3"])], "src.en.sgm and .*ref.de.sgm in .* 3 and 2 segments"),
        ([("y", ["3"]), ("x", ["1", "2"])], "differ in their 3 and 3 segments"),
        ([("x", ["1"]), ("y", ["2", "3"])], "differ in their 3 and 3 segments"),
    ):
        files = {SOURCE: source, REFERENCE: sgm("refset", *reference)}
        broken += [(FULL, tar(files), said)]
    check_refused(WMT14, wmt14_archives, broken)


def members(content: bytes, path: Path, *names: str) -> dict[str, list[str]]:
    path.write_bytes(content)
    return {name: list(text) for name, text in formats.members(path, names)}


def test_every_cut_is_noticed(tmp_path):
    """Wherever a download breaks off, no text may be lost silently."""
    lines = [f"{random.random()} words" for _ in range(300)]
    text = "".join(f"{line}\n" for line in lines)
    for compression in ("", "gz"):
        content = tar({"a.de": text, "a.en": text}, compression)
        for end in range(0, len(content), len(content) // 50):
            with contextlib.suppress(UserError):  # otherwise only padding is missing
                found = members(content[:end], tmp_path / "a.tar", "a.de", "a.en")
                assert found == {"a.de": lines, "a.en": lines}, end


def test_segments_however_they_are_written():
    content = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE srcset SYSTEM "ftp://example.org/mteval-xml-v1.6.dtd">
<SRCSET setid="x" srclang="any"><DOC origlang='de' genre="a > b" DocId = "d1">
<hl><seg id="1">Title</seg></hl>
<p><seg id=2> two </seg><seg note="n" id='3'></seg><seg id="4"/>
<SEG ID="5">over
two lines</SEG></p></DOC>
<doc docid="d2"><seg id="1">one &amp; <i>two</i> 3 < 4 &copy;
&#x41;&#66; &#10;&apos;\u2028</seg></doc>
</SRCSET>"""
    assert formats.segments(content.split("\n"), "a.sgm") == [
        ("1", "Title"),
        ("2", "two"),
        ("3", ""),
        ("4", ""),
        ("5", "over two lines"),
        ("1", "one & <i>two</i> 3 < 4 &copy; AB  '\u2028"),
    ]
    start = '<doc docid="d">\n<seg id="1">one'
    for content, said in (
        ("<srcset></srcset>", "a.sgm has no segments"),
        (f'{start}</seg>\n<seg id="2">two', "a.sgm has a segment that does not end"),
        (f'{start}\n<seg id="2">two</seg>\n</doc>', "does not end"),
    ):
        with pytest.raises(UserError, match=said):
            formats.segments(content.split("\n"), "a.sgm")


@pytest.fixture
def wmt17_archives(tmp_path) -> dict[str, Path]:
    books = {}
    for number in random.Random(4).sample(range(1, 21), 20):  # in any order
        books[f"datum2017/Book{number}_en.txt"] = f"Book number {number} .\r\n"
        books[f"datum2017/Book{number}_cn.txt"] = f"第 {number} 本 Open Source 书 。\r\n"
    un = {
        "en-zh/UNv1.0.en-zh.en": "Resolution\nNone.\n2000\n中 in English\n\n",
        "en-zh/UNv1.0.en-zh.zh": "决议\nNone.\n二〇〇〇年\n中文\n空\n",
        "en-zh/UNv1.0.en-zh.ids": "a\tb\n",
    }
    news = {
        "training/news-commentary-v12.zh-en.zh": "新闻 评论\n新闻\u2028评论\n决议\n",
        "training/news-commentary-v12.zh-en.en": "News commentary\nNews again\nOther\n",
        "training/news-commentary-v12.cs-en.en": "x\n",
    }
    dev = {
        "dev/newsdev2017-zhen-src.zh.sgm": "\ufeff" + sgm("srcset", ("x", ["中文", ""])),
        "dev/newsdev2017-zhen-ref.en.sgm": sgm("refset", ("x", ["Chinese", "2000"])),
        "dev/newsdev2017-enzh-src.en.sgm": "the other direction",
    }
    test = {
        "test/newstest2017-zhen-src.zh.sgm": sgm("srcset", ("x", ["测试"])),
        "test/newstest2017-zhen-ref.en.sgm": sgm("refset", ("x", ["R&amp;D"])),
    }
    halves = {
        f"casict2011/casict-{half}_{language}.txt": f"{text} {half}\n"
        for half in "BA"
        for language, text in (("ch", "上下"), ("en", "Half"))
    }
    contents = {
        "wmt17/training-parallel-nc-v12.tgz": tar(news),
        "un/UNv1.0.en-zh.tar.gz": zipped(un),  # recognised by its content
        "cwmt/casict2011.zip": zipped(halves),
        "cwmt/datum2017.zip": zipped(books),
        "wmt17/dev.tgz": tar(dev),
        "wmt17/test.tgz": tar(test),
    }
    for name, stem, zh in (
        ("casia2015", "casia2015", "ch"),
        ("casict2015", "casict2015", "ch"),
        ("datum2015", "datum", "ch"),
        ("neu2017", "NEU", "cn"),
    ):
        files = {
            f"__MACOSX/{name}/._{stem}_en.txt": b"\0\xff",
            f"{name}/{stem}_en.txt": f"{name}\nResolution\n",
            f"{name}/{stem}_{zh}.txt": "语料 库\n决议\n",
        }
        contents[f"cwmt/{name}.zip"] = zipped(files, zipfile.ZIP_STORED)
    return on_disk(tmp_path, contents)


def test_wmt17(wmt17_archives):
    texts, facts = read(WMT17, wmt17_archives)
    assert facts["dropped"]["train"] == {
        "no Chinese character in the Chinese": 1,
        "no letter in the English": 1,
        "Chinese characters in the English": 1,
        "empty": 1,
        "repeated": 4,  # Resolution, of every single corpus; Other is another English
    }
    train = [
        ("新闻 评论", "News commentary"),
        ("新闻\u2028评论", "News again"),
        ("决议", "Other"),
        ("决议", "Resolution"),
        ("语料 库", "casia2015"),
        ("上下 A", "Half A"),
        ("上下 B", "Half B"),
        *(("语料 库", name) for name in ("casict2015", "datum2015")),
        *((f"第{n}本Open Source书。", f"Book number {n} .") for n in range(1, 21)),
        ("语料 库", "neu2017"),
    ]
    assert texts == {
        "train.zh": "".join(f"{zh}\n" for zh, _ in train),
        "train.en": "".join(f"{en}\n" for _, en in train),
        "valid.zh": "中文\n\n",  # held-out sets are unchanged
        "valid.en": "Chinese\n2000\n",
        "test.zh": "测试\n",
        "test.en": "R&D\n",
    }
    some = ("cwmt/neu2017.zip", wmt17.VALID[0], wmt17.TEST[0])
    texts, facts = read(WMT17, {name: wmt17_archives[name] for name in some})
    assert texts["train.zh"] == "语料 库\n决议\n"
    assert facts["dropped"] == {"train": {}}
    # The fingerprint of a pair depends on where its sides part.
    assert wmt17.fingerprint("a b", "c") == wmt17.fingerprint(" a b", "c ")
    assert len({wmt17.fingerprint(*pair) for pair in [("ab", "c"), ("a", "bc"), ("c", "ab")]}) == 3
    # Truncated, and with text that does not match its checksum.
    content, said = wmt17_archives[some[0]].read_bytes(), "neu2017.zip is damaged or cut off"
    others = (content[: len(content) // 2], content.replace(b"Resolution", b"resolution", 1))
    check_refused(WMT17, wmt17_archives, [(some[0], other, said) for other in others])


def test_aspec(tmp_path):
    """In either direction, the files have Japanese before English."""
    contents = {
        "ASPEC-JE/train/train-1.txt": "0.9 ||| G-01A ||| 1 ||| 日本｜です。 ||| It is | Japan.\n",
        "ASPEC-JE/train/train-2.txt": (
            "0.1 ||| G-02A ||| 2 ||| 二\u3000つ ||| two\u2028\r\n0.05 ||| X ||| 1 |||  ||| \n"
        ),
        "ASPEC-JE/dev/dev.txt": "G-03A ||| 1 ||| 開発 ||| dev &amp;\n",
        "ASPEC-JE/test/test.txt": "G-04A ||| 1 ||| 試験 ||| test\n",
    }
    archives = on_disk(tmp_path, {name: text.encode() for name, text in contents.items()})
    whole = {
        **{"train.ja": "日本｜です。\n二\u3000つ\n\n", "train.en": "It is | Japan.\ntwo\u2028\n\n"},
        **{"valid.ja": "開発\n", "valid.en": "dev &amp;\n"},
        **{"test.ja": "試験\n", "test.en": "test\n"},
    }
    for corpus in (ASPEC, replace(ASPEC, source="en", target="ja")):
        assert read(corpus, archives) == (whole, {})
    test, pair = "ASPEC-JE/test/test.txt", "0.1 ||| G ||| 1 ||| 一 ||| a\n".encode()
    train, other = "ASPEC-JE/train/train-2.txt", b"G ||| 2 ||| x ||| b\n"
    cases = [
        (train, pair + other, "train-2.txt, line 2: 4 fields instead of 5"),
        ("ASPEC-JE/dev/dev.txt", pair, "dev.txt, line 1: 5 fields instead of 4"),
        (test, b"x\ta\n", "test.txt, line 1: 1 fields instead of 4"),
    ]
    check_refused(ASPEC, archives, cases)


def test_recipes_have_the_archives_that_their_readers_need():
    needed = {
        "wmt14": {file for texts in wmt14.TEXTS.values() for file, _ in texts} | {wmt14.TEST},
        "wmt17": {text.archive for text in wmt17.TRAIN} | {wmt17.VALID[0], wmt17.TEST[0]},
        "aspec": {f"ASPEC-JE/{part}.txt" for part in ASPEC_FILES},
    }
    for path in (CONFIGS / "corpora").glob("*.yaml"):
        corpus = load_corpus(path.stem, CONFIGS)
        if wanted := needed.get(corpus.reader):
            assert {archive.file for archive in corpus.archives} == wanted, path.stem


def test_an_archive_that_would_be_skipped_is_refused(tmp_path):
    *others, last = WMT14.archives
    renamed = replace(WMT14, archives=(*others, replace(last, file=f"new/{last.file}")))
    with pytest.raises(UserError, match=f"wmt14 reads no new/{last.file}"):
        prepare(renamed, tmp_path / "out")  # without a download


def test_memory_does_not_grow_with_the_archive(tmp_path):
    side = (b"some words of a line " * 100 + b"end\n") * 4_000  # 8 MB
    path = on_disk(tmp_path, {"a.tgz": tar({"a.de": side, "a.en": side})})["a.tgz"]
    tracemalloc.start()
    try:
        with formats.part_writer(tmp_path, "train", ("de", "en")) as writer:
            formats.append_lines(writer, path, ("a.de", "a.en"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "train.en").stat().st_size == len(side)
    assert peak < 3e6
