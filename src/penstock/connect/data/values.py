"""Converts values between Connect's types, and to text (org.apache.kafka.connect.data.Values).

Java's values carry their type, such as Byte or Float. Ours are int and float, so these functions use the
schema of a value where the result depends on it, and take numbers without one as Long and Double.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from penstock.connect.data import logical
from penstock.connect.data.parsing import ValueText
from penstock.connect.data.schema import BOOLEAN, BYTES, FLOAT64, INT64, STRING, Schema, Type
from penstock.connect.data.struct import Struct
from penstock.connect.errors import DataError
from penstock.java.numbers import (
    decimal_of,
    double_text,
    float32,
    float64,
    float_text,
    low_bits,
    saturated,
    wrapped,
)

_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_TEMPORAL: Final = (datetime.date, datetime.time)  # datetime.datetime is a date
_TEMPORAL_NAMES: Final = (logical.DATE_NAME, logical.TIME_NAME, logical.TIMESTAMP_NAME)
_NUMBERS: Final[Mapping[str, Callable[[Any], int]]] = {
    logical.DATE_NAME: logical.days_of,
    logical.TIME_NAME: logical.millis_of_day,
    logical.TIMESTAMP_NAME: logical.epoch_millis,
}


def parse_text(text: str | None) -> tuple[Schema | None, Any]:
    """Infer schema and value from text, such as a header's; ``(None, None)`` for None and ``null``.

    Text that is no boolean, number, date, array or map is a string.
    """
    if text is None:
        return None, None
    if not text:
        return STRING, text
    return ValueText(text, convert_value).parse(embedded=False)


def convert_value(target: Schema, source: Schema | None, value: Any) -> Any:
    """Convert a value to a schema, as far as Connect can. Raises DataError."""
    if value is None:
        if target.optional:
            return None
        raise DataError("Unable to convert a null value to a schema that requires a value")
    convert = _LOGICAL.get(target.name or "") or _BY_TYPE[target.type]
    return convert(target, source, value)


def value_text(schema: Schema | None, value: Any) -> str | None:
    """Format a value as text that `parse_text` understands, except for structs. Raises DataError."""
    if value is None:
        return None
    pieces: list[str] = []
    _append(pieces.append, schema, value, embedded=False)
    return "".join(pieces)


def infer_schema(value: Any) -> Schema | None:
    """Return the schema that a value without one has; None if it may have several, as an empty list."""
    match value:
        case str():
            return STRING
        case bool():
            return BOOLEAN
        case int():
            return INT64
        case float():
            return FLOAT64
        case bytes():
            return BYTES
        case list():
            found = _schema_of_all(value)
            return None if found is None else Schema.array(found)
        case dict():
            keys, values = _schema_of_all(list(value)), _schema_of_all(list(value.values()))
            return None if keys is None or values is None else Schema.map(keys, values)
        case Struct():
            return value.schema
    return None


def _schema_of_all(values: list[Any]) -> Schema | None:
    """The schema that all values have in common; Connect keeps only its type."""
    found = {_type_of(each) for each in values if each is not None}
    if len(found) != 1 or None in found:
        return None
    (type_,) = found
    return None if type_ is None else Schema(type_, optional=None in values)


def _type_of(value: Any) -> Type | None:
    schema = infer_schema(value)
    return None if schema is None else schema.type


def _to_integer(target: Schema, source: Schema | None, value: Any) -> int:
    return wrapped(_as_long(source, value), _BITS[target.type])


def _as_long(source: Schema | None, value: Any) -> int:
    match value:
        case bool():
            pass
        case int():
            return wrapped(value, 64)
        case float():
            return saturated(value, 64)
        case Decimal():
            return low_bits(value, 64)
        case str():
            if (parsed := decimal_of(value)) is not None:
                return low_bits(parsed, 64)
        case datetime.datetime() | datetime.date() | datetime.time() if source is not None:
            if (number := _NUMBERS.get(source.name or "")) is not None:
                return number(value)
    raise _impossible(value, "a number" if source is None else source)


def _as_double(source: Schema | None, value: Any) -> float:
    if isinstance(value, float):
        return value
    number = decimal_of(value) if isinstance(value, str) else value
    if isinstance(number, int | Decimal) and not isinstance(number, bool):
        return float64(number)
    return float(_as_long(source, value))


def _to_float32(_target: Schema, source: Schema | None, value: Any) -> float:
    return float32(_as_double(source, value))


def _to_float64(_target: Schema, source: Schema | None, value: Any) -> float:
    return _as_double(source, value)


def _to_boolean(_target: Schema, source: Schema | None, value: Any) -> bool:
    parsed = parse_text(value)[1] if isinstance(value, str) else value
    return parsed if isinstance(parsed, bool) else _as_long(source, value) != 0


def _to_string(_target: Schema, source: Schema | None, value: Any) -> str | None:
    return value_text(source, value)


def _to_bytes(target: Schema, _source: Schema | None, value: Any) -> bytes:
    if isinstance(value, Decimal):
        return logical.unscaled_bytes(value, logical.scale_parameter(target))
    if isinstance(value, bytes):
        return value
    raise _impossible(value, target)


def _to_decimal(target: Schema, _source: Schema | None, value: Any) -> Decimal:
    match value:
        case bytes():
            return logical.decimal_of_bytes(value, logical.scale_parameter(target))
        case Decimal():
            return value
        case bool():
            pass
        case int() | float():
            converted = decimal_of(double_text(float64(value) if isinstance(value, int) else value))
            if converted is not None:
                return converted
        case str():
            if (parsed := decimal_of(value)) is not None:
                return parsed
    raise _impossible(value, target)


def _to_date(_target: Schema, source: Schema | None, value: Any) -> Any:
    value = _parsed(value)
    if isinstance(value, _TEMPORAL):
        if source is None or source.name == logical.DATE_NAME:
            return value
        if source.name == logical.TIMESTAMP_NAME:
            millis = temporal_millis(value)
            days = abs(millis) // logical.MS_PER_DAY  # Java rounds towards 1970
            return logical.date_of(days if millis >= 0 else -days)
    return logical.date_of(wrapped(_as_long(source, value), 32))


def _to_time(_target: Schema, source: Schema | None, value: Any) -> Any:
    value = _parsed(value)
    if isinstance(value, _TEMPORAL):
        if source is None or source.name == logical.TIME_NAME:
            return value
        if source.name == logical.TIMESTAMP_NAME:
            return logical.time_of(temporal_millis(value) % logical.MS_PER_DAY)
    return logical.time_of(wrapped(_as_long(source, value), 32))


def _to_timestamp(_target: Schema, source: Schema | None, value: Any) -> datetime.datetime:
    value = _parsed(value)
    if isinstance(value, _TEMPORAL) and (source is None or source.name in _TEMPORAL_NAMES):
        return logical.timestamp_of(temporal_millis(value))
    return logical.timestamp_of(_as_long(source, value))


def temporal_millis(value: datetime.date | datetime.time) -> int:
    """Return the milliseconds since 1970 that Java's Date has for a logical value."""
    match value:
        case datetime.datetime():
            return logical.epoch_millis(value)
        case datetime.date():
            return logical.days_of(value) * logical.MS_PER_DAY
    return logical.millis_of_day(value)


