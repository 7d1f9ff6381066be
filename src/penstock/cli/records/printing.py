"""Print consumed records: in columns, as JSON, or in the layout of a format string."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from penstock.cli.records.codec import Decoded
from penstock.cli.records.record import Record
from penstock.cli.records.record_json import bytes_to_json, headers_to_json

Print = Callable[[Record], bytes]
"""Returns all bytes that a record prints."""


def write(data: bytes) -> None:
    """Write to standard output at once, as records may be followed by a long wait."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def json_line(record: Record) -> bytes:
    """Print a record as one JSON object, which `produce --json-lines` can read."""
    fields = {
        "topic": _json(record.topic),
        "partition": _json(record.partition),
        "offset": _json(record.offset),
        "timestamp_ms": _json(record.timestamp_ms),
        **_side("key", record.key),
        **_side("value", record.value),
        "headers": _json(headers_to_json(record.headers)),
    }
    return b"{%s}\n" % b", ".join(b'"%s": %s' % (name.encode(), text) for name, text in fields.items())


def _side(name: str, decoded: Decoded | None) -> dict[str, bytes]:
    if decoded is not None and decoded.json is not None:
        return {name: decoded.json}
    plain = bytes_to_json(name, None if decoded is None else decoded.text)
    return {field: _json(text) for field, text in plain.items()}


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def columns_printer(*, key: bool, headers: bool, timestamp: bool) -> Print:
    """Print the value, after the columns that are asked for, separated by tabs."""

    def print_columns(record: Record) -> bytes:
        columns: list[bytes] = []
        if timestamp:
            moment = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
            columns.append(moment.isoformat(timespec="milliseconds").encode())
        if headers:
            pairs = (name.encode() + b"=" + (value or b"") for name, value in record.headers)
            columns.append(b",".join(pairs) or b"-")
        if key:
            columns.append(_text(record.key))
        columns.append(_text(record.value))
        return b"\t".join(columns) + b"\n"

    return print_columns


def _text(decoded: Decoded | None) -> bytes:
    return b"null" if decoded is None else decoded.text
