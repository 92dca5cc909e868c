"""What the README and the documentation show is what the package does."""

import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from analysed import make_data
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from models import ARCHITECTURES, CONFIGURATIONS, LANGUAGE_MODELS

from fairseq_hybrid_attn.models.config import FlatTransformerConfig

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
MODELS = (ROOT / "docs/models.md").read_text()
TESTED = {arch for arch, _ in CONFIGURATIONS.values()}
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "configs/README.md", *(ROOT / "docs").rglob("*.md")]


def snippets(page: str, after: str = "", before: str | None = None) -> list[str]:
    """The blocks of Python on a page, or between two of its headings."""
    text = (ROOT / page).read_text()
    part = text[text.index(after) : text.index(before) if before else None]
    return re.findall(r"```python\n(.*?)```", part, re.DOTALL)


def test_the_readme_begins_with_commands_and_what_they_print(tmp_path):
    """The first block, run as one script."""
    block = textwrap.dedent(re.search(r"(?:^    .*\n)+", README, re.MULTILINE)[0]).splitlines()
    commands = [line.removeprefix("$ ") for line in block if line.startswith("$ ")]
    printed = [line for line in block if not line.startswith("$ ")]
    (tmp_path / "models").symlink_to(ROOT / "models")
    script = "\n".join(["set -e", *commands])
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=True
    )
    assert len(printed) == 4 and done.stdout.splitlines() == printed


def test_the_readmes_attention_is_a_program():
    scope = {}
    for code in snippets("README.md"):
        exec(code, scope)
    x = torch.randn(2, 7, 128)
    assert scope["attention"](x, need_weights=False)[0].shape == x.shape


def test_links_have_targets():
    for page in PAGES:
        for link in re.findall(
            r"\]\(([^)#]+)(?:#[^)]*)?\)|(?:src|srcset)=\"([^\"]+)\"", page.read_text()
        ):
            target = "".join(link)
            assert target.startswith("https://") or (page.parent / target).exists(), (page, target)


def test_the_picture_is_of_the_patterns():
    drawn = runpy.run_path(str(ROOT / "docs/pictures/patterns.py"))
    for name, theme in drawn["THEMES"].items():
        assert drawn["picture"](theme) == (ROOT / f"docs/pictures/patterns-{name}.svg").read_text()


def test_the_page_on_python_is_a_program(tmp_path, monkeypatch, capsys):
    """It averages two models, translates, records and scores."""
    make_data(tmp_path, ("mma",))
    (tmp_path / "model").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "bin").rename(tmp_path / "data/bin")
    state = torch.load(tmp_path / "mma.pt")
    for number, factor in ((4, 1.0), (5, 3.0)):
        weights = {name: weight * factor for name, weight in state["model"].items()}
        torch.save({**state, "model": weights}, tmp_path / f"model/checkpoint{number}.pt")
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    scope = {}
    for code in snippets("docs/python.md", "## Trained models"):
        exec(code, scope)
    assert len(scope["five"]) == 5 and scope["cross"].shape[1] == len(scope["keys"])
    found = scope["model"].state_dict()["encoder.layers.0.fc1.weight"]
    assert torch.allclose(found, 2 * state["model"]["encoder.layers.0.fc1.weight"])
    assert len(scope["translations"]) == 2
    assert scope["record"].weights.shape == (1, 1, 4, 4, 4)
    assert re.search(r"^\d+\.\d\d nrefs:1\|", capsys.readouterr().out, re.MULTILINE)


def test_the_page_on_the_attention_module_is_a_program():
    """Its model learns, and its record has the shapes that it names."""
    scope = {}
    for code in snippets(
        "docs/python.md", "## The attention, without fairseq", "## In Hugging Face's models"
    ):
        exec(code, scope)
    assert scope["loss"] < 0.1
    record = scope["record"]
    assert record.weights.shape == (4, 16, 4, 12, 12)
    assert record.branches.shape == record.gates.shape == (4, 12, 16, 32)


def test_the_page_on_hugging_face_is_a_program(tmp_path, monkeypatch, capsys):
    """What it saves last, it loads again."""
    monkeypatch.setitem(sys.modules, "torchaudio", None)  # it may not load
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    (code,) = snippets("docs/python.md", "## In Hugging Face's models", "## Trained models")
    scope = {}
    exec(code, scope)
    again = scope["again"].state_dict()
    torch.testing.assert_close(dict(scope["model"].state_dict()), dict(again))
    assert capsys.readouterr().out.count("tensor(") == 2


def test_the_flags_and_tests_of_no_architecture_are_forgotten():
    """test_models.py looks at its sizes on the page of models."""
    stock = {
        **FlatTransformerConfig.__dataclass_fields__,
        **TransformerLanguageModelConfig.__dataclass_fields__,
    }
    tested = tuple(MODEL_REGISTRY[name] for name in (*TESTED, *LANGUAGE_MODELS))
    for arch in ARCHITECTURES + LANGUAGE_MODELS:
        for name in MODEL_DATACLASS_REGISTRY[arch].__dataclass_fields__.keys() - stock.keys():
            assert f"`--{name.replace('_', '-')}`" in MODELS, (arch, name)
        assert issubclass(MODEL_REGISTRY[arch], tested), f"{arch}: add it to CONFIGURATIONS"
