"""The engine of a SQL server: it takes statements and returns entities and rows.

    engine = Engine(EngineConfig("localhost:9092"), host)
    engine.start()
    engine.execute("CREATE STREAM s (id INT KEY) WITH (kafka_topic='s', partitions=1, format='json');")

Once it is started, any thread may call any method.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NoReturn

from penstock.client.errors import ClientError
from penstock.client.settings import ConfigError
from penstock.registry.client.errors import RegistryRefused
from penstock.sql.analysis import analyze
from penstock.sql.engine.changing.applying import Written
from penstock.sql.engine.changing.commands import Command, command_id_of
from penstock.sql.engine.changing.distribution import CHANGING, Distributor
from penstock.sql.engine.changing.inserter import Inserter
from penstock.sql.engine.changing.termination import terminate
from penstock.sql.engine.connectors import Connectors
from penstock.sql.engine.ground.cluster_topics import PlannedTopics, Topics
from penstock.sql.engine.ground.config import EngineConfig
from penstock.sql.engine.ground.entities import (
    CommandStatus,
    Entity,
    HealthCheck,
    HealthDetail,
    HostStatus,
    QueryDescription,
    QueryDescriptionEntity,
    ServerInfo,
    TerminateQueryEntity,
)
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.ground.persistent_queries import names_of_sources
from penstock.sql.engine.ground.properties import Values, checked_override, require_mutable
from penstock.sql.engine.ground.query_settings import values_of
from penstock.sql.engine.ground.registry_clients import required_registry
from penstock.sql.engine.ground.requests import STATEMENTS_MAX, Step, steps_of
from penstock.sql.engine.ground.service_topics import log_stream, make_log_topic
from penstock.sql.engine.ground.state import State
from penstock.sql.engine.reading.results import QueryResult, QueuedRows
from penstock.sql.engine.reading.selector import Selector
from penstock.sql.engine.running.host import QueryHost
from penstock.sql.engine.running.runner import Runner
from penstock.sql.engine.showing.assertions import assert_schema, assert_topic
from penstock.sql.engine.showing.descriptions import function_description, plan_description
from penstock.sql.engine.showing.figures import Figures
from penstock.sql.engine.showing.lister import Lister
from penstock.sql.engine.showing.store_lags import host_status
from penstock.sql.evaluation import UserFunctionError
from penstock.sql.formats import FormatError
from penstock.sql.language import statements as s
from penstock.sql.language.errors import SqlError
from penstock.sql.language.statement_printing import print_statement
from penstock.sql.language.statements import Described, SourceKind
from penstock.topology.errors import StreamsError
from penstock.topology.plans.description import describe as topology_text

log = logging.getLogger(__name__)

KSQLDB_VERSION: Final = "0.29.0"
"""The version of ksqlDB whose language and API this is; clients ask for it."""
_ANSWERED_MAX: Final = 16 << 20
"""Limit on the answers to one request, in characters. Once they exceed it, no further statement runs."""
_WRONG: Final = (SqlError, FormatError, UserFunctionError, StreamsError, ConfigError, RegistryRefused)


_OF_SESSIONS: Final = (s.SetProperty, s.UnsetProperty, s.Define, s.Undefine)
"""These statements were already applied while the request was parsed."""


class Engine:
    """The engine of one service id. ``host`` runs its queries, and is closed with it."""

    def __init__(self, config: EngineConfig, host: QueryHost) -> None:
        self.config = config
        self._topics = Topics(config.client)
        self._runner = Runner(config, host)
        self._distributor = Distributor(config, self._topics, self._runner)
        self._selector = Selector(config, self._runner)
        self._inserter = Inserter(config.client)
        self.host_metrics = host.metrics
        """The metrics of the host's own batches."""
        self._is_started = False
        self._closing = threading.Event()

    def start(self) -> None:
        """Read the command topic to its end and let the host run the queries that it describes.

        From then on, an earlier server of the same service can't change anything. Raises ClientError.
        """
        make_log_topic(self.config)
        is_new = self._distributor.start()
        self._is_started = True
        stream = log_stream(self.config)
        if is_new and stream is not None:
            try:
                self.execute(stream)
            except EngineError as error:
                log.warning("cannot create the stream of the processing log error=%s", error)

    def close(self) -> None:
        """Stop the engine and its queries; they resume with the next start."""
        self._is_started = False
        self._closing.set()
        self._selector.close()
        self._inserter.close()
        self._distributor.close()
        self._runner.close()
        self._topics.close()

    # Statements

    def execute(
        self,
        text: str,
        properties: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
        command_sequence: int | None = None,
        permit: Callable[[s.Statement], None] = lambda _: None,
    ) -> list[Entity]:
        """Check all statements of a text, then execute them in order.

        ``properties`` and ``variables`` apply to this request. ``permit`` raises EngineError for a statement
        that the client may not execute. With ``command_sequence``, the request first
        waits until the command of that number is applied. A statement that only sets something or writes a
        row has no entity. Raises EngineError, with the entities of the statements before the failed one.
        """
        self._require_start()
        if command_sequence is not None:
            timeout_ms = self.config.values.number("ksql.server.command.response.timeout.ms")
            self._distributor.wait_for(command_sequence, timeout_ms / 1000)
        steps = self._steps(text, properties, variables)
        self._check(steps, permit)
        entities: list[Entity] = []
        answered = 0
        for step in steps:
            try:
                if answered > _ANSWERED_MAX:
                    raise EngineError(
                        f"found an answer of {answered} characters to the statements before this one, "
                        f"expected up to {_ANSWERED_MAX} in one request: this one was not executed",
                        ErrorCode.BAD_REQUEST,
                    )
                entity = self._execute(step)
            except Exception as error:
                _refuse(error, step.text, entities)
            if entity is not None:
                entities.append(entity)
                answered += len(repr(entity))
        return entities

    def terminate_cluster(self, topics: Sequence[str] = ()) -> list[Entity]:
        """End the service for good, as `terminate` does; later changes are refused. Raises EngineError."""
        self._require_start()
        try:
            return [terminate(self._distributor, topics)]
        except Exception as error:
            _refuse(error, "TERMINATE CLUSTER;", ())

    def _require_start(self) -> None:
        if not self._is_started:
            raise EngineError("KSQL is not yet ready to serve requests.", ErrorCode.SERVER_NOT_READY)

    def _steps(
        self, text: str, properties: Mapping[str, object] | None, variables: Mapping[str, str] | None
    ) -> list[Step]:
        given = {name: value for name, value in (properties or {}).items() if value is not None}
        overrides = dict(checked_override(name, value) for name, value in given.items())
        try:
            read = steps_of(text, overrides, dict(variables or {}), self.config.scripts)
            steps = list(islice(read, STATEMENTS_MAX + 1))
        except Exception as error:
            _refuse(error, text, ())
        if len(steps) > STATEMENTS_MAX:
            raise EngineError(
                f"found more than {STATEMENTS_MAX} statements in one request, expected fewer",
                ErrorCode.BAD_REQUEST,
            )
        return steps

    def _check(self, steps: list[Step], permit: Callable[[s.Statement], None]) -> None:
        """Check that every statement is permitted, and valid after those before it. Raises EngineError."""
        state, topics = self.state, PlannedTopics(self._topics)
        for step in steps:
            try:
                permit(step.statement)
            except EngineError as error:
                raise error.of(step.text) from None
        for number, step in enumerate(steps):
            try:
                if isinstance(step.statement, CHANGING):
                    if not self._is_of_a_reader(step.statement):
                        state = self._distributor.check(step, number, state, topics)
                elif isinstance(step.statement, (s.Query, s.Print)):
                    raise EngineError(
                        "The following statement types should be issued to the websocket endpoint '/query':\n"
                        "\t* PRINT\n\t* SELECT",
                        ErrorCode.QUERY_ENDPOINT,
                    )
                else:
                    _require_of_servers(step)
                    analyze(step.statement, state.catalog, step.script, step.start)
                    if isinstance(step.statement, s.CreateConnector):
                        Connectors(self._values(step)).check(step.statement)
            except Exception as error:
                _refuse(error, step.text, ())

    def _is_of_a_reader(self, statement: s.Statement) -> bool:
        """Whether the statement terminates a query that isn't persistent."""
        match statement:
            case s.ControlQuery(s.QueryAction.TERMINATE, str() as query_id):
                return self._selector.has(query_id)
        return False

    def _execute(self, step: Step) -> Entity | None:
        statement = step.statement
        if isinstance(statement, s.ControlQuery) and self._is_of_a_reader(statement):
            query_id = statement.query_id or ""
            self._selector.close_query(query_id)
            return TerminateQueryEntity(statement_text=step.text, query_id=query_id, was_terminated=True)
        if isinstance(statement, CHANGING):
            return self._distributor.distribute(step)
        match statement:
            case s.Show():
                return self._lister(step).show(statement, step.text, step.variables)
            case s.Describe():
                return self._describe(statement, step)
            case s.AssertTopic():
                return assert_topic(statement, step.text, self._topics, self._values(step), self._closing)
            case s.AssertSchema():
                values = self._values(step)
                client = required_registry(values, "ASSERT SCHEMA")
                return assert_schema(statement, step.text, client, values, self._closing)
            case s.CreateConnector():
                return Connectors(self._values(step)).create(statement, step.text)
            case s.DropConnector():
                return Connectors(self._values(step)).drop(statement, step.text)
            case s.Explain():
                return self._explain(statement, step)
            case s.InsertValues():
                self._insert(statement, step)
                return None
        assert isinstance(statement, _OF_SESSIONS), "the check lets nothing else pass"
        return None

    @property
    def state(self) -> State:
        return self._distributor.state

    def _values(self, step: Step) -> Values:
        return values_of(self.config, self.state, step.overrides)

    def _lister(self, step: Step) -> Lister:
        push = self._selector.running()
        return Lister(self.state, self._runner, self._topics, self._values(step), self.config.host, push)

    def _describe(self, describe: s.Describe, step: Step) -> Entity:
        lister, catalog = self._lister(step), self.state.catalog
        match describe.what:
            case Described.SOURCE:
                source = catalog.source(describe.name)
                return lister.describe(source, step.text, extended=describe.extended)
            case Described.STREAMS:
                return lister.describe_all(SourceKind.STREAM, step.text, extended=describe.extended)
            case Described.TABLES:
                return lister.describe_all(SourceKind.TABLE, step.text, extended=describe.extended)
            case Described.FUNCTION:
                return function_description(step.text, catalog.function(describe.name))
        return lister.describe_connector(describe.name, step.text)

    def _explain(self, explain: s.Explain, step: Step) -> Entity:
        if explain.statement is None:
            query = self.state.queries.get(explain.query_id or "")
            if query is None:
                raise EngineError(
                    f"Query with id:{explain.query_id} does not exist, use SHOW QUERIES to view the full "
                    "set of queries."
                )
            described = self._lister(step).describe_query(query, self._runner.state(query))
        else:
            described = self._explained(explain.statement, step)
        return QueryDescriptionEntity(statement_text=step.text, query_description=described)

    def _explained(self, statement: s.Statement, step: Step) -> QueryDescription:
        text = f"{print_statement(statement)};"
        if isinstance(statement, (s.CreateAsSelect, s.InsertSelect)):
            command = Command(command_id_of(statement), text, step.overrides)
            written = Written(statement, step.script, step.start)
            applied = self._distributor.applier.apply(self.state, command, 0, written)
            query = applied.state.queries[applied.query_id or ""]
            assert query.plan is not None
            topology = topology_text(query.planned.app.topology())
            return plan_description(
                text, query.plan, query.sources, (query.sink.name,), topology, step.overrides
            )
        plan = analyze(statement, self.state.catalog, step.script, step.start).plan
        if plan is None:
            raise EngineError("The provided statement does not run a ksql query")
        result = QueuedRows("explained", (), is_push=True, limit=None, text=text)
        app = self._selector.reader(plan, result, self.state, self._values(step))
        topology = topology_text(app.topology())
        return plan_description(text, plan, names_of_sources(plan), (), topology, step.overrides)

    def figures(self) -> Figures:
        """Count queries, records and failures, for metrics."""
        states = self._runner.states(dict(self.state.queries))
        return Figures(
            {query_id: each.status for query_id, each in states.items()},
            self._runner.failure_counts,
            self._runner.totals(),
            len(self._selector.running()),
            self._inserter.rows,
        )

    # Rows

    def query(
        self,
        text: str,
        properties: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> QueryResult:
        """Execute one SELECT; statements that set something may precede it. Raises EngineError."""
        known = self._known(text, properties, variables, self._selector.puller.known)
        if known is not None:
            return known
        step = self._looking(text, properties, variables, s.Query, "SELECT")
        assert isinstance(step.statement, s.Query)
        try:
            return self._selector.select(step, step.statement, self.state)
        except Exception as error:
            _refuse(error, step.text, ())

    def query_now(
        self,
        text: str,
        properties: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> QueryResult | None:
        """Like `query`, for an event loop: None unless one lookup of a key answers it. Raises EngineError."""
        return self._known(text, properties, variables, self._selector.puller.known_now)

    def _known(
        self,
        text: str,
        properties: Mapping[str, object] | None,
        variables: Mapping[str, str] | None,
        find: Callable[[str, State], QueryResult | None],
    ) -> QueryResult | None:
        """The answer to a text that differs only in its keys from an earlier one; None if there is none.

        Properties and variables may change the meaning of a text, so with them it is always None.
        """
        if not self._is_started or properties or variables:
            return None
        try:
            return find(text, self.state)
        except Exception as error:
            _refuse(error, text, ())

    def print_topic(
        self,
        text: str,
        properties: Mapping[str, object] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> QueryResult:
        """Execute one PRINT: each row is a line of text. Raises EngineError."""
        step = self._looking(text, properties, variables, s.Print, "PRINT")
        statement = step.statement
        assert isinstance(statement, s.Print)
        try:
            if self._topics.shape(statement.topic) is None:
                known = ", ".join(each.name for each in self._topics.all())
                raise EngineError(
                    f"Could not find topic '{statement.topic}', or the KSQL user does not have permissions "
                    f"to list the topic. Topic names are case-sensitive.\nAvailable topics: {known or 'none'}"
                )
            return self._selector.print_topic(step, statement, self.state)
        except Exception as error:
            _refuse(error, step.text, ())

    def _looking(
        self,
        text: str,
        properties: Mapping[str, object] | None,
        variables: Mapping[str, str] | None,
        wanted: type[s.Statement],
        word: str,
    ) -> Step:
        """Parse a text that has one statement besides those that set something. Raises EngineError."""
        self._require_start()
        steps = self._steps(text, properties, variables)
        found = [step for step in steps if not isinstance(step.statement, _OF_SESSIONS)]
        if len(found) != 1:
            raise EngineError(
                f"Expected exactly one KSQL statement; found {len(found)} instead",
                ErrorCode.BAD_REQUEST,
                text,
            )
        if not isinstance(found[0].statement, wanted):
            raise EngineError(
                f"found {found[0].text}, expected {word}: send other statements to the /ksql endpoint",
                ErrorCode.BAD_STATEMENT,
                found[0].text,
            )
        return found[0]

    def close_query(self, query_id: str) -> bool:
        """End a push query and return whether there was one of that id."""
        return self._selector.close_query(query_id)

    def _insert(self, insert: s.InsertValues, step: Step) -> None:
        values = self._values(step)
        if not values.flag("ksql.insert.into.values.enabled"):
            raise EngineError(
                "The server has disabled INSERT INTO ... VALUES functionality. To enable it, restart your "
                "ksqlDB server with 'ksql.insert.into.values.enabled'=true"
            )
        catalog = self.state.catalog
        row = analyze(insert, catalog, step.script, step.start).row
        assert row is not None
        self._inserter.insert(row, catalog, values.registry())

    def insert(self, target: str, *rows: Mapping[str, Any]) -> int:
        """Write rows in order and return their number. Without rows, check that the target takes rows.

        Values are as JSON has them, and column names as SQL writes them. Raises EngineError, whose
        ``inserted`` is the number of rows that were written before the wrong one.
        """
        self._require_start()
        source = self.state.catalog.sources.get(_name(target))
        try:
            if source is None:
                raise EngineError(f"Cannot insert values into an unknown stream/table: {target}")
            if source.read_only:
                raise EngineError(f"Cannot insert values into read-only source: {target}")
            named = ({_name(name): value for name, value in row.items()} for row in rows)
            done = self._inserter.insert_json(source, named, self.config.values.registry())
            if done.error is not None:
                raise _as_refused(done.error, done.rows) from done.error
            return done.rows
        except Exception as error:
            _refuse(error, f"INSERT INTO {target}", ())

    # The server's status

    def status(self, command_id: str) -> CommandStatus:
        """The status of a command. Raises EngineError if there is none of that id."""
        found = self._distributor.status(command_id)
        if found is None:
            raise EngineError("Command not found", ErrorCode.NOT_FOUND)
        return found

    def statuses(self) -> dict[str, str]:
        """The status of each command, by its id."""
        return self._distributor.statuses()

    def info(self) -> ServerInfo:
        status = "RUNNING" if self._is_started else "NOT_READY"
        return ServerInfo(KSQLDB_VERSION, self._topics.cluster_id(), self.config.service_id, status)

    def healthcheck(self) -> HealthCheck:
        try:
            self._topics.cluster_id()
            has_kafka = True
        except ClientError:
            has_kafka = False
        details = {
            "metastore": HealthDetail(self._is_started),
            "kafka": HealthDetail(has_kafka),
            "commandRunner": HealthDetail(self._distributor.fenced is None),
        }
        return HealthCheck(all(each.is_healthy for each in details.values()), details)

    def cluster_status(self) -> dict[str, HostStatus]:
        """The status of each server of the service, by its address.

        This server is the whole cluster, because a second one takes the service over.
        """
        return {self.config.host: host_status(self._runner.all_views, time.time_ns() // 1_000_000)}

    def is_valid_property(self, name: str) -> bool:
        """Return True if requests may set a property. Raises EngineError if not."""
        require_mutable(name)
        return True


def _require_of_servers(step: Step) -> None:
    """Check that servers execute a statement, before any of its request is executed. Raises EngineError."""
    match step.statement:
        case s.AssertValues() | s.AssertTombstone() | s.AssertSource():
            raise EngineError(
                f"found {step.text}, expected a statement that a server executes: this one belongs to "
                "tests of statements, and servers assert only a TOPIC or a SCHEMA"
            )


def _as_refused(error: Exception, inserted: int) -> EngineError:
    refused = EngineError(str(error), ErrorCode.BAD_STATEMENT)
    refused.inserted = inserted
    return refused


def _name(written: str) -> str:
    """A name as SQL reads it: in upper case unless it is quoted."""
    if len(written) > 1 and written[0] == written[-1] and written[0] in '`"':
        return written[1:-1]
    return written.upper()


def _refuse(error: Exception, text: str, entities: list[Entity] | tuple[Entity, ...]) -> NoReturn:
    """Raise an error as the EngineError that the client receives."""
    if isinstance(error, EngineError):
        raise error.of(text, entities) from error.__cause__
    code = ErrorCode.BAD_STATEMENT if isinstance(error, _WRONG) else ErrorCode.SERVER_ERROR
    raise EngineError(str(error) or repr(error), code, text, entities) from error
