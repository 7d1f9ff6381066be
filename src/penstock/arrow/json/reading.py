"""Read columns of JSON documents: all at once if they are good, else one by one.

Arrow's parser reads objects, arrays, texts and numbers. It supports neither maps nor values of several types
(kept as JSON text), so columns with these are read one by one. So are the rows around one that it refuses,
because it does not say which one that is, and because it does not accept 1.0 as a whole number. How a row is
read does not depend on its neighbours.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow.decoded import Decoded, spread, valid_rows
from penstock.arrow.json.at_once import parse, parsed_type, refuse_unreadable, typed
from penstock.client.settings import ConfigError

JsonValue: TypeAlias = Any
_NAMES: Final = {dict: "an object", list: "an array", bool: "a boolean", str: "a text", type(None): "null"}
_WHOLE_END: Final = 2.0**64
# Limit on a decimal's digits, more than a column holds; an exponent could ask for a billion.
_DIGITS_MAX: Final = 100
_DECIMAL: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_SHOWN_LETTERS: Final = 80
_DEPTH_MIN: Final = 200  # Python's parser goes deeper; how deep depends on the caller's stack
_UNREADABLE: Final = (ValueError, RecursionError, OverflowError, pa.ArrowException)
# Size of the pieces that are read at once after Arrow's parser failed on the whole.
_ROWS_MIN: Final = 256


class _Real(float):
    """A number with its text, which a double may not represent exactly."""

    text: str


class _Doubled(dict[str, JsonValue]):
    """An object in which some names occur twice."""

    names: set[str]


@dataclass(frozen=True, slots=True)
class Json:
    """A format of one JSON object for each value, read into a struct.

    Fields without a value are null, unknown fields are left out.
    """

    type: pa.StructType
    name: str = "json"
    is_slow: bool = True

    def __post_init__(self) -> None:
        if not pa.types.is_struct(self.type) or not self.type.num_fields:
            raise ConfigError(f"a schema for JSON has at least one field, found {self.type}")
        refuse_unreadable(self.type)

    def decode(self, column: pa.BinaryArray) -> Decoded:
        return JsonColumn(self.type, frozenset()).decode(column)


@dataclass(frozen=True, slots=True)
class JsonText:
    """A format of one JSON document of any kind for each value, checked and kept as text."""

    name: str = "json"
    is_slow: bool = True

    @property
    def type(self) -> pa.DataType:
        return pa.string()

    def decode(self, column: pa.BinaryArray) -> Decoded:
        checked = _decoded(column, self._check)
        return Decoded(pc.if_else(checked.array.is_valid(), column, None).cast(pa.string()), checked.bad)

    def _check(self, documents: pa.BinaryArray) -> Decoded:
        """Return a mark for each document that is valid JSON."""
        return _by_pieces(documents, lambda piece: parse(piece, None), _marks)


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """The format of a JSON Schema's column.

    ``type`` is the column's. ``texts`` are the paths of parts that may be anything and are kept as JSON text.
    """

    type: pa.DataType
    texts: frozenset[str]
    name: str = "json-schema"
    is_slow: bool = True

    def decode(self, column: pa.BinaryArray) -> Decoded:
        if self.texts or not pa.types.is_struct(self.type) or _has_map(self.type):
            return _decoded(column, self._one_by_one)
        return _decoded(column, lambda documents: _by_pieces(documents, self._at_once, self._one_by_one))

    def _at_once(self, documents: pa.BinaryArray) -> pa.Array:
        return parse(documents, self.type)

    def _one_by_one(self, documents: pa.BinaryArray) -> Decoded:
        values = documents.to_pylist()
        found: list[Any] = []
        bad: dict[int, str] = {}
        for row, value in enumerate(values):
            try:
                found.append(self._value(_parsed(value), self.type, ""))
            except _UNREADABLE as problem:
                bad[row] = _described("JSON of the schema", value, problem)
                found.append(None)
        try:
            return Decoded(self._column(found), bad)
        except _UNREADABLE:  # a number out of range, or an invalid text
            for row, made in enumerate(found):
                try:
                    self._column([made])
                except _UNREADABLE as problem:
                    bad[row] = _described("JSON of the schema", values[row], problem)
                    found[row] = None
        return Decoded(self._column(found), bad)

    def _column(self, found: list[Any]) -> pa.Array:
        return typed(pa.array(found, parsed_type(self.type)), self.type)

    def _value(self, given: JsonValue, kind: pa.DataType, path: str) -> Any:
        """Convert a parsed value to the form of `parsed_type`."""
        if path in self.texts:
            return None if given is None else _text(given)
        if given is None:
            if not path:
                raise ValueError("it is null")
            return None
        if pa.types.is_struct(kind):
            named = _object(given, path, [field.name for field in kind])
            return {f.name: self._value(named.get(f.name), f.type, f"{path}.{f.name}") for f in kind}
        if pa.types.is_map(kind):
            named = _object(given, path)
            return [(key, self._value(each, kind.item_type, f"{path}{{}}")) for key, each in named.items()]
        if pa.types.is_list(kind):
            items = _expect(given, list, path)
            return [self._value(each, kind.value_type, f"{path}[]") for each in items]
        if pa.types.is_boolean(kind):
            return _expect(given, bool, path)
        if pa.types.is_decimal(kind):
            return _decimal(given, path)
        if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_time(kind):
            return _number(given, not pa.types.is_floating(kind), path)
        return _expect(given, str, path)


# --- columns of documents -----------------------------------------------------------------------------------

_Read: TypeAlias = Callable[[pa.BinaryArray], Decoded]


def _decoded(column: pa.BinaryArray, read: _Read) -> Decoded:
    """Decode a column by ``read``, which gets the documents that are not null."""
    rows = np.flatnonzero(valid_rows(column))
    found, bad = read(column.drop_null())
    return Decoded(spread(found, rows, len(column)), {int(rows[row]): why for row, why in bad.items()})


def _by_pieces(
    documents: pa.BinaryArray, at_once: Callable[[pa.BinaryArray], pa.Array], one_by_one: _Read
) -> Decoded:
    """Read all documents at once; if that fails, in pieces, and one by one only where a piece fails."""
    with suppress(pa.ArrowInvalid):
        found = at_once(documents)
        if not found.null_count:
            return Decoded(found, {})
    if len(documents) > _ROWS_MIN:
        starts = range(0, len(documents), _ROWS_MIN)
        parts = [_by_pieces(documents.slice(start, _ROWS_MIN), at_once, one_by_one) for start in starts]
        bad = {
            start + row: why
            for start, part in zip(starts, parts, strict=True)
            for row, why in part.bad.items()
        }
        return Decoded(pa.concat_arrays([part.array for part in parts]), bad)
    found, told = one_by_one(documents)
    bad = dict(told)
    for row in list(bad):  # Arrow's parser reads documents that are too deep for Python's
        document = documents.slice(row, 1)
        if len(documents) > 1 and _may_be_deep(document[0].as_py()):
            part = _by_pieces(document, at_once, one_by_one)
            found = pa.concat_arrays([found.slice(0, row), part.array, found.slice(row + 1)])
            if not part.bad:
                del bad[row]
    return Decoded(found, bad)


def _may_be_deep(document: bytes) -> bool:
    return document.count(b"[") + document.count(b"{") > _DEPTH_MIN


def _marks(documents: pa.BinaryArray) -> Decoded:
    """Return True for valid documents; numbers must fit a double, and text must be UTF-8."""
    bad: dict[int, str] = {}
    for row, document in enumerate(documents.to_pylist()):
        try:
            found = json.loads(document.decode(), parse_float=_finite, parse_int=_finite)
            json.dumps(found, ensure_ascii=False).encode()  # rejects half a surrogate pair
        except _UNREADABLE as problem:
            bad[row] = _described("JSON", document, problem)
    return Decoded(pa.array([None if row in bad else True for row in range(len(documents))], pa.bool_()), bad)


def _finite(text: str) -> float:
    if math.isinf(found := float(text)):
        raise ValueError(f"{text[:_SHOWN_LETTERS]} is greater than any double")
    return found


def _described(expected: str, document: bytes, problem: Exception) -> str:
    shown = document[:_SHOWN_LETTERS].decode(errors="backslashreplace")
    cut = "…" if len(document) > _SHOWN_LETTERS else ""
    return f"expected {expected}, found {len(document)} bytes {shown!r}{cut} ({problem})"


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    if pa.types.is_struct(kind):
        return any(_has_map(field.type) for field in kind)
    return pa.types.is_list(kind) and _has_map(kind.value_type)


# --- one document -------------------------------------------------------------------------------------------


def _parsed(document: bytes) -> JsonValue:
    """Parse one document; NaN and the infinities are numbers, as for Arrow's parser."""
    return json.loads(document.decode(), parse_float=_real, parse_int=_int, object_pairs_hook=_members)


