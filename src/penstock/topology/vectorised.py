"""Functions over the values of many records at once, as Arrow arrays or pandas Series.

A `Vectorised` function is called like any other, with one record's arguments: then it gets columns of
length one. So it may stand wherever a function may. Where an operator knows it (`penstock.topology.batches`)
it gets the records of a batch in one call, and each record its own result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from penstock.topology.errors import InvalidRecord, TopologyError

ColumnType: TypeAlias = Any
"""A `pyarrow.DataType`, for Arrow arrays; or a pandas dtype or its name, for Series."""


class Vectorised:
    """``function(column, …) -> column``, a column of each type. See `vectorised`."""

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
        """The result for one record. Of its arguments the last ones are taken, one for each type."""
        return self.many(*([argument] for argument in arguments))[0]

    def many(self, *columns: list[Any]) -> list[Any]:
        """The results for many records. Raises InvalidRecord where there are more or fewer than records."""
        if len(columns) < len(self.types):
            raise TopologyError(
                f"{self} takes {len(self.types)} columns; here there is only that of the values"
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
    """Have a function called with columns of many records' values, rather than with one record's.

    ``types`` tells what its columns are: Arrow types for Arrow arrays, pandas dtypes (or their names) for
    Series; one type for the value, two for key and value. What the function gives (array, Series, NumPy
    array or list) has one result for each record, in their order, and each is of that record alone: which
    records come together is chance. Nulls are nulls.

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

    It serves wherever an operation takes a function of key and value. A batch at a time it is called by
    ``map_values``, ``filter``, ``filter_not`` and ``select_key`` of streams, and as the aggregator of
    ``aggregate``: there it is ``(key, values, aggregate) -> aggregate`` for the values of one key, and must
    give the same however the values are cut. A function that raises for a batch is called again for each
    record, so that the one to blame is found.

    Raises TopologyError where there is no type.
    """
    if not types or (len(types) == 1 and callable(types[0]) and not isinstance(types[0], type)):
        raise TopologyError(
            "vectorised(…) takes the types of the columns: @vectorised(pa.int64()) or (…'Int64')"
        )

    def mark(function: Callable[..., Any]) -> Vectorised:
        return Vectorised(function, types)

    return mark


class Fold:
    """An aggregator that may take several values of a key at once. Called with one value it takes one."""

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:
        return self.fold(key, [value], aggregate)

    def fold(self, key: Any, values: list[Any], aggregate: Any) -> Any:
        """The aggregate with all the values, which are at least one."""
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
    """One after the other: what `sum` makes of floats is another number."""

    def __init__(self, of: Callable[[Any], Any] | None) -> None:
        self.of = of

    def __call__(self, key: Any, value: Any, aggregate: Any) -> Any:
        return aggregate + (value if self.of is None else self.of(value))

    def fold(self, key: Any, values: list[Any], aggregate: Any) -> Any:
        for value in values if self.of is None else map(self.of, values):
            aggregate = aggregate + value
        return aggregate


class Extreme(Fold):
    """The least or the greatest, by ``choose``: `min` or `max`."""

    def __init__(self, choose: Callable[..., Any], of: Callable[[Any], Any] | None) -> None:
        self.choose = choose
        self.of = of

    def fold(self, key: Any, values: list[Any], aggregate: Any) -> Any:
        found = self.choose(values if self.of is None else map(self.of, values))
        return found if aggregate is None else self.choose(aggregate, found)


class Mean(Fold):
    """Sum and count."""

    def __init__(self, of: Callable[[Any], Any] | None) -> None:
        self.sum = Sum(of)

    def fold(self, key: Any, values: list[Any], aggregate: tuple[float, int]) -> tuple[float, int]:
        total, count = aggregate
        return self.sum.fold(key, values, total), count + len(values)


def aggregator(function: Callable[..., Any]) -> Callable[..., Any]:
    """As operators take it."""
    return VectorisedFold(function) if isinstance(function, Vectorised) else function


def _is_arrow(kind: ColumnType) -> bool:
    return type(kind).__module__.startswith("pyarrow")


def _named(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))


def _as_list(column: Any) -> list[Any]:
    """Python's objects, with None for what is missing."""
    if hasattr(column, "to_pylist"):
        return _arrow_list(column)
    if hasattr(column, "isna"):
        import pandas as pd

        # A NaN among floats is a number of IEEE 754; what else is missing is None.
        return [None if value is pd.NA or value is pd.NaT else value for value in column.tolist()]
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _arrow_list(column: Any) -> list[Any]:
    """As ``to_pylist``, in a tenth of the time for the usual types: it makes a scalar of each value."""
    import pyarrow as pa

    kind, types = column.type, pa.types
    found: list[Any]
    if types.is_integer(kind) or types.is_floating(kind):
        found = column.fill_null(0).to_numpy().tolist()  # a null would make floats of all
        if column.null_count:
            for row in column.is_null().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
                found[row] = None
    elif types.is_boolean(kind) or types.is_string(kind) or types.is_binary(kind):
        found = column.to_numpy(zero_copy_only=False).tolist()
    else:
        found = column.to_pylist()
    return found
