"""The properties of the server and of single queries: their names, their checks and their defaults.

Names are ksqlDB's. Kafka's own may have the prefix `ksql.streams.`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.client.config import ClientConfig
from penstock.client.producing.producer import ProducerConfig
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.settings import boolean, one_of, property_names, text, whole_number
from penstock.registry.client.config import RegistryConfig
from penstock.security.access import settings as access
from penstock.security.tls.settings import CLIENT_AUTH
from penstock.sql.engine.ground import accepted_properties as accepted
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.evaluation import builtin
from penstock.sql.planning import CACHE
from penstock.sql.planning.processing_log import FAIL_ON_NO_TIME, FAIL_ON_UNREADABLE
from penstock.web.listeners import Listener

STREAMS_PREFIX: Final = "ksql.streams."
OFFSET_RESET: Final = "auto.offset.reset"
SHUTDOWN_TIMEOUT: Final = "ksql.streams.shutdown.timeout.ms"
PUSH_STATE_BYTES: Final = "penstock.push.query.state.max.bytes"
"""Limit on the state of one push query (groups, windows, joined tables), which is kept in memory.

ksqlDB has no such limit.
"""
IDLE_TIMEOUT_S: Final = "ksql.idle.connection.timeout.seconds"
REGISTRY_PREFIX: Final = "ksql.schema.registry."
CONNECT_PREFIX: Final = "ksql.connect."
_ANY_MS: Final = whole_number(0, 2**53)


PULL_LAG_MAX: Final = "ksql.query.pull.max.allowed.offset.lag"
"""Limit on the records that a table may lag behind its topic when a pull query reads it."""
LISTENERS: Final = "listeners"
"""The address of the server, with http or https."""
OF_SERVER: Final = (
    *("ksql.", "penstock.", "access.control.", "authentication.", LISTENERS),
    *(access.CLIENT_AUTHENTICATION, access.PRINCIPAL_RULES, *access.ISSUER_SETTINGS),
)
"""The prefixes of properties that don't concern the clients of the cluster."""

_OF_CONNECTIONS: Final = ("bootstrap.", "security.", "ssl.", "sasl.")
"""The prefixes of properties that say where the server's clients connect, and as whom.

No request may set them: they name files that the server reads, and URLs to which it sends its secrets.
"""


@dataclass(frozen=True)
class Property:
    """A property that the server knows.

    ``default`` is None if there is none. ``is_of_queries`` says whether a query may have its own value, and
    ``is_mutable`` whether a request, SET and ALTER SYSTEM may set it.
    """

    name: str
    default: str | None
    check: Callable[[str], object]
    is_of_queries: bool = False

    @property
    def is_mutable(self) -> bool:
        return self.is_of_queries or not self.name.startswith((*OF_SERVER, *_OF_CONNECTIONS))


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
    _ksql("connect.url", "http://localhost:8083"),
    _ksql("connect.request.timeout.ms", "5000", whole_number(1)),
    _ksql("connect.basic.auth.credentials.source", "none", one_of("none", "file")),
    _ksql("connect.basic.auth.credentials.file", "", str),
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
    Property(access.METHOD, "NONE", access.parse_methods),
    Property(access.REALM, "", str),
    Property(access.ROLES, "*", str),
    Property(access.SKIP_PATHS, "", str),
    Property(access.USERS, None, text),
    Property(access.CLIENT_AUTHENTICATION, "NONE", one_of(*CLIENT_AUTH)),
    Property(access.PRINCIPAL_RULES, None, text),
    *(Property(name, None, text) for name in (*access.TOKEN_SETTINGS, *access.JWKS_STORE_SETTINGS)),
    Property(LISTENERS, None, Listener.parse),
    Property(IDLE_TIMEOUT_S, "86400", whole_number(1)),
    Property(PUSH_STATE_BYTES, str(256 << 20), _COUNT),
    _ksql("query.persistent.active.limit", str(2**31 - 1), _COUNT),
    _ksql("internal.topic.replicas", None, whole_number(1)),
    _ksql("assert.topic.default.timeout.ms", "1000", _ANY_MS),
    _ksql("assert.schema.default.timeout.ms", "1000", _ANY_MS),
    _ksql("create.topic.inherit.source.replicas.enabled", "true", _FLAG),
    _ksql("streams.shutdown.timeout.ms", "30000", _ANY_MS),
    _ksql("server.command.response.timeout.ms", "5000", _ANY_MS),
)
_WITHOUT_EFFECT: Final[tuple[tuple[str, Callable[[str], object]], ...]] = (
    (accepted.STREAMS, str),
    (accepted.TEXTS, str),
    (accepted.FLAGS, _FLAG),
    (accepted.NUMBERS, whole_number(-1)),
    (accepted.ALWAYS_TRUE, one_of("true")),
)
_CLIENTS: Final = property_names(ClientConfig, FetchConfig, ProducerConfig)
_KNOWN: Final[dict[str, Property]] = {
    **{name: Property(name, None, str) for name in (*_CLIENTS, "bootstrap.servers")},
    **{
        name: Property(name, None, check, is_of_queries=True)
        for names, check in _WITHOUT_EFFECT
        for name in names.split()
    },
    **{each.name: each for each in _OWN},
}
_HIDDEN: Final = ("password", "passphrase", "sasl.jaas", "basic.auth.user.info", "ssl.key", "token", "secret")
"""Parts of the names of properties that hold secrets; SHOW PROPERTIES leaves these out."""


