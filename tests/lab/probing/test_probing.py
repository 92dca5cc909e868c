"""Probing: files of tasks, the classifier, and results."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.probing import ProbeSettings, classifier
from fairseq_hybrid_attn.lab.probing.classifier import Examples, train_classifier
from fairseq_hybrid_attn.lab.probing.probe import group_means, probe
from fairseq_hybrid_attn.lab.probing.results import draw, grid, notes
from fairseq_hybrid_attn.lab.probing.tasks import TASKS, find_files, read_task

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


def test_a_file_is_read_as_it_is(tmp_path):
    rows = [
        ("tr", "PAST", "It rained ."),
        ("va", "PRES", "more fields", "It  rains ."),
        ("tr", "PRES", "It rains\u2028again ."),
        ("te", "PAST", "It rained twice ."),
    ]
    path = tmp_path / "past_present.txt"
    file = read_task(write_task(path, rows), TASKS["Tense"])
    assert file.parts == ["tr", "va", "tr", "te"]
    assert file.labels == ["PAST", "PRES", "PRES", "PAST"]
    assert file.classes == ["PAST", "PRES"]
    assert file.sentences[1] == "It rains ." and len(file.sentences) == 4
    assert file.places("tr") == [0, 2]
    assert file.majority == 100.0  # of equally common classes the first
    # The most common class is learned on tr and tested on te.
    rows += [("tr", "PRES", "a"), *[("te", "PRES", "b")] * 3, *[("va", "PAST", "c")] * 9]
    assert read_task(write_task(path, rows), TASKS["Tense"]).majority == 75.0


GOOD = [("tr", "A", "a b"), ("tr", "B", "b c"), ("va", "A", "c d"), ("te", "B", "d e")]

WRONG = [("train", "A", "x y"), ("tr", "A"), ("",), ("tr", "A", " "), ("tr", "", "x y")]


def test_faults_in_files_are_reported(tmp_path):
    path = tmp_path / "past_present.txt"
    for rows, said in (
        *(([*GOOD, row], "line 5") for row in WRONG),
        ([*GOOD, ("te", "C", "x y")], "class C"),
        ([*GOOD, ("va", "C", "x y")], "class C"),
        (GOOD[:3], "tr, va, te"),
        ([GOOD[0], GOOD[2], ("te", "A", "d e")], "two classes in tr"),
    ):
        with pytest.raises(UserError, match=f"past_present.txt.*{said}"):
            read_task(write_task(path, rows), TASKS["Tense"])
    (tmp_path / "empty").mkdir()
    for folder, said in (("none", "no such folder"), ("empty", "make_tasks.py")):
        with pytest.raises(UserError, match=said):
            find_files(tmp_path / folder, [TASKS["WC"]])


def blobs(count, seed, classes=3, width=6, noise=1.5):
    """Vectors around a centre for each class, in double precision."""
    centres = torch.randn(classes, width, generator=torch.Generator().manual_seed(0))
    random_numbers = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (count,), generator=random_numbers)
    vectors = centres[labels] + noise * torch.randn(count, width, generator=random_numbers)
    return Examples(vectors.double(), labels)


def best_of(parts, settings, seed=3):
    fit = train_classifier(parts, 3, settings, seed)
    return fit.valid, fit.test, fit.passes


def test_a_candidate_is_chosen_by_its_validation_accuracy():
    """Candidates start from the same seed, so that none depends on which others there are."""
    parts = blobs(150, 1), blobs(400, 2), blobs(90, 3)
    settings = ProbeSettings((0, 7), (0.0, 0.4), (1e-3, 0.2, 0.05), 50)
    candidates = settings.candidates()
    alone = [
        best_of(parts, replace(settings, hidden=(hidden,), dropout=(dropout,), l2=(l2,)))
        for hidden, dropout, l2 in candidates
    ]
    assert len(candidates) == 3 + 6 and len(set(alone)) >= len(candidates) - 1
    best = max(range(len(alone)), key=lambda number: alone[number][0])  # the first of equals
    fit = train_classifier(parts, 3, settings, 3)
    assert (fit.valid, fit.test, fit.passes) == alone[best]
    assert (fit.hidden, fit.dropout, fit.l2, fit.seed) == (*candidates[best], 3)


def test_training_stops_as_sentevals_does(monkeypatch):
    """At the sixth score that is no better, counted over the whole training; or after 204 passes.

    Scores are given; the test set is scored when the validation set has reached a new best.
    """
    one = Examples(torch.zeros(1, 2), torch.zeros(1, dtype=torch.long))
    parts = one, Examples(*one), Examples(*one)
    for validations, best, at in (
        ([50, 40, 60, 60, 50, 61, 1, 2, 3, 99], 61, 24),  # the 6th failure is before the 99
        ([*range(1, 52), 99], 51, 204),
    ):
        scores = iter(map(float, validations))
        tested = []

        def score(model, examples, scores=scores, tested=tested):
            if examples is parts[2]:
                return tested.append(0) or float(len(tested))
            return next(scores)

        monkeypatch.setattr(classifier, "_accuracy", score)
        found = best_of(parts, ProbeSettings((0,), l2=(0.0,)))
        assert found == (best, len(tested), at) and next(scores) == 99


def test_each_part_is_used_for_what_it_is(tmp_path):
    """Swapped test vectors make every answer wrong; from constant ones nothing is learned."""
    for task, value in (("Tense", 0.0), ("WC", 3.25)):
        file = task_file(tmp_path, "AABAABAACA" * 6, task)
        fits = probe(torch.full((180, 5), value), file, QUICK, (1, 2))
        assert [fit.test for fit in fits] == [70.0, 70.0] and file.majority == 70.0
        file = task_file(tmp_path, "AB" * 30, task)
        turned = torch.tensor([[9.0, 0.0] if label == "A" else [0.0, 9.0] for label in file.labels])
        turned[file.places("te")] = turned[file.places("te")].flip(1)
        (fit,) = probe(turned, file, QUICK, (1,))
        assert (fit.test, fit.valid) == (0.0, 100.0)


def test_groups_are_means_of_all_their_tasks():
    seeds = {"SentLen": [70.0, 80.0, 90.0], "WC": [10.0, 30.0, 20.0], "BShift": [50.0] * 3}
    found = group_means({name: {"seeds": accuracies} for name, accuracies in seeds.items()})
    group = found.pop("surface")
    assert not found  # two syntactic tasks are missing
    assert (group["seeds"], group["accuracy"]) == ([40.0, 55.0, 55.0], 50.0)
    assert group["deviation"] == pytest.approx(np.std(group["seeds"], ddof=1))


def one_result(accuracy, deviation=None, majority=20.0, sha256="a"):
    return {
        **{"accuracy": accuracy, "deviation": deviation, "seeds": [accuracy]},
        **{"majority": majority, "classes": 5, "unknown_subwords": 0.0, "sha256": sha256},
    }


def results_of(tasks, groups=(), layer="last"):
    about = {"layer": layer, "end_symbol": "in", "classifier": {"batch_size": 64}}
    return {"tasks": tasks, "groups": dict(groups), **about}


ONE = results_of({"SentLen": one_result(70.0, 1.5), "Tense": one_result(80.0, 2.0, majority=50.0)})
SURFACE = {"accuracy": 75.125, "deviation": 0.5, "seeds": [75.0, 75.25]}
OTHER = results_of({"WC": one_result(40.0)}, {"surface": SURFACE}, layer="1")


def test_rows_and_cells_are_of_all_tasks_that_any_model_has():
    found = grid({"a": ONE, "b": OTHER})
    assert (found.headings, found.rows) == (
        ["task", "group", "a", "b", "most common class"],
        [
            ["SentLen", "surface", "70.00 (deviation 1.50)", "", "20.00"],
            ["WC", "surface", "", "40.00", "20.00"],
            ["Tense", "semantic", "80.00 (deviation 2.00)", "", "50.00"],
            ["all surface", "surface", "", "75.12 (deviation 0.50)", ""],
        ],
    )


def test_notes_say_what_cannot_be_compared():
    several = {**ONE, "classifier": {"hidden": [50, 100], "batch_size": 64}}
    assert notes({"a": ONE, "b": several})[:2] == [
        "a: layer last, end symbol in, seeds 1; batch_size 64",
        "b: layer last, end symbol in, seeds 1; hidden 50 or 100, batch_size 64",
    ]
    assert len(notes({"a": ONE, "b": ONE})) == 2
    assert len(notes({"a": ONE, "b": OTHER})) == 3
    changed = results_of({"SentLen": one_result(70.0, sha256="b"), "Tense": one_result(80.0)})
    (note,) = notes({"a": ONE, "b": changed})[2:]
    assert note.startswith("SentLen: ")


def test_figure_shows_the_numbers():
    (axes,) = draw({"a": ONE, "b": OTHER}, "dark").axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["SentLen\nsurface", "WC\nsurface", "Tense\nsemantic"]
    bars = [bar for bar in axes.patches if bar.get_height()]
    shown = [(round(bar.get_x() + bar.get_width() / 2), bar.get_height()) for bar in bars]
    assert shown == [(0, 70.0), (2, 80.0), (1, 40.0)]
    dashed = [line for line in axes.collections if line.get_linestyle()[0][1]]
    chance = [line.get_segments()[0][0][1] for line in dashed]
    assert chance == [20.0, 20.0, 50.0]
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["most common class", "a", "b"]
