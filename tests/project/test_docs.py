"""What the README and the documentation show is what the package does."""

import re
import runpy
import tomllib
from dataclasses import dataclass
from pathlib import Path

import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.models.transformer_lm import TransformerLanguageModelConfig
from models import ARCHITECTURES, LANGUAGE_MODELS, TINY, build, build_tiny

from fairseq_hybrid_attn import patterns, record_attention
from fairseq_hybrid_attn.models.config import FlatTransformerConfig

ROOT = Path(__file__).parents[2]
MODELS = (ROOT / "docs/models.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "configs/README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def snippets(page: str) -> list[str]:
    """The blocks of Python on a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def snippet(page: str, first_line: str) -> str:
    """The only block of code on a page that begins like this."""
    (code,) = [block for block in snippets(page) if block.startswith(first_line)]
    return code


def test_readme_is_read_in_three_minutes():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_links_have_targets():
    for page in PAGES:
        for link in re.findall(
            r"\]\(([^)#]+)(?:#[^)]*)?\)|(?:src|srcset)=\"([^\"]+)\"", page.read_text()
        ):
            target = "".join(link)
            assert target.startswith("https://") or (page.parent / target).exists(), (page, target)


def test_the_index_lists_every_page():
    index = (ROOT / "docs/README.md").read_text()
    for page in sorted((ROOT / "docs").glob("*.md")):
        assert page.name == "README.md" or f"({page.name})" in index, page.name


def test_the_picture_is_of_the_patterns():
    drawn = runpy.run_path(str(ROOT / "docs/pictures/patterns.py"))
    for name, theme in drawn["THEMES"].items():
        assert drawn["picture"](theme) == (ROOT / f"docs/pictures/patterns-{name}.svg").read_text()


def test_a_custom_pattern_is_a_class_and_a_word(monkeypatch):
    code = snippet("README.md", "@dataclass")
    assert code == snippet("docs/extending.md", "@dataclass")
    scope = {"dataclass": dataclass, "Pattern": patterns.Pattern}
    exec(code, scope)
    monkeypatch.setitem(patterns.HYSAN_ENCODER, "sK", scope["Strided"])
    model = build("transformer_hysan", **{**TINY, "encoder_branches": "global,s2"})
    with record_attention(model) as records:
        model.encoder(torch.tensor([[5, 6, 7, 8, 9, 2]]))
    weights = records["encoder.layers.0.self_attn"][0].weights[1]
    i, j = torch.meshgrid(torch.arange(6), torch.arange(6), indexing="ij")
    assert (weights[..., (j - i) % 2 == 1] == 0).all()
    assert (weights[..., (j - i) % 2 == 0] > 0).all()


def test_the_snippet_on_recording(monkeypatch):
    model = build_tiny("hysan-gated")
    monkeypatch.setattr(
        "fairseq.checkpoint_utils.load_model_ensemble_and_task", lambda paths: ([model], None, None)
    )
    scope = {
        "src_tokens": torch.tensor([[5, 6, 2]]),
        "src_lengths": torch.tensor([3]),
        "prev_output_tokens": torch.tensor([[2, 7]]),
    }
    exec(snippet("docs/python.md", "import fairseq_hybrid_attn"), scope)
    assert scope["record"].weights.shape == (4, 1, 4, 3, 3)


def test_the_page_on_the_attention_module_is_a_program():
    """Its model learns, and its record has the shapes that it names."""
    scope = {}
    for code in snippets("docs/attention_module.md"):
        exec(code, scope)
    assert scope["loss"] < 0.1
    record = scope["record"]
    assert record.weights.shape == (4, 16, 4, 12, 12)
    assert record.branches.shape == record.gates.shape == (4, 12, 16, 32)


def test_every_flag_of_ours_is_described():
    stock = {
        **FlatTransformerConfig.__dataclass_fields__,
        **TransformerLanguageModelConfig.__dataclass_fields__,
    }
    for arch in ARCHITECTURES + LANGUAGE_MODELS:
        for name in MODEL_DATACLASS_REGISTRY[arch].__dataclass_fields__:
            assert name in stock or f"`--{name.replace('_', '-')}`" in MODELS, name


def test_install_names_what_the_package_needs():
    install = (ROOT / "docs/install.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for wanted in project["dependencies"]:
        assert "fairseq" not in wanted or f"`{wanted.split(';')[0].strip()}`" in install
    for extra in project["optional-dependencies"]:
        assert f"`{extra}`" in install
