"""Formatting of values and parsing of strings with Java's rules."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal as Number
from typing import Any, Final

from penstock.java.numbers import double_text
from penstock.sql.evaluation.numbers import BIGINT_BOUND, INTEGER_BOUND, fitted
from penstock.sql.language import times, types
from penstock.sql.language.types import Array, Decimal, Map, SqlType, Struct

_INTEGER: Final = re.compile(r"[+-]?\d+")
_DECIMAL: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?")
_DOUBLE: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?", re.ASCII)
_HEX_DOUBLE: Final = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?", re.ASCII
)
_BLANK: Final = "".join(map(chr, range(33)))
"""The characters that Java's trim removes, which include all control characters."""


def trimmed(text: str) -> str:
    return text.strip(_BLANK)


def _integer_between(text: str, bound: int, type_: str) -> int:
    found = trimmed(text)
    if _INTEGER.fullmatch(found) is not None:
        value = int(found)
        if -bound <= value < bound:
            return value
    raise ValueError(f"found {text!r}, expected an integer that fits {type_}")


def parse_integer(text: str) -> int:
    return _integer_between(text, INTEGER_BOUND, "INTEGER")


def parse_bigint(text: str) -> int:
    return _integer_between(text, BIGINT_BOUND, "BIGINT")


def parse_double(text: str) -> float:
    found = trimmed(text)
    plain = _DOUBLE.fullmatch(found)
    if plain is not None:
        value = float(plain.group(1))
    elif (in_hex := _HEX_DOUBLE.fullmatch(found)) is not None:
        try:
            value = float.fromhex(in_hex.group(1))
        except OverflowError:
            value = math.inf
    else:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"found {text!r}, expected a number that fits DOUBLE")
    return value


def parse_boolean(text: str) -> bool:
    """True for `true`, `yes` and their prefixes, ignoring case; false for everything else."""
    found = trimmed(text).lower()
    return bool(found) and ("true".startswith(found) or "yes".startswith(found))


def parse_decimal(text: str, type_: Decimal) -> Number:
    found = trimmed(text)
    if _DECIMAL.fullmatch(found) is None:
        raise ValueError(f"found {text!r}, expected a number that fits {type_}")
    return fitted(Number(found), type_)


def format_boolean(value: bool) -> str:
    return "true" if value else "false"


def format_decimal(value: Number) -> str:
    return f"{value:f}"


def _java_timestamp(value: int) -> str:
    text = times.format_timestamp(value).replace("T", " ")
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}"


def _java_time(value: int) -> str:
    minutes, seconds = divmod(value // 1000, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


def _java_bytes(value: bytes) -> str:
    return f"java.nio.HeapByteBuffer[pos=0 lim={len(value)} cap={len(value)}]"


_FORMATS: Final[dict[SqlType, Callable[[Any], str]]] = {
    types.BOOLEAN: format_boolean,
    types.INTEGER: str,
    types.BIGINT: str,
    types.DOUBLE: double_text,
    types.STRING: str,
    types.TIME: times.format_time,
    types.DATE: times.format_date,
    types.TIMESTAMP: times.format_timestamp,
}
_INNER_FORMATS: Final[dict[SqlType, Callable[[Any], str]]] = {
    **_FORMATS,
    types.BYTES: _java_bytes,
    types.TIME: _java_time,
    types.TIMESTAMP: _java_timestamp,
}
"""Formats inside an array, a map or a struct, where Java writes times and bytes differently than a cast."""


def formatter(type_: SqlType) -> Callable[[Any], str]:
    """The function that formats non-null values for CAST(… AS STRING)."""
    if isinstance(type_, Decimal):
        return format_decimal
    return _FORMATS.get(type_) or _parts_formatter(type_)


def _inner_formatter(type_: SqlType) -> Callable[[Any], str]:
    if isinstance(type_, Decimal):
        known: Callable[[Any], str] = str
    else:
        known = _INNER_FORMATS.get(type_) or _parts_formatter(type_)
    return lambda value: "null" if value is None else known(value)


def _parts_formatter(type_: SqlType) -> Callable[[Any], str]:
    match type_:
        case Array(element):
            shown = _inner_formatter(element)
            return lambda values: f"[{', '.join(map(shown, values))}]"
        case Map(key, value):
            key_shown, value_shown = _inner_formatter(key), _inner_formatter(value)
            return lambda entries: (
                f"{{{', '.join(f'{key_shown(key)}={value_shown(value)}' for key, value in entries.items())}}}"
            )
        case Struct(fields):
            formatters = {name: _inner_formatter(field) for name, field in fields}
            return lambda struct: "Struct{{{}}}".format(
                ",".join(
                    f"{name}={formatters[name](each)}" for name, each in struct.items() if each is not None
                )
            )
    raise TypeError(f"found {type_}, which has no text form")
