"""Find the differences between two object schemas, or two array schemas.

All rules depend on the content models. An open model accepts properties that it doesn't mention, in any form,
so adding a schema for such a property may reject values that were valid. A closed model accepts none, so
adding is harmless and removing is not. A partially open model accepts those that match a schema.
"""

from __future__ import annotations

from typing import Final

from penstock.patterns import Pattern, PatternError
from penstock.registry.formats.json_schema.comparison import Comparison, Difference, Differences, Path, Rules
from penstock.registry.formats.json_schema.nodes import ABSENT, Node
from penstock.registry.formats.json_schema.simple import limits

_OBJECT_LIMITS: Final = {"maxProperties": "MAX_PROPERTIES", "minProperties": "MIN_PROPERTIES"}
_ARRAY_LIMITS: Final = {"maxItems": "MAX_ITEMS", "minItems": "MIN_ITEMS"}
_CONTAINS_LIMITS: Final = {"maxContains": "MAX_CONTAINS", "minContains": "MIN_CONTAINS"}


def objects(comparison: Comparison, original: Node, update: Node) -> Differences:
    """Compare properties, in the order of their names, and the keywords that apply to all of them."""
    found = _required(original, update)
    for name in sorted(original.properties.keys() | update.properties.keys()):
        found += _property(comparison, original, update, name)
    return [
        *found,
        *_dependencies(comparison, original, update),
        *_more(comparison, original, update, "additionalProperties", "ADDITIONAL_PROPERTIES"),
        *_unevaluated(comparison, original, update, "unevaluatedProperties", "UNEVALUATED_PROPERTIES"),
        *limits(original, update, _OBJECT_LIMITS),
    ]


def arrays(comparison: Comparison, original: Node, update: Node) -> Differences:
    """Compare items, and the keywords that apply to all of them."""
    found = comparison.compare(original.items, update.items, ("items",))
    found = [*found, *_tuples(comparison, original, update)]
    found += _more(comparison, original, update, "additionalItems", "ADDITIONAL_ITEMS")
    found += _unevaluated(comparison, original, update, "unevaluatedItems", "UNEVALUATED_ITEMS")
    found += limits(original, update, _ARRAY_LIMITS)
    if original.limits["uniqueItems"] != update.limits["uniqueItems"]:
        change = "REMOVED" if original.limits["uniqueItems"] else "ADDED"
        found.append(Difference(f"UNIQUE_ITEMS_{change}", ("uniqueItems",)))
    return [*found, *limits(original, update, _CONTAINS_LIMITS)]


def _required(original: Node, update: Node) -> Differences:
    found = []
    for name in original.properties:
        if name not in update.properties or (name in original.required) == (name in update.required):
            continue
        if name in original.required:
            rule = "REQUIRED_ATTRIBUTE_REMOVED"
        elif update.properties[name].default is not ABSENT:
            rule = "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED"
        else:
            rule = "REQUIRED_ATTRIBUTE_ADDED"
        found.append(Difference(rule, ("required", name)))
    return found


