"""Resolve references between schemas: named subjects and versions, and their own references in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.registry.formats.errors import ReferenceCycle, SchemaError, UnknownReference

REFERENCES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """The subject and version at which the schema named ``name`` is registered.

    The name is an Avro full name, a URI in JSON Schema, or the path of an import in Protobuf. Version -1 is
    the latest.
    """

    name: str
    subject: str
    version: int

    def __str__(self) -> str:
        return f"{self.name!r} (subject {self.subject!r}, version {self.version})"


@dataclass(frozen=True, slots=True)
class Found:
    """A registered schema, as stored in its subject."""

    text: str
    references: tuple[Reference, ...] = ()


Find: TypeAlias = Callable[[Reference], Found | None]


def resolve(references: Sequence[Reference], find: Find | None, bytes_max: int) -> dict[str, str]:
    """Return all referenced texts by name, each after the texts that it refers to itself.

    If several references have the same name, the first one counts, as in Confluent's registry. ``bytes_max``
    limits all texts together.
    """
    texts: dict[str, str] = {}
    open_names: dict[str, Reference] = {}
    used = 0
    # Each reference is popped twice: first to look it up, then, with its text, after all its own references.
    waiting: list[tuple[Reference, Found | None]] = [(each, None) for each in reversed(references)]
    while waiting:
        reference, found = waiting.pop()
        if found is not None:
            del open_names[reference.name]
            texts[reference.name] = found.text
            continue
        if reference.name in open_names:
            chain = [*open_names.values(), reference]
            start = next(i for i, each in enumerate(chain) if each.name == reference.name)
            raise ReferenceCycle("references form a cycle: " + " → ".join(map(str, chain[start:])))
        if reference.name in texts:
            continue
        found = _found(reference, find)
        used += len(found.text.encode())
        if used > bytes_max:
            raise SchemaError(f"the schema's references are too large: expected at most {bytes_max} bytes")
        if len(texts) + len(open_names) >= REFERENCES_MAX:
            raise SchemaError(f"the schema refers to more than {REFERENCES_MAX} others")
        open_names[reference.name] = reference
        waiting.append((reference, found))
        waiting.extend((each, None) for each in reversed(found.references))
    return texts


def _found(reference: Reference, find: Find | None) -> Found:
    if not reference.name or not reference.subject:
        raise SchemaError(f"a reference needs a name, a subject and a version, found {reference}")
    found = find(reference) if find is not None else None
    if found is None:
        raise UnknownReference(
            f"no schema is registered for the reference {reference.name!r}: subject {reference.subject!r}, "
            f"version {reference.version}"
        )
    return found


def sorted_references(references: Sequence[Reference]) -> tuple[Reference, ...]:
    """Return the references of a normalized schema: sorted and without duplicates."""
    return tuple(sorted(set(references)))


def names(resolved: Mapping[str, str]) -> str:
    """The available names, for messages."""
    return ", ".join(map(repr, resolved)) or "none"
