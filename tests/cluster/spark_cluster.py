"""A Spark standalone cluster of real processes: a master, and workers that appear to be separate hosts.

Each worker has its own address in 127.0.0.0/8, because Spark starts the speculative copy of a task only on
another host.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark
from query_processes import processes

from penstock.spark.launching.java import find_java, launch_home

MASTER_HOST = "127.0.0.1"
WORKER_HOSTS = ("127.0.0.2", "127.0.0.3")
WORKER_CORES = 2
"""Enough for two applications at a time: a stopped one and its successor."""

START_TIMEOUT_S = 60
EXECUTOR = "CoarseGrainedExecutorBackend"
DAEMON_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dspark.ui.enabled=false"


class SparkCluster:
    """A context manager; `master` is its URL. Executors inherit `environment`, by default this process's."""

    def __init__(self, directory: Path, environment: Mapping[str, str] = os.environ) -> None:
        self._directory = directory
        self._environment = environment
        self._processes: list[subprocess.Popen[bytes]] = []
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self.master = ""

    def __enter__(self) -> Self:
        self._directory.mkdir()
        try:
            self._start("master", "master.Master", "--host", MASTER_HOST, "--port", "0", "--webui-port", "0")
            self.master = self._await("master", r"Starting Spark master at (spark://\S+)")
            for host in WORKER_HOSTS:
                self.add_worker(host)
            for host in WORKER_HOSTS:
                self._await(host, r"(Successfully registered) with master")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers first, because a worker stops its executors."""
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def add_worker(self, host: str) -> None:
        """Start a worker, which registers within two seconds and works in `work-<host>` of the directory."""
        words = ["--host", host, "--port", "0", "--webui-port", "0", "--cores", str(WORKER_CORES)]
        words += ["--memory", "4g", "--work-dir", str(self._directory / f"work-{host}"), self.master]
        self._workers[host] = self._start(host, "worker.Worker", *words)

    def kill_worker(self, host: str) -> None:
        """Send SIGKILL to the worker and all its processes at once, as if its machine had failed."""
        worker = self._workers.pop(host)
        while members := [p.pid for p in processes() if p.session == worker.pid]:
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            worker.poll()
            time.sleep(0.01)
        worker.wait()

    def kill_executors(self, host: str) -> int:
        """Send SIGKILL to the executors of a running worker and return their number."""
        session = self._workers[host].pid
        found = [p.pid for p in processes() if p.session == session and EXECUTOR in p.command]
        for pid in found:
            os.kill(pid, signal.SIGKILL)
        return len(found)

    def _start(self, name: str, kind: str, *words: str) -> subprocess.Popen[bytes]:
        command: Sequence[str | Path] = [
            Path(pyspark.__path__[0]) / "bin" / "spark-class",
            f"org.apache.spark.deploy.{kind}",
            *words,
        ]
        variables = {
            "JAVA_HOME": str(launch_home(find_java())),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_DAEMON_JAVA_OPTS": DAEMON_JAVA,
            "SPARK_DAEMON_MEMORY": "256m",
            # Tests may kill any number of executors.
            "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
        }
        with (self._directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**self._environment, **variables},
            )
        self._processes.append(process)
        return process

    def _await(self, name: str, pattern: str) -> str:
        """Wait for a log line that matches the pattern and return the pattern's group."""
        file = self._directory / f"{name}.log"
        deadline = time.monotonic() + START_TIMEOUT_S
        while (found := re.search(pattern, file.read_text(errors="replace"))) is None:
            assert time.monotonic() < deadline, file.read_text(errors="replace")[-3000:]
            time.sleep(0.05)
        return found[1]
