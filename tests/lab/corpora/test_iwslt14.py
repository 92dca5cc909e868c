"""The IWSLT 2014 recipes on archives of a few sentences, made here.

What has to come out was worked out by hand from fairseq's prepare-iwslt14.sh.
"""

import io
import tarfile
from dataclasses import replace

import pytest
from corpora_made import CONFIGS, lines

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.corpora import load_corpus, prepare
from fairseq_hybrid_attn.lab.corpora.definition import Subwords
from fairseq_hybrid_attn.lab.corpora.readers import iwslt14

SETS = {"dev2010": "TED", "dev2012": "TEDX", "tst2010": "TED", "tst2011": "TED", "tst2012": "TED"}

#: Sentences (German, English) that are too uneven, and one that is just not.
UNEVEN = ("Ja gut .", "Yes , good .")  # 3 and 4 tokens: 1.33
TOO_UNEVEN = ("Ja .", "Well , yes .")  # 2 and 4 tokens: 2
JUST_EVEN = ("Ja .", "Oh yes .")  # 2 and 3 tokens: 1.5


def training_files():
    """40 sentence pairs, tags among them; and the pairs that cleaning leaves, in order."""
    german, english, kept = [], [], []

    def about(*lines):
        for text in (german, english):
            text.extend(lines)

    def pair(de, en, keep=True, tag=""):
        german.append(f"<{tag}>{de}</{tag}>" if tag else f" {de} ")
        english.append(f"<{tag}>{en}</{tag}>" if tag else f"{en}")
        if keep:
            kept.append((de, en))

    for talk in range(4):
        about(f"<url>http://www.example.org/{talk}</url>", "<keywords>talks, TED</keywords>")
        about("<speaker>A. Speaker</speaker>", f"<talkid>{talk}</talkid>")
        pair(f"Titel {talk}", f"Title {talk}", tag="title")
        pair(f"Beschreibung {talk}", f"Description {talk}", tag="description")
        about('<reviewer href="x">R</reviewer>', '<translator href="y">T</translator>')
        for number in range(10):
            pair(f"Das ist Satz {talk}-{number}.", f"This is Sentence {talk}-{number}.")
        pair(*UNEVEN)
        pair(*JUST_EVEN)
        pair(*TOO_UNEVEN, keep=False)
        pair("", "Nothing.", keep=False)
        pair("so " * 175, "so " * 175)
        pair("so " * 176, "so " * 176, keep=False)
    kept = [(de.strip(), en.strip()) for de, en in kept]
    return "\n".join(german) + "\n", "\n".join(english) + "\n", kept


def segments(name, language, count=3):
    lines = [f'<doc docid="1"><talkid>1</talkid><title>{name}</title>']
    lines += [
        f'<seg id="{number}"> {language} Q&amp;A {number} of {name}: it’s so. </seg>'
        for number in range(1, count + 1)
    ]
    return "\n".join(['<?xml version="1.0"?>', *lines, "</doc>"]) + "\n"


