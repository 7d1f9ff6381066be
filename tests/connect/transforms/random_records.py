"""Random records for transforms: schemas with few names of fields, so that configurations find them."""

import struct

from connect.converters.connect_values import Chance, Described

NAMES = ("a", "b", "c", "d", "e", "a.b", "b.c", "f`g")
TOPICS = ("orders", "orders-1", "a", "db.table", "audit-x")
HEADERS = ("h", "i", "j")


class RecordChance(Chance):
    """Makes random records from one seed.

    Some lack a value that they need, at the top. Connect refuses that when it is put into another struct.
    """

    lacks_value = 0.01

    def schema(self, depth: int = 3, *, is_key: bool = False) -> Described:
        made = super().schema(depth, is_key=is_key)
        if made["type"] == "STRUCT":
            made["fields"] = self._renamed([inner for _, inner in made["fields"]])
        if made["type"] == "MAP" and made["keys"]["type"].startswith("FLOAT"):
            made["keys"] = {"type": "STRING", "optional": False}  # Python can have the key NaN twice
            made.pop("default", None)
        if made["type"] in ("MAP", "ARRAY") and "BYTES" in repr(made):
            made.pop("default", None)  # byte arrays of Java are never equal, so neither are such defaults
        return made

    def struct_schema(self, depth: int = 2) -> Described:
        inner = [self.schema(depth) for _ in range(self.random.randint(0, 6))]
        return self._with_more({"type": "STRUCT", "fields": self._renamed(inner)})

    def _renamed(self, inner: list[Described]) -> list[Described]:
        names = self.random.sample(NAMES, len(inner))
        return [[name, each] for name, each in zip(names, inner, strict=True)]

    def value(self, schema: Described) -> Described:
        if schema["type"] == "STRUCT" and not (schema["optional"] and self.happens(0.2)):
            return ["struct", schema, [self._field_value(each) for _, each in schema["fields"]]]
        return super().value(schema)

    def _field_value(self, schema: Described) -> Described:
        return None if "default" in schema and self.happens(0.4) else self.value(schema)

    def plain(self, depth: int = 2) -> Described:
        """A value without a schema."""
        kind = self.random.randrange(9 if depth else 6)
        match kind:
            case 0:
                return None
            case 1 | 2:
                value = self.choice(
                    [self.random.randint(-200, 200), self.random.randint(-(1 << 63), (1 << 63) - 1)]
                )
                return ["int64", value]
            case 3:
                return ["float64", struct.pack(">d", self.choice([0.5, -3.0, 1e30, float("nan"), 7e9])).hex()]
            case 4:
                return ["string", self.choice(["", "12", "-7", "300", "true", "1.5", "x", "1e3"])]
            case 5:
                return self.choice(
                    [["boolean", True], ["boolean", False], ["bytes", "AQI="], ["decimal", ["15", 1]]]
                )
            case 6:
                return ["list", [self.plain(depth - 1) for _ in range(self.random.randint(0, 2))]]
        return self.plain_map(depth - 1)

    def plain_map(self, depth: int = 2) -> Described:
        names = self.random.sample(NAMES, self.random.randint(0, 5))
        return ["map", [[["string", name], self.plain(depth)] for name in names]]

    def part(self) -> tuple[Described, Described]:
        """A schema, perhaps none, and a value of a record's key or value."""
        kind = self.random.randrange(20)
        if kind < 11:
            schema = self.struct_schema()
            value = self.value(schema)
            if value is not None and schema["fields"] and self.happens(self.lacks_value):
                value[2][self.random.randrange(len(schema["fields"]))] = None  # also if it needs a value
            return schema, value
        if kind < 14:
            schema = self.schema(1)
            return schema, self.value(schema)
        if kind < 18:
            return None, self.plain_map()
        return None, self.plain()

    def record(self) -> Described:
        key_schema, key = self.part()
        value_schema, value = self.part()
        is_sink = self.happens(0.5)
        headers = [[self.choice(HEADERS), *self._header()] for _ in range(self.random.randint(0, 3))]
        return {
            "sink": is_sink,
            "topic": self.choice(TOPICS),
            "partition": self.choice([0, 7] if is_sink else [None, 0, 7]),
            "timestamp": self.choice([None, 0, self.random.randint(-(10**13), 10**13)]),
            "offset": self.random.randint(0, 1 << 40),
            "key_schema": key_schema,
            "key": key,
            "value_schema": value_schema,
            "value": value,
            "headers": headers,
        }

    def _header(self) -> list[Described]:
        schema = self.schema(1)
        return [schema, self.value(schema)]

    def names(self, most: int = 3) -> str:
        """Names of fields, separated by commas."""
        return ",".join(self.choice(NAMES) for _ in range(self.random.randint(1, most)))
