"""The report: its numbers are those of the single commands; its page, and users' mistakes."""

import hashlib
import json
import shutil
from html.parser import HTMLParser

import analysed
import pytest
import torch
from models import build_tiny
from page_in_browser import Shown, chromium  # noqa: F401  (the fixture ``browser``)

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.command_line import main
from fairseq_hybrid_attn.lab.files.tabular import Grid
from fairseq_hybrid_attn.lab.inference.attentions import DECODER, ENCODER, Attentions
from fairseq_hybrid_attn.lab.maps.page import plotly_script
from fairseq_hybrid_attn.lab.report.models import patterns_of
from fairseq_hybrid_attn.lab.report.page import Code, PageTable, Paragraph, Part, report

REFERENCE = ["the house is there", "yes it is", "so it is said", "I like cats and dogs"]
SYSTEMS = {
    "gate1": ["a house is there", "yes it is", "so", "I like the cats and dogs"],
    "mma": ["The house was there", "yes", "so it is said", "cats and dogs"],
}
TAGS = ["DET NOUN", "PRT", "", "NOUN ADJ VERB"]
BIGRAMS = [("O", "Da@@ s Haus"), ("I", "Haus Da@@ s"), ("O", "ja Haus"), ("I", "Haus ja")]
#: Elements that have no end.
VOID = {"meta", "input", "img", "br"}

MODELS = ["bin", "--path", "gate1.pt", "mma.pt"]
TEXT = "--source text.de --target text.en --subwords subword-nmt --cpu".split()
SCORED = ["--reference", "ref.en", "--target-lang", "en"]
HYPOTHESES = [word for name in SYSTEMS for word in ("--hypotheses", f"{name}={name}.en")]
LOGS = "--log gate1=gate1.log --log mma=mma.log".split()
#: In another order than the models.
PROBING = "--probing mma=mma.probing --probing gate1=gate1.probing".split()
PROBE = "--tasks BShift --no-subwords --tokens as-trained --workers 1 --cpu".split()
PROBE += "--hidden 2 --dropout 0 --task-files tasks".split()
#: Of the sentences and maps, only one: for speed.
SECOND = ["--sentences", "2", "--maps", "2"]


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read(path):
    return json.loads(path.read_text())


def log(losses):
    """What fairseq-train prints with --log-format json."""
    for number, loss in enumerate(losses, start=1):
        record = json.dumps({"loss": str(loss), "num_updates": str(10 * number)})
        yield f"2026-01-01 00:00:00 | INFO | train_inner | {record}"


def command(*words):
    main([str(word) for word in words])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Models, their translations, logs, tags and, not probed alike, results of probing."""
    folder = analysed.make_data(tmp_path_factory.mktemp("report"), ["gate1", "mma", "lstm"])
    write(folder / "ref.en", REFERENCE)
    write(folder / "text.tags", TAGS)
    for name, lines in SYSTEMS.items():
        write(folder / f"{name}.en", lines)
    write(folder / "gate1.log", log([3.5, 2.25, 2.5]))
    write(folder / "mma.log", log([4, 3]))
    (folder / "tasks").mkdir()
    write(
        folder / "tasks/bigram_shift.txt",
        [f"{part}\t{label}\t{text}" for part in ("tr", "va", "te") for label, text in BIGRAMS],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, flags in {"gate1": "--seeds 2", "mma": "--seeds 1 --end-symbol out"}.items():
            words = [*PROBE, *flags.split(), "--json", f"{name}.probing"]
            command("probe", "bin", "--path", f"{name}.pt", *words)
    return folder


@pytest.fixture
def in_data(data, monkeypatch):
    monkeypatch.chdir(data)
    return data


@pytest.fixture(scope="module")
def whole(data):
    """A report with all parts: its JSON and its page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(data)
        command(
            *("report", *MODELS[:3], "--compare", "mma.pt", *TEXT, *SCORED, *HYPOTHESES, *LOGS),
            *("--tags", "text.tags", *PROBING, "--output", "whole.html", "--json", "whole.json"),
        )
    return read(data / "whole.json"), Page((data / "whole.html").read_text())


