"""Attention maps: words of subwords, data, figures, and the page in a real browser."""

import base64
import html
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from every_model import sample
from models import build_tiny
from page_in_browser import Shown, chromium  # noqa: F401  (the fixture ``browser``)

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.attention.fusion import GatedSum, QueryGate
from fairseq_hybrid_attn.lab.analysis import maps_figure, maps_page
from fairseq_hybrid_attn.lab.analysis.maps_measure import ModelMaps, rounded, sentence_maps
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.models.attentions import (
    CROSS,
    DECODER,
    ENCODER,
    Attentions,
    Layer,
    LayerAttention,
)
from fairseq_hybrid_attn.lab.models.on_text import positions
from fairseq_hybrid_attn.patterns import GLOBAL, PAST


def maps_of(attentions, seen, source, target, subwords="subword-nmt", shown=(str, str)):
    """The maps of a sentence and its translation in these subwords."""
    sentences = SimpleNamespace(source=[source], translations=[target])
    model = SimpleNamespace(sentences=sentences, subwords=subwords, shown=shown)
    return sentence_maps(model, attentions, 0, seen)


def a_sentence(name="hysan-gated"):
    """What was seen of a sentence of three words in five subwords, and its translation."""
    attentions = Attentions(build_tiny(name))
    (seen,) = attentions.observe(sample([[4, 5, 6, 7, 8, 2]], [[6, 5, 9, 2]]))
    pieces = (["a@@", "b", "c", "d@@", "e"], ["x", "y@@", "z"])
    return attentions, seen, pieces


def test_tokens_and_weights_between_words():
    """Attention is summed over the pieces of a key and averaged over those of a query."""
    attentions, seen, pieces = a_sentence()
    maps = maps_of(attentions, seen, *pieces)
    assert (maps.source, maps.target) == (["ab", "c", "de"], ["x", "yz"])
    source = ["ab", "c", "de", "</s>"], [[0, 1], [2], [3, 4], [5]]
    read = ["<s>", "x", "yz"], [[0], [1], [2, 3]]
    predicted = ["x", "yz", "</s>"], [[0], [1, 2], [3]]
    sides = {ENCODER: (source, source), DECODER: (read, read), CROSS: (predicted, source)}
    for kind, ((queries, of_query), (keys, of_key)) in sides.items():
        one = maps.units["words"][kind]
        assert (one.queries, one.keys) == (queries, keys)
        for layer, (weights, allowed) in enumerate(zip(one.weights, one.allowed, strict=True)):
            pieces_weights = seen[kind][layer].weights.numpy()
            for i, rows in enumerate(of_query):
                for j, columns in enumerate(of_key):
                    block = pieces_weights[:, :, rows][..., columns]
                    expected = block.sum(-1).mean(-1)
                    np.testing.assert_allclose(weights[:, :, i, j], expected, atol=1e-6)
                    assert (allowed[:, :, i, j] == (block > 0).any((-2, -1))).all()
    assert maps.units["subwords"][DECODER].queries == ["<s>", "x", "y@@", "z"]
    assert maps.units["subwords"][CROSS].queries == ["x", "y@@", "z", "</s>"]


def test_a_sentence_of_nothing_but_marks_is_a_word():
    attentions, seen, (_, target) = a_sentence()
    maps = maps_of(attentions, seen, ["@@"] * 5, target)
    assert maps.units["words"][ENCODER].keys == ["@@", "</s>"]
    np.testing.assert_allclose(maps.units["words"][ENCODER].weights[0].sum(-1), 1, atol=1e-5)


def test_words_are_shown_as_in_text():
    attentions, seen, (source, _) = a_sentence()
    maps = maps_of(attentions, seen, source, ["&ap@@", "os;", "s"], shown=(str, html.unescape))
    words = maps.units["words"]
    assert maps.target == ["'", "s"] and words[CROSS].queries == ["'", "s", "</s>"]
    assert words[DECODER].keys == ["<s>", "'", "s"]
    assert maps.units["subwords"][CROSS].queries[:2] == ["&ap@@", "os;"]


def by_hand(weights, allowed=None, queries=None):
    """A model's maps of one sentence with the weights ``[branches, heads, n, m]`` of a layer."""
    weights = np.asarray(weights, np.float32)
    branches, heads, n, m = weights.shape
    layer = Layer(
        kind=ENCODER,
        number=1,
        heads=tuple((f"branch{b}",) * heads for b in range(branches)),
        patterns=((PAST if allowed == "past" else GLOBAL,) * heads,) * branches,
        gate=None,
    )
    tokens = queries or [f"w{i}" for i in range(n - 1)]
    attentions = SimpleNamespace(layers={ENCODER: [layer]})
    seen = {ENCODER: [LayerAttention(weights=torch.from_numpy(weights))]}
    return maps_of(attentions, seen, tokens, ["t"], "none")


