"""Serdes: conversions of keys and values between Python and bytes in topics, changelogs and state stores.

A serde never receives null: a record without a key or value, and a tombstone, stay None. Numbers have the
formats of Kafka's own serializers (big endian), and windowed keys those of Kafka Streams, so that Kafka's
clients can read what this package writes, and the reverse.
"""

from __future__ import annotations

from collections.abc import Callable
from json import JSONEncoder
from struct import Struct
from struct import error as StructError
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from penstock.topology.errors import SerdeError

T = TypeVar("T")
K = TypeVar("K")


class Serde(Generic[T]):
    """A pair of functions: ``serialize(value) -> bytes`` and ``deserialize(bytes) -> value``.

    Both may raise any exception for input that they can't convert; the error names the node that called them.

        >>> point = Serde(lambda p: b"%d,%d" % p, lambda b: tuple(map(int, b.split(b","))), name="point")
        >>> point.deserialize(point.serialize((1, 2)))
        (1, 2)

    Topologies are pickled and sent to workers. If the two functions can't be pickled, ``made_by`` can: a
    function and its arguments that create the serde again.
    """

    __slots__ = ("deserialize", "made_by", "name", "serialize")

    def __init__(
        self,
        serialize: Callable[[T], bytes],
        deserialize: Callable[[bytes], T],
        *,
        name: str = "custom",
        made_by: tuple[Callable[..., Serde[T]], tuple[Any, ...]] | None = None,
    ) -> None:
        self.serialize = serialize
        self.deserialize = deserialize
        self.name = name
        self.made_by = made_by

    def __repr__(self) -> str:
        return f"<serde {self.name}>"

    def __reduce__(self) -> tuple[Callable[..., Serde[T]], tuple[Any, ...]]:
        return self.made_by or (_custom, (self.serialize, self.deserialize, self.name))


def _custom(serialize: Callable[[T], bytes], deserialize: Callable[[bytes], T], name: str) -> Serde[T]:
    return Serde(serialize, deserialize, name=name)


def _builtin(name: str) -> Serde[Any]:
    return _BUILTIN[name]


def _same(value: bytes) -> bytes:
    if type(value) is not bytes:
        raise SerdeError(f"the serde raw takes bytes, not {_shown(value)}")
    return value


def _text(value: str) -> bytes:
    if not isinstance(value, str):
        raise SerdeError(f"the serde string takes str, not {_shown(value)}")
    return value.encode()


def _shown(value: object) -> str:
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 60 else shown[:57] + '…'}"


def _number(name: str, layout: str, kinds: tuple[type, ...]) -> Serde[Any]:
    struct = Struct(layout)
    pack, unpack, size = struct.pack, struct.unpack, struct.size

    def serialize(value: Any) -> bytes:
        if not isinstance(value, kinds) or isinstance(value, bool):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise SerdeError(f"the serde {name} takes {expected}, not {_shown(value)}")
        try:
            return pack(value)
        except (StructError, OverflowError) as error:
            raise SerdeError(f"{value} is out of the range of the serde {name}, {size} bytes") from error

    def deserialize(data: bytes) -> Any:
        if len(data) != size:
            raise SerdeError(f"the serde {name} reads {size} bytes, found {len(data)}")
        return unpack(data)[0]

    return Serde(serialize, deserialize, name=name, made_by=(_builtin, (name,)))


_encode_json = msgspec.json.Encoder().encode
_encode_json_strictly = JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def _to_json(value: Any) -> bytes:
    data = _encode_json(value)
    # The encoder writes NaN as null, so a null in the output may have been NaN, which the standard library
    # rejects.
    return _encode_json_strictly(value).encode() if b"null" in data else data


raw: Final[Serde[bytes]] = Serde(_same, _same, name="raw", made_by=(_builtin, ("raw",)))
"""Bytes, unchanged."""
string: Final[Serde[str]] = Serde(_text, bytes.decode, name="string", made_by=(_builtin, ("string",)))
"""Text as UTF-8."""
json: Final[Serde[Any]] = Serde(
    _to_json, msgspec.json.Decoder().decode, name="json", made_by=(_builtin, ("json",))
)
"""Any JSON value, as compact UTF-8. NaN raises an error; JSON's own null is None.

Dates, UUIDs, bytes (as base64) and dataclasses can be written too, but are read back as text and dicts. The
bytes are not canonical: a dict that serves as a key must always be built in the same order.
"""
integer: Final[Serde[int]] = _number("integer", ">i", (int,))
"""A 32-bit signed integer in the format of Kafka's IntegerSerializer."""
long: Final[Serde[int]] = _number("long", ">q", (int,))
"""A 64-bit signed integer in the format of Kafka's LongSerializer."""
double: Final[Serde[float]] = _number("double", ">d", (float, int))
"""A 64-bit float in the format of Kafka's DoubleSerializer."""

