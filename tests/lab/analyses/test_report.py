"""The report: its numbers are those of the single commands; its page, and users' mistakes."""

import hashlib
import json
import shutil
from html.parser import HTMLParser

import pytest
import torch
from analysed import make_data, save
from models import build_tiny
from page_in_browser import Shown, chromium  # noqa: F401  (the fixture ``browser``)

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.command_line import main
from fairseq_hybrid_attn.lab.files.tabular import Grid
from fairseq_hybrid_attn.lab.inference.attentions import DECODER, ENCODER, Attentions
from fairseq_hybrid_attn.lab.maps.page import plotly_script
from fairseq_hybrid_attn.lab.report.page import Code, PageTable, Paragraph, Part, report
from fairseq_hybrid_attn.lab.report.summary import patterns_of

REFERENCE = ["the house is there", "yes it is", "so it is said", "I like cats and dogs"]
SYSTEMS = {
    "gate1": ["a house is there", "yes it is", "so", "I like the cats and dogs"],
    "mma": ["The house was there", "yes", "so it is said", "cats and dogs"],
}
TAGS = ["DET NOUN", "PRT", "", "NOUN ADJ VERB"]
#: Elements that have no end.
VOID = {"meta", "input", "img", "br"}


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def log(losses):
    """What fairseq-train prints with --log-format json."""
    for number, loss in enumerate(losses, start=1):
        record = json.dumps({"loss": str(loss), "num_updates": str(10 * number)})
        yield f"2026-01-01 00:00:00 | INFO | train_inner | {record}"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = make_data(tmp_path_factory.mktemp("report"), ["gate1", "mma", "lstm"])
    write(folder / "ref.en", REFERENCE)
    write(folder / "text.tags", TAGS)
    for name, lines in SYSTEMS.items():
        write(folder / f"{name}.en", lines)
    write(folder / "gate1.log", log([3.5, 2.25, 2.5]))
    write(folder / "mma.log", log([4, 3]))
    return folder


@pytest.fixture
def in_data(data, monkeypatch):
    monkeypatch.chdir(data)
    return data


MODELS = ["bin", "--path", "gate1.pt", "mma.pt"]
TEXT = "--source text.de --target text.en --subwords subword-nmt --cpu".split()
SCORED = ["--reference", "ref.en", "--target-lang", "en"]
HYPOTHESES = [word for name in SYSTEMS for word in ("--hypotheses", f"{name}={name}.en")]
LOGS = "--log gate1=gate1.log --log mma=mma.log".split()


def command(*words):
    main([str(word) for word in words])


