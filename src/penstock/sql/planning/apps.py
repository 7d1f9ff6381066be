"""Build the application of a plan, recursively from its sink to its sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlglot import exp

from penstock.sql.analysis.plan import (
    Aggregate,
    EmitFinal,
    Filter,
    Flatten,
    Join,
    Limit,
    Plan,
    Project,
    Rekey,
    Sink,
    Source,
    Step,
)
from penstock.sql.catalog import Catalog, DataSource, Role
from penstock.sql.evaluation import UserFunctions, builtin
from penstock.sql.language import types
from penstock.sql.language.errors import SqlError
from penstock.sql.language.statements import SourceKind
from penstock.sql.planning.aggregation import aggregated
from penstock.sql.planning.internal_serdes import row_serde
from penstock.sql.planning.joining import joined
from penstock.sql.planning.processing_log import ProcessingLog
from penstock.sql.planning.row_operators import (
    FlattenRows,
    KeyAlone,
    Nulls,
    ReadRows,
    RekeyRows,
    Row,
    TakeRows,
    WriteRows,
    picker,
)
from penstock.sql.planning.sources import SourceTime, named, serdes_of, time_reader
from penstock.sql.planning.stages import RowOf, Stage, Tools
from penstock.streams.app import App
from penstock.streams.dsl.stream import Stream
from penstock.streams.dsl.table import Table

STORE: Final = "Project-Materialize"
CACHE: Final = "cache.max.bytes.buffering"
"""Kafka Streams' property. With any size above 0, only the last update of a group in a batch is emitted."""


@dataclass(frozen=True)
class Planned:
    """The application of a plan.

    A table's rows can be looked up in ``store``, if it has one. ``row_of(key, stored)`` returns the row of
    the sink's columns, or None if HAVING excludes it.
    """

    app: App
    store: str | None
    row_of: RowOf | None


def build_app(
    plan: Plan,
    *,
    query_id: str,
    catalog: Catalog,
    settings: Mapping[str, str] | None = None,
    service_id: str = "default_",
    user_functions: UserFunctions | None = None,
) -> Planned:
    """Build the application that writes the results of a plan to its sink.

    ``settings`` are the query's properties (``auto.offset.reset``, ``schema.registry.url``,
    ``cache.max.bytes.buffering`` …). Without a reset, streams are read from their end, and tables from their
    beginning. Raises SqlError for a plan without a sink.
    """
    if not isinstance(plan.root, Sink):
        raise SqlError(f"found a {plan.kind.value} query, expected one that writes to a topic")
    builder = QueryBuilder(query_id, catalog, dict(settings or {}), service_id, user_functions)
    return builder.build(plan.root)


def build_reader(
    plan: Plan,
    take: Callable[[Any, Row | None], None],
    *,
    query_id: str,
    catalog: Catalog,
    settings: Mapping[str, str] | None = None,
    service_id: str = "default_",
    user_functions: UserFunctions | None = None,
) -> App:
    """Build the application that passes a query's rows to ``take(key, row)`` and writes nothing.

    It runs in this process only, and leaves a LIMIT to its caller.
    """
    builder = QueryBuilder(query_id, catalog, dict(settings or {}), service_id, user_functions)
    root = plan.root.input if isinstance(plan.root, Limit) else plan.root
    return builder.build_reader(root, take)


