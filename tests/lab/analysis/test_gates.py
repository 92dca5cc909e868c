"""Gates: means against loops over the modules' own gates; intervals; tags."""

import json
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch
from every_model import SOURCES, TARGETS, sample
from models import build_tiny
from scipy.stats import t as student

from fairseq_hybrid_attn import UserError, record_attention, vocabulary
from fairseq_hybrid_attn.attention.fusion import Fusion, GateKind, HiddenGate
from fairseq_hybrid_attn.lab.analysis import tags
from fairseq_hybrid_attn.lab.analysis.gates import Gates, ModelGates, Place, draw
from fairseq_hybrid_attn.lab.analysis.means import RunningMean
from fairseq_hybrid_attn.lab.models.attentions import DECODER, ENCODER, Attentions


def observed(model):
    attentions = Attentions(model, [ENCODER, DECODER])
    gates = Gates(attentions.layers)
    for one in attentions.observe(sample()):
        gates.add(one)
    return gates


@pytest.mark.parametrize("name", ["gate-hidden", "gate-query", "hysan-gated"])
def test_means_are_those_of_the_modules_gates(name):
    """Sentence by sentence, position by position, as the attention itself records them."""
    model = build_tiny(name)
    gates = observed(model)
    expected = defaultdict(list)
    for source, target in zip(SOURCES, TARGETS, strict=True):
        with record_attention(model) as records, torch.no_grad():
            model(**sample([source], [target])["net_input"])
        for module, (record,) in records.items():
            if record.gates is None:
                continue
            kind, layer = module.split(".")[0], int(module.split(".")[2]) + 1
            if name.startswith("gate"):
                values = record.gates[:, 0]
                expected[kind, layer, "local", None] += values.mean(-1)
                for head in range(values.shape[-1] if values.shape[-1] > 1 else 0):
                    expected[kind, layer, "local", head + 1] += values[:, head]
            else:
                words = ("global", "fw", "bw", "l5") if kind == ENCODER else ("fw", "l5")
                for branch, values in zip(words, record.gates[:, :, 0], strict=True):
                    expected[kind, layer, branch, None] += values.mean(-1)
    rows = gates.of_model("m").rows
    assert len(rows) == len(expected)
    for row in rows:
        values = np.array(expected[row["kind"], row["layer"], row["branch"], row["head"]])
        assert row["positions"] == len(values)
        assert row["gate"] == ("share" if name.startswith("gate") else "squeeze")
        np.testing.assert_allclose(row["mean"], values.mean(), atol=1e-6)
        np.testing.assert_allclose(row["deviation"], values.std(), atol=1e-5)
    order = [(row["kind"] != ENCODER, row["layer"], row["head"] or 0) for row in rows]
    assert order == sorted(order)
    if name.startswith("gate"):
        both = [v for key, found in expected.items() if key[3] is None for v in found]
        np.testing.assert_allclose(gates.of_model("m").share, np.mean(both), atol=1e-6)
    else:
        assert gates.of_model("m").share is None


def test_windows_and_models_without_gates():
    def gates(name, **settings):
        return Gates(Attentions(build_tiny(name, **settings)).layers)

    assert gates("gate-hidden").window() == 3
    assert gates("gate-query", local_window=5).window() == 11
    assert gates("hysan-gated").window() is None
    for name in ("mma", "hysan-sum", "gate-concat", "gate-local", "past-only"):
        assert not gates(name).layers