@pytest.fixture(scope="module")
def whole(data):
    """A report with all parts: its JSON and its page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(data)
        command(
            *("report", *MODELS, *TEXT, *SCORED, *HYPOTHESES, *LOGS, "--tags", "text.tags"),
            *("--output", "whole.html", "--json", "whole.json"),
        )
    return json.loads((data / "whole.json").read_text()), Page((data / "whole.html").read_text())


class Page(HTMLParser):
    """A page taken apart: that it is well-formed is seen to on the way.

    Attributes:
        tables: rows of texts, by the heading of the part; a part may have several.
        texts: all text of a part but that of its scripts, by its heading.
        links: what src and href name.
        elements: the names of all elements.
    """

    def __init__(self, source):
        super().__init__()
        self.open, self.tables, self.texts, self.links, self.elements = [], {}, {}, [], set()
        self.part = ""
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.add(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "action")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "h2":
            self.part = ""
        if tag == "table":
            self.tables.setdefault(self.part, []).append([])
        if tag == "tr":
            self.tables[self.part][-1].append([])
        if tag in ("td", "th"):
            self.tables[self.part][-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if "h2" in self.open:
            self.part += text
        elif not {"script", "style"} & set(self.open):
            self.texts[self.part] = self.texts.get(self.part, "") + text
        if {"td", "th"} & set(self.open):
            self.tables[self.part][-1][-1][-1] += text


# --- numbers ----------------------------------------------------------------------------------


def test_heads_and_gates_are_those_of_the_commands(in_data, whole):
    found, page = whole
    command("heads", *MODELS, *TEXT, "--json", "heads.json")
    command("gates", *MODELS[:3], *TEXT, "--tags", "text.tags", "--json", "gates.json")
    heads = json.loads((in_data / "heads.json").read_text())
    gates = json.loads((in_data / "gates.json").read_text())
    assert [model["name"] for model in found["models"]] == ["gate1", "mma"]
    shown = page.tables["Heads and branches"]
    for number, (ours, theirs) in enumerate(zip(found["models"], heads["models"], strict=True)):
        for key in ("heads", "layers", "description"):
            assert ours[key] == theirs[key]
        assert ours["sentences"] == 3  # one is empty
        differences = [
            ["" if d[k] is None else f"{d[k]:.3f}" for k in list(d) if k.startswith(("div", "pos"))]
            for d in [
                {k: v for k, v in one.items() if k != "divergences"} for one in ours["layers"]
            ]
        ]
        assert [row[2:] for row in shown[2 * number + 1][1:]] == differences
    # A layer of MMA has four heads of four patterns, so the page shows each head.
    mma = [row for row in found["models"][1]["heads"] if row["kind"] == "encoder"]
    for row, cells in zip(mma, shown[2][1:], strict=False):
        assert cells[:5] == ["encoder", str(row["layer"]), row["branch"], row["pattern"], "1"]
        numbers = [v for k, v in row.items() if k in HEAD_COLUMNS]
        assert cells[5:] == [f"{value:.3f}" for value in numbers]
    for ours, theirs in zip(found["models"], gates["models"], strict=False):
        assert {**ours["gates"], "bleu": None} == theirs
    assert found["models"][1]["gates"] is None
    assert found["tags"] == gates["tags"]
    shown = page.tables["Gates"]
    for table, model in zip(shown[::2], gates["models"], strict=True):
        assert [row[-2:] for row in table[1:]] == [
            [f"{row['mean']:.3f}", f"{row['deviation']:.3f}"] for row in model["rows"]
        ]
    for table, model in zip(shown[1::2], gates["models"], strict=True):
        assert [row[2:] for row in table[1:]] == [
            [row["tag"], str(row["words"]), f"{row['mean']:.3f}", f"{row['deviation']:.3f}"]
            for row in model["tag_rows"]
        ]
    assert f"All layers: {gates['models'][0]['share']:.3f}, window 3." in page.texts["Gates"]
    assert "mma: no gates" in page.texts["Gates"]


HEAD_COLUMNS = ("distance", "signed_distance", "entropy", "relative_entropy", "self", "symbol")


def test_scores_are_those_of_the_commands(in_data, whole):
    found, page = whole
    command(
        *("lengths", "--source", "text.de", "--source-subwords", "subword-nmt", *SCORED),
        *(*HYPOTHESES, "--json", "lengths.json"),
    )
    lengths = json.loads((in_data / "lengths.json").read_text())
    del lengths["source"], lengths["reference"]
    assert found["lengths"] == lengths
    assert [score["name"] for score in found["scores"]] == ["bleu", "tokenised_bleu"]
    for name in SYSTEMS:
        command("score", "--hypotheses", f"{name}.en", *SCORED, "--json", "score.json")
        theirs = json.loads((in_data / "score.json").read_text())["scores"]
        for score in found["scores"]:
            assert score["systems"][name]["value"] == theirs[score["name"]]["value"]
            assert score["signature"] == theirs[score["name"]]["signature"]
            assert score["signature"] in page.texts["Scores"]
    bleu = found["scores"][0]["systems"]
    assert bleu == lengths["whole"]["scores"]
    row = page.tables["Scores"][0][1]
    assert row == ["BLEU", "4", *score_cells(bleu)]
    rows = page.tables["BLEU by source length"][0][1:]
    for cells, group in zip(rows, [*lengths["groups"], lengths["whole"]], strict=True):
        assert cells[:2] == [group["label"], str(group["sentences"])]
        assert cells[2:] == (score_cells(group["scores"]) if group["scores"] else [""] * 3)
    assert found["models"][0]["gates"]["bleu"] == bleu["gate1"]["value"]


def score_cells(scores):
    cells = []
    for name, score in scores.items():
        interval = "" if score["interval"] is None else f" ± {score['interval']:.2f}"
        cells.append(f"{score['value']:.2f}{interval}")
        if name != "gate1":
            cells.append("" if score["p_value"] is None else f"{score['p_value']:.3f}")
    return cells


def test_curves_and_maps_are_those_of_the_commands(in_data, whole):
    found, page = whole
    command("curves", "gate1=gate1.log", "mma=mma.log", "--json", "curves.json")
    assert found["curves"] == json.loads((in_data / "curves.json").read_text())["curves"]
    assert page.tables["Learning curves"][0][1:] == [
        ["gate1", "loss", "training", "3", "10-30", "2.250 at 20", "2.500"],
        ["mma", "loss", "training", "2", "10-20", "3.000 at 20", "3.000"],
    ]
    command("maps", *MODELS, *TEXT, "--page", "maps.html")
    assert maps_data(in_data / "whole.html") == maps_data(in_data / "maps.html")


def maps_data(path):
    text = path.read_text()
    start = text.index('class="maps-data">') + len('class="maps-data">')
    return json.loads(text[start : text.index("</script>", start)])


def test_what_the_models_are(in_data, whole):
    found, page = whole
    rows = {row[0]: row[1:] for row in page.tables["Models"][0]}
    for number, model in enumerate(found["models"]):
        path = in_data / f"{model['name']}.pt"
        weights = torch.load(path, weights_only=True)["model"]
        buffers = ("version", "_float_tensor")
        count = sum(w.numel() for name, w in weights.items() if not name.endswith(buffers))
        assert model["parameters"] == count
        assert rows["parameters"][number] == f"{count:,}"
        assert model["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert rows["sha256"][number] == model["sha256"]
    assert found["models"][0]["patterns"][0] == "encoder 1-2: global | local (share gates)"
    assert found["models"][1]["patterns"] == [
        "encoder 1-2: 1 × global, 1 × local, 1 × forward, 1 × backward",
        "decoder 1-2: past",
        "cross 1-2: global",
    ]
    assert found["command"][:3] == ["fairseq-hybrid", "report", "bin"]
    assert "fairseq-hybrid report bin --path gate1.pt" in page.texts["Models"]
    assert f"torch {torch.__version__}" in page.texts["Models"]


def test_patterns():
    layers = Attentions(build_tiny("gate-hidden")).layers[ENCODER]
    assert patterns_of(layers) == ["encoder 1-2: global | local (share gates)", "encoder 3: global"]
    layers = Attentions(build_tiny("hysan-gated")).layers[DECODER]
    assert patterns_of(layers) == ["decoder 1-2: fw | l5 (squeeze gates)"]


def test_a_part_of_the_sentences(in_data):
    flags = ["bin", "--path", "lstm.pt", *TEXT, "--sentences", "4"]
    command("report", *flags, "--maps", "1,2", "--output", "o.html", "--json", "o.json")
    command("heads", *flags, "--json", "heads.json")
    (ours,) = json.loads((in_data / "o.json").read_text())["models"]
    (theirs,) = json.loads((in_data / "heads.json").read_text())["models"]
    assert (ours["heads"], ours["sentences"]) == (theirs["heads"], 1)
    assert [one["number"] for one in maps_data(in_data / "o.html")["sentences"]] == [1, 2]


# --- the page ---------------------------------------------------------------------------------


def test_the_page_names_nothing_outside_itself(data, whole):
    _, page = whole
    images = [link for link in page.links if link.startswith("data:image/svg+xml;base64,")]
    others = [link for link in page.links if link not in images]
    assert others == [f"#part{number}" for number in range(1, 9)]
    assert len(images) == 2 * (1 + 2 + 1 + 1)
    rest = (data / "whole.html").read_text().replace(plotly_script(), "")
    assert "http://" not in rest and "https://" not in rest


def test_the_page_in_a_browser(data, whole, browser):
    shown = Shown(browser, data / "whole.html", "dark")
    for theme in ("dark", "light", "dark"):
        visible = [one for one in shown.page.locator("figure img").all() if one.is_visible()]
        assert len(visible) == 5
        assert {image.get_attribute("class") for image in visible} == {f"only-{theme}"}
        assert all(image.evaluate("image => image.naturalWidth > 100") for image in visible)
        shown.page.click("#theme")
        shown.page.emulate_media(color_scheme="light")  # from now on, the button alone says dark
    assert shown.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shown.page.locator(".maps-plot").first.evaluate("e => e.scrollIntoView({block: 'center'})")
    assert "Haus → Das" in shown.hover(1, 0)
    assert not shown.faults
    assert all(url.startswith(("file:", "data:")) for url in shown.asked)


def test_what_does_not_apply_is_left_out_and_names_are_escaped(in_data):
    name = "<b>&\"'</b></script>"
    command("report", "bin", "--path", "lstm.pt", "--names", name, *TEXT, "--output", "o.html")
    page = Page((in_data / "o.html").read_text())
    assert not {"b", "i"} & page.elements
    assert page.tables["Models"][0][:2] == [["", name], ["architecture", "LSTMModel"]]
    for part in ("Scores", "BLEU by source length"):
        assert "No translations were given" in page.texts[part]
    assert "No logs were given" in page.texts["Learning curves"]
    assert f"{name}: no gates" in page.texts["Gates"]
    reason = f"{name} has no encoder attention: LSTMEncoder has no self-attention modules."
    assert reason in page.texts["Attention maps"] and reason in page.texts["Heads and branches"]
    assert page.tables["Heads and branches"][0][1][:2] == ["cross", "1"]


def test_texts_of_all_kinds_are_escaped():
    nasty = "<u>x</u>"
    part = Part(
        nasty, [Paragraph(nasty), Code(nasty, nasty), PageTable(Grid([nasty], [[nasty]]), nasty)]
    )
    page = Page(report(nasty, [part]))
    assert "u" not in page.elements and page.tables[nasty] == [[[nasty], [nasty]]]


# --- runs of reproduce ------------------------------------------------------------------------


@pytest.fixture
def runs(in_data, tmp_path):
    """Two finished runs of one corpus, in the folders that `reproduce` makes."""
    corpus = tmp_path / "corpora/small@text/ldc.en-zh"
    for name in ("subwords", "raw", "tokenised"):
        (corpus / name).mkdir(parents=True)
    shutil.copytree("bin", corpus / "bin")
    for side in ("de", "en"):
        shutil.copy(f"text.{side}", corpus / f"subwords/test.{side}")
    shutil.copy("ref.en", corpus / "raw/test.en")
    # Other words than those of the subwords' text, so that it shows which are counted.
    write(corpus / "tokenised/test.de", ["wort " * 12, "wort", "wort", "wort " * 25])
    (corpus / "manifest.json").write_text('{"digest": "d"}')
    folders = []
    for name in ("gate1", "mma"):
        folder = tmp_path / f"runs/small@text/hysan/table1/{name}/bleu/seed1"
        (folder / "logs").mkdir(parents=True)
        shutil.copy("lstm.pt", folder / "model.pt")
        shutil.copy(f"{name}.en", folder / "hypotheses.txt")
        shutil.copy(f"{name}.log", folder / "logs/train.log")
        result = {
            **dict.fromkeys(("scores", "identity", "updates", "parameters", "finished"), {}),
            "label": "small@text",
            "corpus": {"source": "de", "target": "en", "digest": "d"},
            "settings": {"corpus": "ldc.en-zh"},
            "commands": {
                "train": ["fairseq-train", "bin", "--arch", name],
                "score": [
                    *("fairseq-hybrid", "score", "--subwords", "subword-nmt"),
                    *("--tokenizer", "moses", "--lowercase"),
                ],
            },
        }
        (folder / "result.json").write_text(json.dumps(result))
        folders.append(folder)
    return folders


def test_runs_know_what_flags_say(in_data, runs):
    flags = ["--sentences", "2", "--maps", "2"]
    command("report", "--run", *runs, "--cpu", *flags, "--output", "o.html", "--json", "o.json")
    ours = json.loads((in_data / "o.json").read_text())
    shutil.copy("lstm.pt", "mma.lstm.pt")
    words = runs[0].parents[6] / "corpora/small@text/ldc.en-zh/tokenised/test.de"
    command(
        *("report", "bin", "--path", "lstm.pt", "mma.lstm.pt", "--names", "gate1", "mma"),
        *(*TEXT, *SCORED, *HYPOTHESES, "--lowercase", *LOGS, "--source-words", words, *flags),
        *("--output", "p.html", "--json", "p.json"),
    )
    theirs = json.loads((in_data / "p.json").read_text())
    names = ["gate1/bleu/seed1", "mma/bleu/seed1"]
    assert [model["name"] for model in ours["models"]] == names
    renamed = json.loads(
        json.dumps(ours).replace('"gate1/bleu/seed1"', '"gate1"').replace(f'"{names[1]}"', '"mma"')
    )
    for key in ("scores", "lengths", "curves"):
        assert renamed[key] == theirs[key]
    command("score", "--hypotheses", "mma.en", *SCORED, "--lowercase", "--json", "score.json")
    expected = json.loads((in_data / "score.json").read_text())["scores"]["bleu"]["value"]
    assert ours["scores"][0]["systems"]["mma/bleu/seed1"]["value"] == expected
    assert "case:lc" in ours["scores"][0]["signature"]
    assert [group["sentences"] for group in ours["lengths"]["groups"]] == [2, 1, 1, 0, 0, 0]
    for one, other in zip(renamed["models"], theirs["models"], strict=True):
        for key in ("heads", "layers", "gates", "sha256", "parameters"):
            assert one[key] == other[key]
    assert ours["models"][1]["training"] == ["fairseq-train", "bin", "--arch", "mma"]
    assert "fairseq-train bin --arch mma" in (in_data / "o.html").read_text()


def test_mistakes_about_runs(in_data, runs, tmp_path):
    def refused(problem, *flags):
        with pytest.raises(UserError, match=problem):
            command("report", *flags, "--cpu", "--output", "no.html")
        assert not (in_data / "no.html").exists()

    refused("--run knows that; leave out --gen-subset", "--run", runs[0], "--gen-subset", "test")
    refused("--run knows that; leave out DATA", "bin", "--run", runs[0])
    refused("there is no result.json", "--run", tmp_path)
    refused("gives 1 names for 2 runs", "--run", *runs, "--names", "a")
    refused("two models are called", "--run", runs[0], runs[0])
    shutil.copytree(runs[0], tmp_path / "elsewhere")
    refused("is not where `reproduce` makes runs", "--run", tmp_path / "elsewhere")
    manifest = runs[0].parents[6] / "corpora/small@text/ldc.en-zh/manifest.json"
    manifest.write_text('{"digest": "other"}')
    refused("is another than the run was made of", "--run", runs[0])
    manifest.unlink()
    refused("its corpus is not in", "--run", runs[0])
    (runs[0] / "model.pt").unlink()
    refused("has no model.pt", "--run", runs[0])


# --- mistakes ---------------------------------------------------------------------------------

MMA = ["bin", "--path", "mma.pt"]
ONE = ["--hypotheses", "mma=mma.en"]


@pytest.mark.parametrize(
    "flags, problem",
    [
        ([], "give DATA and --path; or --run FOLDER alone"),
        ([*MODELS, *SCORED, *HYPOTHESES[:2]], "no translations of mma"),
        ([*MMA, *SCORED, "--hypotheses", "nobody=mma.en"], "they are called mma"),
        ([*MMA, *SCORED, *ONE, *ONE], "two systems are called mma"),
        ([*MMA, *ONE], "give --reference and --target-lang as well"),
        ([*MMA, *ONE, "--reference", "ref.en"], "give --target-lang as well"),
        ([*MMA, *SCORED], "--reference is for translations"),
        ([*MMA, "--lowercase"], "--lowercase is for translations"),
        ([*MMA, "--bounds", "5"], "--bounds is for translations"),
        ([*MMA, *SCORED, *ONE, "--tokenizer", "moses"], "goes with --generated"),
        ([*MMA, *SCORED, "--generated", "mma=mma.en"], "needs --tokenizer"),
        ([*MMA, *SCORED, "--hypotheses", "mma=none.en"], "cannot be read"),
        ([*MMA, *SCORED, *ONE, "--source-words", "text.tags.2"], "cannot be read"),
        ([*MMA, "--log", "x=mma.log"], "--log x=…: there is no such model"),
        ([*MMA, "--log", "mma=text.de"], "no records of a training"),
        ([*MMA, "--log", "mma=mma.log", "--log", "mma=mma.log"], "twice"),
        ([*MMA, "--json", "no.html"], "--output writes there too"),
        ([*MMA, "--json", "mma.pt"], "one of the inputs"),
        ([*MMA, "--tags", "text.tags", "--tagger", "de"], "one of --tags"),
        ([*MMA, "--maps", "3"], "1 sentences are empty"),
        ([*MMA, "--sentences", "3"], "none of the sentences can be looked at"),
        (["bin", "--path", "none.pt"], "no such file"),
        (["bin", "--path", "text.de"], "cannot be loaded"),
    ],
)
def test_mistakes(in_data, flags, problem):
    with pytest.raises(UserError, match=problem):
        command("report", *flags, *TEXT, "--output", "no.html")
    assert not (in_data / "no.html").exists()


def test_translations_of_another_set(in_data):
    write(in_data / "short.ref", REFERENCE[:3])
    write(in_data / "short.en", REFERENCE[:3])
    flags = ["--reference", "short.ref", "--target-lang", "en", "--hypotheses", "mma=short.en"]
    with pytest.raises(UserError, match=r"has 3 lines, but the sentences of the models are 4"):
        command("report", *MMA, *TEXT, *flags, "--output", "no.html")
    with pytest.raises(UserError, match=r"text.de has 4 lines, but the reference short.ref has 3"):
        flags += ["--source-words", "text.de"]
        command("report", *MMA, *TEXT, *flags, "--output", "no.html")


@pytest.mark.parametrize("name, flags", [("report", ["--output"]), ("maps", ["--page"])])
def test_all_models_show_the_same_sentences(in_data, monkeypatch, name, flags):
    """The first model's; also where a later one takes but shorter ones."""
    from analysed import MODELS as known

    arch, settings = known["mma"]
    monkeypatch.setitem(known, "tight", (arch, [*settings, "--max-source-positions", "3"]))
    save(in_data, "tight")
    if name == "report":
        flags = ["--too-long", "skip", *flags]
    with pytest.raises(UserError, match=r"--path tight.pt: 2 sentences are longer .* by --"):
        command(name, "bin", "--path", "mma.pt", "tight.pt", *TEXT, *flags, "no.html")
    assert not (in_data / "no.html").exists()


