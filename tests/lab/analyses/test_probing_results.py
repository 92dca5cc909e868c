"""What came out of probing, as rows, as cells of a report and as a figure."""

import io

import pytest

from fairseq_hybrid_attn.lab.probing import figure
from fairseq_hybrid_attn.lab.probing.results import grid, notes, records


def result(accuracy, deviation=None, majority=20.0, sha256="a"):
    return {
        **{"accuracy": accuracy, "deviation": deviation, "seeds": [accuracy]},
        **{"majority": majority, "classes": 5, "unknown_subwords": 0.0, "sha256": sha256},
    }


def model(tasks, groups=(), layer="last"):
    about = {"layer": layer, "end_symbol": "in", "classifier": {"batch_size": 64}}
    return {"tasks": tasks, "groups": dict(groups), **about}


ONE = model({"SentLen": result(70.0, 1.5), "Tense": result(80.0, 2.0, majority=50.0)})
SURFACE = {"accuracy": 75.125, "deviation": 0.5, "seeds": [75.0, 75.25]}
OTHER = model({"WC": result(40.0)}, {"surface": SURFACE}, layer="1")


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
    changed = model({"SentLen": result(70.0, sha256="b"), "Tense": result(80.0)})
    assert notes({"a": ONE, "b": changed})[2:] == [
        "SentLen: the models had different files, and cannot be compared."
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figure_shows_the_numbers(theme):
    (axes,) = figure.draw({"a": ONE, "b": OTHER}, theme).axes
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


@pytest.mark.parametrize("name", ["a", "base/bleu/seed1", "a long name of a model " * 2])
def test_legends_stay_within_the_figure(name):
    drawn = figure.draw({name: ONE, f"{name} (2)": ONE})
    drawn.savefig(io.BytesIO(), format="png")  # lays it out
    legend = drawn.axes[0].get_legend().get_window_extent()
    assert legend.x0 >= 0 and legend.x1 <= drawn.bbox.x1


def test_settings_are_said_plainly():
    one = model({"WC": result(40.0)})
    one["classifier"] = {"hidden": [50, 100], "batch_size": 64, "linear_tasks": ["WC"]}
    assert notes({"a": one}) == [
        "a: layer last, end symbol in, seeds 1; hidden 50 or 100, batch_size 64"
    ]
