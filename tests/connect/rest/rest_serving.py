"""Servers of the REST API with small herders, and requests to them."""

import contextlib
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from small_herder import SmallHerder

from penstock.connect.configs.worker import distributed_definition
from penstock.connect.herding.worker_client import WorkerClient
from penstock.connect.rest.server import RestServer
from penstock.connect.rest.settings import RestSettings

REQUIRED = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "g",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}
ON_A_FREE_PORT = {"listeners": "http://127.0.0.1:0"}


def settings_of(properties: Mapping[str, str]) -> RestSettings:
    return RestSettings.from_values(distributed_definition().parse({**REQUIRED, **properties}), properties)


class Served(NamedTuple):
    server: RestServer
    herder: SmallHerder

    @property
    def url(self) -> str:
        return self.server.urls[0]


@contextlib.contextmanager
def serving(
    properties: Mapping[str, str] | None = None, client: WorkerClient | None = None, timeout_s: float = 60.0
) -> Iterator[Served]:
    """Serve with these properties and a small herder. Requests and health checks have the same timeout."""
    settings = settings_of({**ON_A_FREE_PORT, **(properties or {})})
    server = RestServer(settings, client, timeout_s=timeout_s, health_timeout_s=timeout_s)
    try:
        herder = SmallHerder(server.worker_id)
        server.start(herder, CollectorRegistry())
        yield Served(server, herder)
    finally:
        server.close()


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def message(self) -> Any:
        """The message of an error, whose code is that of the status."""
        assert self.body["error_code"] == self.status
        return self.body["message"]


def ask(
    url: str,
    method: str = "GET",
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Send a request with a JSON body."""
    parts = urlsplit(url)
    connection = (
        http.client.HTTPSConnection(parts.netloc, timeout=60, context=tls)
        if parts.scheme == "https"
        else http.client.HTTPConnection(parts.netloc, timeout=60)
    )
    try:
        sent = dict(headers or {})
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        connection.request(method, f"{parts.path or '/'}?{parts.query}", data, sent)
        answer = connection.getresponse()
        text = answer.read()
        found = {name.lower(): value for name, value in answer.getheaders()}
        is_json = text and not found.get("content-type", "").startswith("text/")
        return Answer(answer.status, found, json.loads(text) if is_json else None)
    finally:
        connection.close()
