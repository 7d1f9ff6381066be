"""Statements about connectors, at a worker of Connect and at a server that records requests."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from uuid import uuid4

import pytest
from engine_server import Server, eventually

from penstock.connect.worker import Worker
from penstock.connect.worker import start as start_worker
from penstock.sql.engine.ground.errors import ErrorCode

LINES = """
    CREATE SOURCE CONNECTOR lines WITH (
        'connector.class'='FileStreamSource', 'file'='{file}', 'topic'='{topic}', "tasks.max"=1,
        'value.converter'='org.apache.kafka.connect.storage.StringConverter'
    );
"""


@pytest.fixture(scope="module")
def worker(penstock_cluster: Any) -> Iterator[Worker]:
    properties = {
        "bootstrap.servers": penstock_cluster.bootstrap_servers,
        "group.id": f"sql-{uuid4().hex[:8]}",
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        "listeners": "http://127.0.0.1:0",
    }
    with start_worker(properties) as worker:
        worker.wait_until_ready()
        yield worker


@pytest.fixture
def server(worker: Worker, start: Callable[..., Server]) -> Server:
    return start(**{"ksql.connect.url": worker.url})


def test_the_life_of_a_connector(server: Server, tmp_path: Path) -> None:
    file, topic = tmp_path / "lines.txt", f"lines-{uuid4().hex[:8]}"
    file.write_text("tea\nmilk\n")
    create = LINES.format(file=file, topic=topic)
    made = server.one(create)
    assert made["@type"] == "connector_info"
    assert made["info"]["name"] == "LINES"
    assert made["info"]["type"] == "source"
    assert made["info"]["config"] == {
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": topic,
        "tasks.max": "1",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "name": "LINES",
    }
    assert made["statementText"] == (
        "CREATE SOURCE CONNECTOR LINES WITH ('connector.class' = 'FileStreamSource', 'file' = '[string]', "
        "'topic' = '[string]', 'tasks.max' = '[string]', 'value.converter' = '[string]');"
    )

    running = {
        "name": "LINES",
        "type": "source",
        "className": "FileStreamSource",
        "state": "RUNNING (1/1 tasks RUNNING)",
    }
    listed = eventually(
        lambda: server.one("SHOW CONNECTORS;"), lambda found: found["connectors"] == [running]
    )
    assert listed["@type"] == "connector_list"
    assert listed["connectors"] == [running]
    assert server.one("SHOW SOURCE CONNECTORS;")["connectors"] == [running]
    assert server.one("LIST SINK CONNECTORS;")["connectors"] == []

    eventually(lambda: topic in server.topics(), bool)
    server.run(f"CREATE STREAM words (word STRING) WITH (kafka_topic='{topic}', value_format='KAFKA');")
    described = eventually(
        lambda: server.one("DESCRIBE CONNECTOR lines;"), lambda found: found["topics"] != []
    )
    assert described["@type"] == "connector_description"
    assert described["connectorClass"] == "FileStreamSource"
    assert described["topics"] == [topic]
    assert [each["name"] for each in described["sources"]] == ["WORDS"]
    assert described["status"]["tasks"][0]["state"] == "RUNNING"

    assert server.refused(create, "Connector LINES already exists").code is ErrorCode.CONFLICT
    again = create.replace("CONNECTOR", "CONNECTOR IF NOT EXISTS")
    warning = server.one(again)
    assert (warning["@type"], warning["message"]) == ("warning_entity", "Connector LINES already exists")

    dropped = server.one("DROP CONNECTOR lines;")
    assert (dropped["@type"], dropped["connectorName"]) == ("drop_connector", "LINES")
    error = server.refused("DROP CONNECTOR lines;", "Failed to drop connector: ")
    assert error.code is ErrorCode.NOT_FOUND
    warning = server.one("DROP CONNECTOR IF EXISTS lines;")
    assert warning["message"] == "Connector 'LINES' does not exist."
    assert server.refused("DESCRIBE CONNECTOR lines;", "Failed to query").code is ErrorCode.NOT_FOUND


def test_plugins_are_listed(server: Server) -> None:
    found = server.one("SHOW CONNECTOR PLUGINS;")
    assert found["@type"] == "connector_plugins_list"
    names = {each["className"]: each["type"] for each in found["connectorsPlugins"]}
    assert names["org.apache.kafka.connect.file.FileStreamSinkConnector"] == "sink"


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ("'file'='x'", "contains no connector type"),
        ("'connector.class'=' '", "Connector type cannot be empty"),
        ("'connector.class'='FileStreamSource', 'password'='tiger'", "topic - Missing required config"),
        ("'connector.class'='Nothing'", "Failed to find any class"),
    ],
)
def test_a_faulty_configuration_is_refused_before_anything_is_done(
    server: Server, properties: str, told: str
) -> None:
    stream = "CREATE STREAM s (id INT KEY) WITH (kafka_topic='s', partitions=1, value_format='JSON');"
    error = server.refused(f"{stream} CREATE SOURCE CONNECTOR c WITH ({properties});", told)
    assert error.code is ErrorCode.BAD_STATEMENT
    assert "tiger" not in str(error.statement_text)
    assert server.one("SHOW STREAMS;")["streams"] == []


def test_a_cluster_that_does_not_answer_is_named(start: Callable[..., Server]) -> None:
    server = start(**{"ksql.connect.url": "http://127.0.0.1:1"})
    error = server.refused("SHOW CONNECTORS;", "Failed to list connectors: no worker of Connect answers at")
    assert error.code is ErrorCode.SERVER_ERROR
    assert "ksql.connect.url=http://127.0.0.1:1" in error.message


class Recorder(BaseHTTPRequestHandler):
    """Answers as a worker without connectors, and keeps the bodies and logins of requests."""

    asked: ClassVar[list[tuple[str, str, str | None, Any]]] = []

    def do_GET(self) -> None:
        self.reply(200, [])

    def do_PUT(self) -> None:
        self.reply(200, {"configs": []})

    def do_POST(self) -> None:
        self.reply(201, {"name": "j", "config": {}, "tasks": [], "type": "source"})

    def reply(self, status: int, body: Any) -> None:
        length = int(self.headers.get("content-length", 0))
        asked = json.loads(self.rfile.read(length)) if length else None
        self.asked.append((self.command, self.path, self.headers.get("authorization"), asked))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        """Requests are no news."""


def test_the_key_of_a_jdbc_source_and_the_login(start: Callable[..., Server], tmp_path: Path) -> None:
    credentials = tmp_path / "credentials.properties"
    credentials.write_text("username=ann\npassword=secret\n")
    jdbc = "io.confluent.connect.jdbc.JdbcSourceConnector"
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as recorder:
        Thread(target=recorder.serve_forever, daemon=True).start()
        server = start(
            **{
                "ksql.connect.url": f"http://127.0.0.1:{recorder.server_port}",
                "ksql.connect.basic.auth.credentials.source": "FILE",
                "ksql.connect.basic.auth.credentials.file": str(credentials),
            }
        )
        server.run(
            f"CREATE SOURCE CONNECTOR j WITH ('connector.class'='{jdbc}', "
            "'key'='id', 'transforms'='a', 'b'=true, 'c'=-1.50);"
        )
        recorder.shutdown()
    posted = [asked for method, _, _, asked in Recorder.asked if method == "POST"]
    assert posted == [
        {
            "name": "J",
            "config": {
                "connector.class": jdbc,
                "tasks.max": "1",
                "b": "true",
                "c": "-1.50",
                "transforms": "a,ksqlCreateKey,ksqlExtractString",
                "transforms.ksqlCreateKey.type": "org.apache.kafka.connect.transforms.ValueToKey",
                "transforms.ksqlCreateKey.fields": "id",
                "transforms.ksqlExtractString.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
                "transforms.ksqlExtractString.field": "id",
                "name": "J",
            },
        }
    ]
    login = f"Basic {base64.b64encode(b'ann:secret').decode()}"
    assert {given for _, _, given, _ in Recorder.asked} == {login}
