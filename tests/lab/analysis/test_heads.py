"""Where heads look: against loops in plain Python, and against what is known beforehand."""

import json
import math
from functools import cache

import numpy as np
import pytest
from every_model import sample
from models import build_tiny
from scipy.spatial.distance import jensenshannon

from fairseq_hybrid_attn.lab.analysis.heads import MEASURES, Heads, ModelHeads, draw, measures
from fairseq_hybrid_attn.lab.analysis.means import RunningMean
from fairseq_hybrid_attn.lab.models.attentions import CROSS, DECODER, ENCODER, Attentions


@cache
def seen_of(name):
    """The layers of a model, and what they did with each sentence."""
    attentions = Attentions(build_tiny(name))
    return attentions.layers, attentions.observe(sample())


def matrices(name, kind, layer):
    """Of each sentence, the weights of a layer (from 0) and what it allows, ``[l, h, n, m]``."""
    layers, sentences = seen_of(name)
    for sentence in sentences:
        weights = sentence[kind][layer].weights
        yield weights.numpy(), layers[kind][layer].allowed(*weights.shape[-2:]).numpy()


def heads_of(name):
    layers, sentences = seen_of(name)
    heads = Heads(layers)
    for sentence in sentences:
        heads.add(sentence)
    return heads.of_model("m", "")


def by_loops(kind, rows, allowed):
    """The measures of a head in a sentence, query by query."""
    found = {name: [] for name in MEASURES}
    for i, row in enumerate(rows):
        entropy = -sum(w * math.log(w) for w in row if w > 0)
        keys = sum(map(bool, allowed[i]))
        found["entropy"].append(entropy)
        found["symbol"].append(row[0] if kind == DECODER else row[-1])
        if keys > 1:
            found["relative_entropy"].append(entropy / math.log(keys))
        if kind != CROSS:
            found["distance"].append(sum(w * abs(i - j) for j, w in enumerate(row)))
            found["signed_distance"].append(sum(w * (j - i) for j, w in enumerate(row)))
            found["self"].append(row[i])
    return found


@pytest.mark.parametrize("name", ["mma", "hysan-gated"])
def test_measures_are_those_of_loops(name):
    layers, rows = seen_of(name)[0], heads_of(name).heads
    assert len(rows) == {"mma": 3 * 4 + 2 * 4 + 2 * 4, "hysan-gated": 3 * 16 + 2 * 8 + 2 * 4}[name]
    for row in rows:
        kind, head, number = row["kind"], row["head"] - 1, row["layer"] - 1
        expected, parts = {measure: [] for measure in MEASURES}, []
        branch = layers[kind][number].branches.index(row["branch"])
        for weights, allowed in matrices(name, kind, number):
            parts.append(by_loops(kind, weights[branch, head].tolist(), allowed[branch, head]))
            for measure, values in parts[-1].items():
                expected[measure] += values
        assert row["pattern"] == layers[kind][number].heads[branch][head]
        assert row["queries"] == len(expected["entropy"])
        for measure, values in expected.items():
            if values:
                assert row[measure] == pytest.approx(np.mean(values), abs=1e-6)
                running = RunningMean()
                for part in parts:
                    running.add(part[measure])
                interval = row[f"{measure}_interval"]
                assert interval == pytest.approx(running.interval, abs=1e-6)
            else:
                assert row[measure] is None and row["kind"] == CROSS


def test_rows_with_one_key_and_with_none():
    one = np.eye(4)[None, None]
    alone = measures(ENCODER, one, one > 0)
    assert (alone["entropy"] == 0).all() and np.isnan(alone["relative_entropy"]).all()
    nothing = measures(ENCODER, np.zeros((1, 1, 2, 2)), np.zeros((1, 1, 2, 2), bool))
    assert all(np.isnan(values).all() for values in nothing.values())


def divergence(maps, one, other):
    """scipy's divergence of two heads, the mean over all queries of ``maps [l, h, n, m]``."""
    found = [
        jensenshannon(w[one][q], w[other][q], base=2) ** 2 for w in maps for q in range(w.shape[2])
    ]
    return np.mean(np.nan_to_num(found))


