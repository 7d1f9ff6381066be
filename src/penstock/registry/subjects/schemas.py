"""The schemas of requests, and parsing of schemas with their references."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Self, TypeVar

from penstock.registry import formats
from penstock.registry.formats import Reference, Schema, SchemaError
from penstock.registry.formats.errors import bounded
from penstock.registry.formats.references import Found
from penstock.registry.subjects import json_fields, records
from penstock.registry.subjects.contracts import Metadata, RuleSet, reserved_fields
from penstock.registry.subjects.errors import invalid_schema
from penstock.registry.subjects.image import Image
from penstock.registry.subjects.json_fields import Json
from penstock.registry.subjects.names import beside
from penstock.registry.subjects.records import SchemaValue

PARSED_MAX: Final = 1_000
IDENTITIES_MAX: Final = 100_000

_Kept = TypeVar("_Kept")


@contextmanager
def refusing(format: str) -> Iterator[None]:
    """Turn a SchemaError into the error that answers the request."""
    try:
        with bounded():
            yield
    except SchemaError as error:
        invalid_schema(f"Invalid schema of type {format}, details: {error}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A schema in a request. Version 0 means none was given, -1 the latest; id -1 means none was given."""

    subject: str
    schema: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    version: int = 0
    id: int = -1

    @classmethod
    def read(cls, subject: str, body: Mapping[str, Json]) -> Self:
        found = json_fields.an_object(body, "the request")
        for name in ("schemaTagsToAdd", "schemaTagsToRemove", "propagateSchemaTags"):
            if found.get(name):
                invalid_schema(f"{name} is not supported: write tags into the schema's text or its metadata")
        number = json_fields.integer(found, "id", "the request")
        return cls(
            subject,
            json_fields.text(found, "schema", "the request") or "",
            json_fields.text(found, "schemaType", "the request") or "AVRO",
            records.read_references(found.get("references"), "the request.references"),
            Metadata.read(found.get("metadata")),
            RuleSet.read(found.get("ruleSet")),
            json_fields.integer(found, "version", "the request") or 0,
            -1 if number is None else number,
        )

    @property
    def is_empty(self) -> bool:
        return not self.schema.strip()

    @property
    def fingerprint(self) -> bytes:
        return records.fingerprint(self.schema, self.references, self.metadata, self.rule_set)

    def stored(self, version: int, id: int) -> SchemaValue:
        """Return the version that the schema is stored as."""
        return SchemaValue(
            self.subject,
            version,
            id,
            self.schema,
            self.schema_type,
            self.references,
            self.metadata,
            self.rule_set,
        )


@dataclass(frozen=True)
class Contracted:
    """A parsed schema with its contract, which together determine whether two schemas are the same."""

    schema: Schema
    metadata: Metadata | None
    rule_set: RuleSet | None
    version: int

    def finds(self, earlier: Contracted) -> bool:
        """Whether a request for this schema matches ``earlier``.

        The request may have its references resolved in the text, and either side may lack
        `confluent:version`.
        """
        if self.schema.references and self.schema.references != earlier.schema.references:
            return False
        mine, its = self.metadata, earlier.metadata
        my_version = mine.version() if mine is not None else None
        its_version = its.version() if its is not None else None
        if my_version is None and its_version is not None and its is not None:
            mine, its = mine or Metadata(), its.without_version()
        elif my_version is not None and its_version is None and mine is not None:
            if my_version != earlier.version:
                return False
            mine, its = mine.without_version(), its or Metadata()
        if self.schema.format != earlier.schema.format or (mine, self.rule_set) != (its, earlier.rule_set):
            return False
        return self.identity == earlier.identity

    @cached_property
    def identity(self) -> Hashable:
        """The identity of the schema alone. It is cached, because it is compared with each version."""
        with refusing(self.schema.format):
            return self.schema.identity()

    @property
    def reserved(self) -> set[str]:
        return reserved_fields(self.metadata)


class Parser:
    """A parser that finds references in an image and caches the stored schemas that it parsed.

    Several threads may parse while one replays. A schema whose parsing began before a removal is not cached.
    """

    def __init__(self, image: Image, bytes_max: int) -> None:
        self._image = image
        self._bytes_max = bytes_max
        self._parsed: dict[SchemaValue, Contracted] = {}
        self._identities: dict[SchemaValue, int] = {}
        self._lock = threading.Lock()
        self._removals = 0
        image.on_removal = self._forget

    def asked(self, asked: Asked, *, is_new: bool) -> tuple[Asked, Schema]:
        """Parse a request's schema, and return the request with version numbers for the latest references."""
        numbered = replace(
            asked, references=tuple(self._numbered(asked.subject, each) for each in asked.references)
        )
        return numbered, self._parse(numbered, is_new=is_new)

    def stored(self, value: SchemaValue) -> Contracted:
        parsed = self._parsed.get(value)
        if parsed is None:
            removals = self._removals
            schema = self._parse(value, is_new=False)
            parsed = Contracted(schema, value.metadata, value.rule_set, value.version)
            self._keep(self._parsed, value, parsed, PARSED_MAX, removals)
        return parsed

    def means(self, asked: Contracted, value: SchemaValue) -> bool:
        """Whether a request matches this stored schema.

        A cached hash rules most versions out, because a subject may have more versions than the cache of
        parsed schemas holds.
        """
        known = self._identities.get(value)
        if known is not None and known != hash(asked.identity):
            return False
        removals = self._removals
        stored = self.stored(value)
        self._keep(self._identities, value, hash(stored.identity), IDENTITIES_MAX, removals)
        return asked.finds(stored)

    def _forget(self) -> None:
        """Clear the caches, because a reference may refer to another schema from now on."""
        with self._lock:
            self._removals += 1
            self._parsed.clear()
            self._identities.clear()

    def _keep(
        self, kept: dict[SchemaValue, _Kept], value: SchemaValue, found: _Kept, most: int, removals: int
    ) -> None:
        """Cache an entry, unless a version was removed since ``removals`` was read.

        A full cache evicts its oldest entry.
        """
        with self._lock:
            if removals != self._removals:
                return
            if value not in kept and len(kept) >= most:
                del kept[next(iter(kept))]
            kept[value] = found

    def _parse(self, asked: Asked | SchemaValue, *, is_new: bool) -> Schema:
        if asked.schema_type not in formats.FORMATS:
            invalid_schema(f"Invalid schema type {asked.schema_type}")

        def find(reference: Reference) -> Found | None:
            return self._found(asked.subject, reference, deleted=not is_new)

        with refusing(asked.schema_type):
            return formats.parse(
                asked.schema_type,
                asked.schema,
                asked.references,
                find,
                is_new=is_new,
                bytes_max=self._bytes_max,
            )

    def _numbered(self, subject: str, reference: Reference) -> Reference:
        if reference.version != -1:
            return reference
        latest = self._image.latest(beside(subject, reference.subject))
        return reference if latest is None else replace(reference, version=latest.version)

    def _found(self, subject: str, reference: Reference, *, deleted: bool) -> Found | None:
        """Look up a reference. The references of the schema that is found get their context written out."""
        value = self._image.find(beside(subject, reference.subject), reference.version, deleted=deleted)
        if value is None:
            return None
        own = (replace(each, subject=beside(value.subject, each.subject)) for each in value.references)
        return Found(value.schema, tuple(own))
