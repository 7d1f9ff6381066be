"""Random records whose schema changes, and the rows that they are expected to make in any table."""

import datetime
import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from penstock.connect.data import schema as schemas
from penstock.connect.data.logical import (
    TIME_NAME,
    date_schema,
    decimal_schema,
    millis_of_day,
    time_schema,
    timestamp_schema,
)
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct

Row = dict[str, Any]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
BITS = {Type.INT8: 7, Type.INT16: 15, Type.INT32: 31, Type.INT64: 63}
PLAIN = (
    *(schemas.OPTIONAL_INT8, schemas.OPTIONAL_INT16, schemas.OPTIONAL_INT32, schemas.OPTIONAL_INT64),
    *(schemas.OPTIONAL_FLOAT32, schemas.OPTIONAL_FLOAT64, schemas.OPTIONAL_BOOLEAN),
    *(schemas.OPTIONAL_STRING, schemas.OPTIONAL_BYTES),
    *(date_schema(optional=True), time_schema(optional=True), timestamp_schema(optional=True)),
    *(decimal_schema(0, optional=True), decimal_schema(5, optional=True)),
)


class LakeChance:
    """Makes records from one seed; the schema gets new fields, also in structs, and loses optional ones."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = iter(range(1, 1_000_000))
        self.schema = Schema.struct({"id": schemas.INT64, "text": schemas.OPTIONAL_STRING}, version=1)

    def change_schema(self) -> None:
        """Add a field to the record or to a struct in it, or remove an optional field."""
        fields = {each.name: each.schema for each in self.schema.fields}
        optional = [name for name, each in fields.items() if each.optional and name != "text"]
        structs = [name for name in optional if fields[name].type is Type.STRUCT]
        if len(optional) > 6:
            del fields[self.random.choice(optional)]
        elif structs and self.random.random() < 0.4:
            name = self.random.choice(structs)
            inner = {each.name: each.schema for each in fields[name].fields}
            inner[self.new_name()] = self.field(1)
            fields[name] = Schema.struct(inner, optional=True)
        else:
            fields[self.new_name()] = self.field(2)
        self.schema = Schema.struct(fields, version=(self.schema.version or 0) + 1)

    def new_name(self) -> str:
        return f"f{next(self.names)}"

    def field(self, depth: int) -> Schema:
        kind = self.random.randrange(8) if depth else 0
        if kind == 5:
            return Schema.array(self.field(depth - 1), optional=True)
        if kind == 6:
            return Schema.map(schemas.STRING, self.field(depth - 1), optional=True)
        if kind == 7:
            inner = {self.new_name(): self.field(depth - 1) for _ in range(self.random.randint(1, 3))}
            return Schema.struct(inner, optional=True)
        return self.random.choice(PLAIN)

    def record(self, number: int) -> Struct:
        values = [self.value(each.schema) for each in self.schema.fields]
        return Struct.of_values(self.schema, [number, *values[1:]])

    def value(self, schema: Schema) -> Any:
        if schema.optional and self.random.random() < 0.2:
            return None
        match schema.type:
            case Type.ARRAY:
                return [self.value(part(schema)) for _ in range(self.random.randint(0, 3))]
            case Type.MAP:
                return {f"k{n}": self.value(part(schema)) for n in range(self.random.randint(0, 3))}
            case Type.STRUCT:
                return Struct.of_values(schema, [self.value(each.schema) for each in schema.fields])
        if schema.name is not None:
            return self.logical(schema)
        return self.scalar(schema.type)

    def logical(self, schema: Schema) -> Any:
        made: Mapping[str, Callable[[], Any]] = {
            "Decimal": lambda: Decimal(self.random.randint(-(10**12), 10**12)).scaleb(
                -int((schema.parameters or {})["scale"])
            ),
            "Date": lambda: datetime.date.fromordinal(self.random.randint(693_596, 800_000)),
            "Time": lambda: datetime.time(
                self.random.randrange(24), self.random.randrange(60), 59, self.random.randrange(1000) * 1000
            ),
            "Timestamp": lambda: (
                EPOCH + datetime.timedelta(milliseconds=self.random.randint(-(10**12), 10**13))
            ),
        }
        return made[str(schema.name).rpartition(".")[2]]()

    def scalar(self, kind: Type) -> Any:
        if kind in BITS:
            limit = 1 << BITS[kind]
            return self.random.choice([0, -limit, limit - 1, self.random.randrange(-limit, limit)])
        match kind:
            case Type.FLOAT32 | Type.FLOAT64:
                return self.random.randint(-9999, 9999) / 64
            case Type.BOOLEAN:
                return self.random.random() < 0.5
            case Type.BYTES:
                return self.random.randbytes(self.random.randint(0, 5))
        return "".join(self.random.choice("aé日😀\"\\\n'") for _ in range(self.random.randint(0, 5)))


def part(schema: Schema) -> Schema:
    assert schema.value_schema is not None
    return schema.value_schema


def expected(value: Any, schema: Schema, *, times: bool = True) -> Any:
    """Return a value as readers of tables show it: structs as dicts, maps as lists of pairs."""
    if value is None:
        return None
    match schema.type:
        case Type.STRUCT:
            return {each.name: expected(value[each.name], each.schema, times=times) for each in schema.fields}
        case Type.ARRAY:
            return [expected(each, part(schema), times=times) for each in value]
        case Type.MAP:
            return [(key, expected(each, part(schema), times=times)) for key, each in value.items()]
    return millis_of_day(value) if schema.name == TIME_NAME and not times else value


def without_nulls(value: Any, *, has_null_lists: bool = True) -> Any:
    """Return a row of a reader or an expected one in one form: fields that are null are left out.

    Without ``has_null_lists`` so are empty lists and maps, which a format does not tell from those.
    """
    if isinstance(value, dict):
        found = {key: without_nulls(each, has_null_lists=has_null_lists) for key, each in value.items()}
        absent: tuple[Any, ...] = (None,) if has_null_lists else (None, [])
        return {key: each for key, each in found.items() if each not in absent}
    if isinstance(value, list | tuple):
        return type(value)(without_nulls(each, has_null_lists=has_null_lists) for each in value)
    return value