class Page(HTMLParser):
    """A page taken apart; fails if it is not well-formed.

    Attributes:
        tables: rows of texts, by the heading of the part; a part may have several.
        texts: all text of a part except that of its scripts, by its heading.
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


def test_parts_are_what_the_commands_print_and_write(in_data, whole, capsys):
    found, page = whole
    lengths = ["lengths", "--source", "text.de", "--source-subwords", "subword-nmt", *SCORED]
    theirs = {}
    for part, words in {
        "Heads and branches": ["heads", *MODELS, *TEXT],
        "Gates": ["gates", *MODELS[:3], *TEXT, "--tags", "text.tags"],
        "BLEU by source length": [*lengths, *HYPOTHESES],
        "Learning curves": ["curves", "gate1=gate1.log", "mma=mma.log"],
    }.items():
        capsys.readouterr()
        command(*words, "--json", "part.json")
        theirs[words[0]] = read(in_data / "part.json")
        printed = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
        shown = [" ".join(" ".join(row).split()) for table in page.tables[part] for row in table]
        assert len(shown) > 2 and set(shown) <= printed, part
    for ours, heads in zip(found["models"], theirs["heads"]["models"], strict=True):
        assert {key: ours[key] for key in heads} == heads
        assert ours["sentences"] == 3  # one is empty
    assert found["curves"] == theirs["curves"]["curves"]
    lengths = theirs["lengths"]
    del lengths["source"], lengths["reference"]
    assert found["lengths"] == lengths
    bleu = found["scores"][0]["systems"]
    assert bleu == lengths["whole"]["scores"]
    (gates,) = theirs["gates"]["models"]
    assert found["models"][0]["gates"] == {**gates, "bleu": bleu["gate1"]["value"]}
    assert found["models"][1]["gates"] is None and "mma: no gates" in page.texts["Gates"]
    assert found["tags"] == theirs["gates"]["tags"]
    assert f"All layers: {gates['share']:.3f}, window 3." in page.texts["Gates"]


def test_scores_are_those_of_the_command(in_data, whole):
    found, page = whole
    assert [score["name"] for score in found["scores"]] == ["bleu", "tokenised_bleu"]
    for name in SYSTEMS:
        command("score", "--hypotheses", f"{name}.en", *SCORED, "--json", "score.json")
        theirs = read(in_data / "score.json")["scores"]
        for score in found["scores"]:
            assert score["systems"][name]["value"] == theirs[score["name"]]["value"]
            assert score["signature"] == theirs[score["name"]]["signature"]
            assert score["signature"] in page.texts["Scores"]
    # As in the table of lengths, where tests see it printed.
    *_, all_lengths = page.tables["BLEU by source length"][0]
    assert page.tables["Scores"][0][1] == ["BLEU", *all_lengths[1:]]
    assert found["scores"][0]["systems"]["mma"]["p_value"] is not None


def test_maps_are_those_of_the_command(in_data, whole):
    command("maps", *MODELS, *TEXT, "--page", "maps.html")
    assert maps_data(in_data / "whole.html") == maps_data(in_data / "maps.html")


def maps_data(path):
    text = path.read_text()
    start = text.index('class="maps-data">') + len('class="maps-data">')
    return json.loads(text[start : text.index("</script>", start)])


def test_probing_is_that_of_the_command(data, whole):
    found, page = whole
    theirs = {name: read(data / f"{name}.probing") for name in SYSTEMS}
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


def test_what_the_models_are(data, whole):
    found, page = whole
    rows = {row[0]: row[1:] for row in page.tables["Models"][0]}
    for number, model in enumerate(found["models"]):
        path = data / f"{model['name']}.pt"
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


# --- the page ---------------------------------------------------------------------------------


def test_the_page_names_nothing_outside_itself(data, whole):
    _, page = whole
    images = [link for link in page.links if link.startswith("data:image/svg+xml;base64,")]
    others = [link for link in page.links if link not in images]
    assert others == [f"#part{number}" for number in range(1, 9)]
    assert len(images) == 2 * (1 + 2 + 1 + 1 + 1)
    rest = (data / "whole.html").read_text().replace(plotly_script(), "")
    assert "http://" not in rest and "https://" not in rest


def test_the_page_in_a_browser(data, whole, browser):
    shown = Shown(browser, data / "whole.html", "dark")
    for theme in ("dark", "light", "dark"):
        visible = [one for one in shown.page.locator("figure img").all() if one.is_visible()]
        assert len(visible) == 6
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
    words = [*TEXT, "--tags", "text.tags", "--output", "o.html"]
    command("report", "bin", "--path", "lstm.pt", "--names", name, *words)
    page = Page((in_data / "o.html").read_text())
    assert not {"b", "i"} & page.elements
    assert page.tables["Models"][0][:2] == [["", name], ["architecture", "LSTMModel"]]
    for part in ("Scores", "BLEU by source length"):
        assert "No translations were given" in page.texts[part]
    assert "No logs were given" in page.texts["Learning curves"]
    assert "No results of probing were given" in page.texts["Probing"]
    assert f"{name}: no gates" in page.texts["Gates"]
    assert "So parts of speech were not used (text.tags)" in page.texts["Gates"]
    reason = f"{name} has no encoder attention: LSTMEncoder has no self-attention modules."
    assert reason in page.texts["Attention maps"] and reason in page.texts["Heads and branches"]
    assert page.tables["Heads and branches"][0][1][:2] == ["cross", "1"]


def test_texts_of_all_kinds_are_escaped():
    nasty = "<u>x</u>"
    table = PageTable(Grid([nasty], [[nasty]]), nasty)
    page = Page(report(nasty, [Part(nasty, [Paragraph(nasty), Code(nasty, nasty), table])]))
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
    # Other words than in the text of subwords: it shows which are counted.
    write(corpus / "tokenised/test.de", ["wort " * 12, "wort", "wort", "wort " * 25])
    (corpus / "manifest.json").write_text('{"digest": "d"}')
    folders = []
    for name in ("gate1", "mma"):
        folder = tmp_path / f"runs/small@text/hysan/table1/{name}/bleu/seed1"
        (folder / "logs").mkdir(parents=True)
        shutil.copy("lstm.pt", folder / "model.pt")
        shutil.copy(f"{name}.en", folder / "hypotheses.txt")
        shutil.copy(f"{name}.log", folder / "logs/train.log")
        score = "fairseq-hybrid score --subwords subword-nmt --tokenizer moses --lowercase".split()
        result = {
            **dict.fromkeys(("scores", "identity", "updates", "parameters", "finished"), {}),
            "label": "small@text",
            "corpus": {"source": "de", "target": "en", "digest": "d"},
            "settings": {"corpus": "ldc.en-zh"},
            "commands": {"train": ["fairseq-train", "bin", "--arch", name], "score": score},
        }
        (folder / "result.json").write_text(json.dumps(result))
        folders.append(folder)
    return folders


def test_runs_know_what_flags_say(in_data, runs):
    outputs = ["--output", "o.html", "--json", "o.json"]
    command("report", "--run", runs[0], "--compare", runs[1], "--cpu", *SECOND, *outputs)
    ours = read(in_data / "o.json")
    shutil.copy("lstm.pt", "mma.lstm.pt")
    names = ["gate1/bleu/seed1", "mma/bleu/seed1"]
    named = [
        f"{flag} {name}={path}"
        for name, short in zip(names, SYSTEMS, strict=True)
        for flag, path in (("--hypotheses", f"{short}.en"), ("--log", f"{short}.log"))
    ]
    words = runs[0].parents[6] / "corpora/small@text/ldc.en-zh/tokenised/test.de"
    command(
        *("report", "bin", "--path", "lstm.pt", "mma.lstm.pt", "--names", *names, *TEXT, *SCORED),
        *(" ".join(named).split()),
        *("--lowercase", "--source-words", words, *SECOND, "--output", "p.html"),
        *("--json", "p.json"),
    )
    theirs = read(in_data / "p.json")
    for key in ("scores", "lengths", "curves"):
        assert ours[key] == theirs[key]
    for one, other in zip(ours["models"], theirs["models"], strict=True):
        for key in ("name", "heads", "layers", "gates", "sha256", "parameters"):
            assert one[key] == other[key]
    command("score", "--hypotheses", "mma.en", *SCORED, "--lowercase", "--json", "score.json")
    expected = read(in_data / "score.json")["scores"]["bleu"]["value"]
    assert ours["scores"][0]["systems"]["mma/bleu/seed1"]["value"] == expected
    assert "case:lc" in ours["scores"][0]["signature"]
    assert [group["sentences"] for group in ours["lengths"]["groups"]] == [2, 1, 1, 0, 0, 0]
    assert ours["models"][1]["training"] == ["fairseq-train", "bin", "--arch", "mma"]
    assert "fairseq-train bin --arch mma" in (in_data / "o.html").read_text()


# --- mistakes ---------------------------------------------------------------------------------

MMA = ["bin", "--path", "mma.pt", *TEXT]
ONE = ["--hypotheses", "mma=mma.en"]
NO_SPACES = "--source-words source.words --sentences 3".split()


def refused(problem, *words, name="report", flags=("--output",)):
    with pytest.raises(UserError, match=problem):
        command(name, *words, *flags, "no.html")


def test_mistakes_about_runs(in_data, runs, tmp_path):
    def bad(problem, *flags):
        refused(problem, *flags, "--cpu")

    bad("--run knows that; leave out --gen-subset", "--run", runs[0], "--gen-subset", "test")
    bad("--run knows that; leave out DATA", "bin", "--run", runs[0])
    bad("there is no result.json", "--run", tmp_path)
    bad("gives 1 names for 2 runs", "--run", *runs, "--names", "a")
    bad("two models are called", "--run", runs[0], runs[0])
    shutil.copytree(runs[0], tmp_path / "elsewhere")
    bad("is not where `reproduce` makes runs", "--run", tmp_path / "elsewhere")
    manifest = runs[0].parents[6] / "corpora/small@text/ldc.en-zh/manifest.json"
    manifest.write_text('{"digest": "other"}')
    bad("the run was not made of the corpus in", "--run", runs[0])
    manifest.unlink()
    bad("its corpus is not in", "--run", runs[0])
    (runs[0] / "model.pt").unlink()
    bad("has no model.pt", "--run", runs[0])
    assert not (in_data / "no.html").exists()


def test_mistakes(in_data):
    write(in_data / "short.en", REFERENCE[:3])
    short = "--reference short.en --target-lang en --hypotheses mma=short.en".split()
    (in_data / "text.json").write_text('{"tasks": {"BShift": {"accuracy": 1}}}')
    for problem, words in {
        "give DATA and --path; or --run FOLDER alone": TEXT,
        "--compare with what": ["bin", "--compare", "mma.pt", *TEXT],
        "no translations of mma": [*MODELS, *TEXT, *SCORED, *HYPOTHESES[:2]],
        "no such model; they are called mma": [*MMA, *SCORED, "--hypotheses", "nobody=mma.en"],
        "give --reference and --target-lang as well": [*MMA, *ONE],
        "scored: give --target-lang as well": [*MMA, *ONE, "--reference", "ref.en"],
        "--reference is for translations": [*MMA, *SCORED],
        "--lowercase is for translations": [*MMA, "--lowercase"],
        "--bounds is for translations": [*MMA, "--bounds", "5"],
        "goes with --generated": [*MMA, *SCORED, *ONE, "--tokenizer", "moses"],
        "needs --tokenizer": [*MMA, *SCORED, "--generated", "mma=mma.en"],
        "none.en cannot be read": [*MMA, *SCORED, "--hypotheses", "mma=none.en"],
        "none.words cannot be read": [*MMA, *SCORED, *ONE, "--source-words", "none.words"],
        "--log x=…: there is no such model": [*MMA, "--log", "x=mma.log"],
        "loss .training. twice": [*MMA, *"--log mma=mma.log --log mma=mma.log".split()],
        "--output writes there too": [*MMA, "--json", "no.html"],
        "one of the inputs": [*MMA, "--json", "mma.pt"],
        "one of --tags": [*MMA, "--tags", "text.tags", "--tagger", "de"],
        "none of the sentences can be looked at": [*MMA, "--sentences", "3"],
        "has 3 lines, but the sentences of the models are 4": [*MMA, *short],
        "text.de has 4 lines, but the reference short.en has 3": [
            *(*MMA, *short, "--source-words", "text.de")
        ],
        "is of gate1.pt, which is or was another checkpoint than mma.pt": [
            *(*MMA, "--probing", "mma=gate1.probing")
        ],
        "text.de was not written by `probe": [*MMA, "--probing", "mma=text.de"],
        "text.json was not written by `probe": [*MMA, "--probing", "mma=text.json"],
        "none.json cannot be read": [*MMA, "--probing", "mma=none.json"],
        "--probing x=…: there is no such model": [*MMA, "--probing", "x=mma.probing"],
        "--probing mma=… twice": [*MMA, *PROBING[:2], *PROBING[:2]],
    }.items():
        refused(problem, *words)
    assert not (in_data / "no.html").exists()


def test_bounds_and_words_of_the_source(in_data, capsys):
    """Groups are those of the command; a file without words is warned of."""
    flags = [*SCORED, *ONE, "--bounds", "1,2", "--sentences", "4", "--maps", "1,2"]
    command("report", *MMA, *flags, "--output", "w.html", "--json", "w.json")
    assert "warning" not in capsys.readouterr().err
    of_text = ["--source", "text.de", "--source-subwords", "subword-nmt"]
    command("lengths", *of_text, *flags[:-4], "--json", "lengths.json")
    command("heads", *MMA, "--sentences", "4", "--json", "heads.json")
    found, heads = read(in_data / "w.json"), read(in_data / "heads.json")["models"][0]["heads"]
    assert found["lengths"]["groups"] == read(in_data / "lengths.json")["groups"]
    assert [group["label"] for group in found["lengths"]["groups"]] == ["(0,1]", "(1,2]", "(2,∞)"]
    assert (found["models"][0]["heads"], found["models"][0]["sentences"]) == (heads, 1)
    assert [one["number"] for one in maps_data(in_data / "w.html")["sentences"]] == [1, 2]
    write(in_data / "source.words", ["我喜欢这本书" * 5 + "@@ x"] * 4)
    refused("none of the sent", *MMA, *SCORED, *ONE, *NO_SPACES)
    warned = capsys.readouterr().err
    assert "are there spaces between words? --source-words" in warned
    assert "source.words looks like subword-nmt" in warned


def test_all_models_show_the_same_sentences(in_data, monkeypatch):
    """Those of the first model; a later one that does not take them is refused."""
    arch, settings = analysed.MODELS["mma"]
    tight = arch, [*settings, "--max-source-positions", "3"]
    monkeypatch.setitem(analysed.MODELS, "tight", tight)
    analysed.save(in_data, "tight")
    words = ["bin", "--path", "mma.pt", "tight.pt", *TEXT]
    problem = r"--path tight.pt: 2 sentences are longer .* by --"
    refused(problem, *words, "--too-long", "skip")
    refused(problem, *words, name="maps", flags=["--page"])
    assert not (in_data / "no.html").exists()


def test_a_decoder_that_returns_no_attention(in_data, monkeypatch):
    arch, settings = analysed.MODELS["lstm"]
    blind = arch, [*settings, "--decoder-attention", "0"]
    monkeypatch.setitem(analysed.MODELS, "blind", blind)
    analysed.save(in_data, "blind")
    for name, flag in (("heads", "--json"), ("maps", "--page")):
        problem = "LSTMDecoder has no attention modules, and returns no"
        refused(problem, "bin", "--path", "blind.pt", *TEXT, name=name, flags=[flag])
    assert not (in_data / "no.html").exists()
    command("report", "bin", "--path", "mma.pt", "blind.pt", *TEXT, "--output", "w.html")
    text = Page((in_data / "w.html").read_text()).texts["Heads and branches"]
    assert "blind has no attention that can be looked at" in text