def _instance_of(class_: type) -> Callable[[Schema, Schema | None, Any], Any]:
    def convert(target: Schema, _source: Schema | None, value: Any) -> Any:
        value = value if class_ is Struct else _parsed(value)
        if isinstance(value, class_):
            return value
        raise _impossible(value, target)

    return convert


def _parsed(value: Any) -> Any:
    return parse_text(value)[1] if isinstance(value, str) else value


def _impossible(value: Any, target: object) -> DataError:
    return DataError(f"Unable to convert {value!r} ({type(value).__name__}) to {target}")


_BY_TYPE: Final[Mapping[Type, Callable[[Schema, Schema | None, Any], Any]]] = {
    **dict.fromkeys(_BITS, _to_integer),
    Type.FLOAT32: _to_float32,
    Type.FLOAT64: _to_float64,
    Type.BOOLEAN: _to_boolean,
    Type.STRING: _to_string,
    Type.BYTES: _to_bytes,
    Type.ARRAY: _instance_of(list),
    Type.MAP: _instance_of(dict),
    Type.STRUCT: _instance_of(Struct),
}
_LOGICAL: Final[Mapping[str, Callable[[Schema, Schema | None, Any], Any]]] = {
    logical.DECIMAL_NAME: _to_decimal,
    logical.DATE_NAME: _to_date,
    logical.TIME_NAME: _to_time,
    logical.TIMESTAMP_NAME: _to_timestamp,
}


def _append(add: Callable[[str], None], schema: Schema | None, value: Any, *, embedded: bool) -> None:
    """Add the text of a value; `embedded` says that it stands in an array, a map or a struct."""
    match value:
        case None:
            add("null")
        case bool():
            add("true" if value else "false")
        case int():
            add(str(value))
        case float():
            is_short = schema is not None and schema.type is Type.FLOAT32
            add(float_text(value) if is_short else double_text(value))
        case Decimal():
            add(str(value))
        case str():
            add(_quoted(value) if embedded else value)
        case bytes():
            text = base64.b64encode(value).decode()
            add(f'"{text}"' if embedded else text)
        case list():
            _append_all(add, "[]", [(None, each) for each in value], None, schema and schema.value_schema)
        case dict():
            key_schema = schema and schema.key_schema
            _append_all(add, "{}", list(value.items()), key_schema, schema and schema.value_schema)
        case Struct():
            _append_struct(add, value)
        case datetime.date() | datetime.time():
            add(_time_text(value))
        case _:
            raise DataError(f"Failed to serialize unexpected value type {type(value).__name__}: {value!r}")


def _append_all(
    add: Callable[[str], None],
    brackets: str,
    entries: list[tuple[Any, Any]],
    key_schema: Schema | None,
    value_schema: Schema | None,
) -> None:
    add(brackets[0])
    for index, (key, entry) in enumerate(entries):
        if index:
            add(",")
        if brackets == "{}":
            _append(add, key_schema, key, embedded=True)
            add(":")
        _append(add, value_schema, entry, embedded=True)
    add(brackets[1])


def _append_struct(add: Callable[[str], None], struct: Struct) -> None:
    add("{")
    for each in struct.schema.fields:
        add(f"{',' if each.index else ''}{_quoted(each.name)}:")
        _append(add, each.schema, struct[each.name], embedded=True)
    add("}")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _time_text(value: datetime.date | datetime.time) -> str:
    """Format a logical value as Connect does, which sees only a number of milliseconds.

    Before the second day of 1970 it writes only the time of day, and at midnight only the date.
    """
    millis = temporal_millis(value)
    of_day = millis % logical.MS_PER_DAY
    time = logical.time_of(of_day).isoformat("milliseconds") + "Z"
    if millis < logical.MS_PER_DAY:
        return time
    date = logical.date_of(millis // logical.MS_PER_DAY).isoformat()
    return f"{date}T{time}" if of_day else date