@pytest.mark.parametrize("name, places", [("hysan-gated", 3 * 4), ("gate-query", 2)])
def test_parts_of_speech(name, places):
    """A word counts once, as the mean of its subwords; in the encoder, all heads together."""
    attentions = Attentions(build_tiny(name), [ENCODER, DECODER])
    (one,) = attentions.observe(sample(SOURCES[:1], TARGETS[:1]))
    gates = Gates(attentions.layers)
    words = [[0], [1, 2, 3], [4], [5, 6], [7]]  # the end symbol belongs to none
    gates.add(one, words, ["A", "B", "A", "A", "C"])
    rows = gates.of_model("m").tag_rows
    assert len(rows) == 3 * places
    assert {row["kind"] for row in rows} == {ENCODER} and {row["head"] for row in rows} == {None}
    for row in rows:
        layer = attentions.layers[ENCODER][row["layer"] - 1]
        values = one[ENCODER][row["layer"] - 1].gates.double()  # [l, n, d], or [n, h] of the local
        if name == "hysan-gated":
            values = values[layer.branches.index(row["branch"])]
        values = values.mean(-1)
        of_words = {
            "A": torch.stack([values[0], values[4], values[5:7].mean()]),
            "B": values[1:4].mean()[None],
            "C": values[7:8],
        }[row["tag"]]
        assert row["words"] == len(of_words) and row["interval"] is None  # of one sentence
        np.testing.assert_allclose(row["mean"], of_words.mean(), rtol=1e-9)
        place = Place(ENCODER, row["layer"], row["gate"], row["branch"])
        assert gates.places[place].count == 9


def test_running_means_are_numpys():
    """Also of numbers that hardly differ, like gates that have learned nothing."""
    random = np.random.default_rng(0)
    parts = [0.3 + 1e-9 * random.standard_normal(size) for size in (5, 0, 1, (20, 20))]
    running, constant = RunningMean(), RunningMean()
    for part in parts:
        running.add(part)
        constant.add(np.full(7, 0.3))
    numbers = np.concatenate([part.ravel() for part in parts])
    assert running.count == len(numbers)
    np.testing.assert_allclose(running.mean, numbers.mean(), rtol=1e-14)
    np.testing.assert_allclose(running.deviation, numbers.std(), rtol=1e-6)
    assert constant.deviation < 1e-15
    assert RunningMean().mean is None and RunningMean().deviation is None


def by_hand(sums, counts):
    """Half the 95 % interval of a ratio of sums over sentences, by the delta method."""
    sums, counts = np.array(sums), np.array(counts)
    left = sums - sums.sum() / counts.sum() * counts
    return student.ppf(0.975, len(sums) - 1) * left.std(ddof=1) * len(sums) ** 0.5 / counts.sum()


def test_intervals_are_over_sentences():
    """Numbers of a sentence are alike, so the interval is wider than of as many free numbers."""
    random = np.random.default_rng(0)
    sizes = random.integers(1, 40, 400)
    sentences = [1e3 + random.normal() + 0.1 * random.standard_normal(size) for size in sizes]
    running, of_sums = RunningMean(), RunningMean()
    assert running.interval is None
    for values in sentences:
        running.add(values)
        of_sums.add_sum(values.sum(), len(values))
    sums = np.array([values.sum() for values in sentences])
    assert running.interval == pytest.approx(by_hand(sums, sizes), rel=1e-6)
    assert of_sums.interval == pytest.approx(running.interval, rel=1e-6)
    drawn = random.integers(400, size=(2000, 400))
    low, high = np.quantile(sums[drawn].sum(1) / sizes[drawn].sum(1), (0.025, 0.975))
    assert running.interval == pytest.approx((high - low) / 2, rel=0.1)
    assert running.interval > 5 * 1.96 * running.deviation / running.count**0.5


def test_intervals_of_layers_parts_of_speech_and_all():
    """Several words of a sentence, and its layers, are one of what varies."""
    attentions = Attentions(build_tiny("gate-hidden"))
    gates, words = Gates(attentions.layers), [[0], [1], [2]]
    values, nouns, counts = [], [], []
    for one, tagged in zip(attentions.observe(sample()), ["AAB", "ABB", "AAA"], strict=False):
        gates.add(one, words, list(tagged))
        of_layers = [layer.gates for layer in one[ENCODER] if layer.gates is not None]
        values.append([layer.double().mean(-1).numpy() for layer in of_layers])
        is_noun = [tag == "A" for tag in tagged]
        nouns.append(values[-1][0][:3][is_noun].sum())
        counts.append(sum(is_noun))
    found, sizes = gates.of_model("m"), [len(of_layers[0]) for of_layers in values]
    for n, row in enumerate(found.rows):
        expected = by_hand([of_layers[n].sum() for of_layers in values], sizes)
        assert row["interval"] == pytest.approx(expected, rel=1e-6)
    (row,) = [row for row in found.tag_rows if (row["layer"], row["tag"]) == (1, "A")]
    assert row["interval"] == pytest.approx(by_hand(nouns, counts), rel=1e-6)
    sums = [sum(x.sum() for x in of_layers) for of_layers in values]
    expected = by_hand(sums, [len(found.rows) * size for size in sizes])
    assert found.share_interval == pytest.approx(expected, rel=1e-6)


