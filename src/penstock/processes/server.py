"""A server beside nodes as a child process: what the registry and the Connect worker have in common."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from penstock.processes.node import ClusterError

STOP_TIMEOUT_S: Final = 30.0


class ServerProcess:
    """The process of one server. Subclasses launch it.

    Its output is appended to ``log_file``; without one, it goes where the output of this process goes.
    """

    def __init__(self, name: str, log_file: Path | None) -> None:
        self.log_file = log_file
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None

    def __str__(self) -> str:
        return self._name

    def terminate(self) -> None:
        """Ask the server to stop cleanly (SIGTERM), without waiting for it."""
        if self._process is not None:
            self._process.terminate()

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Let the server leave its group and wait for it; do nothing if it is not running.

        Raises:
            ClusterError: it did not stop in time, and was killed.
        """
        if self._process is not None:
            self.terminate()
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise ClusterError(f"{self} did not stop within {timeout_s:g} s and was killed") from None
            self._forget()

    def kill(self) -> None:
        """Send SIGKILL; do nothing if the server is not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget()

    def _forget(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
