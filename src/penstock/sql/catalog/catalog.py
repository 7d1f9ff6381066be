"""The catalog, which maps names to streams, tables, types and functions.

A catalog is immutable: a statement that defines something returns a changed copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from penstock.sql.catalog.sources import DataSource
from penstock.sql.functions import BUILT_IN, Function
from penstock.sql.language import types
from penstock.sql.language.errors import SqlError
from penstock.sql.language.types import Array, Map, Named, SqlType, Struct


@dataclass(frozen=True)
class Catalog:
    sources: Mapping[str, DataSource] = field(default_factory=dict)
    types: Mapping[str, SqlType] = field(default_factory=dict)
    functions: Mapping[str, Function] = field(default_factory=lambda: BUILT_IN)

    def source(self, name: str) -> DataSource:
        found = self.sources.get(name)
        if found is None:
            raise SqlError(f"found no stream or table {name}{_similar(name, self.sources)}", found=name)
        return found

    def function(self, name: str) -> Function:
        found = self.functions.get(name)
        if found is None:
            raise SqlError(f"found no function {name}{_similar(name, self.functions)}", found=name)
        return found

    def resolved(self, type_: SqlType) -> SqlType:
        """Replace the names of custom types in a type by their definitions."""
        match type_:
            case Named(name):
                if name not in self.types:
                    known = {**types.PRIMITIVES, **self.types}
                    raise SqlError(f"found no type {name}{_similar(name, known)}", found=name)
                return self.types[name]
            case Array(element):
                return Array(self.resolved(element))
            case Map(key, value):
                return Map(self.resolved(key), self.resolved(value))
            case Struct(fields):
                return Struct(tuple((name, self.resolved(each)) for name, each in fields))
        return type_

    def with_source(self, source: DataSource) -> Catalog:
        return replace(self, sources={**self.sources, source.name: source})

    def without_source(self, name: str) -> Catalog:
        return replace(self, sources={key: each for key, each in self.sources.items() if key != name})

    def with_type(self, name: str, type_: SqlType | None) -> Catalog:
        kept = {key: each for key, each in self.types.items() if key != name}
        return replace(self, types=kept if type_ is None else {**kept, name: type_})

    def with_function(self, name: str, function: Function | None) -> Catalog:
        kept = {key: each for key, each in self.functions.items() if key != name}
        return replace(self, functions=kept if function is None else {**kept, name: function})


def _similar(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f", expected an existing one, such as {close[0]}" if close else ", expected an existing one"
