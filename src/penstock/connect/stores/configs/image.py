"""The state of a Connect cluster's configurations, built by replaying the config topic.

The topic is compacted, so earlier records may be missing. The configurations of a connector's tasks are
therefore deferred until a commit record says how many there are. If one of them is missing by then, the
connector is inconsistent, and its leader has to write its tasks again. Records that make no sense are logged
and skipped, as Connect does.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.connect.data.json_text import from_json
from penstock.connect.errors import DataError
from penstock.connect.stores.configs.model import (
    Change,
    ConnectorRemoved,
    ConnectorUpdated,
    LoggerLevelSet,
    RestartRequest,
    RestartRequested,
    SessionKey,
    SessionKeyUpdated,
    TargetState,
    TargetStateChanged,
    TasksUpdated,
)
from penstock.connect.stores.configs.records import (
    COMMIT,
    CONNECTOR,
    LOGGER_LEVEL,
    RESTART,
    SESSION_KEY,
    TARGET_STATE,
    TASK,
    TASK_COUNT,
    Properties,
)
from penstock.connect.task_id import ConnectorTaskId, task_in_key

log = logging.getLogger(__name__)

NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """The configurations at one offset of the topic (Connect's ClusterConfigState).

    Configurations are as they were written: references to config providers are not resolved. Mappings are by
    connector, except ``task_configs``.
    """

    offset: int = NO_OFFSET
    """The offset behind the last record that counts; -1 if there is none."""
    session_key: SessionKey | None = None
    task_counts: Mapping[str, int] = field(default_factory=dict)
    connector_configs: Mapping[str, Properties] = field(default_factory=dict)
    target_states: Mapping[str, TargetState] = field(default_factory=dict)
    task_configs: Mapping[ConnectorTaskId, Properties] = field(default_factory=dict)
    task_count_records: Mapping[str, int] = field(default_factory=dict)
    """How many transactional producers have to be fenced before new tasks start (KIP-618)."""
    task_config_generations: Mapping[str, int] = field(default_factory=dict)
    """How often this worker saw new task configurations; it differs between workers."""
    applied_connector_configs: Mapping[str, Properties] = field(default_factory=dict)
    """The configuration of a connector from which its present tasks were made."""
    pending_fencing: frozenset[str] = frozenset()
    inconsistent: frozenset[str] = frozenset()

    def __contains__(self, connector: str) -> bool:
        return connector in self.connector_configs

    def tasks(self, connector: str) -> list[ConnectorTaskId]:
        """The tasks of a connector; none while its task configurations are inconsistent."""
        if connector in self.inconsistent:
            return []
        return [ConnectorTaskId(connector, number) for number in range(self.task_counts.get(connector, 0))]


class ConfigImage:
    """Replays the records of the config topic. For one thread at a time."""

    def __init__(self) -> None:
        self._offset = NO_OFFSET
        self._session_key: SessionKey | None = None
        self._task_counts: dict[str, int] = {}
        self._connector_configs: dict[str, Properties] = {}
        self._target_states: dict[str, TargetState] = {}
        self._task_configs: dict[ConnectorTaskId, Properties] = {}
        self._task_count_records: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._applied: dict[str, Properties] = {}
        self._pending_fencing: set[str] = set()
        self._inconsistent: set[str] = set()
        self._deferred: dict[str, dict[ConnectorTaskId, Properties]] = {}

    def snapshot(self) -> ClusterConfig:
        return ClusterConfig(
            offset=self._offset,
            session_key=self._session_key,
            task_counts=dict(self._task_counts),
            connector_configs=dict(self._connector_configs),
            target_states=dict(self._target_states),
            task_configs=dict(self._task_configs),
            task_count_records=dict(self._task_count_records),
            task_config_generations=dict(self._generations),
            applied_connector_configs=dict(self._applied),
            pending_fencing=frozenset(self._pending_fencing),
            inconsistent=frozenset(self._inconsistent),
        )

    def __contains__(self, connector: str) -> bool:
        return connector in self._connector_configs

    def replay(self, key: bytes | None, value: bytes | None, offset: int) -> Change | None:
        """Apply the record at this offset and return what it changed."""
        if key is None:
            log.error("a config record has no key offset=%d", offset)
            return None
        name = key.decode(errors="replace")
        try:
            content = from_json(value)
        except DataError as error:
            log.error("a config record is no JSON key=%s error=%s", name, error)
            return None
        self._offset = offset + 1
        for prefix, replay in _REPLAYS:
            if name.startswith(prefix):
                return replay(self, name.removeprefix(prefix), content)
        if name == SESSION_KEY:
            return self._replay_session_key(content)
        log.error("a config record has an unknown key key=%s", name)
        return None

    def _replay_target_state(self, connector: str, content: Any) -> Change | None:
        if content is None:
            self._target_states.pop(connector, None)
            if connector in self._connector_configs:
                self._target_states[connector] = TargetState.STARTED
            return None
        if not isinstance(content, dict):
            return _skipped("target state", connector, content)
        state = content.get("state.v2")
        if not isinstance(state, str):
            state = content.get("state")
        if not isinstance(state, str) or state not in TargetState.__members__:
            return _skipped("target state", connector, content)
        before = self._target_states.get(connector)
        after = self._target_states[connector] = TargetState[state]
        if before is after or connector not in self._connector_configs:
            return None
        return TargetStateChanged(connector)

    def _replay_connector(self, connector: str, content: Any) -> Change | None:
        if content is None:
            self._remove(connector)
            return ConnectorRemoved(connector)
        properties = _properties(content)
        if properties is None:
            return _skipped("connector", connector, content)
        self._connector_configs[connector] = properties
        self._target_states.setdefault(connector, TargetState.STARTED)
        return ConnectorUpdated(connector)

    def _remove(self, connector: str) -> None:
        for by_connector in (self._connector_configs, self._task_counts, self._deferred, self._applied):
            by_connector.pop(connector, None)
        for task in [task for task in self._task_configs if task.connector == connector]:
            del self._task_configs[task]

    def _replay_task(self, name: str, content: Any) -> Change | None:
        task = task_in_key(f"{TASK}{name}", TASK)
        properties = _properties(content)
        if task is None or properties is None:
            return _skipped("task", name, content)
        self._deferred.setdefault(task.connector, {})[task] = properties
        return None

    def _replay_commit(self, connector: str, content: Any) -> Change | None:
        applied = self._connector_configs.get(connector)
        if applied is None:
            # The connector was deleted, and compaction has removed its tombstone.
            self._remove(connector)
            return None
        tasks = _int32(content, "tasks")
        if tasks is None:
            return _skipped("commit of tasks", connector, content)
        deferred = self._deferred.get(connector, {})
        updated: tuple[ConnectorTaskId, ...] = ()
        # There may be more than the commit names: compaction keeps the last one of an earlier, larger set.
        if all(ConnectorTaskId(connector, number) in deferred for number in range(tasks)):
            if connector in self._deferred:
                self._task_configs |= deferred
                updated = tuple(sorted(deferred))
                self._generations[connector] = self._generations.get(connector, -1) + 1
            self._inconsistent.discard(connector)
            self._applied[connector] = applied
        else:
            self._inconsistent.add(connector)
        # An incomplete set is dropped as well: only a new and complete one can repair the connector.
        deferred.clear()
        self._task_counts[connector] = tasks
        self._pending_fencing.add(connector)
        return TasksUpdated(connector, updated)

    def _replay_restart(self, connector: str, content: Any) -> Change | None:
        if not isinstance(content, dict):
            return _skipped("restart request", connector, content)
        only_failed, include_tasks = content.get("only-failed"), content.get("include-tasks")
        return RestartRequested(RestartRequest(connector, only_failed is True, include_tasks is True))

    def _replay_task_count(self, connector: str, content: Any) -> Change | None:
        tasks = _int32(content, "task-count")
        if tasks is None:
            return _skipped("task count", connector, content)
        self._task_count_records[connector] = tasks
        self._pending_fencing.discard(connector)
        return None

    def _replay_session_key(self, content: Any) -> Change | None:
        found = content if isinstance(content, dict) else {}
        key, algorithm, created = (found.get(n) for n in ("key", "algorithm", "creation-timestamp"))
        if not isinstance(key, str) or not isinstance(algorithm, str) or type(created) is not int:
            return _skipped("session key", "", type(content))
        try:
            secret = base64.b64decode(key + "=" * (-len(key) % 4), validate=True)
        except (binascii.Error, ValueError):
            secret = b""
        if not secret:
            return _skipped("session key", "", "an empty key or invalid base64")
        self._session_key = SessionKey(secret, algorithm, created)
        return SessionKeyUpdated(self._session_key)

    def _replay_logger_level(self, namespace: str, content: Any) -> Change | None:
        level = content.get("level") if isinstance(content, dict) else None
        if not isinstance(level, str):
            return _skipped("logger level", namespace, content)
        return LoggerLevelSet(namespace, level)


_Replay = Callable[[ConfigImage, str, Any], Change | None]
_REPLAYS: Final[tuple[tuple[str, _Replay], ...]] = (
    (TARGET_STATE, ConfigImage._replay_target_state),
    (CONNECTOR, ConfigImage._replay_connector),
    (TASK, ConfigImage._replay_task),
    (COMMIT, ConfigImage._replay_commit),
    (RESTART, ConfigImage._replay_restart),
    (TASK_COUNT, ConfigImage._replay_task_count),
    (LOGGER_LEVEL, ConfigImage._replay_logger_level),
)


def _properties(content: Any) -> Properties | None:
    """The properties in a record; None if it has none."""
    found = content.get("properties") if isinstance(content, dict) else None
    return found if isinstance(found, dict) else None


def _int32(content: Any, name: str) -> int | None:
    """An integer in a record, cut to Java's int; None if it is missing."""
    found = content.get(name) if isinstance(content, dict) else None
    return (found + (1 << 31)) % (1 << 32) - (1 << 31) if type(found) is int else None


def _skipped(what: str, name: str, content: object) -> Change | None:
    log.error("a config record was skipped kind=%s name=%s found=%r", what, name, content)
    return None
