"""The schema registry of `penstock start --brokers N --registry`: one process beside the nodes.

It is an ordinary `penstock registry start` on all of them: it outlives each, and others that are started
beside it share its group.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from penstock.cli.registry import READY
from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.client.errors import ClientError

_LOG_TAIL_CHARACTERS: Final = 1024
_LOOK_S: Final = 0.1


class CannotServe(Exception):
    """The registry has not started; the message says why."""


class RegistryProcess:
    """``log_file`` gets what it says."""

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
        """Start it once the brokers know of each other: `_schemas` gets as many replicas as there are then.

        Its process id. Raises CannotServe.
        """
        try:
            _await_brokers(servers, timeout_s)
        except ClientError as error:
            raise CannotServe(f"the schema registry can't start: {error}") from None
        words = ["registry", "start", "--bootstrap", ",".join(servers), "--listen", self._listen]
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock.cli.child", *words],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self._process.pid

    def await_ready(self, timeout_s: float) -> None:
        """Return once it says that it is ready: who answers at its address may be somebody else. Raises
        CannotServe.
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
        """Since it was started."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")


def _await_brokers(servers: list[str], timeout_s: float) -> None:
    """Return once each of the brokers knows all of them, or after so long. Raises ClientError."""
    deadline_s = time.monotonic() + timeout_s
    for server in servers:
        with Cluster(ClientConfig.from_properties({"bootstrap.servers": server})) as cluster:
            while len(cluster.refresh().brokers) < len(servers) and time.monotonic() < deadline_s:
                time.sleep(_LOOK_S)
