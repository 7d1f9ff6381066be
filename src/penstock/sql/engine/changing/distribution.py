"""Statements that change something: check each, prepare what it needs, log it, and apply it from the log."""

from __future__ import annotations

import logging
import threading
from itertools import count
from typing import Final, NamedTuple

from penstock.client.errors import ClientError
from penstock.sql.engine.changing.applying import Applied, Applier, Written, exists_already
from penstock.sql.engine.changing.command_topic import Appended, CommandTopic, Fenced, NotSeen, OutcomeUnknown
from penstock.sql.engine.changing.commands import BadCommand, Command
from penstock.sql.engine.changing.preparation import Prepared, prepare
from penstock.sql.engine.changing.topics_and_schemas import TopicsAndSchemas
from penstock.sql.engine.ground.cluster_topics import (
    KnownTopics,
    PlannedTopics,
    Topics,
    TopicShape,
    topics_read,
)
from penstock.sql.engine.ground.config import EngineConfig
from penstock.sql.engine.ground.entities import CommandStatus, CommandStatusEntity, Entity, WarningEntity
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.ground.persistent_queries import PersistentQuery
from penstock.sql.engine.ground.properties import Values
from penstock.sql.engine.ground.query_settings import values_of
from penstock.sql.engine.ground.requests import Step
from penstock.sql.engine.ground.service_topics import make_command_topic
from penstock.sql.engine.ground.state import State
from penstock.sql.engine.running.runner import Runner
from penstock.sql.language import statements as s

log = logging.getLogger(__name__)

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
"""Statements that go through the command topic. All others only read, or change the session."""


_TEND_S: Final = 0.5
_OBSERVED_EVERY: Final = 10
_NOT_WRITTEN: Final = "Could not write the statement into the command topic"
_UNKNOWN: Final = "It is not known whether the statement was written into the command topic."


class _Unsettled(NamedTuple):
    """A command whose outcome is not known, or that was written but can't be read yet."""

    prepared: Prepared
    values: Values


