"""The analysis of CREATE, ALTER and DROP, which change the catalog."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from penstock.sql.analysis.plan import (
    Aggregate,
    Computed,
    EmitFinal,
    Filter,
    Flatten,
    Join,
    Plan,
    Project,
    QueryKind,
    Sink,
    Source,
    Step,
)
from penstock.sql.analysis.properties import REGISTERED_FORMATS, STANDARD_FORMATS, DefaultFormats, Settings
from penstock.sql.analysis.queries import plan_persistent
from penstock.sql.catalog import SYSTEM_COLUMNS, Catalog, Column, DataSource, Role, WindowedKey
from penstock.sql.language import types
from penstock.sql.language.errors import SqlError, listed
from penstock.sql.language.statements import (
    AlterSource,
    ColumnDefinition,
    Constraint,
    CreateAsSelect,
    CreateSource,
    DropSource,
    SourceKind,
    WindowKind,
)
from penstock.sql.language.types import Array, Decimal, Map, SqlType, Struct

ALL_HEADERS: Final = Array(Struct((("KEY", types.STRING), ("VALUE", types.BYTES))))
_ALLOWED: Final[dict[str, tuple[SqlType, ...]]] = {
    "KAFKA": (types.INTEGER, types.BIGINT, types.DOUBLE, types.STRING, types.BYTES),
    "DELIMITED": tuple(dict.fromkeys(types.PRIMITIVES.values())),
}
"""The types that a format supports, for formats that do not support all types."""
_AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNWRAPPED: Final = ("DELIMITED", "KAFKA", "PROTOBUF", "PROTOBUF_NOSR")
"""Formats that have only one way to write a single value."""
_ROLES: Final = {
    None: Role.VALUE,
    Constraint.KEY: Role.KEY,
    Constraint.PRIMARY_KEY: Role.KEY,
    Constraint.HEADERS: Role.HEADERS,
}


def create_source(
    create: CreateSource,
    catalog: Catalog,
    text: str,
    registered: Sequence[Column] = (),
    defaults: DefaultFormats = STANDARD_FORMATS,
) -> DataSource:
    """Build the source that a CREATE defines.

    ``registered`` are the topic's columns from a schema registry, for a statement that lists no columns of
    the key or none of the value.
    """
    settings = Settings.of(create.properties, text)
    columns = tuple(_column(each, create.kind, catalog, text) for each in create.columns)
    key_format, value_format = settings.format("KEY", defaults.key), settings.format("VALUE", defaults.value)
    for role in (Role.KEY, Role.VALUE):
        if f"{role.value}_SCHEMA_ID" in settings.numbers and any(each.role is role for each in columns):
            problem = f"found {role.value}_SCHEMA_ID beside columns of the {role.value.lower()}"
            raise settings.error(f"{problem}, expected one of them", f"{role.value}_SCHEMA_ID")
    if key_format in REGISTERED_FORMATS and not any(each.role is Role.KEY for each in columns):
        columns = (*(each for each in registered if each.role is Role.KEY), *columns)
    if value_format in REGISTERED_FORMATS and not any(each.role is Role.VALUE for each in columns):
        known = [each for each in registered if each.role is Role.VALUE]
        if not known:
            raise SqlError("found no columns of the value, expected columns, or a schema in the registry")
        columns = (*columns, *known)
    if not columns:
        raise SqlError("found no columns, expected at least one")
    keys = [each for each in columns if each.role is Role.KEY]
    if create.kind is SourceKind.TABLE and not keys:
        raise SqlError("found a table without PRIMARY KEY, expected a column that is PRIMARY KEY")
    settings.check_side("KEY", key_format)
    settings.check_side("VALUE", value_format)
    window = settings.window()
    if window is not None and not keys:
        problem = f"found WINDOW_TYPE without a key, expected a column that is KEY for {create.name}"
        raise settings.error(problem, "WINDOW_TYPE")
    made = DataSource(
        create.name,
        create.kind,
        columns,
        settings.texts.get("KAFKA_TOPIC", create.name),
        key_format if keys or "KEY_FORMAT" in settings.texts or "FORMAT" in settings.texts else "NONE",
        value_format,
        None if window is None else WindowedKey(*window),
        _timestamp(settings, columns),
        settings.texts.get("TIMESTAMP_FORMAT"),
        settings.numbers.get("PARTITIONS"),
        settings.numbers.get("REPLICAS"),
        create.read_only,
        is_queryable=create.read_only and create.kind is SourceKind.TABLE,
        settings=(*_others(settings), *_wrapping(settings, value_format, columns, defaults)),
    )
    return _fitting(made)


def _keys_in_order(project: Project) -> tuple[Column, ...]:
    """The columns of a projection, keys first and in the order that they have in the record's key."""
    known = [each.name for each in project.input.schema if each.role is Role.KEY]

    def place(computed: Computed) -> int:
        name = computed.expression.name
        return known.index(name) if name in known else len(known)

    keys = sorted((each for each in project.columns if each.role is Role.KEY), key=place)
    return (*(each.column for each in keys), *(each for each in project.schema if each.role is not Role.KEY))


