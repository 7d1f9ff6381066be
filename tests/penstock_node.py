"""A Penstock node started from a `server.properties` that a node of Apache Kafka would accept as well."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from penstock.processes.forked_nodes import ForkedNode, close_pipes, start_node
from penstock.processes.memory import bound_memory

START = [sys.executable, "-m", "penstock.cli.child", "start"]
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60

PROPERTIES: Mapping[str, str] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}


class PenstockNode:
    """A child process that ends with this one. `config` must name the node and its quorum.

    A data directory without `meta.properties` is formatted first, as *format_words* say. *environment* comes
    on top of this process's. `command`, `environment`, `config` and `address` may be changed between starts.
    """

    def __init__(
        self,
        directory: Path,
        *,
        cluster_id: str,
        port: int,
        format_words: Sequence[str] = (),
        config: Mapping[str, str],
        data_dir: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir or directory / "data"
        self.log_file = directory / "node.log"
        self.config = {**PROPERTIES, "log.dirs": str(self.data_dir), **config}
        self._cluster_id = cluster_id
        self.format_words = list(format_words)
        self.address = f"127.0.0.1:{port}"
        self.command = START
        self.environment = {**os.environ, **(environment or {})}
        self._properties_file = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | ForkedNode | None = None

    @property
    def bootstrap_servers(self) -> str:
        return self.address

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the node and return once it accepts connections."""
        self.launch()
        return self.await_ready()

    def launch(self) -> None:
        """Start the node without waiting: a node of a quorum is ready once the quorum has a leader."""
        assert self._process is None, "the node runs already"
        self._properties_file.write_text("".join(f"{name}={value}\n" for name, value in self.config.items()))
        if not (self.data_dir / "meta.properties").exists():
            self.format()
        with self.log_file.open("ab") as log:
            words = ["--config", str(self._properties_file)]
            if self.command == START:
                self._process = start_node(words, log, self.environment)
            else:
                self._process = subprocess.Popen(
                    [*self.command, *words],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                    env=self.environment,
                )
        bound_memory(self._process.pid)

    def await_ready(self) -> Self:
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        output = b""
        while b"ready on" not in output:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0 or not select.select([self._process.stdout], [], [], remaining_s)[0]:
                raise AssertionError(f"the node was not ready within {START_TIMEOUT_S} s:\n{self.log_tail()}")
            chunk = os.read(self._process.stdout.fileno(), 4096)
            if not chunk:
                raise AssertionError(f"the node ended before it was ready:\n{self.log_tail()}")
            output += chunk
        return self

    def format(self) -> None:
        words = ["storage", "format", "-t", self._cluster_id, "-c", str(self._properties_file)]
        done = subprocess.run(
            [sys.executable, "-m", "penstock", *words, *self.format_words],
            capture_output=True,
            text=True,
            timeout=STOP_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def stop(self) -> None:
        """Send SIGTERM and wait for the clean shutdown; do nothing if the node does not run."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the node did not stop:\n{self.log_tail()}") from None
        self._forget()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        assert self._process is not None, "the node does not run"
        self._process.kill()
        self._process.wait()
        self._forget()

    def kill_if_running(self) -> None:
        if self._process is not None:
            self.kill()

    def suspend(self) -> None:
        """Send SIGSTOP: the node stops answering, and its connections stay open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def log_tail(self) -> str:
        return self.log_file.read_text(errors="replace")[-6000:] if self.log_file.exists() else ""

    def _forget(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        close_pipes(process)
