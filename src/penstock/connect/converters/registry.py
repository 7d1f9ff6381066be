"""The common parts of converters with a schema registry: properties, subjects and the frame of records.

A record begins with a zero byte and the id of its schema.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from penstock.client.settings import ConfigError
from penstock.connect.converters.converter import RecordHeaders, SchemaAndValue
from penstock.connect.converters.schema_cache import SchemaCache
from penstock.connect.data.schema import Schema as ConnectSchema
from penstock.connect.definitions.config_def import ConfigDef, ConfigType, Importance
from penstock.connect.definitions.validators import Range
from penstock.connect.errors import ConfigInvalid, ConnectError, DataError, RetriableError
from penstock.registry.client import (
    RegistryConfig,
    RegistryError,
    RegistryRefused,
    RegistryUnreachable,
    shared_registry,
)
from penstock.registry.formats import Schema, SchemaError

FRAME: Final = struct.Struct(">bi")
URL: Final = "schema.registry.url"
_UNSUPPORTED: Final = {
    "use.latest.version": "records are written with the schema of their own",
    "generalized.sum.type.support": "unions and enums are marked as by default",
}
_STRATEGIES: Final = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_PACKAGE: Final = "io.confluent.kafka.serializers.subject."
_SERVER_ERROR: Final = 500
_LATER: Final = (408, 429)
"""Statuses of timeouts and of too many requests."""
_SECRET: Final = ("password", "user.info", "token")


def registry_definition() -> ConfigDef:
    """Begin the definition of a converter's properties with those of the registry."""
    definition = ConfigDef().define(
        URL,
        ConfigType.LIST,
        importance=Importance.HIGH,
        doc="The URLs of the schema registry, separated by commas.",
    )
    definition.define(
        "auto.register.schemas",
        ConfigType.BOOLEAN,
        True,
        doc="Whether schemas are registered under their subject. Otherwise they must be there already.",
    )
    definition.define(
        "normalize.schemas", ConfigType.BOOLEAN, False, doc="Whether schemas are registered in normal form."
    )
    for name, doc in _UNSUPPORTED.items():
        definition.define(name, ConfigType.BOOLEAN, False, _refuse, Importance.LOW, f"Only false: {doc}.")
    for part in ("key", "value"):
        definition.define(
            f"{part}.subject.name.strategy",
            ConfigType.STRING,
            f"{_PACKAGE}TopicNameStrategy",
            doc=f"The subject for schemas of {part}s, by the topic, the record's name, or both.",
        )
    definition.define(
        "schemas.cache.config",
        ConfigType.INT,
        1000,
        Range(0),
        Importance.LOW,
        "Number of schemas that the converter keeps at most.",
    )
    for name in sorted(RegistryConfig.names() - definition.keys.keys()):
        type_ = ConfigType.PASSWORD if name.endswith(_SECRET) else ConfigType.STRING
        definition.define(name, type_, None, importance=Importance.LOW, doc="How to connect to the registry.")
    return definition


def _refuse(name: str, value: Any) -> None:
    if value:
        raise ConfigInvalid(f"Invalid value {value} for configuration {name}: only false is supported")


def framed_id(data: bytes) -> int:
    """Return the id of a record's schema. Raises DataError."""
    if len(data) < FRAME.size or data[0] != 0:
        raise DataError(
            f"Unknown magic byte: found {data[: FRAME.size]!r}, expected 0 and the id of a schema"
        )
    schema_id: int = FRAME.unpack_from(data)[1]
    return schema_id


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the values of one schema of Connect."""

    text: str
    """The schema for the registry."""
    record_name: str | None
    """The name that a strategy for subjects may need."""
    body: Callable[[Any], bytes | bytearray | None]
    """Returns what follows the frame; None if the value is a null record."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the values that were written with one schema of the registry."""

    schema: ConnectSchema | None
    value: Callable[[bytes, int], Any]
    """Returns the value that begins at an offset."""


