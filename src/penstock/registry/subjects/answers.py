"""Format schemas for answers, in Confluent's order of fields."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace

from penstock.registry.formats import Reference
from penstock.registry.subjects.json_fields import Json
from penstock.registry.subjects.names import Name, beside
from penstock.registry.subjects.records import SchemaValue, reference_json
from penstock.registry.subjects.schemas import Asked, refusing
from penstock.registry.subjects.state import State


def whole(value: SchemaValue, aliases: Sequence[str] = ()) -> Json:
    """Format a version of a subject."""
    parts = _parts(value)
    names = ("subject", "version", "id", "guid", "schemaType", "references", "metadata", "schema", "ts")
    return _filled({**{name: parts[name] for name in names}, "deleted": value.deleted}) | _filled(
        {"aliases": list(aliases), "ruleSet": parts["ruleSet"]}
    )


def requested(asked: Asked, version: int, id: int) -> Json:
    """Format a version that matched the whole request, without details of its record."""
    return {
        name: each for name, each in whole(asked.stored(version, id)).items() if name not in ("ts", "deleted")
    }


def by_id(value: SchemaValue, greatest_id: int | None, *, is_anywhere: bool = False) -> Json:
    """Format a schema found by its id.

    ``is_anywhere`` is for a schema found by its guid, which belongs to no subject.
    """
    parts = _parts(value)
    names = ("subject", "version", "guid", "schemaType", "schema", "references", "metadata", "ruleSet")
    answer = {name: parts[name] for name in names}
    if is_anywhere:
        answer |= {"subject": None, "version": None}
    return _filled({**answer, "maxId": greatest_id, "ts": value.timestamp_ms, "deleted": value.deleted})


def registration(found: Json) -> Json:
    """Format the same schema as the answer to its registration."""
    names = ("id", "version", "guid", "schemaType", "references", "metadata", "ruleSet", "schema", "ts")
    return {name: found[name] for name in (*names, "deleted") if name in found}


def formatted(state: State, value: SchemaValue, answer: Json, format: str) -> Json:
    """Return the answer with the schema's text in another format; the guid stays that of the stored text."""
    if not format.strip():
        return answer
    schema = state.parser.stored(value).schema
    with refusing(value.schema_type):
        return {**answer, "schema": schema.formatted(format)}


def with_qualified_references(value: SchemaValue, answer: Json, reference_format: str) -> Json:
    """Return the answer with the contexts of references written out, if requested."""
    if reference_format != "qualified" or not Name.of(value.subject).is_qualified or not value.references:
        return answer
    qualified = (replace(each, subject=beside(value.subject, each.subject)) for each in value.references)
    return {**answer, "references": _references(tuple(qualified))}


def _parts(value: SchemaValue) -> dict[str, Json]:
    return {
        "subject": value.subject,
        "version": value.version,
        "id": value.id,
        "guid": str(uuid.UUID(bytes=value.fingerprint)),
        "schemaType": value.schema_type,
        "references": _references(value.references),
        "metadata": value.metadata.json() if value.metadata is not None else None,
        "ruleSet": value.rule_set.json() if value.rule_set is not None else None,
        "schema": value.schema,
        "ts": value.timestamp_ms,
    }


def _references(references: tuple[Reference, ...]) -> list[Json]:
    return [reference_json(each) for each in references]


def _filled(found: dict[str, Json]) -> dict[str, Json]:
    return {name: each for name, each in found.items() if each is not None and each not in ("", [])}
