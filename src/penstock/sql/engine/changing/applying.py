"""Apply a command to a service's state, without touching a topic or a host.

The same code serves a new statement, its check before it is logged, and the replay of the log at startup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.sql.analysis import Analysis, DefaultFormats, analyze
from penstock.sql.analysis.plan import Plan, Sink
from penstock.sql.catalog import Catalog, Column, DataSource, Role
from penstock.sql.engine.changing.commands import Command
from penstock.sql.engine.changing.source_tables import source_table
from penstock.sql.engine.ground.config import EngineConfig
from penstock.sql.engine.ground.errors import EngineError
from penstock.sql.engine.ground.persistent_queries import (
    PersistentQuery,
    QueryPurpose,
    is_upgrade,
    names_of_sources,
)
from penstock.sql.engine.ground.properties import Values, checked_override
from penstock.sql.engine.ground.query_settings import plan_settings, values_of
from penstock.sql.engine.ground.state import State
from penstock.sql.evaluation import UserFunctionError, UserFunctions
from penstock.sql.formats import FormatError
from penstock.sql.language import statements as s
from penstock.sql.language.errors import SqlError
from penstock.sql.language.parsing.script import parse
from penstock.sql.language.statement_printing import print_statement
from penstock.sql.language.statements import Constraint, SourceKind
from penstock.sql.planning import Planned, build_app
from penstock.sql.planning.sources import check_source
from penstock.topology.errors import StreamsError


@dataclass(frozen=True)
class Applied:
    """The outcome of a command. ``message`` answers the statement."""

    state: State
    message: str
    query_id: str | None = None


@dataclass(frozen=True)
class Written:
    """A statement and the text that its positions refer to. It begins at ``start`` in that text."""

    statement: s.Statement
    text: str
    start: int = 0


class Applier:
    """Applies commands to states. The server's configuration supplies what a command leaves open."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config

    def apply(self, state: State, command: Command, offset: int, written: Written | None = None) -> Applied:
        """Apply a command to a state and return the new one.

        ``offset`` is the command's present or future place in the log. ``written`` is the statement as the
        client wrote it, which errors quote. Raises EngineError if the command can't be applied.
        """
        number = offset if command.query_number is None else command.query_number
        try:
            said = written or Written(command.parsed(), command.statement)
            applied = self._applied(state, command, said, number)
        except (SqlError, FormatError, StreamsError, UserFunctionError) as error:
            raise EngineError(str(error)) from error
        if isinstance(said.statement, (s.ControlQuery, s.AlterSystem)):
            return applied  # ksqlDB has no plan for these, so they don't advance the number
        return replace(applied, state=replace(applied.state, query_number=offset + 1))

    def _applied(self, state: State, command: Command, said: Written, number: int) -> Applied:
        statement = said.statement
        match statement:
            case s.CreateSource():
                return self._create_source(state, command, statement, said, number)
            case s.CreateAsSelect():
                return self._create_as_select(state, command, statement, said, number)
            case s.InsertSelect():
                return self._insert_select(state, command, statement, said, number)
            case s.DropSource():
                return _drop_source(state, statement, said)
            case s.AlterSource():
                return _alter_source(state, command, statement, said)
            case s.CreateType() | s.DropType():
                return _change_type(state, statement, said)
            case s.CreateFunction() | s.DropFunction():
                return _change_function(state, command, statement, said)
            case s.ControlQuery():
                return _control(state, statement)
            case s.AlterSystem(name, value):
                return self._alter_system(state, name, value)
        raise EngineError(f"found {print_statement(statement)}, expected a statement that changes something")

    # Sources

    def _analyzed(self, state: State, command: Command, said: Written) -> Analysis:
        values = Values((self._config.server_properties, command.original_properties, command.properties))
        defaults = DefaultFormats(
            values.get("ksql.persistence.default.format.key") or "KAFKA",
            values.get("ksql.persistence.default.format.value"),
            values.flag("ksql.persistence.wrap.single.values"),
        )
        columns = () if command.columns is None else columns_of(command.columns)
        return analyze(said.statement, state.catalog, said.text, said.start, columns, defaults)

    def _create_source(
        self, state: State, command: Command, create: s.CreateSource, said: Written, number: int
    ) -> Applied:
        catalog = self._analyzed(state, command, said).catalog
        kind = create.kind.value.capitalize()
        if create.if_not_exists and create.name in state.catalog.sources:
            return Applied(state, exists_already(create.kind, create.name, state.catalog))
        made = replace(state, catalog=catalog, texts={**state.texts, create.name: command.statement})
        source = catalog.sources[create.name]
        try:
            check_source(source)
        except SqlError as error:
            raise error.at(said.text, create.start) from None
        if not (source.read_only and source.kind is SourceKind.TABLE):
            return Applied(made, f"{kind} created")
        query_id = f"{QueryPurpose.SOURCE_TABLE.value}_{source.name}_{number}"
        query = PersistentQuery(
            query_id,
            QueryPurpose.SOURCE_TABLE,
            command.statement,
            (source.name,),
            source,
            source_table(source, query_id, self._config.service_id, self._settings(state, command)),
            properties=command.properties,
        )
        return Applied(made.with_query(query), f"Created query with ID {query_id}", query_id)

    def _create_as_select(
        self, state: State, command: Command, create: s.CreateAsSelect, said: Written, number: int
    ) -> Applied:
        analysis = self._analyzed(state, command, said)
        if create.if_not_exists and create.name in state.catalog.sources:
            return Applied(state, exists_already(create.kind, create.name, state.catalog))
        plan = analysis.plan
        assert plan is not None
        purpose = QueryPurpose.CREATE_STREAM_AS
        if create.kind is SourceKind.TABLE:
            purpose = QueryPurpose.CREATE_TABLE_AS
        old = self._replaced(state, create.name, plan)
        query_id = f"{purpose.value}_{create.name}_{number}" if old is None else old.id
        made = replace(
            state,
            catalog=analysis.catalog,
            texts={**state.texts, create.name: command.statement},
            made_from={**state.made_from, create.name: names_of_sources(plan)},
        )
        query = self._query(made, command, query_id, purpose, plan)
        if old is not None:
            query = replace(query, is_paused=old.is_paused)
        return Applied(made.with_query(query), f"Created query with ID {query_id}", query_id)

    def _replaced(self, state: State, name: str, plan: Plan) -> PersistentQuery | None:
        """The query that the new one replaces, or None. Raises EngineError if it can't be replaced."""
        writers = state.writers(name)
        if len(writers) > 1:
            ids = ", ".join(each.id for each in writers)
            raise EngineError(
                f"REPLACE for sink {name} is not supported because there are multiple queries writing into "
                f"it: [{ids}]"
            )
        if not writers:
            return None
        if writers[0].plan is not None and not is_upgrade(writers[0].plan, plan):
            raise EngineError(
                f"Cannot replace {name}: found a query whose sources, keys, joins, groups or windows differ "
                f"from those of {writers[0].id}, expected only other conditions or additional columns"
            )
        return writers[0]

    def _insert_select(
        self, state: State, command: Command, insert: s.InsertSelect, said: Written, number: int
    ) -> Applied:
        target = state.catalog.sources.get(insert.name)
        if target is None:
            raise EngineError(f"Cannot insert into an unknown stream/table: `{insert.name}`")
        if any(each.role is Role.HEADERS for each in target.columns):
            raise EngineError(f"Cannot insert into {insert.name} because it has header columns")
        plan = self._analyzed(state, command, said).plan
        assert plan is not None
        query_id = f"{QueryPurpose.INSERT.value}_{number}"
        for each in insert.properties:
            if each.name == "QUERY_ID":
                query_id = _own_query_id(each.value.name, state)
        query = self._query(state, command, query_id, QueryPurpose.INSERT, plan)
        return Applied(state.with_query(query), f"Created query with ID {query_id}", query_id)

    def _settings(self, state: State, command: Command) -> dict[str, str]:
        return plan_settings(self._config, values_of(self._config, state, command.properties))

    def _query(
        self, state: State, command: Command, query_id: str, purpose: QueryPurpose, plan: Plan
    ) -> PersistentQuery:
        assert isinstance(plan.root, Sink)
        planned = self._planned(state, query_id, plan, self._settings(state, command))
        return PersistentQuery(
            query_id,
            purpose,
            command.statement,
            names_of_sources(plan),
            plan.root.target,
            planned,
            plan,
            command.properties,
        )

    def _planned(self, state: State, query_id: str, plan: Plan, settings: Mapping[str, str]) -> Planned:
        planned = build_app(
            plan,
            query_id=query_id,
            catalog=state.catalog,
            settings=settings,
            service_id=self._config.service_id,
            user_functions=state.user_functions,
        )
        planned.app.topology()  # so that errors in it are raised before anything is logged
        return planned

    # Properties

    def _alter_system(self, state: State, name: str, value: str) -> Applied:
        """Set a property, also for running queries that don't have their own value of it."""
        known, checked = checked_override(name, value)
        made = replace(state, system={**state.system, known: checked})
        queries = {key: self._with_settings(each, state, made) for key, each in state.queries.items()}
        return Applied(replace(made, queries=queries), f"System property {known} was set to {checked}.")

    def _with_settings(self, query: PersistentQuery, before: State, after: State) -> PersistentQuery:
        if query.plan is None:
            return query
        settings = plan_settings(self._config, values_of(self._config, after, query.properties))
        if settings == plan_settings(self._config, values_of(self._config, before, query.properties)):
            return query
        return replace(query, planned=self._planned(after, query.id, query.plan, settings))