def _fitting(source: DataSource) -> DataSource:
    """Check that a source's formats support its columns, and return the source."""
    values = [each for each in source.columns if each.role is Role.VALUE]
    for side, format_, columns in (
        ("key", source.key_format, source.keys),
        ("value", source.value_format, values),
    ):
        if format_ == "KAFKA" and len(columns) > 1:
            names = ", ".join(each.name for each in columns)
            raise SqlError(f"found the {side} {names} in the format KAFKA, expected one column for it")
        if format_ == "NONE" and columns:
            raise SqlError(
                f"found the {side} {columns[0].name} in the format NONE, expected no columns for it"
            )
        for each in columns:
            if side == "key" and _has_map(each.type):
                raise SqlError(f"found the key {each.name} of {each.type}, expected a type without MAP")
            if _has_map(each.type, keys_are_texts=True):
                raise SqlError(f"found {each.name} of {each.type}, expected STRING for the keys of a MAP")
            if not _takes(format_, each.type):
                raise SqlError(
                    f"found {each.name} of {each.type} in the format {format_}, "
                    f"expected {listed(tuple(map(str, _ALLOWED[format_])))}"
                )
        if format_ == "AVRO" and (side == "value" or len(columns) > 1):
            _check_avro_names(Struct(tuple((each.name, each.type) for each in columns)))
    _check_wrapping(dict(source.settings).get("WRAP_SINGLE_VALUE"), source.value_format, len(values))
    return source


def _check_avro_names(type_: SqlType) -> None:
    """Check that all field names in a type are valid in Avro."""
    match type_:
        case Array(element):
            _check_avro_names(element)
        case Map(_, value):
            _check_avro_names(value)
        case Struct(fields):
            for name, inner in fields:
                if _AVRO_NAME.fullmatch(name) is None:
                    raise SqlError(
                        f"found the name {name} in the format AVRO, expected letters, digits and _, "
                        "and no digit first"
                    )
                _check_avro_names(inner)


def _check_wrapping(wrapped: str | None, value_format: str, values: int) -> None:
    if wrapped is None:
        return
    if values != 1:
        raise SqlError(f"found WRAP_SINGLE_VALUE with {values} columns of the value, expected one for it")
    if wrapped == ("false" if value_format.startswith("PROTOBUF") else "true") and value_format in _UNWRAPPED:
        raise SqlError(f"found WRAP_SINGLE_VALUE = {wrapped} with the format {value_format}, expected none")


def _takes(format_: str, type_: SqlType) -> bool:
    if isinstance(type_, Decimal):
        return format_ != "KAFKA"
    return format_ not in _ALLOWED or type_ in _ALLOWED[format_]


def _others(settings: Settings) -> tuple[tuple[str, str], ...]:
    """The properties for the formats, unchanged."""
    known = {"KAFKA_TOPIC", "FORMAT", "KEY_FORMAT", "VALUE_FORMAT", "TIMESTAMP", "TIMESTAMP_FORMAT"}
    known |= {"WINDOW_TYPE", "WINDOW_SIZE", "PARTITIONS", "REPLICAS"}
    every = {**settings.texts, **{name: str(value) for name, value in settings.numbers.items()}}
    return tuple((name, value) for name, value in every.items() if name not in known)


