"""Serialization of rows to JSON, byte for byte as ksqlDB's converter writes them.

The bytes matter because keys are compared and partitioned by them. For each list of columns a function is
generated that consists of one expression.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final

from penstock.sql.formats.errors import FormatError, mismatch
from penstock.sql.formats.numbers import real_text
from penstock.sql.language import types
from penstock.sql.language.types import Array, Map, SqlType, Struct

_SUMMANDS_MAX: Final = 100
"""Limits summands in one expression. Each nests one level deeper, and Python's compiler limits the depth."""
_SURROGATES: Final = re.compile("[\ud800-\udfff\U00010000-\U0010ffff]")
_HEX_ESCAPE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u00[01][a-f]")


def quote(text: str) -> str:
    """Quote a JSON string, with hex escapes in upper case as in Java's libraries."""
    quoted: str = encode_basestring(text)
    if "\\u00" in quoted:
        quoted = _HEX_ESCAPE.sub(lambda found: found[0][:-1] + found[0][-1].upper(), quoted)
    return quoted


def _bytes_of(text: str) -> bytes:
    """Encode JSON in UTF-8, but escape surrogates, whether they are pairs or halves, as Jackson does."""
    return text.encode() if text.isascii() else _SURROGATES.sub(_escaped, text).encode()


def _escaped(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _real(value: float) -> str:
    text = real_text(value)
    return f'"{text}"' if text[-1] in "Ny" else text


def _base64(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _exact(value: Decimal) -> str:
    if type(value) is not Decimal:
        raise mismatch(value, "DECIMAL")
    return str(value)


def _array(element: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: f"[{','.join(['null' if each is None else element(each) for each in value])}]"


def _entries(inner: Callable[[Any], str]) -> Callable[[Any], str]:
    """Build a writer of a map as an array of its entries."""

    def write(value: dict[Any, Any]) -> str:
        entries = (
            f'{{"key":{"null" if k is None else quote(k)},"value":{"null" if v is None else inner(v)}}}'
            for k, v in value.items()
        )
        return f"[{','.join(entries)}]"

    return write


def _map(inner: Callable[[Any], str]) -> Callable[[Any], str]:
    def write(value: dict[str, Any]) -> str:
        entries = (
            f"{quote('null' if k is None else k)}:{'null' if v is None else inner(v)}"
            for k, v in value.items()
        )
        return "{" + ",".join(entries) + "}"

    return write


def _struct(type_: Struct, has_entries: bool) -> Callable[[Any], str]:
    write = object_writer(type_.fields, has_entries)
    names = [name for name, _ in type_.fields]
    return lambda value: write([value[name] for name in names])


def value_writer(type_: SqlType, has_entries: bool = False) -> Callable[[Any], str]:
    """Build a writer of non-null values. With ``has_entries`` a MAP is written as an array of its entries."""
    match type_:
        case Array():
            return _array(value_writer(type_.element, has_entries))
        case Map():
            return (_entries if has_entries else _map)(value_writer(type_.value, has_entries))
        case Struct():
            return _struct(type_, has_entries)
        case types.Decimal():
            return _exact
        case types.BOOLEAN:
            return lambda value: "true" if value else "false"
        case types.DOUBLE:
            return _real
        case types.STRING:
            return quote
        case types.BYTES:
            return _base64
    return "{:d}".format


def _expression(index: int, type_: SqlType) -> str:
    """Generate the Python expression of a column's JSON."""
    value = f"v{index}"
    match type_:
        case types.BOOLEAN:
            return f"('null' if {value} is None else 'true' if {value} else 'false')"
        case types.INTEGER | types.BIGINT | types.TIME | types.DATE | types.TIMESTAMP:
            return f"('null' if {value} is None else '%d' % {value})"
    return f"('null' if {value} is None else w{index}({value}))"


def object_writer(
    fields: Sequence[tuple[str, SqlType]], has_entries: bool = False
) -> Callable[[Sequence[Any]], str]:
    """Build a writer of the fields' values, in order, as an object."""
    writers = {f"w{index}": value_writer(type_, has_entries) for index, (_, type_) in enumerate(fields)}
    names = "".join(f"v{index}, " for index in range(len(fields)))
    # repr quotes the field's name, which may contain any character.
    parts = [
        f"{('{' if index == 0 else ',') + quote(name) + ':'!r} + {_expression(index, type_)}"
        for index, (name, type_) in enumerate(fields)
    ]
    parts.append("'}'")
    sums = [" + ".join(parts[at : at + _SUMMANDS_MAX]) for at in range(0, len(parts), _SUMMANDS_MAX)]
    text = sums[0] if len(sums) == 1 else f"''.join(({', '.join(sums)}))"
    body = f"    {names}= row\n    return {text}\n" if fields else "    return '{}'\n"
    namespace: dict[str, Any] = dict(writers)
    exec(compile(f"def write(row):\n{body}", "<generated JSON writer>", "exec"), namespace)
    write: Callable[[Sequence[Any]], str] = namespace["write"]
    return write


def row_writer(
    fields: Sequence[tuple[str, SqlType]], has_entries: bool = False
) -> Callable[[Sequence[Any]], bytes]:
    """Build a writer of rows in UTF-8. The writer raises FormatError with the column that it cannot write."""
    write = object_writer(fields, has_entries)

    def serialize(row: Sequence[Any]) -> bytes:
        try:
            return _bytes_of(write(row))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise _refused(fields, row, error) from None

    return serialize


def _refused(fields: Sequence[tuple[str, SqlType]], row: Sequence[Any], error: Exception) -> FormatError:
    if len(row) != len(fields):
        return FormatError(f"found {len(row)} values, expected {len(fields)}")
    for (name, type_), value in zip(fields, row, strict=True):
        try:
            if value is not None:
                _bytes_of(value_writer(type_)(value))
        except (TypeError, ValueError, KeyError, AttributeError):
            return mismatch(value, type_).within(name)
    return FormatError(f"found a row that can't be written ({error}), expected values of its columns")


def single_writer(name: str, type_: SqlType, has_entries: bool = False) -> Callable[[Sequence[Any]], Any]:
    """Build a writer of an unwrapped value. It returns None for a null value."""
    write = value_writer(type_, has_entries)

    def serialize(row: Sequence[Any]) -> bytes | None:
        (value,) = row
        try:
            return None if value is None else _bytes_of(write(value))
        except (TypeError, ValueError, KeyError, AttributeError):
            raise mismatch(value, type_).within(name) from None

    return serialize


def text_of_tree(value: Any) -> str:
    """Write any parsed JSON as text."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{quote(key)}:{text_of_tree(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(text_of_tree, value))}]"
    if isinstance(value, str):
        return quote(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)
