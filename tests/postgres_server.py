"""A PostgreSQL server of its own for tests: a new data directory, loopback only, logical decoding on."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

PROGRAMS = Path("/usr/lib/postgresql/15/bin")
START_TIMEOUT_S = 60


def skip_without_server() -> None:
    """Skip the test if this machine has no PostgreSQL 15."""
    if not (PROGRAMS / "postgres").exists():
        pytest.skip(f"PostgreSQL 15 is not installed: {PROGRAMS} has no postgres")
    if os.getuid() == 0 and _postgres_user() is None:
        pytest.skip("PostgreSQL refuses to run as root, and there is no user postgres")


class RunningServer(NamedTuple):
    """A server on 127.0.0.1, with the superuser postgres and without passwords."""

    port: int
    restart: Callable[[], None]
    """Kills the server and starts it again, which recovers from its WAL."""

    def where(self, database: str) -> str:
        """The connection string of a database."""
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={database}"


@contextmanager
def running_server() -> Iterator[int]:
    """Run a server; gives its port."""
    with restartable_server() as server:
        yield server.port


@contextmanager
def restartable_server() -> Iterator[RunningServer]:
    """Run a server that can be restarted."""
    skip_without_server()
    user = _postgres_user() if os.getuid() == 0 else None
    directory = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    if user is not None:
        os.chown(directory, pwd.getpwnam(user).pw_uid, -1)
    data = directory / "data"
    _run(
        [PROGRAMS / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"],
        user,
    )
    port = _free_port()
    options = {
        "port": port,
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": directory,
        "wal_level": "logical",
        "max_replication_slots": 20,
        "max_wal_senders": 20,
        "shared_buffers": "16MB",
        "fsync": "off",
        "full_page_writes": "off",
        "timezone": "UTC",
        "wal_sender_timeout": "60s",
        "max_prepared_transactions": 5,
        "track_commit_timestamp": "on",
    }
    settings = " ".join(f"-c {name}={value}" for name, value in options.items())
    control = [PROGRAMS / "pg_ctl", "-D", data, "-w", "-t", str(START_TIMEOUT_S), "-l", directory / "log"]
    start = [*control, "-o", settings, "start"]
    stop = [*control, "-m", "immediate", "stop"]

    def restart() -> None:
        _run(stop, user)
        _run(start, user)

    _run(start, user)
    try:
        yield RunningServer(port, restart)
    finally:
        _run(stop, user)
        shutil.rmtree(directory, ignore_errors=True)


def _run(command: list[object], user: str | None) -> None:
    subprocess.run(
        [str(part) for part in command],
        user=user,
        group=user,
        extra_groups=[] if user else None,
        check=True,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=START_TIMEOUT_S,
    )


def _postgres_user() -> str | None:
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        return None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