def gate_weights(fusion, inputs):
    """The gates of a layer ``[branches, heads or 1, n]`` by the formulas of the papers."""
    branches, hidden, queries = (value[..., 0, :] for value in inputs)
    if isinstance(fusion, GatedSum):
        squeezed = (branches @ fusion.squeeze.weight.T).clamp(min=0)
        return torch.sigmoid(squeezed @ fusion.expand.weight.T).mean(-1)[:, None]
    looked_at = queries if isinstance(fusion, QueryGate) else hidden
    return torch.sigmoid(looked_at @ fusion.gate.weight.T).T[None]


@pytest.mark.parametrize("name", ["hysan-gated", "gate-hidden", "gate-query"])
def test_gates_of_a_map(name):
    """Of each row, averaged over the pieces of a word."""
    attentions, _, pieces = a_sentence(name)
    fusions, taken = {}, {}
    for kind, modules in attentions.modules.items():
        for place, module in enumerate(modules):
            fusion = getattr(module, "fusion", None)
            if fusion is not None and fusion.gate_kind:
                fusions[kind, place] = fusion
                fusion.register_forward_hook(
                    lambda _, inputs, __, at=(kind, place): taken.update({at: inputs})
                )
    (seen,) = attentions.observe(sample([[4, 5, 6, 7, 8, 2]], [[6, 5, 9, 2]]))
    maps = maps_of(attentions, seen, *pieces)
    shown = ModelMaps("m", "", [maps]).as_dict(rounded)["sentences"][0]["maps"]
    words = {ENCODER: [[0, 1], [2], [3, 4], [5]], DECODER: [[0], [1], [2, 3]]}
    assert fusions
    for (kind, place), fusion in fusions.items():
        with torch.no_grad():
            expected_gates = gate_weights(fusion, taken[kind, place])
        for unit, groups in (("words", words[kind]), ("subwords", None)):
            layer = shown[unit][kind]["layers"][place]
            assert layer["gate"].startswith(fusion.gate_kind.name)
            of_rows = [gates for gates in layer["gates"] if gates is not None]
            assert len(of_rows) == len(layer["branches"]) - (name != "hysan-gated")
            wanted = expected_gates
            if groups:
                wanted = torch.stack([wanted[..., rows].mean(-1) for rows in groups], -1)
            np.testing.assert_allclose(of_rows, wanted, atol=2e-6)


def test_page_is_one_file_that_text_cannot_break():
    nasty = ["</script>", "<b>x</b>", "&lt;", "{{ x }}", '"', "\u2028"]
    size = len(nasty) + 1
    maps = by_hand(np.full((1, 1, size, size), 1 / size), queries=nasty)
    text = maps_page.page("<title> & more", [ModelMaps("<i>m</i>", "d", [maps])])
    assert "<title>&lt;title&gt; &amp; more</title>" in text
    start = text.index('class="maps-data">') + len('class="maps-data">')
    data = json.loads(text[start : text.index("</script>", start)])
    assert data[0]["name"] == "<i>m</i>"
    shown = data[0]["sentences"][0]["maps"]["subwords"]["encoder"]
    assert shown["keys"] == [*nasty, "</s>"]
    assert len(base64.b64decode(shown["layers"][0]["weights"])) == 2 * size * size
    assert "http://" not in text and "https://" not in text and len(text) < 50_000


def expected(analyse, *flags):
    """What the command writes as JSON: of each model, maps of each sentence by unit and kind."""
    analyse("maps", *flags, "--write", "expected.json")
    models = json.loads(Path("expected.json").read_text())["models"]
    return [[sentence["maps"] for sentence in model["sentences"]] for model in models]


def close(shown, weights):
    """The page's numbers are these; where it has none, they are 0."""
    numbers = np.array([[w or 0 for w in row] for row in shown["z"]])
    np.testing.assert_allclose(numbers, weights, atol=2e-5)


