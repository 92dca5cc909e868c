"""Draw the picture at the top of the README: the attention patterns of each paper.

    python docs/pictures/patterns.py    # writes patterns-light.svg and patterns-dark.svg

A filled square in row i, column j: token i may attend to token j.
"""

from __future__ import annotations

from pathlib import Path

from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, Pattern, local

#: A paper, its patterns as it names them, and what it does with their outputs.
ROWS: list[tuple[str, list[tuple[str, Pattern]], str]] = [
    (
        "HySAN",
        [("global", GLOBAL), ("forward", PAST), ("backward", FUTURE), ("local", local(2))],
        "four branches over one\nscore matrix, summed, each\nscaled by a squeeze gate",
    ),
    (
        "Hybrid gate",
        [("global", GLOBAL), ("local", local(1))],
        "g · global + (1 − g) · local:\na gating scalar for each token",
    ),
    (
        "MMA",
        [("global", GLOBAL), ("local", local(1)), ("forward", FUTURE), ("backward", PAST)],
        "a pattern for each head,\nwithout new parameters",
    ),
    (
        "Alignment study",
        [("forward", PAST), ("backward", FUTURE)],
        "an encoder that sees only\nthe past, or only the future",
    ),
]
THEMES = {
    "light": {"ink": "#1f2328", "soft": "#59636e", "on": "#0969da", "off": "#e7ebf0"},
    "dark": {"ink": "#f0f6fc", "soft": "#9198a1", "on": "#4493f8", "off": "#262c36"},
}
TOKENS, CELL = 8, 9
SIDE = TOKENS * CELL
#: Narrow, so that a phone shows the words large enough to read.
LEFT, STEP, HEIGHT = 206, SIDE + 12, SIDE + 38
WIDTH = LEFT + 4 * STEP - 12


def squares(pattern: Pattern, left: int, top: int, theme: dict[str, str]) -> str:
    """A pattern as ``TOKENS`` x ``TOKENS`` squares."""
    mask = pattern.mask(TOKENS, TOKENS)
    cells = {"on": mask.nonzero().tolist(), "off": (~mask).nonzero().tolist()}
    size = CELL - 1
    return "".join(
        f'<path fill="{theme[kind]}" d="'
        + "".join(f"M{left + j * CELL} {top + i * CELL}h{size}v{size}h-{size}z" for i, j in places)
        + '"/>'
        for kind, places in cells.items()
    )


def text(words: str, x: int, y: int, colour: str, size: int = 13, weight: str = "400") -> str:
    """A line of text that begins at (x, y)."""
    return (
        f'<text x="{x}" y="{y}" fill="{colour}" font-size="{size}" font-weight="{weight}">'
        f"{words}</text>"
    )


def picture(theme: dict[str, str]) -> str:
    """The whole picture as SVG."""
    parts = []
    for number, (paper, patterns, meaning) in enumerate(ROWS):
        top = number * HEIGHT + 22
        middle = top + SIDE // 2
        lines = meaning.split("\n")
        above = middle - 9 * len(lines) + 4
        parts.append(text(paper, 0, above, theme["ink"], 15, "600"))
        for place, (name, pattern) in enumerate(patterns):
            left = LEFT + place * STEP
            parts.append(text(name, left, top - 6, theme["soft"]))
            parts.append(squares(pattern, left, top, theme))
        for line, words in enumerate(lines, 1):
            parts.append(text(words, 0, above + 18 * line, theme["ink"]))
    height = len(ROWS) * HEIGHT
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" font-family="system-ui, sans-serif">'
        "<title>Attention patterns of the four papers</title>" + "\n".join(parts) + "</svg>\n"
    )


if __name__ == "__main__":
    for name, theme in THEMES.items():
        path = Path(__file__).with_name(f"patterns-{name}.svg")
        path.write_text(picture(theme), encoding="utf-8")
        print(path)
