"""Random values of an Avro schema, made by its `arg.properties` as Avro's random generator does.

A value depends on nothing but the seed and the number of its record. So an iteration counts records: its
value is the same for all elements of an array.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

from penstock.connect.connectors.generator.texts import matching, text_of_length
from penstock.connect.converters.avro.from_avro import connect_schema
from penstock.connect.converters.avro.settings import AvroSettings, is_union
from penstock.connect.data import logical
from penstock.connect.data.schema import Schema
from penstock.connect.data.struct import Struct
from penstock.connect.errors import ConfigInvalid, DataError
from penstock.registry.formats import SchemaError, parse
from penstock.registry.formats.avro.schema import AvroSchema
from penstock.registry.formats.avro.types import Type

Value = Callable[[Random, int], Any]
"""Makes a value for the record with a number, from 0."""
Properties = Mapping[str, Any]

_LENGTHS: Final = {"min": 8, "max": 16}
_BITS: Final = {"int": 32, "long": 64}


def values_of(text: str) -> tuple[Schema, Value]:
    """Return Connect's schema for an Avro schema with `arg.properties`, and the function that makes values.

    Raises:
        ConfigInvalid: the schema or one of the properties cannot be used.
    """
    try:
        parsed = parse(AvroSchema.format, text)
        assert isinstance(parsed, AvroSchema)
        schema = connect_schema(parsed.root, AvroSettings())
        if schema is None:
            raise DataError("it is a schema of values without one")
        return schema, _maker(parsed.root, schema)
    except (SchemaError, DataError) as error:
        raise ConfigInvalid(f"Unable to parse the schema of the generator: {error}") from error


def _maker(of: Type, schema: Schema) -> Value:
    given = _mapping(of.properties.get("arg.properties", {}), of)
    if "options" in given:
        options = [_of_json(each, of, schema) for each in _options(given["options"])]
        if not options:
            raise ConfigInvalid(f"options of {of.full_name} are empty, expected one at least")
        return lambda chance, _: chance.choice(options)
    made = _raw(of, schema, given)
    convert = _conversion(schema)
    if convert is None:
        return made
    return lambda chance, number: convert(made(chance, number))


def _raw(of: Type, schema: Schema, given: Properties) -> Value:
    """Make the function for values as Avro has them, before logical types."""
    match of.kind:
        case "int" | "long":
            return _integers(of, given)
        case "float" | "double":
            least, most = _range(given.get("range", {"min": 0, "max": 1}), of)
            if "iteration" in given:
                return _iteration(_mapping(given["iteration"], of), float)
            return lambda chance, _: chance.uniform(least, most)
        case "boolean":
            return _booleans(of, given)
        case "string":
            return _strings(of, given)
        case "bytes":
            length = _length(given, of)
            return lambda chance, _: chance.randbytes(length(chance))
        case "fixed":
            return lambda chance, _: chance.randbytes(of.size)
        case "enum":
            return lambda chance, _: chance.choice(of.symbols)
        case "record":
            return _structs(of, schema)
        case "array":
            return _arrays(of, schema, given)
        case "map":
            return _maps(of, schema, given)
        case "union":
            return _unions(of, schema)
    raise ConfigInvalid(f"No values can be generated for {of.kind}")


def _integers(of: Type, given: Properties) -> Value:
    if "iteration" in given:
        return _iteration(_mapping(given["iteration"], of), int)
    least, most = -(1 << (_BITS[of.kind] - 1)), 1 << (_BITS[of.kind] - 1)
    if "range" in given:
        found = _mapping(given["range"], of)
        least, most = int(found.get("min", least)), int(found.get("max", most))
    if least >= most:
        raise ConfigInvalid(f"the range {least} to {most} of {of.full_name} is empty: max is not part of it")
    return lambda chance, _: chance.randrange(least, most)


def _iteration(given: Properties, number: Callable[[Any], Any]) -> Value:
    """Count from `start` (or at first from `initial`) by `step`, and at `restart` from `start` again."""
    start = number(given.get("start", 0))
    restart = number(given["restart"]) if "restart" in given else None
    step = number(given.get("step", 1 if restart is None or restart >= start else -1))
    first = number(given.get("initial", start))
    if restart is None:
        return lambda _, at: first + at * step
    span = restart - start
    if not step or not span or (span > 0) != (step > 0):
        raise ConfigInvalid(f"an iteration from {start} to {restart} by {step} has no values")
    period = int(-(-span // step))  # the number of values before it begins again
    before = int(-(-(restart - first) // step))
    if before <= 0:
        raise ConfigInvalid(f"the initial value {first} of an iteration lies behind {restart}")
    return lambda _, at: first + at * step if at < before else start + (at - before) % period * step


def _booleans(of: Type, given: Properties) -> Value:
    if "iteration" in given:
        start = bool(_mapping(given["iteration"], of).get("start", False))
        return lambda _, at: start ^ bool(at % 2)
    odds = float(given.get("odds", 0.5))
    if not 0 <= odds <= 1:
        raise ConfigInvalid(f"odds of {of.full_name} are {odds}, expected 0 to 1")
    return lambda chance, _: chance.random() < odds


def _strings(of: Type, given: Properties) -> Value:
    prefix, suffix = str(given.get("prefix", "")), str(given.get("suffix", ""))
    if "regex" in given:
        text = matching(str(given["regex"]))
        return lambda chance, _: f"{prefix}{text(chance)}{suffix}"
    if "iteration" in given:
        count = _iteration(_mapping(given["iteration"], of), int)
        return lambda chance, number: f"{prefix}{count(chance, number)}{suffix}"
    if "range" in given:
        least, most = _range(given["range"], of)
        return lambda chance, _: f"{prefix}{chance.randrange(int(least), int(most))}{suffix}"
    length = _length(given, of)
    return lambda chance, _: f"{prefix}{text_of_length(chance, length(chance))}{suffix}"


def _structs(of: Type, schema: Schema) -> Value:
    pairs = zip(of.fields, schema.fields, strict=True)
    fields = [_maker(each.type, other.schema) for each, other in pairs]
    return lambda chance, number: Struct.of_values(schema, [each(chance, number) for each in fields])


def _arrays(of: Type, schema: Schema, given: Properties) -> Value:
    element = _maker(of.items[0], _part(schema.value_schema, of))
    length = _length(given, of)
    return lambda chance, number: [element(chance, number) for _ in range(length(chance))]


def _maps(of: Type, schema: Schema, given: Properties) -> Value:
    value = _maker(of.items[0], _part(schema.value_schema, of))
    length = _length(given, of)
    key = _strings(of, _mapping(given.get("keys", {}), of))
    return lambda chance, number: {key(chance, number): value(chance, number) for _ in range(length(chance))}


def _unions(of: Type, schema: Schema) -> Value:
    """Choose each member as often: null too, and structs of Connect for other unions."""
    members: list[Value] = []
    fields = iter(schema.fields if is_union(schema) else ())
    for each in of.items:
        if each.kind == "null":
            members.append(lambda _chance, _number: None)
        elif is_union(schema):
            field = next(fields)
            members.append(_member(schema, field.name, _maker(each, field.schema)))
        else:
            members.append(_maker(each, schema))
    return lambda chance, number: chance.choice(members)(chance, number)


def _member(schema: Schema, name: str, made: Value) -> Value:
    return lambda chance, number: Struct(schema, {name: made(chance, number)})


def _conversion(schema: Schema) -> Callable[[Any], Any] | None:
    """Return the function that makes a value of Connect's logical types; it keeps None."""
    match schema.name:
        case logical.DECIMAL_NAME:
            scale = logical.scale_parameter(schema)
            return lambda value: logical.decimal_of_bytes(value, scale) if isinstance(value, bytes) else value
        case logical.DATE_NAME:
            return lambda value: logical.date_of(value) if isinstance(value, int) else value
        case logical.TIME_NAME:
            return lambda value: logical.time_of(value) if isinstance(value, int) else value
        case logical.TIMESTAMP_NAME:
            return lambda value: logical.timestamp_of(value) if isinstance(value, int) else value
    return None