# --- models that are compared, groups of lengths, probing, parts of speech ----------------------


def written(folder, *flags, models=("bin", "--path", "mma.pt")):
    """The JSON and the page of a report."""
    command("report", *models, *TEXT, *flags, "--output", "w.html", "--json", "w.json")
    return json.loads((folder / "w.json").read_text()), Page((folder / "w.html").read_text())


def test_compare_names_further_models(in_data, whole):
    models = ["bin", "--path", "gate1.pt", "--compare", "mma.pt"]
    found, page = written(in_data, *SCORED, *HYPOTHESES, models=models)
    assert found["scores"] == whole[0]["scores"]
    assert page.tables["Scores"][0] == whole[1].tables["Scores"][0]
    assert found["scores"][0]["systems"]["mma"]["p_value"] is not None
    with pytest.raises(UserError, match="--compare with what"):
        command("report", "bin", "--compare", "mma.pt", *TEXT, "--output", "no.html")


def test_compare_names_further_runs(in_data, runs):
    flags = ["--cpu", "--sentences", "2", "--maps", "2", "--output", "w.html", "--json", "w.json"]
    command("report", "--run", runs[0], "--compare", runs[1], *flags)
    found = json.loads((in_data / "w.json").read_text())
    assert [model["name"] for model in found["models"]] == ["gate1/bleu/seed1", "mma/bleu/seed1"]


