"""Buffers by time: records and changes that wait in a store for stream time to pass.

What waits is part of the task's state, so it survives a restart and is in the changelog. The bytes are our
own: nothing but the application itself reads them.

    records    time (8) + key + number (4)          headers and value
    changes    key                                  time (8), timestamp (8), prior and new value, headers
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple

from penstock.topology.ordered_bytes import OrderedBytes
from penstock.topology.records import Headers
from penstock.topology.stores import StoreSpec

_LENGTH: Final = Struct(">i")
_TIME: Final = Struct(">q")
_TIMES: Final = Struct(">qq")
_ABSENT: Final = -1


def _pack(data: bytes | None) -> bytes:
    """Length and bytes; a length of -1 is None."""
    return _LENGTH.pack(_ABSENT) if data is None else _LENGTH.pack(len(data)) + data


class _Reader:
    """Reads what `_pack` and `_pack_headers` wrote."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position

    def number(self) -> int:
        number: int = _LENGTH.unpack_from(self._data, self._position)[0]
        self._position += _LENGTH.size
        return number

    def field(self) -> bytes | None:
        length = self.number()
        if length == _ABSENT:
            return None
        self._position += length
        return self._data[self._position - length : self._position]

    def headers(self) -> Headers:
        return tuple(((self.field() or b"").decode(), self.field()) for _ in range(self.number()))


def _pack_headers(headers: Headers) -> bytes:
    fields = [_pack(name.encode()) + _pack(value) for name, value in headers]
    return _LENGTH.pack(len(fields)) + b"".join(fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBufferSpec(StoreSpec):
    """Records that wait, by their timestamps."""

    def open(self, data: OrderedBytes) -> RecordBuffer:
        return RecordBuffer(data, self)


class RecordBuffer:
    """Records that wait, by their timestamps, then the bytes of their keys, then as they came."""

    def __init__(self, data: OrderedBytes, spec: RecordBufferSpec) -> None:
        self._data = data
        self._spec = spec

    def __len__(self) -> int:
        return len(self._data)

    def put(self, key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        """Keep a record. Neither key nor value is None."""
        prefix = _TIME.pack(timestamp_ms) + self._spec.key.serialize(key)
        number = 0
        for present, _ in self._data.prefix(prefix):
            if len(present) == len(prefix) + _LENGTH.size:
                number = _LENGTH.unpack_from(present, len(prefix))[0] + 1
        stored = _pack_headers(headers) + _pack(self._spec.value.serialize(value))
        self._data.put(prefix + _LENGTH.pack(number), stored)

    def take(self, up_to_ms: int) -> Iterator[tuple[Any, Any, int, Headers]]:
        """Take out the records with timestamps up to this: ``(key, value, timestamp_ms, headers)``."""
        for stored_key, stored in self._data.scan(None, _TIME.pack(max(up_to_ms, -1) + 1)):
            self._data.delete(stored_key)
            reader = _Reader(stored, 0)
            headers, value = reader.headers(), reader.field()
            assert value is not None
            key = self._spec.key.deserialize(stored_key[_TIME.size : -_LENGTH.size])
            yield key, self._spec.value.deserialize(value), _TIME.unpack_from(stored_key)[0], headers


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBufferSpec(StoreSpec):
    """The last change of each key that waits."""

    def open(self, data: OrderedBytes) -> ChangeBuffer:
        return ChangeBuffer(data, self)


class Waiting(NamedTuple):
    """A change that waits: the last one of its key, and the value before the first one."""

    key: Any
    new: Any
    prior: Any
    timestamp_ms: int
    headers: Headers


class ChangeBuffer:
    """The last change of each key, by the time of the first one: an update keeps its key's place.

    ``bytes`` counts keys and values as they are stored.
    """

    def __init__(self, data: OrderedBytes, spec: ChangeBufferSpec) -> None:
        self._data = data
        self._spec = spec
        self._order = sorted((_TIMES.unpack_from(stored)[0], key) for key, stored in data.data.items())
        self.bytes = sum(len(key) + len(stored) for key, stored in data.data.items())

    def __len__(self) -> int:
        return len(self._data)

    @property
    def first_ms(self) -> int | None:
        """The time of the entry that is next."""
        return self._order[0][0] if self._order else None

    def put(self, time_ms: int, key: Any, new: Any, old: Any, timestamp_ms: int, headers: Headers) -> None:
        """Keep a change; ``old`` counts only where none of its key waits yet."""
        value_to = self._spec.value.serialize
        stored_key = self._spec.key.serialize(key)
        present = self._data.get(stored_key)
        if present is None:
            prior = None if old is None else value_to(old)
            insort(self._order, (time_ms, stored_key))
        else:
            time_ms = _TIMES.unpack_from(present)[0]
            prior = _Reader(present, _TIMES.size).field()
            self.bytes -= len(stored_key) + len(present)
        value = None if new is None else value_to(new)
        stored = _TIMES.pack(time_ms, timestamp_ms) + _pack(prior) + _pack(value) + _pack_headers(headers)
        self.bytes += len(stored_key) + len(stored)
        self._data.put(stored_key, stored)

    def take(self) -> Waiting:
        """Take out the entry that is next."""
        _, stored_key = self._order.pop(0)
        stored = self._data.get(stored_key)
        assert stored is not None
        self._data.delete(stored_key)
        self.bytes -= len(stored_key) + len(stored)
        reader = _Reader(stored, _TIMES.size)
        prior, new, headers = reader.field(), reader.field(), reader.headers()
        key = self._spec.key.deserialize(stored_key)
        return Waiting(key, self._value(new), self._value(prior), _TIMES.unpack_from(stored)[1], headers)

    def waits(self, key: Any) -> tuple[bool, Any]:
        """Whether a change of the key waits, and the value before it."""
        stored = self._data.get(self._spec.key.serialize(key))
        if stored is None:
            return False, None
        return True, self._value(_Reader(stored, _TIMES.size).field())

    def _value(self, data: bytes | None) -> Any:
        return None if data is None else self._spec.value.deserialize(data)
