"""The IWSLT 2014 recipes on archives of a few sentences, made here.

The expected result was worked out by hand from fairseq's prepare-iwslt14.sh.
"""

from dataclasses import replace

import pytest
from corpora_made import CONFIGS, lines, pairs_of, remade, tar

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.corpora import load_corpus
from fairseq_hybrid_attn.lab.corpora.pipeline import prepare
from fairseq_hybrid_attn.lab.corpora.readers import iwslt14

SETS = {"dev2010": "TED", "dev2012": "TEDX", "tst2010": "TED", "tst2011": "TED", "tst2012": "TED"}

#: Pairs in a talk, and whether cleaning keeps them: it looks at the ratio of their tokens.
PAIRS = [
    ("Ja gut .", "Yes , good .", True),  # 1.33
    ("Ja .", "Oh yes .", True),  # just 1.5
    ("Ja .", "Well , yes .", False),  # 2
    ("", "Nothing.", False),
    ("so " * 175, "so " * 175, True),
    ("so " * 176, "so " * 176, False),
]


ABOUT = """<url>http://www.example.org/{talk}</url>
<keywords>TED</keywords>
<speaker>A. Speaker</speaker>
<talkid>{talk}</talkid>
<title>{title}</title>
<description>{description}</description>
<reviewer href="x">R</reviewer>
<translator href="y">T</translator>
"""


def training_files():
    """Four talks, with tags among the sentences; and the pairs that cleaning leaves, in order."""
    text, kept = ["", ""], []
    for talk in range(4):
        pairs = [(f"Das ist Satz {talk}-{n}.", f"This is Sentence {talk}-{n}.") for n in range(10)]
        heads = [(f"Titel {talk}", f"Title {talk}"), (f"Beschreibung {talk}", f"About {talk}")]
        for side, (title, description) in enumerate(zip(*heads, strict=True)):
            text[side] += ABOUT.format(talk=talk, title=title, description=description)
            text[side] += "".join(f" {pair[side]} \n" for pair in pairs + PAIRS)
        kept += heads + pairs + [(de.strip(), en.strip()) for de, en, keep in PAIRS if keep]
    return *text, kept


def segments(name, language, count=3):
    text = f'<?xml version="1.0"?>\n<doc docid="1"><talkid>1</talkid><title>{name}</title>\n'
    for number in range(1, count + 1):
        text += f'<seg id="{number}"> {language} Q&amp;A {number} of {name}: it’s so. </seg>\n'
    return text + "</doc>\n"


def release(**changes):
    """The archive, with some files changed, or without them if None."""
    german, english, _ = training_files()
    files = {"train.tags.de-en.de": german, "train.tags.de-en.en": english, "README": "x"}
    for name, talks in SETS.items():
        for language in ("de", "en"):
            files[f"IWSLT14.{talks}.{name}.de-en.{language}.xml"] = segments(name, language)
    files = {**files, **changes}
    return tar({f"de-en/{name}": text for name, text in files.items() if text is not None})


@pytest.fixture
def downloads(tmp_path):
    folder = tmp_path / "downloads"
    folder.mkdir()
    (folder / "de-en.tgz").write_bytes(release())
    return folder


def recipe(name):
    """A recipe with as few subwords as its tiny text has."""
    corpus = load_corpus(f"iwslt14.de-en.{name}", CONFIGS)
    return replace(corpus, subwords=replace(corpus.subwords, size=60))


def read(corpus, downloads, destination):
    destination.mkdir()
    archives = {item.file: downloads / item.file for item in corpus.archives}
    iwslt14.read(corpus, archives, destination)


