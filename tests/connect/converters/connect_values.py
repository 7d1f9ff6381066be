"""Random schemas and values of Kafka Connect, and the notation in which Python and Java exchange them.

A schema is an object, and a value an array of its type and content. Java's answers don't tell the widths of
numbers, since values in Python have none: the schema beside them does.
"""

import base64
import datetime
import random
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from penstock.connect.data import logical
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.struct import Struct

Described = Any
"""A schema or a value in the notation, as JSON has it."""

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
INTEGERS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
SCALARS = (*INTEGERS, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING, Type.BYTES)
LOGICAL = {
    logical.DATE_NAME: ("date", Type.INT32),
    logical.TIME_NAME: ("time", Type.INT32),
    logical.TIMESTAMP_NAME: ("timestamp", Type.INT64),
    logical.DECIMAL_NAME: ("decimal", Type.BYTES),
}
# Before version 19, Java prints some doubles with more digits than they need, but none of these.
FLOATS = (0.0, -0.0, 0.5, -1.25, 3.0, 100.0, 1e6, 1e7, 1e-3, 1e-4, 0.1, 1e30)
DOUBLES = (*FLOATS, 1.5e10, 1e16, 1.7e308, -2.5e-300, float("nan"), float("inf"), float("-inf"))
NAN = struct.pack(">d", float("nan")).hex()
# Defaults decide whether two schemas are equal. In Python, NaN is not equal to itself, but 0.0 is to -0.0.
# In Java, lists of bytes are not equal.
UNEQUAL = (NAN, struct.pack(">d", -0.0).hex(), struct.pack(">f", -0.0).hex())
UNHASHABLE = object()
CHARACTERS = (
    "a",
    "Z",
    "0",
    "é",
    "ß",
    "\u2028",
    "日",
    "😀",
    '"',
    "\\",
    "/",
    "\n",
    "\t",
    "\x00",
    "\x1f",
    "\x7f",
    " ",
)


def schema_of(given: Described) -> Schema:
    """Build the schema of a description."""
    more = {
        part: given[part] for part in ("optional", "name", "version", "doc", "parameters") if part in given
    }
    if "default" in given:
        more["default"] = value_of(given["default"])
    if "fields" in given:
        more["fields"] = Schema.struct({name: schema_of(each) for name, each in given["fields"]}).fields
    if "items" in given:
        more["value_schema"] = schema_of(given["items"])
    if "keys" in given:
        more |= {"key_schema": schema_of(given["keys"]), "value_schema": schema_of(given["values"])}
    return Schema(Type[given["type"]], **more)


def optional_schema(given: Described) -> Schema | None:
    """Build the schema of a description, if there is one."""
    return None if given is None else schema_of(given)


def value_of(given: Described) -> Any:
    """Build the value of a description."""
    if given is None:
        return None
    match given[0], given[1]:
        case "float32", bits:
            return struct.unpack(">f", bytes.fromhex(bits))[0]
        case "float64", bits:
            return struct.unpack(">d", bytes.fromhex(bits))[0]
        case "bytes", text:
            return base64.b64decode(text)
        case "decimal", [unscaled, scale]:
            sign, digits, _ = Decimal(unscaled).as_tuple()
            return Decimal((sign, digits, -scale))
        case "date", millis:
            return (EPOCH + datetime.timedelta(milliseconds=millis)).date()
        case "time", millis:
            return (EPOCH + datetime.timedelta(milliseconds=millis)).time()
        case "timestamp", millis:
            return EPOCH + datetime.timedelta(milliseconds=millis)
        case "list", entries:
            return [value_of(each) for each in entries]
        case "map", entries:
            return {value_of(key): value_of(each) for key, each in entries}
        case "struct", schema:
            return Struct.of_values(schema_of(schema), map(value_of, given[2]))
    return given[1]


