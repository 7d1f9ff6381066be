"""`penstock sql server` on a secured cluster, as a user with the permissions that docs/security.md names."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from stored_contents import contents_of
from typer.testing import CliRunner

from application_acls import acls_of
from penstock.cli import sql
from penstock.testing import Cluster, Security
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

READY_S = 180.0
TIMEOUT_S = 120
FIRST, SECOND = "hidden-4711", "hidden-0815"
ACLS = [
    *acls_of("SQL server", "sql", ID="default_"),
    *acls_of("topics of SQL statements", "sql", TOPIC="orders"),
    *acls_of("topics of SQL statements", "sql", TOPIC="TOTALS"),
]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(security=Security({"sql": FIRST}, ACLS)) as cluster:
        cluster.admin_client().create_topics([NewTopic("orders", 2, 1)])["orders"].result(TIMEOUT_S)
        yield cluster


@contextmanager
def server(cluster: Cluster, folder: Path) -> Iterator[str]:
    """The URL of a SQL server, which logs in as the user sql."""
    port_file = folder / "port"
    port_file.unlink(missing_ok=True)
    words = [
        *("sql", "server", "--bootstrap", cluster.bootstrap_servers, "--listen", "127.0.0.1:0"),
        *("--command-config", str(cluster.properties_file("sql")), "--master", "local[2]"),
        *("--checkpoint", str(folder / "checkpoint"), "--log", str(folder / "log")),
        *("--port-file", str(port_file), "--log-level", "debug"),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with (folder / "stderr").open("ab") as stderr:
        process = subprocess.Popen([sys.executable, "-m", "penstock", *words], env=environment, stderr=stderr)
    try:
        wait_until(lambda: port_file.exists() or process.poll() is not None, READY_S)
        assert process.poll() is None, (folder / "stderr").read_text()
        yield f"http://127.0.0.1:{port_file.read_text().strip()}"
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()


def asked(url: str, text: str) -> str:
    done = CliRunner().invoke(sql.app, ["--server", url, "--set", "auto.offset.reset=earliest", "-e", text])
    assert done.exit_code == 0, done.output
    return done.stdout


def total(url: str, count: int) -> bool:
    return asked(url, "SELECT n FROM totals WHERE k = 'tea';").split()[2:] == [str(count)]


def test_a_server_through_a_change_of_its_password(cluster: Cluster, tmp_path: Path) -> None:
    producer = Producer(cluster.client_settings())
    with server(cluster, tmp_path) as url:
        asked(
            url,
            "CREATE STREAM orders (k STRING KEY, v INT) "
            "WITH (kafka_topic='orders', key_format='kafka', value_format='json');"
            "CREATE TABLE totals AS SELECT k, COUNT(*) AS n FROM orders GROUP BY k;"
            "INSERT INTO orders VALUES ('tea', 1);",
        )
        wait_until(partial(total, url, 1), TIMEOUT_S)
        assert FIRST not in asked(url, "SHOW PROPERTIES;")
        assert "tea" in asked(url, "PRINT orders FROM BEGINNING LIMIT 1;")
    cluster.add_user("sql", SECOND)
    with server(cluster, tmp_path) as url:
        producer.produce("orders", b'{"v": 2}', b"tea")
        assert producer.flush(TIMEOUT_S) == 0
        wait_until(partial(total, url, 2), TIMEOUT_S)
        asked(url, "DROP TABLE totals DELETE TOPIC; DROP STREAM orders;")
        gone = cluster.admin_client()
        wait_until(lambda: not [each for each in gone.list_topics().topics if "TOTALS" in each], TIMEOUT_S)
    for file, content in contents_of(tmp_path):
        assert FIRST.encode() not in content, file
        assert SECOND.encode() not in content, file
