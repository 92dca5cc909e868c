"""The report: its numbers are those of the single commands; its page, and users' mistakes."""

import hashlib
import json
import shutil

import analysed
import lxml.html
import pytest
import torch
from models import build_tiny
from page_in_browser import Shown, chromium  # noqa: F401  (the fixture ``browser``)
from refusals import check_command_refusals, check_refusals

from fairseq_hybrid_attn.lab.command_line import main
from fairseq_hybrid_attn.lab.files.tabular import Grid
from fairseq_hybrid_attn.lab.inference.attentions import DECODER, ENCODER, Attentions
from fairseq_hybrid_attn.lab.maps.page import plotly_script
from fairseq_hybrid_attn.lab.report.models import patterns_of
from fairseq_hybrid_attn.lab.report.page import Code, PageTable, Part, report

REFERENCE = ["the house is there", "yes it is", "so it is said", "I like cats and dogs"]
SYSTEMS = {
    "gate1": ["a house is there", "yes it is", "so", "I like the cats and dogs"],
    "mma": ["The house was there", "yes", "so it is said", "cats and dogs"],
}
BIGRAMS = [("O", "Da@@ s Haus"), ("I", "Haus Da@@ s"), ("O", "ja Haus"), ("I", "Haus ja")]

TEXT = "--source text.de --target text.en --subwords subword-nmt --cpu"
BOTH = f"bin --path gate1.pt mma.pt {TEXT}"
GATED, MMA = (f"bin --path {name}.pt {TEXT}" for name in ("gate1", "mma"))
SCORED = "--reference ref.en --target-lang en"
HYPOTHESES, LOGS, PROBING = (
    " ".join(f"--{flag} {name}={name}.{suffix}" for name in SYSTEMS)
    for flag, suffix in (("hypotheses", "en"), ("log", "log"), ("probing", "probing"))
)
ONE = "--hypotheses mma=mma.en"
PROBE = "--tasks BShift --no-subwords --tokens as-trained --workers 1 --cpu --hidden 2 --dropout 0"


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read(path):
    return json.loads(path.read_text())


def log(losses):
    """What fairseq-train prints with --log-format json."""
    for number, loss in enumerate(losses, start=1):
        record = json.dumps({"loss": str(loss), "num_updates": str(10 * number)})
        yield f"2026-01-01 00:00:00 | INFO | train_inner | {record}"


def command(words, *more):
    main([*words.split(), *map(str, more)])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Models, their translations, logs, tags and results of probing (with different settings)."""
    folder = analysed.make_data(tmp_path_factory.mktemp("report"), ["gate1", "mma", "lstm"])
    write(folder / "ref.en", REFERENCE)
    write(folder / "text.tags", ["DET NOUN", "PRT", "", "NOUN ADJ VERB"])
    for name, lines in SYSTEMS.items():
        write(folder / f"{name}.en", lines)
    write(folder / "gate1.log", log([3.5, 2.25, 2.5]))
    write(folder / "mma.log", log([4, 3]))
    (folder / "tasks").mkdir()
    tasks = [f"{part}\t{label}\t{text}" for part in ("tr", "va", "te") for label, text in BIGRAMS]
    write(folder / "tasks/bigram_shift.txt", tasks)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, flags in {"gate1": "--seeds 2", "mma": "--seeds 1 --end-symbol out"}.items():
            command(
                f"probe bin --path {name}.pt {PROBE} {flags} --task-files tasks "
                f"--json {name}.probing"
            )
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
            f"report bin --path gate1.pt --compare mma.pt {TEXT} {SCORED} {HYPOTHESES} {LOGS} "
            f"--tags text.tags --probing mma=mma.probing --probing gate1=gate1.probing "
            "--output whole.html --json whole.json"
        )
    return read(data / "whole.json"), Page(data / "whole.html")


class Page:
    """A page's ``tree``; the ``texts`` and ``tables`` of its parts, by their headings."""

    def __init__(self, path):
        parser = lxml.html.HTMLParser(encoding="utf-8", huge_tree=True)
        self.tree = lxml.html.parse(str(path), parser).getroot()
        faults = {error.type_name for error in parser.error_log}
        assert "ERR_TAG_NAME_MISMATCH" not in faults
        lxml.etree.strip_elements(self.tree, "script", "style", with_tail=False)
        parts = {part.findtext("h2"): part for part in self.tree.iter("section")}
        self.texts = {heading: part.text_content() for heading, part in parts.items()}
        self.tables = {
            heading: [
                [[cell.text_content() for cell in row] for row in table.iter("tr")]
                for table in part.iter("table")
            ]
            for heading, part in parts.items()
        }


