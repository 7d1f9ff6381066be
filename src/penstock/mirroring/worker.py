"""The process of a worker that runs a mirror's connector, and the requests to its REST API."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from penstock.connect.herding.worker_client import WorkerClient, WorkerUnreachable
from penstock.mirroring.errors import MirrorError
from penstock.processes.children import start_command
from penstock.processes.node import READY

_READY_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 30.0
_ANSWER_TIMEOUT_S: Final = 100.0
"""Longest wait for an answer: a worker itself may wait 90 s for its herder."""
_LOOK_S: Final = 0.05
_TAIL_CHARACTERS: Final = 2048
_CONFLICT: Final = 409
"""The status of answers while workers share connectors anew."""


class WorkerProcess:
    """One worker across all of its processes. `kill` and `launch` may be called alternately.

    Its output is appended to ``log_file``.
    """

    def __init__(self, properties_file: Path, log_file: Path) -> None:
        self._properties_file = properties_file
        self.log_file = log_file
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._client = WorkerClient(timeout_s=_ANSWER_TIMEOUT_S)
        self._url = ""
        self.starts = 0

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process, which runs."""
        assert self._process is not None, "the worker was not started"
        return self._process.pid

    def launch(self) -> None:
        """Start a process without waiting for it."""
        self._forget()
        self._url = ""
        words = ["connect", "start", "--config", str(self._properties_file), "--listen", "127.0.0.1:0"]
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            self._process = start_command(words, stdout=log, stderr=log)
        self.starts += 1

    @property
    def is_ready(self) -> bool:
        """Whether the process says that it is in its group."""
        if not self._url and (found := READY.search(self._said())):
            self._url = f"http://{found[1]}:{found[2]}"
        return bool(self._url) and self.is_running

    def await_ready(self) -> None:
        """Return once the worker is in its group. Raises MirrorError."""
        deadline_s = time.monotonic() + _READY_TIMEOUT_S
        while not self.is_ready:
            if not self.is_running or time.monotonic() > deadline_s:
                tail = " ".join(self._said()[-_TAIL_CHARACTERS:].split())
                raise MirrorError(f"the worker has not started, log {self.log_file}: {tail}")
            time.sleep(_LOOK_S)

    def put_connector(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector, or give it this configuration. Raises MirrorError."""
        deadline_s = time.monotonic() + _READY_TIMEOUT_S
        while True:
            status, answer = self._ask("PUT", f"/connectors/{quote(name, safe='')}/config", config)
            if status // 100 == 2:
                return
            if status != _CONFLICT or time.monotonic() > deadline_s:
                raise MirrorError(f"the worker refused the connector {name}: {answer['message']}")
            time.sleep(_LOOK_S)

    def failure(self, name: str) -> str | None:
        """Return why the connector or its task has failed; None if they run, or the worker is not ready."""
        if not self.is_ready:
            return None
        try:
            status, answer = self._ask("GET", f"/connectors/{quote(name, safe='')}/status")
        except MirrorError:
            return None  # it ends, which the next look finds out
        if status // 100 != 2:
            return None
        for part in (answer["connector"], *answer["tasks"]):
            if part["state"] == "FAILED":
                lines = [line for line in part.get("trace", "").splitlines() if line.strip()]
                return str(lines[-1].strip()) if lines else "it gives no reason"
        return None

    def restart_failed(self, name: str) -> None:
        """Start what has failed again; a worker that refuses is asked again with the next look."""
        path = f"/connectors/{quote(name, safe='')}/restart?includeTasks=true&onlyFailed=true"
        with suppress(MirrorError):
            self._ask("POST", path)

    def terminate(self) -> None:
        """Stop the worker and wait for it; a worker that does not stop in time is killed."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._forget()

    def kill(self) -> None:
        """Send SIGKILL; do nothing if no process runs."""
        if self._process is not None:
            self._process.kill()
            self._forget()

    def _forget(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.wait()
            if process.stdin is not None:
                process.stdin.close()

    def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        try:
            answer = self._client.ask(method, self._url + path, data)
        except WorkerUnreachable as error:
            raise MirrorError(f"the worker at {self._url} does not answer: {error}") from error
        found = json.loads(answer.body) if answer.body else None
        return answer.status, found

    def _said(self) -> str:
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")