def _own_query_id(given: str, state: State) -> str:
    made = given.upper()
    if not made.replace("_", "").isalnum() or not made.isascii():
        raise EngineError(f"Query IDs may contain only alphanumeric characters and '_'. Got: '{given}'")
    prefixes = [f"{each.value}_" for each in QueryPurpose]
    if made.startswith(tuple(prefixes)):
        raise EngineError(
            f"Query IDs must not start with a reserved query ID prefix ({', '.join(prefixes)}). "
            f"Got '{given}'."
        )
    if made in state.queries:
        raise EngineError(f"Query ID '{made}' already exists.")
    return made


def exists_already(kind: SourceKind, name: str, catalog: Catalog) -> str:
    there = catalog.sources[name].kind.value.lower()
    return f"Cannot add {kind.value.lower()} `{name}`: A {there} with the same name already exists."


def columns_of(text: str) -> tuple[Column, ...]:
    """Parse columns as a command holds them: `ID BIGINT KEY, NAME STRING`."""
    create = parse(f"CREATE STREAM C ({text})")
    assert isinstance(create, s.CreateSource)
    return tuple(
        Column(each.name, each.type, Role.KEY if each.constraint is Constraint.KEY else Role.VALUE)
        for each in create.columns
    )


def columns_text(columns: tuple[Column, ...]) -> str:
    """Format columns as `columns_of` parses them."""
    listed = tuple(
        s.ColumnDefinition(each.name, each.type, Constraint.KEY if each.role is Role.KEY else None)
        for each in columns
    )
    text = print_statement(s.CreateSource(SourceKind.STREAM, "C", listed))
    return text.removeprefix("CREATE STREAM C (").removesuffix(")")


