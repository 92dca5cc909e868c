"""Probing: files of tasks, the classifier, and tasks made out of text."""

import html
import itertools
import random
from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import nn

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.command_line import main
from fairseq_hybrid_attn.lab.probing.classifier import (
    Examples,
    ProbeSettings,
    SideBySide,
    train_classifier,
)
from fairseq_hybrid_attn.lab.probing.generate import LENGTHS, Wanted, bigram_shift, usable
from fairseq_hybrid_attn.lab.probing.probe import Vectors, as_dict, probe, settings_for
from fairseq_hybrid_attn.lab.probing.tasks import TASKS, find_files, read_task, tasks_named

#: Small batches: with few examples, SentEval's schedule stops after few updates.
QUICK = ProbeSettings(hidden=(8,), dropout=(0.0,), l2=(1e-5,), batch_size=5)
QUICKER = replace(QUICK, batch_size=50)


def write_task(path, rows):
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def task_file(tmp_path, labels, task="Tense"):
    """A file with these labels in each part."""
    rows = [
        (part, label, f"word {number}")
        for part in ("tr", "va", "te")
        for number, label in enumerate(labels)
    ]
    task = TASKS[task]
    return read_task(write_task(tmp_path / task.file, rows), task)


# -- Tasks and files ---------------------------------------------------------------------------


def test_the_tasks_are_those_of_the_papers():
    """Names and groups: Table 4 of the hybrid-gate paper; files: SentEval's probing.py."""
    assert [task.short for task in TASKS.values()] == (
        "SeLn WC TDep ToCo BShif Tense SubN ObjN SoMo CoIn".split()
    )
    groups = Counter(task.group for task in TASKS.values())
    assert groups == {"surface": 2, "syntactic": 3, "semantic": 5}
    assert [task.file.removesuffix(".txt") for task in TASKS.values()] == (
        "sentence_length word_content tree_depth top_constituents bigram_shift past_present "
        "subj_number obj_number odd_man_out coordination_inversion".split()
    )
    assert [name for name, task in TASKS.items() if task.linear] == ["WC"]


def test_a_file_is_read_as_it_is(tmp_path):
    rows = [
        ("tr", "PAST", "It rained ."),
        ("va", "PRES", "more fields", "It  rains ."),
        ("tr", "PRES", "It rains\u2028again ."),
        ("te", "PAST", "It rained twice ."),
    ]
    file = read_task(write_task(tmp_path / "past_present.txt", rows), TASKS["Tense"])
    assert file.parts == ["tr", "va", "tr", "te"]
    assert file.labels == ["PAST", "PRES", "PRES", "PAST"]
    assert file.classes == ["PAST", "PRES"]
    assert file.sentences[1] == "It rains ." and len(file.sentences) == 4
    assert file.places("tr") == [0, 2]
    assert file.majority == 100.0  # of equally common classes the first


def test_the_commonest_class_is_learned_on_one_part_and_tested_on_another(tmp_path):
    rows = [("tr", "A", "a")] * 2 + [("tr", "B", "b")] * 3 + [("va", "A", "c")] * 9
    rows += [("te", "A", "d")] * 6 + [("te", "B", "e")] * 2
    file = read_task(write_task(tmp_path / "past_present.txt", rows), TASKS["Tense"])
    assert file.majority == 25.0


GOOD = [("tr", "A", "a b"), ("tr", "B", "b c"), ("va", "A", "c d"), ("te", "B", "d e")]


