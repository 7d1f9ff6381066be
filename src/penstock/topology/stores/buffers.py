"""Buffers by time: records and changes that wait in a store until stream time passes.

Waiting entries are part of the task's state, so they survive a restart and are in the changelog. The byte
format is our own, because only the application itself reads it:

    buffer     stored key                  stored value
    records    time (8) + key + number (4) headers, value
    changes    key                         time (8), timestamp (8), prior and new value, headers
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, NamedTuple

from penstock.topology.records import Headers
from penstock.topology.stores.ordered_bytes import OrderedBytes
from penstock.topology.stores.state_stores import StoreSpec

_LENGTH: Final = Struct(">i")
_TIME: Final = Struct(">q")
_TIMES: Final = Struct(">qq")
_ABSENT: Final = -1


def _pack(data: bytes | None) -> bytes:
    """Serialize a length and the bytes; a length of -1 stands for None."""
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
    """The definition of a store of waiting records, ordered by timestamp."""

    def open(self, data: OrderedBytes) -> RecordBuffer:
        return RecordBuffer(data, self)


class RecordBuffer:
    """Waiting records, ordered by timestamp, then by the bytes of their keys, then by arrival."""

    def __init__(self, data: OrderedBytes, spec: RecordBufferSpec) -> None:
        self._data = data
        self._spec = spec

    def __len__(self) -> int:
        return len(self._data)

    def put(self, key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
        """Buffer a record. Neither key nor value may be None."""
        prefix = _TIME.pack(timestamp_ms) + self._spec.key.serialize(key)
        number = 0
        for present, _ in self._data.prefix(prefix):
            if len(present) == len(prefix) + _LENGTH.size:
                number = _LENGTH.unpack_from(present, len(prefix))[0] + 1
        stored = _pack_headers(headers) + _pack(self._spec.value.serialize(value))
        self._data.put(prefix + _LENGTH.pack(number), stored)

    def take(self, up_to_ms: int) -> Iterator[tuple[Any, Any, int, Headers]]:
        """Remove and yield the records up to this timestamp: ``(key, value, timestamp_ms, headers)``."""
        for stored_key, stored in self._data.scan(None, _TIME.pack(max(up_to_ms, -1) + 1)):
            self._data.delete(stored_key)
            reader = _Reader(stored, 0)
            headers, value = reader.headers(), reader.field()
            assert value is not None
            key = self._spec.key.deserialize(stored_key[_TIME.size : -_LENGTH.size])
            yield key, self._spec.value.deserialize(value), _TIME.unpack_from(stored_key)[0], headers


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBufferSpec(StoreSpec):
    """The definition of a store of the last waiting change of each key."""

    def open(self, data: OrderedBytes) -> ChangeBuffer:
        return ChangeBuffer(data, self)


class Waiting(NamedTuple):
    """A waiting change: the last one of its key, with the value before the key's first waiting change."""

    key: Any
    new: Any
    prior: Any
    timestamp_ms: int
    headers: Headers


class ChangeBuffer:
    """The last change of each key, ordered by the time of its first one: an update keeps its key's position.

    ``bytes`` is the total size of keys and values as stored.
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
        """The time of the next entry."""
        return self._order[0][0] if self._order else None

    def put(self, time_ms: int, key: Any, new: Any, old: Any, timestamp_ms: int, headers: Headers) -> None:
        """Buffer a change; ``old`` is used only if no change of its key is waiting yet."""
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
        """Remove and return the next entry."""
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
        """Return whether a change of the key is waiting, and the value from before it."""
        stored = self._data.get(self._spec.key.serialize(key))
        if stored is None:
            return False, None
        return True, self._value(_Reader(stored, _TIMES.size).field())

    def _value(self, data: bytes | None) -> Any:
        return None if data is None else self._spec.value.deserialize(data)