def _wrapping(
    settings: Settings, value_format: str, columns: Sequence[Column], defaults: DefaultFormats
) -> tuple[tuple[str, str], ...]:
    """The server's default for wrapping a single value, if the statement does not set the property."""
    is_single = sum(each.role is Role.VALUE for each in columns) == 1
    if defaults.wraps_single_values or "WRAP_SINGLE_VALUE" in settings.texts or not is_single:
        return ()
    return () if value_format in _UNWRAPPED or value_format == "NONE" else (("WRAP_SINGLE_VALUE", "false"),)


def _timestamp(settings: Settings, columns: tuple[Column, ...]) -> str | None:
    written = settings.texts.get("TIMESTAMP")
    pattern = settings.texts.get("TIMESTAMP_FORMAT")
    if written is None:
        if pattern is not None:
            raise settings.error(
                "found TIMESTAMP_FORMAT without TIMESTAMP, expected both", "TIMESTAMP_FORMAT"
            )
        return None
    name = written.strip("`") if written.startswith("`") else written.upper()
    found = next((each for each in columns if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in columns)
        raise settings.error(f"found no column {name} for TIMESTAMP, expected one of {known}", "TIMESTAMP")
    wanted = (types.STRING,) if pattern is not None else (types.BIGINT, types.TIMESTAMP)
    if found.type not in wanted:
        names = listed(tuple(map(str, wanted)))
        with_format = "with" if pattern is not None else "without"
        problem = f"found TIMESTAMP {name} of {found.type}, expected {names} {with_format} TIMESTAMP_FORMAT"
        raise settings.error(problem, "TIMESTAMP")
    return name


def _column(definition: ColumnDefinition, kind: SourceKind, catalog: Catalog, text: str) -> Column:
    try:
        return _checked(definition, kind, catalog)
    except SqlError as error:
        raise error.at(text, definition.start) from None


def _checked(definition: ColumnDefinition, kind: SourceKind, catalog: Catalog) -> Column:
    name, constraint = definition.name, definition.constraint
    if name in SYSTEM_COLUMNS:
        raise SqlError(f"found the column {name}, whose name is reserved, expected another one")
    if constraint is Constraint.KEY and kind is SourceKind.TABLE:
        raise SqlError(f"found {name} KEY in a table, expected PRIMARY KEY")
    if constraint is Constraint.PRIMARY_KEY and kind is SourceKind.STREAM:
        raise SqlError(f"found {name} PRIMARY KEY in a stream, expected KEY")
    type_ = catalog.resolved(definition.type)
    if constraint is Constraint.HEADERS:
        wanted: SqlType = ALL_HEADERS if definition.header is None else types.BYTES
        if type_ != wanted:
            raise SqlError(f"found the headers {name} of {type_}, expected {wanted}")
    if _ROLES[constraint] is Role.KEY and _has_map(type_):
        raise SqlError(f"found the key {name} of {type_}, expected a type without MAP")
    return Column(name, type_, _ROLES[constraint], definition.header)


def _has_map(type_: SqlType, *, keys_are_texts: bool = False) -> bool:
    """Whether a type contains a MAP; with ``keys_are_texts``, one whose keys are not STRING."""
    match type_:
        case Map(key, value):
            return not keys_are_texts or key != types.STRING or _has_map(value, keys_are_texts=True)
        case Array(element):
            return _has_map(element, keys_are_texts=keys_are_texts)
        case Struct(fields):
            return any(_has_map(each, keys_are_texts=keys_are_texts) for _, each in fields)
    return False


def create_as_select(
    create: CreateAsSelect, catalog: Catalog, text: str, defaults: DefaultFormats = STANDARD_FORMATS
) -> Plan:
    """Plan a CREATE … AS SELECT. The sink of the plan is the new source."""
    settings = Settings.of(create.properties, text)
    project = plan_persistent(create.query, catalog, text)
    if project.kind is not create.kind:
        raise SqlError(
            f"found a query whose result is a {project.kind.value}, expected CREATE {project.kind.value} "
            "… AS SELECT"
        ).at(text, create.query.source.start)
    first = catalog.source(create.query.source.name)
    keys = [each for each in project.schema if each.role is Role.KEY]
    key_format = settings.format("KEY", first.key_format if first.key_format != "NONE" else defaults.key)
    value_format = settings.format("VALUE", first.value_format)
    settings.check_side("KEY", key_format)
    settings.check_side("VALUE", value_format)
    others = dict(first.settings)
    inherited: dict[str, str] = {}
    for side, before, after in (
        ("KEY", first.key_format, key_format),
        ("VALUE", first.value_format, value_format),
    ):
        if before == after:
            inherited |= settings.inherited(side, after, others)
    if not keys and "KEY_FORMAT" in settings.texts and key_format != "NONE":
        raise settings.error("found KEY_FORMAT for a result without a key, expected none", "KEY_FORMAT")
    window = _window(project)
    made = DataSource(
        create.name,
        create.kind,
        _keys_in_order(project),
        settings.texts.get("KAFKA_TOPIC", create.name),
        key_format if keys else "NONE",
        value_format,
        window,
        _timestamp(settings, project.schema),
        settings.texts.get("TIMESTAMP_FORMAT"),
        settings.numbers.get("PARTITIONS"),
        settings.numbers.get("REPLICAS"),
        is_queryable=create.kind is SourceKind.TABLE,
        settings=(
            *inherited.items(),
            *_others(settings),
            *_wrapping(settings, value_format, project.schema, defaults),
        ),
    )
    return Plan(QueryKind.PERSISTENT, Sink(project, _fitting(made), is_new=True))


def _window(project: Project) -> WindowedKey | None:
    """The window of the result's key, from the aggregation or from a source whose key is kept."""
    step: Step = project
    while isinstance(step, (Project, Filter, Flatten, EmitFinal, Join)):
        step = step.left if isinstance(step, Join) else step.input
    if isinstance(step, Aggregate) and step.window is not None:
        is_session = step.window.kind is WindowKind.SESSION
        return WindowedKey(step.window.kind, None if is_session else step.window.size_ms)
    return step.source.window if isinstance(step, Source) else None


def replaced(old: DataSource, new: DataSource) -> None:
    """Check that CREATE OR REPLACE may replace one source by another. It may only add columns."""
    if old.kind is not new.kind:
        raise SqlError(f"found {old.name} as a {old.kind.value}, expected a {new.kind.value} to replace")
    if old.read_only:
        raise SqlError(f"found {old.name} as a SOURCE, which is read only, expected another one to replace")
    for column in old.columns:
        found = new.column(column.name)
        if found is None or (found.type, found.role) != (column.type, column.role):
            shown = "no such column" if found is None else str(found.type)
            raise SqlError(f"found {shown} for {column.name}, expected {column.type} as before")
    if (old.key_format, old.value_format, old.topic) != (new.key_format, new.value_format, new.topic):
        raise SqlError(f"found another topic or format for {old.name}, expected the current ones")


def alter_source(alter: AlterSource, catalog: Catalog, text: str) -> DataSource:
    """Add the new columns of an ALTER to a copy of its source."""
    source = of_kind(catalog, alter.name, alter.kind)
    if source.read_only:
        raise SqlError(f"found {alter.name} as a SOURCE, which is read only, expected another one to alter")
    columns = list(source.columns)
    for added in alter.added:
        if any(each.name == added.name for each in columns):
            problem = f"found the column {added.name} to add, which exists already, expected a new name"
            raise SqlError(problem).at(text, added.start)
        columns.append(_column(added, source.kind, catalog, text))
    return replace(source, columns=tuple(columns))


def of_kind(catalog: Catalog, name: str, kind: SourceKind) -> DataSource:
    source = catalog.source(name)
    if source.kind is not kind:
        raise SqlError(f"found {name} as a {source.kind.value}, expected a {kind.value}")
    return source


def drop_source(drop: DropSource, catalog: Catalog) -> Catalog:
    if drop.if_exists and drop.name not in catalog.sources:
        return catalog
    source = of_kind(catalog, drop.name, drop.kind)
    if source.read_only and drop.delete_topic:
        raise SqlError(f"found DELETE TOPIC for the SOURCE {drop.name}, which is read only, expected none")
    return catalog.without_source(drop.name)