def test_page_in_a_browser(in_data, analyse, browser):
    """Every choice shows the numbers that the command writes as JSON; pointing shows them."""
    paths = ("hysan.pt", "mma.pt", "lstm.pt")
    analyse("maps", *paths, "--write", "maps.html")
    (hysan, mma, _), shown = expected(analyse, *paths), Shown(browser, in_data / "maps.html")
    first, second = (model[0]["words"]["encoder"] for model in (hysan, mma))
    assert shown.plot()["keys"] == ["Das", "Haus", "</s>"] and first["keys"][2] == "</s>"
    assert shown.page.locator(".maps-plot").first.locator("svg").count() == 4  # all heads
    close(shown.plot(), first["layers"][0]["weights"][0][0])
    for panel in ("0", "1"):
        shown.choose(f"head-{panel}", "mean of 4")
    for panel, one in enumerate((first, second)):
        close(shown.plot(panel), np.mean(one["layers"][0]["weights"][0], axis=0))

    for choice, label in (("layer-0", "2"), ("branch-0", "fw"), ("head-0", "3")):
        shown.choose(choice, label)
    weights = first["layers"][1]["weights"][1][2]
    close(shown.plot(), weights)
    assert shown.plot()["z"][0][1] is None  # fw: no key after the query
    (gates,) = first["layers"][1]["gates"][1]
    of_rows = shown.page.locator(".maps-gates").first
    assert f"mean {np.mean(gates):.2f}" in of_rows.text_content()
    bars = of_rows.locator("meter").evaluate_all("(bars) => bars.map((bar) => bar.value)")
    assert bars == pytest.approx(gates)
    assert shown.hover(1, 0) == f"Haus → Das{weights[1][0]:.2f}"
    assert shown.hover(0, 2) == "Das → </s>not allowed"

    shown.choose("unit", "subwords")
    close(shown.plot(), hysan[0]["subwords"]["encoder"]["layers"][1]["weights"][1][2])
    shown.choose("sentence", "4: 猫が 好き です")
    assert shown.page.locator('[data-text="source"]').text_content() == "猫が 好き です"
    third = hysan[2]["subwords"]
    close(shown.plot(), third["encoder"]["layers"][1]["weights"][1][2])
    assert "好@@ → 猫@@" in shown.hover(2, 0)
    for kind, label in (("decoder", "decoder self-attention"), ("cross", "cross-attention")):
        shown.choose("kind", label)
        layer = third[kind]["layers"][1]
        branch = int(shown.page.locator('[data-choice="branch-0"]').input_value())
        close(shown.plot(), layer["weights"][branch][2])
        assert shown.plot()["queries"][0] == ("<s>" if kind == "decoder" else "I")

    shown.choose("kind", "encoder self-attention")
    shown.choose("model-0", "mma")
    assert shown.page.locator('[data-choice="branch-0"]').is_hidden()
    shown.choose("head-0", "2 (local)")
    close(shown.plot(), mma[2]["subwords"]["encoder"]["layers"][1]["weights"][0][1])
    assert of_rows.text_content() == ""
    shown.choose("model-0", "lstm")
    assert "no such attention" in shown.page.locator(".maps-plot").first.text_content()
    assert not shown.faults
    assert all(url.startswith("file:") for url in shown.asked)


def test_the_second_map_and_the_scale(in_data, analyse, browser):
    flags = ("stock.pt", "--sentences", "1")
    analyse("maps", *flags, "--write", "one.html")
    shown = Shown(browser, in_data / "one.html", "dark")
    assert shown.colours() == ["rgb(21, 24, 28)"] * 2
    shown.page.click("#theme")
    assert shown.colours() == ["rgb(255, 255, 255)"] * 2
    panels = shown.page.locator(".maps-panel")
    assert panels.nth(1).is_hidden()
    shown.page.check('[data-choice="second"]')
    shown.choose("head-1", "4")
    ((maps,),) = expected(analyse, *flags)
    close(shown.plot(1), maps["words"]["encoder"]["layers"][0]["weights"][0][3])
    shown.choose("head-0", "1")
    both = [np.array(shown.plot(n)["z"]).max() for n in (0, 1)]
    assert shown.plot(0)["zmax"] == shown.plot(1)["zmax"] == pytest.approx(max(both), abs=0.005)
    shown.choose("scale", "1")
    assert shown.plot(0)["zmax"] == 1
    assert not shown.faults


def test_figures_show_the_weights():
    random = np.random.default_rng(0)
    weights = random.dirichlet(np.ones(4), size=(2, 3, 4)).astype("float32")
    one = by_hand(weights[:1], "past").units["words"][ENCODER]
    (row,) = maps_figure.rows_of(one)
    assert [panel.title for panel in row.panels] == [f"head {h}\nbranch0" for h in (1, 2, 3)]
    drawn = maps_figure.draw([row]).axes
    mask = np.triu(np.ones((4, 4), bool), 1)
    for axes, head in zip(drawn, range(3), strict=False):
        (image,) = axes.images
        assert (image.get_array().mask == mask).all()
        np.testing.assert_array_equal(image.get_array().data[~mask], weights[0, head][~mask])
        assert image.norm.vmax == pytest.approx(weights[0].max())
    assert [t.get_text() for t in drawn[0].get_yticklabels()] == ["w0", "w1", "w2", "</s>"]
    (row,) = maps_figure.rows_of(by_hand(weights).units["words"][ENCODER])
    np.testing.assert_allclose(row.panels[1].weights, weights[1].mean(0), rtol=1e-6)


