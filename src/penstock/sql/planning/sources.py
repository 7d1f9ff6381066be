"""The reading of a source's topic: its serdes, and the timestamps of its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.registry.client.errors import RegistryUnreachable
from penstock.sql.catalog import DataSource, Role
from penstock.sql.evaluation.builtin import SCALARS
from penstock.sql.evaluation.builtin.times.patterns import pattern_of
from penstock.sql.formats import FormatError, format_settings, key_serde, sides_of, value_serde
from penstock.sql.language import types
from penstock.sql.language.errors import SqlError
from penstock.topology.records import Record
from penstock.topology.serdes import Serde, Windowed


class _Unreadable:
    """The placeholder of a value that a serde could not read."""

    def __reduce__(self) -> str:
        return "UNREADABLE"


UNREADABLE: Final = _Unreadable()


class Unreadable(FormatError):
    """Raised if the bytes of a record's ``target``, its key or its value, are not in their format."""

    def __init__(self, target: str, error: Exception) -> None:
        super().__init__(str(error))
        self.target = target


class NoTime(ValueError):
    """Raised if a record has no valid time in the column for it."""


def named(serde: Serde[Any], target: str) -> Serde[Any]:
    """The same serde, except that it raises `Unreadable` for invalid bytes.

    An unreachable registry says nothing about the bytes, so RegistryUnreachable is raised unchanged.
    """

    def deserialize(data: bytes) -> Any:
        try:
            return serde.deserialize(data)
        except RegistryUnreachable:
            raise
        except Exception as error:
            raise Unreadable(target, error) from error

    return Serde(serde.serialize, deserialize, name=serde.name, made_by=(named, (serde, target)))


def lenient(serde: Serde[Any]) -> Serde[Any]:
    """The same serde, except that it returns `UNREADABLE` for invalid bytes."""

    def deserialize(data: bytes) -> Any:
        try:
            return serde.deserialize(data)
        except Exception:
            return UNREADABLE

    return Serde(serde.serialize, deserialize, name=serde.name, made_by=(lenient, (serde,)))


def serdes_of(source: DataSource, registry: Mapping[str, str]) -> tuple[Serde[Any], Serde[Any]]:
    """The serdes of the keys and the values of a source's records."""
    settings = format_settings(source, registry)
    keys = key_serde(source.keys, source.key_format, settings, source.window, topic=source.topic)
    columns = [each for each in source.columns if each.role is Role.VALUE]
    return keys, value_serde(columns, source.value_format, settings, topic=source.topic)


def check_source(source: DataSource) -> None:
    """Check a source's settings for times and formats. Raises SqlError."""
    SourceTime(source)
    try:
        sides_of(source)
    except FormatError as error:
        raise SqlError(str(error)) from None


class SourceTime:
    """The time of a source's records: their own, or that in a column. Raises NoTime if that is invalid."""

    def __init__(self, source: DataSource) -> None:
        self._place: tuple[bool, int] | None = None
        self._name = source.timestamp
        self._parse: Callable[[Any], int | None] = _as_is
        if source.timestamp is not None:
            column = source.column(source.timestamp)
            assert column is not None, "the analysis has seen to it"
            is_key = column.role is Role.KEY
            same = [each for each in source.columns if each.role is column.role]
            self._place = (is_key, same.index(column))
            if column.type == types.STRING:
                self._parse = time_reader(source.timestamp_format)
        self._made_of = (source,)

    def __reduce__(self) -> tuple[Any, ...]:
        return SourceTime, self._made_of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourceTime) and self._made_of == other._made_of

    def __hash__(self) -> int:
        return hash(self._made_of[0].name)

    def __call__(self, record: Record[Any, Any], stream_time_ms: int) -> int:
        if self._place is None or record.value is None:
            return record.timestamp_ms
        is_key, place = self._place
        values = record.key if is_key else record.value
        if type(values) is Windowed:
            values = values.key
        found = None if values is None else values[place]
        timestamp_ms = self._parse(found)
        if timestamp_ms is None or timestamp_ms < 0:
            raise NoTime(f"Failed to extract the time from {self._name}: found {found!r}")
        return timestamp_ms


def _as_is(value: Any) -> int | None:
    return None if value is None else int(value)


def time_reader(pattern: str | None) -> Callable[[Any], int | None]:
    """Return a function that parses a text by a pattern; it returns None for a text that doesn't match.

    Raises SqlError if the pattern is missing or wrong.
    """
    if pattern is None:
        raise SqlError("found a TIMESTAMP column of type STRING, expected TIMESTAMP_FORMAT with it")
    try:
        pattern_of(pattern)
    except ValueError as error:
        raise SqlError(f"found an invalid pattern in TIMESTAMP_FORMAT: {error}") from None
    parse = SCALARS["PARSE_TIMESTAMP"].bind((types.STRING, types.STRING), types.TIMESTAMP)

    def parsed(value: Any) -> int | None:
        try:
            found: int | None = parse(value, pattern)
        except Exception:
            return None
        return found

    return parsed
