"""Vectorised functions: functions over the values of many records, as Arrow arrays or pandas Series.

A `Vectorised` function can also be called with one record's arguments, and then receives columns of length
one, so it can be used wherever a function can. An operator that supports it
(`penstock.topology.tasks.stages`) passes it the records of a batch in one call, and each record gets its own
result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from penstock.topology.errors import InvalidRecord, TopologyError

ColumnType: TypeAlias = Any
"""A `pyarrow.DataType`, for Arrow arrays; or a pandas dtype or its name, for Series."""


class Vectorised:
    """A function ``(column, …) -> column``, with one column per type. See `vectorised`."""

    def __init__(self, function: Callable[..., Any], types: Sequence[ColumnType]) -> None:
        self.function = function
        self.types = tuple(types)
        self._is_arrow = all(map(_is_arrow, self.types))
        if not self._is_arrow and any(map(_is_arrow, self.types)):
            raise TopologyError(
                f"{_named(function)} takes Arrow arrays or pandas Series, not both: found types {[*types]}"
            )

    def __repr__(self) -> str:
        return f"<vectorised {_named(self.function)}>"

    def __call__(self, *arguments: Any) -> Any:
        """Return the result for one record, from the last arguments, one for each type."""
        return self.many(*([argument] for argument in arguments))[0]

    def many(self, *columns: list[Any]) -> list[Any]:
        """Return the results for many records. Raises InvalidRecord if their numbers differ."""
        if len(columns) < len(self.types):
            raise TopologyError(
                f"{self} takes {len(self.types)} columns, but only the column of values is available"
            )
        taken = columns[-len(self.types) :]
        results = _as_list(self.function(*map(self.column, taken, self.types)))
        if len(results) != len(columns[0]):
            raise InvalidRecord(f"{self} gave {len(results)} results for {len(columns[0])} records")
        return results

    def column(self, values: list[Any], kind: ColumnType) -> Any:
        if self._is_arrow:
            import pyarrow as pa

            return pa.array(values, kind)
        import pandas as pd

        return pd.Series(values, dtype=kind)


def vectorised(*types: ColumnType) -> Callable[[Callable[..., Any]], Vectorised]:
    """Call the decorated function with columns of many records' values instead of one record's values.

    ``types`` are the types of the columns: Arrow types for Arrow arrays, pandas dtypes (or their names) for
    Series; one type for the value, two for key and value. The function's result (array, Series, NumPy array
    or list) has one entry for each record, in order. An entry must depend on its own record only, because the
    grouping of records into calls is arbitrary. Nulls stay nulls.

        >>> import pyarrow as pa
        >>> import pyarrow.compute as pc
        >>> from penstock.streams import App, TopologyTest, long, string, vectorised
        >>> @vectorised(pa.int64())
        ... def doubled(values):
        ...     return pc.multiply(values, 2)
        >>> app = App("doubling", key=string, value=long)
        >>> app.stream("numbers").map_values(doubled).to("doubled", value=long)
        >>> test = TopologyTest(app)
        >>> test.input("numbers").pipe("a", 4)
        >>> test.output("doubled").read_values()
        [('a', 8)]

    The result can be used wherever an operation takes a function of key and value. It is called once per
    batch by ``map_values``, ``filter``, ``filter_not`` and ``select_key`` of streams, and as the aggregator
    of ``aggregate``. An aggregator has the form ``(key, values, aggregate) -> aggregate`` for the values of
    one key, and must give the same result however the values are split into calls. If a function raises for a
    batch, it is called again for each record, to find the record that caused the error.

    Raises TopologyError if no type is given.
    """
    if not types or (len(types) == 1 and callable(types[0]) and not isinstance(types[0], type)):
        raise TopologyError(
            "vectorised(…) takes the types of the columns: @vectorised(pa.int64()) or (…'Int64')"
        )

    def mark(function: Callable[..., Any]) -> Vectorised:
        return Vectorised(function, types)

    return mark


class Fold:
    """An aggregator that can fold several values of a key at once, or, when called, a single value."""

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:
        return self.fold(key, [value], aggregate)

    def fold(self, key: Any, values: list[Any], aggregate: Any) -> Any:
        """Return the aggregate after all values, of which there is at least one."""
        raise NotImplementedError


class VectorisedFold(Fold):
    """A vectorised function as an aggregator: ``(key, values, aggregate) -> aggregate``."""

    def __init__(self, function: Vectorised) -> None:
        if len(function.types) != 1:
            raise TopologyError(
                f"{function} is an aggregator: expected one type, that of the values, "
                f"found {[*function.types]}"
            )
        self.vectorised = function

    def fold(self, key: Any, values: list[Any], aggregate: Any) -> Any:
        given = self.vectorised
        return given.function(key, given.column(values, given.types[0]), aggregate)


class Count(Fold):
    def __call__(self, key: Any, value: Any, aggregate: int) -> int:
        return aggregate + 1

    def fold(self, key: Any, values: list[Any], aggregate: int) -> int:
        return aggregate + len(values)


class Sum(Fold):
    """Adds the values one after the other, because the built-in `sum` rounds floats differently."""

    def __init__(self, of: Callable[[Any], Any] | None) -> None:
        self.of = of

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:
        return aggregate + (value if self.of is None else self.of(value))

    def fold(self, key: Any, values: list[Any], aggregate: Any) -> Any:
        for value in values if self.of is None else map(self.of, values):
            aggregate = aggregate + value
        return aggregate


class Extreme(Fold):
    """Keeps the least or the greatest value, by ``choose``: `min` or `max`."""

    def __init__(self, choose: Callable[..., Any], of: Callable[[Any], Any] | None) -> None:
        self.choose = choose
        self.of = of

    def fold(self, key: Any, values: list[Any], aggregate: Any) -> Any:
        found = self.choose(values if self.of is None else map(self.of, values))
        return found if aggregate is None else self.choose(aggregate, found)


class Mean(Fold):
    """Keeps sum and count."""

    def __init__(self, of: Callable[[Any], Any] | None) -> None:
        self.sum = Sum(of)

    def fold(self, key: Any, values: list[Any], aggregate: tuple[float, int]) -> tuple[float, int]:
        total, count = aggregate
        return self.sum.fold(key, values, total), count + len(values)


def aggregator(function: Callable[..., Any]) -> Callable[..., Any]:
    """Convert a user's aggregator to the form that operators accept."""
    return VectorisedFold(function) if isinstance(function, Vectorised) else function


def _is_arrow(kind: ColumnType) -> bool:
    return type(kind).__module__.startswith("pyarrow")


def _named(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _as_list(column: Any) -> list[Any]:
    """Convert a column to Python objects, with None for missing values."""
    if hasattr(column, "to_pylist"):
        return _arrow_list(column)
    if hasattr(column, "isna"):
        import pandas as pd

        # A NaN among floats is an IEEE 754 number; every other missing value is None.
        return [None if value is pd.NA or value is pd.NaT else value for value in column.tolist()]
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _arrow_list(column: Any) -> list[Any]:
    """Convert as ``to_pylist`` does, for common types in a tenth of the time.

    ``to_pylist`` creates a scalar for each value.
    """
    import pyarrow as pa

    kind, types = column.type, pa.types
    found: list[Any]
    if types.is_integer(kind) or types.is_floating(kind):
        found = column.fill_null(0).to_numpy().tolist()  # a null would turn all values into floats
        if column.null_count:
            for row in column.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
                found[row] = None
    elif types.is_boolean(kind) or types.is_string(kind) or types.is_binary(kind):
        found = column.to_numpy(zero_copy_only=False).tolist()
    else:
        found = column.to_pylist()
    return found
