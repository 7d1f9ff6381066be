"""Verdicts put to the test: documents that the old schema accepts, the new one accepts too.

The tests leave out keywords that Confluent's rules don't compare (patterns of properties, conditions,
contains), and those where the rules are lenient (defaults of required properties, oneOf).
"""

import random
from typing import Any

import msgspec
from jsonschema import Draft7Validator

from penstock.registry.formats import parse

ROUNDS = 600
NAMES = ("a", "b", "c")


class Documents:
    """A generator of random schemas, later versions of them, and documents for them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def schema(self, depth: int = 3) -> Any:
        match self._random.randrange(9 if depth else 5):
            case 0:
                return self._some({"type": "string"}, minLength=(0, 2), maxLength=(2, 5))
            case 1:
                kind = self._random.choice(["integer", "number"])
                limits = self._some({"type": kind}, minimum=(0, 2), maximum=(8, 12), multipleOf=(1, 2))
                return limits if limits.get("multipleOf") != 0 else {"type": kind}
            case 2:
                return {"type": self._random.choice(["boolean", "null"])}
            case 3:
                return {"enum": self._random.sample(["x", 1, True, None], self._random.randrange(1, 4))}
            case 4:
                return self._random.choice([{"const": "x"}, {}, {"type": ["string", "null"]}])
            case 5:
                return {"anyOf": [self.schema(0) for _ in range(self._random.randrange(1, 4))]}
            case 6:
                array = {"type": "array", "items": self.schema(depth - 1)}
                return self._some(array, minItems=(0, 1), maxItems=(2, 4))
        return self._object(depth)

    def _object(self, depth: int) -> Any:
        names = self._random.sample(NAMES, self._random.randrange(len(NAMES) + 1))
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {each: self.schema(depth - 1) for each in names},
        }
        schema["required"] = [each for each in names if self._random.random() < 0.4]
        more = self._random.randrange(3)
        if more:
            schema["additionalProperties"] = False if more == 1 else self.schema(0)
        return schema

    def _some(self, schema: dict[str, Any], **limits: tuple[int, int]) -> dict[str, Any]:
        return schema | {
            name: self._random.randrange(low, high + 1)
            for name, (low, high) in limits.items()
            if self._random.random() < 0.4
        }

    def follow(self, schema: Any) -> Any:
        """Copy a schema with a small change somewhere."""
        if self._random.random() < 0.15:
            return self.schema(1)
        if self._random.random() < 0.1:
            return {"anyOf": [schema, self.schema(0)]}
        schema = dict(schema)
        for keyword in ("minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"):
            if keyword in schema and self._random.random() < 0.5:
                schema[keyword] = max(0, schema[keyword] + self._random.choice([-1, 1]))
        if schema.get("type") == "integer" and self._random.random() < 0.5:
            schema["type"] = "number"
        if "items" in schema:
            schema["items"] = self.follow(schema["items"])
        if "anyOf" in schema:
            schema["anyOf"] = [self.follow(each) for each in schema["anyOf"]]
            self._random.shuffle(schema["anyOf"])
        if "properties" in schema:
            self._follow_object(schema)
        return schema

    def _follow_object(self, schema: dict[str, Any]) -> None:
        properties = {
            name: each for name, each in schema["properties"].items() if self._random.random() < 0.8
        }
        for name in properties:
            if self._random.random() < 0.4:
                properties[name] = self.follow(properties[name])
        for name in NAMES:
            if name not in properties and self._random.random() < 0.2:
                properties[name] = self.schema(0)
        schema["properties"] = properties
        schema["required"] = [name for name in schema["required"] if name in properties]
        if self._random.random() < 0.2:
            schema.pop("additionalProperties", None)

    def document(self) -> Any:
        """A random document of the values that the schemas use."""
        match self._random.randrange(8):
            case 0 | 1:
                return "x" * self._random.randrange(6)
            case 2 | 3:
                return self._random.randrange(14)
            case 4:
                return self._random.choice([True, False, None, 1.5])
            case 5:
                return [self.document() for _ in range(self._random.randrange(4))]
        names = self._random.sample(NAMES, self._random.randrange(len(NAMES) + 1))
        return {name: self.document() for name in names}


def test_compatible_schemas_take_old_documents() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    documents = Documents(seed)
    taken = refused = 0
    for _ in range(ROUNDS):
        old = documents.schema()
        new = documents.follow(old)
        texts = [msgspec.json.encode(each).decode() for each in (old, new)]
        if parse("JSON", texts[1]).incompatibilities(parse("JSON", texts[0])):
            refused += 1
            continue
        before, after = Draft7Validator(old), Draft7Validator(new)
        for _ in range(20):
            document = documents.document()
            if before.is_valid(document):
                assert after.is_valid(document), (texts, document)
                taken += 1
    assert taken > ROUNDS
    assert refused > ROUNDS / 10
