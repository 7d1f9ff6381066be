"""Statements that change something: checked, given what they need, written to the command topic, and applied
from there.
"""

from __future__ import annotations

import logging
import threading

from penstock.sql import statements as s
from penstock.sql.catalog import DataSource
from penstock.sql.engine.applying import Applied, Applier, Written, exists_already
from penstock.sql.engine.command_topic import Appended, CommandTopic, Fenced, make_topic
from penstock.sql.engine.commands import BadCommand, Command
from penstock.sql.engine.config import EngineConfig
from penstock.sql.engine.entities import CommandStatus, CommandStatusEntity, Entity, WarningEntity
from penstock.sql.engine.errors import EngineError, ErrorCode
from penstock.sql.engine.preparation import Prepared, prepare
from penstock.sql.engine.properties import Values
from penstock.sql.engine.queries import PersistentQuery
from penstock.sql.engine.reading import topics_read
from penstock.sql.engine.registries import registry_of, required_registry
from penstock.sql.engine.requests import Step
from penstock.sql.engine.running import Runner
from penstock.sql.engine.state import State
from penstock.sql.engine.topics import KnownTopics, PlannedTopics, Topics
from penstock.sql.formats import register_schemas
from penstock.sql.formats.registered import REGISTRY_FORMATS

logger = logging.getLogger(__name__)

#: What goes to the command topic; all else looks, or changes the session.
CHANGING = (
    s.CreateSource,
    s.CreateAsSelect,
    s.InsertSelect,
    s.DropSource,
    s.AlterSource,
    s.CreateType,
    s.DropType,
    s.CreateFunction,
    s.DropFunction,
    s.ControlQuery,
    s.AlterSystem,
)


