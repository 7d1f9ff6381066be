"""Functions on arrays and maps, some of them with lambdas."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import zip_longest
from typing import Any, Final

from penstock.java.numbers import double_text
from penstock.java.strings import utf16
from penstock.sql.evaluation.builtin.nulls import primitive, strict
from penstock.sql.evaluation.code import NullValue
from penstock.sql.evaluation.equality import equality_key, same
from penstock.sql.evaluation.numbers import INTEGER_BOUND
from penstock.sql.evaluation.order import largest, order_of, smallest
from penstock.sql.evaluation.texts import format_boolean
from penstock.sql.language import types
from penstock.sql.language.types import Array, Decimal, SqlType

_Key = Callable[[Any], Hashable]


def _of_sets(function: Callable[..., Any]) -> Callable[[Sequence[Any], SqlType], Callable[..., Any]]:
    """Pass a function of arrays the key by which their elements are equal, and then the arrays."""

    def choose(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
        key = equality_key(_element(given))
        return strict(lambda *arrays: function(key, *arrays))

    return choose


def _distinct(key: _Key, *arrays: list[Any]) -> list[Any]:
    made: dict[Hashable, Any] = {}
    for values in arrays:
        for value in values:
            made.setdefault(key(value), value)
    return list(made.values())


def _except(key: _Key, one: list[Any], other: list[Any]) -> list[Any]:
    unwanted = set(map(key, other))
    return [value for value in _distinct(key, one) if key(value) not in unwanted]


def _intersection(key: _Key, one: list[Any], other: list[Any]) -> list[Any]:
    wanted = set(map(key, other))
    return [value for value in _distinct(key, one) if key(value) in wanted]


def _concat(one: list[Any] | None, other: list[Any] | None) -> list[Any] | None:
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _contains(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
    key = equality_key(_element(given))
    if key is same:
        return lambda values, wanted: values is not None and wanted in values

    def contains(values: list[Any] | None, wanted: Any) -> bool:
        return values is not None and key(wanted) in map(key, values)

    return contains


def _extreme(choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def chosen(values: list[Any]) -> Any:
        there = [value for value in values if value is not None]
        return choose(there) if there else None

    return strict(chosen)


def _remove(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
    key = equality_key(_element(given))

    def others(values: list[Any] | None, unwanted: Any) -> list[Any] | None:
        removed = key(unwanted)
        return None if values is None else [value for value in values if key(value) != removed]

    return others


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
    """AS_MAP. A key without a value gets null; a value without a key is ignored."""
    return dict(zip_longest(keys, values[: len(keys)]))


@primitive(1)
def _entries(values: dict[str, Any] | None, is_sorted: bool | None) -> list[dict[str, Any]] | None:
    if values is None:
        return None
    if is_sorted and None in values:
        raise NullValue("found NULL among the keys, expected keys that can be sorted")
    keys = sorted(values, key=utf16) if is_sorted else list(values)
    return [{"K": key, "V": values[key]} for key in keys]


def _filter(values: Any, holds: Callable[..., Any]) -> Any:
    if values is None:
        return None
    if isinstance(values, dict):
        return {key: _entry_value(value) for key, value in values.items() if _decided(holds(key, value))}
    return [value for value in values if _decided(holds(value))]


def _decided(answer: bool | None) -> bool:
    if answer is None:
        raise NullValue("found NULL from the lambda, expected true or false")
    return answer


def _entry_value(value: Any) -> Any:
    """Check a value of a new map. ksqlDB's FILTER and TRANSFORM fail at a null value."""
    if value is None:
        raise NullValue("found NULL as a value of the new map, expected a value")
    return value


def _transform(values: Any, *makers: Callable[..., Any]) -> Any:
    if values is None:
        return None
    if isinstance(values, dict):
        key_of, value_of = makers
        made: dict[Any, Any] = {}
        for key, value in values.items():
            new = key_of(key, value)
            new_value = _entry_value(value_of(key, value))
            if new in made:
                raise ValueError(f"found the key {new!r} twice, expected different keys")
            made[new] = new_value
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


@primitive(0, 1, 2)
def _series(first: int, last: int, step: int | None = None) -> list[int]:
    by = (1 if last >= first else -1) if step is None else step
    if by == 0:
        raise ValueError("found a step of 0, expected another")
    if (last - first) * by < 0:
        raise ValueError(
            f"found a step of {by} from {first} to {last}, expected a step towards the last number"
        )
    size = (last - first) // by + 1
    if size >= INTEGER_BOUND:
        raise ValueError(f"found a series of {size} numbers, expected fewer than {INTEGER_BOUND}")
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
    if start < 0 or end > len(values):
        return None
    if start > end:
        raise ValueError(f"found the positions {start + 1} and {end}, expected the first before the last")
    return values[start:end]


_JOINED: Final[dict[SqlType, Callable[[Any], str]]] = {
    types.BOOLEAN: format_boolean,
    types.INTEGER: str,
    types.BIGINT: str,
    types.DOUBLE: double_text,
    types.STRING: str,
}


def _join(given: Sequence[Any], result: SqlType) -> Callable[..., Any]:
    element = _element(given)
    shown = str if element is None or isinstance(element, Decimal) else _JOINED.get(element)

    def text_of(value: Any) -> str:
        if value is None:
            return "null"
        if shown is None:
            raise ValueError(f"found an element of type {element}, expected a string, number or boolean")
        return shown(value)

    def joined(values: list[Any] | None, delimiter: str | None = ",") -> str | None:
        return None if values is None else (delimiter or "").join(map(text_of, values))

    return joined


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "ARRAY_CONCAT": _concat,
    "ARRAY_LENGTH": strict(len),
    "AS_MAP": strict(_as_map),
    "ENTRIES": _entries,
    "FILTER": _filter,
    "GENERATE_SERIES": _series,
    "MAP_KEYS": strict(list),
    "MAP_UNION": _map_union,
    "MAP_VALUES": strict(lambda values: list(values.values())),
    "REDUCE": _reduce,
    "SLICE": _slice,
    "TRANSFORM": _transform,
}
BY_TYPE: Final[dict[str, Callable[[Sequence[Any], SqlType], Callable[..., Any]]]] = {
    "ARRAY_CONTAINS": _contains,
    "ARRAY_DISTINCT": _of_sets(_distinct),
    "ARRAY_EXCEPT": _of_sets(_except),
    "ARRAY_INTERSECT": _of_sets(_intersection),
    "ARRAY_JOIN": _join,
    "ARRAY_MAX": lambda given, result: _extreme(largest(result)),
    "ARRAY_MIN": lambda given, result: _extreme(smallest(result)),
    "ARRAY_REMOVE": _remove,
    "ARRAY_SORT": _sort,
    "ARRAY_UNION": _of_sets(_distinct),
}