def shown_schema(schema: Schema | None) -> Described:
    """Describe a schema as the Java program does."""
    if schema is None:
        return None
    shown: dict[str, Any] = {"type": schema.type.name, "optional": schema.optional}
    for part in ("name", "version", "doc", "parameters"):
        if (found := getattr(schema, part)) is not None:
            shown[part] = dict(found) if isinstance(found, Mapping) else found
    if schema.default is not None:
        shown["default"] = shown_value(schema.default)
    match schema.type:
        case Type.ARRAY:
            shown["items"] = shown_schema(schema.value_schema)
        case Type.MAP:
            shown |= {"keys": shown_schema(schema.key_schema), "values": shown_schema(schema.value_schema)}
        case Type.STRUCT:
            shown["fields"] = [[each.name, shown_schema(each.schema)] for each in schema.fields]
    return shown


def shown_value(value: Any) -> Described:
    """Describe a value as the Java program does."""
    match value:
        case None:
            return None
        case bool():
            return ["boolean", value]
        case int():
            return ["int", value]
        case float():
            bits = 0x7FF8 << 48 if value != value else struct.unpack(">q", struct.pack(">d", value))[0]
            return ["float", f"{bits % (1 << 64):x}"]
        case str():
            return ["string", value]
        case bytes():
            return ["bytes", base64.b64encode(value).decode()]
        case Decimal():
            sign, digits, exponent = value.as_tuple()
            assert isinstance(exponent, int)
            return ["decimal", [f"{'-' if sign and value else ''}{''.join(map(str, digits))}", -exponent]]
        case datetime.datetime():
            return ["moment", (value - EPOCH) // datetime.timedelta(milliseconds=1)]
        case datetime.date():
            return ["moment", (value - EPOCH.date()).days * logical.MS_PER_DAY]
        case datetime.time():
            return ["moment", logical.millis_of_day(value)]
        case list():
            return ["list", [shown_value(each) for each in value]]
        case dict():
            return ["map", [[shown_value(key), shown_value(each)] for key, each in value.items()]]
        case Struct():
            values = [value.without_default(each.name) for each in value.schema.fields]
            return ["struct", shown_schema(value.schema), [shown_value(each) for each in values]]
    raise AssertionError(f"{value!r} has no notation")


def comparable(described: Described) -> Described:
    """Sort the entries of maps, whose order Java's HashMap does not keep."""
    if isinstance(described, dict):
        return {name: comparable(each) for name, each in described.items()}
    if isinstance(described, list):
        parts = [comparable(each) for each in described]
        return ["map", sorted(parts[1], key=repr)] if parts[:1] == ["map"] else parts
    return described


def exists_in_python(described: Described) -> bool:
    """Whether the value can be one in Python: no dates before the year 1, and only some keys."""
    match described:
        case ["moment", millis]:
            return millis in range(-62_135_596_800_000, 253_402_300_800_000)
        case ["map", entries]:
            keys = {python_key(key) for key, _ in entries}
            return len(keys - {UNHASHABLE}) == len(entries) and all(map(exists_in_python, entries))
        case list():
            return all(map(exists_in_python, described))
    return True


def python_key(described: Described) -> Any:
    """Return something that is equal for keys that are equal in Python, such as true, 1 and 1.0."""
    match described:
        case ["int" | "boolean", value]:
            return int(value)
        case ["float", bits]:
            return struct.unpack(">d", bytes.fromhex(bits.rjust(16, "0")))[0]
        case ["list" | "map", _]:
            return UNHASHABLE
    return repr(described)


class Chance:
    """Makes random schemas and values from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.choice: Callable[..., Any] = self.random.choice
        self.scalars = SCALARS
        self.entries_max = 3

    def happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def text(self, longest: int = 6) -> str:
        return "".join(self.choice(CHARACTERS) for _ in range(self.random.randint(0, longest)))

    def field_name(self) -> str:
        return self.text(3) or "x"

    def schema_name(self) -> str:
        return str(self.choice(["some.Name", 'a"b', "ü"]))

    def schema(self, depth: int = 3, *, is_key: bool = False) -> Described:
        """Describe a schema; ``is_key`` asks for values that can be keys of a dict."""
        kinds = 10 if depth <= 0 or is_key else 14
        kind = self.random.randrange(kinds)
        if kind < 7:
            made: dict[str, Any] = {"type": self.choice(self.scalars).name}
        elif kind < 10:
            made = self._logical_schema()
        elif kind == 10:
            made = {"type": "ARRAY", "items": self.schema(depth - 1)}
        elif kind == 11:
            keys = {"type": "STRING", "optional": False} if self.happens(0.5) else self.schema(0, is_key=True)
            made = {"type": "MAP", "keys": keys, "values": self.schema(depth - 1)}
        else:
            names = dict.fromkeys(self.field_name() for _ in range(self.random.randint(0, 4)))
            made = {"type": "STRUCT", "fields": [[name, self.schema(depth - 1)] for name in names]}
        return self._with_more(made)

    def _logical_schema(self) -> dict[str, Any]:
        name = self.choice(list(LOGICAL))
        made = {"type": LOGICAL[name][1].name, "name": name, "version": 1}
        if name == logical.DECIMAL_NAME:
            made["parameters"] = {"scale": str(self.choice([0, 2, 5, -2]))}
        return made

    def _with_more(self, made: dict[str, Any]) -> dict[str, Any]:
        made["optional"] = self.happens(0.4)
        if self.happens(0.1):
            made.setdefault("name", self.schema_name())
            made["version"] = self.choice([1, 7, -1])
        if self.happens(0.1):
            made["doc"] = self.text()
        if self.happens(0.1):
            made.setdefault("parameters", {"p": self.text(), "q": "1"})
        if made["type"] != "STRUCT" and self.happens(0.15):  # SchemaBuilder refuses defaults of structs
            default = self.value(dict(made, optional=False))
            if not any(each in repr(default) for each in UNEQUAL) and "BYTES" not in repr(
                made
            ):  # nor in Java
                made["default"] = default
        return made

    def value(self, schema: Described) -> Described:
        """Describe a value that fits a schema."""
        if schema["optional"] and self.happens(0.25):
            return None
        type_ = Type[schema["type"]]
        if schema.get("name") in LOGICAL:
            return self._logical_value(schema)
        match type_:
            case Type.ARRAY:
                return ["list", [self.value(schema["items"]) for _ in range(self.random.randint(0, 3))]]
            case Type.MAP:
                given = (self.value(schema["keys"]) for _ in range(3))
                keys = {value_of(key): key for key in given if NAN not in repr(key)}
                entries = [[key, self.value(schema["values"])] for key in keys.values()]
                return ["map", entries[: self.random.randint(0, self.entries_max)]]
            case Type.STRUCT:
                return ["struct", schema, [self.value(each) for _, each in schema["fields"]]]
        return self.scalar(type_)

    def scalar(self, type_: Type) -> Described:
        if (bits := INTEGERS.get(type_)) is not None:
            small = self.random.randint(-20, 20)
            edge = self.choice([-(1 << (bits - 1)), (1 << (bits - 1)) - 1])
            wide = self.random.randint(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
            return [type_.name.lower(), self.choice([small, small, edge, wide])]
        match type_:
            case Type.FLOAT32:
                given = self.choice([*FLOATS, self.random.randint(-9999, 9999) / 64])
                return ["float32", struct.pack(">f", given).hex()]
            case Type.FLOAT64:
                given = self.choice([*DOUBLES, self.random.randint(-(10**9), 10**9) / 1000])
                return ["float64", struct.pack(">d", given).hex()]
            case Type.BOOLEAN:
                return ["boolean", self.happens(0.5)]
            case Type.STRING:
                return ["string", self.text()]
        return ["bytes", base64.b64encode(self.random.randbytes(self.random.randint(0, 5))).decode()]

    def _logical_value(self, schema: Described) -> Described:
        kind = LOGICAL[schema["name"]][0]
        match kind:
            case "decimal":
                digits = self.random.randint(0, self.choice([2, 19, 40]))
                unscaled = self.random.randint(-(10**digits), 10**digits)
                return ["decimal", [str(unscaled), int(schema["parameters"]["scale"])]]
            case "date":
                return ["date", self.random.randint(-140_000, 200_000) * logical.MS_PER_DAY]
            case "time":
                return ["time", self.random.randint(0, logical.MS_PER_DAY - 1)]
        return ["timestamp", self.random.randint(-(10**13), 10**14)]
