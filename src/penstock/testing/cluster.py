"""`Cluster`: start, kill and restart a real node from a test."""

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

READY = re.compile(r"ready on (\S+):(\d+)")
LOG_TAIL_BYTES = 4096

# What a test wants different from a production node: groups form at once, `__consumer_offsets` is made in a
# moment rather than with fifty partitions, and records with the times of a test's example stay, however old.
TEST_CONFIG: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.hours": "-1",
    "offsets.topic.num.partitions": "4",
}


class ClusterError(RuntimeError):
    """The node did not start or did not stop; the message ends with the tail of its log."""


class Cluster:
    """One Penstock node as a child process, on a free port of 127.0.0.1.

    A context manager; `start` and `close` serve where a `with` block does not fit. The port and the data
    survive `kill` and `restart`. The node ends when the test process ends, even if that one is killed.

    Args:
        config: Kafka configuration names and values, on top of `TEST_CONFIG`.
        data_dir: where the node keeps its data; left in place by `close`. Without it a temporary directory is
            made, and removed.
        port: where to listen; 0 picks a free port.
        start_timeout_s: how long `start` waits for the node to accept connections.
    """

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        *,
        data_dir: Path | str | None = None,
        port: int = 0,
        start_timeout_s: float = 30.0,
    ) -> None:
        self.config: dict[str, str] = {**TEST_CONFIG, **(config or {})}
        self._start_timeout_s = start_timeout_s
        self._scratch = Path(tempfile.mkdtemp(prefix="penstock-"))
        self._remove_scratch = weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self.data_dir = Path(data_dir) if data_dir is not None else self._scratch / "data"
        self.log_file = self._scratch / "node.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = port

    @property
    def bootstrap_servers(self) -> str:
        """`HOST:PORT`, for any Kafka client's `bootstrap.servers`."""
        if not self._port:
            raise ClusterError("the cluster was not started: use it in a with block, or call start() first")
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The node's process id."""
        if self._process is None:
            raise ClusterError("the node is not running")
        return self._process.pid

    def start(self) -> Self:
        """Start the node and return once it accepts connections."""
        if self._process is not None:
            raise ClusterError(f"the node runs already (pid {self._process.pid})")
        command = [sys.executable, "-m", "penstock.cli.child"]
        command += ["--data-dir", str(self.data_dir), "--listen", f"127.0.0.1:{self._port}"]
        for name, value in self.config.items():
            command += ["--set", f"{name}={value}"]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        self._port = self._await_ready(self._process)
        return self

    def stop(self, timeout_s: float = 30.0) -> None:
        """Shut the node down cleanly (SIGTERM) and wait for it; does nothing when it is not running."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ClusterError(
                f"the node did not stop within {timeout_s:g} s and was killed\n{self._log_tail()}"
            ) from None
        self._forget()

    def kill(self) -> None:
        """SIGKILL: the node gets no chance to write anything more."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._forget()

    def restart(self) -> None:
        """Start the node again on the same port and data, after `kill`, `stop`, or a clean stop made here."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the node and remove the data that this object made."""
        try:
            self.stop()
        finally:
            self._remove_scratch()

    def __enter__(self) -> Self:
        return self if self._process is not None else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _await_ready(self, process: subprocess.Popen[bytes]) -> int:
        assert process.stdout is not None
        deadline = time.monotonic() + self._start_timeout_s
        output = b""
        while (remaining_s := deadline - time.monotonic()) > 0:
            if not select.select([process.stdout], [], [], remaining_s)[0]:
                break
            chunk = os.read(process.stdout.fileno(), 4096)
            output += chunk
            if found := READY.search(output.decode(errors="replace")):
                return int(found[2])
            if not chunk:
                code = process.wait()
                self._forget()
                raise ClusterError(
                    f"the node ended with exit code {code} before it was ready\n{self._log_tail()}"
                )
        self.kill()
        raise ClusterError(f"the node was not ready within {self._start_timeout_s:g} s\n{self._log_tail()}")

    def _forget(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _log_tail(self) -> str:
        data = self.log_file.read_bytes() if self.log_file.exists() else b""
        return data[-LOG_TAIL_BYTES:].decode(errors="replace")
