"""Keeps what a converter makes of each schema, and finds it by the identity of the schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.connect.data.schema import Schema

Made = TypeVar("Made")


class SchemaCache(Generic[Made]):
    """Holds what was made of the schemas that were used last.

    A source that makes an equal schema for each record is slower, since comparing schemas takes longer than
    converting a value, but it gets what was made of the first.
    """

    def __init__(self, size: int, make: Callable[[Schema | None], Made]) -> None:
        """Keep at most ``size`` schemas; ``make`` is called for each other."""
        self._size = max(size, 1)
        self._make = make
        # The identity of an object holds while the object lives, so its schema stands beside what was made.
        self._by_identity: dict[int, tuple[Schema | None, Made]] = {}
        self._made: dict[Schema | None, Made] = {}

    def __len__(self) -> int:
        return len(self._made)

    def get(self, schema: Schema | None) -> Made:
        """Return what was made of the schema, or of an equal one."""
        found = self._by_identity.get(id(schema))
        return self._find(schema) if found is None else found[1]

    def _find(self, schema: Schema | None) -> Made:
        made = self._made.get(schema)
        if made is None:
            made = self._made[schema] = self._make(schema)
            _shrink(self._made, self._size)
        self._by_identity[id(schema)] = (schema, made)
        _shrink(self._by_identity, self._size)
        return made


def _shrink(entries: dict[Any, Any], size: int) -> None:
    """Remove the oldest entry if there are more than ``size``."""
    if len(entries) > size:
        del entries[next(iter(entries))]
