"""The implementation of CAST, as a function of non-null values for each pair of types."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from penstock.sql.evaluation import numbers, texts
from penstock.sql.language import times, types
from penstock.sql.language.types import Array, Decimal, Map, SqlType, Struct

Cast = Callable[[Any], Any]


def _parse_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(texts.trimmed(text), validate=True)
    except binascii.Error:
        raise ValueError(f"found {text!r}, expected a text in base64") from None


_CASTS: Final[dict[tuple[SqlType, SqlType], Cast | None]] = {
    (types.INTEGER, types.BIGINT): None,
    (types.INTEGER, types.DOUBLE): float,
    (types.BIGINT, types.INTEGER): numbers.wrapped_integer,
    (types.BIGINT, types.DOUBLE): float,
    (types.DOUBLE, types.INTEGER): numbers.integer_of_double,
    (types.DOUBLE, types.BIGINT): numbers.bigint_of_double,
    (types.STRING, types.BOOLEAN): texts.parse_boolean,
    (types.STRING, types.INTEGER): texts.parse_integer,
    (types.STRING, types.BIGINT): texts.parse_bigint,
    (types.STRING, types.DOUBLE): texts.parse_double,
    (types.STRING, types.TIME): lambda text: times.parse_time(texts.trimmed(text)),
    (types.STRING, types.DATE): lambda text: times.parse_date(texts.trimmed(text)),
    (types.STRING, types.TIMESTAMP): lambda text: times.parse_timestamp(texts.trimmed(text)),
    (types.STRING, types.BYTES): _parse_bytes,
    (types.TIMESTAMP, types.TIME): lambda value: value % times.DAY_MS,
    (types.TIMESTAMP, types.DATE): lambda value: value // times.DAY_MS,
    (types.DATE, types.TIMESTAMP): lambda value: value * times.DAY_MS,
}


def cast(source: SqlType, target: SqlType) -> Cast | None:
    """The function that converts values from one type to another, or None if they need no conversion."""
    if source == target:
        return None
    if (source, target) in _CASTS:
        return _CASTS[source, target]
    if target == types.STRING:
        return texts.formatter(source)
    if isinstance(source, Decimal) or isinstance(target, Decimal):
        return _decimal_cast(source, target)
    match source, target:
        case Array(), Array():
            element = _null_safe(source.element, target.element)
            return lambda values: [element(value) for value in values]
        case Map(), Map():
            key, value = _null_safe(source.key, target.key), _null_safe(source.value, target.value)
            return lambda entries: {key(name): value(each) for name, each in entries.items()}
        case Struct(), Struct():
            return _struct_cast(source, target)
    raise TypeError(f"found a cast of {source} to {target}, which does not exist")


def _null_safe(source: SqlType, target: SqlType) -> Cast:
    made = cast(source, target)
    if made is None:
        return lambda value: value
    return lambda value: None if value is None else made(value)


def _decimal_cast(source: SqlType, target: SqlType) -> Cast:
    if isinstance(target, Decimal):
        if source == types.STRING:
            return partial(texts.parse_decimal, type_=target)
        if source == types.DOUBLE:
            return partial(numbers.decimal_of_double, type_=target)
        if isinstance(source, Decimal):
            return partial(numbers.fitted, type_=target)
        return partial(numbers.decimal_of_integer, type_=target)
    if target == types.DOUBLE:
        return float
    wrapped = numbers.wrapped_integer if target == types.INTEGER else numbers.wrapped_bigint
    return lambda value: wrapped(int(value))


def _struct_cast(source: Struct, target: Struct) -> Cast:
    """Cast fields by name. A field that the source lacks becomes null."""
    known = dict(source.fields)
    fields = [
        (name, _null_safe(known[name], type_) if name in known else None) for name, type_ in target.fields
    ]
    return lambda struct: {name: None if made is None else made(struct[name]) for name, made in fields}