@pytest.mark.parametrize(
    "rows, said",
    [
        ([*GOOD, ("train", "A", "x y")], ["line 5", "'train'", "tr, va, te"]),
        ([*GOOD, ("tr", "A")], ["line 5", "2 fields"]),
        ([*GOOD, ("",)], ["line 5", "1 field;"]),
        ([*GOOD, ("tr", "A", " ")], ["line 5", "empty"]),
        ([*GOOD, ("tr", "", "x y")], ["line 5", "no class"]),
        ([*GOOD, ("te", "C", "x y")], ["line 5", "'C' is in te but not in tr"]),
        ([*GOOD, ("va", "C", "x y")], ["line 5", "'C' is in va but not in tr"]),
        (GOOD[:3], ["no sentence of te"]),
        ([GOOD[0], GOOD[2], ("te", "A", "d e")], ["only one class, 'A'"]),
        ([*GOOD, *[("xx", "A", "x y")] * 8], ["line 5", "line 9", "and 3 more"]),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_lines(tmp_path, rows, said):
    path = write_task(tmp_path / "past_present.txt", rows)
    with pytest.raises(UserError) as refusal:
        read_task(path, TASKS["Tense"])
    for words in (str(path), *said):
        assert words in str(refusal.value)


def test_missing_files_and_tasks_are_named(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        find_files(tmp_path / "none", [TASKS["WC"]])
    with pytest.raises(UserError, match="probing-data"):
        find_files(tmp_path, [TASKS["WC"]])
    (tmp_path / "tree_depth.txt").touch()
    with pytest.raises(UserError, match=r"no word_content.txt; --tasks TreeDepth takes"):
        find_files(tmp_path, [TASKS["WC"], TASKS["TreeDepth"]])
    with pytest.raises(UserError, match="there is no Length; choose among SentLen"):
        tasks_named(["WC", "Length"])
    assert [task.name for task in tasks_named(["BShift", "WC"])] == ["WC", "BShift"]


# -- The classifier ----------------------------------------------------------------------------


def blobs(count, seed, classes=3, width=6, noise=1.5):
    """Vectors around a centre for each class, in double precision."""
    centres = torch.randn(classes, width, generator=torch.Generator().manual_seed(0))
    random_numbers = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=random_numbers)
    vectors = centres[labels] + noise * torch.randn(count, width, generator=random_numbers)
    return Examples(vectors.double(), labels)


class Dropped(nn.Module):
    """Dropout by numbers of its own, so that the batches do not depend on it."""

    def __init__(self, rate, seed):
        super().__init__()
        self.rate = rate
        self.numbers = torch.Generator().manual_seed(2**31 + seed)

    def forward(self, x):
        if not self.training or not self.rate:
            return x
        kept = torch.rand(x.shape, generator=self.numbers, dtype=x.dtype) >= self.rate
        return torch.where(kept, x / (1 - self.rate), 0.0)


def senteval(train, valid, test, classes, hidden, dropout, l2, seed, settings):
    """One classifier after the other, as SentEval trains it; its options by torch's own means."""
    torch.manual_seed(seed)
    width = train.vectors.size(1)
    if hidden:
        layers = [nn.Linear(width, hidden), nn.Sigmoid(), nn.Linear(hidden, classes)]
        layers.insert(1, Dropped(dropout, seed))
    else:
        layers = [nn.Linear(width, classes)]
    model = nn.Sequential(*layers).double()
    adam = torch.optim.Adam(model.parameters(), weight_decay=l2)

    def accuracy(examples):
        model.eval()
        with torch.no_grad():
            said = model(examples.vectors).argmax(1)
        return 100 * (said == examples.classes).double().mean().item()

    best, failures, done = (-1, None, None), 0, 0
    while done <= settings.max_passes:
        model.train()
        for _ in range(settings.passes):
            order = torch.randperm(len(train.classes))
            for at in range(0, len(order), settings.batch_size):
                chosen = order[at : at + settings.batch_size]
                adam.zero_grad()
                scores = model(train.vectors[chosen])
                nn.functional.cross_entropy(scores, train.classes[chosen]).backward()
                adam.step()
        done += settings.passes
        found = accuracy(valid)
        if found > best[0]:
            best = (found, accuracy(test), done)
        else:
            if failures >= settings.tenacity:
                break
            failures += 1
    return best


@pytest.mark.parametrize(
    "hidden, dropouts, seed",
    [(0, (0.0,), 1), (7, (0.0,), 2), (7, (0.0,), 3), (7, (0.0, 0.4), 2), (7, (0.3, 0.1), 2)],
)
def test_side_by_side_is_one_after_the_other(hidden, dropouts, seed):
    """Early stop, the choice among candidates and the accuracies of an independent, plain program.

    None of them depends on which others there are, nor on when those stop.
    """
    parts = blobs(150, 1), blobs(400, 2), blobs(90, 3)
    settings = ProbeSettings(
        hidden=(hidden,), dropout=dropouts, l2=(1e-3, 0.2, 0.05), batch_size=50
    )
    candidates = list(itertools.product(dropouts, settings.l2))
    alone = [senteval(*parts, 3, hidden, *candidate, seed, settings) for candidate in candidates]
    for (dropout, l2), expected in zip(candidates, alone, strict=True):
        fit = train_classifier(*parts, 3, replace(settings, dropout=(dropout,), l2=(l2,)), seed)
        assert (fit.valid, fit.test, fit.passes) == pytest.approx(expected)
        assert (fit.hidden, fit.seed, fit.dropout, fit.l2) == (hidden, seed, dropout, l2)
    # They differ, else this would show nothing about them.
    assert len(set(alone)) == len(candidates)
    best = max(range(len(alone)), key=lambda number: alone[number][0])  # the first of equals
    fit = train_classifier(*parts, 3, settings, seed)
    assert (fit.valid, fit.test, fit.passes) == pytest.approx(alone[best])
    assert (fit.dropout, fit.l2) == candidates[best]


def test_who_has_stopped_gets_no_better():
    """While others are still trained."""
    parts = blobs(150, 1), blobs(400, 2), blobs(90, 3)
    settings = ProbeSettings((7,), (0.0,), (0.0, 1e-3, 0.05, 0.2), 50, tenacity=0, passes=1)
    stopped = set()
    for seed in range(1, 9):
        alone = [senteval(*parts, 3, 7, 0.0, l2, seed, settings) for l2 in settings.l2]
        best = max(range(len(alone)), key=lambda number: alone[number][0])
        fit = train_classifier(*parts, 3, settings, seed)
        assert (fit.valid, fit.test, fit.passes) == pytest.approx(alone[best])
        assert fit.l2 == settings.l2[best]
        stopped.add(len({passes for _, _, passes in alone}))
    assert max(stopped) > 1  # they do not all stop at once


def test_hidden_sizes_are_chosen_among():
    parts = blobs(150, 1), blobs(80, 2), blobs(90, 3)
    each = {
        hidden: train_classifier(
            *parts, 3, ProbeSettings((hidden,), (0.0,), (1e-3,), max_passes=40), 1
        )
        for hidden in (1, 20)
    }
    best = max(each.values(), key=lambda fit: fit.valid)
    assert each[1].valid != each[20].valid
    assert (
        train_classifier(*parts, 3, ProbeSettings((1, 20), (0.0,), (1e-3,), max_passes=40), 1)
        == best
    )


def test_training_changes_nothing_outside():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit = train_classifier(*[blobs(60, n) for n in range(3)], 3, QUICKER, 1)
    assert torch.equal(torch.rand(3), expected)
    assert fit == train_classifier(*[blobs(60, n) for n in range(3)], 3, QUICKER, 1)


def test_dropout_is_of_each_candidate_and_in_training_alone():
    torch.manual_seed(0)
    model = SideBySide(4, 2000, 3, dropout=[0.0, 0.1, 0.5], l2=[0.0] * 3)
    x = torch.ones(3, 8, 2000)
    dropped = model._drop(x)
    zeros = (dropped == 0).float().mean((1, 2))
    assert zeros.tolist() == pytest.approx([0, 0.1, 0.5], abs=0.02)
    kept = [one[one != 0].unique().tolist() for one in dropped]
    assert kept == [[1.0], pytest.approx([1 / 0.9]), [2.0]]
    assert torch.equal(model.eval()._drop(x), x)


def test_dropout_is_used_in_training():
    parts = blobs(40, 1, noise=3), blobs(200, 2, noise=3), blobs(90, 3)
    without, much = (
        train_classifier(*parts, 3, ProbeSettings((30,), (rate,), (1e-5,), 5, max_passes=8), 1)
        for rate in (0.0, 0.7)
    )
    assert (without.dropout, much.dropout) == (0.0, 0.7)
    assert without.valid != much.valid


def passes_of(settings, parts):
    told = []
    train_classifier(*parts, 2, settings, 1, progress=told.append)
    return sum(told)


def test_it_stops_when_validation_does_not_get_better():
    same = Examples(torch.zeros(10, 4), torch.tensor([0] * 7 + [1] * 3))
    settings = ProbeSettings(hidden=(5,), dropout=(0.0,), l2=(1e-4,))
    # Best after 4 passes, not better at the next 6 looks.
    assert passes_of(settings, [same] * 3) == 4 + 6 * 4
    assert train_classifier(*[same] * 3, 2, settings, 1).passes == 4
    endless = ProbeSettings(hidden=(5,), dropout=(0.0,), l2=(1e-4,), tenacity=10**6)
    assert passes_of(endless, [same] * 3) == 204


def test_the_settings_are_sentevals():
    settings = ProbeSettings()
    assert (settings.batch_size, settings.tenacity, settings.passes) == (64, 5, 4)
    assert settings.max_passes == 200
    assert settings.l2 == (1e-5, 1e-4, 1e-3, 1e-2)
    assert settings.candidates(50) == list(itertools.product((0.0, 0.1, 0.2), settings.l2))
    assert settings.candidates(0) == [(0.0, l2) for l2 in settings.l2]


@pytest.mark.parametrize(
    "wrong, flag",
    [
        ({"hidden": ()}, "--hidden"),
        ({"hidden": (-1,)}, "--hidden"),
        ({"dropout": (1.0,)}, "--dropout"),
        ({"dropout": ()}, "--dropout"),
        ({"batch_size": 0}, "--batch-size"),
        ({"l2": (-1.0,)}, "l2"),
        ({"passes": 0}, "passes"),
    ],
)
def test_settings_that_cannot_be(wrong, flag):
    with pytest.raises(UserError, match=flag):
        ProbeSettings(**wrong)


# -- What must hold of probing -----------------------------------------------------------------


@pytest.mark.parametrize("task, value", [("Tense", 0.0), ("WC", 3.25)])
def test_a_constant_representation_gives_the_commonest_class(tmp_path, task, value):
    file = task_file(tmp_path, "AABAABAACA" * 6, task)
    result = probe(Vectors(torch.full((180, 5), value)), file, QUICK, (1, 2))
    assert result.accuracies == [70.0, 70.0]
    assert file.majority == 70.0


@pytest.mark.parametrize("task", ["Tense", "WC"])
def test_an_oracle_gives_all(tmp_path, task):
    file = task_file(tmp_path, "ABCABCBACA" * 6, task)
    # Often over, so that what is learned soon outweighs the weights at the beginning.
    oracle = [[float(label == known) for known in "ABC" * 20] for label in file.labels]
    result = probe(Vectors(torch.tensor(oracle)), file, QUICK, (1, 2))
    assert result.accuracies == [100.0, 100.0]


def test_labels_that_say_nothing_give_chance(tmp_path):
    choose = random.Random(0)
    file = task_file(tmp_path, [choose.choice("AB") for _ in range(300)])
    vectors = torch.randn(900, 6, generator=torch.Generator().manual_seed(0))
    result = probe(Vectors(vectors), file, QUICKER, (1, 2))
    assert all(abs(accuracy - 50) < 9 for accuracy in result.accuracies)


def test_each_part_is_used_for_what_it_is(tmp_path):
    """The test part's labels are turned about: all that was learned is wrong there."""
    file = task_file(tmp_path, "AB" * 30)
    right = torch.tensor([[9.0, 0.0] if label == "A" else [0.0, 9.0] for label in file.labels])
    turned = right.clone()
    turned[file.places("te")] = turned[file.places("te")].flip(1)
    result = probe(Vectors(turned), file, QUICK, (1,))
    assert result.accuracies == [0.0]
    assert result.fits[0].valid == 100.0


def test_many_classes_have_no_hidden_layer(tmp_path):
    assert settings_for(task_file(tmp_path, "AB", "WC"), QUICK).hidden == (0,)
    assert settings_for(task_file(tmp_path, "AB", "SentLen"), QUICK) == QUICK


def test_groups_are_means_of_all_their_tasks(tmp_path):
    files = [task_file(tmp_path, "AABAC" * 8, name) for name in ("SentLen", "WC", "BShift")]
    noise = torch.randn(120, 4, generator=torch.Generator().manual_seed(1))
    results = [probe(Vectors(noise, 0.25), file, QUICKER, (1, 2, 3)) for file in files]
    found = as_dict(results)
    first, second = found["tasks"]["SentLen"], found["tasks"]["WC"]
    assert first["seeds"] != second["seeds"]
    means = [sum(pair) / 2 for pair in zip(first["seeds"], second["seeds"], strict=True)]
    mean = sum(means) / 3
    assert list(found["groups"]) == ["surface"]  # of the syntactic tasks, one alone is there
    group = found["groups"]["surface"]
    assert group["seeds"] == pytest.approx(means)
    assert group["accuracy"] == pytest.approx(mean)
    deviation = (sum((one - mean) ** 2 for one in means) / 2) ** 0.5
    assert group["deviation"] == pytest.approx(deviation)
    assert [fit["seed"] for fit in first["classifiers"]] == [1, 2, 3]
    assert first["sentences"] == {"tr": 40, "va": 40, "te": 40}
    assert first["unknown_subwords"] == 0.25


# -- Tasks out of text -------------------------------------------------------------------------

VOCABULARY = [a + b + c for a in "bdfgklmnpr" for b in ("a", "e", "o") for c in ("st", "nd", "x")]


def text(count=4000, seed=0):
    """Sentences of 1 to 34 tokens; frequent and rare words, quotes, punctuation, double ones."""
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
    options = "--sizes 400 50 60 --words 8 --first-rank 41".split()
    main(["probing-data", str(folder / "text"), "--output", str(folder / "out"), *options])
    return folder


def lines_of(folder, name):
    return [line.split("\t") for line in (folder / name).read_text().splitlines()]


@pytest.mark.parametrize("name, classes", [("SentLen", 6), ("WC", 8), ("BShift", 2)])
def test_made_files_are_task_files_with_classes_alike(generated, name, classes):
    task = TASKS[name]
    file = read_task(generated / "out" / task.file, task)
    assert len(file.classes) == classes
    counts = Counter(zip(file.parts, file.labels, strict=True))
    for part, size in {"tr": 400, "va": 50, "te": 60}.items():
        assert {counts[part, label] for label in file.classes} == {size // classes}
    # Part after part, and within a part no order of classes.
    assert [part for part, _ in itertools.groupby(file.parts)] == ["tr", "va", "te"]
    assert len(list(itertools.groupby(file.labels))) > 2 * 3 * classes
    # No sentence twice, not even in other words' case or order.
    words = [tuple(sorted(sentence.lower().split())) for sentence in file.sentences]
    assert len(set(words)) == len(words)
    assert {len(sentence.split()) for sentence in file.sentences} <= set(range(5, 29))


def test_made_lengths(generated):
    for _, label, sentence in lines_of(generated, "out/sentence_length.txt"):
        least, most = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))[int(label)]
        assert least <= len(sentence.split()) <= most


def test_made_words_are_there_once_and_alone(generated):
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
        for word in words[at : at + 2]:
            assert any(character.isalpha() for character in word)
        seen[at] += 1
    assert len(seen) > 10  # all over the sentence


def test_equal_neighbours_are_not_inverted():
    sentences = [f"{word} that That that , {word} ." for word in VOCABULARY]
    sentences += [f"{word} that that goes on" for word in VOCABULARY[:10]]
    found = bigram_shift(usable(sentences), Wanted(sizes=(4, 2, 2)))
    for example in found:
        assert "goes" in example.original
        assert (example.sentence == example.original) == (example.label == "O")


def test_escaped_punctuation_is_punctuation():
    """As Moses' tokeniser writes it: its letters are no word's."""
    sentences = [f"{word} goes &amp; &#91; {word} ." for word in VOCABULARY]
    sentences += [f"{word} goes there now ." for word in VOCABULARY[:10]]
    found = bigram_shift(usable(sentences), Wanted(sizes=(4, 2, 2)))
    assert all("there" in example.original for example in found)


def test_an_inversion_that_is_a_sentence_is_none():
    # Of each, two words alone can change places: then one twin is the other.
    twins = [
        f"{a.capitalize()} , {pair} , !" for a in VOCABULARY for pair in ("and fro", "fro and")
    ]
    others = [f"{a} , {b} goes , ." for a, b in itertools.pairwise(VOCABULARY[:20])]
    found = bigram_shift(usable([*twins, *others]), Wanted(sizes=(4, 2, 2)))
    assert all("goes" in example.original for example in found)


def test_the_same_seed_gives_the_same_files(generated, tmp_path):
    common = ["probing-data", str(generated / "text")]
    common += "--sizes 400 50 60 --words 8 --first-rank 41".split()
    main([*common, "--output", str(tmp_path / "again")])
    main([*common, "--output", str(tmp_path / "other"), "--seed", "2"])
    for file in sorted((generated / "out").iterdir()):
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()
        assert file.read_bytes() != (tmp_path / "other" / file.name).read_bytes()


def test_text_is_made_tokens(tmp_path):
    lines = [f"Tom's {a} {b}, and {a}-{b}!" for a, b in itertools.pairwise(VOCABULARY)]
    (tmp_path / "text").write_text("\n".join(lines))
    options = "--tasks BShift --sizes 40 8 8 --tokenizer moses --lang en".split()
    main(["probing-data", str(tmp_path / "text"), "--output", str(tmp_path / "out"), *options])
    rows = lines_of(tmp_path, "out/bigram_shift.txt")
    assert all(sentence.startswith("Tom &apos;s ") or label == "I" for _, label, sentence in rows)
    assert all(sentence.endswith(" !") for _, _, sentence in rows)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["bigram_shift.txt"]


@pytest.mark.parametrize(
    "options, said",
    [
        ("--tasks TreeDepth", "TreeDepth cannot be made"),
        ("--tasks Length", "there is no Length"),
        ("--sizes 9000 10 10", "SentLen: 1,502 sentences of each class .* tokens' the text has"),
        ("--sizes 3 1 1", "too few for 6 classes"),
        ("--sizes 0 1 1", "--sizes"),
        ("--tasks WC", "--first-rank 2001 on, the text has only 0 words"),
        (
            "--tasks WC --first-rank 40 --words 8 --sizes 9000 80 80",
            "smaller --sizes or --first-rank",
        ),
        ("--words 1", "--words 1"),
        ("--first-rank 0", "--first-rank 0"),
        ("--tokenizer moses", "both of --tokenizer and --lang"),
    ],
)
def test_what_cannot_be_made_is_said_and_nothing_is_written(generated, tmp_path, options, said):
    with pytest.raises(UserError, match=said):
        main(
            ["probing-data", str(generated / "text"), "--output", str(tmp_path / "x")]
            + options.split()
        )
    assert not (tmp_path / "x").exists()


def test_published_files_are_not_overwritten(generated, tmp_path):
    (tmp_path / "tree_depth.txt").write_text("mine")
    with pytest.raises(UserError, match=r"tree_depth.txt exists; choose another folder"):
        main(["probing-data", str(generated / "text"), "--output", str(tmp_path)])
    assert len(list(tmp_path.iterdir())) == 1


def test_the_lengths_are_sentevals():
    """From the description beside the published files."""
    assert LENGTHS == ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))
