"""Writes the values of records to a file, in one of the formats.

A file of CSV or Avro has one schema: `fits` says whether a record can be in the same file.
"""

from __future__ import annotations

import base64
import csv
import datetime
import io
from collections.abc import Mapping
from decimal import Decimal
from typing import IO, Any, Final, Protocol

from penstock.connect.connectors.files.sink import definition as keys
from penstock.connect.converters.json.writing import Write, Writing
from penstock.connect.converters.string_text import string_text
from penstock.connect.data.json_text import encoded, text_of
from penstock.connect.data.records import SinkRecord
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError
from penstock.extras import needs_extra

SUFFIXES: Final = {keys.LINES: ".txt", keys.JSON_LINES: ".jsonl", keys.CSV: ".csv", keys.AVRO: ".avro"}
_JSON: Final = Writing(decimals_are_numbers=True, replaces_nulls=False)


class Encoder(Protocol):
    """Writes records to one file."""

    def fits(self, record: SinkRecord) -> bool:
        """Whether a record can be in this file."""
        ...

    def write(self, record: SinkRecord) -> int:
        """Write a record and return its size in bytes. Raises DataError, and then nothing is written."""
        ...

    def finish(self) -> None:
        """Write what is left."""
        ...


def encoder(format: str, out: IO[bytes], record: SinkRecord, avro_codec: str) -> Encoder:
    """Begin a file whose first record is this one. Raises DataError."""
    match format:
        case keys.CSV:
            return _CsvEncoder(out, record)
        case keys.AVRO:
            with needs_extra("registry", "writing Avro files"):
                return _AvroEncoder(out, record.value_schema, avro_codec)
        case keys.LINES:
            return _LineEncoder(out, is_json=False)
    return _LineEncoder(out, is_json=True)


class _LineEncoder:
    """Writes values as text or as JSON, each on a line."""

    def __init__(self, out: IO[bytes], *, is_json: bool) -> None:
        self._out = out
        self._is_json = is_json
        self._schema: Schema | None = None
        self._text: Write = text_of

    def fits(self, record: SinkRecord) -> bool:
        return True

    def write(self, record: SinkRecord) -> int:
        if self._is_json:
            if record.value_schema is not self._schema:
                self._schema, self._text = record.value_schema, _JSON.writer(record.value_schema)
            text = self._text(record.value)
        else:
            text = string_text(record.value_schema, record.value)
            if "\n" in text:
                raise DataError(f"the text has a line feed, so it is no line: {text[:100]!r}")
        data = encoded(text) + b"\n"
        self._out.write(data)
        return len(data)

    def finish(self) -> None:
        pass


class _CsvEncoder:
    """Writes structs, or mappings without a schema, as rows behind a header."""

    def __init__(self, out: IO[bytes], record: SinkRecord) -> None:
        self._out = out
        self._schema = record.value_schema
        self._names = _names(record)
        out.write(_row(self._names))

    def fits(self, record: SinkRecord) -> bool:
        schema = record.value_schema
        if schema is not None or self._schema is not None:
            return schema is self._schema or schema == self._schema
        return isinstance(record.value, Mapping) and list(record.value) == self._names

    def write(self, record: SinkRecord) -> int:
        value = record.value
        if isinstance(value, Struct):
            fields = [
                _field(each.schema, found)
                for each, found in zip(value.schema.fields, value.all_values(), strict=True)
            ]
        else:
            fields = [_field(None, value[name]) for name in self._names]
        data = _row(fields)
        self._out.write(data)
        return len(data)

    def finish(self) -> None:
        pass


def _names(record: SinkRecord) -> list[str]:
    value = record.value
    if isinstance(value, Struct):
        return [each.name for each in value.schema.fields]
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return list(value)
    raise DataError(f"a row of CSV needs a struct or a mapping, found {type(value).__name__}")


def _row(fields: list[str]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(fields)  # so that it quotes a carriage return
    return encoded(out.getvalue().removesuffix("\r\n") + "\n")


def _field(schema: Schema | None, value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case int() | float() | Decimal():
            return str(value)
    is_typed = schema is not None and schema.type in (Type.STRUCT, Type.ARRAY, Type.MAP)
    return _JSON.writer(schema)(value) if is_typed else text_of(value)


class _AvroEncoder:
    """Writes values to an Avro container."""

    def __init__(self, out: IO[bytes], schema: Schema | None, codec: str) -> None:
        from penstock.connect.connectors.formats.avro_containers import AvroWriter

        self._schema = schema
        self._writer = AvroWriter(out, schema, codec)

    def fits(self, record: SinkRecord) -> bool:
        return record.value_schema is self._schema or record.value_schema == self._schema

    def write(self, record: SinkRecord) -> int:
        return self._writer.write(record.value)

    def finish(self) -> None:
        self._writer.flush()