class Distributor:
    """The owner of a service's state. Any thread may read `state` at any time."""

    def __init__(self, config: EngineConfig, topics: Topics, runner: Runner) -> None:
        self.state = State()
        self.applier = Applier(config)
        self._topics = topics
        self._runner = runner
        self._topics_and_schemas = TopicsAndSchemas(topics, runner)
        self._config = config
        timeout_s = config.values.number("ksql.server.command.response.timeout.ms") / 1000
        self._log = CommandTopic(config.client, config.command_topic, timeout_s)
        self._unsettled: _Unsettled | None = None
        self._closing = threading.Event()
        self._statuses: dict[str, CommandStatus] = {}
        self._sequence = -1
        self._fenced: str | None = None
        self._changed = threading.Condition(threading.RLock())

    def start(self) -> bool:
        """Take over the service, restore its state, and return whether it is new. Raises ClientError."""
        with self._changed:
            make_command_topic(self._config)
            self._log.start()
            before = self.state
            is_understood = True
            for record in self._log.read():
                is_understood &= self._apply(record)
            self._runner.follow(before, self.state)
            # An empty log may belong to the wrong cluster, or its topic may have been deleted.
            self._runner.retain(self.state, is_whole=is_understood and self._sequence >= 0)
            threading.Thread(target=self._tend, name="SQL commands", daemon=True).start()
            return self._sequence < 0

    def close(self) -> None:
        self._closing.set()
        with self._changed:
            self._log.close()

    def terminate(self) -> tuple[int, tuple[str, ...]]:
        """Delete the command topic, so that nothing can be written any more.

        Returns the number of its last command, and warnings. Raises ClientError.
        """
        with self._changed:
            warnings = self._topics_and_schemas.delete_of_service(self._config)
            self._topics.delete([self._log.name])
            self._fenced = "the service was terminated"
            return self._sequence, warnings

    # The status of commands

    def status(self, command_id: str) -> CommandStatus | None:
        return self._statuses.get(_plain(command_id))

    def statuses(self) -> dict[str, str]:
        return {command_id: each.status for command_id, each in self._statuses.copy().items()}

    @property
    def fenced(self) -> str | None:
        """The reason why nothing can be written any more, or None."""
        return self._fenced

    def wait_for(self, sequence: int, timeout_s: float) -> None:
        """Wait until the command of that number is applied. Raises EngineError if that takes too long."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._sequence >= sequence, timeout_s):
                raise EngineError(
                    "Timed out while waiting for a previous command to execute. command sequence number: "
                    f"{sequence}",
                    ErrorCode.COMMAND_QUEUE_CATCHUP_TIMEOUT,
                )

    # One statement

    def check(self, step: Step, number: int, state: State, topics: PlannedTopics) -> State:
        """Return the state that a statement leads to, without changing anything.

        ``number`` is the statement's position in the request. Raises what `distribute` raises.
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
        """Log and apply one statement.

        Raises EngineError, ClientError, FormatError, SqlError or UserFunctionError if it is refused.
        """
        with self._changed:
            self._settle()
            warning = self._is_there(step.statement, self.state)
            if warning is not None:
                return WarningEntity(statement_text=step.text, message=warning)
            if self._fenced is not None:
                raise _not_written(self._fenced)
            prepared, applied = self._tried(step, self.state, self._topics)
            values = self._values(step)
            self._topics_and_schemas.make(prepared, applied, values)
            written = self._write(prepared, values)
            warnings = self._carry_out(written, prepared, values) if written else ()
            return CommandStatusEntity(
                statement_text=prepared.command.statement,
                command_id=prepared.command.id,
                command_status=self._statuses[_plain(prepared.command.id)],
                command_sequence_number=self._sequence if written else self._sequence + 1,
                warnings=warnings,
            )

    def _values(self, step: Step) -> Values:
        return values_of(self._config, self.state, step.overrides)

    def _tried(
        self, step: Step, state: State, topics: KnownTopics, number: int = 0
    ) -> tuple[Prepared, Applied]:
        """Prepare and apply a statement, without changing anything yet."""
        values = values_of(self._config, state, step.overrides)
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
            _check_partitions(applied.state.queries[applied.query_id], topics, prepared.topic)
        return prepared, applied

    def _is_there(self, statement: s.Statement, state: State) -> str | None:
        """The warning that IF NOT EXISTS answers with if the source exists; else None."""
        if not isinstance(statement, (s.CreateSource, s.CreateAsSelect)) or not statement.if_not_exists:
            return None
        if statement.name not in state.catalog.sources:
            return None
        return exists_already(statement.kind, statement.name, state.catalog)

    def _write(self, prepared: Prepared, values: Values) -> list[Appended]:
        """Write a command and return what was read back from the log, the command at the end.

        Returns nothing if the command was written but can't be read yet. Raises EngineError if it was not
        written, or if that is not known; in the second case what was created for it is kept.
        """
        command = prepared.command
        try:
            return self._log.append(command.key, command.value)
        except NotSeen as error:
            log.warning("a written command cannot be read yet command=%s error=%s", command.id, error)
            self._statuses[_plain(command.id)] = CommandStatus("QUEUED", "Statement written to command topic")
            self._unsettled = _Unsettled(prepared, values)
            return []
        except OutcomeUnknown as error:
            self._statuses[_plain(command.id)] = CommandStatus("QUEUED", _UNKNOWN)
            self._unsettled = _Unsettled(prepared, values)
            raise EngineError(
                f"{_UNKNOWN} The status of {command.id} will show it: {error}", ErrorCode.SERVER_ERROR
            ) from error
        except Exception as error:
            self._topics_and_schemas.unmake(prepared)
            if isinstance(error, Fenced):
                self._fenced = str(error)
                raise _not_written(self._fenced) from error
            raise

    def _carry_out(self, records: list[Appended], prepared: Prepared, values: Values) -> tuple[str, ...]:
        """Apply records of the log, the last of which is this command's, and return warnings."""
        before = self.state
        for record in records:
            self._apply(record)
        self._runner.follow(before, self.state)
        self._changed.notify_all()
        if prepared.deleted is None:
            return ()
        return self._topics_and_schemas.delete(before.catalog.sources[prepared.deleted], values)

    def _tend(self) -> None:
        """Settle commands, retry failed queries and record statistics until the engine is closed."""
        for round_ in count():
            if self._closing.wait(_TEND_S):
                return
            try:
                if round_ % _OBSERVED_EVERY == 0:
                    self._runner.observe()
                if self._unsettled is not None or self._runner.has_due:
                    self._catch_up()
            except ClientError as error:
                log.info("the outcome of a command is not known yet error=%s", error)
            except Exception:  # the next round tries again
                log.exception("periodic work of the engine failed")

    def _catch_up(self) -> None:
        with self._changed:
            if not self._closing.is_set():
                self._settle()
                self._runner.try_again(self.state)

    def _settle(self) -> None:
        """Apply everything that was written, before anything else is done.

        Raises ClientError while the outcome of the last command can't be determined.
        """
        if self._unsettled is None:
            return
        prepared, values = self._unsettled
        try:
            records = self._log.settle()
        except Fenced as error:
            self._fenced, records = str(error), []
        self._unsettled = None
        if records:
            self._carry_out(records, prepared, values)
        else:
            self._statuses[_plain(prepared.command.id)] = CommandStatus("ERROR", _NOT_WRITTEN)

    # The log

    def _apply(self, record: Appended) -> bool:
        """Apply a record and return whether that succeeded. A bad record must not stop later ones."""
        self._sequence = record.offset
        try:
            command = Command.of(record.key, record.value)
        except BadCommand as error:
            log.error("invalid command skipped offset=%d error=%s", record.offset, error)
            return False
        try:
            applied = self.applier.apply(self.state, command, record.offset)
        except Exception as error:
            log.error("command failed command=%s offset=%d error=%r", command.id, record.offset, error)
            self._statuses[_plain(command.id)] = CommandStatus("ERROR", str(error) or repr(error))
            return False
        self.state = applied.state
        self._statuses[_plain(command.id)] = CommandStatus("SUCCESS", applied.message, applied.query_id)
        return True


def _check_partitions(query: PersistentQuery, topics: KnownTopics, created: TopicShape | None) -> None:
    """Check that joined topics have equal numbers of partitions.

    ``created`` is the topic that the statement creates; a source table reads it. Raises EngineError,
    CoPartitioningError.
    """
    topology = query.planned.app.topology()
    counts: dict[str, int] = {}
    for topic in topics_read(topology):
        shape = created if created is not None and created.name == topic else topics.shape(topic)
        if shape is None:
            raise EngineError(f"Kafka topic does not exist: {topic}")
        counts[topic] = shape.partitions
    topology.partition_counts(counts)


def _plain(command_id: str) -> str:
    return command_id.replace("`", "")


def _not_written(reason: str) -> EngineError:
    return EngineError(f"{_NOT_WRITTEN}: {reason}", ErrorCode.SERVER_ERROR)