def archive(path, files):
    with tarfile.open(path, "w:gz") as tar:
        for name, text in files.items():
            content = text if isinstance(text, bytes) else text.encode()
            member = tarfile.TarInfo(f"de-en/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def release():
    german, english, _ = training_files()
    files = {"train.tags.de-en.de": german, "train.tags.de-en.en": english, "README": "x"}
    for name, talks in SETS.items():
        for language in ("de", "en"):
            files[f"IWSLT14.{talks}.{name}.de-en.{language}.xml"] = segments(name, language)
    return files


@pytest.fixture
def downloads(tmp_path):
    folder = tmp_path / "downloads"
    folder.mkdir()
    archive(folder / "de-en.tgz", release())
    return folder


def recipe(name, **changes):
    """A recipe with as few subwords as its tiny text has."""
    corpus = load_corpus(f"iwslt14.de-en.{name}", CONFIGS)
    return replace(corpus, subwords=Subwords(corpus.subwords.kind, 60), **changes)


def read(corpus, downloads, tmp_path):
    destination = tmp_path / "read"
    destination.mkdir(parents=True)
    archives = {item.file: downloads / item.file for item in corpus.archives}
    iwslt14.read(corpus, archives, destination)
    return destination


def test_fairseq_recipe_from_archive_to_binary(downloads, tmp_path, capsys):
    output = tmp_path / "out"
    manifest = prepare(recipe("fairseq"), output, downloads, workers=2)
    _, _, kept = training_files()
    # fairseq: awk 'NR%23==0' of the cleaned text is for validation.
    valid = [kept[22], kept[45]]
    train = [pair for number, pair in enumerate(kept) if number not in (22, 45)]
    for side, language in enumerate(("de", "en")):
        assert lines(output / f"raw/train.{language}") == [pair[side] for pair in train]
        assert lines(output / f"raw/valid.{language}") == [pair[side] for pair in valid]
        # The test sets in the order of fairseq's script, text untouched.
        assert lines(output / f"raw/test.{language}") == [
            f"{language} Q&A {number} of {name}: it’s so."
            for name in ("dev2010", "dev2012", "tst2010", "tst2011", "tst2012")
            for number in (1, 2, 3)
        ]
    # What the model sees is tokenised and lower-cased, with ASCII apostrophes in the test set.
    test = lines(output / "tokenised/test.en")
    assert test[0] == "en q &amp; a 1 of dev2010 : it &apos;s so ."
    assert lines(output / "tokenised/train.de")[2] == "das ist satz 0-0 ."
    assert lines(output / "subwords/test.en")[0].replace("@@ ", "") == test[0]

    counts = {"train": len(train), "valid": 2, "test": 15}
    assert manifest.counts == counts
    assert manifest.dropped == {"train": {"empty side": 4, "length ratio": 4, "too many tokens": 4}}
    # The recipe knows the true sizes; a difference is told, not fatal.
    assert manifest.expected == {"train": 160239, "valid": 7283, "test": 6750}
    assert manifest.differences["test"] == {"expected": 6750, "found": 15}
    assert "test has 15 pairs, not 6,750" in capsys.readouterr().err
    assert (output / "bin/train.de-en.de.bin").stat().st_size
    assert (output / "bin/dict.de.txt").read_bytes() == (output / "bin/dict.en.txt").read_bytes()
    assert not (output / "work").exists()


def test_hysan_recipe_is_cased_and_without_dev2012(downloads, no_preprocess, tmp_path):
    output = tmp_path / "out"
    manifest = prepare(recipe("hysan"), output, downloads, workers=1)
    assert manifest.counts["test"] == 12
    assert lines(output / "raw/test.de")[3] == "de Q&A 1 of tst2010: it’s so."
    assert lines(output / "tokenised/test.en")[0] == "en Q &amp; A 1 of dev2010 : it &apos;s so ."
    pieces = lines(output / "subwords/train.de")[2]
    assert pieces.replace(" ", "").replace("\u2581", " ") == " Das ist Satz 0-0 ."


def test_mma_recipe_says_what_is_missing_before_it_downloads(tmp_path):
    said = []
    with pytest.raises(UserError) as caught:
        prepare(recipe("mma"), tmp_path / "out", tmp_path / "none", say=said.append)
    message = str(caught.value)
    assert str(tmp_path / "none/IWSLT15.TED.tst2013.de-en.de.xml") in message
    assert "2015-01" in message and "iwslt14.de-en.fairseq" in message
    assert not said


def test_mma_recipe_with_tst2013(downloads, tmp_path):
    for language in ("de", "en"):
        path = downloads / f"IWSLT15.TED.tst2013.de-en.{language}.xml"
        path.write_text(segments("tst2013", language, count=5))
    folder = read(recipe("mma"), downloads, tmp_path)
    names = [line.split()[4].rstrip(":") for line in lines(folder / "test.de")]
    order = ["tst2010", "tst2011", "tst2012", "tst2013", "dev2010"]
    assert list(dict.fromkeys(names)) == order
    assert names.count("tst2013") == 5


def test_wrong_files_are_refused(downloads, tmp_path):
    """A missing set is not left out: the test set would be another one."""
    train, dev = "train.tags.de-en.de", "IWSLT14.TED.dev2010.de-en.de.xml"
    files = release()
    latin = files[train].encode().replace(b"Satz 0-0", b"S\xe4tze 0-0")
    for number, (changes, said) in enumerate(
        [
            ({dev: None}, r"dev2010 is not in .*IWSLT14\.TED\.dev2010\.de-en\.de"),
            ({f"old/{dev}": files[dev]}, "more than one file for dev2010"),
            (
                {dev: segments("dev2010", "de", count=4)},
                r"dev2010 \(de\) has 4 lines, but dev2010 \(en\) has 3",
            ),
            # Line 9: four lines about the talk, title, description, reviewer, translator.
            ({train: latin}, r"de-en.tgz: de-en/train.tags.de-en.de, line 9: not UTF-8"),
            (
                {dev: files[dev].replace(" </seg>", "\n</seg>", 1)},
                "dev2010.*line 3: not a <seg id> of one line",
            ),
        ]
    ):
        changed = {name: text for name, text in {**files, **changes}.items() if text is not None}
        archive(downloads / "de-en.tgz", changed)
        with pytest.raises(UserError, match=said):
            read(recipe("fairseq"), downloads, tmp_path / str(number))


def test_damaged_archive(downloads, tmp_path):
    path = downloads / "de-en.tgz"
    content = path.read_bytes()
    damaged = [content[: int(len(content) * share)] for share in (0.2, 0.9, 0.999)]
    for number, other in enumerate([*damaged, b"<html>please log in</html>"]):
        path.write_bytes(other)
        with pytest.raises(UserError, match="de-en.tgz is damaged or cut off.*delete it"):
            read(recipe("fairseq"), downloads, tmp_path / str(number))


def test_archive_may_go_when_all_is_made(downloads, no_preprocess, tmp_path):
    output = tmp_path / "out"
    first = prepare(recipe("fairseq"), output, downloads, workers=1)
    (downloads / "de-en.tgz").unlink()
    said = []
    assert prepare(recipe("fairseq"), output, downloads, workers=1, say=said.append) == first
    assert not said


def test_another_archive_makes_everything_again(downloads, no_preprocess, tmp_path):
    output = tmp_path / "out"
    first = prepare(recipe("fairseq"), output, downloads, workers=1)
    files = release()
    files["IWSLT14.TED.tst2012.de-en.de.xml"] = segments("changed", "de")
    archive(downloads / "de-en.tgz", files)
    with pytest.raises(UserError, match="is not what it was"):
        prepare(recipe("fairseq"), output, downloads, workers=1)
    (downloads / "de-en.tgz.sha256").unlink()
    second = prepare(recipe("fairseq"), output, downloads, workers=1)
    assert second.digest != first.digest
    assert second.archives != first.archives
    assert lines(output / "raw/test.de")[-1] == "de Q&A 3 of changed: it’s so."
