"""The report: found from a checkpoint, its numbers those of the single commands; its page."""

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import analysed
import cli
import lxml.html
import pytest
import torch
from made_runs import manifest
from page_in_browser import Shown, chromium  # noqa: F401  (the fixture ``browser``)
from refusals import check_command_refusals
from written import scores_in

from fairseq_hybrid_attn import UserError
from fairseq_hybrid_attn.lab.commands.command_line import main
from fairseq_hybrid_attn.lab.commands.model_flags import names_of
from fairseq_hybrid_attn.lab.files.checksums import sha256
from fairseq_hybrid_attn.lab.models.trained import find_model
from fairseq_hybrid_attn.lab.report.findings import curves_of
from fairseq_hybrid_attn.lab.report.subjects import Request, find_subject
from fairseq_hybrid_attn.lab.report.translations import SentenceScores, extremes
from fairseq_hybrid_attn.lab.run import translating
from fairseq_hybrid_attn.lab.run.folder import RunFolder
from fairseq_hybrid_attn.lab.scores.statistics import Estimate

REFERENCE = ["the house is there", "yes it is", "so it is said", "I like cats and dogs"]
NAMES = ("gate1", "mma")
SYSTEMS = {
    "gate1": ["a house is there", "yes it is", "so", "I like the cats and dogs"],
    "mma": ["The house was there", "yes", "so it is said", "cats and dogs"],
}
BIGRAMS = [("O", "Da@@ s Haus"), ("I", "Haus Da@@ s"), ("O", "ja Haus"), ("I", "Haus ja")]

SPLIT = "--subwords subword-nmt --tokenizer none"
TWO = "gate1=gate1/average.pt mma=mma/average.pt"
BOTH = f"{TWO} --gen-subset test --subwords subword-nmt --device cpu"
GATED = "gate1=gate1/average.pt --subwords subword-nmt --device cpu"
TEXT = f"--reference ref.en {SPLIT}"
SCORED = f"{TEXT} --target-lang en"
PROBE = "--tasks BShift --tokens subwords --device cpu --hidden 2 --dropout 0"


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
    """Models with their logs, a binary test set, tags and results of probing."""
    folder = analysed.make_data(tmp_path_factory.mktemp("report"), [])
    analysed.binarise(folder)
    for name, losses in (("gate1", [3.5, 2.25, 2.5]), ("mma", [4, 3]), ("lstm", [2])):
        (folder / name).mkdir()
        analysed.save(folder, name, f"{name}/average.pt")
        write(folder / name / "train.log", log(losses))
    write(folder / "ref.en", REFERENCE)
    (folder / "tasks").mkdir()
    tasks = [f"{part}\t{label}\t{text}" for part in ("tr", "va", "te") for label, text in BIGRAMS]
    write(folder / "tasks/bigram_shift.txt", tasks)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, flags in {"gate1": "--seeds 2", "mma": "--seeds 1 --end-symbol out"}.items():
            files = f"--task-files tasks --write {name}.probing.json"
            command(f"probe {name}/average.pt {PROBE} {flags} {files}")
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
        # The same program, without the seconds that it takes to start.
        patch.setattr(translating, "run_program", lambda words, log: cli.run(*words, cwd=data))
        command(
            f"report {TWO} {TEXT} --device cpu --maps 1,2,4 --probing mma=mma.probing.json "
            "--probing gate1=gate1.probing.json --write whole.html --write whole.json"
        )
    return read(data / "whole.json"), Page(data / "whole.html")


