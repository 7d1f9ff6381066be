"""Commands of Penstock as child processes, which end when their parent ends in any way.

The parent holds the write end of the child's standard input and writes nothing. When the parent ends, the
read end reports end-of-file, and the child shuts down. (`PR_SET_PDEATHSIG` would not work: it fires when the
*thread* that started the child ends.)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import BinaryIO, Final

PROGRAM: Final = "penstock.cli.child"
"""The module that runs a command and calls `end_with_parent`."""


def start_command(
    words: Sequence[str], *, stdout: BinaryIO | int, stderr: BinaryIO
) -> subprocess.Popen[bytes]:
    """Start `penstock WORDS` in a session of its own, so that it gets no signals from the terminal."""
    return subprocess.Popen(
        [sys.executable, "-m", PROGRAM, *words],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def end_with_parent() -> None:
    """Send this process SIGTERM once its parent has ended."""
    threading.Thread(target=_stop_at_end_of_input, name="parent-watch", daemon=True).start()


def _stop_at_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
