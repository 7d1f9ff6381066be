"""Makes requests of records: URLs, bodies, and the header by which a receiver knows them again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from penstock.connect.connectors.http.exchange.messages import HttpRequest
from penstock.connect.connectors.http.exchange.settings import headers_of
from penstock.connect.connectors.http.sink.definition import URL
from penstock.connect.connectors.http.templates import Template, in_url, inside
from penstock.connect.converters.json.writing import Write, Writing
from penstock.connect.data.json_text import encoded
from penstock.connect.data.records import SinkRecord
from penstock.connect.data.schema import Schema
from penstock.connect.errors import DataError

_ESCAPE: Final = re.compile(r"\\([nrt\\\"'])")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_WRITING: Final = Writing(decimals_are_numbers=True, replaces_nulls=True)
_DELETE: Final = "DELETE"
_WRITERS_MAX: Final = 1000
"""Limits the schemas whose writers are kept."""


@dataclass(frozen=True, slots=True)
class Part:
    """One record's part of a request: all of a request that is not batched."""

    record: SinkRecord
    method: str
    url: str
    body: bytes | None


class Requests:
    """Makes requests as a configuration says. For any threads."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._url = Template(config[URL])
        self._method: str = config["request.method"].upper()
        self._on_null: str = config["behavior.on.null.values"]
        self._batch_size: int = config["batch.max.size"] if config["batching.enabled"] else 0
        self._prefix, self._suffix, self._separator = (
            unescaped("\\n" if text is None else text)
            for text in (config["batch.prefix"], config["batch.suffix"], config["batch.separator"])
        )
        self._headers = headers_of(config["http.headers.additional"])
        if content_type := config["http.headers.content.type"]:
            self._headers["content-type"] = content_type
        self._idempotency_header: str = config["http.idempotency.header"].lower()
        self._writers: dict[Schema, Write] = {}

    def part(self, record: SinkRecord) -> Part | None:
        """Return a record's part of a request, or None if it is ignored.

        Raises:
            DataError: the record has no such value as the URL needs, or one that cannot be written.
        """
        if record.value is not None:
            return Part(record, self._method, self._url_of(record), self._body(record))
        if self._on_null == "ignore":
            return None
        if self._on_null == "fail":
            raise DataError(
                f"the record {name_of([record])} has no value, and behavior.on.null.values is fail"
            )
        return Part(record, _DELETE, self._url_of(record), None)

    def groups(self, parts: Sequence[Part]) -> Iterator[list[Part]]:
        """Split parts into those of one request each, in order."""
        for (method, _), found in groupby(parts, lambda part: (part.method, part.url)):
            together, size = list(found), 1 if method == _DELETE else self._batch_size or 1
            for first in range(0, len(together), size):
                yield together[first : first + size]

    def request(self, group: Sequence[Part]) -> HttpRequest:
        """Return the request of a group."""
        first = group[0]
        headers = dict(self._headers)
        if self._idempotency_header:
            headers[self._idempotency_header] = name_of([part.record for part in group])
        body = first.body
        if self._batch_size and body is not None:
            bodies = [part.body for part in group if part.body is not None]
            body = self._prefix + self._separator.join(bodies) + self._suffix
        return HttpRequest(first.method, first.url, headers, body)

    def _url_of(self, record: SinkRecord) -> str:
        return self._url.fill(lambda name: value_at(record, name), in_url)

    def _body(self, record: SinkRecord) -> bytes:
        """Return texts and bytes as they are, and other values as JSON."""
        value, schema = record.value, record.value_schema
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        if isinstance(value, str):
            return encoded(value)
        if schema is None:
            return encoded(_WRITING.writer(None)(value))
        write = self._writers.get(schema)
        if write is None:
            if len(self._writers) >= _WRITERS_MAX:
                self._writers.clear()
            write = self._writers[schema] = _WRITING.writer(schema)
        return encoded(write(value))


def value_at(record: SinkRecord, name: str) -> Any:
    """Return the value for a place in the URL."""
    root, *names = name.split(".")
    match root:
        case "topic":
            return record.topic
        case "partition":
            return record.original_partition
        case "offset":
            return record.original_offset
        case "timestamp":
            return record.timestamp_ms
        case "key":
            return inside(record.key, names)
        case "value":
            return inside(record.value, names)
    header = name.partition(".")[2]
    return next((each.value for each in reversed(record.headers) if each.key == header), None)


def name_of(records: Sequence[SinkRecord]) -> str:
    """Return the name of a request: topic-partition-offset, with first:last offset of several records.

    Records of several partitions are separated by commas.
    """
    ends: dict[tuple[str, int], list[int]] = {}
    for each in records:
        ends.setdefault((each.original_topic, each.original_partition), []).append(each.original_offset)
    return ",".join(
        f"{topic}-{partition}-{min(offsets)}" + (f":{max(offsets)}" if len(records) > 1 else "")
        for (topic, partition), offsets in ends.items()
    )


def unescaped(text: str) -> bytes:
    r"""Return a text with \n, \r, \t and \\ replaced, as bytes."""
    return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), text).encode()
