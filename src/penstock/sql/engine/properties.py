"""Properties of the server, and of single queries: what they are called, and what holds where nothing is
said.

Names are ksqlDB's. Kafka's own may have `ksql.streams.` before them. What concerns Kafka Streams' threads is
taken as ksqlDB's clients send it, and changes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.fetcher import FetchConfig
from penstock.client.producer import ProducerConfig
from penstock.client.settings import boolean, one_of, property_names, text, whole_number
from penstock.registry.client.config import RegistryConfig
from penstock.sql.engine.errors import EngineError, ErrorCode
from penstock.sql.evaluation import builtin
from penstock.sql.planning import CACHE
from penstock.sql.planning.processing_log import FAIL_ON_NO_TIME, FAIL_ON_UNREADABLE

STREAMS_PREFIX: Final = "ksql.streams."
OFFSET_RESET: Final = "auto.offset.reset"
SHUTDOWN_TIMEOUT: Final = "ksql.streams.shutdown.timeout.ms"
#: Groups, windows and tables that are joined in one push query are kept in memory. ksqlDB has no limit.
PUSH_STATE_BYTES: Final = "penstock.push.query.state.max.bytes"
#: Of `authentication.method=BASIC`.
USERS_FILE: Final = "penstock.authentication.users"
IDLE_TIMEOUT_S: Final = "ksql.idle.connection.timeout.seconds"
REGISTRY_PREFIX: Final = "ksql.schema.registry."
_ANY_MS: Final = whole_number(0, 2**53)


#: How many records a table may be behind its topic, to be looked up.
PULL_LAG_MAX: Final = "ksql.query.pull.max.allowed.offset.lag"
#: How the names begin that no client of the cluster has.
OF_SERVER: Final = ("ksql.", "penstock.", "access.control.", "authentication.")


@dataclass(frozen=True)
class Property:
    """``default`` None: there is none. ``is_of_queries``: a query may have a value of its own;
    ``is_mutable``: a request, SET and ALTER SYSTEM may give it one.
    """

    name: str
    default: str | None
    check: Callable[[str], object]
    is_of_queries: bool = False

    @property
    def is_mutable(self) -> bool:
        return self.is_of_queries or not self.name.startswith((*OF_SERVER, "bootstrap."))


def _ksql(name: str, default: str | None, check: Callable[[str], object] = text) -> Property:
    return Property(f"ksql.{name}", default, check)


def _query(name: str, default: str | None, check: Callable[[str], object]) -> Property:
    return Property(name, default, check, is_of_queries=True)


_FLAG: Final[Callable[[str], object]] = boolean
_COUNT: Final[Callable[[str], object]] = whole_number(0)

_OWN: Final = (
    _query(OFFSET_RESET, None, one_of("earliest", "latest")),
    _query(CACHE, "10000000", _COUNT),
    _query("ksql.query.pull.table.scan.enabled", "true", _FLAG),
    _query("ksql.query.pull.range.scan.enabled", "true", _FLAG),
    _query(PULL_LAG_MAX, str(2**63 - 1), _COUNT),
    _query("ksql.output.topic.name.prefix", "", str),
    _query(FAIL_ON_UNREADABLE, "false", _FLAG),
    _query(FAIL_ON_NO_TIME, "false", _FLAG),
    _ksql("logging.processing.topic.auto.create", "false", _FLAG),
    _ksql("logging.processing.topic.name", "", str),
    _ksql("logging.processing.topic.partitions", "1", whole_number(1)),
    _ksql("logging.processing.topic.replication.factor", None, whole_number(1)),
    _ksql("logging.processing.stream.auto.create", "false", _FLAG),
    _ksql("logging.processing.stream.name", "KSQL_PROCESSING_LOG", text),
    _ksql("logging.processing.rows.include", "false", _FLAG),
    _query("ksql.persistence.default.format.key", "KAFKA", text),
    _query("ksql.persistence.default.format.value", None, text),
    _query("ksql.persistence.wrap.single.values", "true", _FLAG),
    *(_query(name, None, whole_number(-1)) for name in builtin.LIMITS),
    _ksql("service.id", "default_"),
    _ksql("extension.dir", "ext"),
    _ksql("script.dir", None),
    _ksql("schema.registry.url", None),
    _ksql("insert.into.values.enabled", "true", _FLAG),
    _ksql("pull.queries.enable", "true", _FLAG),
    _ksql("query.pull.stream.enabled", "true", _FLAG),
    _ksql("query.pull.max.qps", str(2**31 - 1), whole_number(1)),
    _ksql("query.pull.max.concurrent.requests", str(2**31 - 1), whole_number(1)),
    _ksql("query.retry.backoff.initial.ms", "15000", _ANY_MS),
    _ksql("query.retry.backoff.max.ms", "900000", _ANY_MS),
    _ksql("max.push.queries", "100", _COUNT),
    Property("access.control.allow.origin", "", str),
    Property("access.control.allow.methods", "", str),
    Property("access.control.allow.headers", "", str),
    Property("authentication.method", "NONE", one_of("none", "basic")),
    Property("authentication.realm", "", str),
    Property("authentication.roles", "*", str),
    Property("authentication.skip.paths", "", str),
    Property(USERS_FILE, None, text),
    Property(IDLE_TIMEOUT_S, "86400", whole_number(1)),
    Property(PUSH_STATE_BYTES, str(256 << 20), _COUNT),
    _ksql("query.persistent.active.limit", str(2**31 - 1), _COUNT),
    _ksql("internal.topic.replicas", None, whole_number(1)),
    _ksql("assert.topic.default.timeout.ms", "1000", _ANY_MS),
    _ksql("assert.schema.default.timeout.ms", "1000", _ANY_MS),
    _ksql("create.topic.inherit.source.replicas", "true", _FLAG),
    _ksql("streams.shutdown.timeout.ms", "30000", _ANY_MS),
    _ksql("server.command.response.timeout.ms", "5000", _ANY_MS),
)
# What clients send that belongs to Kafka Streams, to clients in Java, or to several servers of a service.
_STREAMS: Final = """
    ksql.query.pull.consistency.token.enabled ksql.query.pull.enable.standby.reads
    ksql.query.push.v2.enabled
    acceptable.recovery.lag application.id batch.size buffered.records.per.partition
    commit.interval.ms compression.type default.deserialization.exception.handler
    default.production.exception.handler enable.auto.commit heartbeat.interval.ms interceptor.classes
    linger.ms max.block.ms max.poll.interval.ms max.poll.records max.task.idle.ms max.warmup.replicas
    num.standby.replicas num.stream.threads poll.ms probing.rebalance.interval.ms processing.guarantee
    replication.factor retries session.timeout.ms state.dir statestore.cache.max.bytes task.timeout.ms
    topology.optimization window.size.ms
