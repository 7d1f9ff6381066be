"""The interactive prompt: input of one or more lines, until `EXIT`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from penstock.cli.sql_shell.completion import Names, SqlCompleter
from penstock.cli.sql_shell.endings import Exit, Failed, Interrupted
from penstock.cli.sql_shell.rest import Unreachable
from penstock.cli.sql_shell.script import is_complete
from penstock.cli.sql_shell.session import Session

_PROMPT: Final = "sql> "
_MORE: Final = "...> "


def interact(session: Session, history: Path) -> None:
    """Read and run statements until EXIT or Ctrl-D; errors are printed and do not end the loop."""
    session.is_interactive = True
    names = Names(session)
    line: PromptSession[str] = PromptSession(
        history=_kept(session, history),
        completer=SqlCompleter(names),
        complete_in_thread=True,
        auto_suggest=AutoSuggestFromHistory(),
        key_bindings=_keys(),
        multiline=True,
        prompt_continuation=_MORE,
    )
    session.history = list(reversed(list(line.history.load_history_strings())))
    while True:
        try:
            text = line.prompt(_PROMPT)
        except KeyboardInterrupt:
            continue  # Ctrl-C drops the line
        except EOFError:
            return
        if text.strip():
            session.history.append(text)
        try:
            _run(session, text)
        except Exit:
            return
        names.forget()


def _kept(session: Session, path: Path) -> History:
    try:
        path.touch(mode=0o600)
    except OSError as error:
        session.printer.note(f"the history is not saved: cannot write {path}: {error.strerror}")
        return InMemoryHistory()
    return FileHistory(str(path))


def _run(session: Session, text: str) -> None:
    """Run the statements of one input and print errors. Raises Exit."""
    try:
        session.carry_out(text)
    except (Failed, Unreachable) as error:
        session.printer.error(str(error))
    except Interrupted as error:
        session.printer.note(str(error))
    except KeyboardInterrupt:
        session.printer.note("interrupted: the statement may still be executed")


def _keys() -> KeyBindings:
    """Make Enter submit a complete statement, and add a line to an incomplete one."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.newline()

    return keys
