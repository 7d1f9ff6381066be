"""Formats whose columns come from a schema, given or in a registry: Avro, JSON Schema and Protobuf.

A query has one reader schema, fixed when it is planned. It reads values of any writer schema: the id before a
value identifies the writer schema in the registry, and the projection between both is computed once per
process. Without a registry, values have no id and must have the given schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
from google.protobuf.descriptor import Descriptor

from penstock.arrow.avro.resolution import Projection, Unreadable
from penstock.arrow.decoded import Decoded, Format
from penstock.arrow.framed import NoProjection, ReadSpans, cut, read_framed, read_whole
from penstock.arrow.json.mapping import column_of
from penstock.arrow.json.reading import JsonColumn
from penstock.arrow.protobuf.mapping import decimals_of, descriptor_of
from penstock.arrow.protobuf.reading import MessageReader
from penstock.arrow.registry_schemas import Parsed, given_schema, message_indexes, registered_schema
from penstock.arrow.schema_choice import SchemaChoice
from penstock.client.settings import ConfigError
from penstock.registry.client.config import RegistryConfig
from penstock.registry.client.errors import RegistryRefused
from penstock.registry.client.registry import shared_registry
from penstock.registry.formats import parse
from penstock.registry.formats.avro.schema import AvroSchema
from penstock.registry.formats.avro.types import Type
from penstock.registry.formats.json_schema.schema import JsonSchema
from penstock.registry.formats.protobuf.indexes import message_at, read_indexes
from penstock.registry.formats.protobuf.schema import ProtobufSchema


@dataclass(frozen=True, slots=True)
class Avro:
    """The Avro format. ``text`` is the reader's schema with its references resolved."""

    text: str
    registry: RegistryConfig | None
    name: str = "avro"
    is_slow: bool = False

    @property
    def type(self) -> pa.DataType:
        return _avro_projection(self.text, None, 0).type

    def decode(self, column: pa.BinaryArray) -> Decoded:
        if self.registry is None:
            return read_whole(column, self.type, _avro_projection(self.text, None, 0).read)
        return read_framed(column, self.type, self._reader_of)

    def _reader_of(self, schema_id: int) -> ReadSpans:
        try:
            return _avro_projection(self.text, self.registry, schema_id).read
        except RegistryRefused as error:
            raise _not_there(error) from None