def test_groups_of_lengths_are_those_of_the_command(in_data):
    flags = [*SCORED, *ONE, "--bounds", "1,2"]
    found, page = written(in_data, *flags)
    command(
        *("lengths", "--source", "text.de", "--source-subwords", "subword-nmt", *flags),
        *("--json", "lengths.json"),
    )
    lengths = json.loads((in_data / "lengths.json").read_text())
    assert found["lengths"]["groups"] == lengths["groups"]
    rows = page.tables["BLEU by source length"][0]
    assert [row[0] for row in rows[1:]] == ["(0,1]", "(1,2]", "(2,∞)", "all"]


def test_source_without_words_is_warned_of(in_data, capsys):
    write(in_data / "source.words", ["我喜欢这本书" * 5] * 4)
    written(in_data, *SCORED, *ONE, "--source-words", "source.words")
    assert "are there spaces between words? --source-words" in capsys.readouterr().err
    write(in_data / "source.words", ["Da@@ s Haus"] * 4)
    written(in_data, *SCORED, *ONE, "--source-words", "source.words")
    assert "source.words looks like subword-nmt" in capsys.readouterr().err
    written(in_data, *SCORED, *ONE)
    assert "warning" not in capsys.readouterr().err


PROBE = "--tasks BShift --no-subwords --tokens as-trained --workers 1 --cpu".split()
PROBE += "--hidden 2 --dropout 0 --task-files tasks".split()


