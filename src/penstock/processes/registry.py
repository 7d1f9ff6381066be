"""A schema registry in a process beside several nodes.

It is an ordinary `penstock registry start` that connects to all nodes: it survives the loss of any of them,
and other registries started beside it share its group.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from penstock.processes.children import start_command
from penstock.processes.node import ClusterError
from penstock.processes.server import ServerProcess

READY: Final = "the schema registry is ready at "
"""How the line begins that the command prints once it serves."""
_LOG_TAIL_CHARACTERS: Final = 1024
_LOOK_S: Final = 0.05


class RegistryProcess(ServerProcess):
    """The process of a schema registry. Its output is appended to ``log_file``.

    ``command_config`` is the file with the properties by which it logs in to the brokers, ``config`` the one
    with its own. The latter decides the ``scheme`` and the ``advertised`` host of its URL.
    """

    log_file: Path

    def __init__(
        self,
        host: str,
        port: int,
        log_file: Path,
        command_config: Path | None = None,
        *,
        config: Path | None = None,
        scheme: str = "http",
        advertised: str | None = None,
    ) -> None:
        super().__init__("the schema registry", log_file)
        self.url = f"{scheme}://{_bracketed(advertised or host)}:{port}"
        self._listen = f"{_bracketed(host)}:{port}"
        self._command_config = command_config
        self._config = config
        self._log_start = 0

    def launch(self, servers: Sequence[str]) -> int:
        """Start the registry without waiting for it, and return its process id.

        All brokers should know of each other by now, since `_schemas` gets as many replicas as there are.
        """
        words = ["registry", "start", "--bootstrap", ",".join(servers), "--listen", self._listen]
        if self._command_config is not None:
            words += ["--command-config", str(self._command_config)]
        if self._config is not None:
            words += ["--config", str(self._config)]
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            self._process = start_command(words, stdout=log, stderr=log)
        return self._process.pid

    def await_ready(self, timeout_s: float) -> None:
        """Return once the registry's log says that it is ready. Raises ClusterError.

        Connecting to its address would prove nothing, since another process may listen there.
        """
        assert self._process is not None
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s and self._process.poll() is None:
            if READY in self._said():
                return
            time.sleep(_LOOK_S)
        tail = self._said()[-_LOG_TAIL_CHARACTERS:].strip()
        raise ClusterError(f"the schema registry at {self.url} has not started, log {self.log_file}: {tail}")

    def _said(self) -> str:
        """The registry's output since it was started."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")


def _bracketed(host: str) -> str:
    """The host as it stands in URLs."""
    return f"[{host}]" if ":" in host else host
