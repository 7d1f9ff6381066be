"""The record of a row that INSERT INTO … VALUES or a client inserts."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlglot import exp

from penstock.registry.client.errors import RegistryRefused
from penstock.registry.client.registry import RegistryClient, shared_registry
from penstock.sql.analysis.calls import located
from penstock.sql.analysis.inserts import Row
from penstock.sql.catalog import DataSource, Role
from penstock.sql.evaluation import compile_value
from penstock.sql.formats.errors import FormatError
from penstock.sql.formats.json.values import coercion
from penstock.sql.formats.registry.registration import format_settings, type_of_schema
from penstock.sql.formats.registry_schemas import REGISTRY_FORMATS
from penstock.sql.formats.serdes import key_serde, value_serde
from penstock.sql.formats.settings import Side, registry_of, side_format
from penstock.sql.functions import Function
from penstock.sql.language import types
from penstock.sql.language.errors import SqlError
from penstock.sql.language.statements import SourceKind
from penstock.sql.language.types import SqlType
from penstock.topology.serdes import Serde

_SERDES_MAX: Final = 256
"""Limits cached pairs of serdes. Building a pair costs ten times as much as writing a row."""


class Record(NamedTuple):
    """A record to produce."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def record_of(
    row: Row, functions: Mapping[str, Function], properties: Mapping[str, str], now_ms: int
) -> Record:
    """Build the record of a row. Missing columns are null, and a missing ROWTIME is ``now_ms``.

    ``properties`` are those of the schema registry. Its schema of the key must equal the source's, as a key
    with other bytes would be in another partition. Raises SqlError, FormatError, RegistryRefused and
    RegistryUnreachable.
    """
    source = row.target
    _check_insertable(source)
    given = {
        column.name: _value(column.name, value, column.type, functions, row.text)
        for column, value in row.values
    }
    time = now_ms
    if row.rowtime is not None:
        time = _value("ROWTIME", row.rowtime, types.BIGINT, functions, row.text)
        if time is None or time < 0:
            problem = f"found {'NULL' if time is None else time} for ROWTIME, expected 0 or later"
            raise located(SqlError(problem), row.rowtime, row.text)
    return _record(source, given, properties, time)


def record_of_json(
    source: DataSource, given: Mapping[str, Any], properties: Mapping[str, str], now_ms: int
) -> Record:
    """Build the record of a row from JSON values by column name, as `record_of` does for a statement."""
    _check_insertable(source)
    columns = {each.name: each for each in source.columns if each.role is not Role.HEADERS}
    values: dict[str, Any] = {}
    time: Any = now_ms
    for name, value in given.items():
        if name == "ROWTIME":
            time = value
        elif name not in columns:
            raise SqlError(f"found no column {name} to write, expected one of {', '.join(columns)}")
        elif value is not None:
            values[name] = _of_json(name, value, columns[name].type)
    if not isinstance(time, int) or isinstance(time, bool) or time < 0:
        raise SqlError(f"found {time!r} for ROWTIME, expected 0 or later")
    missing = [each.name for each in source.keys if each.name not in values]
    if missing and source.kind is SourceKind.TABLE:
        raise SqlError(f"found no value for {missing[0]}, expected one for each PRIMARY KEY")
    return _record(source, values, properties, time)


def _of_json(name: str, value: Any, type_: SqlType) -> Any:
    """Convert a JSON value to a column's type. Raises SqlError if an integer column would change a number."""
    try:
        exact = _exact(value)
        made = coercion(type_)(exact)
    except (FormatError, ArithmeticError) as error:
        raise SqlError(f"found a value that {name} can't hold: {error}") from error
    is_number = isinstance(exact, (int, Decimal)) and not isinstance(exact, bool)
    if type_ in (types.INTEGER, types.BIGINT) and is_number and made != exact:
        raise SqlError(f"found {value} for {name}, expected {type_}")
    return made


def _exact(value: Any) -> Any:
    """Replace the floats in a JSON value by decimals."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, list):
        return [_exact(each) for each in value]
    if isinstance(value, dict):
        return {name: _exact(each) for name, each in value.items()}
    return value


def _check_insertable(source: DataSource) -> None:
    if source.window is not None:
        raise SqlError(f"found {source.name}, whose key is windowed, expected another one to insert into")


def _record(
    source: DataSource, given: Mapping[str, Any], properties: Mapping[str, str], time_ms: int
) -> Record:
    values = [each for each in source.columns if each.role is Role.VALUE]
    settings = format_settings(source, properties)
    if source.key_format in REGISTRY_FORMATS and source.keys:
        settings["KEY_SCHEMA_ID"] = str(_key_schema(source, settings))
    of_key, of_value = _serdes(source, tuple(settings.items()))
    try:
        key = of_key.serialize(tuple(given.get(each.name) for each in source.keys))
        value = of_value.serialize(tuple(given.get(each.name) for each in values))
    except FormatError as error:
        raise SqlError(f"found a row that {source.name} can't hold: {error}") from error
    return Record(source.topic, key, value, time_ms)


@lru_cache(maxsize=_SERDES_MAX)
def _serdes(source: DataSource, settings: tuple[tuple[str, str], ...]) -> tuple[Serde[Any], Serde[Any]]:
    """The serdes of a source's keys and values. The settings contain the ID of the key's schema."""
    values = [each for each in source.columns if each.role is Role.VALUE]
    given = dict(settings)
    return (
        key_serde(source.keys, source.key_format, given, topic=source.topic),
        value_serde(values, source.value_format, given, topic=source.topic),
    )


def _value(
    name: str, expression: exp.Expr, type_: SqlType, functions: Mapping[str, Function], script: str
) -> Any:
    compiled = compile_value(expression, (), functions, wanted=type_)

    def refuse(text: str, error: Exception) -> None:
        problem = f"found {text} for {name}, which has no value: {error}"
        raise located(SqlError(problem), expression, script)

    compiled.report = refuse
    return compiled(())


def _key_schema(source: DataSource, settings: Mapping[str, str]) -> int:
    """The ID of the key's latest schema. Raises SqlError if it differs from the source's own."""
    side = side_format(Side.KEY, source.keys, source.key_format, settings, source.topic)
    config = registry_of(settings)
    if config is None:
        raise FormatError(f"found the format {side.format} without a registry, expected schema.registry.url")
    client: RegistryClient = shared_registry(config)
    try:
        latest = client.latest(side.subject)
    except RegistryRefused as error:
        if not error.is_absence:
            raise
        raise SqlError(
            f"found no schema {side.subject} in the registry, expected that of {source.name}'s key"
        ) from None
    found, own = type_of_schema(client, latest, side)
    if found != own:
        raise SqlError(f"found {found} as the schema of the key in the registry, expected {own}")
    return latest.id
