"""Aggregate functions, whose state rows are added to and, for tables, removed from."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal as Number
from functools import partial
from typing import Any, Final

from penstock.sql.evaluation.builtin import cardinality
from penstock.sql.evaluation.numbers import fitted
from penstock.sql.evaluation.order import largest, order_of, smallest
from penstock.sql.language import types
from penstock.sql.language.types import Array, Decimal, SqlType

Types = Sequence[SqlType | None]
Constants = Sequence[Any]
HISTOGRAM_KEYS_MAX: Final = 1000
_LIST_LIMIT: Final = "ksql.functions.collect_list.limit"
_SET_LIMIT: Final = "ksql.functions.collect_set.limit"
LIMITS: Final = (_LIST_LIMIT, _SET_LIMIT)
"""The query properties that aggregate functions read."""


class Aggregate(ABC):
    """The aggregation of one call. Functions that may aggregate a table's changes implement ``undo``."""

    @abstractmethod
    def initial(self) -> Any:
        """The state of a group without rows."""

    @abstractmethod
    def add(self, state: Any, *values: Any) -> Any:
        """Add a row, and return the new state. It must not change the given state."""

    def undo(self, state: Any, *values: Any) -> Any:
        raise TypeError(f"{type(self).__name__} cannot remove rows")

    @abstractmethod
    def merge(self, one: Any, other: Any) -> Any:
        """Merge the states of two sessions that become one. ``one`` is the earlier session."""

    @abstractmethod
    def result(self, state: Any) -> Any:
        """Compute the value in the group's row."""


class Count(Aggregate):
    def __init__(self, types_: Types, constants: Constants) -> None:
        self._all = not types_

    def initial(self) -> int:
        return 0

    def add(self, state: int, *values: Any) -> int:
        return state + 1 if self._all or values[0] is not None else state

    def undo(self, state: int, *values: Any) -> int:
        return state - 1 if self._all or values[0] is not None else state

    def merge(self, one: int, other: int) -> int:
        return one + other

    def result(self, state: int) -> int:
        return state


def _wrapper(bits: int) -> Callable[[int], int]:
    half, whole = 1 << (bits - 1), 1 << bits
    return lambda value: (value + half) % whole - half


_INTEGER, _BIGINT = _wrapper(32), _wrapper(64)


def _arithmetic(type_: SqlType | None) -> tuple[Any, Callable[[Any], Any]]:
    """The zero of a type, and a function that fits a sum into its range."""
    if type_ == types.INTEGER:
        return 0, _INTEGER
    if type_ == types.BIGINT:
        return 0, _BIGINT
    if isinstance(type_, Decimal):
        return Number(0).scaleb(-type_.scale), partial(fitted, type_=type_)
    return 0.0, lambda value: value


class Sum(Aggregate):
    def __init__(self, types_: Types, constants: Constants) -> None:
        self._zero, self._fit = _arithmetic(types_[0])

    def initial(self) -> Any:
        return self._zero

    def add(self, state: Any, *values: Any) -> Any:
        return state if values[0] is None else self._fit(state + values[0])

    def undo(self, state: Any, *values: Any) -> Any:
        return state if values[0] is None else self._fit(state - values[0])

    def merge(self, one: Any, other: Any) -> Any:
        return self._fit(one + other)

    def result(self, state: Any) -> Any:
        return state


class SumList(Sum):
    def __init__(self, types_: Types, constants: Constants) -> None:
        element = types_[0].element if isinstance(types_[0], Array) else None
        super().__init__([element], constants)

    def add(self, state: Any, *values: Any) -> Any:
        for value in values[0] or ():
            state = super().add(state, value)
        return state

    def undo(self, state: Any, *values: Any) -> Any:
        for value in values[0] or ():
            state = super().undo(state, value)
        return state


