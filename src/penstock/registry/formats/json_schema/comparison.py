"""Find the differences between two JSON schemas, an original and its update, by Confluent's rules.

The rules decide by the kinds of schemas, not by the values that are valid. They are incomplete, and imprecise
for `if`, `contains`, `propertyNames` and pattern properties. They are kept as they are, because a verdict of
compatibility should agree with other registries. Two rules are ours: draft 4's boolean `exclusiveMaximum`
counts, and a `$ref` to a `$ref` is followed to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from penstock.registry.formats.errors import ComparisonTooLarge, SchemaError
from penstock.registry.formats.json_schema.nodes import Node
from penstock.registry.formats.json_schema.rules import COMPATIBLE, LENIENT, description
from penstock.registry.formats.schema import REPORTED_MAX, Incompatibility, shown_path

COMPARISONS_MAX: Final = 100_000
DIFFERENCES_MAX: Final = 100_000

Path = tuple[str, ...]


class Difference(NamedTuple):
    """One difference, and its path."""

    rule: str
    path: Path


Differences = list[Difference]
_Pair = tuple[Node, Node]


def incompatibilities(
    reader: Node, writer: Node, rules: Mapping[str, Rules], *, is_lenient: bool = False
) -> list[Incompatibility]:
    """Return the differences that forbid ``reader`` to follow ``writer``."""
    allowed = LENIENT if is_lenient else COMPATIBLE
    found = [each for each in differences(writer, reader, rules, allowed) if each.rule not in allowed]
    return [
        Incompatibility(each.rule, shown_path(each.path), description(each.rule))
        for each in found[:REPORTED_MAX]
    ]


def differences(
    original: Node, update: Node, rules: Mapping[str, Rules], allowed: frozenset[str] = COMPATIBLE
) -> Differences:
    """Return all differences, including harmless ones.

    If schemas contain themselves, a pair that recurs inside itself is first assumed to be compatible. If that
    assumption proves wrong, the comparison is repeated with the pairs known to be incompatible, until it
    finds no new ones.
    """
    incompatible: dict[_Pair, Differences] = {}
    budget = COMPARISONS_MAX
    while True:
        comparison = Comparison(rules, allowed, incompatible, budget)
        found = comparison.compare(original, update, ())
        budget = comparison.budget
        again = {pair: each for pair, each in comparison.known.items() if not comparison.is_compatible(each)}
        if not comparison.was_optimistic or again.keys() == incompatible.keys():
            return found
        incompatible = again


class Comparison:
    """One pass over two schemas."""

    def __init__(
        self,
        rules: Mapping[str, Rules],
        allowed: frozenset[str],
        incompatible: dict[_Pair, Differences],
        budget: int,
    ) -> None:
        self._rules = rules
        self.allowed = allowed
        self.known: dict[_Pair, Differences] = {}  # paths are relative to the pair
        self.was_optimistic = False
        self.budget = budget
        self._incompatible = incompatible
        self._open: set[_Pair] = set()
        self._made = 0

    def is_compatible(self, found: Differences) -> bool:
        return all(each.rule in self.allowed for each in found)

    def compare(self, original: Node | None, update: Node | None, path: Path) -> Differences:
        """Return the differences between two schemas, or between a schema and none."""
        if original is None or update is None:
            if original is update:
                return []
            return [Difference("SCHEMA_ADDED" if original is None else "SCHEMA_REMOVED", path)]
        found = self._remembered(_referred(original), _referred(update))
        self._made += len(found)
        if self._made > DIFFERENCES_MAX:
            raise ComparisonTooLarge(f"the schemas differ in more than {DIFFERENCES_MAX} ways")
        return [Difference(each.rule, path + each.path) for each in found] if path else found

    def _remembered(self, original: Node, update: Node) -> Differences:
        pair = (original, update)
        if pair in self.known:
            return self.known[pair]
        if pair in self._open:
            if pair in self._incompatible:
                return self._incompatible[pair]
            self.was_optimistic = True
            return []
        self.budget -= 1
        if self.budget < 0:
            raise ComparisonTooLarge(
                f"more than {COMPARISONS_MAX} pairs of schemas to compare: too many alternatives"
            )
        self._open.add(pair)
        try:
            found = self._compare(original, update)
        finally:
            self._open.discard(pair)
        self.known[pair] = found
        return found

    def _compare(self, original: Node, update: Node) -> Differences:
        if original.is_combined != update.is_combined:
            found = self._alternative(original, update)
            if found is not None:
                return found
        if original.kind != update.kind and not (original.is_combined and update.is_combined):
            is_wider = original.kind == "nothing" or update.kind == "anything"
            # Confluent's converters wrote decimals both as strings and as numbers, with this type.
            is_bytes = original.connect_type == update.connect_type == "bytes"
            return [] if is_wider or is_bytes else [Difference("TYPE_CHANGED", ())]
        compare = self._rules.get(original.kind)
        return [
            *_annotations(original, update),
            *(compare(self, original, update) if compare is not None else []),
        ]

    def _alternative(self, original: Node, update: Node) -> Differences | None:
        """Compare a single schema with a combination of schemas.

        The update may add alternatives to a schema, or keep only one schema of an allOf. Returns None if
        neither holds.
        """
        combined = update if update.is_combined else original
        if len(combined.parts) == 1:
            rule = None
        elif combined is update and combined.kind in ("anyOf", "oneOf"):
            rule = "SUM_TYPE_EXTENDED"
        elif combined is original and combined.kind == "allOf":
            rule = "PRODUCT_TYPE_NARROWED"
        else:
            return None
        for part in combined.parts:
            found = self.compare(original, part, ()) if combined is update else self.compare(part, update, ())
            if self.is_compatible(found):
                return found if rule is None else [*found, Difference(rule, ())]
        return None


Rules: TypeAlias = Callable[[Comparison, Node, Node], Differences]


def _referred(node: Node) -> Node:
    seen = set()
    while node.kind == "reference":
        if node in seen:
            raise SchemaError("a $ref refers to itself")
        seen.add(node)
        node = node.parts[0]
    return node


def _annotations(original: Node, update: Node) -> Differences:
    changed = {
        "ID_CHANGED": original.id != update.id,
        "TITLE_CHANGED": original.title != update.title,
        "DESCRIPTION_CHANGED": original.description != update.description,
        "DEFAULT_CHANGED": original.default != update.default,
    }
    return [Difference(rule, ()) for rule, is_changed in changed.items() if is_changed]
