"""The format KAFKA, one value as Kafka's own serializers write it, and the format NONE, without any bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from penstock.sql.formats.errors import FormatError, mismatch
from penstock.sql.language import types
from penstock.sql.language.types import SqlType
from penstock.sql.language.utf8 import utf8
from penstock.topology.errors import SerdeError
from penstock.topology.serdes import Serde, double, integer, long, raw


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise mismatch(value, types.STRING)
    return utf8(value)


_SERDES: Final[dict[SqlType, Serde[Any]]] = {
    types.INTEGER: integer,
    types.BIGINT: long,
    types.DOUBLE: double,
    # Kafka's StringDeserializer replaces invalid UTF-8 with a replacement character.
    types.STRING: Serde(_text, lambda data: data.decode(errors="replace"), name="text"),
    types.BYTES: raw,
}

Pair = tuple[Callable[[Sequence[Any]], Any], Callable[[bytes], Any]]


def nothing() -> Pair:
    """The functions for a side without columns: they write no bytes and ignore those they read."""
    return lambda row: None, lambda data: None


def single(name: str, type_: SqlType) -> Pair:
    serde = _SERDES.get(type_)
    if serde is None:
        allowed = ", ".join(map(str, _SERDES))
        raise FormatError(f"found {type_} in the format KAFKA, expected one of {allowed}", name)
    write, read = serde.serialize, serde.deserialize

    def serialize(row: Sequence[Any]) -> bytes | None:
        (value,) = row
        try:
            return None if value is None else write(value)
        except FormatError as error:
            raise error.within(name) from None
        except SerdeError:
            raise mismatch(value, type_).within(name) from None

    def deserialize(data: bytes) -> tuple[Any]:
        try:
            return (read(data),)
        except SerdeError as error:
            raise FormatError(str(error), name) from None

    return serialize, deserialize
