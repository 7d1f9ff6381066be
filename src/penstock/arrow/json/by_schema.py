"""JSON documents into the column of a JSON Schema.

Columns of objects, arrays, texts and numbers are read by Arrow's parser, all documents at once. Maps, and
what may be of several types (left as JSON text), it does not know: such columns are read one by one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.arrow.decoded import Decoded, shown
from penstock.arrow.json.reading import Json

JsonValue: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """``type``: the column's. ``texts``: paths of what may be anything, and is left as JSON text."""

    type: pa.DataType
    texts: frozenset[str]
    name: str = "json-schema"
    is_slow: bool = True

    def decode(self, column: pa.BinaryArray) -> Decoded:
        if not self.texts and pa.types.is_struct(self.type) and not _has_map(self.type):
            return Json(self.type).decode(column)
        bad: dict[int, str] = {}
        found: list[Any] = []
        for row, value in enumerate(column.to_pylist()):
            made = None
            if value is not None:
                try:
                    made = self._value(json.loads(value.decode(), parse_constant=_refuse), self.type, "")
                    made = pa.scalar(made, self.type)  # whatever is out of range is so here
                except (ValueError, RecursionError, OverflowError, pa.ArrowException) as problem:
                    made = None
                    bad[row] = f"expected JSON of the schema, found {shown(value)} ({problem})"
            found.append(made)
        values = [None if each is None else each.as_py() for each in found]
        return Decoded(pa.array(values, self.type), bad)

    def _value(self, given: JsonValue, kind: pa.DataType, path: str) -> Any:
        if path in self.texts:
            return None if given is None else json.dumps(given, separators=(",", ":"), ensure_ascii=False)
        if given is None:
            if not path:
                raise ValueError("it is null")
            return None
        if pa.types.is_struct(kind):
            _expect(given, dict, path)
            return {f.name: self._value(given.get(f.name), f.type, f"{path}.{f.name}") for f in kind}
        if pa.types.is_map(kind):
            _expect(given, dict, path)
            return [(key, self._value(each, kind.item_type, f"{path}{{}}")) for key, each in given.items()]
        if pa.types.is_list(kind):
            _expect(given, list, path)
            return [self._value(each, kind.value_type, f"{path}[]") for each in given]
        if pa.types.is_boolean(kind):
            return _expect(given, bool, path)
        if pa.types.is_floating(kind) or pa.types.is_integer(kind):
            return _number(given, pa.types.is_integer(kind), path)
        text = _expect(given, str, path)
        return text if pa.types.is_string(kind) else pa.scalar(text).cast(kind).as_py()


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    if pa.types.is_struct(kind):
        return any(_has_map(field.type) for field in kind)
    return pa.types.is_list(kind) and _has_map(kind.value_type)


def _expect(given: JsonValue, kind: type, path: str) -> Any:
    if type(given) is not kind:
        names = {dict: "an object", list: "an array", bool: "a boolean", str: "a text"}
        raise ValueError(f"{path.lstrip('.') or 'it'} is {type(given).__name__}, expected {names[kind]}")
    return given


def _number(given: JsonValue, is_whole: bool, path: str) -> int | float:
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise ValueError(f"{path.lstrip('.') or 'it'} is {type(given).__name__}, expected a number")
    if is_whole and given != int(given):
        raise ValueError(f"{path.lstrip('.') or 'it'} is {given}, expected a whole number")
    return int(given) if is_whole else float(given)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