def test_fairseq_recipe(downloads, no_preprocess, tmp_path, capsys):
    output = tmp_path / "out"
    manifest = prepare(recipe("fairseq"), output, downloads, workers=2)
    _, _, kept = training_files()
    # fairseq: awk 'NR%23==0' of the cleaned text is for validation.
    train = [pair for number, pair in enumerate(kept, 1) if number % 23]
    assert pairs_of(output, "train") == train
    assert pairs_of(output, "valid") == [kept[22], kept[45]]
    # The test sets in the order of fairseq's script, with its apostrophes, references too.
    for language in ("de", "en"):
        assert lines(output / f"raw/test.{language}") == [
            f"{language} Q&A {number} of {name}: it's so." for name in SETS for number in (1, 2, 3)
        ]
    # What the model sees is tokenised and lower-cased.
    test = lines(output / "tokenised/test.en")
    assert test[0] == "en q &amp; a 1 of dev2010 : it &apos;s so ."
    assert lines(output / "tokenised/train.de")[2] == "das ist satz 0-0 ."
    assert lines(output / "subwords/test.en")[0].replace("@@ ", "") == test[0]

    assert manifest.counts == {"train": len(train), "valid": 2, "test": 15}
    assert manifest.dropped == {"train": {"empty side": 4, "length ratio": 4, "too many tokens": 4}}
    # The recipe knows the true sizes; a difference gives a warning, not an error.
    assert manifest.expected == {"train": 160239, "valid": 7283, "test": 6750}
    assert manifest.differences["test"] == {"expected": 6750, "found": 15}
    assert "test has 15 pairs, not 6,750" in capsys.readouterr().err
    assert not (output / "work").exists()

    # The archive may go when all is made; a different one remakes everything.
    path = downloads / "de-en.tgz"
    path.unlink()
    assert remade(recipe("fairseq"), output, downloads) == []
    changed = {"IWSLT14.TED.tst2012.de-en.de.xml": segments("changed", "de")}
    path.write_bytes(release(**changed))
    second = prepare(recipe("fairseq"), output, downloads, workers=1)
    assert second.digest != manifest.digest and second.archives != manifest.archives
    assert lines(output / "raw/test.de")[-1] == "de Q&A 3 of changed: it's so."


def test_hysan_recipe_is_cased_and_without_dev2012(downloads, no_preprocess, tmp_path):
    output = tmp_path / "out"
    manifest = prepare(recipe("hysan"), output, downloads, workers=1)
    assert manifest.counts["test"] == 12
    assert lines(output / "raw/test.de")[3] == "de Q&A 1 of tst2010: it's so."
    assert lines(output / "tokenised/test.en")[0] == "en Q &amp; A 1 of dev2010 : it &apos;s so ."
    pieces = lines(output / "subwords/train.de")[2]
    assert pieces.replace(" ", "").replace("\u2581", " ") == " Das ist Satz 0-0 ."


def test_mma_recipe_needs_tst2013(downloads, tmp_path):
    said, name = [], "IWSLT15.TED.tst2013.de-en"
    with pytest.raises(UserError) as caught:
        prepare(recipe("mma"), tmp_path / "out", tmp_path / "none", say=said.append)
    for words in (str(tmp_path / f"none/{name}.de.xml"), "2015-01", "iwslt14.de-en.fairseq"):
        assert words in str(caught.value)
    assert not said  # before anything is downloaded
    for language in ("de", "en"):
        (downloads / f"{name}.{language}.xml").write_text(segments("tst2013", language, count=5))
    read(recipe("mma"), downloads, tmp_path / "read")
    names = [line.split()[4].rstrip(":") for line in lines(tmp_path / "read/test.de")]
    assert list(dict.fromkeys(names)) == ["tst2010", "tst2011", "tst2012", "tst2013", "dev2010"]
    assert names.count("tst2013") == 5


def test_wrong_files_are_refused(downloads, tmp_path):
    """A missing set is not left out: it would be a different test set."""
    dev, right = "IWSLT14.TED.dev2010.de-en.de.xml", segments("dev2010", "de")
    for number, (changed, said) in enumerate(
        [
            (None, "dev2010 is not in .*" + dev),
            (segments("dev2010", "de", 4), "de.xml has 4 lines, but .*en.xml has 3"),
            (
                right.replace(" </seg>", "\n</seg>", 1),
                "dev2010.*line 3: not a <seg id> of one line",
            ),
        ]
    ):
        (downloads / "de-en.tgz").write_bytes(release(**{dev: changed}))
        with pytest.raises(UserError, match=said):
            read(recipe("fairseq"), downloads, tmp_path / str(number))