@pytest.fixture(scope="module")
def theirs(data):
    """The output of fairseq-generate itself; ``NAME.en`` and ``NAME.json`` of `score`."""
    for name in NAMES:
        cli.run(
            *("fairseq-generate", "bin", "--path", f"{name}/average.pt", "--user-dir"),
            *(cli.USER_DIR, "--required-batch-size-multiple", "1", "--max-tokens", "4000"),
            *("--cpu", "--results-path", f"{name}.out"),
            cwd=data,
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(data)
        for name in NAMES:
            command(
                f"score --generated {name}.out/generate-test.txt {SCORED} --write {name}.json "
                f"--hypotheses-out {name}.en"
            )
    return {name: f"{name}.out/generate-test.txt" for name in NAMES}


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


def test_parts_are_what_the_commands_print_and_write(in_data, whole, theirs, capsys):
    found, page = whole
    of_parts = {}
    write(in_data / "words.de", [line.replace("@@ ", "") for line in analysed.SOURCE])
    systems = " ".join(f"--hypotheses {name}={name}.en" for name in NAMES)
    for part, words in {
        "Heads and branches": f"heads {BOTH}",
        "Gates": f"gates {GATED}",
        "BLEU by source length": (
            "score --by-length --source words.de --reference ref.en --target-lang en "
            f"--write by.json {systems}"
        ),
        "Learning curves": "curves gate1=gate1/train.log mma=mma/train.log",
    }.items():
        capsys.readouterr()
        written = "by.json" if "score" in words else "part.json"
        command(words if "score" in words else f"{words} --write part.json")
        of_parts[words.split()[0]] = read(in_data / written)
        printed = {" ".join(line.split()) for line in capsys.readouterr().out.splitlines()}
        shown = [" ".join(" ".join(row).split()) for table in page.tables[part] for row in table]
        assert len(shown) > 2 and set(shown) <= printed, part
    for ours, heads in zip(found["models"], of_parts["heads"]["models"], strict=True):
        assert {key: ours[key] for key in heads} == heads
        assert ours["sentences"] == 3  # one is empty
    assert found["curves"] == of_parts["curves"]["curves"]
    lengths = of_parts["score"]["by_length"]
    assert found["lengths"] == lengths
    (whole,) = (n["ours"] for n in lengths["numbers"] if (n["row"], n["column"]) == ("mma", "all"))
    assert number(found["scores"], "mma", "bleu")["ours"] == whole
    (gates,) = of_parts["gates"]["models"]
    assert found["models"][0]["gates"] == gates
    assert found["models"][1]["gates"] is None
    assert f"{gates['share']:.3f} ± {gates['share_interval']:.3f}" in page.texts["Gates"]
    command(f"maps {BOTH} --sentences 1,2,4 --write maps.html")
    assert maps_data(in_data / "whole.html") == maps_data(in_data / "maps.html")


def maps_data(path):
    return json.loads(path.read_text().partition('class="maps-data">')[2].partition("</script>")[0])


def number(table, row, column):
    (found,) = (n for n in table["numbers"] if (n["row"], n["column"]) == (row, column))
    return found


def test_scores_are_those_of_generate_and_score(in_data, whole, theirs):
    found, page = whole
    names = [column["name"] for column in found["scores"]["columns"]]
    assert names == ["bleu", "chrf", "ter", "tokenised_bleu"]
    for name in theirs:
        lines = (in_data / f"{name}.en").read_text().splitlines()
        assert [one["translations"][name] for one in found["examples"]] == lines
        scores = scores_in(in_data / f"{name}.json")
        for score in names:
            ours = number(found["scores"], name, score)
            value, signature = ours["ours"]["value"], ours["signature"]
            assert value == pytest.approx(scores[score]["value"], abs=1e-9)
            assert signature == scores[score]["signature"]
            assert signature in page.texts["Scores"]
            assert f"{value:.2f}" in page.texts["At a glance"]
    *_, all_lengths = page.tables["BLEU by source length"][0]
    assert page.tables["Scores"][0][1] == ["BLEU", *all_lengths[1:]]
    mma = number(found["scores"], "mma", "bleu")
    gain = Estimate(**{key: of for key, of in mma["difference"].items() if key != "p"})
    assert gain.signed() in page.texts["At a glance"]
    rows = page.tables["Translations"][0]
    assert [row[3:5] for row in rows[1:]] == [
        [source, reference]
        for source, reference in zip(
            ["Das Haus", "ja", "", "猫が 好き です"], REFERENCE, strict=True
        )
    ]


def test_probing_is_that_of_the_command(data, whole):
    found, page = whole
    files = {name: read(data / f"{name}.probing.json") for name in NAMES}
    assert found["probing"] == files and list(found["probing"]) == ["gate1", "mma"]
    gate1, mma = (f"{one['tasks']['BShift']['accuracy']:.2f}" for one in files.values())
    _, (_, _, first, second, _) = page.tables["Probing"][0]
    assert first.split()[0] == gate1 and second == mma


def test_what_the_models_are(data, whole):
    found, page = whole
    rows = {row[0]: row[1:] for row in page.tables["Models"][0]}
    for number, model in enumerate(found["models"]):
        path = data / model["name"] / "average.pt"
        weights = torch.load(path, weights_only=True)["model"]
        buffers = ("version", "_float_tensor")
        count = sum(w.numel() for name, w in weights.items() if not name.endswith(buffers))
        assert model["parameters"] == count and rows["parameters"][number] == f"{count:,}"
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert model["sha256"] == rows["sha256"][number] == digest


def test_the_page_in_a_browser(data, whole, browser):
    shown = Shown(browser, data / "whole.html", "dark")
    page = shown.page
    for theme in ("dark", "light", "dark"):
        images = page.locator("img").all()
        visible = [image for image in images if image.is_visible()]
        assert len(visible) == len(images) / 2
        assert {image.get_attribute("class") for image in visible} == {f"only-{theme}"}
        page.click("#theme")
        page.emulate_media(color_scheme="light")  # from now on, the button alone says dark
    for width in (820, 1400, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shown.cell(1, 0).evaluate("e => e.scrollIntoView({block: 'center'})")
    assert "Haus → Das" in shown.hover(1, 0)
    # A small map is shown large: the second layer's forward head of mma.
    page.locator('.small-map[data-model="1"][data-kind="encoder"][data-layer="1"]').nth(2).click()
    for name, chosen in (("model-0", "mma"), ("head-0", "3 (forward)")):
        choice = page.locator(f'[data-choice="{name}"]')
        assert choice.evaluate("s => s.selectedOptions[0].text") == chosen
    assert not shown.faults
    assert all(url.startswith(("file:", "data:")) for url in shown.asked)


@pytest.fixture
def generating(monkeypatch):
    """In place of fairseq-generate: its ``commands``, and the ``lines`` that it gives."""
    found = SimpleNamespace(commands=[], lines={}, fails=False)

    def generate(command, log):
        if found.fails:
            raise UserError("killed")
        found.commands.append(command)
        folder = Path(command[command.index("--results-path") + 1])
        folder.mkdir(exist_ok=True)
        output = [f"H-{number}\t-1\t{line}" for number, line in found.lines.items()]
        write(folder / "generate-test.txt", output)

    monkeypatch.setattr(translating, "run_program", generate)
    return found


def test_a_set_is_translated_once(generating, in_data, tmp_path):
    """And again by another search or another model, or if it was killed."""
    generating.lines = {0: "a"}
    folder = RunFolder(tmp_path / "out")

    def translate(model="mma/average.pt", *search):
        how = {"search": search, "on_cpu": True}
        _, output = translating.translated(in_data / "bin", in_data / model, "test", folder, **how)
        assert output.read_text() == "H-0\t-1\ta\n"
        return len(generating.commands)

    assert (translate(), translate()) == (1, 1)
    assert translate("mma/average.pt", "--beam", "1") == 2
    assert translate("gate1/average.pt") == 3
    assert translate() == 4
    (folder.path / "stages/translate.json").unlink()  # it is written last
    assert translate() == 5
    generating.fails = True
    with pytest.raises(UserError, match="average.pt: killed"):
        translate("mma/average.pt", "--beam", "3")
    generating.fails = False
    translate()


def test_sentences_that_are_too_long_for_a_model(generating, in_data):
    """fairseq leaves them out, if it is told so."""
    (in_data / "short").mkdir()
    analysed.save(in_data, "short", "short/average.pt")
    words = f"report short=short/average.pt {SPLIT} --device cpu --write t.html --write t.json"
    with pytest.raises(UserError, match="2 sentences are longer"):
        command(words)
    generating.lines = {1: "yes", 2: "so"}
    command(f"{words} --too-long skip")
    assert "--skip-invalid-size-inputs-valid-test" in generating.commands[0]
    lines = [one["translations"]["short"] for one in read(Path("t.json"))["examples"]]
    assert lines == ["", "yes", "so", ""]


NASTY = "</script><script>alert(1)</script><b>&\"'"


@pytest.fixture
def nasty(tmp_path, monkeypatch, capsys):
    """A folder, sentences and a model's name with markup; no log, and a model without gates."""
    folder = tmp_path / "<script>'&\""
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(analysed, "SOURCE", ("x y", NASTY, "<script>"))
    monkeypatch.setattr(analysed, "TARGET", analysed.SOURCE)
    analysed.make_data(folder, ["lstm"])
    for side in ("de", "en"):
        write(Path(f"text.{side}"), [f"{NASTY} x", "<script> y"])
    analysed.binarise(folder)
    return folder


def test_nothing_becomes_markup(nasty, generating, browser, capsys):
    """In sentences, translations, names of models, and folders."""
    generating.lines = {0: "<script> y", 1: NASTY}
    flags = "--device cpu --subwords none --tokenizer none --write o.html"
    command(f"report {flags}", f"{NASTY}=lstm.pt")
    page = Page(nasty / "o.html")
    assert len(maps_data(nasty / "o.html")[0]["sentences"]) == 2
    assert not list(page.tree.iter("script")) and NASTY in page.tree.findtext(".//title")
    assert [b.text for b in page.tree.iter("b") if "." not in (b.text or ".0")] == []
    assert page.tables["Models"][0][:2] == [["", NASTY], ["architecture", "LSTMModel"]]
    assert str(nasty) in page.tree.findtext(".//main/p")
    translated = {row[2]: row[4] for row in page.tables["Translations"][0][1:]}
    assert translated == {f"{NASTY} x": "<script> y", "<script> y": NASTY}
    shown = Shown(browser, nasty / "o.html")
    assert (shown.page.locator("script").count(), shown.faults) == (4, [])
    assert "train.log" in capsys.readouterr().err
    assert "Learning curves" not in page.texts and "Gates" not in page.texts
    for part in ("Attention maps", "Heads and branches"):
        assert "no encoder attention" in page.texts[part]


def test_sentences_worth_reading():
    examples = [SentenceScores(n, "", "", {}, {"a": float(n * 7 % 31)}) for n in range(31)]
    for count, worst, best in ((31, range(7), range(30, 23, -1)), (3, [0], [14, 7])):
        lists = extremes(examples[:count], lambda example: example.scores["a"])
        values = [[example.scores["a"] for example in some] for some in lists]
        assert values == [list(worst), list(best)]


WORDS = {"subwords": "subword-nmt", "tokenizer": "none"}


def find(path, data=None, **asked):
    return find_subject(find_model(Path(path), data), Request(Path("o.html"), **asked))


def test_a_checkpoint_knows_its_data_and_log(in_data, tmp_path):
    """If it was moved, the data are those that are named."""
    found = find("mma/average.pt", **WORDS)
    assert (found.trained.binary, found.trained.languages) == (in_data / "bin", ("de", "en"))
    assert (found.log, found.reference, found.search) == (Path("mma/train.log"), None, ())
    state = torch.load("mma/average.pt", weights_only=True)
    state["cfg"]["task"]["data"] = "/gone/bin"
    torch.save(state, tmp_path / "average.pt")
    check_command_refusals([(str(tmp_path / "average.pt"), "/gone/bin .*--data DIR")], "report")
    found = find(tmp_path / "average.pt", Path("bin"), **WORDS)
    assert (found.trained.binary, found.log) == (Path("bin"), None)


def test_a_log_of_another_kind_costs_the_curves_alone(in_data, tmp_path, capsys):
    found = replace(find("mma/average.pt", **WORDS), log=tmp_path / "train.log")
    for text in ("epoch 1, loss 3", '{"loss": 3}', ""):
        found.log.write_text(text)
        assert curves_of("mma", found) == []
        assert f"no learning curves: {found.log}" in capsys.readouterr().err


FOR_MODEL = ("bin/dict.de.txt", "bin/dict.en.txt", "subwords/subwords.codes")


def keep(corpus, folder):
    """Copy what prepares text for a model of a corpus."""
    for name in (*FOR_MODEL, "manifest.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(corpus / name, folder / name)


@pytest.fixture
def runs(in_data, tmp_path):
    """Two finished runs of one corpus, in the folders that `reproduce` makes."""
    corpus = tmp_path / "corpora/small@text/ldc.en-zh"
    for name in ("subwords", "raw", "tokenised"):
        (corpus / name).mkdir(parents=True)
    shutil.copytree("bin", corpus / "bin")
    for side in ("de", "en"):
        shutil.copy(f"text.{side}", corpus / f"subwords/test.{side}")
        shutil.copy("ref.en", corpus / f"raw/test.{side}")
    # Not the words of the text in subwords, to show which are counted.
    write(corpus / "tokenised/test.en", REFERENCE)
    write(corpus / "tokenised/test.de", ["wort " * 12, "wort", "wort", "wort " * 25])
    (corpus / "subwords/subwords.codes").write_text("#version: 0.2\n")
    treated = {"source": "de", "target": "en", "tokenizer": {"en": "moses"}, "lowercase": True}
    treated["recipe"] = {"subwords": {"kind": "subword-nmt", "size": 9}}
    treated["files"] = {name: sha256(corpus / name) for name in FOR_MODEL}
    manifest(corpus="ldc.en-zh", digest="d", **treated).write(corpus)
    state = torch.load("lstm/average.pt", weights_only=True)
    folders = []
    for name, lines in SYSTEMS.items():
        folder = tmp_path / f"runs/small@text/hysan/table1/{name}/bleu/seed1"
        (folder / "logs").mkdir(parents=True)
        torch.save(state, folder / "model.pt")
        write(folder / "hypotheses.txt", lines)
        shutil.copy(f"{name}/train.log", folder / "logs/train.log")
        result = {
            "scores": {"bleu": {"value": 10.5, "signature": "s"}},
            **{"identity": {}, "updates": 20, "parameters": 9, "finished": "now"},
            "label": "small@text",
            "corpus": {"source": "de", "target": "en", "digest": "d"},
            "settings": {"corpus": "ldc.en-zh", "generate": {"beam": 2}},
            "commands": {"train": ["fairseq-train", "bin", "--arch", name]},
            **{"row": name, "column": "bleu", "seed": 1},
        }
        (folder / "result.json").write_text(json.dumps(result))
        keep(corpus, folder)
        begun = {"identity": {}, "settings": result["settings"]}
        begun["corpus"] = os.path.relpath(corpus, folder)
        (folder / "begun.json").write_text(json.dumps(begun))
        folders.append(folder)
    return folders


def test_a_run_knows_its_corpus_and_translations(in_data, runs, tmp_path):
    one_sentence = "--sentences 2 --maps 2"  # for speed
    command(f"report --device cpu {one_sentence} --write o.html --write o.json", *runs)
    ours = read(in_data / "o.json")
    for name in NAMES:
        assert [one["translations"][name] for one in ours["examples"]] == SYSTEMS[name]
        write(in_data / "hyp.en", SYSTEMS[name])
        command(
            "score --hypotheses hyp.en --reference ref.en --target-lang en --lowercase "
            "--write score.json"
        )
        expected = scores_in(in_data / "score.json")["bleu"]
        score = number(ours["scores"], name, "bleu")
        assert score["ours"]["value"] == pytest.approx(expected["value"], abs=1e-9)
        assert score["signature"] == expected["signature"] and "case:lc" in score["signature"]
    sizes = [n["sentences"] for n in ours["lengths"]["numbers"] if n["row"] == NAMES[0]]
    assert sizes == [2, 1, 1, 0, 0, 0, 4]
    assert [curve["run"] for curve in ours["curves"]] == [*NAMES]
    assert not list(in_data.glob("o.translations"))  # nothing was translated
    assert names_of(runs) == [*NAMES]
    page = Page(in_data / "o.html")
    assert "--beam 2" in page.texts["At a glance"]
    assert "test set of ldc.en-zh: 4 sentences" in page.tree.findtext(".//main/p")


def test_translations_of_a_run_are_of_its_search_and_corpus(in_data, runs, tmp_path):
    alone = find(runs[0])
    assert alone.hypotheses == runs[0] / "hypotheses.txt"
    assert (alone.search, alone.tokenizer) == (("--beam", "2"), "moses")
    other = find(runs[0], search=("--gnmt-lenpen", "0.6"))
    assert other.hypotheses is None and other.search_text == "--gnmt-lenpen 0.6"
    assert find(runs[0], subset="valid").hypotheses is None
    found = find(runs[0], in_data / "bin", **WORDS)  # not from `prepare`
    assert (found.hypotheses, found.reference, found.search) == (None, None, ("--beam", "2"))
    about = tmp_path / "corpora/small@text/ldc.en-zh/manifest.json"
    about.write_text(json.dumps(read(about) | {"digest": "another"}))
    assert find(runs[0]).hypotheses == runs[0] / "hypotheses.txt"  # it keeps what it needs
    kept = runs[0] / "manifest.json"
    kept.write_text(json.dumps(read(kept) | {"digest": "another"}))
    assert find(runs[0]).hypotheses is None


def test_an_exported_model_is_compared_on_the_text_that_is_given(in_data, runs, tmp_path):
    """It has dictionaries, but no sets; with those of `prepare`, it needs no other flag."""
    corpus, model = tmp_path / "corpora/small@text/ldc.en-zh", tmp_path / "exported"
    keep(corpus, model)
    shutil.copy(runs[0] / "model.pt", model / "model.pt")
    check_command_refusals([(str(model), "--gen-subset test: .*--data DIR")], "report")
    found = find(model, corpus)
    assert found.trained.binary == corpus / "bin" and found.reference == corpus / "raw/test.en"
    assert (found.tokenizer, found.lowercase) == ("moses", True)


def test_refusals(in_data, tmp_path, monkeypatch):
    """All of it is told before hours of work."""
    half = read(in_data / "mma.probing.json")
    del half["layer"]
    (in_data / "half.json").write_text(json.dumps(half))
    (in_data / "compared.json").write_text('{"grids": [{"title": "t"}], "notes": []}')
    write(in_data / "three.en", REFERENCE[:3])
    shutil.copytree("bin", tmp_path / "bin")
    for side in ("de", "en"):
        write(tmp_path / f"text.{side}", [*"abcd"])
    analysed.binarise(tmp_path)
    state = torch.load("mma/average.pt", weights_only=True)
    state["cfg"]["task"]["data"] = str(tmp_path / "bin")
    torch.save(state, tmp_path / "other.pt")
    model = f"mma=mma/average.pt {SPLIT}"
    refused = {
        "mma/average.pt": "--subwords and --tokenizer",
        f"{model} --reference three.en": "three.en has 3 lines, but test has 4",
        f"{model} --gen-subset none": "--gen-subset none",
        f"{model} --probing x=gate1.probing.json": "--probing x",
        f"{model} --probing mma=gate1.probing.json": "gate1/average.pt, .* another .* than mma",
        f"{model} --probing mma=half.json": "half.json",
        f"{model} --comparison compared.json": "compared.json",
        f"{model} --maps 9": "--maps 9",
        f"{model} --write a.html --write b.html": "one page",
        f"mma=mma/average.pt x={tmp_path}/other.pt {SPLIT}": "is not that of mma",
    }
    monkeypatch.setattr("fairseq_hybrid_attn.lab.report.findings.translated", None)
    check_command_refusals(refused.items(), "report", "--device", "cpu")
