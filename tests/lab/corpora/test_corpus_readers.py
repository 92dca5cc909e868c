r"""The readers of WMT14, WMT17 and ASPEC, on archives that are made here.

What they have to write stands beside what the archives have in them, by hand.
"""

import gzip
import io
import json
import random
import tarfile
import tracemalloc
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.corpora import formats, readers
from fairseq_hybrid_attn.lab.corpora.definition import load_corpus
from fairseq_hybrid_attn.lab.corpora.readers import aspec, wmt14, wmt17

CONFIGS = Path(__file__).parents[3] / "configs"
RECIPES = [
    "wmt14.en-de.hysan",
    "wmt14.en-de.hybrid_gate",
    "wmt17.zh-en",
    "wat17.ja-en.hybrid_gate",
    "wat17.ja-en.mma",
    "wat17.en-ja.mma",
]


def tar(path: Path, files: dict[str, str | bytes], compression: str = "gz") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, f"w:{compression}") as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, content in files.items():
            content = content.encode() if isinstance(content, str) else content
            item = tarfile.TarInfo(name)
            item.size = len(content)
            archive.addfile(item, io.BytesIO(content))
    return path


def zipped(path: Path, files: dict[str, str | bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("folder")
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def sgm(kind: str, *documents: tuple[str, list[str]]) -> str:
    """A file as WMT has it."""
    lines = [f'<{kind} setid="newstest2014" srclang="any">']
    for name, sentences in documents:
        lines += [f'<doc sysid="ref" docid="{name}" genre="news" origlang="en">', "<p>"]
        lines += [f'<seg id="{n}">{text}</seg>' for n, text in enumerate(sentences, 1)]
        lines += ["</p>", "</doc>"]
    return "\n".join([*lines, f"</{kind}>", ""])


def read(corpus, archives: dict[str, Path], tmp_path: Path) -> dict[str, str]:
    """Name and text of every file that the reader writes."""
    destination = tmp_path / "destination"
    destination.mkdir(parents=True)
    facts = readers.read(corpus, archives, destination)
    if facts:
        (destination / "facts.json").write_text(json.dumps(facts))
    # Not read_text: it would turn \r into \n.
    return {path.name: path.read_bytes().decode() for path in destination.iterdir()}


# -- WMT14 ------------------------------------------------------------------------------------

EUROPARL = "wmt13/training-parallel-europarl-v7.tgz"
COMMON_CRAWL = "wmt13/training-parallel-commoncrawl.tgz"
NEWS = "wmt14/training-parallel-nc-v9.tgz"
DEV = "wmt14/dev.tgz"
FULL = "wmt14/test-full.tgz"
FILTERED = "wmt14/test-filtered.tgz"


@pytest.fixture
def wmt14_archives(tmp_path) -> dict[str, Path]:
    full = ["A &amp; B &lt;c&gt; &quot;d&quot;", "", "AT&T &amp;quot; 3 < 4"]
    fully = ["A &amp; B", "leer", "&#228;"]
    contents = {
        EUROPARL: {
            "training/europarl-v7.cs-en.en": "not this one\n",
            # The second language comes first in the archive; no newline at the end.
            "training/europarl-v7.de-en.en": "one\ntwo \u2028 parts\n\nfour",
            "training/europarl-v7.de-en.de": "eins\nzwei \x85 Teile\n\nvier\n",
        },
        COMMON_CRAWL: {
            "commoncrawl.de-en.de": "fünf\r\nsechs\r\n",
            "commoncrawl.de-en.en": "five\r\nsix\r\n",
        },
        NEWS: {
            "training/news-commentary-v9.de-en.de": "\ufeffsieben\n",
            "training/news-commentary-v9.de-en.en": "seven\n",
        },
        DEV: {
            "dev/newstest2013.de": "acht &amp;\n",
            "dev/newstest2013.en": "eight &amp;\n",
            "dev/newstest2013-src.en.sgm": "another form of it",
        },
        FULL: {
            "test-full/newstest2014-deen-src.en.sgm": sgm(
                "srcset", ("x", full[:2]), ("y", full[2:])
            ),
            "test-full/newstest2014-deen-ref.de.sgm": sgm(
                "refset", ("x", fully[:2]), ("y", fully[2:])
            ),
            "test-full/newstest2014-deen-src.de.sgm": sgm(
                "srcset", ("x", ["der anderen Richtung"])
            ),
        },
        FILTERED: {
            "test/newstest2014-deen-src.en.sgm": sgm("srcset", ("x", ["short"])),
            "test/newstest2014-deen-ref.de.sgm": sgm("refset", ("x", ["kurz"])),
        },
    }
    return {name: tar(tmp_path / name, files) for name, files in contents.items()}


@pytest.fixture
def wmt14_corpus():
    return load_corpus("wmt14.en-de.hysan", CONFIGS)


def test_wmt14(wmt14_corpus, wmt14_archives, tmp_path):
    assert read(wmt14_corpus, wmt14_archives, tmp_path) == {
        "train.en": "one\ntwo \u2028 parts\n\nfour\nfive\nsix\nseven\n",
        "train.de": "eins\nzwei \x85 Teile\n\nvier\nfünf\nsechs\nsieben\n",
        "valid.en": "eight &amp;\n",  # plain text is as it is
        "valid.de": "acht &amp;\n",
        "test.en": 'A & B <c> "d"\n\nAT&T &quot; 3 < 4\n',
        "test.de": "A & B\nleer\nä\n",
    }


def test_wmt14_filtered_test_and_part_of_the_training_text(wmt14_corpus, wmt14_archives, tmp_path):
    options = {"newstest2014": "filtered", "train": ["news-commentary-v9"]}
    corpus = replace(wmt14_corpus, options=options)
    del wmt14_archives[EUROPARL], wmt14_archives[FULL]
    texts = read(corpus, wmt14_archives, tmp_path)
    assert texts["test.en"] == "short\n" and texts["test.de"] == "kurz\n"
    assert texts["train.en"] == "seven\n" and texts["train.de"] == "sieben\n"


def test_wmt14_german_to_english(wmt14_corpus, wmt14_archives, tmp_path):
    """Of the test set, the sources of the other direction are another file."""
    tar(
        wmt14_archives[FULL],
        {
            "newstest2014-deen-src.de.sgm": sgm("srcset", ("x", ["Quelle"])),
            "newstest2014-deen-ref.en.sgm": sgm("refset", ("x", ["reference"])),
        },
    )
    corpus = replace(wmt14_corpus, source="de", target="en")
    texts = read(corpus, wmt14_archives, tmp_path)
    assert texts["test.de"] == "Quelle\n" and texts["test.en"] == "reference\n"


def test_wmt14_wrong_settings(wmt14_corpus, wmt14_archives, tmp_path):
    without_dev = {name: path for name, path in wmt14_archives.items() if name != DEV}
    for number, (changes, archives, said) in enumerate(
        [
            ({"options": {"newstest2014": "all"}}, None, "newstest2014: all; use full or filtered"),
            ({"options": {"newstest2014": ["full"]}}, None, "use full or filtered"),
            (
                {"options": {"train": ["europarl-v8"]}},
                None,
                "train: .*use a list of europarl-v7, commoncrawl, ",
            ),
            ({"options": {"train": []}}, None, "use a list of"),
            ({"options": {"train": "europarl-v7"}}, None, "use a list of"),
            ({"options": {"train": [["europarl-v7"]]}}, None, "use a list of"),
            (
                {"options": {"newstest": "full"}},
                None,
                "no such option: newstest; there are train, newstest2014",
            ),
            ({"target": "fr"}, None, "has en and de, not en and fr"),
            ({}, without_dev, f"needs {DEV} among its archives"),
        ]
    ):
        with pytest.raises(UserError, match=said):
            corpus = replace(wmt14_corpus, **changes)
            read(corpus, archives or wmt14_archives, tmp_path / str(number))


# -- Damage -----------------------------------------------------------------------------------


def cut_off(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])


def flip(path: Path) -> None:
    """Change what the checksum at the end of a gzip file is of."""
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(content)


def test_damaged_archive(wmt14_corpus, wmt14_archives, tmp_path):
    for name in (EUROPARL, FULL):
        content = wmt14_archives[name].read_bytes()
        for number, damage in enumerate((cut_off, flip, Path.unlink)):
            damage(wmt14_archives[name])
            with pytest.raises(UserError, match=f"{name} (is damaged or cut off|cannot be read)"):
                read(wmt14_corpus, wmt14_archives, tmp_path / f"{name} {number}")
            wmt14_archives[name].write_bytes(content)


def test_another_file_than_an_archive(wmt14_corpus, wmt14_archives, tmp_path):
    page = b"<html>404 Not Found</html>" * 50
    for number, content in enumerate((b"", page, b"\x1f\x8b\x08", b"PK\3\4")):
        wmt14_archives[NEWS].write_bytes(content)
        advice = f"{NEWS} is damaged or cut off .*delete it and .*sha256"
        with pytest.raises(UserError, match=advice):
            read(wmt14_corpus, wmt14_archives, tmp_path / str(number))


def test_every_cut_is_noticed(tmp_path):
    """Wherever a download breaks off, no text may be lost silently."""
    random.seed(3)
    lines = "".join(f"{random.random()} words\n" for _ in range(300))
    for compression in ("", "gz"):
        path = tar(tmp_path / "a.tar", {"a.de": lines, "a.en": lines}, compression)
        content = path.read_bytes()
        for end in range(0, len(content), len(content) // 50 or 1):
            path.write_bytes(content[:end])
            try:
                texts = {
                    name: "".join(f"{line}\n" for line in text)
                    for name, text in formats.members(path, ("a.de", "a.en"))
                }
            except UserError:
                continue
            assert texts == {"a.de": lines, "a.en": lines}, end  # only padding is missing


@pytest.mark.parametrize(
    "archive, files, said",
    [
        (
            COMMON_CRAWL,
            {"commoncrawl.fr-en.en": "x\n", "commoncrawl.de-en.de": "x\n"},
            f"{COMMON_CRAWL} has no commoncrawl.de-en.en; it is another",
        ),
        (
            COMMON_CRAWL,
            {
                "commoncrawl.de-en.de": "x\n",
                "commoncrawl.de-en.en": "x\n",
                "old/commoncrawl.de-en.en": "y\n",
            },
            "has more than one commoncrawl.de-en.en",
        ),
        (
            NEWS,
            {"news-commentary-v9.de-en.de": "x\n" * 1200, "news-commentary-v9.de-en.en": "x\n"},
            r"\.en in .*tgz has 1 lines, but .*\.de in .* has 1,200 lines",
        ),
        (
            NEWS,
            {
                "t/news-commentary-v9.de-en.de": b"x\nM\xfcller\n",
                "t/news-commentary-v9.de-en.en": "x\ny\n",
            },
            r"nc-v9.tgz: t/news-commentary-v9.de-en.de, line 2: not UTF-8 \(byte 0xfc\)",
        ),
    ],
)
def test_wrong_members(wmt14_corpus, wmt14_archives, tmp_path, archive, files, said):
    tar(wmt14_archives[archive], files)
    with pytest.raises(UserError, match=said):
        read(wmt14_corpus, wmt14_archives, tmp_path)


# -- SGML -------------------------------------------------------------------------------------


def texts_of(content: str) -> list[tuple[str, str, str]]:
    found = formats.segments(iter(content.split("\n")), "a.sgm")
    return [(item.document, item.number, item.text) for item in found]


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
    assert texts_of(content) == [
        ("d1", "1", "Title"),
        ("d1", "2", "two"),
        ("d1", "3", ""),
        ("d1", "4", ""),
        ("d1", "5", "over two lines"),
        ("d2", "1", "one & <i>two</i> 3 < 4 &copy; AB &#10;'\u2028"),
    ]


def test_damaged_sgml():
    for content, said in (
        ("<srcset></srcset>", "a.sgm has no segments"),
        (
            '<doc docid="d">\n<seg id="1">one</seg>\n<seg id="2">two',
            "a.sgm, line 3: segment 2 of document d",
        ),
        ('<doc docid="d">\n<seg id="1">one\n<seg id="2">two</seg>\n</doc>', "line 2: segment 1"),
        ('<doc docid="d">\n<seg id="1">one\n</doc>', "line 2: segment 1"),
    ):
        with pytest.raises(UserError, match=said):
            texts_of(content)


def test_source_and_reference_have_to_fit(wmt14_corpus, wmt14_archives, tmp_path):
    """Documents may have other names in the reference, but not another order or length."""
    for number, (reference, said) in enumerate(
        [
            ([("x.de", ["1", "2"]), ("y.de", ["3"])], None),
            (
                [("x", ["1"]), ("y", ["3"])],
                r"src.en.sgm in .* has 3 segments, but .*ref.de.sgm.* has 2",
            ),
            ([("y", ["3"]), ("x", ["1", "2"])], "segment 1 of document x where .* 1 of y"),
            ([("x", ["1"]), ("y", ["2", "3"])], "segment 2 of document x where .* 1 of y"),
        ]
    ):
        source = sgm("srcset", ("x", ["1", "2"]), ("y", ["3"]))
        files = {
            "newstest2014-deen-src.en.sgm": source,
            "newstest2014-deen-ref.de.sgm": sgm("refset", *reference),
        }
        tar(wmt14_archives[FULL], files)
        if said is None:
            texts = read(wmt14_corpus, wmt14_archives, tmp_path / str(number))
            assert texts["test.de"] == "1\n2\n3\n"
        else:
            with pytest.raises(UserError, match=said):
                read(wmt14_corpus, wmt14_archives, tmp_path / str(number))


# -- WMT17 ------------------------------------------------------------------------------------


@pytest.fixture
def wmt17_corpus():
    return load_corpus("wmt17.zh-en", CONFIGS)


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
    single = {
        "casia2015": ("ch", "casia2015"),
        "casict2015": ("ch", "casict2015"),
        "datum2015": ("ch", "datum"),
        "neu2017": ("cn", "NEU"),
    }
    archives = {
        "wmt17/training-parallel-nc-v12.tgz": tar(
            tmp_path / "nc.tgz",
            {
                "training/news-commentary-v12.zh-en.zh": "新闻 评论\n新闻\u2028评论\n决议\n",
                "training/news-commentary-v12.zh-en.en": "News commentary\nNews again\nOther\n",
                "training/news-commentary-v12.cs-en.en": "x\n",
            },
        ),
        "un/UNv1.0.en-zh.tar.gz": zipped(tmp_path / "un.tar.gz", un),  # told by its content
        "cwmt/datum2017.zip": zipped(tmp_path / "datum2017.zip", books),
        "wmt17/dev.tgz": tar(
            tmp_path / "dev.tgz",
            {
                "dev/newsdev2017-zhen-src.zh.sgm": "\ufeff" + sgm("srcset", ("x", ["中文", ""])),
                "dev/newsdev2017-zhen-ref.en.sgm": sgm("refset", ("x", ["Chinese", "2000"])),
                "dev/newsdev2017-enzh-src.en.sgm": "the other direction",
            },
        ),
        "wmt17/test.tgz": tar(
            tmp_path / "test.tgz",
            {
                "test/newstest2017-zhen-src.zh.sgm": sgm("srcset", ("x", ["测试"])),
                "test/newstest2017-zhen-ref.en.sgm": sgm("refset", ("x", ["R&amp;D"])),
            },
        ),
    }
    for name, (chinese, stem) in single.items():
        archives[f"cwmt/{name}.zip"] = zipped(
            tmp_path / f"{name}.zip",
            {
                f"__MACOSX/{name}/._{stem}_en.txt": b"\0\xff",
                f"{name}/{stem}_en.txt": f"{name}\nResolution\n",
                f"{name}/{stem}_{chinese}.txt": "语料 库\n决议\n",
            },
        )
    return archives


def test_wmt17(wmt17_corpus, wmt17_archives, tmp_path):
    texts = read(wmt17_corpus, wmt17_archives, tmp_path)
    assert json.loads(texts.pop("facts.json"))["dropped"] == {
        "train": {
            "no Chinese character in the Chinese": 1,
            "no letter in the English": 1,
            "Chinese characters in the English": 1,
            "empty": 1,
            "repeated": 4,  # Resolution, of every single corpus; Other is another English
        }
    }
    books = [(f"第{n}本Open Source书。", f"Book number {n} .") for n in range(1, 21)]
    train = [
        ("新闻 评论", "News commentary"),
        ("新闻\u2028评论", "News again"),
        ("决议", "Other"),
        ("决议", "Resolution"),
        ("语料 库", "casia2015"),
        ("语料 库", "casict2015"),
        ("语料 库", "datum2015"),
        *books,
        ("语料 库", "neu2017"),
    ]
    assert texts == {
        "train.zh": "".join(f"{zh}\n" for zh, _ in train),
        "train.en": "".join(f"{en}\n" for _, en in train),
        "valid.zh": "中文\n\n",  # held-out sets stay as they are
        "valid.en": "Chinese\n2000\n",
        "test.zh": "测试\n",
        "test.en": "R&D\n",
    }


def test_wmt17_part_of_the_training_text(wmt17_corpus, wmt17_archives, tmp_path):
    corpus = replace(wmt17_corpus, options={"train": ["neu2017"]})
    texts = read(corpus, wmt17_archives, tmp_path)
    assert texts["train.zh"] == "语料 库\n决议\n"
    assert json.loads(texts["facts.json"])["dropped"] == {"train": {}}


def test_wmt17_wrong_settings_and_damage(wmt17_corpus, wmt17_archives, tmp_path):
    for corpus, message in (
        (replace(wmt17_corpus, source="en", target="zh"), "has zh to en, not en to zh"),
        (
            replace(wmt17_corpus, options={"train": ["un"]}),
            "use a list of news-commentary-v12, un-v1",
        ),
    ):
        with pytest.raises(UserError, match=message):
            read(corpus, wmt17_archives, tmp_path)
        (tmp_path / "destination").rmdir()
    path = wmt17_archives["cwmt/neu2017.zip"]
    cut_off(path)
    with pytest.raises(UserError, match="neu2017.zip is damaged or cut off"):
        read(wmt17_corpus, wmt17_archives, tmp_path)


def test_zip_with_another_text_than_its_checksum_is_of(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a.de", "good line\n" * 5)
    path.write_bytes(path.read_bytes().replace(b"good", b"evil", 1))
    with pytest.raises(UserError, match="a.zip is damaged"):
        for _, lines in formats.members(path, ("a.de",)):
            list(lines)


def test_fingerprints_tell_where_the_sides_part():
    assert wmt17.fingerprint("a b", "c") == wmt17.fingerprint(" a b", "c ")
    numbers = {wmt17.fingerprint(*pair) for pair in [("ab", "c"), ("a", "bc"), ("c", "ab")]}
    assert len(numbers) == 3


# -- ASPEC ------------------------------------------------------------------------------------


@pytest.fixture
def aspec_archives(tmp_path) -> dict[str, Path]:
    contents = {
        "ASPEC-JE/train/train-1.txt": "0.9 ||| G-01A ||| 1 ||| 日本｜です。 ||| It is | Japan.\n",
        "ASPEC-JE/train/train-2.txt": (
            "0.1 ||| G-02A ||| 2 ||| 二\u3000つ ||| two\u2028\r\n0.05 ||| X ||| 1 |||  ||| \n"
        ),
        "ASPEC-JE/dev/dev.txt": "G-03A ||| 1 ||| 開発 ||| dev &amp;\n",
        "ASPEC-JE/test/test.txt": "G-04A ||| 1 ||| 試験 ||| test\n",
    }
    archives = {}
    for name, content in contents.items():
        archives[name] = tmp_path / name
        archives[name].parent.mkdir(parents=True, exist_ok=True)
        archives[name].write_bytes(content.encode())
    return archives


def test_aspec(aspec_archives, tmp_path):
    """Whatever the direction, the Japanese stands before the English in the files."""
    for name in ("wat17.ja-en.hybrid_gate", "wat17.ja-en.mma", "wat17.en-ja.mma"):
        assert read(load_corpus(name, CONFIGS), aspec_archives, tmp_path / name) == {
            "train.ja": "日本｜です。\n二\u3000つ\n\n",
            "train.en": "It is | Japan.\ntwo\u2028\n\n",
            "valid.ja": "開発\n",
            "valid.en": "dev &amp;\n",
            "test.ja": "試験\n",
            "test.en": "test\n",
        }


@pytest.mark.parametrize(
    "name, content, message",
    [
        (
            "train/train-2.txt",
            "0.1 ||| G ||| 1 ||| 一 ||| a\nG ||| 2 ||| 二 ||| b\n",
            "train-2.txt, line 2: 4 fields instead of 5",
        ),
        ("dev/dev.txt", "0.1 ||| G ||| 1 ||| 一 ||| a\n", "dev.txt, line 1: 5 fields instead of 4"),
        ("test/test.txt", "一\ta\n", "test.txt, line 1: 1 fields instead of 4"),
        ("test/test.txt", "", "test.txt is empty"),
        (
            "test/test.txt",
            b"G ||| 1 ||| \x93\xfa ||| a\n",
            r"test.txt, line 1: not UTF-8 \(byte 0x93\)",
        ),
    ],
)
def test_aspec_damaged(aspec_archives, tmp_path, name, content, message):
    content = content.encode() if isinstance(content, str) else content
    aspec_archives[f"ASPEC-JE/{name}"].write_bytes(content)
    with pytest.raises(UserError, match=message):
        read(load_corpus("wat17.ja-en.mma", CONFIGS), aspec_archives, tmp_path)


def test_aspec_wrong_settings(aspec_archives, tmp_path):
    corpus = load_corpus("wat17.ja-en.mma", CONFIGS)
    for changed, message in (
        (replace(corpus, target="zh"), "has ja and en, not ja and zh"),
        (replace(corpus, options={"train": ["train-9.txt"]}), "train: .*use a list of ASPEC-JE"),
        (replace(corpus, options={"train": "ASPEC-JE/dev/dev.txt"}), "use a list of"),
    ):
        with pytest.raises(UserError, match=message):
            read(changed, aspec_archives, tmp_path)
        (tmp_path / "destination").rmdir()


# -- Recipes ----------------------------------------------------------------------------------


def test_recipes_have_the_archives_that_their_readers_take():
    needed = {
        "wmt14": {file for file, _ in wmt14.TRAIN.values()} | {wmt14.VALID[0], wmt14.TEST["full"]},
        "wmt17": {text.archive for text in wmt17.TRAIN.values()} | {wmt17.VALID[0], wmt17.TEST[0]},
        "aspec": {file for files in aspec.FILES.values() for file in files},
    }
    for name in RECIPES:
        corpus = load_corpus(name, CONFIGS)
        assert {archive.file for archive in corpus.archives} == needed[corpus.reader]
        if corpus.reader != "aspec":
            assert all(archive.urls for archive in corpus.archives)
        else:  # licensed: the recipe says where to get it
            assert not any(archive.urls for archive in corpus.archives)
            wanted = ["ASPEC-JE", "JST", "https://jipsti.jst.go.jp/aspec/", "--downloads"]
            wanted += [archive.file.removeprefix("ASPEC-JE/") for archive in corpus.archives]
            assert all(text in corpus.licence for text in wanted)


@pytest.mark.parametrize(
    "name, kind, size, joint, tokens",
    [
        ("wmt14.en-de.hysan", "sentencepiece-bpe", 32000, True, "moses moses"),
        ("wmt14.en-de.hybrid_gate", "subword-nmt", 32000, True, "moses moses"),
        ("wmt17.zh-en", "sentencepiece-bpe", 32000, False, "jieba moses"),
        ("wat17.ja-en.hybrid_gate", "subword-nmt", 32000, False, "mecab moses"),
        ("wat17.ja-en.mma", "sentencepiece-bpe", 16000, False, "none none"),
        ("wat17.en-ja.mma", "sentencepiece-bpe", 16000, False, "none none"),
    ],
)
def test_recipe_follows_the_paper(name, kind, size, joint, tokens):
    corpus = load_corpus(name, CONFIGS)
    assert f"{corpus.source}-{corpus.target}" == name.split(".")[1]
    assert (corpus.subwords.kind, corpus.subwords.size, corpus.subwords.joint) == (
        kind,
        size,
        joint,
    )
    assert " ".join(corpus.tokenizer[language] for language in corpus.languages) == tokens
    assert not corpus.lowercase


# -- Size -------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_archive(tmp_path):
    side = (b"some words of a line " * 100 + b"end\n") * 4_000  # 8 MB
    path = tar(tmp_path / "a.tgz", {"a.de": side, "a.en": side})
    tracemalloc.start()
    try:
        with formats.part_writer(tmp_path, "train", ("de", "en")) as writer:
            formats.append_lines(writer, path, ("a.de", "a.en"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (tmp_path / "train.en").stat().st_size == len(side)
    assert peak < 3e6


def test_gzip_of_several_parts(tmp_path):
    """The parts of a split archive, and archives of pigz, may be gzip files one after another."""
    path = tar(tmp_path / "a.tar", {"a.de": "x\n" * 5000}, "")
    content = path.read_bytes()
    path.write_bytes(gzip.compress(content[:7000]) + gzip.compress(content[7000:]))
    ((_, lines),) = ((name, list(text)) for name, text in formats.members(path, ("a.de",)))
    assert lines == ["x"] * 5000
