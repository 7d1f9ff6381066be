"""Convert the broker configs to the settings of the parts below, which do not know the table of keys."""

from __future__ import annotations

from penstock.broker.network.server import ServerLimits
from penstock.broker.peers import PeerSettings
from penstock.broker.quotas.address_rates import address_of
from penstock.broker.quotas.connections import ConnectionLimits, ListenerLimits
from penstock.broker.quotas.rate import Window
from penstock.metadata.configs import BrokerConfig, InvalidConfig
from penstock.storage.compaction.config import CleanerConfig
from penstock.storage.directories.config import LogManagerConfig

KAFKA_SOCKET_BUFFER_BYTES = 102400
"""Kafka's default for both buffers. Setting it would disable the kernel's own tuning, so it is not set."""


def server_limits(config: BrokerConfig) -> ServerLimits:
    """Return the server's limits. Raises InvalidConfig for overrides that are not `address:count` pairs."""
    return ServerLimits(
        socket_request_max_bytes=config.get_int("socket.request.max.bytes"),
        queued_max_request_bytes=config.get_int("queued.max.request.bytes"),
        connections_max_idle_ms=config.get_int("connections.max.idle.ms"),
        connections=_connection_limits(config),
        socket_send_buffer_bytes=_buffer_bytes(config.get_int("socket.send.buffer.bytes")),
        socket_receive_buffer_bytes=_buffer_bytes(config.get_int("socket.receive.buffer.bytes")),
        socket_listen_backlog_size=config.get_int("socket.listen.backlog.size"),
    )


def _connection_limits(config: BrokerConfig) -> ConnectionLimits:
    def of_listener(name: str) -> ListenerLimits:
        prefix = f"listener.name.{name.lower()}"
        return ListenerLimits(
            max_connections=config.get_int(f"{prefix}.max.connections"),
            max_connection_creation_rate=config.get_int(f"{prefix}.max.connection.creation.rate"),
        )

    return ConnectionLimits(
        max_connections=config.get_int("max.connections"),
        max_connections_per_ip=config.get_int("max.connections.per.ip"),
        max_connections_per_ip_overrides=_per_ip(config.get_str("max.connections.per.ip.overrides")),
        max_connection_creation_rate=config.get_int("max.connection.creation.rate"),
        listeners={listener.name: of_listener(listener.name) for listener in config.listeners},
    )


def quota_window(config: BrokerConfig) -> Window:
    """Return the samples over which the rates of clients and of new connections are measured."""
    return Window(config.get_int("quota.window.num"), config.get_int("quota.window.size.seconds") * 1000)


def storage_config(config: BrokerConfig) -> LogManagerConfig:
    """Return the intervals and threads of the log manager."""
    trust_page_cache = "penstock_trust_page_cache"
    numbers = [field for field in LogManagerConfig._fields if field != trust_page_cache]
    return LogManagerConfig(
        **{field: config.get_int(field.replace("_", ".")) for field in numbers},
        penstock_trust_page_cache=config.get_bool(trust_page_cache.replace("_", ".")),
    )


def peer_settings(config: BrokerConfig) -> PeerSettings:
    """Return the timeout of connections to other nodes."""
    return PeerSettings(setup_timeout_ms=config.get_int("socket.connection.setup.timeout.ms"))


def cleaner_config(config: BrokerConfig) -> CleanerConfig:
    """Return the memory, threads and rate limit of the log cleaner."""
    return CleanerConfig(
        enable=config.get_bool("log.cleaner.enable"),
        threads=config.get_int("log.cleaner.threads"),
        dedupe_buffer_size=config.get_int("log.cleaner.dedupe.buffer.size"),
        io_buffer_size=config.get_int("log.cleaner.io.buffer.size"),
        io_buffer_load_factor=config.get_float("log.cleaner.io.buffer.load.factor"),
        io_max_bytes_per_second=config.get_float("log.cleaner.io.max.bytes.per.second"),
        backoff_ms=config.get_int("log.cleaner.backoff.ms"),
    )


def _buffer_bytes(configured: int) -> int:
    return -1 if configured == KAFKA_SOCKET_BUFFER_BYTES else configured


def _per_ip(text: str) -> dict[str, int]:
    limits: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, _, count = item.rpartition(":")
        if not address or not count.isdigit():
            raise InvalidConfig(
                "max.connections.per.ip.overrides",
                f"max.connections.per.ip.overrides: expected address:count, found {item!r}",
            )
        limits[address_of(address.strip())] = int(count)
    return limits
