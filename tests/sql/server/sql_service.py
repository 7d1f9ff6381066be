"""A SQL server for tests, and its HTTP client."""

from __future__ import annotations

import http.client
import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from in_process_host import InProcessHost

from penstock.sql.engine import Engine, EngineConfig
from penstock.sql.server.server import SqlServer

KSQL_V1 = "application/vnd.ksql.v1+json"
DELIMITED = "application/vnd.ksqlapi.delimited.v1"


class Answer(NamedTuple):
    status: int
    type: str | None
    text: str

    @property
    def body(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Service:
    """A client of the server; ``ask`` sends a body as JSON, or a text as it is."""

    server: SqlServer
    bootstrap_servers: str

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = self.connection
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        try:
            connection.request(method, path, data, named)
            response = connection.getresponse()
            return Answer(response.status, response.getheader("content-type"), response.read().decode())
        finally:
            connection.close()

    def run(self, text: str, **body: Any) -> list[dict[str, Any]]:
        """The entities in the answer to statements, which must succeed."""
        answer = self.ask("POST", "/ksql", {"ksql": text, **body})
        assert answer.status == 200, answer.text
        found: list[dict[str, Any]] = answer.body
        return found

    def rows(self, text: str, **body: Any) -> list[list[Any]]:
        """The rows of a query that ends."""
        asked = {"sql": text, "properties": {"auto.offset.reset": "earliest"}, **body}
        answer = self.ask("POST", "/query-stream", asked)
        assert answer.status == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()[1:]]

    @contextmanager
    def stream(self, path: str, body: Any, **headers: str) -> Iterator[http.client.HTTPResponse]:
        """A response that is still being sent; leaving the context closes the connection."""
        connection = self.connection
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request("POST", path, json.dumps(body), named)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            yield response
        finally:
            connection.close()

    def made_stream(self, columns: str = "id INT KEY, name STRING", rows: int = 0) -> str:
        """Create a stream over a new topic, insert rows of the default columns, and return its name."""
        name = unique("S")
        self.run(
            f"CREATE STREAM {name} ({columns}) WITH (kafka_topic='{name}', partitions=1, format='json');"
        )
        if rows:
            values = "".join(f"INSERT INTO {name} VALUES ({n}, 'n{n}');" for n in range(rows))
            self.run(values)
        return name


def unique(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex[:10]}".upper()


@contextmanager
def served(bootstrap_servers: str, **properties: str) -> Iterator[Service]:
    """A server of a service of its own; ``properties`` have _ for each point."""
    service_id = f"{uuid.uuid4().hex[:8]}_"
    named = {name.replace("_", "."): value for name, value in properties.items()}
    config = EngineConfig(bootstrap_servers, service_id, properties=named)
    server = SqlServer(Engine(config, InProcessHost(bootstrap_servers)), port=0)
    server.start()
    try:
        yield Service(server, bootstrap_servers)
    finally:
        server.close()
