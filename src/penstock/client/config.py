"""Server addresses and timeouts, under Kafka's client property names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.client.security.security_config import SecurityConfig
from penstock.client.settings import ConfigError, from_properties, setting, text, whole_number


class ServerAddress(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_servers(servers: str) -> tuple[ServerAddress, ...]:
    """Parse ``host:port,host:port``.

    IPv6 hosts need brackets; listener names such as ``PLAINTEXT://`` are allowed.
    """
    addresses = []
    for entry in filter(None, (part.strip() for part in servers.split(","))):
        host, colon, port = entry.rpartition("://")[2].rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(
                f"invalid entry {entry!r} in 'bootstrap.servers': expected host:port[,host:port...]"
            )
        addresses.append(ServerAddress(host, int(port)))
    if not addresses:
        raise ConfigError("'bootstrap.servers' is empty: expected host:port[,host:port...]")
    return tuple(addresses)


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientConfig(SecurityConfig):
    """A client's settings. Hashable, so that equal configurations can share connections."""

    servers: tuple[ServerAddress, ...]
    client_id: str = setting("client.id", "penstock", text)
    connect_timeout_ms: int = setting("socket.connection.setup.timeout.ms", 10_000, whole_number(1))
    request_timeout_ms: int = setting("request.timeout.ms", 30_000, whole_number(1))
    api_timeout_ms: int = setting("default.api.timeout.ms", 60_000, whole_number(1))
    retry_backoff_ms: int = setting("retry.backoff.ms", 100, whole_number(0))
    retry_backoff_max_ms: int = setting("retry.backoff.max.ms", 1_000, whole_number(0))
    metadata_max_age_ms: int = setting("metadata.max.age.ms", 300_000, whole_number(0))

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> ClientConfig:
        servers = properties.get("bootstrap.servers")
        if servers is None:
            raise ConfigError("'bootstrap.servers' is missing: expected host:port[,host:port...]")
        return from_properties(cls, properties, servers=parse_servers(servers))

    @property
    def servers_text(self) -> str:
        return ",".join(map(str, self.servers))