class Average(Aggregate):
    """AVG. The state is the sum and the count."""

    def __init__(self, types_: Types, constants: Constants) -> None:
        pass

    def initial(self) -> list[float]:
        return [0.0, 0]

    def add(self, state: list[float], *values: Any) -> list[float]:
        return state if values[0] is None else [state[0] + float(values[0]), state[1] + 1]

    def undo(self, state: list[float], *values: Any) -> list[float]:
        return state if values[0] is None else [state[0] - float(values[0]), state[1] - 1]

    def merge(self, one: list[float], other: list[float]) -> list[float]:
        return [one[0] + other[0], one[1] + other[1]]

    def result(self, state: list[float]) -> float:
        return state[0] / state[1] if state[1] else 0.0


def _as_it_is(value: Any) -> Any:
    return value


class Extreme(Aggregate):
    def __init__(self, choose: Callable[[Any, Any], Any]) -> None:
        self._choose = choose

    def initial(self) -> None:
        return None

    def add(self, state: Any, *values: Any) -> Any:
        return self.merge(state, values[0])

    def merge(self, one: Any, other: Any) -> Any:
        if one is None or other is None:
            return one if other is None else other
        return self._choose(one, other)

    def result(self, state: Any) -> Any:
        return state


class CollectList(Aggregate):
    """COLLECT_LIST. It keeps the first ``size_max`` values, or all if that is None."""

    def __init__(self, types_: Types, constants: Constants, size_max: int | None) -> None:
        self._size_max = size_max

    def _is_full(self, state: list[Any]) -> bool:
        return self._size_max is not None and len(state) >= self._size_max

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], *values: Any) -> list[Any]:
        return state if self._is_full(state) else [*state, values[0]]

    def undo(self, state: list[Any], *values: Any) -> list[Any]:
        """Remove the last of the values that are equal to this one."""
        for place in range(len(state) - 1, -1, -1):
            if state[place] == values[0]:
                return state[:place] + state[place + 1 :]
        return state

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return (one + other)[: self._size_max]

    def result(self, state: list[Any]) -> list[Any]:
        return state


class CollectSet(CollectList):
    def add(self, state: list[Any], *values: Any) -> list[Any]:
        return state if values[0] in state else super().add(state, *values)

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return super().merge(one, [value for value in other if value not in one])


class CountDistinct(Aggregate):
    """COUNT_DISTINCT. The state is a sketch of bounded size."""

    def __init__(self, types_: Types, constants: Constants) -> None:
        pass

    def initial(self) -> bytes:
        return cardinality.EMPTY

    def add(self, state: bytes, *values: Any) -> bytes:
        return state if values[0] is None else cardinality.added(state, values[0])

    def merge(self, one: bytes, other: bytes) -> bytes:
        return cardinality.merged(one, other)

    def result(self, state: bytes) -> int:
        return cardinality.estimate(state)


_last_number = 0


def _next_number() -> int:
    """A number greater than all earlier ones of this process, and of others as far as their clocks agree.

    A group may be processed by a different worker in each batch.
    """
    global _last_number
    _last_number = max(_last_number + 1, time.time_ns())
    return _last_number


class ByOffset(Aggregate):
    """EARLIEST_BY_OFFSET or LATEST_BY_OFFSET, which keep the first or the last values.

    Each value has a sequence number, because the values of two sessions that are merged may interleave.
    """

    def __init__(self, types_: Types, constants: Constants, *, latest: bool) -> None:
        numbers = [each for each in constants[1:] if isinstance(each, int) and not isinstance(each, bool)]
        flags = [each for each in constants[1:] if isinstance(each, bool)]
        self._several = numbers[0] if numbers else None
        self._size = numbers[0] if numbers else 1
        self._takes_nulls = bool(flags) and not flags[0]
        self._latest = latest

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], *values: Any) -> list[Any]:
        if values[0] is None and not self._takes_nulls:
            return state
        if not self._latest and len(state) >= self._size:
            return state
        return self._kept([*state, [_next_number(), values[0]]])

    def _kept(self, state: list[Any]) -> list[Any]:
        return state[-self._size :] if self._latest else state[: self._size]

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return self._kept(sorted([*one, *other], key=lambda each: each[0]))

    def result(self, state: list[Any]) -> Any:
        values = [value for _, value in state]
        if self._several is not None:
            return values
        return values[0] if values else None