class Distributor:
    """Holds the state of the service. `state` may be read by any thread at any time."""

    def __init__(self, config: EngineConfig, topics: Topics, runner: Runner) -> None:
        self.state = State()
        self.applier = Applier(config)
        self._topics = topics
        self._runner = runner
        self._config = config
        self._log = CommandTopic(config.client, config.command_topic)
        self._statuses: dict[str, CommandStatus] = {}
        self._sequence = -1
        self._fenced: str | None = None
        self._changed = threading.Condition(threading.RLock())

    def start(self) -> None:
        """Take the service over, and bring back what it had. Raises ClientError."""
        with self._changed:
            make_topic(self._config)
            self._log.start()
            before = self.state
            for record in self._log.read():
                self._apply(record)
            self._runner.follow(before, self.state)
            self._runner.retain(self.state)

    def close(self) -> None:
        with self._changed:
            self._log.close()

    def terminate(self) -> int:
        """Delete the command topic: nothing can be written any more. The number of its last command. Raises
        ClientError.
        """
        with self._changed:
            self._topics.delete([self._log.name])
            self._fenced = "the service was terminated"
            return self._sequence

    # What is known of commands

    def status(self, command_id: str) -> CommandStatus | None:
        return self._statuses.get(_plain(command_id))

    def statuses(self) -> dict[str, str]:
        return {command_id: each.status for command_id, each in self._statuses.copy().items()}

    @property
    def fenced(self) -> str | None:
        """Why nothing can be written any more."""
        return self._fenced

    def wait_for(self, sequence: int, timeout_s: float) -> None:
        """Until the command of that number was applied. Raises EngineError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._sequence >= sequence, timeout_s):
                raise EngineError(
                    "Timed out while waiting for a previous command to execute. command sequence number: "
                    f"{sequence}",
                    ErrorCode.COMMAND_QUEUE_CATCHUP_TIMEOUT,
                )

    # One statement

    def check(self, step: Step, number: int, state: State, topics: PlannedTopics) -> State:
        """The state that a statement leads to, with nothing changed; ``number`` is its place in the request.
        Raises what `distribute` does.
        """
        if self._is_there(step.statement, state):
            return state
        prepared, applied = self._tried(step, state, topics, number)
        if prepared.topic is not None:
            topics.create(prepared.topic)
        if prepared.deleted is not None:
            topics.delete([state.catalog.sources[prepared.deleted].topic])
        return applied.state

    def distribute(self, step: Step) -> Entity:
        """Raises EngineError, ClientError, FormatError, SqlError, UserFunctionError."""
        with self._changed:
            warning = self._is_there(step.statement, self.state)
            if warning is not None:
                return WarningEntity(statement_text=step.text, message=warning)
            if self._fenced is not None:
                raise _not_written(self._fenced)
            before = self.state
            prepared, applied = self._tried(step, before, self._topics)
            self._write(prepared, applied, self._values(step))
            self._runner.follow(before, self.state)
            if prepared.deleted is not None:
                self._delete(before.catalog.sources[prepared.deleted], self._values(step))
            self._changed.notify_all()
            return CommandStatusEntity(
                statement_text=prepared.command.statement,
                command_id=prepared.command.id,
                command_status=self._statuses[_plain(prepared.command.id)],
                command_sequence_number=self._sequence,
            )

    def _values(self, step: Step) -> Values:
        return self.applier.values(self.state, step.overrides)

    def _tried(
        self, step: Step, state: State, topics: KnownTopics, number: int = 0
    ) -> tuple[Prepared, Applied]:
        """What a statement needs, and what comes of it, with nothing changed yet."""
        values = self.applier.values(state, step.overrides)
        prepared = prepare(step, state, values, topics)
        written = Written(prepared.statement, step.script, step.start)
        applied = self.applier.apply(state, prepared.command, self._sequence + 1 + number, written)
        limit = values.number("ksql.query.persistent.active.limit")
        if len(applied.state.queries) > max(limit, len(state.queries)):
            raise EngineError(
                f"Not executing statement, as it would cause the number of active, persistent queries to "
                f"exceed 'ksql.query.persistent.active.limit': found {len(state.queries)} queries, expected "
                f"fewer than {limit}. Use TERMINATE to end one"
            )
        if applied.query_id is not None:
            _check_partitions(applied.state.queries[applied.query_id], topics)
        return prepared, applied

    def _is_there(self, statement: s.Statement, state: State) -> str | None:
        """What is said where IF NOT EXISTS finds something."""
        if not isinstance(statement, (s.CreateSource, s.CreateAsSelect)) or not statement.if_not_exists:
            return None
        if statement.name not in state.catalog.sources:
            return None
        return exists_already(statement.kind, statement.name, state.catalog)

    def _write(self, prepared: Prepared, applied: Applied, values: Values) -> None:
        """Make what the statement needs, and write it; if that fails the topic it made goes again."""
        try:
            if prepared.topic is not None:
                self._topics.create(prepared.topic)
            if prepared.registers is not None:
                self._register(applied.state.catalog.sources[prepared.registers], applied, values)
            records = self._log.append(prepared.command.key, prepared.command.value)
        except Exception as error:
            if prepared.topic is not None:
                self._topics.delete([prepared.topic.name])
            if isinstance(error, Fenced):
                self._fenced = str(error)
                raise _not_written(self._fenced) from error
            raise
        for record in records:
            self._apply(record)

    def _register(self, source: DataSource, applied: Applied, values: Values) -> None:
        formats = [each for each in (source.key_format, source.value_format) if each in REGISTRY_FORMATS]
        if not formats:
            return
        client = required_registry(values, f"the format {formats[0]}")
        is_result = source.name in applied.state.made_from
        register_schemas(source, client, is_result=is_result)

    def _delete(self, source: DataSource, values: Values) -> None:
        """The topic of a source that was dropped, and its schemas."""
        self._topics.delete([source.topic])
        client = registry_of(values)
        for side, format_ in (("key", source.key_format), ("value", source.value_format)):
            if client is not None and format_ in REGISTRY_FORMATS:
                client.delete_subject(f"{source.topic}-{side}")

    # The log

    def _apply(self, record: Appended) -> None:
        self._sequence = record.offset
        try:
            command = Command.of(record.key, record.value)
        except BadCommand as error:
            logger.error("the command at offset %d is passed over: %s", record.offset, error)
            return
        try:
            applied = self.applier.apply(self.state, command, record.offset)
        except EngineError as error:
            logger.error("the command %s at offset %d failed: %s", command.id, record.offset, error)
            self._statuses[_plain(command.id)] = CommandStatus("ERROR", error.message)
            return
        self.state = applied.state
        self._statuses[_plain(command.id)] = CommandStatus("SUCCESS", applied.message, applied.query_id)


def _check_partitions(query: PersistentQuery, topics: KnownTopics) -> None:
    """That what is joined has equal numbers of partitions. Raises EngineError, CoPartitioningError."""
    topology = query.planned.app.topology()
    counts: dict[str, int] = {}
    for topic in topics_read(topology):
        shape = topics.shape(topic)
        if shape is None:
            raise EngineError(f"Kafka topic does not exist: {topic}")
        counts[topic] = shape.partitions
    topology.partition_counts(counts)


def _plain(command_id: str) -> str:
    return command_id.replace("`", "")


def _not_written(reason: str) -> EngineError:
    return EngineError(
        f"Could not write the statement into the command topic: {reason}", ErrorCode.SERVER_ERROR
    )
