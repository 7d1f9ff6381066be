"""The databases of the tests of SQL connectors: files of SQLite and DuckDB, and servers of their own."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from postgres_server import restartable_server

sqlalchemy = pytest.importorskip("sqlalchemy")

MARIADB = Path("/usr/sbin/mariadbd")
START_TIMEOUT_S = 60
DATABASES = ("sqlite", "duckdb", "postgresql", "mariadb")


def databases(*gate: str) -> list[Any]:
    """All databases as parameters of tests; the gate runs only those that are named."""
    return [kind if kind in gate else pytest.param(kind, marks=pytest.mark.long) for kind in DATABASES]


class SqlDatabase:
    """A database, its address, and a connection beside those of the connectors."""

    def __init__(self, kind: str, url: str, restart: Callable[[], None] | None = None) -> None:
        self.kind = kind
        self.url = url
        self._restart = restart
        pool = {"poolclass": sqlalchemy.pool.NullPool} if kind == "sqlite" else {"pool_pre_ping": True}
        self._engine = sqlalchemy.create_engine(url, **pool)

    def run(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with self._engine.begin() as connection:
            for each in statements:
                connection.execute(sqlalchemy.text(each))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sqlalchemy.text(query))]

    @contextmanager
    def transaction(self) -> Iterator[Callable[[str], object]]:
        """Begin a transaction, which ends with the block; gives what runs a statement in it."""
        with self._engine.begin() as connection:
            yield lambda statement: connection.execute(sqlalchemy.text(statement))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the whole file of SQLite."""
        with self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN EXCLUSIVE")
            yield

    def restart(self) -> None:
        """Kill the server and start it again."""
        assert self._restart is not None, f"{self.kind} has no server"
        self._restart()

    @property
    def new_name(self) -> str:
        """The name of a table that does not exist."""
        return f"t_{uuid.uuid4().hex[:10]}"


@contextmanager
def opened(kind: str) -> Iterator[SqlDatabase]:
    """Open a new database of a kind; skip the test if this machine has none."""
    with tempfile.TemporaryDirectory(prefix="penstock-sql-") as name:
        match kind:
            case "sqlite":
                yield SqlDatabase(kind, f"sqlite:///{name}/test.db")
            case "duckdb":
                pytest.importorskip("duckdb_engine")
                yield SqlDatabase(kind, f"duckdb:///{name}/test.duckdb")
            case "postgresql":
                pytest.importorskip("psycopg")
                with restartable_server() as server:
                    address = f"postgresql+psycopg://postgres@127.0.0.1:{server.port}/postgres"
                    yield SqlDatabase(kind, address, server.restart)
            case _:
                pytest.importorskip("pymysql")
                with running_mariadb(Path(name)) as (address, restart):
                    yield SqlDatabase(kind, address, restart)


@contextmanager
def running_mariadb(directory: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Run MariaDB on a free port; gives its address, and what kills and starts it again."""
    if not MARIADB.exists():
        pytest.skip(f"MariaDB is not installed: there is no {MARIADB}")
    user = None
    if os.getuid() == 0:
        try:
            user = pwd.getpwnam("mysql").pw_name
        except KeyError:
            pytest.skip("MariaDB refuses to run as root, and there is no user mysql")
        shutil.chown(directory, user)
    data = directory / "data"
    _run(
        [
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={data}",
            "--auth-root-authentication-method=normal",
        ],
        user,
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        *(str(MARIADB), "--no-defaults", f"--datadir={data}", f"--port={port}", "--bind-address=127.0.0.1"),
        *(f"--socket={directory}/socket", f"--pid-file={directory}/pid", "--skip-log-bin"),
        *(
            "--innodb-buffer-pool-size=32M",
            "--innodb-flush-log-at-trx-commit=2",
            "--skip-name-resolve",
            "--character-set-server=utf8mb4",
        ),
    ]
    address = f"mysql+pymysql://root@127.0.0.1:{port}/test"
    running: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        log = (directory / "log").open("ab")
        running.append(subprocess.Popen(command, user=user, stdout=log, stderr=log, stdin=subprocess.DEVNULL))
        _wait_until_ready(address, running[-1])

    def stop() -> None:
        running[-1].kill()
        running[-1].wait(START_TIMEOUT_S)

    def restart() -> None:
        stop()
        start()

    start()
    with sqlalchemy.create_engine(address).begin() as connection:
        connection.exec_driver_sql("CREATE DATABASE penstock")
    try:
        yield address.replace("/test", "/penstock"), restart
    finally:
        stop()


def _wait_until_ready(address: str, server: "subprocess.Popen[bytes]") -> None:
    engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.pool.NullPool)
    while True:
        try:
            engine.connect().close()
            return
        except sqlalchemy.exc.DBAPIError:
            try:
                server.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            raise


def _run(command: Sequence[str], user: str | None) -> None:
    subprocess.run(
        command,
        user=user,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=START_TIMEOUT_S,
    )