def _of_json(value: Any, of: Type, schema: Schema) -> Any:
    """Return the value of an option, which is JSON. Raises ConfigInvalid."""
    misfit = ConfigInvalid(f"the option {value!r} is no value of {of.full_name}")
    match of.kind:
        case "record" if isinstance(value, dict):
            pairs = zip(of.fields, schema.fields, strict=True)
            return Struct.of_values(
                schema, [_of_json(value.get(each.name), each.type, other.schema) for each, other in pairs]
            )
        case "array" if isinstance(value, list):
            return [_of_json(each, of.items[0], _part(schema.value_schema, of)) for each in value]
        case "map" if isinstance(value, dict):
            inner = _part(schema.value_schema, of)
            return {name: _of_json(each, of.items[0], inner) for name, each in value.items()}
        case "union" if value is None:
            return None
        case "union" if not is_union(schema):
            member = next(each for each in of.items if each.kind != "null")
            return _of_json(value, member, schema)
        case "string" if isinstance(value, str):
            return value
        case "enum" if value in of.symbols:
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "bytes" | "fixed" if isinstance(value, str):
            found: Any = value.encode("latin-1")
        case "float" | "double" if isinstance(value, int | float | Decimal):
            return float(value)
        case "int" | "long" if isinstance(value, int | Decimal) and value == int(value):
            found = int(value)
        case _:
            raise misfit
    convert = _conversion(schema)
    return found if convert is None else convert(found)


def _options(given: Any) -> list[Any]:
    if isinstance(given, dict) and isinstance(given.get("file"), str):
        try:
            given = json.loads(Path(given["file"]).read_text())
        except (OSError, ValueError) as error:
            raise ConfigInvalid(f"the file of options cannot be read: {error}") from error
    if not isinstance(given, list):
        raise ConfigInvalid(f"options are {given!r}, expected a list, or the file of one")
    return given


def _length(given: Properties, of: Type) -> Callable[[Random], int]:
    """Make the function that chooses a length; `max` is not part of the range."""
    found = given.get("length", _LENGTHS)
    if isinstance(found, int):
        return lambda _: found
    bounds = _mapping(found, of)
    least = int(bounds.get("min", 0))
    most = int(bounds.get("max", least + _LENGTHS["min"]))
    if not 0 <= least < most:
        raise ConfigInvalid(f"the length {least} to {most} of {of.full_name} is empty: max is not part of it")
    return lambda chance: chance.randrange(least, most)


def _range(given: Any, of: Type) -> tuple[float, float]:
    found = _mapping(given, of)
    least, most = float(found.get("min", 0)), float(found.get("max", 1))
    if least >= most:
        raise ConfigInvalid(f"the range {least} to {most} of {of.full_name} is empty: max is not part of it")
    return least, most


def _mapping(given: Any, of: Type) -> Properties:
    if not isinstance(given, dict):
        raise ConfigInvalid(f"a property of {of.full_name} is {given!r}, expected an object")
    return given


def _part(schema: Schema | None, of: Type) -> Schema:
    if schema is None:
        raise ConfigInvalid(f"No values can be generated for a part of {of.full_name} without a schema")
    return schema