def _drop_source(state: State, drop: s.DropSource, said: Written) -> Applied:
    source = state.catalog.sources.get(drop.name)
    if source is None and drop.if_exists:
        return Applied(state, f"Source `{drop.name}` does not exist.")
    analyze(drop, state.catalog, said.text, said.start)
    assert source is not None
    check_droppable(state, source)
    mine = {each.id for each in state.queries.values() if each.sink.name == drop.name}
    made = state.without_queries(mine).without_source(drop.name)
    return Applied(made, f"Source `{drop.name}` (topic: {source.topic}) was dropped.")


def check_droppable(state: State, source: DataSource) -> None:
    """Check that nothing reads a source, and that no INSERT writes to it. Raises EngineError."""
    name = source.name
    readers = sorted(each for each, sources in state.made_from.items() if name in sources)
    if readers:
        raise EngineError(
            f"Cannot drop {name}.\nThe following streams and/or tables read from this source: "
            f"[{', '.join(readers)}].\nYou need to drop them before dropping {name}."
        )
    inserts = [each for each in state.queries.values() if each.purpose is QueryPurpose.INSERT]
    reading = sorted(each.id for each in inserts if name in each.sources)
    writing = sorted(each.id for each in inserts if each.sink.name == name)
    if reading or writing:
        raise EngineError(
            f"Cannot drop {name}.\nThe following queries read from this source: [{', '.join(reading)}].\n"
            f"The following queries write into this source: [{', '.join(writing)}].\n"
            f"You need to terminate them before dropping {name}."
        )


