"""Print answers on the terminal, and in a spool file while there is one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from penstock.cli.output import PIPE_WIDTH


class Output(StrEnum):
    table = "table"
    json = "json"


class Printer:
    """The printer of answers.

    ``output`` is their format; ``wrap``, whether long values of rows continue on further lines or are cut;
    ``column_width``, the width of row columns: 0 fits them to the terminal.
    """

    def __init__(self, output: Output) -> None:
        self.output = output
        self.wrap = True
        self.column_width = 0
        self._terminal = Console(
            width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, soft_wrap=False
        )
        self._errors = Console(stderr=True, highlight=False, soft_wrap=True)
        self._spool: Console | None = None
        self._file: IO[str] | None = None

    @property
    def width(self) -> int:
        return self._terminal.width

    @property
    def spooled_to(self) -> str | None:
        return None if self._file is None else self._file.name

    def spool(self, path: Path | None) -> None:
        """Write all output to a file as well; None ends that. Raises OSError."""
        file = None if path is None else path.open("w", encoding="utf-8")
        if self._file is not None:
            self._file.close()
        self._file = file
        self._spool = None if file is None else Console(file=file, width=self.width, highlight=False)

    def spool_statement(self, text: str) -> None:
        """Write a statement to the spool file, before its answer; the terminal shows it already."""
        if self._spool is not None:
            self._spool.print(text, markup=False, soft_wrap=True)

    def text(self, text: str) -> None:
        """Print lines unchanged, however long."""
        for console in self._consoles():
            console.print(text, markup=False, soft_wrap=True)

    def title(self, text: str) -> None:
        for console in self._consoles():
            console.print(f"[bold]{escape(text)}[/]", soft_wrap=True)

    def json(self, value: Any) -> None:
        self.text(json.dumps(value, indent=2, ensure_ascii=False))

    def json_line(self, value: Any) -> None:
        self.text(json.dumps(value, ensure_ascii=False))

    def error(self, message: str) -> None:
        self._errors.print(f"[bold red]error:[/] {escape(message)}")
        if self._spool is not None:
            self._spool.print(f"error: {message}", markup=False, soft_wrap=True)

    def note(self, message: str) -> None:
        """Print on stderr, since a script may read the answers."""
        self._errors.print(escape(message), style="dim")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        table = Table(box=None, header_style="bold dim", pad_edge=False)
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*("" if cell is None else escape(str(cell)) for cell in row))
        self._print(table)

    def clear(self) -> None:
        self._terminal.clear()

    def _print(self, shown: RenderableType) -> None:
        for console in self._consoles():
            console.print(shown)

    def _consoles(self) -> list[Console]:
        return [self._terminal] if self._spool is None else [self._terminal, self._spool]
