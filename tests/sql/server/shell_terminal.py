"""`penstock sql` with pipes, and as a process on a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from typer.testing import CliRunner, Result

from penstock.cli import sql

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>]|\r")


def environment(home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "PENSTOCK_SQL_HISTORY": str(home / "history"),
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "TERM": "xterm",
        "COLUMNS": "100",
    }


def command(url: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "sql", *words(url, *arguments)]


def words(url: str, *arguments: str) -> list[str]:
    return ["--server", url, *arguments]


def run_shell(url: str, home: Path, *arguments: str, text: str = "") -> Result:
    """Run the shell in this process: another takes most of a second to start. ``text`` is its input."""
    with contextlib.chdir(home):
        return CliRunner().invoke(sql.app, words(url, *arguments), input=text, env=environment(home))


class Terminal:
    """The shell on a terminal of 100 columns; a test reads its output up to an expected text."""

    def __init__(self, url: str, home: Path, *arguments: str) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.process = subprocess.Popen(
            command(url, *arguments),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment(home),
            cwd=home,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        os.set_blocking(self._master, False)
        self._unread = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self._master)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def enter(self, text: str) -> None:
        self.type(f"{text}\r")

    def read_until(self, wanted: str, timeout_s: float = 60.0) -> str:
        """Return the output up to and including ``wanted``."""
        deadline_s = time.monotonic() + timeout_s
        while wanted not in self._unread:
            assert time.monotonic() < deadline_s, f"{wanted!r} is not in {self._unread!r}"
            try:
                self._unread = _ESCAPE.sub("", self._unread + os.read(self._master, 65536).decode())
            except BlockingIOError:
                time.sleep(0.02)
            except OSError as error:  # the shell has ended
                raise AssertionError(f"{wanted!r} is not in {self._unread!r}") from error
        shown, _, self._unread = self._unread.partition(wanted)
        return shown + wanted

    def wait(self) -> int:
        return self.process.wait(30)
