"""Find the differences between two schemas of strings, numbers, listed values, or combinations of schemas."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from penstock.registry.formats.json_schema.comparison import Comparison, Difference, Differences, Rules
from penstock.registry.formats.json_schema.matching import largest_matching
from penstock.registry.formats.json_schema.nodes import Node


def limits(original: Node, update: Node, rules: dict[str, str]) -> Differences:
    """Compare keywords whose values are ordered: added, removed, increased or decreased."""
    found = []
    for keyword, rule in rules.items():
        before, after = original.limits.get(keyword), update.limits.get(keyword)
        if before == after:
            continue
        if before is None:
            change = "ADDED"
        elif after is None:
            change = "REMOVED"
        else:
            change = "INCREASED" if before < after else "DECREASED"
        found.append(Difference(f"{rule}_{change}", (keyword,)))
    return found


def _strings(comparison: Comparison, original: Node, update: Node) -> Differences:
    found = limits(original, update, {"maxLength": "MAX_LENGTH", "minLength": "MIN_LENGTH"})
    before, after = original.limits.get("pattern"), update.limits.get("pattern")
    if before != after:
        change = "ADDED" if before is None else "REMOVED" if after is None else "CHANGED"
        found.append(Difference(f"PATTERN_{change}", ("pattern",)))
    return found


_NUMBERS: Final = {
    "maximum": "MAXIMUM",
    "minimum": "MINIMUM",
    "exclusiveMaximum": "EXCLUSIVE_MAXIMUM",
    "exclusiveMinimum": "EXCLUSIVE_MINIMUM",
}


def _numbers(comparison: Comparison, original: Node, update: Node) -> Differences:
    found = limits(original, update, _NUMBERS)
    before, after = original.limits.get("multipleOf"), update.limits.get("multipleOf")
    if before != after:
        if before is None:
            change = "ADDED"
        elif after is None:
            change = "REMOVED"
        elif _divides(before, after):
            change = "EXPANDED"
        else:
            change = "REDUCED" if _divides(after, before) else "CHANGED"
        found.append(Difference(f"MULTIPLE_OF_{change}", ("multipleOf",)))
    if original.is_integer != update.is_integer:
        found.append(Difference("TYPE_EXTENDED" if original.is_integer else "TYPE_NARROWED", ()))
    return found


def _divides(step: object, of: object) -> bool:
    return (Fraction(str(of)) / Fraction(str(step))).denominator == 1


def _enums(comparison: Comparison, original: Node, update: Node) -> Differences:
    if original.values == update.values:
        return []
    before, after = set(original.values), set(update.values)
    change = "EXTENDED" if before <= after else "NARROWED" if after <= before else "CHANGED"
    return [Difference(f"ENUM_ARRAY_{change}", ("enum",))]


def _consts(comparison: Comparison, original: Node, update: Node) -> Differences:
    return [] if original.values == update.values else [Difference("ENUM_ARRAY_CHANGED", ("const",))]


def _nots(comparison: Comparison, original: Node, update: Node) -> Differences:
    """Compare the schemas of `not` in the opposite direction."""
    reversed_found = comparison.compare(update.parts[0], original.parts[0], ("not",))
    rule = "NOT_TYPE_NARROWED" if comparison.is_compatible(reversed_found) else "NOT_TYPE_EXTENDED"
    return [Difference(rule, ("not",))]


def _combinations(comparison: Comparison, original: Node, update: Node) -> Differences:
    found = []
    if original.kind != update.kind:
        is_wider = (
            update.kind == "anyOf"
            or len(original.parts) == len(update.parts) == 1
            or (len(original.parts) == 1 and update.kind == "oneOf")
            or (len(update.parts) == 1 and original.kind == "allOf")
        )
        found.append(Difference("COMBINED_TYPE_EXTENDED" if is_wider else "COMBINED_TYPE_CHANGED", ()))
        if not is_wider:
            return found
    before, after = _distinct(original.parts), _distinct(update.parts)
    if len(before) < len(after):
        found.append(
            Difference("PRODUCT_TYPE_EXTENDED" if update.kind == "allOf" else "SUM_TYPE_EXTENDED", ())
        )
    elif len(before) > len(after):
        found.append(
            Difference("PRODUCT_TYPE_NARROWED" if original.kind == "allOf" else "SUM_TYPE_NARROWED", ())
        )
    return [*found, *_matched(comparison, original.kind, before, after)]


def _matched(comparison: Comparison, criterion: str, before: list[Node], after: list[Node]) -> Differences:
    """Match the schemas of both sides: each one of the smaller side needs its own partner on the other."""
    edges: dict[tuple[int, int], Differences] = {}
    neighbours: dict[int, list[int]] = {}
    for i, original in enumerate(before):
        neighbours[i] = []
        for j, update in enumerate(after):
            between = comparison.compare(original, update, (criterion, str(i)))
            if comparison.is_compatible(between):
                edges[i, j] = between
                neighbours[i].append(j)
    matching = largest_matching(neighbours)
    found = [each for pair in sorted(matching.items()) for each in edges[pair]]
    if len(matching) < min(len(before), len(after)):
        found.append(Difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", ()))
    return found


def _distinct(parts: list[Node]) -> list[Node]:
    seen: dict[int, Node] = {}
    for part in parts:
        seen.setdefault(part.text or -id(part), part)
    return list(seen.values())


SIMPLE: Final[dict[str, Rules]] = {
    "string": _strings,
    "number": _numbers,
    "enum": _enums,
    "const": _consts,
    "not": _nots,
    "allOf": _combinations,
    "anyOf": _combinations,
    "oneOf": _combinations,
}
