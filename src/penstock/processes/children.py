"""Commands of Penstock as child processes, which end when their parent ends in any way.

The parent holds the write end of the child's standard input and writes nothing. When the parent ends, the
read end reports end-of-file, and the child shuts down. A child that is stopped at that moment (SIGSTOP) would
not notice, so the kernel sends it SIGCONT (`PR_SET_PDEATHSIG`). That signal cannot end a child by itself,
because it is also sent when only the *thread* that started the child ends.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, BinaryIO, Final, TypeVar

PROGRAM: Final = "penstock.cli.child"
"""The module that runs a command and calls `end_with_parent`."""

PR_SET_PDEATHSIG: Final = 1
"""The number of this operation of `prctl` in Linux's headers."""

T = TypeVar("T")


def start_command(
    words: Sequence[str], *, stdout: BinaryIO | int, stderr: BinaryIO | None
) -> subprocess.Popen[bytes]:
    """Start `penstock WORDS` in a session of its own, so that it gets no signals from the terminal.

    Without ``stderr``, the child writes to that of this process.
    """
    return subprocess.Popen(
        [sys.executable, "-m", PROGRAM, *words],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def read_until(stdout: IO[bytes], found: Callable[[str], T | None], timeout_s: float) -> T:
    """Read a child's output until it contains what ``found`` looks for, and return that.

    Raises:
        EOFError: the output ended before.
        TimeoutError: the time is over.
    """
    deadline_s = time.monotonic() + timeout_s
    output = b""
    while (remaining_s := deadline_s - time.monotonic()) > 0:
        if not select.select([stdout], [], [], remaining_s)[0]:
            break
        chunk = os.read(stdout.fileno(), 4096)
        output += chunk
        if (what := found(output.decode(errors="replace"))) is not None:
            return what
        if not chunk:
            raise EOFError
    raise TimeoutError


def end_with_parent() -> None:
    """Send this process SIGTERM once its parent has ended, even if this process is stopped at that moment."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
    threading.Thread(target=_stop_at_end_of_input, name="parent-watch", daemon=True).start()


def _stop_at_end_of_input() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
