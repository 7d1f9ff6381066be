"""An Avro schema as a graph of types and the names by which they refer to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED: Final = ("record", "enum", "fixed")


class Absent:
    """The type of the marker for a missing default; None is the default null."""


ABSENT: Final = Absent()


class Name(NamedTuple):
    """A full name; ``space`` is None if it has no namespace."""

    name: str
    space: str | None

    @property
    def full(self) -> str:
        return f"{self.space}.{self.name}" if self.space else self.name

    def relative(self, space: str | None) -> str:
        """Return the name as written inside ``space``; in full if Avro has a type of that name."""
        is_near = (
            self.space == space and self.name not in PRIMITIVES and self.name not in (*NAMED, "array", "map")
        )
        return self.name if is_near else self.full


@dataclass(slots=True, eq=False)
class Type:
    """One node of the graph; its kind determines which parts it has.

    Nodes are compared by identity, because a graph may have cycles.
    """

    kind: str  # a primitive, or record, enum, fixed, array, map, union
    # attributes that Avro doesn't reserve, in the order of the text
    properties: dict[str, Any] = field(default_factory=dict)
    name: Name | None = None
    doc: str | None = None
    aliases: tuple[Name, ...] = ()
    is_error: bool = False
    fields: list[Field] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    symbol_default: str | None = None
    size: int = 0
    # the item type of an array or map, or the branches of a union
    items: list[Type] = field(default_factory=list)

    @property
    def full_name(self) -> str:
        return self.name.full if self.name is not None else self.kind


@dataclass(slots=True, eq=False)
class Field:
    """A field of a record."""

    name: str
    type: Type
    doc: str | None
    default: Any  # JSON, or ABSENT
    order: str  # ascending, descending, ignore
    aliases: tuple[str, ...]
    properties: dict[str, Any]