class Largest(Aggregate):
    """TOPK or TOPKDISTINCT, which keep the k largest values, each with its further columns."""

    def __init__(self, types_: Types, constants: Constants, *, distinct: bool) -> None:
        self._size = int(constants[-1])
        self._columns = len(types_) - 1
        self._distinct = distinct
        self._order = order_of(types_[0]) or _as_it_is

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], *values: Any) -> list[Any]:
        if values[0] is None:
            return state
        return self._kept([*state, list(values[: self._columns])])

    def _kept(self, rows: list[Any]) -> list[Any]:
        if self._distinct:
            rows = [row for place, row in enumerate(rows) if row not in rows[:place]]
        order = self._order
        return sorted(rows, key=lambda row: order(row[0]), reverse=True)[: self._size]

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return self._kept([*one, *other])

    def result(self, state: list[Any]) -> list[Any]:
        if self._columns == 1:
            return [row[0] for row in state]
        names = ["sort_col", *(f"col{number}" for number in range(self._columns - 1))]
        return [dict(zip(names, row, strict=True)) for row in state]


class Histogram(Aggregate):
    def __init__(self, types_: Types, constants: Constants) -> None:
        pass

    def initial(self) -> dict[str, int]:
        return {}

    def add(self, state: dict[str, int], *values: Any) -> dict[str, int]:
        value = values[0]
        if value is None or (value not in state and len(state) >= HISTOGRAM_KEYS_MAX):
            return state
        return {**state, value: state.get(value, 0) + 1}

    def undo(self, state: dict[str, int], *values: Any) -> dict[str, int]:
        value = values[0]
        if value not in state:
            return state
        left = {**state, value: state[value] - 1}
        return {key: number for key, number in left.items() if number > 0}

    def merge(self, one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
        merged = dict(one)
        for value, number in other.items():
            if value in merged or len(merged) < HISTOGRAM_KEYS_MAX:
                merged[value] = merged.get(value, 0) + number
        return merged

    def result(self, state: dict[str, int]) -> dict[str, int]:
        return state


class Deviation(Aggregate):
    """STDDEV_SAMP or STDDEV_SAMPLE. STDDEV_SAMP returns the variance, as it does in ksqlDB.

    The state is the count, the mean, and the sum of squared distances from the mean (Welford 1962, Chan et
    al. 1979).
    """

    def __init__(self, types_: Types, constants: Constants, *, is_root: bool) -> None:
        self._is_root = is_root

    def initial(self) -> list[float]:
        return [0, 0.0, 0.0]

    def add(self, state: list[float], *values: Any) -> list[float]:
        if values[0] is None:
            return state
        rows, mean, squares = state
        value = float(values[0])
        moved = mean + (value - mean) / (rows + 1)
        return [rows + 1, moved, squares + (value - mean) * (value - moved)]

    def undo(self, state: list[float], *values: Any) -> list[float]:
        rows, mean, squares = state
        if values[0] is None or rows <= 1:
            return state if values[0] is None else self.initial()
        value = float(values[0])
        before = mean - (value - mean) / (rows - 1)
        return [rows - 1, before, squares - (value - before) * (value - mean)]

    def merge(self, one: list[float], other: list[float]) -> list[float]:
        rows = one[0] + other[0]
        if not rows:
            return one
        apart = other[1] - one[1]
        mean = one[1] + apart * other[0] / rows
        return [rows, mean, one[2] + other[2] + apart * apart * one[0] * other[0] / rows]

    def result(self, state: list[float]) -> float:
        rows, _, squares = state
        if rows < 2:
            return 0.0
        variance = max(0.0, squares / (rows - 1))
        return math.sqrt(variance) if self._is_root else variance


class Correlation(Aggregate):
    """CORRELATION. The state is the count, both sums, both sums of squares, and the sum of products."""

    def __init__(self, types_: Types, constants: Constants) -> None:
        pass

    def initial(self) -> list[float]:
        return [0, 0.0, 0.0, 0.0, 0.0, 0.0]

    def add(self, state: list[float], *values: Any) -> list[float]:
        return self._moved(state, values, 1)

    def undo(self, state: list[float], *values: Any) -> list[float]:
        return self._moved(state, values, -1)

    @staticmethod
    def _moved(state: list[float], values: Sequence[Any], sign: int) -> list[float]:
        if values[0] is None or values[1] is None:
            return state
        x, y = float(values[0]), float(values[1])
        return [kept + sign * more for kept, more in zip(state, (1, x, y, x * x, y * y, x * y), strict=True)]

    def merge(self, one: list[float], other: list[float]) -> list[float]:
        return [left + right for left, right in zip(one, other, strict=True)]

    def result(self, state: list[float]) -> float:
        rows, x, y, xx, yy, xy = state
        spread = math.sqrt(max(0.0, rows * xx - x * x) * max(0.0, rows * yy - y * y))
        return (rows * xy - x * y) / spread if spread else math.nan


class Attribute(Aggregate):
    """ATTR. The state is the number of occurrences of each value."""

    def __init__(self, types_: Types, constants: Constants) -> None:
        pass

    def initial(self) -> list[Any]:
        return []

    def add(self, state: list[Any], *values: Any) -> list[Any]:
        return self._moved(state, values[0], 1)

    def undo(self, state: list[Any], *values: Any) -> list[Any]:
        return self._moved(state, values[0], -1)

    @staticmethod
    def _moved(state: list[Any], value: Any, by: int) -> list[Any]:
        known = any(found == value for found, _ in state)
        moved = [[found, number + by if found == value else number] for found, number in state]
        if not known and by > 0:
            moved.append([value, by])
        return [[found, number] for found, number in moved if number > 0]

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        for value, number in other:
            one = self._moved(one, value, number)
        return one

    def result(self, state: list[Any]) -> Any:
        return state[0][0] if len(state) == 1 else None


class AggregateFunction:
    """An aggregate function. ``limit`` names the property that limits the number of values in a state."""

    def __init__(self, maker: Callable[..., Aggregate], limit: str | None = None) -> None:
        self._maker = maker
        self._limit = limit

    def bind(self, types_: Types, constants: Constants, settings: Mapping[str, str]) -> Aggregate:
        """Create the aggregation of one call.

        ``types_`` are the types of the call's arguments, ``constants`` the values of the constant ones, and
        ``settings`` the query's properties.
        """
        if self._limit is None:
            return self._maker(types_, constants)
        size_max = int(settings.get(self._limit, "-1"))
        return self._maker(types_, constants, size_max if size_max >= 0 else None)


AGGREGATES: Final[Mapping[str, AggregateFunction]] = {
    "ATTR": AggregateFunction(Attribute),
    "AVG": AggregateFunction(Average),
    "COLLECT_LIST": AggregateFunction(CollectList, _LIST_LIMIT),
    "COLLECT_SET": AggregateFunction(CollectSet, _SET_LIMIT),
    "CORRELATION": AggregateFunction(Correlation),
    "COUNT": AggregateFunction(Count),
    "COUNT_DISTINCT": AggregateFunction(CountDistinct),
    "EARLIEST_BY_OFFSET": AggregateFunction(
        lambda kinds, constants: ByOffset(kinds, constants, latest=False)
    ),
    "HISTOGRAM": AggregateFunction(Histogram),
    "LATEST_BY_OFFSET": AggregateFunction(lambda kinds, constants: ByOffset(kinds, constants, latest=True)),
    "MAX": AggregateFunction(lambda kinds, constants: Extreme(largest(kinds[0]))),
    "MIN": AggregateFunction(lambda kinds, constants: Extreme(smallest(kinds[0]))),
    "STDDEV_SAMP": AggregateFunction(lambda kinds, constants: Deviation(kinds, constants, is_root=False)),
    "STDDEV_SAMPLE": AggregateFunction(lambda kinds, constants: Deviation(kinds, constants, is_root=True)),
    "SUM": AggregateFunction(Sum),
    "SUM_LIST": AggregateFunction(SumList),
    "TOPK": AggregateFunction(lambda kinds, constants: Largest(kinds, constants, distinct=False)),
    "TOPKDISTINCT": AggregateFunction(lambda kinds, constants: Largest(kinds, constants, distinct=True)),
}