@pytest.fixture
def probed(in_data):
    """``NAME.probing.json`` of two models that were probed with different settings."""
    (in_data / "tasks").mkdir(exist_ok=True)
    sentences = [("O", "Da@@ s Haus"), ("I", "Haus Da@@ s"), ("O", "ja Haus"), ("I", "Haus ja")]
    write(
        in_data / "tasks/bigram_shift.txt",
        [f"{part}\t{label}\t{text}" for part in ("tr", "va", "te") for label, text in sentences],
    )
    for name, flags in (("gate1", ["--seeds", 2]), ("mma", ["--seeds", 1, "--end-symbol", "out"])):
        command("probe", "bin", "--path", f"{name}.pt", *PROBE, *flags, "--json", f"{name}.probing")
    return in_data


def test_probing_is_that_of_the_command(probed):
    flags = ["--probing", "mma=mma.probing", "--probing", "gate1=gate1.probing"]
    found, page = written(probed, *flags, "--sentences", "2", "--maps", "2", models=MODELS)
    theirs = {name: json.loads((probed / f"{name}.probing").read_text()) for name in SYSTEMS}
    assert found["probing"] == theirs and list(found["probing"]) == ["gate1", "mma"]
    gate1, mma = (one["tasks"]["BShift"] for one in theirs.values())
    assert page.tables["Probing"][0] == [
        ["task", "group", "gate1", "mma", "most common class"],
        [
            *("BShift", "syntactic", f"{gate1['accuracy']:.2f} ± {gate1['deviation']:.2f}"),
            *(f"{mma['accuracy']:.2f}", "50.00"),
        ],
    ]
    assert "mma: layer last, end symbol out, seeds 1; hidden" in page.texts["Probing"]
    assert "were probed with different settings" in page.texts["Probing"]
    assert "different files" not in page.texts["Probing"]