_SUM_AND_COUNT: Final = Struct(">dq")
sum_and_count: Final[Serde[tuple[float, int]]] = Serde(
    lambda pair: _SUM_AND_COUNT.pack(*pair),
    _SUM_AND_COUNT.unpack,
    name="sum and count",
    made_by=(_builtin, ("sum and count",)),
)
"""The stored form of an average: a double and a long."""

_BUILTIN: Final[dict[str, Serde[Any]]] = {
    serde.name: serde for serde in (raw, string, json, integer, long, double, sum_and_count)
}


class Window(NamedTuple):
    """A span of time in milliseconds since 1970: from ``start_ms`` to ``end_ms``.

    The end of a time window is exclusive. The end of a session window is the timestamp of its last record,
    and is inclusive.
    """

    start_ms: int
    end_ms: int


class Windowed(NamedTuple, Generic[K]):
    """The key of a windowed table or stream: the grouped ``key`` and its ``window``."""

    key: K
    window: Window


_TIME: Final = Struct(">q")
_TIMES: Final = Struct(">qq")


def time_windowed(inner: Serde[K], size_ms: int) -> Serde[Windowed[K]]:
    """Return a serde in the format of Kafka Streams' TimeWindowedSerde.

    The key is followed by the window's start (8 bytes); the end follows from the size.
    """
    if size_ms <= 0:
        raise SerdeError(f"a window's size must be above 0 ms, not {size_ms}")

    def serialize(windowed: Windowed[K]) -> bytes:
        return inner.serialize(windowed.key) + _TIME.pack(windowed.window.start_ms)

    def deserialize(data: bytes) -> Windowed[K]:
        if len(data) < 8:
            raise SerdeError(f"a time-windowed key has at least 8 bytes, found {len(data)}")
        start_ms = _TIME.unpack_from(data, len(data) - 8)[0]
        return Windowed(inner.deserialize(data[:-8]), Window(start_ms, start_ms + size_ms))

    name = f"time_windowed({inner.name}, {size_ms} ms)"
    return WindowedSerde(serialize, deserialize, inner, 8, name, (time_windowed, (inner, size_ms)))


def session_windowed(inner: Serde[K]) -> Serde[Windowed[K]]:
    """Return a serde in the format of Kafka Streams' SessionWindowedSerde.

    The key is followed by the session's end and start (8 bytes each).
    """

    def serialize(windowed: Windowed[K]) -> bytes:
        window = windowed.window
        return inner.serialize(windowed.key) + _TIMES.pack(window.end_ms, window.start_ms)

    def deserialize(data: bytes) -> Windowed[K]:
        if len(data) < 16:
            raise SerdeError(f"a session-windowed key has at least 16 bytes, found {len(data)}")
        end_ms, start_ms = _TIMES.unpack_from(data, len(data) - 16)
        return Windowed(inner.deserialize(data[:-16]), Window(start_ms, end_ms))

    name = f"session_windowed({inner.name})"
    return WindowedSerde(serialize, deserialize, inner, 16, name, (session_windowed, (inner,)))


class WindowedSerde(Serde[Windowed[K]]):
    """A serde of windowed keys: the bytes of ``inner``, then ``suffix_bytes`` of times.

    Sinks partition by the inner key alone, as Kafka Streams does, so that all windows of a key share a
    partition.
    """

    __slots__ = ("inner", "suffix_bytes")

    def __init__(
        self,
        serialize: Callable[[Windowed[K]], bytes],
        deserialize: Callable[[bytes], Windowed[K]],
        inner: Serde[K],
        suffix_bytes: int,
        name: str,
        made_by: tuple[Callable[..., Serde[Windowed[K]]], tuple[Any, ...]],
    ) -> None:
        super().__init__(serialize, deserialize, name=name, made_by=made_by)
        self.inner = inner
        self.suffix_bytes = suffix_bytes
