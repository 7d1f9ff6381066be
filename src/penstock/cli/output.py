"""How results look: tables for people, JSON for scripts, errors on stderr."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

PIPE_WIDTH = 240  # wide enough that a table in a pipe is not wrapped

Json = str | int | float | bool | None | Sequence["Json"] | Mapping[str, "Json"]


def console() -> Console:
    """The console for results."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)


def print_error(message: str) -> None:
    """One line on stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"[bold red]error:[/] {escape(message)}")


def print_note(message: str) -> None:
    """One quiet line on stderr, beside results that a script may read on stdout."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(escape(message), style="dim")


def print_json(value: Json) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """A table; columns whose values are all numbers are right-aligned."""
    rows = [list(row) for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold", box=None, header_style="bold dim")
    for index, column in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float | None) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in rows:
        table.add_row(*("-" if cell is None else escape(str(cell)) for cell in row))
    console().print(table)
