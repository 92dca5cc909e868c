"""Draw the picture at the top of the README: the attention patterns of each paper.

    python docs/pictures/patterns.py    # writes patterns-light.svg and patterns-dark.svg

A blue square in row i, column j: token i may attend to token j.
"""

from __future__ import annotations

from pathlib import Path

from fairseq_hybrid_attn.patterns import FUTURE, GLOBAL, PAST, Pattern, local

#: A paper, its patterns (with its own word for one in brackets), and what it does with their
#: outputs.
ROWS: list[tuple[str, list[tuple[str, Pattern]], str]] = [
    (
        "HySAN",
        [
            ("global", GLOBAL),
            ("past (forward)", PAST),
            ("future (backward)", FUTURE),
            ("local", local(2)),
        ],
        "four branches over one\nscore matrix, summed, each\nscaled by a squeeze gate",
    ),
    (
        "Hybrid gate",
        [("global", GLOBAL), ("local", local(1))],
        "g · global + (1 − g) · local:\na gating scalar for each token",
    ),
    (
        "MMA",
        [
            ("global", GLOBAL),
            ("local", local(1)),
            ("future (forward)", FUTURE),
            ("past (backward)", PAST),
        ],
        "a pattern for each head,\nwithout new parameters",
    ),
    (
        "Alignment study",
        [("past (forward)", PAST), ("future (backward)", FUTURE)],
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
LEFT, STEP, HEIGHT = 206, SIDE + 12, SIDE + 50
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
        top = number * HEIGHT + 34
        middle = top + SIDE // 2
        lines = meaning.split("\n")
        above = middle - 9 * len(lines) + 4
        parts.append(text(paper, 0, above, theme["ink"], 15, "600"))
        for place, (name, pattern) in enumerate(patterns):
            left = LEFT + place * STEP
            word, _, own = name.partition(" (")
            parts.append(text(word, left, top - 6 - 13 * bool(own), theme["soft"]))
            if own:
                parts.append(text(f"({own}", left, top - 6, theme["soft"], 12))
            parts.append(squares(pattern, left, top, theme))
        for line, words in enumerate(lines, 1):
            parts.append(text(words, 0, above + 18 * line, theme["ink"]))
    height = len(ROWS) * HEIGHT + 20
    parts.append(text("A row may attend to blue.", LEFT, height - 8, theme["soft"]))
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