def _real(text: str) -> _Real:
    made = _Real(text)
    made.text = text
    return made


def _int(text: str) -> int | _Real:
    return int(text) if text != "-0" else _real(text)


def _members(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    doubled = _Doubled(made)
    names = [name for name, _ in pairs]
    doubled.names = {name for name in made if names.count(name) > 1}
    return doubled


def _text(given: JsonValue) -> str:
    """Return the JSON of a value, without white space; numbers keep their text."""
    match given:
        case dict():
            named = _object(given, "")
            return "{" + ",".join(f"{_text(name)}:{_text(each)}" for name, each in named.items()) + "}"
        case list():
            return "[" + ",".join(map(_text, given)) + "]"
        case _Real():
            return given.text
    return json.dumps(given, ensure_ascii=False)


def _expect(given: JsonValue, kind: type, path: str) -> Any:
    if not isinstance(given, kind):
        raise _unfit(given, _NAMES[kind], path)
    return given


def _object(given: JsonValue, path: str, wanted: Collection[str] | None = None) -> Mapping[str, JsonValue]:
    """Return an object's members. Raises ValueError for a duplicate name, one of ``wanted`` if given."""
    if isinstance(given, _Doubled):
        for name in sorted(given.names):
            if wanted is None or name in wanted:
                raise ValueError(f"{_at(path)} has the name {name!r} twice")
    named: Mapping[str, JsonValue] = _expect(given, dict, path)
    return named


def _number(given: JsonValue, is_whole: bool, path: str) -> int | float:
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise _unfit(given, "a number", path)
    if not is_whole:
        if isinstance(given, _Real) and math.isinf(given):
            raise ValueError(f"{_at(path)} is {given.text}, which is greater than any double")
        return float(given)
    if isinstance(given, int):
        return given
    exact = Decimal(given.text) if isinstance(given, _Real) and abs(given) <= _WHOLE_END else Decimal(given)
    if not exact.is_finite() or exact != exact.to_integral_value():
        raise ValueError(f"{_at(path)} is {given}, expected a whole number")
    return int(exact)


def _decimal(given: JsonValue, path: str) -> Decimal:
    text = given.text if isinstance(given, _Real) else str(given)
    if isinstance(given, bool) or not isinstance(given, (int, float, str)) or not _DECIMAL.fullmatch(text):
        raise _unfit(given, "a number", path)
    made = Decimal(text)
    if abs(made.adjusted()) > _DIGITS_MAX:
        raise ValueError(f"{_at(path)} is {text[:_SHOWN_LETTERS]}, which no decimal column can hold")
    return made


def _unfit(given: JsonValue, expected: str, path: str) -> ValueError:
    return ValueError(f"{_at(path)} is {_NAMES.get(type(given), 'a number')}, expected {expected}")


def _at(path: str) -> str:
    return path.lstrip(".") or "it"
