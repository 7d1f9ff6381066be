"""Print types as the one text that Confluent's registry stores, which is that of Avro's Java library."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.java.strings import utf16
from penstock.registry.formats.avro.types import ABSENT, PRIMITIVES, Field, Name, Type
from penstock.registry.formats.json_text import Json, java_double, write

_LOGICAL = ("logicalType", "precision", "scale")


def printed(
    root: Type, known: Iterable[str] = (), *, is_normal: bool = False, is_identity: bool = False
) -> str:
    """Print a type. The names in ``known`` are printed as references, not as definitions.

    ``is_normal`` prints the form of `normalize=true`: aliases and properties are sorted, and empty
    documentation is dropped. ``is_identity`` makes the texts equal whenever Confluent treats two schemas as
    the same.
    """
    printer = _Printer(set(known), is_normal or is_identity, drops_empty_doc=is_normal)
    return write(printer.json(root, None), number=java_double)


def own_text(of: Type, known: set[str]) -> str:
    """Print the definition of a named type, with all other types by their names."""
    known.discard(of.full_name)
    return write(_Printer(known, True, drops_empty_doc=True).json(of, None), number=java_double)


class _Printer:
    def __init__(self, known: set[str], is_sorted: bool, *, drops_empty_doc: bool) -> None:
        self._known = known
        self._is_sorted = is_sorted
        self._drops_empty_doc = drops_empty_doc

    def json(self, of: Type, space: str | None) -> Json:
        """Return a type's JSON inside a namespace; a type that is already defined becomes its name."""
        if of.kind in PRIMITIVES:
            return {"type": of.kind, **self._properties(of.properties)} if of.properties else of.kind
        if of.kind == "union":
            return [self.json(each, space) for each in of.items]
        if of.kind in ("array", "map"):
            key = "items" if of.kind == "array" else "values"
            return {"type": of.kind, key: self.json(of.items[0], space), **self._properties(of.properties)}
        assert of.name is not None
        if of.name.full in self._known:
            return of.name.relative(space)
        self._known.add(of.name.full)
        return self._definition(of, of.name, space)

    def _definition(self, of: Type, name: Name, space: str | None) -> Json:
        result: dict[str, Json] = {"type": "error" if of.is_error else of.kind, "name": name.name}
        if name.space != space:
            result["namespace"] = name.space or ""
        if of.doc is not None and (of.doc or not self._drops_empty_doc):
            result["doc"] = of.doc
        if of.kind == "record":
            result["fields"] = [self._field(each, name.space) for each in of.fields]
        elif of.kind == "enum":
            result["symbols"] = of.symbols
            if of.symbol_default is not None:
                result["default"] = of.symbol_default
        else:
            result["size"] = of.size
        result |= self._properties(of.properties)
        if of.aliases:
            ordered = sorted(of.aliases, key=lambda each: utf16(each.full)) if self._is_sorted else of.aliases
            result["aliases"] = [each.full if each.space != name.space else each.name for each in ordered]
        return result

    def _field(self, field: Field, space: str | None) -> Json:
        result: dict[str, Json] = {"name": field.name, "type": self.json(field.type, space)}
        if field.doc is not None:
            result["doc"] = field.doc
        if field.default is not ABSENT:
            result["default"] = self._ordered(field.default)
        if field.order != "ascending":
            result["order"] = field.order
        if field.aliases:
            result["aliases"] = sorted(field.aliases, key=utf16) if self._is_sorted else list(field.aliases)
        return result | self._properties(field.properties)

    def _properties(self, properties: dict[str, Any]) -> dict[str, Json]:
        if not self._is_sorted:
            return properties
        # The logical type comes first, with its attributes.
        keys = sorted(properties, key=lambda key: (key not in _LOGICAL, utf16(key)))
        return {key: self._ordered(properties[key]) for key in keys}

    def _ordered(self, value: Json) -> Json:
        """Return a value with the names of its objects sorted, if the printer sorts."""
        match value:
            case dict() if self._is_sorted:
                return {key: self._ordered(value[key]) for key in sorted(value, key=utf16)}
            case list() if self._is_sorted:
                return [self._ordered(each) for each in value]
        return value
