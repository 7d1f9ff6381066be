"""Options of a DataFrame reader or writer, taken one by one so that an unknown option can be reported.

Spark passes option names in lower case. Names that begin with ``kafka.`` are Kafka client properties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Final, TypeVar

from penstock.client.config import ClientConfig
from penstock.client.settings import ConfigError, property_names, resolved

T = TypeVar("T")

_KAFKA: Final = "kafka."
_TABLE: Final = "option."
_OF_TABLES: Final = ("comment", "external", "is_managed_location", "location", "owner", "provider")
"""Properties of every table, in lower case, which Spark passes beside the options."""
# Properties that tune what this connector does in its own way: accepted, without effect.
_WITHOUT_EFFECT: Final = frozenset(
    (
        "allow.auto.create.topics",
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "exclude.internal.topics",
        "group.id",  # for sinks; the source takes it as an option of its own
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "linger.ms",
        "max.block.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.idle.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    )
)
# Options that may also be spelled like Kafka's properties.
_SPELLINGS: Final = {
    **{
        f"{part}.{name}": f"{part}{camel}"
        for part in ("key", "value")
        for name, camel in (
            ("format", "Format"),
            ("schema", "Schema"),
            ("schema.id", "SchemaId"),
            ("schema.subject", "SchemaSubject"),
            ("schema.version", "SchemaVersion"),
            ("schema.message", "SchemaMessage"),
        )
    },
    "decode.errors": "decodeErrors",
    "damaged.batches": "damagedBatches",
    "dead.letter.topic": "deadLetterTopic",
}
_REFUSED: Final = {
    "auto.offset.reset": "use the option startingOffsets",
    "enable.auto.commit": "Spark keeps offsets in the checkpoint",
    "interceptor.classes": "interceptors are Java classes",
    "key.deserializer": "keys arrive as binary, cast or decode them in the query",
    "value.deserializer": "values arrive as binary, cast or decode them in the query",
    "key.serializer": "keys are written as binary or string, encode them in the query",
    "value.serializer": "values are written as binary or string, encode them in the query",
    "transactional.id": (
        "the sink derives it from the query's id; set the option 'delivery' to 'exactly-once'"
    ),
    "partitioner.class": "partitioners are Java classes; use the column 'partition'",
    "ssl.engine.factory.class": "engines are Java classes",
    "sasl.login.class": "logins are Java classes",
    "sasl.client.callback.handler.class": "handlers are Java classes",
}


class Options:
    """The options that Spark passes: each `take` removes one, and `finish` rejects the rest."""

    def __init__(self, options: Mapping[str, str]) -> None:
        if not options:
            raise ConfigError(
                "found no options: Spark keeps none for a table of CREATE TABLE … USING penstock. Name "
                "them in each statement (SELECT … FROM table WITH (…)), use CREATE TEMPORARY VIEW … USING "
                "penstock OPTIONS (…), or use spark.read"
            )
        given = {name.lower(): value for name, value in options.items()}
        self._take_table(given)
        given = resolved(given, prefix=_KAFKA)
        self._kafka = {
            name.removeprefix(_KAFKA): given.pop(name) for name in list(given) if name.startswith(_KAFKA)
        }
        if "bootstrap.servers" in given:
            self._kafka.setdefault("bootstrap.servers", given.pop("bootstrap.servers"))
        for dotted, camel in _SPELLINGS.items():
            if dotted in given:
                value = given.pop(dotted)
                if given.setdefault(camel.lower(), value) != value:
                    raise ConfigError(f"options '{dotted}' and '{camel}' differ, but are the same option")
        self._given = given
        self._names: list[str] = []

    @staticmethod
    def _take_table(given: dict[str, str]) -> None:
        """Drop what Spark adds to the options of CREATE TABLE … USING; it also repeats them with a prefix."""
        repeated = [name for name in given if name.startswith(_TABLE)]
        for name in repeated:
            given.setdefault(name.removeprefix(_TABLE), given.pop(name))
        if repeated:
            for name in _OF_TABLES:
                given.pop(name, None)

    def take(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """Return the value of an option, named as in the documentation. Raises ConfigError."""
        self._names.append(name)
        text = self._given.pop(name.lower(), None)
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as problem:
            raise ConfigError(f"invalid value {text!r} for option '{name}': expected {problem}") from None

    def take_property(self, name: str, parse: Callable[[str], T], default: T) -> T:
        """Return a Kafka property that may also be given without ``kafka.``. Raises ConfigError."""
        text = self._kafka.pop(name, None)
        if text is None:
            return self.take(name, parse, default)
        self._given.setdefault(name, text)
        if self._given[name] != text:
            raise ConfigError(
                f"options '{name}' and 'kafka.{name}' differ: {self._given[name]!r} and {text!r}"
            )
        return self.take(name, parse, default)

    def take_properties(self, names: Iterable[str]) -> dict[str, str]:
        """Remove the given properties among ``names`` and return them unparsed."""
        known = sorted(names)
        self._names += known
        return {name: self._given.pop(name) for name in known if name in self._given}

    def ignore(self, *names: str) -> None:
        """Discard options that Spark adds, or that its own Kafka source has and this one doesn't need."""
        for name in names:
            self._given.pop(name.lower(), None)

    def refuse(self, name: str, reason: str) -> None:
        if name.lower() in self._given:
            raise ConfigError(f"option '{name}' is not valid here: {reason}")

    def finish(self, *configs: type) -> dict[str, str]:
        """Return the Kafka properties, all known to ``configs``. Raises ConfigError for options left over."""
        for name in sorted(self._given):
            raise ConfigError(
                f"unknown option '{name}'" + _suggestion(name, [*self._names, "kafka.bootstrap.servers"])
            )
        if "bootstrap.servers" not in self._kafka:
            raise ConfigError(
                "option 'kafka.bootstrap.servers' is missing: expected host:port[,host:port...]"
            )
        known = property_names(ClientConfig, *configs) | {"bootstrap.servers"}
        for name in sorted(self._kafka):
            _check_property(name, known)
        return self._kafka


def _check_property(name: str, known: Iterable[str]) -> None:
    if name in known or name in _WITHOUT_EFFECT:
        return
    if name in _REFUSED:
        raise ConfigError(f"option 'kafka.{name}' cannot be set: {_REFUSED[name]}")
    raise ConfigError(
        f"unknown Kafka property in option 'kafka.{name}'" + _suggestion(name, known, prefix=_KAFKA)
    )


def _suggestion(name: str, known: Iterable[str], prefix: str = "") -> str:
    by_lower = {option.lower(): option for option in known}
    close = get_close_matches(name, by_lower, n=1)
    return f"; did you mean '{prefix}{by_lower[close[0]]}'?" if close else ""
