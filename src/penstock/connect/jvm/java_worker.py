"""The process of Apache Kafka Connect's distributed worker, and its properties."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final
from urllib.parse import urlsplit

import javaproperties

from penstock.connect.client import ConnectClient, WorkerRefused, WorkerUnreachable
from penstock.connect.errors import ConfigInvalid, ConnectError
from penstock.connect.worker.properties import with_defaults

MAIN: Final = "org.apache.kafka.connect.cli.ConnectDistributed"
GROUP_ID: Final = "connect-jvm"
"""The default group, which is not that of Penstock's workers: each kind of worker has other plugins."""
_RUNTIME: Final = "connect-runtime-"
_CLIENTS: Final = ("producer.", "consumer.", "admin.")
_SECURITY: Final = ("security.", "sasl.", "ssl.")
_LOOK_S: Final = 0.2
_REQUEST_S: Final = 10.0
_STOP_S: Final = 60.0
_PR_SET_PDEATHSIG: Final = 1


def worker_jars(directories: Sequence[Path]) -> str:
    """Return the class path of directories with jars.

    Raises:
        ConfigInvalid: one is no directory, or none has the jar of Connect's worker.
    """
    for directory in directories:
        if not directory.is_dir():
            raise ConfigInvalid(f"{directory} is no directory, expected one with jars")
    if not any(any(each.glob(f"{_RUNTIME}*.jar")) for each in directories):
        listed = ", ".join(map(str, directories))
        raise ConfigInvalid(
            f"found no {_RUNTIME}….jar in {listed}, expected Kafka Connect's jars, as the directory libs of "
            "an Apache Kafka release has them"
        )
    return os.pathsep.join(f"{each}/*" for each in directories)


def worker_properties(properties: Mapping[str, str], plugin_path: Sequence[Path] = ()) -> dict[str, str]:
    """Return the properties of a Java worker, with the defaults of Penstock's workers and a group of its own.

    Its tasks log in to the brokers as the worker does, unless `producer.`, `consumer.` or `admin.` say else.
    """
    found = with_defaults({"group.id": GROUP_ID, **properties})
    logins = {name: value for name, value in found.items() if name.startswith(_SECURITY)}
    clients = {f"{client}{name}": value for client in _CLIENTS for name, value in logins.items()}
    if plugin_path:
        found["plugin.path"] = ",".join(str(each.absolute()) for each in plugin_path)
    return {**clients, **found}


class JavaWorker:
    """A worker that runs from `start` to `close`. It ends when this process ends, even by SIGKILL.

    Args:
        java: the program.
        class_path: that of `worker_jars`.
        options: the options of the JVM, such as ``-Xmx1g``.
        output: where its log goes.
    """

    def __init__(
        self,
        java: Path,
        class_path: str,
        options: Sequence[str],
        properties: Mapping[str, str],
        output: IO[str],
    ) -> None:
        self._command = [str(java), *options, "-cp", class_path, MAIN]
        self._properties = properties
        self._output = output
        self._directory = tempfile.TemporaryDirectory(prefix="penstock-connect-")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> JavaWorker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """The URL of the first listener of the REST API."""
        first = self._properties["listeners"].split(",")[0].strip()
        parts = urlsplit(first)
        return f"{parts.scheme.lower()}://{parts.hostname or '127.0.0.1'}:{parts.port}"

    def start(self) -> None:
        """Start the process. Call this in the main thread: the process ends when the thread ends."""
        file = Path(self._directory.name) / "worker.properties"  # in a directory that only this user may read
        with file.open("w", encoding="latin-1") as stream:
            javaproperties.dump(self._properties, stream, timestamp=False)
        self._process = subprocess.Popen(
            [*self._command, str(file)],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )

    def wait_until_ready(self, timeout_s: float, stopping: threading.Event) -> None:
        """Return once the REST API answers, or ``stopping`` is set.

        Raises:
            ConnectError: the process ended before, or the time is over.
        """
        client = ConnectClient(self.url, timeout_s=_REQUEST_S)
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            if stopping.wait(_LOOK_S):
                return
            if (code := self.ended()) is not None:
                raise ConnectError(f"the Java worker ended with exit code {code} before it was ready")
            try:
                client.ask("GET", ("connectors",))
            except WorkerRefused as error:
                if error.status in (401, 403):  # it serves, to those who log in
                    return
            except WorkerUnreachable:
                pass
            else:
                return
        raise ConnectError(f"the Java worker does not answer at {self.url} after {timeout_s:g} s")

    def ended(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        assert self._process is not None
        return self._process.poll()

    def close(self) -> None:
        """Stop the worker cleanly, or kill it if it does not stop within a minute."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._directory.cleanup()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
