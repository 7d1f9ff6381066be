"""Table functions, which return several rows for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from penstock.sql.language.types import SqlType

_CUBE_ELEMENTS_MAX: Final = 20
"""Limits the rows of CUBE_EXPLODE, which double with each element, to a million, as in ksqlDB."""


@dataclass(frozen=True)
class TableFunction:
    """A table function. ``function(*arguments)`` returns the values; None means that there are none."""

    function: Callable[..., list[Any] | None]

    def bind(self, types: Sequence[SqlType | None], result: SqlType) -> Callable[..., list[Any] | None]:
        return self.function


def _explode(values: list[Any] | None) -> list[Any] | None:
    return values


def _cube_explode(values: list[Any] | None) -> list[Any] | None:
    """Combine each element with null as its alternative. An element that is null has no alternative."""
    if values is None:
        return None
    if len(values) > _CUBE_ELEMENTS_MAX:
        raise ValueError(f"found {len(values)} elements, expected at most {_CUBE_ELEMENTS_MAX}")
    choices = [(None,) if value is None else (None, value) for value in values]
    return [list(chosen) for chosen in product(*choices)]


TABLE_FUNCTIONS: Final[Mapping[str, TableFunction]] = {
    "EXPLODE": TableFunction(_explode),
    "CUBE_EXPLODE": TableFunction(_cube_explode),
}
