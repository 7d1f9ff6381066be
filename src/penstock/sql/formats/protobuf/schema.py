"""Generation of Protobuf messages for columns, equal to those of Connect's ProtobufData for ksqlDB's types.

Unnamed messages are called ConnectDefault1, ConnectDefault2 … in order of occurrence, and a MAP is a repeated
message of `key` and `value`.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from penstock.sql.formats.errors import FormatError
from penstock.sql.formats.settings import SideFormat
from penstock.sql.language import types
from penstock.sql.language.types import Array, Map, SqlType, Struct

DECIMAL: Final = "confluent.type.Decimal"
DATE: Final = "google.type.Date"
TIME: Final = "google.type.TimeOfDay"
TIMESTAMP: Final = "google.protobuf.Timestamp"
_SCALARS: Final[dict[SqlType, tuple[str, str]]] = {
    types.BOOLEAN: ("bool", "google.protobuf.BoolValue"),
    types.INTEGER: ("int32", "google.protobuf.Int32Value"),
    types.BIGINT: ("int64", "google.protobuf.Int64Value"),
    types.DOUBLE: ("double", "google.protobuf.DoubleValue"),
    types.STRING: ("string", "google.protobuf.StringValue"),
    types.BYTES: ("bytes", "google.protobuf.BytesValue"),
}
_TEMPORAL: Final[dict[SqlType, str]] = {types.DATE: DATE, types.TIME: TIME, types.TIMESTAMP: TIMESTAMP}
_IMPORTS: Final = {
    DECIMAL: "confluent/type/decimal.proto",
    DATE: "google/type/date.proto",
    TIME: "google/type/timeofday.proto",
    TIMESTAMP: "google/protobuf/timestamp.proto",
}
_WRAPPERS: Final = "google/protobuf/wrappers.proto"


def schema_text(chosen: SideFormat) -> str:
    """Generate the schema to register for a side's columns. Raises FormatError for unsupported types."""
    return _File(chosen.nullables).text(chosen.fields, chosen.full_name)


def alone_text(chosen: SideFormat) -> str:
    """Generate the schema of an unwrapped value. A struct becomes the message; other types get a message."""
    name, type_ = chosen.fields[0]
    if isinstance(type_, Struct):
        return _File(chosen.nullables).text(type_.fields, chosen.full_name)
    if type_ in _SCALARS:
        kind = _SCALARS[type_][0]
        return f'syntax = "proto3";\nmessage Alone {{\n  {kind} value = 1;\n}}\n'
    raise FormatError(f"found {type_} alone in a message, expected a STRUCT or a simple type", name)


class _File:
    """The generator of one schema file."""

    def __init__(self, nullables: str | None) -> None:
        self._is_optional = nullables == "OPTIONAL"
        self._is_wrapped = nullables == "WRAPPER"
        self._numbers = count(1)
        self._imports: dict[str, None] = {}

    def text(self, fields: tuple[tuple[str, SqlType], ...], full_name: str | None) -> str:
        package, _, name = (full_name or self._next_name()).rpartition(".")
        message = self._message(name, fields, "")
        head = ['syntax = "proto3";', *([f"package {package};"] if package else [])]
        return "\n".join([*head, *(f'import "{path}";' for path in self._imports), message, ""])

    def _next_name(self) -> str:
        return f"ConnectDefault{next(self._numbers)}"

    def _message(
        self, name: str, fields: tuple[tuple[str, SqlType], ...], indent: str, *, is_entry: bool = False
    ) -> str:
        lines, nested = [], []
        for number, (field, type_) in enumerate(fields, 1):
            try:
                kind, label, option, inner = self._field(field, type_, indent + "  ")
            except FormatError as error:
                raise error.within(field) from None
            if not label and self._is_optional and not is_entry:
                label = "optional "
            lines.append(f"{indent}  {label}{kind} {field} = {number}{option};")
            nested += inner
        return "\n".join([f"{indent}message {name} {{", *lines, *nested, f"{indent}}}"])

    def _field(self, field: str, type_: SqlType, indent: str) -> tuple[str, str, str, list[str]]:
        """Generate a field's type, label and option, and the messages that are declared for it."""
        label = ""
        if isinstance(type_, Array):
            label, type_ = "repeated ", type_.element
            if isinstance(type_, (Array, Map)):
                raise FormatError(f"found an ARRAY of {type_}, expected none in an array of Protobuf")
        match type_:
            case Map(key, value):
                name = f"{self._next_name()}Entry"
                entry = self._message(name, (("key", key), ("value", value)), indent, is_entry=True)
                return name, "repeated ", "", [entry]
            case Struct(fields):
                name = self._next_name()
                if name == field:
                    name += "Message"
                return name, label, "", [self._message(name, fields, indent)]
            case types.Decimal(precision, scale):
                self._imports[_IMPORTS[DECIMAL]] = None
                # Confluent's converter omits the import that the option needs, too.
                parameters = (
                    f'{{ value: "{precision}", key: "precision" }}, {{ value: "{scale}", key: "scale" }}'
                )
                return DECIMAL, label, f" [(confluent.field_meta) = {{ params: [{parameters}] }}]", []
        if type_ in _TEMPORAL:
            self._imports[_IMPORTS[_TEMPORAL[type_]]] = None
            return _TEMPORAL[type_], label, "", []
        if self._is_wrapped:
            self._imports[_WRAPPERS] = None
        return _SCALARS[type_][self._is_wrapped], label, "", []
