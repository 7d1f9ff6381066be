"""The condition and the order of a query for rows that were not read yet."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from penstock.connect.connectors.sql.dialects import Column, Dialect
from penstock.connect.connectors.sql.source.offsets import Position
from penstock.connect.errors import ConnectError


@dataclass(frozen=True, slots=True)
class Span:
    """The rows of one query: behind a position, and before a moment if there are timestamps."""

    after: Position
    before: datetime.datetime | None


class Criteria:
    """The columns by which new rows are found."""

    def __init__(
        self,
        dialect: Dialect,
        zone: datetime.tzinfo,
        columns: Sequence[Column],
        timestamps: Sequence[str],
        incrementing: str | None,
        what: str,
    ) -> None:
        """Raise ConnectError if a column does not exist."""
        self._dialect = dialect
        self._zone = zone
        self._what = what
        places = {column.name: place for place, column in enumerate(columns)}
        folded = {column.name.lower(): place for place, column in enumerate(columns)}
        named = [*timestamps, *([] if incrementing is None else [incrementing])]
        for name in named:
            if name not in places and name.lower() not in folded:
                raise ConnectError(f"{what} has no column {name!r}; it has {', '.join(places)}")
        self._columns = columns
        found = [places.get(name, folded.get(name.lower(), -1)) for name in named]
        self._timestamps = found[: len(timestamps)]
        self._incrementing = None if incrementing is None else found[-1]

    def check_not_null(self) -> None:
        """Raise ConnectError if a row could be left out because its columns are null."""
        times = [self._columns[place] for place in self._timestamps]
        if times and all(each.nullable for each in times):
            names = ", ".join(each.name for each in times)
            raise self._nullable(
                f"timestamp columns {names} on {self._what} because all of these are nullable"
            )
        if self._incrementing is not None and self._columns[self._incrementing].nullable:
            name = self._columns[self._incrementing].name
            raise self._nullable(f"incrementing column {name} on {self._what} because it is nullable")

    def _nullable(self, problem: str) -> ConnectError:
        return ConnectError(
            f"cannot make incremental queries using {problem}; validate.non.null=false leaves out such rows"
        )

    @property
    def has_timestamps(self) -> bool:
        """Whether rows are found by time."""
        return bool(self._timestamps)

    @property
    def groups_rows(self) -> bool:
        """Whether several rows can have the same position."""
        return self._incrementing is None

    def condition(self, span: Span) -> tuple[str, list[Any]]:
        """The end of a query, from WHERE on, and its parameters."""
        number = "" if self._incrementing is None else self._quoted(self._incrementing)
        after = span.after.incrementing
        if not self._timestamps:
            [marker] = self._dialect.placeholders(1)
            return f" WHERE {number} > {marker} ORDER BY {number} ASC", [after]
        time = self._time_sql()
        assert span.before is not None, "a query by time has an end"
        assert span.after.timestamp is not None, "a query by time has a beginning"
        first = self._moment(span.after.timestamp)
        last = self._moment(span.before)
        if self._incrementing is None:
            one, two = self._dialect.placeholders(2)
            return f" WHERE {time} > {one} AND {time} < {two} ORDER BY {time} ASC", [first, last]
        one, two, three, four = self._dialect.placeholders(4)
        condition = f"{time} < {one} AND (({time} = {two} AND {number} > {three}) OR {time} > {four})"
        return f" WHERE {condition} ORDER BY {time}, {number} ASC", [last, first, after, first]

    def position(self, row: Sequence[Any]) -> Position:
        """The position of a row. Raises ConnectError."""
        moment = None
        for place in self._timestamps:
            if row[place] is not None:
                moment = self._read_moment(self._columns[place], row[place])
                break
        if self._incrementing is None:
            return Position(moment)
        number = row[self._incrementing]
        if isinstance(number, Decimal) and number == number.to_integral_value():
            number = int(number)
        if type(number) is not int:
            name = self._columns[self._incrementing].name
            raise ConnectError(f"the column {name} of {self._what} has {number!r}; expected a whole number")
        return Position(moment, number)

    def _read_moment(self, column: Column, value: Any) -> datetime.datetime:
        try:
            return self._dialect.moment_of(value, column, self._zone)
        except (ValueError, TypeError) as error:
            raise ConnectError(
                f"the column {column.name} of {self._what} has no timestamp: {error}"
            ) from error

    def _moment(self, value: datetime.datetime) -> Any:
        return self._dialect.moment(value, self._columns[self._timestamps[0]], self._zone)

    def _time_sql(self) -> str:
        names = [self._quoted(place) for place in self._timestamps]
        return self._dialect.moment_sql(names[0] if len(names) == 1 else f"COALESCE({', '.join(names)})")

    def _quoted(self, place: int) -> str:
        return self._dialect.quote(self._columns[place].name)
