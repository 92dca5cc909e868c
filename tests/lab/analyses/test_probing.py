"""Probing: files of tasks, the classifier, and results."""

import io
import itertools
from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch import nn

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.probing import figure
from fairseq_hybrid_attn.lab.probing.classifier import (
    Examples,
    ProbeSettings,
    train_classifier,
)
from fairseq_hybrid_attn.lab.probing.probe import Vectors, as_dict, probe
from fairseq_hybrid_attn.lab.probing.results import grid, notes, records
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


def test_what_is_wrong_with_a_file_is_said_with_its_lines(tmp_path):
    for rows, said in (
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
    ):
        path = write_task(tmp_path / "past_present.txt", rows)
        with pytest.raises(UserError) as refusal:
            read_task(path, TASKS["Tense"])
        assert all(words in str(refusal.value) for words in (str(path), *said)), rows


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
    """Dropout from separate random numbers, so that the batches do not depend on it."""

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
    "hidden, dropouts, seed", [(0, (0.0,), 1), (7, (0.0, 0.4), 2), (7, (0.3, 0.1), 2)]
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
    for seed in range(1, 5):
        alone = [senteval(*parts, 3, 7, 0.0, l2, seed, settings) for l2 in settings.l2]
        best = max(range(len(alone)), key=lambda number: alone[number][0])
        fit = train_classifier(*parts, 3, settings, seed)
        assert (fit.valid, fit.test, fit.passes) == pytest.approx(alone[best])
        assert fit.l2 == settings.l2[best]
        stopped.add(len({passes for _, _, passes in alone}))
    assert max(stopped) > 1  # they do not all stop at once


def test_hidden_sizes_are_chosen_among():
    def fit(*hidden):
        settings = ProbeSettings(hidden, (0.0,), (1e-3,), max_passes=40)
        return train_classifier(blobs(150, 1), blobs(80, 2), blobs(90, 3), 3, settings, 1)

    each = fit(1), fit(20)
    assert each[0].valid != each[1].valid
    assert fit(1, 20) == max(each, key=lambda one: one.valid)


def test_training_changes_nothing_outside():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit = train_classifier(*[blobs(60, n) for n in range(3)], 3, QUICKER, 1)
    assert torch.equal(torch.rand(3), expected)
    assert fit == train_classifier(*[blobs(60, n) for n in range(3)], 3, QUICKER, 1)


def test_it_stops_when_validation_does_not_get_better():
    same = Examples(torch.zeros(10, 4), torch.tensor([0] * 7 + [1] * 3))
    # Best after 4 passes, not better at the next 6 validations; or at the latest.
    for tenacity, passes in ((5, 4 + 6 * 4), (10**6, 204)):
        told = []
        settings = ProbeSettings((5,), (0.0,), (1e-4,), tenacity=tenacity)
        fit = train_classifier(same, same, same, 2, settings, 1, progress=told.append)
        assert sum(told) == passes
        assert fit.passes == 4 or tenacity > 5


def test_the_settings_are_sentevals():
    settings = ProbeSettings()
    assert (settings.batch_size, settings.tenacity, settings.passes) == (64, 5, 4)
    assert settings.max_passes == 200
    assert settings.l2 == (1e-5, 1e-4, 1e-3, 1e-2)
    assert settings.candidates(50) == list(itertools.product((0.0, 0.1, 0.2), settings.l2))
    assert settings.candidates(0) == [(0.0, l2) for l2 in settings.l2]


def test_settings_that_cannot_be():
    for wrong, flag in (
        ({"hidden": ()}, "--hidden"),
        ({"hidden": (-1,)}, "--hidden"),
        ({"dropout": (1.0,)}, "--dropout"),
        ({"dropout": ()}, "--dropout"),
        ({"batch_size": 0}, "--batch-size"),
        ({"l2": (-1.0,)}, "l2"),
        ({"passes": 0}, "passes"),
    ):
        with pytest.raises(UserError, match=flag):
            ProbeSettings(**wrong)


# -- What must hold of probing -----------------------------------------------------------------


def test_a_constant_representation_gives_the_most_common_class(tmp_path):
    for task, value in (("Tense", 0.0), ("WC", 3.25)):
        file = task_file(tmp_path, "AABAABAACA" * 6, task)
        result = probe(Vectors(torch.full((180, 5), value)), file, QUICK, (1, 2))
        assert result.accuracies == [70.0, 70.0]
        assert file.majority == 70.0


