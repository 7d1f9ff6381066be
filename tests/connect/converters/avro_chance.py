"""Random schemas of Kafka Connect that Avro can express."""

import base64
from typing import Any

from connect_values import Chance

from penstock.connect.converters.avro.settings import ENUM, FIXED_SIZE, UNION

MEMBERS = {"INT32": "int", "STRING": "string", "BOOLEAN": "boolean", "FLOAT64": "double", "BYTES": "bytes"}


class AvroChance(Chance):
    """Makes schemas whose names Avro accepts, and those that stand for its own types."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.names = 0
        self.entries_max = 1  # HashMap decides the order of others

    def field_name(self) -> str:
        return str(self.choice(["a", "b", "c", "D", "_e", "f1"]))

    def schema_name(self) -> str:
        self.names += 1
        return f"{self.choice(['n.', 'n.m.', ''])}S{self.names}"

    def schema(self, depth: int = 3, *, is_key: bool = False) -> Any:
        if is_key or self.happens(0.85):
            return super().schema(depth, is_key=is_key)
        optional = self.happens(0.4)
        match self.random.randrange(3):
            case 0:
                fixed = {FIXED_SIZE: "4"}
                return {
                    "type": "BYTES",
                    "name": self.schema_name(),
                    "parameters": fixed,
                    "optional": optional,
                }
            case 1:
                name = self.schema_name()
                parameters = {ENUM: name, f"{ENUM}.X": "X", f"{ENUM}.Y": "Y"}
                return {"type": "STRING", "name": name, "parameters": parameters, "optional": optional}
        types = self.random.sample(["INT32", "STRING", "BOOLEAN", "FLOAT64", "BYTES"], 3)
        kinds = {
            "INT32": "int",
            "STRING": "string",
            "BOOLEAN": "boolean",
            "FLOAT64": "double",
            "BYTES": "bytes",
        }
        fields = [[kinds[each], {"type": each, "optional": True}] for each in types]
        return {"type": "STRUCT", "name": UNION, "optional": optional, "fields": fields}

    def value(self, schema: Any) -> Any:
        if schema.get("name") == UNION and not schema["optional"]:
            at = self.random.randrange(3)
            member = schema["fields"][at][1]
            value = super().value(dict(member, optional=False))
            return ["struct", schema, [value if at == each else None for each in range(3)]]
        parameters = schema.get("parameters", {})
        if (FIXED_SIZE in parameters or ENUM in parameters) and schema["optional"] and self.happens(0.3):
            return None
        if FIXED_SIZE in parameters:
            return ["bytes", base64.b64encode(self.random.randbytes(4)).decode()]
        if ENUM in parameters:
            return ["string", self.choice("XY")]
        return super().value(schema)
