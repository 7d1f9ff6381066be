"""A Spark driver process with its Java process, Python workers and executors."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from exactly_once_query import CONTROL

START_TIMEOUT_S = 120
HERE = Path(__file__).parent
DAEMONS = ("penstock.spark.workers.daemon", "pyspark.daemon")
"""The modules that start Python workers, in local sessions and on clusters."""


class Process(NamedTuple):
    pid: int
    parent: int
    session: int
    command: str


def processes() -> list[Process]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            found.append(Process(int(entry.name), int(fields[1]), int(fields[3]), command))
    return found


class Driver:
    """One process of `exactly_once_query` and all processes it starts, which share a session.

    On a standalone cluster, workers of the cluster start the executors; the application's id identifies them.
    """

    def __init__(
        self,
        servers: str,
        checkpoint: Path,
        scratch: Path,
        master: str,
        shape: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        scratch.mkdir()
        self.control = scratch
        self.said: list[str] = []
        self._log = scratch / "driver.log"
        paths = [str(HERE), str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")]
        variables = {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "SPARK_SCALA_VERSION": "2.13",
            CONTROL: str(scratch),
        }
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    "import exactly_once_query; exactly_once_query.main()",
                    servers,
                    str(checkpoint),
                    str(scratch),
                    master,
                    shape,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                cwd=scratch,
                env=os.environ | variables | dict(environment or {}),
            )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.decode().rstrip())

    def outcomes(self) -> list[str]:
        """The outcomes of the batches that the sink has settled, in order."""
        try:
            return [line.split()[1] for line in (self.control / "outcomes").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def count(self, word: str) -> int:
        """The number of times the driver printed this line."""
        return sum(line.startswith(word) for line in list(self.said))

    def wait_for(self, word: str, times: int = 1, within_s: float = START_TIMEOUT_S) -> None:
        deadline = time.monotonic() + within_s
        while self.count(word) < times:
            assert time.monotonic() < deadline, f"the driver never said {word!r}:\n{self.last_words()}"
            time.sleep(0.02)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def _members(self) -> list[Process]:
        return [process for process in processes() if process.session == self._process.pid]

    def _java(self) -> int:
        [java] = [p.pid for p in self._members() if "org.apache.spark.deploy.SparkSubmit" in p.command]
        return java

    def kill_all(self) -> None:
        """Send SIGKILL to all processes at once, and again to those that started meanwhile."""
        while members := self._members():
            for member in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)
            self._process.poll()
            time.sleep(0.01)
        self._process.wait()

    def kill_java(self) -> None:
        """Kill only the driver's Java process; its Python workers may finish their work."""
        os.kill(self._java(), signal.SIGKILL)

    def kill_executor(self) -> None:
        """Kill one of the executors."""
        [said] = [line for line in list(self.said) if line.startswith("application")]
        mark = f"--app-id {said.split()[1]} "
        for executor in [p for p in processes() if mark in p.command and "ExecutorBackend" in p.command][:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(executor.pid, signal.SIGKILL)

    def kill_workers(self) -> None:
        """Kill the Python processes of the driver, which plan and commit."""
        members = self._members()
        java = self._java()
        daemons = {p.pid for p in members if p.parent == java and any(name in p.command for name in DAEMONS)}
        assert daemons, "found no daemon of Python workers"
        for member in members:
            if member.parent in daemons:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGKILL)

    def stop_all(self) -> None:
        """Send SIGSTOP to all processes."""
        for member in self._members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGSTOP)

    def continue_all(self) -> None:
        for member in self._members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(member.pid, signal.SIGCONT)

    def last_words(self) -> str:
        log = self._log.read_text(errors="replace")[-3000:]
        return "\n".join([*self.said[-5:], log])