def test_probing_of_different_files_is_told(probed):
    other = json.loads((probed / "mma.probing").read_text())
    other["tasks"]["BShift"]["sha256"] = "0"
    (probed / "other.probing").write_text(json.dumps(other))
    flags = ["--probing", "mma=other.probing", "--probing", "gate1=gate1.probing"]
    _, page = written(probed, *flags, "--sentences", "2", "--maps", "2", models=MODELS)
    assert "BShift: the models had different files" in page.texts["Probing"]


@pytest.mark.parametrize(
    "flags, problem",
    [
        (["mma=gate1.probing"], r"is of gate1.pt, which is or was another checkpoint than mma.pt"),
        (["mma=text.de"], "was not written by `probe --json`"),
        (["mma=text.json"], "was not written by `probe --json`"),
        (["mma=none.json"], "cannot be read"),
        (["x=mma.probing"], "there is no such model"),
        (["mma=mma.probing", "--probing", "mma=mma.probing"], "twice"),
    ],
)
def test_mistakes_about_probing(probed, flags, problem):
    (probed / "text.json").write_text('{"tasks": {"BShift": {"accuracy": 1}}}')
    with pytest.raises(UserError, match=problem):
        command("report", *MMA, *TEXT, "--probing", *flags, "--output", "no.html")
    assert not (probed / "no.html").exists()


def test_tags_must_fit_also_where_no_model_has_gates(in_data):
    write(in_data / "short.tags", TAGS[:3])
    with pytest.raises(UserError, match="has 3 lines, but there are 4 sentences"):
        command("report", *MMA, *TEXT, "--tags", "short.tags", "--output", "no.html")
    _, page = written(in_data, "--tags", "text.tags")
    assert "So parts of speech were not used (text.tags)" in page.texts["Gates"]


def test_a_decoder_that_returns_no_attention(in_data, monkeypatch):
    from analysed import MODELS as known

    arch, settings = known["lstm"]
    monkeypatch.setitem(known, "blind", (arch, [*settings, "--decoder-attention", "0"]))
    save(in_data, "blind")
    for name, output in (("heads", "--json"), ("heads", "--figure"), ("maps", "--page")):
        with pytest.raises(UserError, match="LSTMDecoder has no attention modules, and returns no"):
            command(name, "bin", "--path", "blind.pt", *TEXT, output, "no.pdf")
    assert not (in_data / "no.pdf").exists()
    _, page = written(in_data, models=["bin", "--path", "mma.pt", "blind.pt"])
    assert "blind has no attention that can be looked at" in page.texts["Heads and branches"]
