"""The operators of a topology that read, rekey, flatten and write rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter
from typing import Any

from sqlglot import exp

from penstock.sql.catalog import Column, DataSource, Role
from penstock.sql.formats import headers_reader
from penstock.sql.planning.processing_log import RowFailed
from penstock.topology.context import Context
from penstock.topology.graph import Operator
from penstock.topology.records import Forward, Headers
from penstock.topology.serdes import Windowed

Row = tuple[Any, ...]
RowReader = Callable[[Row], Row]


@dataclass(frozen=True, slots=True)
class ReadRows(Operator):
    """Turn the records of a source into rows of all its columns and pseudo columns."""

    source: DataSource

    @property
    def reads_alone(self) -> bool:  # type: ignore[override]  # the same for every instance
        return True

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        source = self.source
        key_count = len(source.keys)
        no_key = (None,) * key_count
        header_columns = [each for each in source.columns if each.role is Role.HEADERS]
        headers_of = headers_reader(header_columns) if header_columns else None
        in_order = _order(source)

        def process(key: Any, value: Any, timestamp_ms: int, headers: Headers) -> None:
            if value is None:
                forward(key, None, timestamp_ms, headers)
                return
            window: Row = ()
            keys = key
            if type(key) is Windowed:
                window = (key.window.start_ms, key.window.end_ms)
                keys = key.key
            record = context.record
            row = (keys or no_key) + value
            if headers_of is not None:
                row += headers_of(headers)
            if in_order is not None:
                row = in_order(row)
            forward(key, (*row, timestamp_ms, record[1], record[2], *window), timestamp_ms, headers)

        return process


def _order(source: DataSource) -> RowReader | None:
    """A function that puts keys, values and headers into the columns' declared order; None if they are."""
    roles = (Role.KEY, Role.VALUE, Role.HEADERS)
    read = [each.name for role in roles for each in source.columns if each.role is role]
    wanted = [each.name for each in source.columns]
    if read == wanted:
        return None
    return picker([read.index(name) for name in wanted])


def picker(places: Sequence[int]) -> RowReader:
    """Return a function that picks the values at these places, always as a tuple."""
    if len(places) == 1:
        return _single(places[0])
    return itemgetter(*places) if places else _nothing


def _single(place: int) -> RowReader:
    return lambda row: (row[place],)


def _nothing(row: Row) -> Row:
    return ()


class KeyAlone:
    """The new key of a tombstone, computed from its old key; columns computed from anything else are null."""

    def __init__(self, key: RowReader, expressions: Sequence[exp.Expr], schema: Sequence[Column]) -> None:
        self._made_of = (key, tuple(expressions), tuple(schema))
        self._key, self._width = key, len(schema)
        self._places = [place for place, each in enumerate(schema) if each.role is Role.KEY]
        known = {schema[place].name for place in self._places}
        self._is_known = [
            {found.name for found in each.find_all(exp.Column)} <= known for each in expressions
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyAlone, self._made_of

    def __call__(self, key: Any) -> Row:
        row: list[Any] = [None] * self._width
        values = key.key if type(key) is Windowed else key
        for place, value in zip(self._places, values or (), strict=False):
            row[place] = value
        made = self._key(tuple(row))
        return tuple(
            [value if is_known else None for value, is_known in zip(made, self._is_known, strict=True)]
        )


class Nulls(Enum):
    """The treatment of a row whose new key contains a null."""

    DROP = "the row is dropped, and so is a tombstone"
    NO_KEY = "the row has no key"
    KEEP = "the key has the null in it"


@dataclass(frozen=True, slots=True)
class RekeyRows(Operator):
    """Give rows the key ``key(row)``, or no key if ``key`` is None."""

    key: RowReader | None
    nulls: Nulls
    alone: KeyAlone | None = None
    """The new keys of tombstones that are not dropped; these have only their old key."""

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        read, nulls, alone = self.key, self.nulls, self.alone

        def process(key: Any, row: Any, timestamp_ms: int, headers: Headers) -> None:
            if read is None:
                forward(None, row, timestamp_ms, headers)
                return
            if row is None:
                if nulls is Nulls.DROP:
                    context.drop(node)
                else:
                    forward(None if alone is None else alone(key), None, timestamp_ms, headers)
                return
            made: Row | None = read(row)
            if nulls is not Nulls.KEEP and made is not None and None in made:
                if nulls is Nulls.DROP:
                    context.drop(node)
                    place = made.index(None)
                    context.report(node, RowFailed(f"The key's column {place} is null: the row is dropped"))
                    return
                made = None
            forward(made, row, timestamp_ms, headers)

        return process


@dataclass(frozen=True, slots=True)
class FlattenRows(Operator):
    """Emit one row for each value of the table functions; nulls fill up those that return fewer values."""

    arguments: RowReader
    functions: tuple[tuple[int, int, Callable[..., Iterable[Any] | None]], ...]
    """For each call, the range of its arguments, and the function that it calls."""

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        arguments, functions, failed = self.arguments, self.functions, context.failed

        def process(key: Any, row: Any, timestamp_ms: int, headers: Headers) -> None:
            if row is None:
                return
            values = arguments(row)
            try:
                lists = [list(function(*values[begin:end]) or ()) for begin, end, function in functions]
            except Exception as error:
                failure = RowFailed("A table function failed: its rows are dropped")
                failure.__cause__ = error
                failed(node, failure)
                return
            for number in range(max(map(len, lists))):
                made = [each[number] if number < len(each) else None for each in lists]
                forward(key, (*row, *made), timestamp_ms, headers)

        return process


@dataclass(frozen=True, slots=True)
class WriteRows(Operator):
    """Turn rows into the values of a sink's records; keys stay.

    ``timestamp`` returns a row's own time; a row without a valid one is dropped. If ``timestamp`` is None,
    records keep their timestamps.
    """

    value: RowReader
    timestamp: Callable[[Row], int | None] | None

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        value_of, time_of = self.value, self.timestamp

        def process(key: Any, row: Any, timestamp_ms: int, headers: Headers) -> None:
            if row is None:
                forward(key, None, timestamp_ms, headers)
                return
            if time_of is not None:
                found_ms = time_of(row)
                if found_ms is None or found_ms < 0:
                    context.drop(node)
                    context.report(node, RowFailed("The row has no valid time: it is dropped"))
                    return
                timestamp_ms = found_ms
            forward(key, value_of(row), timestamp_ms, headers)

        return process


@dataclass(frozen=True, slots=True)
class TakeRows(Operator):
    """The end of a query whose rows this process reads: ``take`` receives each key and row."""

    take: Callable[[Any, Row | None], None]

    def compile(self, node: str, context: Context, forward: Forward) -> Forward:
        take = self.take

        def process(key: Any, row: Any, timestamp_ms: int, headers: Headers) -> None:
            take(key, row)

        return process