@dataclass(frozen=True, slots=True)
class JsonDocuments:
    """The JSON Schema format.

    Documents describe themselves, so an id is only checked to belong to a JSON Schema.
    """

    column: JsonColumn
    registry: RegistryConfig | None
    name: str = "json-schema"
    is_slow: bool = True

    @property
    def type(self) -> pa.DataType:
        return self.column.type

    def decode(self, column: pa.BinaryArray) -> Decoded:
        if self.registry is None:
            return self.column.decode(column)
        return read_framed(column, self.type, self._reader_of)

    def _reader_of(self, schema_id: int) -> ReadSpans:
        assert self.registry is not None
        try:
            _writer(self.registry, schema_id, "json-schema")
        except RegistryRefused as error:
            raise _not_there(error) from None
        return self._read

    def _read(self, data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> Decoded:
        return self.column.decode(cut(data, starts, lengths))


@dataclass(frozen=True, slots=True)
class Protobuf:
    """The Protobuf format.

    ``files`` are the reader's serialized descriptors, and ``message`` is the full name of the message to
    read. ``decimals`` are precision and scale by field, as in `mapping.Decimals`.
    """

    files: bytes
    message: str
    decimals: tuple[tuple[str, tuple[int, int]], ...]
    registry: RegistryConfig | None
    name: str = "protobuf"
    is_slow: bool = True

    @property
    def type(self) -> pa.DataType:
        return _own_reader(self.files, self.message, self.decimals).type

    def decode(self, column: pa.BinaryArray) -> Decoded:
        if self.registry is None:
            return read_whole(column, self.type, _own_reader(self.files, self.message, self.decimals).read)
        return read_framed(column, self.type, self._reader_of)

    def _reader_of(self, schema_id: int) -> ReadSpans:
        def read(data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> Decoded:
            return self._read(schema_id, data, starts, lengths)

        return read

    def _read(self, schema_id: int, data: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> Decoded:
        """Read the message indexes before each message; the common case is the first message, in one byte."""
        if len(starts) and lengths.min() > 0 and not data[starts].any():
            return self._read_one(schema_id, (0,), data, starts + 1, lengths - 1)
        groups: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        bad: dict[int, str] = {}
        for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
            try:
                indexes, size = read_indexes(data[start : start + length].tobytes())
                groups.setdefault(indexes, []).append((row, size))
            except ValueError as problem:
                bad[row] = str(problem)
        pieces: list[pa.Array] = [pa.nulls(len(bad), self.type)]
        order: list[int] = list(bad)
        for indexes, members in groups.items():
            rows, sizes = (np.array(each, np.int64) for each in zip(*members, strict=True))
            found = self._read_one(schema_id, indexes, data, starts[rows] + sizes, lengths[rows] - sizes)
            bad |= {int(rows[row]): why for row, why in found.bad.items()}
            pieces.append(found.array)
            order += rows.tolist()
        return Decoded(pa.concat_arrays(pieces).take(pa.array(np.argsort(order))), bad)

    def _read_one(
        self,
        schema_id: int,
        indexes: tuple[int, ...],
        data: np.ndarray,
        starts: np.ndarray,
        lengths: np.ndarray,
    ) -> Decoded:
        try:
            reader = _message_reader(self, schema_id, indexes)
        except RegistryRefused as error:
            why = str(_not_there(error))
        except NoProjection as problem:
            why = str(problem)
        else:
            return reader.read(data, starts, lengths)
        return Decoded(pa.nulls(len(starts), self.type), dict.fromkeys(range(len(starts)), why))


def make_registered(name: str, choice: SchemaChoice) -> Format:
    """Create the format of that name, asking the registry if no schema is given.

    Raises ConfigError and the errors of the registry's client.
    """
    registry = None if choice.registry is None else _registry(choice)
    parsed = _reader(name, choice, registry)
    if isinstance(parsed, AvroSchema):
        made: Format = Avro(parsed.formatted("resolved"), registry)
    elif isinstance(parsed, JsonSchema):
        column = JsonColumn(*column_of(parsed))
        made = JsonDocuments(column, registry)
    else:
        files = parsed.file_set()
        message = choice.message or message_indexes(files, None)[1]
        made = Protobuf(files, message, tuple(decimals_of(parsed).items()), registry)
    made.type  # noqa: B018 - raises ConfigError for types that no column can hold
    return made


def versions_of(choice: SchemaChoice) -> list[int]:
    """Return the versions that the subject has now."""
    assert choice.subject is not None
    return shared_registry(_registry(choice)).versions(choice.subject)


def _registry(choice: SchemaChoice) -> RegistryConfig:
    assert choice.registry is not None
    return RegistryConfig.from_properties(choice.registry).in_context_of(choice.subject or "")


def _reader(name: str, choice: SchemaChoice, registry: RegistryConfig | None) -> Parsed:
    if choice.schema is not None:
        return given_schema(name, str(choice.schema))
    if registry is None:
        raise ConfigError(
            f"the format '{name}' needs a schema: give one, or a registry that has it ('schema.registry.url')"
        )
    if choice.subject is None:
        raise ConfigError(
            f"the format '{name}' needs the subject of its schema where there are several topics"
        )
    client = shared_registry(registry)
    found = (
        client.latest(choice.subject)
        if choice.version is None
        else client.version(choice.subject, choice.version)
    )
    return registered_schema(client, found, name, f"subject '{choice.subject}'")


def _writer(registry: RegistryConfig, schema_id: int, format: str) -> Parsed:
    """Look up the writer's schema.

    Raises NoProjection; also RegistryRefused and RegistryUnreachable, which are not the record's fault.
    """
    client = shared_registry(registry)
    try:
        return registered_schema(client, client.by_id(schema_id), format, "that id")
    except ConfigError as problem:
        raise NoProjection(str(problem)) from None


def _not_there(error: RegistryRefused) -> NoProjection:
    """Return the error for a missing schema, or raise the original error if it has another cause."""
    if not error.is_absence:
        raise error
    return NoProjection(f"the registry has no such schema ({error})")


@lru_cache(maxsize=64)
def _avro_reader(text: str) -> Type:
    parsed = parse("AVRO", text, is_new=False)
    assert isinstance(parsed, AvroSchema)
    return parsed.root


@lru_cache(maxsize=1024)
def _avro_known(text: str, registry: RegistryConfig | None, schema_id: int) -> Projection | str:
    """Return the projection, or why there is none."""
    reader = _avro_reader(text)
    if registry is None:
        return Projection(reader, reader)
    try:
        writer = _writer(registry, schema_id, "avro")
        assert isinstance(writer, AvroSchema)
        return Projection(writer.root, reader)
    except (NoProjection, Unreadable) as problem:
        return str(problem)


def _avro_projection(text: str, registry: RegistryConfig | None, schema_id: int) -> Projection:
    known = _avro_known(text, registry, schema_id)
    if isinstance(known, str):
        raise NoProjection(known)
    return known


@lru_cache(maxsize=64)
def _own_reader(
    files: bytes, message: str, decimals: tuple[tuple[str, tuple[int, int]], ...]
) -> MessageReader:
    return MessageReader(files, message, dict(decimals))


@lru_cache(maxsize=1024)
def _message_known(made: Protobuf, schema_id: int, indexes: tuple[int, ...]) -> MessageReader | str:
    """Return the reader, or why there is none."""
    assert made.registry is not None
    try:
        writer = _written_message(made.registry, schema_id, indexes, made.message)
        return MessageReader(made.files, made.message, dict(made.decimals), writer)
    except NoProjection as problem:
        return str(problem)


def _message_reader(made: Protobuf, schema_id: int, indexes: tuple[int, ...]) -> MessageReader:
    known = _message_known(made, schema_id, indexes)
    if isinstance(known, str):
        raise NoProjection(known)
    return known


def _written_message(
    registry: RegistryConfig, schema_id: int, indexes: tuple[int, ...], expected: str
) -> Descriptor:
    parsed = _writer(registry, schema_id, "protobuf")
    assert isinstance(parsed, ProtobufSchema)
    files = parsed.file_set()
    name = message_at(files, indexes)
    if name is None or name != expected:
        raise NoProjection(f"it is the message {name or list(indexes)}, expected {expected}")
    return descriptor_of(files, name)
