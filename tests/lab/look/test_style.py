"""The fonts of figures."""

from types import SimpleNamespace

from matplotlib import font_manager

from fairseq_hybrid_attn.lab.look import style


def test_fonts_have_the_characters_of_the_text(monkeypatch, capsys):
    """A Japanese font is tried first for kana; what no font has is said."""
    cjk = ("Noto Sans CJK SC", "Noto Sans CJK JP")
    bundled = {"DejaVu Sans": "DejaVu Sans", **dict.fromkeys(cjk, "STIXGeneral")}
    installed = [
        SimpleNamespace(name=name, fname=font_manager.findfont(stand_in))
        for name, stand_in in bundled.items()
    ]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", installed)
    assert style.fonts("plain") == ["DejaVu Sans"]
    assert style.fonts("ᶁ") == ["DejaVu Sans", "Noto Sans CJK SC", "Noto Sans CJK JP"]  # U+1D81
    assert capsys.readouterr().err == ""
    assert style.fonts("猫が")[1] == "Noto Sans CJK JP"
    said = capsys.readouterr().err
    assert "no installed font has が 猫" in said and "fonts-noto-cjk" in said
