"""A SQL server process with its JVM and Python workers, which tests kill and restart."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from query_processes import Process, processes

START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 60


class SqlServerProcess:
    """A process of `penstock sql server`. ``scratch`` contains its checkpoint and all output."""

    def __init__(self, servers: str, scratch: Path) -> None:
        self.checkpoint = scratch / "checkpoint"
        self._servers = servers
        self._log = scratch / "server.log"
        self._port_file = scratch / "port"
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        """Start the server without waiting; it continues where the last process stopped."""
        self._port_file.unlink(missing_ok=True)
        self.starts += 1
        words = ["sql", "server", "--bootstrap", self._servers, "--listen", "127.0.0.1:0"]
        words += ["--checkpoint", str(self.checkpoint), "--port-file", str(self._port_file)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    @property
    def is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.last_words()
        return self._port_file.exists() and self._port_file.read_text().endswith("\n")

    def wait_until_ready(self) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not self.is_ready:
            assert time.monotonic() < deadline_s, f"the server is not ready:\n{self.last_words()}"
            time.sleep(0.05)

    def kill(self) -> None:
        """Send SIGKILL to the server, its JVM and workers, and again to processes that started meanwhile."""
        process, self._process = self._process, None
        if process is None:
            return
        sessions = _sessions_below(process.pid)
        while members := [each for each in processes() if each.session in sessions]:
            for member in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)
            process.poll()
            time.sleep(0.01)
        process.wait()

    def stop(self) -> None:
        """Stop the server cleanly."""
        process = self._process
        assert process is not None
        process.terminate()
        try:
            assert process.wait(STOP_TIMEOUT_S) == 0, self.last_words()
        finally:
            self.kill()

    def run(self, text: str, **properties: str) -> list[dict[str, Any]]:
        """Run statements and return their entities."""
        named = {name.replace("_", "."): value for name, value in properties.items()}
        found: list[dict[str, Any]] = json.loads(
            self._post("/ksql", {"ksql": text, "streamsProperties": named})
        )
        return found

    def rows(self, text: str) -> list[list[Any]]:
        """Run a query that ends and return its rows."""
        answer = self._post("/query-stream", {"sql": text})
        return [json.loads(line) for line in answer.splitlines()[1:]]

    def _post(self, path: str, body: object) -> str:
        port = int(self._port_file.read_text())
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("POST", path, json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        assert answer.status == 200, text
        return text

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]


def _sessions_below(pid: int) -> set[int]:
    """The sessions of a process and its children; the JVM has a session of its own."""
    there = processes()
    return {each.session for each in _below(pid, there)} | {pid}


def _below(pid: int, there: Iterable[Process]) -> list[Process]:
    children = [each for each in there if each.parent == pid]
    return children + [found for child in children for found in _below(child.pid, there)]
