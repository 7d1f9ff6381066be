"""The configuration of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from penstock.client.config import ClientConfig
from penstock.client.settings import resolved
from penstock.sql.engine.ground.properties import OF_SERVER, Values, checked_properties


@dataclass(frozen=True)
class Backoff:
    """The pause after failures: it doubles with each failure, up to a maximum."""

    initial_ms: int
    max_ms: int

    def pause_s(self, failures: int) -> float:
        """The pause in seconds after so many failures in a row (at least one)."""
        return min(self.initial_ms * 2.0 ** min(failures - 1, 60), self.max_ms) / 1000


@dataclass(frozen=True)
class EngineConfig:
    """The settings of one engine.

    ``properties`` are ksqlDB's and those of Kafka's clients. Answers name this server by ``host``. Reading
    the settings raises EngineError for an unknown property, and ConfigError for a client's property whose
    value is invalid.
    """

    bootstrap_servers: str
    service_id: str = "default_"
    registry_url: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    host: str = "localhost:8088"

    @cached_property
    def server_properties(self) -> Mapping[str, str]:
        made = checked_properties(resolved(self.properties))
        made["bootstrap.servers"] = self.bootstrap_servers
        made["ksql.service.id"] = self.service_id
        if self.registry_url is not None:
            made["ksql.schema.registry.url"] = self.registry_url
        return made

    @property
    def client_properties(self) -> dict[str, str]:
        """The properties of the clients that connect the engine and its views to the cluster."""
        return {
            name: value for name, value in self.server_properties.items() if not name.startswith(OF_SERVER)
        }

    @property
    def client(self) -> ClientConfig:
        given = {"client.id": f"_confluent-ksql-{self.service_id}", **self.client_properties}
        return ClientConfig.from_properties(given)

    @property
    def values(self) -> Values:
        return Values((self.server_properties,))

    @property
    def retry_backoff(self) -> Backoff:
        """The pause before a failed query is retried."""
        values = self.values
        return Backoff(
            values.number("ksql.query.retry.backoff.initial.ms"),
            values.number("ksql.query.retry.backoff.max.ms"),
        )

    @property
    def command_topic(self) -> str:
        return f"_confluent-ksql-{self.service_id}_command_topic"

    @property
    def scripts(self) -> Path | None:
        """The folder of RUN SCRIPT's files; None if the server runs no scripts."""
        found = self.values.get("ksql.script.dir")
        return None if found is None else Path(found)
