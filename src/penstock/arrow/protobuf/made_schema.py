"""Derive a Protobuf file from the type of a column that was given none.

Every field that can be is nullable, as in Spark.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from penstock.arrow.encoding import at_path
from penstock.arrow.protobuf.mapping import DATE, DECIMAL, TIMESTAMP
from penstock.client.settings import ConfigError

_SIMPLE: Final = {
    "bool": "bool",
    "int8": "int32",
    "int16": "int32",
    "int32": "int32",
    "int64": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
}
_IMPORTS: Final = {
    TIMESTAMP: "google/protobuf/timestamp.proto",
    DATE: "google/type/date.proto",
    DECIMAL: "confluent/type/decimal.proto",
}
_META: Final = "confluent/meta.proto"
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_KEYS: Final = ("bool", "int32", "int64", "string")


def schema_of(kind: pa.DataType, name: str) -> str:
    """Derive the Protobuf file of a type. Raises ConfigError if it has no form in Protobuf."""
    if not pa.types.is_struct(kind):
        raise ConfigError(f"it is of type {kind}, expected a struct: a Protobuf value is a message")
    made = _File()
    message = made.message(kind, name, "", "")
    imports = [f'import "{path}";' for path in sorted(made.imports)]
    return "\n".join(['syntax = "proto3";', *imports, *message, ""])


class _File:
    def __init__(self) -> None:
        self.imports: set[str] = set()

    def message(self, kind: pa.StructType, name: str, path: str, indent: str) -> list[str]:
        lines = [f"{indent}message {name} {{"]
        inner: list[str] = []
        taken = {field.name for field in kind}
        for number, field in enumerate(kind, 1):
            where = f"{path}.{field.name}"
            if not _IDENTIFIER.fullmatch(field.name):
                raise ConfigError(
                    f"{at_path(where)} has a name that Protobuf doesn't allow: expected letters, digits and _"
                )
            inside = _struct_in(field.type)
            nested = "" if inside is None else _free(field.name, taken)
            label_and_type, options = self._field(field.type, nested, where)
            lines.append(f"{indent}  {label_and_type} {field.name} = {number}{options};")
            if inside is not None:
                inner += self.message(inside, nested, where, f"{indent}  ")
        return [*lines, *inner, f"{indent}}}"]

    def _field(self, kind: pa.DataType, nested: str, path: str) -> tuple[str, str]:
        """Return label and type, and the options after the number."""
        if pa.types.is_list(kind):
            one, options = self._value(kind.value_type, nested, f"{path}[]")
            return f"repeated {one}", options
        if pa.types.is_map(kind):
            key, _ = self._value(kind.key_type, nested, f"{path}{{}} (key)")
            if key not in _KEYS:
                raise ConfigError(
                    f"{at_path(path)} is of type {kind}: expected map keys of {', '.join(_KEYS)}"
                )
            if pa.types.is_decimal128(kind.item_type):  # the field's option can't describe a map's values
                raise ConfigError(f"{at_path(path)} is of type {kind}, which has no form in Protobuf")
            value, _ = self._value(kind.item_type, nested, f"{path}{{}}")
            return f"map<{key}, {value}>", ""
        one, options = self._value(kind, nested, path)
        return f"optional {one}", options

    def _value(self, kind: pa.DataType, nested: str, path: str) -> tuple[str, str]:
        if pa.types.is_struct(kind):
            return nested, ""
        if pa.types.is_timestamp(kind) and kind.tz:
            return self._imported(TIMESTAMP), ""
        if pa.types.is_date32(kind):
            return self._imported(DATE), ""
        if pa.types.is_decimal128(kind):
            self.imports.add(_META)
            parameters = ", ".join(
                f'{{ key: "{name}", value: "{value}" }}'
                for name, value in (("precision", kind.precision), ("scale", kind.scale))
            )
            return self._imported(DECIMAL), f" [(confluent.field_meta) = {{ params: [{parameters}] }}]"
        if str(kind) not in _SIMPLE:
            raise ConfigError(f"{at_path(path)} is of type {kind}, which has no form in Protobuf")
        return _SIMPLE[str(kind)], ""

    def _imported(self, name: str) -> str:
        self.imports.add(_IMPORTS[name])
        return name


def _struct_in(kind: pa.DataType) -> pa.StructType | None:
    """Return the struct that a field is, or that is the item of its list or map."""
    if pa.types.is_list(kind):
        kind = kind.value_type
    elif pa.types.is_map(kind):
        kind = kind.item_type
    return kind if pa.types.is_struct(kind) else None


def _free(field: str, taken: set[str]) -> str:
    """Return a name for a nested message that no field and no other nested message has."""
    name = f"{field[:1].upper()}{field[1:]}"
    if not name[0].isalpha():
        name = f"Message{name}"
    while name in taken:
        name += "_"
    taken.add(name)
    return name
