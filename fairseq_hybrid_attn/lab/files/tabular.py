"""Tables for the terminal, as Markdown and as CSV, from the records that JSON holds."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tabulate import tabulate


@dataclass(frozen=True)
class Grid:
    """Headings and rows of a table, whose cells are texts, numbers, or None for an empty one.

    ``left``: the number of leading columns that are left-aligned; the others are right-aligned.
    None: columns of numbers are right-aligned.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]
    left: int | None = None
    digits: int = 3  # of a displayed float after the point; CSV keeps all

    @classmethod
    def of(cls, records: Sequence[Mapping], columns: Mapping[str, str] | None = None) -> Grid:
        """A row for each record; ``columns`` maps headings to keys, by default to themselves."""
        if columns is None:
            columns = {key: key for key in records[0]} if records else {}
        return cls(list(columns), [[record[key] for key in columns.values()] for record in records])

    def is_right(self, column: int) -> bool:
        if self.left is not None:
            return column >= self.left
        cells = [row[column] for row in self.rows if row[column] is not None]
        return bool(cells) and all(isinstance(cell, (int, float)) for cell in cells)

    def shown(self, cell: object) -> str:
        if cell is None:
            return ""
        return f"{cell:.{self.digits}f}" if isinstance(cell, float) else str(cell)

    def terminal(self) -> str:
        return self._tabulated("simple", str)

    def markdown(self) -> str:
        return self._tabulated("github", lambda cell: cell.replace("|", r"\|"))

    def csv(self) -> str:
        return csv_of([self.headings, *self.rows])

    def _tabulated(self, form: str, escape) -> str:
        headings = [escape(heading) for heading in self.headings]
        rows = [[escape(self.shown(cell)) for cell in row] for row in self.rows]
        sides = ["right" if self.is_right(n) else "left" for n in range(len(headings))]
        return tabulate(rows, headings, form, disable_numparse=True, colalign=sides)


def csv_of(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV; None is an empty cell.

    A text that a spreadsheet would take for a formula, like a name may be, gets a quote before.
    """
    text = io.StringIO()
    quoted = ([f"'{cell}" if _is_formula(cell) else cell for cell in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(quoted)
    return text.getvalue()


def _is_formula(cell: object) -> bool:
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return False
    return not re.fullmatch(r"[-+.\d ]*", cell)  # numbers as text, and a dash for none
