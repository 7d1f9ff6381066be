"""JSON documents that a JSON Schema of the registry allows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from jsonschema.exceptions import ValidationError
from jsonschema.validators import Draft7Validator, validator_for
from jsonschema_specifications import REGISTRY
from referencing import Resource
from referencing.jsonschema import DRAFT7

from penstock.cli.records.codec import InvalidValue, shown
from penstock.cli.records.simple import compact_json
from penstock.registry.formats.json_schema.schema import JsonSchema


def writer(schema: JsonSchema) -> Callable[[bytes], bytes]:
    """Build a writer of documents; one that the schema does not allow is refused."""
    content = json.loads(schema.canonical())
    resources = [
        (name, Resource.from_contents(json.loads(text), default_specification=DRAFT7))
        for name, text in schema.resolved.items()
    ]
    names_draft = isinstance(content, dict) and isinstance(content.get("$schema"), str)
    draft = validator_for(content, default=Draft7Validator) if names_draft else Draft7Validator
    validator = draft(content, registry=REGISTRY.with_resources(resources))

    def write(text: bytes) -> bytes:
        compact = compact_json(text)
        try:
            validator.validate(json.loads(compact))
        except ValidationError as error:
            raise InvalidValue(f"found {shown(text)}: {error.json_path}: {error.message}") from None
        except re.error as error:
            raise InvalidValue(
                f"found a pattern in the schema that Python cannot compile ({error})"
            ) from None
        return compact

    return write