TAGGED = {
    ("de", "HanTa"): "Der/DET Mann/NOUN sieht/VERB zwei/NUM alte/ADJ Katzen/NOUN &quot;/SYM !/SYM",
    ("en", "HanTa"): "The/DET old/ADJ man/NOUN saw/VERB her/PRON and/CONJ 3/NUM dogs/NOUN ./SYM",
    # The tagger would split these words in another way.
    ("ja", "MeCab"): "私/PRON は/ADP 昨/NOUN 日/NOUN 東京/NOUN で/ADP 会っ/VERB た/VERB 。/SYM",
    ("zh", "rjieba"): "我们/PRON 今天/NOUN 在/ADP 北京/NOUN 大学/NOUN 看书/VERB 。/SYM",
}


@pytest.mark.parametrize("language, package", TAGGED)
def test_taggers(language, package):
    pytest.importorskip(package)
    pairs = [word.split("/") for word in TAGGED[language, package].split()]
    words, expected = map(list, zip(*pairs, strict=True))
    assert tags.tag_all(language, [words, []]) == [expected, []]
    assert set(expected) <= set(tags.UNIVERSAL)


def test_tags_by_characters():
    tokens = [("ab", "NOUN"), ("cde", "VERB"), ("f", "X")]
    assert tags.by_characters(["a", "bcd", "e", "f"], tokens) == ["NOUN", "VERB", "VERB", "X"]
    assert tags.by_characters(["abcd", "ef"], tokens) == ["VERB", "X"]  # of two, the last
    tied = [("a", "NOUN"), ("bc", "VERB"), ("d", "NOUN")]
    assert tags.by_characters(["abcd"], tied) == ["NOUN"]  # its last, not the last new one
    with pytest.raises(UserError, match="changed the text"):
        tags.by_characters(["ab", "cd"], tokens)


def test_tags_are_translated_by_the_longest_prefix():
    table = {"P": "PRON", "PTK": "PRT", "PTKNEG": "ADV"}
    for tag, expected in {"PPER": "PRON", "PTKZU": "PRT", "PTKNEG": "ADV", "Q": "X"}.items():
        assert tags.universal(tag, table) == expected
    for each in (tags._STTS, tags._C5, tags._IPA, tags._ICTCLAS):
        assert set(each.values()) <= set(tags.UNIVERSAL)


def test_command(in_data, analyse, capsys):
    (in_data / "tags").write_text("A B\nB\n\nA A B\n")
    analyse(
        "gates",
        *("gate1.pt", "gate2.pt", "--tags", "tags"),
        *("--write", "gates.json", "--write", "gates.png"),
    )
    assert "sentence 3" in capsys.readouterr().err
    written = json.loads((in_data / "gates.json").read_text())
    assert written["tags"] == "tags"
    first, second = written["models"]
    assert (first["name"], first["window"]) == ("gate1", 3)
    assert (second["name"], second["window"]) == ("gate2", 5)
    counts = {row["tag"]: row["words"] for row in first["tag_rows"] if row["layer"] == 1}
    assert counts == {"A": 3, "B": 3}
    # Subwords of the three sentences, and their end symbols.
    assert first["rows"][0]["positions"] == 12
    (scores,) = written["systems"]["gate1"]
    assert scores["gate"]["value"] == first["share"]
    tagged = scores["gate.encoder.1.A"]["signature"]
    assert tagged == "share|branch:local|words:3|tags:tags"
    assert (in_data / "gates.png").read_bytes().startswith(b"\x89PNG")