def test_parts_are_what_the_commands_print_and_write(in_data, whole, capsys):
    found, page = whole
    theirs = {}
    for part, words in {
        "Heads and branches": f"heads {BOTH}",
        "Gates": f"gates {GATED} --tags text.tags",
        "BLEU by source length": (
            f"lengths --source text.de --source-subwords subword-nmt {SCORED} {HYPOTHESES}"
        ),
        "Learning curves": "curves gate1=gate1.log mma=mma.log",
    }.items():
        capsys.readouterr()
        command(f"{words} --json part.json")
        theirs[words.split()[0]] = read(in_data / "part.json")
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
    command(f"maps {BOTH} --page maps.html")
    assert maps_data(in_data / "whole.html") == maps_data(in_data / "maps.html")


def maps_data(path):
    return json.loads(path.read_text().partition('class="maps-data">')[2].partition("</script>")[0])


def test_scores_are_those_of_the_command(in_data, whole):
    found, page = whole
    assert [score["name"] for score in found["scores"]] == ["bleu", "tokenised_bleu"]
    for name in SYSTEMS:
        command(f"score --hypotheses {name}.en {SCORED} --json score.json")
        theirs = read(in_data / "score.json")["scores"]
        for score in found["scores"]:
            assert score["systems"][name]["value"] == theirs[score["name"]]["value"]
            assert score["signature"] == theirs[score["name"]]["signature"]
            assert score["signature"] in page.texts["Scores"]
    # As in the table of lengths, where tests see it printed.
    *_, all_lengths = page.tables["BLEU by source length"][0]
    assert page.tables["Scores"][0][1] == ["BLEU", *all_lengths[1:]]
    assert found["scores"][0]["systems"]["mma"]["p_value"] is not None