class RegistryConverter(ABC):
    """The base of converters whose records begin with the id of their schema."""

    definition: ClassVar[ConfigDef]
    format: ClassVar[str]
    """The registry's name of the type of schemas."""

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        config = self.definition.parse(properties)
        self._link = RegistryLink(properties, config, is_key)
        self._cache_size: int = max(config["schemas.cache.config"], 1)
        self._writers = SchemaCache(self._cache_size, self._make_writer)
        self._readers: dict[tuple[str, int], Reader] = {}
        self._take(config)

    @abstractmethod
    def _take(self, config: Mapping[str, Any]) -> None:
        """Take the properties of the format."""

    @abstractmethod
    def _make_writer(self, schema: ConnectSchema | None) -> Writer:
        """Make the writer for a schema. Raises DataError."""

    @abstractmethod
    def _make_reader(self, topic: str, schema_id: int, found: Schema) -> Reader:
        """Make the reader for a schema of the registry. Raises DataError or RetriableError."""

    def to_bytes(
        self, topic: str, schema: ConnectSchema | None, value: Any, headers: RecordHeaders = ()
    ) -> bytes | None:
        if value is None and schema is None:
            return None
        writer = self._writers.get(schema)
        body = writer.body(value)
        if body is None:
            return None
        schema_id = self._link.registered_id(topic, writer.record_name, self.format, writer.text)
        return FRAME.pack(0, schema_id) + body

    def from_bytes(self, topic: str, data: bytes | None, headers: RecordHeaders = ()) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(None, None)
        schema_id = framed_id(data)
        reader = self._readers.get((topic, schema_id)) or self._found_reader(topic, schema_id)
        return SchemaAndValue(reader.schema, reader.value(data, FRAME.size))

    def close(self) -> None:
        """Forget the schemas. The client of the registry belongs to the process."""
        self._readers.clear()

    def _found_reader(self, topic: str, schema_id: int) -> Reader:
        found = self._link.schema_of(schema_id, self.format)
        reader = self._readers[topic, schema_id] = self._make_reader(topic, schema_id, found)
        if len(self._readers) > self._cache_size:
            del self._readers[next(iter(self._readers))]
        return reader


class RegistryLink:
    """A converter's way to the registry: its client, and the subjects of its schemas."""

    def __init__(self, properties: Mapping[str, str], config: Mapping[str, Any], is_key: bool) -> None:
        """Connect lazily. Raises ConfigInvalid."""
        names = RegistryConfig.names()
        try:
            given = {name: value for name, value in properties.items() if name in names}
            self._client = shared_registry(RegistryConfig.from_properties(given))
        except ConfigError as error:
            raise ConfigInvalid(str(error)) from error
        self._part = "key" if is_key else "value"
        option = f"{self._part}.subject.name.strategy"
        self._strategy = config[option].removeprefix(_PACKAGE)
        if self._strategy not in _STRATEGIES:
            expected = ", ".join(_PACKAGE + each for each in _STRATEGIES)
            raise ConfigInvalid(
                f"Invalid value {config[option]} for configuration {option}: expected {expected}"
            )
        self._registers: bool = config["auto.register.schemas"]
        self._normalizes: bool = config["normalize.schemas"]
        self._ids: dict[tuple[str, str], int] = {}

    def subject(self, topic: str, record_name: str | None) -> str:
        """Return the subject of a schema. Raises DataError if the strategy needs a name that it has not."""
        if self._strategy == "TopicNameStrategy":
            return f"{topic}-{self._part}"
        if record_name is None:
            raise DataError(f"{self._strategy} needs a record, whose name is the subject; topic {topic}")
        return record_name if self._strategy == "RecordNameStrategy" else f"{topic}-{record_name}"

    def registered_id(self, topic: str, record_name: str | None, format: str, text: str) -> int:
        """Return the id of a schema under its subject, and register it there if the converter may.

        Raises DataError, or RetriableError if no registry answers.
        """
        known = self._ids.get((topic, text))
        if known is not None:
            return known
        subject = self.subject(topic, record_name)
        ask = self._client.register if self._registers else self._client.registered_id
        try:
            found = ask(subject, format, text, normalize=self._normalizes)
        except RegistryError as error:
            raise _failure(f"register the schema of topic {topic}", error) from error
        self._ids[topic, text] = found
        return found

    def schema_of(self, schema_id: int, format: str) -> Schema:
        """Return the schema of an id. Raises DataError, or RetriableError if no registry answers."""
        try:
            registered = self._client.by_id(schema_id)
            if registered.format != format:
                raise DataError(f"Schema {schema_id} is of type {registered.format}, expected {format}")
            return self._client.parsed(registered)
        except (RegistryError, SchemaError) as error:
            raise _failure(f"look up schema {schema_id}", error) from error

    def version_of(self, topic: str, record_name: str | None, schema_id: int) -> int | None:
        """Return the version that a schema has in its subject; None if the subject does not have it.

        Raises DataError, or RetriableError if no registry answers.
        """
        if record_name is None and self._strategy != "TopicNameStrategy":
            return None
        subject = self.subject(topic, record_name)
        try:
            versions = self._client.versions(subject)
            newest_first = reversed(versions)
            return next((n for n in newest_first if self._client.version(subject, n).id == schema_id), None)
        except RegistryError as error:
            if isinstance(error, RegistryRefused) and error.is_absence:
                return None
            raise _failure(f"look up the versions of {subject}", error) from error


def _failure(doing: str, error: Exception) -> ConnectError:
    """Return the error to raise: one that the worker repeats if the registry may answer later."""
    may_answer = isinstance(error, RegistryUnreachable)
    if isinstance(error, RegistryRefused):
        may_answer = error.status >= _SERVER_ERROR or error.status in _LATER
    made = RetriableError if may_answer else DataError
    return made(f"Failed to {doing}: {error}")
