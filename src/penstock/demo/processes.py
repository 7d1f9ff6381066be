"""The application's process as its parent manages it: start, progress, kill, restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.demo.driver import Settings

STOP_TIMEOUT_S: Final = 60.0


class ApplicationEnded(RuntimeError):
    """The application ended by itself; the message is the application's own."""


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The progress of the last reported batch.

    `records` counts all topics that the application reads, including its own; `state_bytes` is the size of
    Spark's state store.
    """

    batch: int
    records: int
    records_per_second: float
    batch_ms: int
    state_bytes: int


class Application:
    """One application across all of its processes. `kill` and `start` may be called alternately."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._said: dict[str, Any] = {}
        self.progress: BatchProgress | None = None
        self.starts = 0

    @property
    def started(self) -> dict[str, Any] | None:
        """The process's start report: seconds, and the versions of Spark and Java; None before the start."""
        return self._said if "started" in self._said else None

    def start(self) -> None:
        """Start a process, which resumes where the last one ended."""
        assert self._process is None, "the application runs"
        with Path(self._settings.log).open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock.demo.driver", self._settings.to_text()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._said = {}
        self.starts += 1
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        """Whether the current process is alive."""
        return self._process is not None and self._process.poll() is None

    def require_running(self) -> None:
        """Raise ApplicationEnded if the process has ended by itself."""
        if self._process is not None and not self.is_running:
            raise ApplicationEnded(self._last_words())

    def kill(self) -> None:
        """Send SIGKILL to the process and its JVM at any point; workers end with their JVM."""
        if self._process is not None:
            with suppress(ProcessLookupError):  # the process had already ended
                os.killpg(self._process.pid, signal.SIGKILL)
            self._forget()

    def stop(self) -> None:
        """Stop the process cleanly. Raises ApplicationEnded if it does not stop, or had failed before."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ApplicationEnded(f"the application did not stop within {STOP_TIMEOUT_S:g} s") from None
        if code:
            raise ApplicationEnded(self._last_words())
        self._forget()

    def _forget(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        process.wait()
        if self._reader is not None:
            self._reader.join(5)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _last_words(self) -> str:
        deadline = time.monotonic() + 5
        while "failed" not in self._said and time.monotonic() < deadline:
            time.sleep(0.05)
        return str(self._said.get("failed", f"the application ended; its log is {self._settings.log}"))

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if not line.startswith(b"{"):
                continue  # output of some library
            said = json.loads(line)
            if "batch" in said:
                self.progress = BatchProgress(**said)
            else:
                self._said = said
