"""Random Avro schemas, and later versions of them with typical changes."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
DEFAULTS: dict[str, Any] = {
    "null": None,
    "boolean": True,
    "int": 7,
    "long": 2**40,
    "float": 1.5,
    "double": -0.25,
    "bytes": "\u00ff",
    "string": "ä",
}


class Schemas:
    """A generator of schemas from one source of randomness."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = 0

    def record(self, depth: int = 3) -> dict[str, Any]:
        record = {"type": "record", "name": self._name("R"), "fields": []}
        if self._random.random() < 0.5:
            record["namespace"] = self._random.choice(["a", "a.b", "c"])
        for i in range(self._random.randrange(5)):
            record["fields"].append(self._field(f"f{i}", depth - 1))
        return record

    def follow(self, schema: Any) -> Any:
        """Copy a schema with a few changes somewhere."""
        schema = copy.deepcopy(schema)
        for _ in range(self._random.randrange(1, 3)):
            schema = self._changed(schema)
        return schema

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _field(self, name: str, depth: int) -> dict[str, Any]:
        field = {"name": name, "type": self._type(depth)}
        of = field["type"]
        first = of[0] if isinstance(of, list) else of
        if self._random.random() < 0.5 and isinstance(first, str) and first in DEFAULTS:
            field["default"] = DEFAULTS[first]
        return field

    def _type(self, depth: int, *, in_union: bool = False) -> Any:
        kind = self._random.randrange(10 if depth > 0 else 5)
        match kind:
            case 5:
                return {"type": "array", "items": self._type(depth - 1)}
            case 6:
                return {"type": "map", "values": self._type(depth - 1)}
            case 7 if not in_union:
                branches = ["null", self._random.choice(PRIMITIVES[1:]), self.record(depth - 1)]
                self._random.shuffle(branches)
                return branches[: self._random.randrange(1, 4)]
            case 8:
                symbols = [f"S{i}" for i in range(self._random.randrange(1, 5))]
                enum = {"type": "enum", "name": self._name("E"), "symbols": symbols}
                return {**enum, "default": symbols[0]} if self._random.random() < 0.3 else enum
            case 9:
                if self._random.random() < 0.5:
                    return self.record(depth - 1)
                return {"type": "fixed", "name": self._name("F"), "size": self._random.randrange(1, 9)}
        return self._random.choice(PRIMITIVES)

    def _changed(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return self._changed_union(schema)
        if isinstance(schema, str):
            return self._random.choice(
                [schema, *PRIMITIVES, ["null", schema] if schema != "null" else "null"]
            )
        match schema["type"]:
            case "record":
                self._change_record(schema)
            case "array":
                schema["items"] = self._changed(schema["items"])
            case "map":
                schema["values"] = self._changed(schema["values"])
            case "enum":
                symbols = [f"S{i}" for i in range(self._random.randrange(1, 6))]
                schema["symbols"] = symbols
                if "default" in schema:
                    schema["default"] = symbols[0]
            case "fixed":
                schema["size"] += self._random.randrange(2)
        return schema

    def _changed_union(self, union: list[Any]) -> list[Any]:
        if len(union) > 1 and self._random.random() < 0.5:
            union.pop(self._random.randrange(len(union)))
        elif "string" not in union:
            union.append("string")
        return union

    def _change_record(self, record: dict[str, Any]) -> None:
        fields = record["fields"]
        choice = self._random.randrange(5)
        if choice == 0 or not fields:
            fields.append(self._field(f"g{self._random.randrange(3)}_{self._name('x')}", 1))
        elif choice == 1:
            fields.pop(self._random.randrange(len(fields)))
        elif choice == 2:
            field = self._random.choice(fields)
            field["aliases"] = [field["name"]]
            field["name"] = self._name("renamed")
        elif choice == 3 and self._random.random() < 0.3:
            record["aliases"] = [record["name"]] if self._random.random() < 0.7 else []
            record["name"] = self._name("Q")
        else:
            field = self._random.choice(fields)
            field["type"] = self._changed(field["type"])
            field.pop("default", None)