def _property(comparison: Comparison, original: Node, update: Node, name: str) -> Differences:
    path = ("properties", name)
    before, after = original.properties.get(name), update.properties.get(name)
    if before is not None and after is not None:
        return comparison.compare(before, after, path)
    if before is not None:
        if update.is_open:
            return [Difference("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", path)]
        rest = _rest(update, name, unsure=False)
        if rest is not None:
            return _covered(comparison, before, rest, path, "PROPERTY_REMOVED")
        with_false = "_WITH_FALSE" if before.kind == "nothing" else ""
        return [Difference(f"PROPERTY{with_false}_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)]
    assert after is not None
    if original.is_open:
        if after.kind == "anything":
            return [Difference("PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", path)]
        return [Difference(f"{_added(update, name)}_ADDED_TO_OPEN_CONTENT_MODEL", path)]
    rest = _rest(original, name, unsure=True)
    found = [] if rest is None else _covered(comparison, rest, after, path, "PROPERTY_ADDED")
    return [*found, Difference(f"{_added(update, name)}_ADDED_TO_UNOPEN_CONTENT_MODEL", path)]


def _added(update: Node, name: str) -> str:
    if name not in update.required:
        return "OPTIONAL_PROPERTY"
    return (
        "REQUIRED_PROPERTY" if update.properties[name].default is ABSENT else "REQUIRED_PROPERTY_WITH_DEFAULT"
    )


def _covered(comparison: Comparison, before: Node, after: Node, path: Path, rule: str) -> Differences:
    found = comparison.compare(before, after, path)
    verb = "IS" if comparison.is_compatible(found) else "NOT"
    return [*found, Difference(f"{rule}_{verb}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)]


def _rest(node: Node, name: str, *, unsure: bool) -> Node | None:
    """Return the schema that the content model applies to a property it doesn't name.

    The first pattern that matches counts, else the schema for additional properties.
    """
    for pattern, schema in node.patterns.items():
        if _fits(pattern, name, unsure=unsure):
            return schema
    return node.rest()


def _fits(pattern: str, name: str, *, unsure: bool) -> bool:
    """Whether a pattern matches part of a name.

    The result is ``unsure`` for patterns that can't be matched in linear time (lookaround). The caller picks
    the safe side: an added property is compared with such a pattern, and a removed one is not covered by it.
    """
    try:
        return Pattern(f"(?s).*(?:{pattern}).*").fullmatch(name)
    except PatternError:
        return unsure


def _dependencies(comparison: Comparison, original: Node, update: Node) -> Differences:
    found: Differences = []
    for name in sorted(original.needed.keys() | update.needed.keys()):
        before, after = original.needed.get(name), update.needed.get(name)
        if before == after:
            continue
        if after is None:
            change = "REMOVED"
        elif before is None:
            change = "ADDED"
        else:
            change = "EXTENDED" if before <= after else "NARROWED" if after <= before else "CHANGED"
        found.append(Difference(f"DEPENDENCY_ARRAY_{change}", ("dependencies", name)))
    for name in sorted(original.dependent.keys() | update.dependent.keys()):
        path = ("dependencies", name)
        if name not in update.dependent:
            found.append(Difference("DEPENDENCY_SCHEMA_REMOVED", path))
        elif name not in original.dependent:
            found.append(Difference("DEPENDENCY_SCHEMA_ADDED", path))
        else:
            found += comparison.compare(original.dependent[name], update.dependent[name], path)
    return found


def _more(comparison: Comparison, original: Node, update: Node, keyword: str, rule: str) -> Differences:
    path = (keyword,)
    if original.takes_more != update.takes_more:
        return [Difference(f"{rule}_{'ADDED' if update.takes_more else 'REMOVED'}", path)]
    if original.more is None and update.more is not None:
        return [Difference(f"{rule}_NARROWED", path)]
    if original.more is not None and update.more is None:
        return [Difference(f"{rule}_EXTENDED", path)]
    return comparison.compare(original.more, update.more, path)


def _unevaluated(
    comparison: Comparison, original: Node, update: Node, keyword: str, rule: str
) -> Differences:
    before, after = original.unevaluated, update.unevaluated
    if before is None and after is None:
        return []
    path = (keyword,)
    if before is not None and before.kind == "nothing":
        if after is not None and after.kind == "nothing":
            return comparison.compare(before, after, path)
        return [Difference(f"{rule}_ADDED", path)]
    if after is not None and after.kind == "nothing":
        return [Difference(f"{rule}_REMOVED", path)]
    if before is None or (before.kind == "anything" and after is not None and after.kind != "anything"):
        return [Difference(f"{rule}_NARROWED", path)]
    if after is None or (after.kind == "anything" and before.kind != "anything"):
        return [Difference(f"{rule}_EXTENDED", path)]
    return comparison.compare(before, after, path)


def _tuples(comparison: Comparison, original: Node, update: Node) -> Differences:
    before, after = original.tuple_items, update.tuple_items
    found: Differences = []
    for i in range(max(len(before), len(after))):
        path = (f"items/{i}",)
        if i >= len(after):
            found += _item_removed(comparison, before[i], update, path)
        elif i >= len(before):
            found += _item_added(comparison, original, after[i], path)
        else:
            found += comparison.compare(before[i], after[i], path)
    return found


def _item_removed(comparison: Comparison, before: Node, update: Node, path: Path) -> Differences:
    if update.is_open:
        return [Difference("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", path)]
    rest = update.rest()
    if rest is not None:
        return _covered(comparison, before, rest, path, "ITEM_REMOVED")
    with_false = "_WITH_FALSE" if before.kind == "nothing" else ""
    return [Difference(f"ITEM{with_false}_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)]


def _item_added(comparison: Comparison, original: Node, after: Node, path: Path) -> Differences:
    if original.is_open:
        with_empty = "_WITH_EMPTY_SCHEMA" if after.kind == "anything" else ""
        return [Difference(f"ITEM{with_empty}_ADDED_TO_OPEN_CONTENT_MODEL", path)]
    rest = original.rest()
    if rest is not None:
        return _covered(comparison, rest, after, path, "ITEM_ADDED")
    return [Difference("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", path)]


CONTAINERS: Final[dict[str, Rules]] = {"object": objects, "array": arrays}
