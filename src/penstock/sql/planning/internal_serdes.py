"""Serdes of rows in stores, changelogs and repartition topics, which only the query reads: MessagePack."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal as Number
from functools import lru_cache
from typing import Any, Final

import msgspec

from penstock.sql.language.types import Array, Base, Decimal, Map, Named, Primitive, SqlType, Struct
from penstock.topology.serdes import Serde

_PYTHON: Final[dict[Base, Any]] = {
    Base.BOOLEAN: bool,
    Base.INTEGER: int,
    Base.BIGINT: int,
    Base.DOUBLE: float,
    Base.STRING: str,
    Base.BYTES: bytes,
    Base.TIME: int,
    Base.DATE: int,
    Base.TIMESTAMP: int,
}
_NUMBER: Final = 1


def row_serde(types: Sequence[SqlType]) -> Serde[Any]:
    """The serde of tuples of values of these types, any of which may be None."""
    return _row_serde(tuple(types))


@lru_cache(maxsize=512)
def _row_serde(types: tuple[SqlType, ...]) -> Serde[Any]:
    kinds = tuple(_kind(each) for each in types)
    row: Any = tuple[kinds] if kinds else tuple[()]  # type: ignore[valid-type]
    decode = msgspec.msgpack.Decoder(row).decode
    encode = msgspec.msgpack.Encoder().encode
    return Serde(encode, decode, name="row", made_by=(_row_serde, (types,)))


def _kind(type_: SqlType) -> Any:
    match type_:
        case Primitive(base):
            return _PYTHON[base] | None
        case Decimal():
            return Number | None
        case Array(element):
            return list[_kind(element)] | None  # type: ignore[misc]
        case Map(_, value):
            return dict[Any, _kind(value)] | None  # type: ignore[misc]
        case Struct():
            return _struct(type_) | None
        case Named():
            raise AssertionError(f"{type_} is resolved in a plan")


@lru_cache(maxsize=512)
def _struct(type_: Struct) -> Any:
    """A TypedDict, because the values of a STRUCT are dicts with every field."""
    from typing import TypedDict

    return TypedDict("Fields", {name: _kind(field) for name, field in type_.fields})  # type: ignore[operator]


def state_serde() -> Serde[Any]:
    """The serde of aggregates' states: nested lists, dicts, texts, bytes and numbers."""
    return _STATES


def _state_serde() -> Serde[Any]:
    return _STATES


def _to_state(value: Any) -> bytes:
    return _ENCODE(_packed(value))


def _packed(value: Any) -> Any:
    """Replace decimals, which MessagePack lacks, by an extension that distinguishes them from texts."""
    kind = type(value)
    if kind is Number:
        return msgspec.msgpack.Ext(_NUMBER, str(value).encode())
    if kind is list or kind is tuple:
        return [_packed(each) for each in value]
    if kind is dict:
        return {key: _packed(each) for key, each in value.items()}
    return value


def _unpacked(code: int, data: memoryview) -> Any:
    assert code == _NUMBER, f"found the extension {code} in a state, expected {_NUMBER}"
    return Number(bytes(data).decode())


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(ext_hook=_unpacked).decode
_STATES: Final[Serde[Any]] = Serde(_to_state, _DECODE, name="state", made_by=(_state_serde, ()))
