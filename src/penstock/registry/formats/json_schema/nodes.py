"""The model of JSON Schema that the comparison uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

ABSENT: Final = object()  # the marker for a missing default; None is the default null


@dataclass(slots=True, eq=False)
class Node:
    """A schema of one kind. Nodes are compared by identity, because documents may contain themselves.

    The kinds are anything (`{}`, true), nothing (false), string, number, boolean, null, enum, const, not,
    conditional, object, array, allOf, anyOf, oneOf, reference.
    """

    kind: str
    id: str | None = None
    title: str | None = None
    description: str | None = None
    default: Any = ABSENT
    connect_type: str | None = None
    # The values of this kind's keywords (maxLength, minimum, minItems, …), pattern and uniqueItems.
    limits: dict[str, Any] = field(default_factory=dict)
    is_integer: bool = False
    values: tuple[Any, ...] = ()  # the values of an enum; a const has one
    # the parts of allOf, anyOf, oneOf, not; the target of a reference
    parts: list[Node] = field(default_factory=list)
    properties: dict[str, Node] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    patterns: dict[str, Node] = field(default_factory=dict)
    needed: dict[str, frozenset[str]] = field(default_factory=dict)  # dependencies on other properties
    dependent: dict[str, Node] = field(default_factory=dict)  # dependencies on schemas
    items: Node | None = None  # the schema of every item of an array
    tuple_items: list[Node] = field(default_factory=list)
    takes_more: bool = True  # False for additionalProperties or additionalItems: false
    more: Node | None = None  # the schema of additional properties or items
    unevaluated: Node | None = None
    text: int = 0  # nodes of equal JSON have equal numbers; 0 equals no other

    @property
    def is_combined(self) -> bool:
        return self.kind in ("allOf", "anyOf", "oneOf")

    @property
    def is_open(self) -> bool:
        """Whether an object or array accepts unmentioned properties or items of any kind."""
        if not self.takes_more or self.more is not None or self.patterns:
            return False
        return self.unevaluated is None or self.unevaluated.kind == "anything"

    def rest(self) -> Node | None:
        """Return the schema for properties or items that it doesn't mention, if it has one."""
        if self.more is not None:
            return self.more
        if self.takes_more and self.unevaluated is not None:
            return self.unevaluated if self.unevaluated.kind not in ("anything", "nothing") else None
        return None
