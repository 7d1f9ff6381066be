"""The schema registry of `penstock start --brokers N --registry`: one process beside the nodes.

It is an ordinary `penstock registry start` that connects to all nodes: it survives the loss of any of them,
and other registries started beside it share its group.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Final

from penstock.cli.registry import READY
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ClientError
from penstock.processes.children import start_command

_LOG_TAIL_CHARACTERS: Final = 1024
_LOOK_S: Final = 0.1


class CannotServe(Exception):
    """The registry did not start; the message says why."""


class RegistryProcess:
    """The process of a schema registry. Its output is appended to ``log_file``."""

    def __init__(self, host: str, port: int, log_file: Path) -> None:
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{port}"
        self.log_file = log_file
        self._listen = f"{shown}:{port}"
        self._log_start = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __str__(self) -> str:
        return "the schema registry"

    def launch(self, servers: list[str], timeout_s: float) -> int:
        """Start the registry and return its process id. Raises CannotServe.

        It starts once the brokers know of each other, since `_schemas` gets as many replicas as there are
        brokers then.
        """
        try:
            _await_brokers(servers, timeout_s)
        except ClientError as error:
            raise CannotServe(f"the schema registry can't start: {error}") from None
        words = ["registry", "start", "--bootstrap", ",".join(servers), "--listen", self._listen]
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            self._process = start_command(words, stdout=log, stderr=log)
        return self._process.pid

    def await_ready(self, timeout_s: float) -> None:
        """Return once the registry's log says that it is ready. Raises CannotServe.

        Connecting to its address would prove nothing, since another process may listen there.
        """
        assert self._process is not None
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s and self._process.poll() is None:
            if READY in self._said():
                return
            time.sleep(_LOOK_S)
        tail = self._said()[-_LOG_TAIL_CHARACTERS:].strip()
        raise CannotServe(f"the schema registry at {self.url} has not started, log {self.log_file}: {tail}")

    def _said(self) -> str:
        """The registry's output since it was started."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")


def _await_brokers(servers: list[str], timeout_s: float) -> None:
    """Return once each of the brokers knows all of them, or after the timeout. Raises ClientError."""
    deadline_s = time.monotonic() + timeout_s
    for server in servers:
        with Cluster(ClientConfig.from_properties({"bootstrap.servers": server})) as cluster:
            while len(cluster.refresh().brokers) < len(servers) and time.monotonic() < deadline_s:
                time.sleep(_LOOK_S)
