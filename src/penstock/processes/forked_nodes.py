"""Start nodes as forks of a process that has imported everything already (`penstock.cli.node_forker`).

A test process keeps one such process, which starts with its first node and ends with the test process.
`forker` is the other side, and documents the requests.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import BinaryIO, Final

FORKER: Final = "penstock.cli.node_forker"
IMPORTS_DEPEND_ON: Final = ("PYTHON", "PENSTOCK_", "LD_")
"""Prefixes of variables that modules read when they are imported; a change of one needs another forker."""
ANSWER_TIMEOUT_S: Final = 60.0
"""Limit on the time for a fork, and before the first one for the imports of the forker."""


class ForkedNode:
    """A node, with what `subprocess.Popen` has for a process: its pid, pipes, signals and exit code.

    ``end`` is the pipe from which the exit code is read.
    """

    def __init__(self, pid: int, stdin: BinaryIO, stdout: BinaryIO, end: BinaryIO) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.returncode: int | None = None
        self.end = end
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code, or None while the node runs."""
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the node. Raises `subprocess.TimeoutExpired`."""
        code = self._ended_within(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired([FORKER, str(self.pid)], timeout)
        return code

    def terminate(self) -> None:
        """Send SIGTERM, unless the node has ended."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, unless the node has ended."""
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the node has ended and another process may have its pid."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _ended_within(self, timeout_s: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self.end, select.POLLIN)
            if not poll.poll(None if timeout_s is None else timeout_s * 1000):
                return None
            with self._lock:
                if self.returncode is None:
                    # Without a code the forker was killed, and the node's exit code is lost.
                    self.returncode = int(self.end.read(16) or -signal.SIGKILL)
        return self.returncode


def close_pipes(process: ForkedNode | subprocess.Popen[bytes]) -> None:
    """Close the pipes of a node, however it was started; a node that runs ends then."""
    pipes = [process.stdin, process.stdout, *([process.end] if isinstance(process, ForkedNode) else [])]
    for pipe in pipes:
        if pipe is not None:
            pipe.close()


class _Forker:
    """The process that forks the nodes of this process; it starts with the first node."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._environment: dict[str, str] = {}

    def start(self, arguments: list[str], environment: Mapping[str, str], log: BinaryIO) -> ForkedNode:
        with self._lock:
            requests = self._started(environment)
            (node_stdin, stdin), (stdout, node_stdout), (end, node_end) = os.pipe(), os.pipe(), os.pipe()
            request = {"arguments": arguments, "environment": dict(environment), "directory": os.getcwd()}
            fds = [node_stdin, node_stdout, log.fileno(), node_end]
            pipes = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb"), os.fdopen(end, "rb", buffering=0)
            try:
                socket.send_fds(requests, [json.dumps(request).encode()], fds)
                answer = requests.recv(16)
                if not answer:
                    raise ConnectionResetError("it ended")
                return ForkedNode(int(answer), *pipes)
            except OSError as error:
                for pipe in pipes:
                    pipe.close()
                raise RuntimeError(f"{FORKER} did not fork a node: {error}") from error
            finally:
                for fd in (node_stdin, node_stdout, node_end):
                    os.close(fd)

    def prepare(self, environment: Mapping[str, str]) -> None:
        """Start the forker without waiting for its imports."""
        with self._lock:
            self._started(environment)

    def _started(self, environment: Mapping[str, str]) -> socket.socket:
        decisive = {name: value for name, value in environment.items() if name.startswith(IMPORTS_DEPEND_ON)}
        is_running = self._process is not None and self._process.poll() is None
        if self._requests is not None and is_running and decisive == self._environment:
            return self._requests
        self.close()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.settimeout(ANSWER_TIMEOUT_S)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", FORKER, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment,
                start_new_session=True,
            )
        self._environment = decisive
        return self._requests

    def close(self) -> None:
        """Let the forker end; its nodes go on."""
        if self._requests is not None:
            self._requests.close()
            self._requests = None


_forker = _Forker()


def start_node(
    arguments: list[str], log: BinaryIO, environment: Mapping[str, str] | None = None
) -> ForkedNode:
    """Start `penstock start` with these arguments; its standard error goes to `log`.

    The node ends when its standard input is closed, as it is when this process ends.
    """
    return _forker.start(arguments, os.environ if environment is None else environment, log)


def prepare_forks() -> None:
    """Let the process that forks nodes begin with its imports, while this one prepares the first node."""
    _forker.prepare(os.environ)


def _forget_forker() -> None:
    global _forker
    _forker = _Forker()


os.register_at_fork(after_in_child=_forget_forker)
