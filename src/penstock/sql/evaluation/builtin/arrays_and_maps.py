"""Functions on arrays and maps, some of them with lambdas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from penstock.sql.evaluation.builtin.nulls import strict
from penstock.sql.evaluation.order import largest, of_text, order_of, smallest
from penstock.sql.evaluation.texts import formatter
from penstock.sql.language.types import Array, SqlType


def _once(values: Iterable[Any]) -> list[Any]:
    made: list[Any] = []
    for value in values:
        if value not in made:
            made.append(value)
    return made


def _concat(one: list[Any] | None, other: list[Any] | None) -> list[Any] | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _contains(values: list[Any] | None, wanted: Any) -> bool:
    return values is not None and wanted in values


def _extreme(choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def chosen(values: list[Any]) -> Any:
        there = [value for value in values if value is not None]
        return choose(there) if there else None

    return strict(chosen)


def _remove(values: list[Any] | None, unwanted: Any) -> list[Any] | None:
    return None if values is None else [value for value in values if value != unwanted]


_DIRECTIONS: Final = {"ASC": False, "ASCENDING": False, "DESC": True, "DESCENDING": True}


def _sort(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
    """ARRAY_SORT. Nulls come last in both directions."""
    key = order_of(_element(given))

    def in_order(values: list[Any], direction: str = "ASC") -> list[Any] | None:
        if direction.upper() not in _DIRECTIONS:
            return None
        there = [value for value in values if value is not None]
        there.sort(key=key, reverse=_DIRECTIONS[direction.upper()])
        return there + [None] * (len(values) - len(there))

    return strict(in_order)


def _element(given: Sequence[Any]) -> SqlType | None:
    return given[0].element if isinstance(given[0], Array) else None


def _as_map(keys: list[str], values: list[Any]) -> dict[str, Any]:
    return dict(zip(keys, values, strict=False))


def _entries(values: dict[str, Any] | None, is_sorted: bool | None) -> list[dict[str, Any]] | None:
    if values is None:
        return None
    keys = sorted(values, key=of_text) if is_sorted else list(values)
    return [{"K": key, "V": values[key]} for key in keys]


def _filter(values: Any, holds: Callable[..., Any]) -> Any:
    if values is None:
        return None
    if isinstance(values, dict):
        return {key: value for key, value in values.items() if holds(key, value)}
    return [value for value in values if holds(value)]


def _transform(values: Any, *makers: Callable[..., Any]) -> Any:
    if values is None:
        return None
    if isinstance(values, dict):
        key_of, value_of = makers
        made: dict[Any, Any] = {}
        for key, value in values.items():
            new = key_of(key, value)
            if new in made:
                raise ValueError(f"found the key {new!r} twice, expected different keys")
            made[new] = value_of(key, value)
        return made
    return [makers[0](value) for value in values]


def _reduce(values: Any, state: Any, combine: Callable[..., Any]) -> Any:
    if values is None:
        return state
    if state is None:
        return None
    if isinstance(values, dict):
        for key, value in values.items():
            state = combine(state, key, value)
        return state
    for value in values:
        state = combine(state, value)
    return state


def _series(first: int, last: int, step: int | None = None) -> list[int]:
    by = (1 if last >= first else -1) if step is None else step
    if by == 0:
        raise ValueError("found a step of 0, expected another")
    if (last - first) * by < 0:
        raise ValueError(
            f"found a step of {by} from {first} to {last}, expected a step towards the last number"
        )
    return list(range(first, last + (1 if by > 0 else -1), by))


def _map_union(one: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any] | None:
    if one is None or other is None:
        return other if one is None else one
    return {**one, **other}


def _slice(values: list[Any] | None, first: int | None, last: int | None) -> list[Any] | None:
    if values is None:
        return None
    start = 0 if first is None else first - 1
    end = len(values) if last is None else last
    if start < 0 or end > len(values) or start > end:
        raise ValueError(f"found {first} to {last} of an array of {len(values)}, expected positions in it")
    return values[start:end]


def _join(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
    element = _element(given)
    shown = str if element is None else formatter(element)

    def joined(values: list[Any] | None, delimiter: str | None = ",") -> str | None:
        if values is None:
            return None
        return (delimiter or "").join(["null" if value is None else shown(value) for value in values])

    return joined


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "ARRAY_CONCAT": _concat,
    "ARRAY_CONTAINS": _contains,
    "ARRAY_DISTINCT": strict(_once),
    "ARRAY_EXCEPT": strict(lambda one, other: _once([value for value in one if value not in other])),
    "ARRAY_INTERSECT": strict(lambda one, other: _once([value for value in one if value in other])),
    "ARRAY_LENGTH": strict(len),
    "ARRAY_REMOVE": _remove,
    "ARRAY_UNION": strict(lambda one, other: _once([*one, *other])),
    "AS_MAP": strict(_as_map),
    "ENTRIES": _entries,
    "FILTER": _filter,
    "GENERATE_SERIES": strict(_series),
    "MAP_KEYS": strict(list),
    "MAP_UNION": _map_union,
    "MAP_VALUES": strict(lambda values: list(values.values())),
    "REDUCE": _reduce,
    "SLICE": _slice,
    "TRANSFORM": _transform,
}
BY_TYPE: Final[dict[str, Callable[[Sequence[Any], SqlType], Callable[..., Any]]]] = {
    "ARRAY_JOIN": _join,
    "ARRAY_MAX": lambda given, result: _extreme(largest(result)),
    "ARRAY_MIN": lambda given, result: _extreme(smallest(result)),
    "ARRAY_SORT": _sort,
}
