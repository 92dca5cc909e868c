"""examples/probing: probing tasks that are made from text."""

import html
import itertools
import random
import runpy
from collections import Counter
from pathlib import Path

import pytest
from refusals import check_refusals

from fairseq_hybrid_attn.lab.probing.tasks import TASKS, read_task

main = runpy.run_path(str(Path(__file__).parents[3] / "examples/probing/make_tasks.py"))["main"]
#: Tokens of each class of lengths, from the description beside the published files.
LENGTHS = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))
OPTIONS = "--sizes 400 50 60 --words 8 --first-rank 41".split()
VOCABULARY = [a + b + c for a in "bdfgklmnpr" for b in ("a", "e", "o") for c in ("st", "nd", "x")]


def text(count=4000, seed=0):
    """Sentences of 1 to 34 tokens; frequent and rare words, quotes, punctuation, duplicates."""
    choose = random.Random(seed)
    weights = [1 / rank for rank in range(1, len(VOCABULARY) + 1)]
    made = []
    for _ in range(count):
        words = choose.choices(VOCABULARY, weights, k=choose.randint(0, 33))
        if words and choose.random() < 0.3:
            words[choose.randrange(len(words))] = choose.choice([",", "&quot;", "&apos;s", '"'])
        words[:1] = [word.capitalize() for word in words[:1]]
        made.append(" ".join([*words, "."]))
    return [*made, *(line.upper() for line in made[:50])]


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    (folder / "text").write_text("\n".join(text()) + "\n")
    main([str(folder / "text"), "--output", str(folder / "out"), *OPTIONS])
    return folder


def lines_of(folder, name):
    return [line.split("\t") for line in (folder / name).read_text().splitlines()]


def test_made_files_are_task_files_with_classes_of_equal_size(generated):
    for name, classes in (("SentLen", 6), ("WC", 8), ("BShift", 2)):
        task = TASKS[name]
        file = read_task(generated / "out" / task.file, task)
        assert len(file.classes) == classes
        counts = Counter(zip(file.parts, file.labels, strict=True))
        for part, size in {"tr": 400, "va": 50, "te": 60}.items():
            assert {counts[part, label] for label in file.classes} == {size // classes}
        # Part after part, and within a part no order of classes.
        assert [part for part, _ in itertools.groupby(file.parts)] == ["tr", "va", "te"]
        assert len(list(itertools.groupby(file.labels))) > 2 * 3 * classes
        # No sentence twice, not even with other case or order of words.
        words = [tuple(sorted(sentence.lower().split())) for sentence in file.sentences]
        assert len(set(words)) == len(words)
        for label, sentence in zip(file.labels, file.sentences, strict=True):
            least, most = LENGTHS[int(label)] if name == "SentLen" else (5, 28)
            assert least <= len(sentence.split()) <= most


def test_made_words_occur_once_and_alone(generated):
    rows = lines_of(generated, "out/word_content.txt")
    targets = {label for _, label, _ in rows}
    for _, label, sentence in rows:
        assert [word for word in sentence.lower().split() if word in targets] == [label]
    sentences = {}
    for line in text():
        if 5 <= len(line.split()) <= 28:
            sentences.setdefault(line.lower(), line)
    counts = Counter(word for line in sentences for word in line.split())
    ranked = [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    expected = [word for word in ranked[40:] if len(word) >= 4 and word.isalpha()][:8]
    assert targets == set(expected)


def test_made_inversions(generated):
    originals = {" ".join(sentence.split()) for sentence in text()}
    seen = Counter()
    for _, label, sentence in lines_of(generated, "out/bigram_shift.txt"):
        assert '"' not in html.unescape(sentence)
        if label == "O":
            assert sentence in originals
            continue
        assert sentence not in originals
        words = sentence.split()
        undone = [
            at
            for at in range(len(words) - 1)
            if " ".join([*words[:at], words[at + 1], words[at], *words[at + 2 :]]) in originals
        ]
        (at,) = undone
        assert at >= 1
        assert all(any(map(str.isalpha, word)) for word in words[at : at + 2])
        seen[at] += 1
    assert len(seen) > 10  # all over the sentence


def test_what_cannot_be_made_is_told_and_nothing_is_written(generated, folder):
    (folder / "published").mkdir()
    (folder / "published/tree_depth.txt").write_text("mine")
    refused = {
        "--sizes 9000 10 10": "SentLen: 1,502 sentences of each class",
        "--sizes 3 1 1": "6 classes",
        "--tasks WC": "--first-rank 2001",
        "--words 1": "--words 1",
        "--output published": "tree_depth.txt exists",
    }
    common = [str(generated / "text"), "--output", "new"]
    check_refusals(refused.items(), lambda flags: main([*common, *flags.split()]))
    assert not (folder / "new").exists()
