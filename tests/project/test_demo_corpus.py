"""The demo's text: reading catalogues, cleaning, splitting.  No network is used."""

import itertools
import zipfile
from pathlib import Path

import pytest
from architectures import add_row
from catalogues import CorpusError, catalogue_names, read_catalogue, read_wheel
from cleaning import CleanPair, clean
from make_corpus import make_corpus
from splitting import sentences, split

from fairseq_hybrid_attn.lab.config.paper_tables import Cell, load_table
from fairseq_hybrid_attn.lab.config.settings import load_profile
from fairseq_hybrid_attn.lab.corpora import load_corpus

DEMO = Path(__file__).parents[2] / "scripts" / "demo"
HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'


def catalogue(text: str) -> list[tuple[str, str]]:
    return read_catalogue("de.po", (HEADER + text).encode())


def wheel(path: Path, **files: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def pairs(*texts: tuple[str, str]) -> list[CleanPair]:
    return [CleanPair(german, english, untouched=True) for german, english in texts]


def many_pairs(number: int) -> list[CleanPair]:
    """Different in words, since numbers do not count."""
    letters = [chr(97 + i // 26 % 26) + chr(97 + i % 26) for i in range(number)]
    return pairs(*((f"Das ist Haus {x}x", f"This is house {x}x") for x in letters))


PLURAL = 'msgid "{0} page"\nmsgid_plural "{0} pages"\n'
#: Entries, and the pairs (German, English) that they give.
ENTRIES = {
    'msgid "Save it"\nmsgstr "Änderungen speichern"\n': [("Änderungen speichern", "Save it")],
    '#, fuzzy\nmsgid "Save"\nmsgstr "Sichern"\n': [],
    'msgid "Save"\nmsgstr ""\n': [],
    PLURAL.format("%d") + 'msgstr[0] "%d Seite"\nmsgstr[1] "%d Seiten"\n': [
        ("%d Seite", "%d page"),
        ("%d Seiten", "%d pages"),
    ],
    # Keys, the first with its default text.
    '#. Default: "Purge the \\"old\\" ones"\nmsgid "label_purge"\nmsgstr "Leeren"\n': [
        ("Leeren", 'Purge the "old" ones')
    ],
    **{
        f'msgid "{key}"\nmsgstr "Leeren"\n': []
        for key in ("label_purge", "help.text", "7days_events")
    },
    **{
        f'msgid "{words}"\nmsgstr "Wort"\n': [("Wort", words)]  # not keys
        for words in ("save", "Check-in", "Name:")
    },
}


def test_entries_give_their_pairs():
    for entry, expected in ENTRIES.items():
        found = catalogue(entry + '\nmsgid "Open"\nmsgstr "Öffnen"\n')
        assert found == [*expected, ("Öffnen", "Open")], entry


def test_only_plain_german_and_a_compiled_one_only_without_its_source():
    names = [
        "a/locale/de/LC_MESSAGES/django.po",
        "a/locale/de/LC_MESSAGES/django.mo",
        "a/locale/de_AT/LC_MESSAGES/django.po",
        "a/locale/de_Informal/LC_MESSAGES/django.po",
        "a/locale/fr/LC_MESSAGES/django.po",
        "b/de/LC_MESSAGES/only.mo",
        "b/de/LC_MESSAGES/notes.txt",
    ]
    assert catalogue_names(names) == [names[0], names[5]]


def test_a_broken_wheel_is_named(tmp_path):
    broken = tmp_path / "b.whl"
    broken.write_bytes(wheel(tmp_path / "a.whl", x=HEADER.encode() * 99).read_bytes()[:200])
    with pytest.raises(CorpusError, match=r"b\.whl"):
        read_wheel(broken)


def test_what_is_kept_of_a_pair():
    """White space alone leaves it untouched."""
    for german, english, *expected in (
        ("<b>Neue</b> Seite", "<b>New</b> page", "Neue Seite", "New page", False),
        ("Neue\n   Seite ", "New\tpage", "Neue Seite", "New page", True),
        ("100%% sicher sein", "To be 100%% sure", "100% sicher sein", "To be 100% sure", False),
        ("In {b} ist {a} und {a}", "{a} and {a} is in {b}")
        + ("In Y ist X und X", "X and X is in Y", False),
    ):
        assert clean(german, english) == [CleanPair(*expected)]
    for placeholder in "%s %d %(name)s %(n)d {} {name} {0} ${name} $name".split():
        found = clean(f"Seite {placeholder} löschen", f"Delete page {placeholder}")
        assert found == [CleanPair("Seite X löschen", "Delete page X", False)], placeholder


def test_what_is_no_translation():
    for german, english in (
        ("Seite", "Page {name}"),  # a placeholder is missing, is another, or there are too many
        ("Seite {b}", "Page {a}"),
        ("Seite {a}{b}{c}{d}", "Page {a}{b}{c}{d}"),
        ("", "Page"),
        ("Server", "server"),
        ("42 %", "43 %"),
        ("Seite " * 61, "Page " * 61),
        ("Eine Erklärung, die sich über viele Worte hinzieht", "Page number one"),
        ("The name of the page", "The title of the page"),
        ("Страница", "Page"),
        ("Siehe https://example.org", "See https://example.org"),
        ("Ruft name() auf", "Calls name()"),
    ):
        assert clean(german, english) == [], (german, english)


def test_no_sentence_is_in_two_parts():
    """Nor a variant of it."""
    for variant in (
        lambda german, english: ("Etwas anderes", english),
        lambda german, english: (german, "Something else"),
        lambda german, english: ("Etwas anderes", f"„{english.upper()}“!"),
        lambda german, english: ("Etwas anderes", f"{english} 7"),
        lambda german, english: ("Etwas anderes", f"Look here. {english}. And go on."),
        lambda german, english: (f"Sieh hier: {german}!", "Something else"),
    ):
        originals = many_pairs(60)
        texts = [variant(pair.german, pair.english) for pair in originals]
        variants = [CleanPair(*pair, untouched=False) for pair in texts]
        parts = split(originals + variants, valid_size=10, test_size=10)
        found = [set().union(*map(sentences, part)) for part in vars(parts).values()]
        assert all(not one & other for one, other in itertools.combinations(found, 2)), texts[0]
        assert len(parts.train) == 2 * 40, texts[0]


def test_a_corpus_from_wheels(tmp_path, monkeypatch):
    monkeypatch.setattr("make_corpus.VALID_SIZE", 3)
    monkeypatch.setattr("make_corpus.TEST_SIZE", 4)
    entries = [f'msgid "{pair.english}"\nmsgstr "{pair.german}"\n\n' for pair in many_pairs(20)]
    content, output = (HEADER + "".join(entries)).encode(), tmp_path / "text"
    output.mkdir()
    wheel(tmp_path / "a.whl", **{"a/de/LC_MESSAGES/a.po": content})
    counts = make_corpus(tmp_path, output)
    assert "train 13 pairs (52 English words), valid 3, test 4" in counts
    for part, size in (("train", 13), ("valid", 3), ("test", 4)):
        german, english = (
            (output / f"{part}.{language}").read_text().splitlines() for language in ("de", "en")
        )
        assert len(german) == size
        assert [line.replace("Das ist Haus", "This is house") for line in german] == english


def test_any_architecture_gets_a_row(tmp_path):
    configs = DEMO.parents[1] / "configs"
    arch = "transformer_mma_iwslt"
    add_row(arch, configs, tmp_path)
    table = load_table("demo/architectures", tmp_path)
    cell = Cell(table, table.row(arch), table.column("bleu"))
    assert cell.settings(load_profile("full", tmp_path)).train["arch"] == arch
    assert load_corpus("demo", tmp_path)
