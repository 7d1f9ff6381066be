"""Print rows that arrive one by one, in columns that fit the terminal. The first rows set the widths."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from rich.cells import cell_len, chop_cells, set_cell_size

_COLUMN: Final = re.compile(r"`((?:[^`]|``)+)` ")
_GAP: Final = "  "
_CELL_MIN: Final = 6
_TOMBSTONE: Final = "<TOMBSTONE>"
_WIDTHS: Final = {"BOOLEAN": 7, "INTEGER": 11, "BIGINT": 20, "DATE": 10, "TIME": 12, "TIMESTAMP": 23}
"""The greatest width of values of these types; other types have no limit."""


def columns_of(schema: str) -> list[tuple[str, str]]:
    """Parse names and types from the text of a header: `` `ID` BIGINT KEY, `TAGS` ARRAY<STRING> ``."""
    found: list[tuple[str, str]] = []
    at = 0
    while name := _COLUMN.match(schema, at):
        end, depth = name.end(), 0
        in_quotes = False
        while end < len(schema) and (depth or in_quotes or schema[end] != ","):
            character = schema[end]
            in_quotes ^= character == "`"
            if not in_quotes:
                depth += (character in "<(") - (character in ">)")
            end += 1
        found.append((name[1].replace("``", "`"), schema[name.end() : end].removesuffix(" KEY")))
        at = end + 2
    return found


class RowTable:
    """A table whose rows are printed as they arrive.

    ``print_line`` gets one line at a time, or several that belong together. With ``wrap`` long values
    continue on further lines; otherwise they are cut. ``column_width`` is the width of each column; 0 fits
    them to the terminal.
    """

    def __init__(
        self,
        schema: str,
        width: int,
        print_line: Callable[[str], None],
        *,
        wrap: bool = True,
        column_width: int = 0,
    ) -> None:
        self._columns = columns_of(schema)
        self._width = width
        self._print = print_line
        self._wrap = wrap
        self._column_width = column_width
        self._widths: list[int] = []

    def add(self, rows: Sequence[tuple[Sequence[Any], bool]]) -> None:
        """Print rows that arrived together: values, and whether the row was deleted.

        Without rows, only the head.
        """
        shown = [[_cell(value, is_deleted=is_deleted) for value in columns] for columns, is_deleted in rows]
        if not self._widths:
            self._begin(shown)
        for cells in shown:
            self._print(self._line(cells))

    def _begin(self, rows: Sequence[Sequence[str]]) -> None:
        wanted = [
            max(cell_len(name), _WIDTHS.get(type_, 0), *(cell_len(row[index]) for row in rows), _CELL_MIN)
            for index, (name, type_) in enumerate(self._columns)
        ]
        if self._column_width:
            self._widths = [self._column_width] * len(wanted)
        else:
            self._widths = _fitted(wanted, self._width - len(_GAP) * (len(wanted) - 1))
        names = [name for name, _ in self._columns]
        self._print(self._line(names))
        self._print(_GAP.join("─" * width for width in self._widths))

    def _line(self, cells: Sequence[str]) -> str:
        cut = _chopped if self._wrap else _cut
        parts = [cut(cell, width) for cell, width in zip(cells, self._widths, strict=True)]
        height = max(map(len, parts))
        lines = []
        for number in range(height):
            line = [
                set_cell_size(part[number] if number < len(part) else "", width)
                for part, width in zip(parts, self._widths, strict=True)
            ]
            lines.append(_GAP.join(line).rstrip())
        return "\n".join(lines)


def _fitted(wanted: list[int], room: int) -> list[int]:
    """Fit the columns: narrow ones keep their width, the others share the rest."""
    left, widths = room, list(wanted)
    for number, index in enumerate(sorted(range(len(wanted)), key=lambda each: wanted[each])):
        share = max(_CELL_MIN, left // (len(wanted) - number))
        widths[index] = min(wanted[index], share)
        left -= widths[index]
    return widths


def _chopped(text: str, width: int) -> list[str]:
    return [part for line in text.splitlines() or [""] for part in chop_cells(line, width) or [""]]


def _cut(text: str, width: int) -> list[str]:
    line = " ".join(text.splitlines())
    return [line if cell_len(line) <= width else f"{set_cell_size(line, width - 1)}…"]


def _cell(value: Any, *, is_deleted: bool) -> str:
    if value is None:
        return _TOMBSTONE if is_deleted else "null"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