def test_probing_is_that_of_the_command(data, whole):
    found, page = whole
    theirs = {name: read(data / f"{name}.probing") for name in SYSTEMS}
    assert found["probing"] == theirs and list(found["probing"]) == ["gate1", "mma"]
    gate1, mma = (one["tasks"]["BShift"] for one in theirs.values())
    deviation = f"{gate1['accuracy']:.2f} ± {gate1['deviation']:.2f}"
    assert page.tables["Probing"][0] == [
        ["task", "group", "gate1", "mma", "most common class"],
        ["BShift", "syntactic", deviation, f"{mma['accuracy']:.2f}", "50.00"],
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
        assert model["parameters"] == count and rows["parameters"][number] == f"{count:,}"
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert model["sha256"] == rows["sha256"][number] == digest
    assert found["models"][1]["patterns"] == [
        "encoder 1-2: 1 × global, 1 × local, 1 × forward, 1 × backward",
        "decoder 1-2: past",
        "cross 1-2: global",
    ]
    assert found["command"][:3] == ["fairseq-hybrid", "report", "bin"]
    assert "fairseq-hybrid report bin --path gate1.pt" in page.texts["Models"]
    assert f"torch {torch.__version__}" in page.texts["Models"]
    layers = Attentions(build_tiny("gate-hidden")).layers[ENCODER]
    assert patterns_of(layers) == ["encoder 1-2: global | local (share gates)", "encoder 3: global"]
    layers = Attentions(build_tiny("hysan-gated")).layers[DECODER]
    assert patterns_of(layers) == ["decoder 1-2: fw | l5 (squeeze gates)"]


def test_the_page_names_nothing_outside_itself(data, whole):
    _, page = whole
    named = [
        element.get(name)
        for element in page.tree.iter()
        for name in ("src", "href", "action")
        if element.get(name)
    ]
    images = [link for link in named if link.startswith("data:image/svg+xml;base64,")]
    assert len(images) == 2 * (1 + 2 + 1 + 1 + 1)
    assert [link for link in named if link not in images] == [f"#part{n}" for n in range(1, 9)]
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
    """Names of models and of files, and sentences."""
    name = "<b>&\"'</b></script>"
    for file, line in {"<b>.de": name, "<b>.en": name, "<b>.tags": "X"}.items():
        write(in_data / file, [line, line])
    text = "--source <b>.de --target <b>.en --subwords none --tags <b>.tags --cpu"
    command(f"report bin --path lstm.pt {text} --output o.html --names", name)
    page = Page(in_data / "o.html")
    assert len(maps_data(in_data / "o.html")["sentences"]) == 2
    assert not list(page.tree.iter("b")) and name in page.tree.findtext(".//title")
    assert page.tables["Models"][0][:2] == [["", name], ["architecture", "LSTMModel"]]
    for part in ("Scores", "BLEU by source length"):
        assert "No translations were given" in page.texts[part]
    assert "No logs were given" in page.texts["Learning curves"]
    assert "No results of probing were given" in page.texts["Probing"]
    assert f"{name}: no gates" in page.texts["Gates"]
    assert "So parts of speech were not used (<b>.tags)" in page.texts["Gates"]
    reason = f"{name} has no encoder attention: LSTMEncoder has no self-attention modules."
    assert reason in page.texts["Attention maps"] and reason in page.texts["Heads and branches"]
    assert page.tables["Heads and branches"][0][1][:2] == ["cross", "1"]


def test_texts_of_all_kinds_are_escaped(tmp_path):
    nasty = "<u>x</u>"
    items = [nasty, Code(nasty, nasty), PageTable(Grid([nasty], [[nasty]]), nasty)]
    (tmp_path / "page").write_text(report(nasty, [Part(nasty, items)]))
    page = Page(tmp_path / "page")
    assert not list(page.tree.iter("u")) and page.tables[nasty] == [[[nasty], [nasty]]]


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
    # Not the words of the text in subwords, to show which are counted.
    write(corpus / "tokenised/test.de", ["wort " * 12, "wort", "wort", "wort " * 25])
    (corpus / "manifest.json").write_text('{"digest": "d"}')
    folders = []
    for name in SYSTEMS:
        folder = tmp_path / f"runs/small@text/hysan/table1/{name}/bleu/seed1"
        (folder / "logs").mkdir(parents=True)
        shutil.copy("lstm.pt", folder / "model.pt")
        shutil.copy(f"{name}.en", folder / "hypotheses.txt")
        shutil.copy(f"{name}.log", folder / "logs/train.log")
        score = "fairseq-hybrid score --subwords subword-nmt --tokenizer moses --lowercase".split()
        result = {
            **{"scores": {}, "identity": {}, "updates": 20, "parameters": 9, "finished": "now"},
            "label": "small@text",
            "corpus": {"source": "de", "target": "en", "digest": "d"},
            "settings": {"corpus": "ldc.en-zh"},
            "commands": {"train": ["fairseq-train", "bin", "--arch", name], "score": score},
        }
        (folder / "result.json").write_text(json.dumps(result))
        folders.append(folder)
    return folders


def test_runs_know_what_flags_say(in_data, runs):
    one_sentence = "--sentences 2 --maps 2"  # for speed
    command(
        f"report --cpu {one_sentence} --output o.html --json o.json --run",
        *(runs[0], "--compare", runs[1]),
    )
    shutil.copy("lstm.pt", "mma.lstm.pt")
    names = ["gate1/bleu/seed1", "mma/bleu/seed1"]
    named = " ".join(
        f"--hypotheses {name}={short}.en --log {name}={short}.log"
        for name, short in zip(names, SYSTEMS, strict=True)
    )
    command(
        f"report bin --path lstm.pt mma.lstm.pt {TEXT} {SCORED} {named} --lowercase {one_sentence} "
        f"--names {' '.join(names)} --output p.html --json p.json --source-words",
        runs[0].parents[6] / "corpora/small@text/ldc.en-zh/tokenised/test.de",
    )
    ours, theirs = read(in_data / "o.json"), read(in_data / "p.json")
    for key in ("scores", "lengths", "curves"):
        assert ours[key] == theirs[key]
    for one, other in zip(ours["models"], theirs["models"], strict=True):
        for key in ("name", "heads", "layers", "gates", "sha256", "parameters"):
            assert one[key] == other[key]
    command(f"score --hypotheses mma.en {SCORED} --lowercase --json score.json")
    expected = read(in_data / "score.json")["scores"]["bleu"]["value"]
    assert ours["scores"][0]["systems"]["mma/bleu/seed1"]["value"] == expected
    assert "case:lc" in ours["scores"][0]["signature"]
    assert [group["sentences"] for group in ours["lengths"]["groups"]] == [2, 1, 1, 0, 0, 0]
    assert ours["models"][1]["training"] == ["fairseq-train", "bin", "--arch", "mma"]
    assert "fairseq-train bin --arch mma" in (in_data / "o.html").read_text()


def test_mistakes_about_runs(in_data, runs, tmp_path):
    def refused(flags, problem):
        check_command_refusals([(flags, problem)], "report", "--output", "no.html", "--cpu")

    first, second = runs
    shutil.copytree(first, tmp_path / "elsewhere")
    for flags, problem in (
        (f"--run {first} --gen-subset test", "--run knows that; leave out --gen-subset"),
        (f"bin --run {first}", "--run knows that; leave out DATA"),
        (f"--run {tmp_path}", "there is no result.json"),
        (f"--run {first} {second} --names a", "gives 1 names for 2 runs"),
        (f"--run {first} {first}", "two models are called"),
        (f"--run {tmp_path}/elsewhere", "is not where `reproduce` makes runs"),
    ):
        refused(flags, problem)
    manifest = first.parents[6] / "corpora/small@text/ldc.en-zh/manifest.json"
    manifest.write_text('{"digest": "other"}')
    refused(f"--run {first}", "the run was not made from the corpus in")
    manifest.unlink()
    refused(f"--run {first}", "its corpus is not in")
    (first / "model.pt").unlink()
    refused(f"--run {first}", "has no model.pt")


def test_mistakes(in_data):
    write(in_data / "short.en", REFERENCE[:3])
    short = "--reference short.en --target-lang en --hypotheses mma=short.en"
    (in_data / "text.json").write_text('{"tasks": {"BShift": {"accuracy": 1}}}')
    other = "is of gate1.pt, which is or was another checkpoint than mma.pt"
    cases = [
        (TEXT, "give DATA and --path; or --run FOLDER alone"),
        (f"bin --compare mma.pt {TEXT}", "--compare with what"),
        (f"{BOTH} {SCORED} --hypotheses gate1=gate1.en", "no translations of mma"),
    ]
    cases += [
        (f"{MMA} {flags}", problem)
        for flags, problem in (
            (f"{SCORED} --hypotheses nobody=mma.en", "no such model; they are called mma"),
            (ONE, "give --reference and --target-lang as well"),
            (f"{ONE} --reference ref.en", "scored: give --target-lang as well"),
            (SCORED, "--reference is for translations"),
            ("--lowercase", "--lowercase is for translations"),
            ("--bounds 5", "--bounds is for translations"),
            (f"{SCORED} --generated mma=mma.en", "needs --tokenizer"),
            ("--log x=mma.log", "--log x=…: there is no such model"),
            ("--log mma=mma.log --log mma=mma.log", "loss .training. twice"),
            (f"{SCORED} {ONE} --tokenizer moses", "needs --generated"),
            (f"{SCORED} --hypotheses mma=none.en", "none.en cannot be read"),
            (f"{SCORED} {ONE} --source-words none.words", "none.words cannot be read"),
            ("--probing mma=none.json", "none.json cannot be read"),
            ("--tags text.tags --tagger de", "one of --tags"),
            ("--sentences 3", "none of the sentences can be analysed"),
            ("--json no.html", "--output writes there too"),
            ("--json mma.pt", "one of the inputs"),
            (short, "has 3 lines, but the sentences of the models are 4"),
            (
                f"{short} --source-words text.de",
                "text.de has 4 lines, but the reference short.en has 3",
            ),
            ("--probing mma=gate1.probing", other),
            ("--probing mma=text.de", "text.de was not written by `probe"),
            ("--probing mma=text.json", "text.json was not written by `probe"),
            ("--probing x=mma.probing", "--probing x=…: there is no such model"),
            ("--probing mma=mma.probing --probing mma=mma.probing", "--probing mma=… twice"),
        )
    ]
    check_command_refusals(cases, "report", "--output", "no.html")


def test_bounds_and_words_of_the_source(in_data, capsys):
    """Groups are those of the command; a file without words is warned of."""
    flags = f"{SCORED} {ONE} --bounds 1,2"
    command(f"report {MMA} {flags} --sentences 4 --maps 1,2 --output w.html --json w.json")
    assert "warning" not in capsys.readouterr().err
    command(f"lengths --source text.de --source-subwords subword-nmt {flags} --json lengths.json")
    command(f"heads {MMA} --sentences 4 --json heads.json")
    found, heads = read(in_data / "w.json"), read(in_data / "heads.json")["models"][0]["heads"]
    assert found["lengths"]["groups"] == read(in_data / "lengths.json")["groups"]
    assert [group["label"] for group in found["lengths"]["groups"]] == ["(0,1]", "(1,2]", "(2,∞)"]
    assert (found["models"][0]["heads"], found["models"][0]["sentences"]) == (heads, 1)
    assert [one["number"] for one in maps_data(in_data / "w.html")["sentences"]] == [1, 2]
    write(in_data / "source.words", ["我喜欢这本书" * 5 + "@@ x"] * 4)
    words = f"report {MMA} {SCORED} {ONE} --source-words source.words --sentences 3 --output n.html"
    check_refusals([(words, "none of the sent")], command)
    warned = capsys.readouterr().err
    assert "are there spaces between words? --source-words" in warned
    assert "source.words looks like subword-nmt" in warned


def test_models_that_cannot_be_looked_at_like_the_others(in_data, monkeypatch):
    """Some sentences are too long for one, and one returns no attention."""
    for name, base, flags in (
        ("tight", "mma", ["--max-source-positions", "3"]),
        ("blind", "lstm", ["--decoder-attention", "0"]),
    ):
        arch, settings = analysed.MODELS[base]
        monkeypatch.setitem(analysed.MODELS, name, (arch, [*settings, *flags]))
        analysed.save(in_data, name)
    tight = f"bin --path mma.pt tight.pt {TEXT}"
    blind = f"bin --path blind.pt {TEXT}"
    long = "--path tight.pt: 2 sentences are longer .* by --"
    none = "LSTMDecoder has no attention modules, and returns no"
    cases = [
        (f"report {tight} --too-long skip --output no.html", long),
        (f"maps {tight} --page no.html", long),
        (f"heads {blind} --json no.html", none),
        (f"maps {blind} --page no.html", none),
    ]
    check_refusals(cases, command)
    assert not (in_data / "no.html").exists()
    command(f"report bin --path mma.pt blind.pt {TEXT} --output w.html")
    text = Page(in_data / "w.html").texts["Heads and branches"]
    assert "blind has no attention that can be looked at" in text