def _alter_source(state: State, command: Command, alter: s.AlterSource, said: Written) -> Applied:
    if alter.name in state.made_from:
        raise EngineError("ALTER command is not supported for CREATE ... AS statements.")
    catalog = analyze(alter, state.catalog, said.text, said.start).catalog
    made = replace(state, catalog=catalog, texts={**state.texts, alter.name: command.statement})
    return Applied(made, f"{alter.kind.value.capitalize()} {alter.name} altered.")


def _change_type(state: State, statement: s.CreateType | s.DropType, said: Written) -> Applied:
    name = statement.name
    old = state.catalog.types.get(name)
    made = replace(state, catalog=analyze(statement, state.catalog, said.text, said.start).catalog)
    if isinstance(statement, s.CreateType):
        if old is not None:
            return Applied(state, f"{name} is already registered with type {old}")
        type_ = made.catalog.types[name]
        return Applied(made, f"Registered custom type with name '{name}' and SQL type {type_}")
    if old is None:
        return Applied(state, f"Type '{name}' does not exist")
    return Applied(made, f"Dropped type '{name}'")


def _change_function(
    state: State, command: Command, statement: s.CreateFunction | s.DropFunction, said: Written
) -> Applied:
    catalog = analyze(statement, state.catalog, said.text, said.start).catalog
    if isinstance(statement, s.DropFunction):
        was_there = statement.name in state.catalog.functions
        made = replace(state, catalog=catalog)
        there = "was dropped" if was_there else "does not exist"
        return Applied(made, f"Function {statement.name} {there}.")
    name = statement.file.rpartition(":")[0]
    functions = UserFunctions({**state.user_functions.files, name: command.file or ""})
    functions.check(catalog.functions[statement.name])
    return Applied(
        replace(state, catalog=catalog, user_functions=functions), f"Function {statement.name} created."
    )


_CONTROLLED = {
    s.QueryAction.PAUSE: "Query paused.",
    s.QueryAction.RESUME: "Query resumed.",
    s.QueryAction.TERMINATE: "Query terminated.",
}


def _control(state: State, control: s.ControlQuery) -> Applied:
    chosen = dict(state.queries)
    if control.query_id is not None:
        if control.query_id not in state.queries:
            raise EngineError(f"Unknown queryId: {control.query_id}")
        chosen = {control.query_id: state.queries[control.query_id]}
    message = _CONTROLLED[control.action]
    if control.action is s.QueryAction.TERMINATE:
        return Applied(state.without_queries(set(chosen)), message)
    is_paused = control.action is s.QueryAction.PAUSE
    changed = {key: replace(each, is_paused=is_paused) for key, each in chosen.items()}
    return Applied(replace(state, queries={**state.queries, **changed}), message)
