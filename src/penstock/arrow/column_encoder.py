"""Columns to the bytes of keys and values: what `formats` reads, written. A null stays null.

With a registry each value begins with the id of its schema, which is registered under the topic's subject:
one that was given, the subject's latest, or one made of the column's type.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.avro.writing import Writer, schema_of
from penstock.arrow.decoded import spread, valid_rows
from penstock.arrow.encoding import RECORD, SCHEMA_TYPES, TOPIC, Encoding, Unwritable
from penstock.client.settings import ConfigError
from penstock.registry.client.registry import RegistryClient, shared_registry
from penstock.registry.formats import Schema, SchemaError, parse
from penstock.registry.formats.avro.schema import AvroSchema
from penstock.registry.formats.references import Reference

_JSON_TYPES: Final = {
    "bool": "boolean",
    "float": "number",
    "double": "number",
    "string": "string",
    "date32[day]": "string",
}


class ColumnEncoder:
    """Of one task: remembers what it found out for each topic and type."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._known: dict[tuple[str, pa.DataType], Callable[[pa.Array], pa.Array]] = {}

    def encode(self, topic: str, column: pa.Array) -> pa.Array:
        """Raises Unwritable for a row, ConfigError for the column, and what a registry's client raises."""
        key = (topic, column.type)
        if key not in self._known:
            self._known[key] = _encoder(self._encoding, topic, column.type)
        encode = self._known[key]
        if not column.null_count:
            return encode(column)
        return spread(encode(column.drop_null()), np.flatnonzero(valid_rows(column)), len(column))


def _encoder(encoding: Encoding, topic: str, kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    match encoding.name:
        case "binary" | "bytes" | "string":
            if not _is_text(kind):
                raise ConfigError(
                    f"the column '{encoding.part}' is of type {kind}, which the format "
                    f"'{encoding.name}' does not hold: expected string or binary"
                )
            return lambda column: column
        case "json":
            return _documents
        case "csv":
            return _lines(encoding.part, kind)
    schema = _schema(encoding, topic, kind)
    encode = Writer(schema.root, kind).write if isinstance(schema, AvroSchema) else _documents
    if encoding.registry is None:
        return encode
    number = _id(encoding, shared_registry(encoding.registry), topic, schema)
    prefix = pa.scalar(b"\0" + number.to_bytes(4, "big"), pa.binary())
    nothing = pa.scalar(b"", pa.binary())
    return lambda column: pc.binary_join_element_wise(prefix, encode(column), nothing)


def _schema(encoding: Encoding, topic: str, kind: pa.DataType) -> Schema:
    wanted = SCHEMA_TYPES[encoding.name]
    if encoding.uses_latest:
        assert encoding.registry is not None
        client = shared_registry(encoding.registry)
        found = client.latest(f"{topic}-{encoding.part}")
        if found.format != wanted:
            raise ConfigError(f"subject '{topic}-{encoding.part}' has a schema of the type {found.format}")
        return client.parsed(found)
    text = encoding.schema
    if text is None:
        name = _name(topic, encoding.part)
        made = schema_of(kind, name) if wanted == "AVRO" else _json_schema(kind, name)
        text = json.dumps(made)
    try:
        return parse(wanted, text)
    except SchemaError as problem:
        raise ConfigError(f"invalid schema for the format '{encoding.name}': {problem}") from None


def _id(encoding: Encoding, client: RegistryClient, topic: str, schema: Schema) -> int:
    subject = _subject(encoding, topic, schema)
    ask = client.register if encoding.registers and not encoding.uses_latest else client.registered_id
    references: tuple[Reference, ...] = schema.references
    return ask(subject, schema.format, schema.canonical(), references, normalize=encoding.normalizes)


def _subject(encoding: Encoding, topic: str, schema: Schema) -> str:
    """By Confluent's three strategies."""
    if encoding.strategy == TOPIC:
        return f"{topic}-{encoding.part}"
    if isinstance(schema, AvroSchema):
        name = schema.root.full_name if schema.root.name is not None else None
    else:
        document = json.loads(schema.canonical())
        name = document.get("title") if isinstance(document, dict) else None
    if not name:
        raise ConfigError(
            f"the schema has no name, which the subject's strategy '{encoding.strategy}' needs: a record's "
            "in Avro, the title in JSON Schema"
        )
    return str(name) if encoding.strategy == RECORD else f"{topic}-{name}"


def _name(topic: str, part: str) -> str:
    """A record's name made of a topic's: letters, digits and underscores."""
    made = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in f"{topic}_{part}")
    return made if not made[0].isdigit() else f"_{made}"


def _documents(column: pa.Array) -> pa.Array:
    """JSON: times as ISO 8601, decimals as texts, binary as base64."""
    values: Iterable[Any] = column.to_pylist(maps_as_pydicts="strict")
    return pa.array([msgspec.json.encode(value) for value in values], pa.binary())


def _json_schema(kind: pa.DataType, name: str) -> dict[str, Any]:
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": name, **_json_type(kind)}


def _json_type(kind: pa.DataType) -> dict[str, Any]:
    """As `_documents` writes it. Below the whole everything may be null."""
    if pa.types.is_struct(kind):
        return {"type": "object", "properties": {f.name: _or_null(_json_type(f.type)) for f in kind}}
    if pa.types.is_map(kind):
        return {"type": "object", "additionalProperties": _or_null(_json_type(kind.item_type))}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _or_null(_json_type(kind.value_type))}
    if pa.types.is_integer(kind):
        return {"type": "integer"}
    made: dict[str, Any] = {"type": _JSON_TYPES.get(str(kind), "string")}
    if pa.types.is_date32(kind):
        made["format"] = "date"
    elif pa.types.is_timestamp(kind) and kind.tz:
        made["format"] = "date-time"
    return made


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, dict(schema)]}


def _lines(part: str, kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """CSV: texts in quotes, so that one that is empty is none that is null."""
    if not pa.types.is_struct(kind) or any(
        pa.types.is_nested(f.type) or pa.types.is_binary(f.type) for f in kind
    ):
        raise ConfigError(
            f"the column '{part}' is of type {kind}, which CSV does not hold: expected a struct of booleans, "
            "numbers, strings, dates and timestamps"
        )

    def encode(column: pa.StructArray) -> pa.Array:
        fields = [_csv_field(each) for each in column.flatten()]
        return pc.binary_join_element_wise(*fields, ",", null_handling="replace", null_replacement="").cast(
            pa.binary()
        )

    return encode


def _csv_field(column: pa.Array) -> pa.Array:
    if not pa.types.is_string(column.type):
        return column.cast(pa.string())
    if pc.any(pc.match_substring_regex(column, r"[\r\n]")).as_py():
        raise Unwritable("a text has an end of line in it, which a line of CSV does not hold")
    quoted = pc.replace_substring(column, '"', '""')
    return pc.binary_join_element_wise('"', quoted, '"', "")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))
