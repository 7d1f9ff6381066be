"""A MariaDB server of the test's own, on loopback, with the binary log that change capture needs."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pymysql = pytest.importorskip("pymysql")

START_TIMEOUT_S = 60


def skip_without_server() -> None:
    """Skip the test if this machine has no MariaDB."""
    for program in ("mariadbd", "mariadb-install-db"):
        if shutil.which(program) is None:
            pytest.skip(f"MariaDB is not installed: there is no {program}")


class MariaServer(NamedTuple):
    """A server on 127.0.0.1, whose user root has no password."""

    port: int
    restart: Callable[[], None]
    """Kills the server and starts it again, which recovers from its log."""
    signal: Callable[[signal.Signals], None]
    """Sends a signal to the server."""

    def connect(self, database: str | None = None) -> Any:
        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            database=database,
            autocommit=True,
            charset="utf8mb4",
        )

    def properties(self, **more: str) -> dict[str, str]:
        """The configuration of a connector for this server."""
        return {
            "database.hostname": "127.0.0.1",
            "database.port": str(self.port),
            "database.user": "root",
            "poll.interval.ms": "50",
            "errors.retry.delay.initial.ms": "50",
            "errors.retry.delay.max.ms": "200",
            **{key.replace("_", "."): value for key, value in more.items()},
        }


@contextmanager
def mariadb_server(*options: str) -> Iterator[MariaServer]:
    """Run a server that can be restarted."""
    skip_without_server()
    user = _mysql_user() if os.getuid() == 0 else None
    directory = Path(tempfile.mkdtemp(prefix="penstock-mariadb-"))
    if user is not None:
        os.chown(directory, pwd.getpwnam(user).pw_uid, -1)
    data, temporary = directory / "data", directory / "temporary"
    temporary.mkdir()
    if user is not None:
        os.chown(temporary, pwd.getpwnam(user).pw_uid, -1)
    own = [] if user is None else [f"--user={user}"]
    subprocess.run(
        [
            *("mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db"),
            *("--auth-root-authentication-method=normal", *own),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=START_TIMEOUT_S,
    )
    port = _free_port()
    command = [
        *("mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={directory}/socket", f"--port={port}"),
        *(
            "--bind-address=127.0.0.1",
            "--server-id=1",
            "--log-bin=binlog",
            "--binlog-format=ROW",
            "--sql-mode=",
        ),
        *("--binlog-row-metadata=FULL", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M"),
        *("--character-set-server=utf8mb4", "--skip-name-resolve", "--default-time-zone=+00:00"),
        *(
            "--performance-schema=off",
            f"--tmpdir={temporary}",  # a server that starts deletes temporary tables of others there
            "--aria-pagecache-buffer-size=1M",
            "--key-buffer-size=1M",
            *own,
            *options,
        ),
    ]
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        log = (directory / "log").open("ab")
        processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        log.close()
        _wait_until_ready(port, processes[-1], directory / "log")

    def kill() -> None:
        process = processes[-1]
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait()

    def restart() -> None:
        kill()
        start()

    try:
        start()
        yield MariaServer(port, restart, lambda number: processes[-1].send_signal(number))
    finally:
        if processes:
            kill()
        shutil.rmtree(directory, ignore_errors=True)


def _wait_until_ready(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            pymysql.connect(host="127.0.0.1", port=port, user="root").close()
            return
        except pymysql.err.MySQLError:
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.02)


def _mysql_user() -> str | None:
    try:
        return pwd.getpwnam("mysql").pw_name
    except KeyError:
        pytest.skip("MariaDB refuses to run as root, and there is no user mysql")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
