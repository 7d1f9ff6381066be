"""Random Avro schemas and values of them, for the tests of columns."""

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np

from penstock.arrow.avro.mapping import member

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")
LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
)


class Schemas:
    """A generator of random schemas and values of them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.names = 0

    def name(self):
        self.names += 1
        return f"N{self.names}"

    def type(self, depth=3):
        pick = self.random
        kinds = ["simple"] * 4 + ["logical"] + (["record", "array", "map", "union"] if depth else [])
        match pick.choice(kinds):
            case "simple":
                return pick.choice([*PRIMITIVES, "enum", "fixed", "decimal"]), depth
            case "logical":
                return pick.choice(LOGICAL), depth
            case kind:
                return kind, depth

    def schema(self, depth=3):
        kind, depth = self.type(depth)
        pick = self.random
        match kind:
            case "record":
                fields = [
                    {"name": f"f{n}", "type": self.schema(depth - 1)} for n in range(pick.randint(1, 4))
                ]
                return {"type": "record", "name": self.name(), "fields": fields}
            case "array":
                return {"type": "array", "items": self.schema(depth - 1)}
            case "map":
                return {"type": "map", "values": self.schema(depth - 1)}
            case "union":
                if pick.random() < 0.5:
                    other = self.schema(0)
                    return ["null", other] if pick.random() < 0.5 else [other, "null"]
                several = pick.sample(PRIMITIVES, pick.randint(2, 4))
                return several if pick.random() < 0.5 else ["null", *several]
            case "enum":
                return {"type": "enum", "name": self.name(), "symbols": ["A", "B", "C"]}
            case "fixed":
                return {"type": "fixed", "name": self.name(), "size": pick.randint(1, 9)}
            case "decimal":
                more = {"logicalType": "decimal", "precision": 8, "scale": 2}
                return {"type": "fixed", "name": self.name(), "size": 5, **more}
        return kind

    def value(self, schema):
        pick = self.random
        if isinstance(schema, list):
            branch = pick.choice(schema)
            name = branch if isinstance(branch, str) else branch.get("name", branch["type"])
            return None if branch == "null" else (name, self.value(branch))
        if isinstance(schema, str):
            return self.primitive(schema)
        match schema["type"]:
            case "record":
                return {f["name"]: self.value(f["type"]) for f in schema["fields"]}
            case "array":
                return [self.value(schema["items"]) for _ in range(pick.choice([0, 0, 1, 2, 5]))]
            case "map":
                return {f"k{n}": self.value(schema["values"]) for n in range(pick.choice([0, 1, 3]))}
            case "enum":
                return pick.choice(schema["symbols"])
        match schema.get("logicalType"):
            case "date":
                return date(1970, 1, 1) + timedelta(pick.randint(-90_000, 90_000))
            case "timestamp-millis":
                return EPOCH + timedelta(milliseconds=pick.randint(-(10**13), 10**13))
            case "timestamp-micros":
                return EPOCH + timedelta(microseconds=pick.randint(-(10**16), 10**16))
            case "local-timestamp-micros":
                return datetime(1970, 1, 1) + timedelta(microseconds=pick.randint(-(10**16), 10**16))
            case "decimal":
                digits = schema["precision"]
                return Decimal(pick.randint(-(10**digits) + 1, 10**digits - 1)).scaleb(-schema["scale"])
        return pick.randbytes(schema["size"])

    def primitive(self, kind):
        pick = self.random
        match kind:
            case "boolean":
                return pick.random() < 0.5
            case "int":
                return pick.choice([0, -1, 2**31 - 1, -(2**31), pick.randint(-999, 999)])
            case "long":
                return pick.choice([0, -1, 2**63 - 1, -(2**63), pick.randint(-(2**40), 2**40)])
            case "float":
                return float(np.float32(pick.uniform(-1e9, 1e9)))
            case "double":
                return pick.choice([0.0, float("inf"), pick.uniform(-1e99, 1e99)])
            case "bytes":
                return pick.randbytes(pick.choice([0, 1, 5, 90]))
        return "".join(pick.choices("aß€𝄞 ", k=pick.choice([0, 1, 3, 40])))


def expected(schema, value):
    """The value as its column holds it: a union of several types is a struct of them."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if value is None:
            return None
        names = [each if isinstance(each, str) else each.get("name", each["type"]) for each in others]
        at = names.index(value[0])
        made = expected(others[at], value[1])
        if len(others) == 1 or set(others) in ({"int", "long"}, {"float", "double"}):
            return made
        return {member(n): made if n == at else None for n in range(len(others))}
    if isinstance(schema, dict):
        match schema["type"]:
            case "record":
                return {f["name"]: expected(f["type"], value[f["name"]]) for f in schema["fields"]}
            case "array":
                return [expected(schema["items"], each) for each in value]
            case "map":
                return {key: expected(schema["values"], each) for key, each in value.items()}
    return value
