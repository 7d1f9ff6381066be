"""An engine with its host, as tests use it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from in_process_host import InProcessHost

from penstock.client.admin.topics import delete_topics
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as Client
from penstock.sql.engine import Engine, EngineConfig, EngineError
from penstock.sql.engine.ground.cluster_topics import Topics
from penstock.sql.engine.ground.entities import CommandStatusEntity, Entity, to_json
from penstock.sql.engine.reading.results import QueryResult, Row

T = TypeVar("T")


def eventually(found: Callable[[], T], wanted: Callable[[T], bool], timeout_s: float = 60.0) -> T:
    """Call ``found`` until its result is wanted or the time is over, and return the last result."""
    deadline = time.monotonic() + timeout_s
    while not wanted(result := found()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return result


def taken(result: QueryResult, count: int) -> list[Row]:
    """The next rows of a result."""
    found: list[Row] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        for row in result.rows(timeout_s=0.1):
            found.append(row)
            if len(found) == count:
                break
    return found


def topics_of(servers: str) -> set[str]:
    topics = Topics(ClientConfig.from_properties({"bootstrap.servers": servers}))
    try:
        return {each.name for each in topics.all()}
    finally:
        topics.close()


@contextmanager
def new_topics(servers: str) -> Iterator[str]:
    """Delete all topics that were created inside the context."""
    before = topics_of(servers)

    def made() -> set[str]:
        return {name for name in topics_of(servers) - before if not name.startswith("__")}

    try:
        yield servers
    finally:
        with Client(ClientConfig.from_properties({"bootstrap.servers": servers})) as client:
            delete_topics(client, list(made()))
        assert not eventually(made, lambda left: not left)


class Server:
    """A server of a new service. The properties are the engine's."""

    def __init__(self, servers: str, **properties: str) -> None:
        self.servers = servers
        given = {name.replace("__", "-").replace("_", "."): value for name, value in properties.items()}
        self.config = EngineConfig(
            servers,
            given.pop("service.id", f"{uuid4().hex}_"),
            registry_url=given.pop("registry.url", None),
            properties={"auto.offset.reset": "earliest", **given},
        )
        self._start()

    def _start(self) -> None:
        self.host = InProcessHost(self.servers)
        self.engine = Engine(self.config, self.host)
        self.engine.start()

    @classmethod
    def of(cls, config: EngineConfig) -> Server:
        made = cls.__new__(cls)
        made.servers, made.config = config.bootstrap_servers, config
        made._start()
        return made

    def close(self) -> None:
        self.engine.close()

    def restarted(self) -> Server:
        """Close this server and start another one of the same service."""
        self.close()
        return Server.of(self.config)

    def delete_topic(self, name: str) -> None:
        with Client(ClientConfig.from_properties({"bootstrap.servers": self.servers})) as client:
            delete_topics(client, [name])

    def run(self, text: str, **request: Any) -> list[Entity]:
        return self.engine.execute(text, **request)

    def one(self, text: str, **request: Any) -> dict[str, Any]:
        """The JSON of the only entity in the answer to a text."""
        [entity] = self.run(text, **request)
        made = to_json(entity)
        assert isinstance(made, dict)
        return made

    def message(self, text: str) -> str:
        """The message in the answer to a statement that changes something."""
        [entity] = self.run(text)
        assert isinstance(entity, CommandStatusEntity)
        assert entity.command_status.status == "SUCCESS"
        return entity.command_status.message

    def refused(self, text: str, match: str, **request: Any) -> EngineError:
        with pytest.raises(EngineError, match=match) as raised:
            self.engine.execute(text, **request)
        return raised.value

    def rows(self, text: str, properties: Mapping[str, str] | None = None) -> list[Row]:
        """All rows of a query that ends."""
        return list(self.engine.query(text, properties).rows())

    def settled(self, text: str, count: int) -> list[Row]:
        """The rows of a pull query, once there are at least this many."""
        return eventually(lambda: self.rows(text), lambda rows: len(rows) >= count)

    def becomes(self, text: str, wanted: list[Row]) -> None:
        """Wait until a pull query's rows are these, in any order."""
        in_order = sorted(wanted, key=repr)
        found = eventually(lambda: sorted(self.rows(text), key=repr), lambda rows: rows == in_order)
        assert found == in_order

    def topics(self) -> set[str]:
        return topics_of(self.servers)