def known_property(name: str) -> Property:
    """The property of a name, with or without a prefix. Raises EngineError for an unknown name."""
    plain = name if name in _KNOWN else name.removeprefix(STREAMS_PREFIX)
    for prefix in ("consumer.", "producer."):
        if plain.removeprefix(prefix) in _KNOWN:
            plain = plain.removeprefix(prefix)
    found = _KNOWN.get(plain)
    if found is None and plain.startswith(REGISTRY_PREFIX) and _of_registry(plain) in RegistryConfig.names():
        found = Property(plain, None, str)
    if found is None and plain.startswith(f"{CONNECT_PREFIX}ssl.") and _of_connect(plain) in _CLIENTS:
        found = Property(plain, None, str)
    if found is None and plain.startswith(accepted.FUNCTIONS_PREFIX):
        found = Property(plain, None, str, is_of_queries=True)
    if found is None:
        raise EngineError(
            f"Not recognizable as ksql, streams, consumer, or producer property: '{name}'",
            ErrorCode.BAD_REQUEST,
        )
    return found


def _of_registry(name: str) -> str:
    """The name of a schema registry's property as the registry's clients know it."""
    short = name.removeprefix(REGISTRY_PREFIX)
    return f"schema.registry.{short}" if short == "url" or short.startswith("ssl.") else short


def _of_connect(name: str) -> str:
    """The name of a property of the connections to Connect as Kafka's clients know it."""
    return name.removeprefix(CONNECT_PREFIX)


def checked_property(name: str, value: object) -> tuple[str, str]:
    """Return name and value in their stored form. Raises EngineError for an unknown name or a wrong value."""
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
    """`checked_property` for a value that a request sets. The server's own properties are refused."""
    require_mutable(name)
    return checked_property(name, value)


def require_mutable(name: str) -> None:
    """Check that requests may set a property. Raises EngineError if it is unknown or the server's own."""
    if not known_property(name).is_mutable:
        raise EngineError(f"Cannot override property '{name}'", ErrorCode.BAD_REQUEST)


@dataclass(frozen=True)
class Values:
    """The properties that apply to a statement. Later ``layers`` override earlier ones."""

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
        """All values that were set, without defaults."""
        made: dict[str, str] = {}
        for layer in self.layers:
            made |= layer
        return made

    def registry(self) -> dict[str, str]:
        """The properties for a client of the schema registry."""
        return {
            _of_registry(name): value
            for name, value in self.merged().items()
            if name.startswith(REGISTRY_PREFIX)
        }

    def listed(self) -> Iterator[tuple[Property, str]]:
        """Yield what SHOW PROPERTIES lists: all of ksqlDB's properties and any others that are set.

        Secrets are left out.
        """
        given = self.merged()
        names = sorted({*(each.name for each in _OWN), *given})
        for name in names:
            value = given.get(name, _KNOWN[name].default if name in _KNOWN else None)
            if not any(part in name for part in _HIDDEN):
                yield known_property(name), value or ""
