"""Output of results: tables for people, JSON for scripts, errors on stderr."""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

PIPE_WIDTH = 240
"""Wide enough that a table in a pipe is not wrapped."""

NAME_SHARE = 0.6
"""The share of the terminal's width up to which names in the first column are not wrapped."""

_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?%?")

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]


def console() -> Console:
    """The console for results. Emoji codes are off, since text between colons may be the user's."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, emoji=False)


def _beside() -> Console:
    """The console on stderr, for messages that are not results."""
    return Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def print_error(message: str) -> None:
    """Print one line on stderr."""
    _beside().print(f"[bold red]error:[/] {escape(message)}")


def print_warning(message: str) -> None:
    """Print one line on stderr about something that may not be what the user wants."""
    _beside().print(f"[bold yellow]warning:[/] {escape(message)}")


def print_note(message: str) -> None:
    """Print one dimmed line on stderr, since a script may read the results on stdout."""
    _beside().print(escape(message), style="dim")


def print_json(value: Json) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print a table. Numbers are right-aligned and never wrapped; nor are names while there is room."""
    rows = [list(row) for row in rows]
    shown_on = console()
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="bold dim")
    for index, column in enumerate(columns):
        cells = [row[index] for row in rows]
        numeric = bool(cells) and all(map(_is_number, cells))
        widest = max((len(str(cell)) for cell in cells), default=0)
        whole = numeric or (index == 0 and widest <= shown_on.width * NAME_SHARE)
        table.add_column(column, justify="right" if numeric else "left", no_wrap=whole, overflow="fold")
    for row in rows:
        table.add_row(*("-" if cell is None else escape(str(cell)) for cell in row))
    shown_on.print(table)


def _is_number(cell: object) -> bool:
    """Whether a cell holds a number, a formatted number, or None."""
    return cell is None or (isinstance(cell, int | float | str) and bool(_NUMBER.fullmatch(str(cell))))
