"""PRINT: the records of a topic as lines of text, in formats guessed from their bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from struct import unpack
from typing import Final

from penstock.client.errors import ClientError
from penstock.registry.client.config import URL, RegistryConfig
from penstock.registry.client.registry import shared_registry
from penstock.sql.engine.reading.feeds import Chunk
from penstock.sql.engine.reading.results import QueryClosed, QueuedRows
from penstock.sql.formats import FormatError, Side, registered_columns, value_serde
from penstock.sql.formats.json.writing import value_writer
from penstock.sql.formats.registry.registered import PREFIX_BYTES
from penstock.sql.formats.registry_schemas import REGISTRY_FORMATS
from penstock.sql.language import statements as s
from penstock.topology.records import Input

_NULL: Final = "<null>"
_FORMATS: Final = {name: format_ for format_, name in REGISTRY_FORMATS.items()}
_SHOWN_BYTES: Final = 1_000
_NO_DATA: Final = r"¯\_(ツ)_/¯ - no data processed"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_MAX_MS: Final = 253_402_300_799_999  # the end of year 9999

Show = Callable[[bytes], str | None]


def _text(data: bytes) -> str | None:
    try:
        found = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in found else found


def _json(data: bytes) -> str | None:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return None
    return _text(data)


def _number(size: int, code: str) -> Show:
    return lambda data: str(unpack(code, data)[0]) if len(data) == size else None


def _bytes(data: bytes) -> str:
    more = " …" if len(data) > _SHOWN_BYTES else ""
    return f"[{data[:_SHOWN_BYTES].hex(' ')}{more}]"


_BYTES: Final = "UNRECOGNIZED_BYTES"


class Guess:
    """The formats that all values so far can be read in; values are shown in the first of them."""

    def __init__(self, registry: Mapping[str, str]) -> None:
        self._registry = registry
        self._shown: dict[int, tuple[str, Callable[[bytes], str]] | None] = {}
        self._plain: dict[str, Show] = {
            "JSON": _json,
            "KAFKA_STRING": _text,
            "KAFKA_INT": _number(4, ">i"),
            "KAFKA_BIGINT": _number(8, ">q"),
            "KAFKA_DOUBLE": _number(8, ">d"),
        }
        self._possible: list[str] | None = None

    def __str__(self) -> str:
        return _NO_DATA if self._possible is None else " or ".join(self._possible)

    def show(self, data: bytes | None) -> str:
        if data is None:
            return _NULL
        found = self._readings(data)
        known = found if self._possible is None else self._possible
        self._possible = [name for name in known if name in found] or [_BYTES]
        shown = found.get(self._possible[0])
        return _bytes(data) if shown is None else shown

    def _readings(self, data: bytes) -> dict[str, str]:
        """The text of a value in each format that can read it."""
        registered = self._registered(data)
        if registered is not None:
            return {registered[0]: registered[1]}
        return {name: text for name, show in self._plain.items() if (text := show(data)) is not None}

    def _registered(self, data: bytes) -> tuple[str, str] | None:
        """Format and text of a value that begins with the id of a schema in the registry."""
        if URL not in self._registry or len(data) <= PREFIX_BYTES or data[0]:
            return None
        schema_id = int.from_bytes(data[1:PREFIX_BYTES], "big")
        try:
            if schema_id not in self._shown:
                self._shown[schema_id] = self._shower(schema_id)
            shower = self._shown[schema_id]
            return None if shower is None else (shower[0], shower[1](data))
        except (FormatError, ClientError):
            return None

    def _shower(self, schema_id: int) -> tuple[str, Callable[[bytes], str]] | None:
        client = shared_registry(RegistryConfig.from_properties(self._registry))
        format_ = _FORMATS[client.by_id(schema_id).format]
        settings = {**self._registry, "VALUE_SCHEMA_ID": str(schema_id), "WRAP_SINGLE_VALUE": "false"}
        columns = registered_columns(Side.VALUE, "", format_, settings, client)
        if not columns:
            return None
        serde = value_serde(columns, format_, settings)
        writers = [value_writer(each.type) for each in columns]

        def show(data: bytes) -> str:
            row = serde.deserialize(data)
            texts = [
                "null" if value is None else write(value) for write, value in zip(writers, row, strict=True)
            ]
            if len(columns) == 1 and format_ != "PROTOBUF":
                return texts[0]
            fields = (f'"{each.name}":{text}' for each, text in zip(columns, texts, strict=True))
            return f"{{{','.join(fields)}}}"

        return format_, show


class Printer:
    """The lines that PRINT shows: one per record, and the formats whenever the guess of them changes."""

    def __init__(self, registry: Mapping[str, str], interval: int | None) -> None:
        self._keys, self._values = Guess(registry), Guess(registry)
        self._interval = interval or 1
        self._seen = 0
        self._printed_formats: tuple[str, str] | None = None

    def lines(self, row: Input) -> list[str]:
        _, partition, _, timestamp_ms, key, value, _ = row
        self._seen += 1
        shown_key, shown_value = self._keys.show(key), self._values.show(value)
        if (self._seen - 1) % self._interval:
            return []
        lines: list[str] = []
        formats = str(self._keys), str(self._values)
        if formats != self._printed_formats:
            self._printed_formats = formats
            lines = [f"Key format: {formats[0]}", f"Value format: {formats[1]}"]
        time = _shown_time(timestamp_ms)
        return [*lines, f"rowtime: {time}, key: {shown_key}, value: {shown_value}, partition: {partition}"]


def _shown_time(timestamp_ms: int) -> str:
    if not 0 <= timestamp_ms <= _TIME_MAX_MS:
        return "N/A"
    at = _EPOCH + timedelta(milliseconds=timestamp_ms)
    return f"{at:%Y/%m/%d %H:%M:%S}.{timestamp_ms % 1000:03d} Z"


class Printing:
    """The taker of a PRINT (`topic_reader.Taker`): it shows up to LIMIT records as lines."""

    def __init__(self, statement: s.Print, registry: Mapping[str, str], result: QueuedRows) -> None:
        self._printer = Printer(registry, statement.interval)
        self._left = statement.limit
        self._result = result

    def has_room(self) -> bool:
        return self._result.has_room()

    def take(self, chunk: Chunk, start: int, stop: int) -> bool:
        try:
            for row in chunk.records[start:stop]:
                if self._left == 0:
                    break
                lines = self._printer.lines(row)
                for line in lines:
                    self._result.put((line,))
                if lines and self._left is not None:
                    self._left -= 1
        except QueryClosed:
            return False
        if self._left == 0:
            self._result.finish()
        return self._left != 0

    def turn_over(self) -> None:
        """Do nothing: no line depends on time alone."""

    def finished(self) -> None:
        self._result.finish()

    def failed(self, error: BaseException) -> None:
        self._result.fail(error)