def test_each_part_is_used_for_what_it_is(tmp_path):
    """The test part's labels are turned round: all that was learned is wrong there."""
    for task in ("Tense", "WC"):
        file = task_file(tmp_path, "AB" * 30, task)
        turned = torch.tensor([[9.0, 0.0] if label == "A" else [0.0, 9.0] for label in file.labels])
        turned[file.places("te")] = turned[file.places("te")].flip(1)
        result = probe(Vectors(turned), file, QUICK, (1,))
        assert result.accuracies == [0.0]
        assert result.fits[0].valid == 100.0


def test_groups_are_means_of_all_their_tasks(tmp_path):
    files = [task_file(tmp_path, "AABAC" * 8, name) for name in ("SentLen", "WC", "BShift")]
    noise = torch.randn(120, 4, generator=torch.Generator().manual_seed(1))
    results = [probe(Vectors(noise, 0.25), file, QUICKER, (1, 2, 3)) for file in files]
    found = as_dict(results)
    first, second = found["tasks"]["SentLen"], found["tasks"]["WC"]
    assert first["seeds"] != second["seeds"]
    means = [sum(pair) / 2 for pair in zip(first["seeds"], second["seeds"], strict=True)]
    mean = sum(means) / 3
    assert list(found["groups"]) == ["surface"]  # two syntactic tasks are missing
    group = found["groups"]["surface"]
    assert group["seeds"] == pytest.approx(means)
    assert group["accuracy"] == pytest.approx(mean)
    deviation = (sum((one - mean) ** 2 for one in means) / 2) ** 0.5
    assert group["deviation"] == pytest.approx(deviation)
    assert [fit["seed"] for fit in first["classifiers"]] == [1, 2, 3]
    assert first["sentences"] == {"tr": 40, "va": 40, "te": 40}
    assert first["unknown_subwords"] == 0.25


# -- Results -------------------------------------------------------------------------------------


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


def test_rows_are_tasks_and_groups():
    assert [(row["task"], row["group"], row["accuracy"]) for row in records(ONE)] == [
        *(("SentLen", "surface", 70.0), ("Tense", "semantic", 80.0))
    ]
    task, group = records(OTHER)
    assert (group["task"], group["group"], group["seeds"]) == (None, "surface", 2)
    assert (group["accuracy"], group["deviation"], group["classes"]) == (75.125, 0.5, None)
    assert list(task) == list(group)


def test_cells_are_of_all_tasks_that_any_model_has():
    found = grid({"a": ONE, "b": OTHER})
    assert (found.headings, found.rows) == (
        ["task", "group", "a", "b", "most common class"],
        [
            ["SentLen", "surface", "70.00 ± 1.50", "", "20.00"],
            ["WC", "surface", "", "40.00", "20.00"],
            ["Tense", "semantic", "80.00 ± 2.00", "", "50.00"],
            ["all surface", "surface", "", "75.12 ± 0.50", ""],
        ],
    )


def test_notes_tell_what_cannot_be_compared():
    assert notes({"a": ONE, "b": ONE}) == [
        "a: layer last, end symbol in, seeds 1; batch_size 64",
        "b: layer last, end symbol in, seeds 1; batch_size 64",
    ]
    assert "probed with different settings" in notes({"a": ONE, "b": OTHER})[2]
    changed = results_of({"SentLen": one_result(70.0, sha256="b"), "Tense": one_result(80.0)})
    assert notes({"a": ONE, "b": changed})[2:] == [
        "SentLen: the models had different files, and cannot be compared."
    ]


def test_figure_shows_the_numbers():
    (axes,) = figure.draw({"a": ONE, "b": OTHER}, "dark").axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["SentLen\nsurface", "WC\nsurface", "Tense\nsemantic"]
    bars = [bar for bar in axes.patches if bar.get_height()]
    shown = [(round(bar.get_x() + bar.get_width() / 2), bar.get_height()) for bar in bars]
    assert shown == [(0, 70.0), (2, 80.0), (1, 40.0)]
    dashed = [line for line in axes.collections if line.get_linestyle()[0][1]]
    chance = [line.get_segments()[0][0][1] for line in dashed]
    assert chance == [20.0, 20.0, 50.0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        *("most common class", "a", "b")
    ]


def test_legends_stay_within_the_figure():
    name = "a long name of a model " * 2
    drawn = figure.draw({name: ONE, f"{name} (2)": ONE})
    drawn.savefig(io.BytesIO(), format="png")  # lays it out
    legend = drawn.axes[0].get_legend().get_window_extent()
    assert legend.x0 >= 0 and legend.x1 <= drawn.bbox.x1


def test_settings_are_said_plainly():
    one = results_of({"WC": one_result(40.0)})
    one["classifier"] = {"hidden": [50, 100], "batch_size": 64, "linear_tasks": ["WC"]}
    assert notes({"a": one}) == [
        "a: layer last, end symbol in, seeds 1; hidden 50 or 100, batch_size 64"
    ]