class QueryBuilder:
    def __init__(
        self,
        query_id: str,
        catalog: Catalog,
        settings: Mapping[str, str],
        service_id: str,
        user_functions: UserFunctions | None,
    ) -> None:
        self._settings = settings
        errors = ProcessingLog.of(query_id, settings)
        self._app: App = App(f"_confluent-ksql-{service_id}query_{query_id}", errors=errors)
        cached = int(settings.get(CACHE, "0")) > 0
        self._tools = Tools(catalog, user_functions or UserFunctions(), settings, cached)

    def build(self, sink: Sink) -> Planned:
        stage = self._stage(sink.input)
        self._write(sink, stage)
        return Planned(self._app, stage.store, stage.row_of)

    def build_reader(self, root: Step, take: Callable[[Any, Row | None], None]) -> App:
        rows = self._stage(root).rows
        # Deletions are part of a table; in a stream, a record without a value is no row.
        taken = rows.to_stream() if isinstance(rows, Table) else rows.filter(_is_row)
        taken.apply(TakeRows(take))
        return self._app

    def _stage(self, step: Step) -> Stage:
        match step:
            case Source():
                return self._source(step)
            case Filter():
                return self._filter(step)
            case Flatten():
                return self._flatten(step)
            case Rekey():
                return self._rekey(step)
            case Aggregate():
                return aggregated(step, self._stage(step.input), self._tools)
            case Join():
                return joined(step, self._stage(step.left), self._stage(step.right), self._tools)
            case Project():
                return self._project(step)
            case EmitFinal():
                return self._final(step)
            case Limit() | Sink():
                raise SqlError(f"found {type(step).__name__.upper()} inside a query, expected it outermost")

    def _source(self, step: Source) -> Stage:
        source = step.source
        keys, values = serdes_of(source, self._settings)
        default = "latest" if source.kind is SourceKind.STREAM else "earliest"
        reset: Any = self._settings.get("auto.offset.reset", default)
        stream = self._app.stream(
            source.topic,
            key=named(keys, "key"),
            value=named(values, "value"),
            timestamp=SourceTime(source),
            reset=reset,
        )
        rows = row_serde([each.type for each in step.schema])
        read = stream.apply(ReadRows(source), key=keys, value=rows)
        made: Stream[Any, Any] | Table[Any, Any] = read
        if source.kind is SourceKind.TABLE:
            made = read.to_table(store=f"{source.name}-KsqlTopic-Reduce")
        key_format = (source.key_format, dict(source.settings).get("KEY_DELIMITER", ""))
        return Stage(made, step.schema, source.window is not None, key_serde=keys, key_format=key_format)

    def _filter(self, step: Filter) -> Stage:
        stage = self._stage(step.input)
        condition = self._tools.condition(step.condition, stage.schema)

        def holds(key: Any, row: Row | None) -> bool:
            return row is not None and condition(row)

        kept = _then(stage.row_of, lambda row: row if row is not None and condition(row) else None)
        return replace(stage, rows=stage.rows.filter(holds), row_of=kept)

    def _flatten(self, step: Flatten) -> Stage:
        stage = self._stage(step.input)
        assert isinstance(stage.rows, Stream), "the analysis allows table functions over streams alone"
        arguments: list[exp.Expr] = []
        functions = []
        for call in step.calls:
            given = call.expression.expressions
            types = tuple(self._tools.type_of(each, stage.schema) for each in given)
            bound = builtin.TABLE_FUNCTIONS[call.expression.name].bind(types, call.type)
            functions.append((len(arguments), len(arguments) + len(given), bound))
            arguments += given
        operator = FlattenRows(self._tools.row(arguments, stage.schema), tuple(functions))
        rows = row_serde([each.type for each in step.schema])
        return replace(stage, rows=stage.rows.apply(operator, value=rows), schema=step.schema)

    def _rekey(self, step: Rekey) -> Stage:
        stage = self._stage(step.input)
        assert isinstance(stage.rows, Stream), "the analysis allows PARTITION BY over streams alone"
        expressions = [each.expression for each in step.keys]
        key = self._tools.row(expressions, stage.schema) if step.keys else None
        alone = None if key is None else KeyAlone(key, expressions, stage.schema)
        made = stage.rows.apply(RekeyRows(key, Nulls.KEEP, alone), key=_keys(step), rekeyed=True)
        # The new schema begins with the new keys; all other columns are read from their old positions.
        given = [each.name for each in stage.schema]
        names = {each.name: each.expression for each in step.keys}
        rest = [each.name for each in step.schema[len(step.keys) :]]
        whole = self._tools.row([*names.values()], stage.schema) if names else _nothing
        rows = made.map_values(_Rekeyed(whole, [given.index(name) for name in rest]), value=_rows(step))
        return Stage(rows, step.schema)

    def _project(self, step: Project) -> Stage:
        stage = self._stage(step.input)
        columns = step.columns
        row = self._tools.row([each.expression for each in columns], stage.schema, [c.type for c in columns])

        def project(value: Row | None) -> Row | None:
            return None if value is None else row(value)

        store, row_of = stage.store, _then(stage.row_of, project)
        if isinstance(stage.rows, Table) and store is None:
            store, row_of = STORE, _stored
            made: Any = stage.rows.map_values(project, value=_rows(step), store=store)
        else:
            made = stage.rows.map_values(project, value=_rows(step))
        return replace(stage, rows=made, schema=step.schema, store=store, row_of=row_of)

    def _final(self, step: EmitFinal) -> Stage:
        assert isinstance(step.input, Aggregate), "the analysis asks for a windowed aggregation"
        return aggregated(step.input, self._stage(step.input.input), self._tools, is_final=True)

    def _write(self, sink: Sink, stage: Stage) -> None:
        target = sink.target
        rows = stage.rows
        if isinstance(rows, Table):
            rows = rows.to_stream()
        names = [each.name for each in stage.schema]
        written = [each.name for each in target.columns if each.role is Role.VALUE]
        if sink.is_new:
            value: Any = picker([names.index(name) for name in written])
        else:  # an INSERT's columns correspond to the target's by position, and are cast to its types
            names = [each.name for each in target.columns if each.role in (Role.KEY, Role.VALUE)]
            places = [names.index(name) for name in written]
            given = [exp.column(stage.schema[place].name) for place in places]
            wanted = [each.type for each in target.columns if each.role is Role.VALUE]
            value = self._tools.row(given, stage.schema, wanted)
        operator = WriteRows(value, _time_of(target, names))
        key_serde, value_serde = serdes_of(target, self._settings)
        rows.apply(operator, rekeyed=True).to(target.topic, key=key_serde, value=value_serde)


def _keys(step: Rekey) -> Any:
    return row_serde([each.type for each in step.keys])


def _rows(step: Step) -> Any:
    return row_serde([each.type for each in step.schema])


def _is_row(key: Any, row: Row | None) -> bool:
    return row is not None


def _stored(key: Any, row: Row) -> Row:
    return row


def _then(row_of: RowOf | None, more: Callable[[Row | None], Row | None]) -> RowOf | None:
    """Apply ``more`` to the rows of a store."""
    return None if row_of is None else (lambda key, stored: more(row_of(key, stored)))


def _nothing(row: Row) -> Row:
    return ()


class _Rekeyed:
    """The row with its new keys in front."""

    def __init__(self, keys: Callable[[Row], Row], rest: list[int]) -> None:
        self._keys = keys
        self._rest = rest
        self._pick = picker(rest)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Rekeyed, (self._keys, self._rest)

    def __call__(self, row: Row | None) -> Row | None:
        return None if row is None else self._keys(row) + self._pick(row)


def _time_of(target: DataSource, names: list[str]) -> Callable[[Row], int | None] | None:
    """Return the function that reads a record's time from the sink's TIMESTAMP column; None without one."""
    if target.timestamp is None or target.timestamp not in names:
        return None
    place = names.index(target.timestamp)
    column = target.column(target.timestamp)
    if column is not None and column.type == types.STRING:
        read = time_reader(target.timestamp_format)
        return lambda row: None if row[place] is None else read(row[place])
    return lambda row: row[place]
