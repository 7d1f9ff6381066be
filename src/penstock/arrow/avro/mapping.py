"""Map Avro types to Arrow types that Spark has as well, and defaults to values of those types."""

from __future__ import annotations

import uuid
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa

from penstock.client.settings import ConfigError
from penstock.registry.formats.avro.types import Type

PRECISION_MAX: Final = 38
DURATION_BYTES: Final = 12
UUID_BYTES: Final = 16
_EXACT: Final = Context(prec=PRECISION_MAX)  # the default context rounds to 28 digits
_SIMPLE: Final = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_TIMESTAMPS: Final = {
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def logical(of: Type) -> str:
    """Return the logical type if it determines the column, else an empty text."""
    name = of.properties.get("logicalType")
    if not isinstance(name, str):
        return ""
    match of.kind:
        case "int" if name == "date":
            return name
        case "long" if name in _TIMESTAMPS:
            return name
        case "fixed" if name == "uuid" and of.size == UUID_BYTES:
            return name
        case "bytes" | "fixed" if name == "decimal" and decimal_of(of) is not None:
            return name
    return ""


def decimal_of(of: Type) -> tuple[int, int] | None:
    """Return precision and scale if they are valid in Avro, else None."""
    precision, scale = of.properties.get("precision"), of.properties.get("scale", 0)
    try:
        precision, scale = int(precision), int(scale)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    return (precision, scale) if 0 <= scale <= precision and precision > 0 else None


def arrow_type(of: Type, path: str = "", inside: tuple[Type, ...] = ()) -> pa.DataType:
    """Return the column type of an Avro type. Raises ConfigError with the path if there is none."""
    if any(of is each for each in inside):
        raise ConfigError(
            f"{_at(path)} is of the type {of.full_name}, which contains itself: a column has no such type. "
            "Give a reader schema that leaves the field out, or read the bytes"
        )
    inside = (*inside, of)
    match of.kind:
        case "record":
            if not of.fields:
                raise ConfigError(
                    f"{_at(path)} is the record {of.full_name} without fields, which no column can hold"
                )
            return pa.struct(
                [pa.field(f.name, arrow_type(f.type, f"{path}.{f.name}", inside)) for f in of.fields]
            )
        case "array":
            return pa.list_(pa.field("element", arrow_type(of.items[0], f"{path}[]", inside)))
        case "map":
            return pa.map_(pa.string(), arrow_type(of.items[0], f"{path}{{}}", inside))
        case "union":
            return _union_type(of, path, inside)
    match logical(of):
        case "":
            if of.kind == "null":
                raise ConfigError(f"{_at(path)} is always null: no column has that type")
            return _SIMPLE[of.kind]
        case "date":
            return pa.date32()
        case "uuid":
            return pa.string()
        case "decimal":
            precision, scale = decimal_of(of) or (0, 0)
            if precision > PRECISION_MAX:
                raise ConfigError(
                    f"{_at(path)} is a decimal of precision {precision}: expected up to {PRECISION_MAX}"
                )
            return pa.decimal128(precision, scale)
    return _TIMESTAMPS[logical(of)]


def _union_type(of: Type, path: str, inside: tuple[Type, ...]) -> pa.DataType:
    others = [each for each in of.items if each.kind != "null"]
    if not others:
        raise ConfigError(f"{_at(path)} is always null: no column has that type")
    kinds = [arrow_type(each, path, inside) for each in others]
    if common := _common(kinds):
        return common
    return pa.struct([pa.field(member(at), kind) for at, kind in enumerate(kinds)])


def _common(kinds: list[pa.DataType]) -> pa.DataType | None:
    """Return the type that holds all branches of a union, as in Spark, or None.

    That is the type that all branches share, or the wider type of numbers of one kind.
    """
    if len(set(map(str, kinds))) == 1:
        return kinds[0]
    for numbers in ([pa.int32(), pa.int64()], [pa.float32(), pa.float64()]):
        if all(kind in numbers for kind in kinds):
            return numbers[1]
    return None


def member(at: int) -> str:
    """The field of a union's branch, under Spark's name for it; null branches don't count."""
    return f"member{at}"


def is_spread(of: Type) -> bool:
    """Whether a union becomes a struct of its branches."""
    kinds = [arrow_type(each) for each in of.items if each.kind != "null"]
    return _common(kinds) is None


def default_scalar(of: Type, default: Any, column: pa.DataType) -> pa.Scalar:
    """Convert a field's default to a value of its column. Raises ValueError if it does not fit."""
    try:
        return pa.array([_value(of, default)], column)[0]
    except (ValueError, TypeError, KeyError, OverflowError, pa.ArrowException) as problem:
        raise ValueError(f"the default {default!r} is not a value of {of.full_name}: {problem}") from None


def _value(of: Type, given: Any) -> Any:
    match of.kind:
        case "union":
            return _union_value(of, given)
        case "record":
            return {f.name: _value(f.type, given.get(f.name, f.default)) for f in of.fields}
        case "array":
            return [_value(of.items[0], each) for each in given]
        case "map":
            return [(key, _value(of.items[0], each)) for key, each in given.items()]
        case "bytes" | "fixed":
            data = given.encode("latin-1")
            match logical(of):
                case "decimal":
                    return _decimal(of, data)
                case "uuid":
                    return str(uuid.UUID(bytes=data))
            return data
        case "float" | "double":
            return float(given)
        case "int" | "long":
            return int(given) * (1000 if logical(of).endswith("timestamp-millis") else 1)
    return given


def _union_value(of: Type, given: Any) -> Any:
    """Convert a union's default by the first branch that accepts it (Avro 1.12)."""
    at = -1
    for branch in of.items:
        at += branch.kind != "null"
        try:
            value = None if given is None else _value(branch, given)
            if (given is None) != (branch.kind == "null"):
                continue
            if given is not None:
                pa.array([value], arrow_type(branch))
        except (ValueError, TypeError, KeyError, AttributeError, pa.ArrowException):
            continue
        return {member(at): value} if given is not None and is_spread(of) else value
    raise ValueError("no branch accepts it")


def _decimal(of: Type, data: bytes) -> Decimal:
    _, scale = decimal_of(of) or (0, 0)
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _EXACT)


def _at(path: str) -> str:
    return f"field '{path.lstrip('.')}' of the Avro schema" if path else "the Avro schema"
