"""The fonts of figures."""

from types import SimpleNamespace

from matplotlib import font_manager

from fairseq_hybrid_attn.lab.figures import style


def test_japanese_fonts_come_first_for_kana(monkeypatch):
    chinese, japanese = "Noto Sans CJK SC", "Noto Sans CJK JP"
    fonts = [SimpleNamespace(name=name) for name in ("DejaVu Sans", "Arial", chinese, japanese)]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", fonts)
    assert style.fonts("猫") == ["DejaVu Sans", chinese, japanese]
    assert style.fonts("猫が") == ["DejaVu Sans", japanese, chinese]
