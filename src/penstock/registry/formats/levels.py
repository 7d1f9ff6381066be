"""The levels of compatibility: which earlier versions count, and which schema must read which."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from penstock.registry.formats.errors import bounded
from penstock.registry.formats.schema import Schema

SHOWN_SCHEMA_CHARACTERS_MAX: Final = 10_240


class Level(Enum):
    """Confluent's levels, with their names in a configuration."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        """Whether every earlier version counts, not only the latest."""
        return self.value.endswith("_TRANSITIVE")

    @property
    def new_reads_old(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def old_reads_new(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))


class Version(NamedTuple):
    """An earlier schema of the subject."""

    number: int
    schema: Schema


def check(level: Level, new: Schema, earlier: Sequence[Version], *, is_lenient: bool = False) -> list[str]:
    """Check ``new`` against ``earlier`` versions (oldest first) and return messages about a conflict.

    The list is empty if ``new`` is allowed. Versions are compared from the latest backwards; the messages
    name the number and text of the first one that conflicts. Raises SchemaError if two schemas can't be
    compared.
    """
    if level is Level.NONE:
        return []
    for version in reversed(earlier if level.is_transitive else earlier[-1:]):
        messages = _messages(level, new, version.schema, is_lenient)
        if messages:
            return [*messages, f"{{oldSchemaVersion: {version.number}}}", _shown(version.schema)]
    return []


def _messages(level: Level, new: Schema, old: Schema, is_lenient: bool) -> list[str]:
    if new.format != old.format:
        return [f"the new schema is of type {new.format}, but the old one of type {old.format}"]
    messages: list[str] = []
    with bounded():
        if level.old_reads_new:
            found = old.incompatibilities(new, is_lenient=is_lenient)
            messages += [each.message("old", "new") for each in found]
        if level.new_reads_old:
            found = new.incompatibilities(old, is_lenient=is_lenient)
            messages += [each.message("new", "old") for each in found]
    return messages


def _shown(schema: Schema) -> str:
    text = schema.canonical()
    if len(text) <= SHOWN_SCHEMA_CHARACTERS_MAX:
        return f"{{oldSchema: '{text}'}}"
    return f"{{oldSchema: <truncated> '{text[:SHOWN_SCHEMA_CHARACTERS_MAX]}...'}}"