@pytest.mark.parametrize("name, kind", [("mma", ENCODER), ("mma", CROSS), ("hysan-gated", ENCODER)])
def test_differences_are_means_over_pairs(name, kind):
    for found in heads_of(name).layers:
        if found["kind"] != kind:
            continue
        weights, even = zip(*matrices(name, kind, found["layer"] - 1), strict=True)
        branches, h = map(range, weights[0].shape[:2])
        queries = sum(w.shape[2] for w in weights)
        within = [((b, i), (b, j)) for b in branches for i in h for j in range(i)]
        across = [((a, i), (b, i)) for a in branches for b in range(a) for i in h]
        for what, pairs in (("heads", within), ("branches", across)):
            for measure, maps in (
                (f"divergence_of_{what}", weights),
                (f"divergence_of_{what}_by_patterns", even),
            ):
                mean = np.mean([divergence(maps, *pair) for pair in pairs]) if pairs else None
                assert found[measure] == pytest.approx(mean, abs=1e-5)
            if pairs:
                running = RunningMean()
                for w in weights:
                    of_pairs = np.mean([divergence([w], *pair) for pair in pairs])
                    running.add_sum(of_pairs * w.shape[2], w.shape[2])
                interval = found[f"divergence_of_{what}_interval"]
                assert interval == pytest.approx(running.interval, abs=1e-5) and interval > 0
        units = len(branches) * len(h)
        assert found["queries"] == queries and len(found["units"]) == units
        matrix = np.array(found["divergences"])
        assert matrix.shape == (units, units) and (matrix == matrix.T).all()
        np.testing.assert_allclose(matrix.diagonal(), 0, atol=1e-6)
        assert matrix[0, 1] == pytest.approx(divergence(weights, (0, 0), (0, 1)), abs=1e-5)


def test_command(in_data, analyse, capsys):
    analyse("heads", "H=hysan.pt", "L=lstm.pt", "--write", "heads.json", "--write", "heads.pdf")
    said = capsys.readouterr()
    assert "H (transformer_hysan; " in said.out and "L: no encoder attention" in said.err
    hysan, lstm = json.loads((in_data / "heads.json").read_text())["models"]
    assert (hysan["name"], lstm["name"]) == ("H", "L")
    # A row is the mean of the heads with one pattern.
    branch = hysan["heads"][:4]
    assert f"{np.mean([head['distance'] for head in branch]):.3f}" in said.out
    assert [(row["kind"], row["distance"]) for row in lstm["heads"]] == [("cross", None)]
    # Three subwords, one and five, and the end symbols.
    assert branch[0]["queries"] == 12
    assert (in_data / "heads.pdf").read_bytes().startswith(b"%PDF")


def test_refusals(refuses):
    """Also of the arguments that all commands about models share."""
    refused = {
        "mma.pt --write f.xyz": "ends in .json, .png",
        "mma.pt --gen-subset test": "--gen-subset, --source .*: give one of them",
        "mma.pt mma.pt": r"two models are called '.*/mma'",
        "mma.pt --sentences 3": "none of the sentences",
        "mma.pt --sentences 5": "5 is not within 1 to 4",
        "mma.pt --sentences one": "use numbers and ranges",
        "lstm.pt --kinds encoder": "no attention of encoder",
        "none.pt": "no such file",
        "short.pt": "sentences 1, 4; name others, or --too-long skip",
    }
    refuses("heads", refused)


def model_with(name, *distances):
    """A model with a layer of heads at these distances."""
    same = {"kind": "encoder", "layer": 1, "branch": "global", "pattern": "global"}
    heads = [
        {**same, "head": head, "distance": distance, "relative_entropy": 0.5}
        for head, distance in enumerate(distances, start=1)
    ]
    return ModelHeads(name, "", heads, [])


def test_figures_have_one_scale_for_all_models():
    near, far = model_with("near", 1.0, 2.0), model_with("far", 4.0, 8.0)
    ends = [axes.images[0].get_clim() for axes in draw([near, far]).axes if axes.images]
    assert ends == [(0, 8), (0, 1), (0, 8), (0, 1)]
    assert draw([near]).axes[0].images[0].get_clim() == (0, 2)