"""
_CLIENTS: Final = property_names(ClientConfig, FetchConfig, ProducerConfig)
_KNOWN: Final[dict[str, Property]] = {
    **{name: Property(name, None, str) for name in (*_CLIENTS, "bootstrap.servers")},
    **{name: Property(name, None, str, is_of_queries=True) for name in _STREAMS.split()},
    **{each.name: each for each in _OWN},
}
# Without a value for them there is no cluster, or nobody who may see it.
_HIDDEN: Final = ("password", "sasl.jaas", "basic.auth.user.info", "ssl.key", "token", "secret")


def known_property(name: str) -> Property:
    """A property by its name. Raises EngineError for a name that nothing has."""
    plain = name if name in _KNOWN else name.removeprefix(STREAMS_PREFIX)
    for prefix in ("consumer.", "producer."):
        if plain.removeprefix(prefix) in _KNOWN:
            plain = plain.removeprefix(prefix)
    found = _KNOWN.get(plain)
    if found is None and plain.startswith(REGISTRY_PREFIX) and _of_registry(plain) in RegistryConfig.names():
        found = Property(plain, None, str)
    if found is None:
        raise EngineError(
            f"Not recognizable as ksql, streams, consumer, or producer property: '{name}'",
            ErrorCode.BAD_REQUEST,
        )
    return found


def _of_registry(name: str) -> str:
    """A property of the schema registry as its clients call it."""
    short = name.removeprefix(REGISTRY_PREFIX)
    return f"schema.registry.{short}" if short == "url" or short.startswith("ssl.") else short


def checked_property(name: str, value: object) -> tuple[str, str]:
    """Name and value as they are kept. Raises EngineError for what is unknown or can't be that."""
    known = known_property(name)
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    try:
        known.check(shown)
    except ValueError as problem:
        raise EngineError(
            f"Invalid value {shown!r} for {known.name}: expected {problem}", ErrorCode.BAD_REQUEST
        ) from None
    return known.name, shown


def checked_properties(given: Mapping[str, object]) -> dict[str, str]:
    return dict(checked_property(name, value) for name, value in given.items() if value is not None)


def checked_override(name: str, value: object) -> tuple[str, str]:
    """The same for what a request sets; the server's own is refused."""
    require_mutable(name)
    return checked_property(name, value)


def require_mutable(name: str) -> None:
    """Raises EngineError for a property that is unknown, or the server's own."""
    if not known_property(name).is_mutable:
        raise EngineError(f"Cannot override property '{name}'", ErrorCode.BAD_REQUEST)


@dataclass(frozen=True)
class Values:
    """The properties that hold for a statement: later ones of ``layers`` win."""

    layers: tuple[Mapping[str, str], ...]

    def get(self, name: str) -> str | None:
        for layer in reversed(self.layers):
            if name in layer:
                return layer[name]
        return _KNOWN[name].default if name in _KNOWN else None

    def flag(self, name: str) -> bool:
        return (self.get(name) or "false").lower() == "true"

    def number(self, name: str) -> int:
        return int(self.get(name) or 0)

    def over(self, layer: Mapping[str, str]) -> Values:
        return Values((*self.layers, layer))

    def merged(self) -> dict[str, str]:
        """All that was set, without defaults."""
        made: dict[str, str] = {}
        for layer in self.layers:
            made |= layer
        return made

    def registry(self) -> dict[str, str]:
        """What a client of the schema registry takes."""
        return {
            _of_registry(name): value
            for name, value in self.merged().items()
            if name.startswith(REGISTRY_PREFIX)
        }

    def listed(self) -> Iterator[tuple[Property, str]]:
        """What SHOW PROPERTIES tells: all of ksqlDB's own, and what is set of others. Secrets stay here."""
        given = self.merged()
        names = sorted({*(each.name for each in _OWN), *given})
        for name in names:
            value = given.get(name, _KNOWN[name].default if name in _KNOWN else None)
            if not any(part in name for part in _HIDDEN):
                yield known_property(name), value or ""
