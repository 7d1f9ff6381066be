"""The catalog, which maps names to streams, tables, types and functions.

A catalog is immutable: a statement that defines something returns a changed copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import Enum
from typing import Final

from penstock.sql import types
from penstock.sql.errors import SqlError
from penstock.sql.functions import BUILT_IN, Function
from penstock.sql.statements import SourceKind, WindowKind
from penstock.sql.types import Array, Map, Named, SqlType, Struct

PSEUDO_COLUMNS: Final[dict[str, SqlType]] = {
    "ROWTIME": types.BIGINT,
    "ROWPARTITION": types.INTEGER,
    "ROWOFFSET": types.BIGINT,
}
"""The columns that every row has in addition to the declared ones."""
WINDOW_COLUMNS: Final[dict[str, SqlType]] = {"WINDOWSTART": types.BIGINT, "WINDOWEND": types.BIGINT}
"""The further columns of the rows of a windowed source."""
SYSTEM_COLUMNS: Final = frozenset(PSEUDO_COLUMNS) | frozenset(WINDOW_COLUMNS)


class Role(Enum):
    KEY = "KEY"
    VALUE = "VALUE"
    HEADERS = "HEADERS"
    PSEUDO = "PSEUDO"


@dataclass(frozen=True)
class Column:
    """A column of a source. A HEADERS column holds the header with key ``header``, or all if it is None."""

    name: str
    type: SqlType
    role: Role = Role.VALUE
    header: str | None = None


@dataclass(frozen=True)
class WindowedKey:
    """The windowing of a source whose row keys include a window. Session windows have no size."""

    kind: WindowKind
    size_ms: int | None = None


@dataclass(frozen=True)
class DataSource:
    """A stream or table over a topic.

    ``is_queryable`` means that its state is materialized, so pull queries may read it. ``timestamp`` is the
    column that supplies ROWTIME.
    """

    name: str
    kind: SourceKind
    columns: tuple[Column, ...]
    topic: str
    key_format: str
    value_format: str
    window: WindowedKey | None = None
    timestamp: str | None = None
    timestamp_format: str | None = None
    partitions: int | None = None
    replicas: int | None = None
    read_only: bool = False
    is_queryable: bool = False
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def keys(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.role is Role.KEY)

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def pseudo_columns(self) -> tuple[Column, ...]:
        windows = WINDOW_COLUMNS if self.window is not None else {}
        return tuple(
            Column(name, type_, Role.PSEUDO) for name, type_ in {**PSEUDO_COLUMNS, **windows}.items()
        )


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
