"""A worker of Kafka Connect's kind in a process beside nodes.

It is an ordinary `penstock connect start`. Its connectors run outside of the nodes' processes, so that they
cannot harm a node.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from penstock.processes.children import read_until, start_command
from penstock.processes.node import READY, ClusterError
from penstock.processes.server import ServerProcess


class ConnectProcess(ServerProcess):
    """The process of a Connect worker.

    Args:
        listen: the address of its REST API; None for that of ``config``, or the default.
        config: the file with the worker's properties.
        log_file: where its log is appended; None for the standard error output of this process.
    """

    def __init__(self, listen: str | None, config: Path | None, log_file: Path | None = None) -> None:
        super().__init__("the Connect worker", log_file)
        self._words = ["connect", "start"]
        if listen is not None:
            self._words += ["--listen", listen]
        if config is not None:
            self._words += ["--config", str(config)]

    def launch(self, servers: Sequence[str]) -> int:
        """Start the worker without waiting for it, and return its process id."""
        words = [*self._words, "--bootstrap", ",".join(servers)]
        if self.log_file is None:
            self._process = start_command(words, stdout=subprocess.PIPE, stderr=None)
        else:
            with self.log_file.open("ab") as log:
                self._process = start_command(words, stdout=subprocess.PIPE, stderr=log)
        return self._process.pid

    def await_ready(self, timeout_s: float) -> str:
        """Return the address of the REST API once the worker serves it. Raises ClusterError."""
        process = self._process
        assert process is not None
        assert process.stdout is not None
        log = "" if self.log_file is None else f", log {self.log_file}"
        try:
            return read_until(process.stdout, _address_in, timeout_s)
        except EOFError:
            code = process.wait()
            raise ClusterError(f"{self} ended with exit code {code} before it was ready{log}") from None
        except TimeoutError:
            raise ClusterError(f"{self} was not ready within {timeout_s:g} s{log}") from None

    def wait(self) -> int | None:
        """Wait for the end of the worker, and return its exit code; None if it is not running."""
        return None if self._process is None else self._process.wait()


def _address_in(output: str) -> str | None:
    found = READY.search(output)
    return f"{found[1]}:{found[2]}" if found else None
