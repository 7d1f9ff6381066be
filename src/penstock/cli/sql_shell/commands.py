"""The shell's own commands, which need no semicolon."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cli.sql_shell.endings import Exit, Failed
from penstock.cli.sql_shell.printing import Output
from penstock.cli.sql_shell.rest import Refused
from penstock.cli.sql_shell.script import Statement

if TYPE_CHECKING:
    from penstock.cli.sql_shell.session import Session


_HELP: Final = (
    ("CREATE STREAM|TABLE … WITH (…)", "Declare a topic's columns and formats."),
    ("CREATE STREAM|TABLE … AS SELECT …", "Run a query that writes to a topic until it is terminated."),
    ("INSERT INTO … VALUES|SELECT …", "Write a row, or the rows of a query."),
    ("SELECT … [EMIT CHANGES]", "Query once, or follow the changes until Ctrl-C."),
    ("PRINT 'topic' [FROM BEGINNING] [LIMIT n]", "Show the records of a topic."),
    ("SHOW STREAMS|TABLES|TOPICS|QUERIES|…", "List them; also FUNCTIONS, PROPERTIES, TYPES, VARIABLES."),
    ("DESCRIBE source [EXTENDED]", "Show columns, readers and writers; also FUNCTION name."),
    ("EXPLAIN query id | statement", "Show the execution plan of a query."),
    ("PAUSE|RESUME|TERMINATE query id|ALL", "Pause, resume or end a query."),
    ("DROP STREAM|TABLE name [DELETE TOPIC]", "Remove a source, and with DELETE TOPIC its topic."),
    (
        "SET 'property'='value', UNSET 'property'",
        "Set or reset a property for the statements of this session.",
    ),
    ("DEFINE name='value', UNDEFINE name", "Set or remove a variable; ${name} stands for its value."),
    ("RUN SCRIPT 'file'", "Run the statements of a file."),
)
_LOCAL_HELP: Final = (
    ("HELP", "Show this help."),
    ("OUTPUT [TABLE|JSON]", "Show or set the format of answers."),
    ("SET CLI WRAP ON|OFF", "Wrap long values in rows, or cut them."),
    ("SET CLI COLUMN-WIDTH n", "Set the width of columns; 0 fits them to the terminal."),
    ("SPOOL file|OFF", "Also write the output to a file."),
    ("HISTORY", "Show the history of input."),
    ("SERVER [URL]", "Show or change the server."),
    ("VERSION", "Show the versions of the shell and the server."),
    ("CLEAR", "Clear the terminal."),
    ("EXIT, QUIT, Ctrl-D", "End the shell."),
)


def run_local(session: Session, statement: Statement) -> None:
    """Run a command of the shell. Raises Exit, Failed, Unreachable."""
    name, _, rest = statement.text.strip().rstrip(";").strip().partition(" ")
    try:
        arguments = shlex.split(rest)
    except ValueError as error:
        raise Failed(f"{statement.text}: {error}") from None
    _COMMANDS[name.upper()](session, arguments)


def _help(session: Session, _: list[str]) -> None:
    session.printer.text("Statements end with a semicolon and may span several lines.\n")
    session.printer.table(("STATEMENT", ""), _HELP)
    session.printer.text("")
    session.printer.table(("COMMAND", ""), _LOCAL_HELP)


def _exit(_: Session, __: list[str]) -> None:
    raise Exit


def _clear(session: Session, _: list[str]) -> None:
    session.printer.clear()


def _output(session: Session, arguments: list[str]) -> None:
    if arguments:
        wanted = arguments[0].lower()
        known = {"tabular": Output.table, **{each.value: each for each in Output}}
        if wanted not in known or len(arguments) > 1:
            raise Failed(f"OUTPUT: found {' '.join(arguments)}, expected TABLE or JSON")
        session.printer.output = known[wanted]
    session.printer.note(f"answers are shown as {session.printer.output.value}")


def _set_cli(session: Session, arguments: list[str]) -> None:
    match [each.upper() for each in arguments]:
        case ["CLI", "WRAP", ("ON" | "OFF") as told]:
            session.printer.wrap = told == "ON"
            session.printer.note(
                "long values continue on further lines" if told == "ON" else "long values are cut"
            )
        case ["CLI", "COLUMN-WIDTH", told] if told.isascii() and told.isdigit():
            session.printer.column_width = int(told)
            session.printer.note(f"columns are {told} wide" if int(told) else "columns fit the terminal")
        case _:
            raise Failed(
                f"SET {' '.join(arguments)}: expected SET CLI WRAP ON, SET CLI WRAP OFF or SET CLI "
                "COLUMN-WIDTH with a number"
            )


def _spool(session: Session, arguments: list[str]) -> None:
    before = session.printer.spooled_to
    match arguments:
        case []:
            session.printer.note("nothing is spooled" if before is None else f"output is written to {before}")
        case [path]:
            is_off = path.upper() == "OFF"
            try:
                session.printer.spool(None if is_off else Path(path).expanduser())
            except OSError as error:
                raise Failed(f"SPOOL: cannot write {path}: {error.strerror}") from error
            if not is_off:
                session.printer.note(f"output is written to {path} until SPOOL OFF")
            elif before is None:
                session.printer.note("nothing is spooled")
            else:
                session.printer.note(f"output is no longer written to {before}")
        case _:
            raise Failed("SPOOL: expected one file, or OFF")


def _history(session: Session, _: list[str]) -> None:
    for number, text in enumerate(session.history, 1):
        shown = text.replace("\n", "\n       ")
        session.printer.text(f"{number:5}  {shown}")


def _server(session: Session, arguments: list[str]) -> None:
    match arguments:
        case []:
            session.printer.text(session.rest.url)
        case [url]:
            try:
                rest = session.rest.at(url)
                told = rest.info()
            except (ValueError, Refused) as error:
                raise Failed(f"SERVER: {error}") from error
            session.rest = rest
            session.forget_sequence()
            session.printer.note(f"{rest.url}: version {told.get('version')}, {told.get('ksqlServiceId')}")
        case _:
            raise Failed("SERVER: expected one URL")


def _version(session: Session, _: list[str]) -> None:
    try:
        told = session.rest.info().get("version", "unknown")
    except Refused as error:
        raise Failed(str(error)) from error
    session.printer.text(f"Shell: {version('penstock')}\nServer: {told}")


_COMMANDS: Final[dict[str, Callable[[Session, list[str]], None]]] = {
    "HELP": _help,
    "EXIT": _exit,
    "QUIT": _exit,
    "CLEAR": _clear,
    "OUTPUT": _output,
    "SPOOL": _spool,
    "HISTORY": _history,
    "SERVER": _server,
    "SET": _set_cli,
    "VERSION": _version,
}
