"""A session of the shell: its settings, and the execution of each statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.cli.sql_shell.commands import run_local
from penstock.cli.sql_shell.endings import Failed, Interrupted
from penstock.cli.sql_shell.entities import failure_of, print_entities
from penstock.cli.sql_shell.printing import Output, Printer
from penstock.cli.sql_shell.rest import Refused, Rest
from penstock.cli.sql_shell.rows import RowTable
from penstock.cli.sql_shell.script import Statement, statements_of
from penstock.sql import parse
from penstock.sql.language import statements as s
from penstock.sql.language.errors import SqlError

_SAMPLE_ROWS: Final = 500
"""The number of rows of a finite query that determine the widths of its columns."""

_SCRIPTS_DEPTH_MAX: Final = 16
_PLACE: Final = re.compile(r"line (\d+)(?:, column |:)(\d+): ")
"""The position at the beginning of a server's message, in our form or ksqlDB's."""


@dataclass
class Session:
    """One session with a server.

    ``properties`` and ``variables`` are sent with each statement. ``history`` holds the typed input;
    ``is_interactive`` if a person types it.
    """

    rest: Rest
    printer: Printer
    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)
    is_interactive: bool = False
    _sequence: int | None = None

    def carry_out(self, text: str, origin: str | None = None, folder: Path = Path(), depth: int = 0) -> None:
        """Run all statements of a text in turn. Raises Exit, Failed, Interrupted, Unreachable.

        ``origin`` names the source of the text in messages; ``folder`` is the directory of the scripts that
        it runs.
        """
        for statement in statements_of(text):
            self.printer.spool_statement(statement.text)
            if statement.is_local:
                run_local(self, statement)
                continue
            try:
                self._run(statement, folder, depth)
            except Refused as error:
                if error.entities:
                    print_entities(self.printer, error.entities)
                raise Failed(_located(str(error), statement, origin)) from error
            except SqlError as error:
                raise Failed(_located(str(error), statement, origin)) from error

    def run_file(self, path: Path, depth: int = 0) -> None:
        """Run a script. Raises the same errors as `carry_out`."""
        if depth > _SCRIPTS_DEPTH_MAX:
            raise Failed(f"{path}: found scripts that run scripts, {depth} deep")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Failed(f"cannot read {path}: {reason}") from error
        self.carry_out(text, str(path), path.parent, depth)

    def _run(self, statement: Statement, folder: Path, depth: int) -> None:
        if statement.begins("SELECT"):
            self._query(statement)
        elif statement.begins("PRINT"):
            self._print_topic(statement)
        elif statement.begins("RUN", "SCRIPT"):
            script = parse(statement.text, dict(self.variables))
            assert isinstance(script, s.RunScript)
            self.run_file(folder / script.path, depth + 1)
        elif statement.words and statement.words[0] in ("DEFINE", "UNDEFINE", "SET", "UNSET"):
            self._set(parse(statement.text, dict(self.variables)))
        else:
            self._execute(statement)

    def _set(self, statement: s.Statement) -> None:
        match statement:
            case s.Define(name, value):
                self.variables[name] = value
            case s.Undefine(name):
                if self.variables.pop(name, None) is None:
                    raise SqlError(f"found no variable {name}, expected one that is defined")
            case s.SetProperty(name, value):
                self.rest.check_property(name)
                before = self.properties.get(name)
                self.properties[name] = value
                was = "" if before is None else f" (was '{before}')"
                self.printer.text(f"'{name}' is now set to '{value}'{was}.")
            case s.UnsetProperty(name):
                if self.properties.pop(name, None) is None:
                    raise SqlError(f"found no value of '{name}', expected one that was SET")
                self.printer.text(f"'{name}' now has the server's own value.")

    def forget_sequence(self) -> None:
        """Drop the last command's sequence number, since another server has its own numbers."""
        self._sequence = None

    def body(self, text: str) -> dict[str, Any]:
        """The body of a request for a statement."""
        made: dict[str, Any] = {"ksql": text if text.endswith(";") else f"{text};"}
        made["streamsProperties"] = self.properties
        made["sessionVariables"] = self.variables
        if self._sequence is not None:
            made["commandSequenceNumber"] = self._sequence
        return made

    def _execute(self, statement: Statement) -> None:
        entities = self.rest.execute(self.body(statement.text))
        for entity in entities:
            self._sequence = max(self._sequence or -1, entity.get("commandSequenceNumber", -1))
            if (failure := failure_of(entity)) is not None:
                raise Refused(failure, 0, [])
        if entities or self.printer.output is Output.json:
            print_entities(self.printer, entities)

    def _query(self, statement: Statement) -> None:
        is_push = "EMIT" in statement.words
        try:
            with self.rest.rows(self.body(statement.text)) as events:
                if is_push and self.is_interactive:
                    self.printer.note("Ctrl-C ends the query")
                if self.printer.output is Output.json:
                    self._print_events(events)
                else:
                    self._print_rows(events, 1 if is_push else _SAMPLE_ROWS)
        except KeyboardInterrupt:
            raise Interrupted("the query has ended") from None

    def _print_events(self, events: Iterator[dict[str, Any]]) -> None:
        for event in events:
            _raise_error(event)
            self.printer.json_line(event)

    def _print_rows(self, events: Iterator[dict[str, Any]], sample: int) -> None:
        table: RowTable | None = None
        waiting: list[tuple[list[Any], bool]] = []
        for event in events:
            _raise_error(event)
            if "header" in event:
                table = RowTable(
                    event["header"]["schema"],
                    self.printer.width,
                    self.printer.text,
                    wrap=self.printer.wrap,
                    column_width=self.printer.column_width,
                )
            elif "row" in event and table is not None:
                waiting.append((event["row"]["columns"], event["row"].get("tombstone", False)))
                if len(waiting) >= sample:
                    table.add(waiting)
                    waiting, sample = [], 1
            elif "finalMessage" in event:
                self.printer.note(event["finalMessage"])
        if table is not None:
            table.add(waiting)

    def _print_topic(self, statement: Statement) -> None:
        try:
            with self.rest.lines(self.body(statement.text)) as lines:
                if self.is_interactive:
                    self.printer.note("Ctrl-C ends the printing")
                for line in lines:
                    if line:
                        self.printer.text(line)
        except KeyboardInterrupt:
            raise Interrupted("printing the topic has ended") from None


def _raise_error(event: dict[str, Any]) -> None:
    if error := event.get("errorMessage"):
        raise Refused(error.get("message", str(error)), error.get("error_code", 0), [])


def _located(message: str, statement: Statement, origin: str | None) -> str:
    """A message with the error's position in the whole script."""
    if origin is None:
        return message
    place = statement.place
    line, column = place.line, place.column
    if found := _PLACE.match(message):
        inner_line, inner_column = int(found[1]), int(found[2])
        line, column = line + inner_line - 1, inner_column + (column - 1 if inner_line == 1 else 0)
        message = message[found.end() :]
    return f"{origin}:{line}:{column}: {message}"