def test_figures_show_the_numbers():
    of = {"kind": "encoder", "branch": "local"}
    model = ModelGates(
        name="a",
        rows=[
            {**of, "layer": n, "head": None, "mean": mean, "deviation": 0.1}
            for n, mean in ((1, 0.4), (2, 0.3))
        ],
        tag_rows=[
            {**of, "layer": 1, "tag": tag, "mean": mean}
            for tag, mean in (("zz", 0.2), ("X", 0.3), ("NOUN", 0.5))
        ],
        share=0.35,
        window=3,
    )
    other = ModelGates("b", model.rows, [], 0.45, 5)
    by_layer, by_tag, by_window = draw([other, model]).axes
    assert list(by_layer.lines[0].get_ydata()) == [0.4, 0.3]
    assert [text.get_text() for text in by_tag.get_xticklabels()] == ["NOUN", "X", "zz"]
    assert [bar.get_height() for bar in by_tag.patches] == [0.5, 0.3, 0.2]
    assert [list(axis) for axis in by_window.lines[-1].get_data()] == [[3, 5], [0.35, 0.45]]
    assert len(draw([other]).axes) == 1


def test_refusals(in_data, refuses):
    (in_data / "wrong.tags").write_text("A B X\nA\n\n\n")
    (in_data / "ten.tags").write_text("A B\n" * 10)
    refused = {
        "gate1.pt --tags ten.tags": "has 10 lines, but there are 4",
        "gate1.pt --tags wrong.tags": "line 1 has 3 tags, its sentence 2 words; line 4 has 0",
        "gate1.pt --tags text.de --tagger de": "one of --tags",
        "gate1.pt --write-tags t": "give both",
        "mma.pt": "has no gates",
    }
    refuses("gates", refused)


def test_tagger_writes_what_it_says(in_data, analyse):
    pytest.importorskip("HanTa")
    analyse("gates", "gate1.pt", "--tagger", "de", "--write-tags", "own.tags")
    lines = (in_data / "own.tags").read_text().split("\n")
    assert [len(line.split()) for line in lines] == [2, 1, 0, 3, 0]
    analyse("gates", "gate1.pt", "--tags", "own.tags")


class OfHeads(Fusion):
    """A gate of each branch and head: the number of the branch plus a tenth of the head."""

    mixes_positions = False
    gate_kind = GateKind(name="mine", meaning="made up", of_heads=True)

    def forward(self, branches, hidden, queries):
        l, n, b, _ = branches.shape  # noqa: E741
        gates = torch.arange(l).view(l, 1, 1, 1) + torch.arange(4) / 10
        return branches.sum(0), gates.expand(l, n, b, 4)


class OfPast(HiddenGate):
    """Shares of a branch that has no window."""


class Forgetful(OfHeads):
    def forward(self, branches, hidden, queries):
        return branches.sum(0), branches[0]


def test_a_fusion_says_itself_what_its_gates_are(monkeypatch):
    monkeypatch.setattr(vocabulary, "_FUSIONS", {"mine": OfHeads, "past": OfPast, "no": Forgetful})
    gates = observed(build_tiny("hysan-gated", branch_fusion="mine")).of_model("m")
    assert gates.meanings == {"mine": "made up"} and gates.share is None
    of = {
        (row["kind"], row["layer"], row["branch"], row["head"]): row["mean"] for row in gates.rows
    }
    assert len(of) == (3 * 4 + 2 * 2) * 5
    for branch, word in enumerate(("global", "fw", "bw", "l5")):
        assert of["encoder", 2, word, None] == pytest.approx(branch + 0.15)
        for head in range(4):
            assert of["encoder", 2, word, head + 1] == pytest.approx(branch + head / 10)

    settings = {"encoder_branches": "global,fw", "decoder_branches": "fw", "branch_fusion": "past"}
    gates = observed(build_tiny("hysan-gated", **settings)).of_model("m")
    assert {row["branch"] for row in gates.rows} == {"fw"} and gates.window is None
    assert 0 < gates.share < 1

    with pytest.raises(UserError, match=r"encoder layer 1: .*mine.* not \[9,"):
        observed(build_tiny("hysan-gated", branch_fusion="no"))
    monkeypatch.setattr(OfPast, "gate_kind", replace(OfPast.gate_kind, branch=2))
    with pytest.raises(UserError, match="encoder layer 1: .* of branch 2; .* branches 0 to 1"):
        observed(build_tiny("hysan-gated", **settings))