def test_compared_models_have_tokens_and_layers_of_their_own():
    shallow = by_hand(np.full((1, 1, 3, 3), 1 / 3)).units["words"][ENCODER]
    deep = by_hand(np.full((1, 1, 4, 4), 1 / 4), queries=["a", "b", "c"]).units["words"][ENCODER]
    two = {name: 2 * getattr(deep, name) for name in ("layers", "weights", "allowed", "gates")}
    rows = maps_figure.compared({"one": shallow, "other": replace(deep, **two)})
    assert [row.title.split("\n")[0] for row in rows] == ["one", "other", "other"]
    labels = [axes.get_yticklabels() for axes in maps_figure.draw(rows).axes[: len(rows)]]
    long = ["a", "b", "c", "</s>"]
    queries = [[text.get_text() for text in of_axes] for of_axes in labels]
    assert queries == [["w0", "w1", "</s>"], long, long]


def test_a_sentence_that_one_model_cannot_take(in_data, analyse, capsys):
    """The other's map stands alone; no map stands beside that of another sentence."""
    flags = ("--sentences", "1,2", "--too-long", "skip", "--kinds", "encoder")
    analyse("maps", "mma.pt", "short.pt", *flags, "--write", "two.json", "--figures", "two")
    mma, short = json.loads(Path("two.json").read_text())["models"]
    patterns = "encoder global, local, forward, backward"
    assert mma["description"] == f"transformer_mma; {patterns}; with positions"
    numbers = [[one["sentence"] for one in model["sentences"]] for model in (mma, short)]
    assert numbers == [[1, 2], [2]] and "short: 1 sentences are longer" in capsys.readouterr().err
    names = {path.stem for path in Path("two").iterdir()}
    assert names == {
        "sentence1.encoder.model1",
        *(f"sentence2.{what}" for what in ("encoder.model1", "encoder.model2", "compare")),
    }
    assert {path.suffix for path in Path("two").iterdir()} == {".png", ".pdf"}


def test_positions_are_told():
    def told(**settings):
        return positions(build_tiny("mma", **settings))

    assert told() == "with positions"
    assert told(relative_positions="rotary") == "rotary positions in the encoder and decoder"
    one = told(relative_positions="alibi", no_encoder_positions=True)
    assert one == "no positions in the encoder, alibi positions in the decoder"


def test_a_missing_sentence_in_a_browser(in_data, analyse, browser):
    flags = ("mma.pt", "short.pt", "--sentences", "1,2", "--too-long", "skip")
    analyse("maps", *flags, "--write", "two.html")
    _, (short,) = expected(analyse, *flags)
    shown = Shown(browser, in_data / "two.html")
    assert "no such attention" in shown.page.locator(".maps-plot").nth(1).text_content()
    shown.choose("sentence", "2: ja")
    close(shown.plot(1), short["words"]["encoder"]["layers"][0]["weights"][0][0])
    assert not shown.faults


def test_refusals(in_data, refuses, monkeypatch):
    (in_data / "link").symlink_to("no/where")
    refuses("maps", {"stock.pt": "nothing to do", "stock.pt --figures link": "--figures link"})
    for package, flags in (("jinja2", "--write p.html"), ("matplotlib", "--figures f")):
        monkeypatch.setitem(sys.modules, package, None)
        refuses("maps", {f"mma.pt {flags}": r"fairseq-hybrid-attn\[analysis\]"})
    assert not Path("f").exists()


def test_what_is_wrong_with_a_checkpoint_is_told(in_data, tmp_path):
    """In plainer words than those of fairseq and torch, if it is foreseen."""

    def told(problem, path="foreign.pt", data="bin"):
        with pytest.raises(UserError, match=problem):
            main(["maps", path, "--data", str(data), "--subwords", "none", "--write", "x.json"])

    renamed, cut, lm = (torch.load("mma.pt", weights_only=True) for _ in range(3))
    renamed["cfg"]["model"]["_name"] = "transformer_x"
    del cut["model"]["decoder.embed_tokens.weight"]
    lm["model"] = {name: w for name, w in lm["model"].items() if name.startswith("decoder.")}
    for content, problem in (
        ({"state_dict": {}}, "holds no model"),
        ({"model": {"w": torch.zeros(1)}}, "no settings of its model"),
        (torch.nn.Linear(1, 1), "torch.nn.modules.linear.Linear, which might run"),
        (renamed, "architecture transformer_x"),
        (lm, "is a language model"),
        (cut, "lacks decoder.embed_tokens"),
    ):
        torch.save(content, "foreign.pt")
        told(f"foreign.pt.*{problem}")
    told("text.de cannot be loaded", "text.de")
    told("--data nowhere", "mma.pt", "nowhere")
    told("neither manifest.json nor dictionaries", "mma.pt", tmp_path)
    for side in ("de", "en"):
        (tmp_path / f"dict.{side}.txt").write_text("a 1\n")
    told("of another size are encoder.embed_tokens.weight", "mma.pt", tmp_path)
