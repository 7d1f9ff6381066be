"""Common reading: records that several tasks would decode alike are decoded only once.

A record of a topic becomes a key, a value and a time in its source, and then a row in an operator with
`Operator.reads_alone`. Tasks of other topologies whose source and operator have equal definitions get the
same result, so a result can be computed once and passed to all of them (`Task.process_read`).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

from penstock.topology.context import Context
from penstock.topology.errors import ErrorPolicy, InvalidRecord, RecordFailed
from penstock.topology.graph import Processor, Source, SubTopology, Topology
from penstock.topology.records import Forward, Headers, Input, Record
from penstock.topology.serdes import Serde
from penstock.topology.stores.ordered_bytes import OrderedBytes


class _Alone:
    """A placeholder for a record that could not be read; each task reads it itself to report the error."""


ALONE: Final = _Alone()

Read: TypeAlias = "tuple[Any, Any, int] | _Alone | None"
"""Key, value and time as the operator returns them; None if the record is skipped."""


def entrance(topology: Topology, part: SubTopology, topic: str) -> tuple[Source, Processor] | None:
    """Return the source of a topic (cluster name) and the operator behind it, if they read alone."""
    for source in part.sources:
        if topic in map(topology.topic, source.topics) and len(source.children) == 1:
            [child] = source.children
            if isinstance(child, Processor) and child.operator.reads_alone and child.parents == [source]:
                return source, child
    return None


class CommonReading:
    """The shared reader of one topic. ``made_of`` is equal for all readers that decode alike."""

    def __init__(self, source: Source, processor: Processor) -> None:
        self.made_of = pickle.dumps((source.key, source.value, source.extractor, processor.operator))
        self._found: list[tuple[Any, Any, int]] = []
        self._context = Context(-1, ErrorPolicy(None), {}, {}, OrderedBytes())
        behind = processor.operator.compile(processor.name, self._context, self._keep)
        self._read = source_reader(source, self._context, behind)

    @classmethod
    def of(cls, topology: Topology, part: SubTopology, topic: str) -> CommonReading | None:
        """Create the reader of a topic; None if each task must read the topic by itself."""
        found = entrance(topology, part, topic)
        try:
            return None if found is None else cls(*found)
        except (pickle.PicklingError, TypeError, AttributeError):  # without pickling, no comparison
            return None

    def _keep(self, key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        self._found.append((key, value, timestamp_ms))

    def read(self, rows: Iterable[Input]) -> list[Read]:
        context, read, found = self._context, self._read, self._found
        made: list[Read] = []
        for row in rows:
            context.record = row
            try:
                read(row[4], row[5], row[3], row[6])
            except RecordFailed:
                made.append(ALONE)
            else:
                made.append(found[0] if found else None)
            found.clear()
        return made


def source_reader(source: Source, context: Context, forward: Forward) -> Forward:
    """Return the function that decodes a source's records and forwards them."""
    name, extract = source.name, source.extractor
    key_of, value_of = _reader(source.key), _reader(source.value)

    def read(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        try:
            if key is not None:
                key = key_of(key)
            if value is not None:
                value = value_of(value)
            if extract is not None:
                timestamp_ms = extract(Record(key, value, timestamp_ms, headers), context.stream_time_ms)
                if timestamp_ms < 0:
                    context.drop(name)
                    return
            elif timestamp_ms < 0:
                raise InvalidRecord(
                    f"the record's timestamp is {timestamp_ms}; a timestamp extractor can replace it"
                )
        except Exception as error:
            context.failed(name, error)
            return
        if timestamp_ms > context.stream_time_ms:
            context.stream_time_ms = timestamp_ms
        forward(key, value, timestamp_ms, headers)

    return read


def _same(data: Any) -> Any:
    return data


def _reader(serde: Serde[Any] | None) -> Callable[[bytes], Any]:
    return _same if serde is None else serde.deserialize
