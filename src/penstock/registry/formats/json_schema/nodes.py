"""The model that comparison works on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

ABSENT: Final = object()  # no default, as None is the default null


@dataclass(slots=True, eq=False)
class Node:
    """A schema of one kind. Compared by identity: documents contain themselves.

    Kinds: anything (`{}`, true), nothing (false), string, number, boolean, null, enum, const, not,
    conditional, object, array, allOf, anyOf, oneOf, reference.
    """

    kind: str
    id: str | None = None
    title: str | None = None
    description: str | None = None
    default: Any = ABSENT
    connect_type: str | None = None
    # Numbers of the keywords of this kind (maxLength, minimum, minItems, …), pattern, uniqueItems, values.
    limits: dict[str, Any] = field(default_factory=dict)
    is_integer: bool = False
    values: tuple[Any, ...] = ()  # of an enum; a const has one
    parts: list[Node] = field(default_factory=list)  # of allOf, anyOf, oneOf, not; the target of a reference
    properties: dict[str, Node] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    patterns: dict[str, Node] = field(default_factory=dict)
    needed: dict[str, frozenset[str]] = field(default_factory=dict)  # dependencies on other properties
    dependent: dict[str, Node] = field(default_factory=dict)  # dependencies on schemas
    items: Node | None = None  # every item of an array
    tuple_items: list[Node] = field(default_factory=list)
    takes_more: bool = True  # additionalProperties, additionalItems: false
    more: Node | None = None  # their schema
    unevaluated: Node | None = None
    text: int = 0  # nodes of equal JSON have equal numbers; 0 is like no other

    @property
    def is_combined(self) -> bool:
        return self.kind in ("allOf", "anyOf", "oneOf")

    @property
    def is_open(self) -> bool:
        """An object or array takes properties or items that it doesn't mention, of any kind."""
        if not self.takes_more or self.more is not None or self.patterns:
            return False
        return self.unevaluated is None or self.unevaluated.kind == "anything"

    def rest(self) -> Node | None:
        """What the schema asks of properties or items that it doesn't mention, where it takes some."""
        if self.more is not None:
            return self.more
        if self.takes_more and self.unevaluated is not None:
            return self.unevaluated if self.unevaluated.kind not in ("anything", "nothing") else None
        return None
