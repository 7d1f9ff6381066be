"""The statuses of a Connect cluster, built by replaying the status topic, and what may be written over them.

A worker that was replaced may still write. A safe write is therefore skipped if the status that the worker
has read is another worker's of a newer generation of the group.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from penstock.connect.errors import DataError
from penstock.connect.stores.statuses.model import State, Status, Subject, TopicStatus
from penstock.connect.stores.statuses.records import (
    CONNECTOR,
    OF_CONNECTOR,
    TASK,
    TOPIC,
    parse_status,
    parse_topic_status,
)
from penstock.connect.task_id import ConnectorTaskId, task_in_key

log = logging.getLogger(__name__)

_NO_PARTITION: Final = -1


@dataclass(slots=True, eq=False)
class Entry:
    """The status of one connector or task, as far as it was read."""

    status: Status | None = None
    partition: int = _NO_PARTITION
    writes: int = 0
    """The number of writes that this worker has begun, so that a retry can tell whether it is the newest."""
    is_deleted: bool = False

    def admits(self, status: Status) -> bool:
        """Whether a safe write of this status is allowed."""
        return (
            self.status is None
            or self.status.worker_id == status.worker_id
            or self.status.generation <= status.generation
        )


class StatusImage:
    """Replays the records of the status topic. For one thread at a time."""

    def __init__(self) -> None:
        self._entries: dict[Subject, Entry] = {}
        self._topics: dict[str, dict[str, tuple[int, TopicStatus]]] = {}

    def entry(self, subject: Subject) -> Entry:
        """The entry of a connector or task, an empty one if nothing is known."""
        return self._entries.setdefault(subject, Entry())

    def get(self, subject: Subject) -> Status | None:
        entry = self._entries.get(subject)
        return None if entry is None else entry.status

    def tasks(self, connector: str) -> dict[ConnectorTaskId, Status]:
        """The statuses of a connector's tasks."""
        return {
            subject: entry.status
            for subject, entry in self._entries.items()
            if isinstance(subject, ConnectorTaskId)
            and subject.connector == connector
            and entry.status is not None
        }

    def connectors(self) -> set[str]:
        """The connectors with a status, or with one that this worker has written and not read yet."""
        return {subject for subject in self._entries if isinstance(subject, str)}

    def topics(self, connector: str) -> dict[str, TopicStatus]:
        """The topics that a connector uses, by name."""
        return {topic: status for topic, (_, status) in self._topics.get(connector, {}).items()}

    def replay(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        """Apply a record. One that makes no sense is logged and skipped, as Connect does."""
        name = (key or b"").decode(errors="replace")
        try:
            if name.startswith(CONNECTOR):
                self._replay_connector(partition, name.removeprefix(CONNECTOR), value)
            elif name.startswith(TASK):
                self._replay_task(partition, name, value)
            elif name.startswith(TOPIC):
                self._replay_topic(partition, name, value)
            else:
                raise DataError("the key is unknown")
        except DataError as error:
            log.warning("a status record was skipped key=%s error=%s", name, error)

    def restart(self, partition: int) -> None:
        """Forget what a partition's records said."""
        for entry in self._entries.values():
            if entry.partition == partition:
                entry.status = None
        for topics in self._topics.values():
            for topic in [topic for topic, (place, _) in topics.items() if place == partition]:
                del topics[topic]

    def _replay_connector(self, partition: int, connector: str, value: bytes | None) -> None:
        if not connector:
            raise DataError("the key names no connector")
        if value is None:
            self._remove(connector)
            for task in self._tasks_of(connector):
                self._remove(task)
            return
        status = parse_status(value)
        entry = self.entry(connector)
        entry.status, entry.partition = status, partition

    def _tasks_of(self, connector: str) -> list[ConnectorTaskId]:
        return [
            subject
            for subject in self._entries
            if isinstance(subject, ConnectorTaskId) and subject.connector == connector
        ]

    def _replay_task(self, partition: int, name: str, value: bytes | None) -> None:
        task = task_in_key(name, TASK)
        if task is None:
            raise DataError("the key names no task")
        if value is None:
            self._remove(task)
            return
        status = parse_status(value)
        entry = self.entry(task)
        before = entry.status
        if (
            status.state is State.UNASSIGNED
            and before is not None
            and before.state is State.RUNNING
            and before.generation >= status.generation
        ):
            # The task's former worker gave it up after its successor had started it.
            return
        entry.status, entry.partition = status, partition

    def _replay_topic(self, partition: int, name: str, value: bytes | None) -> None:
        topic, colon, rest = name.removeprefix(TOPIC).partition(":")
        connector = rest[len(OF_CONNECTOR) - 1 :]
        if not topic or not colon or not connector:
            raise DataError("the key names no topic or no connector")
        if value is None:
            self._topics.get(connector, {}).pop(topic, None)
        else:
            self._topics.setdefault(connector, {})[topic] = (partition, parse_topic_status(value))

    def _remove(self, subject: Subject) -> None:
        entry = self._entries.pop(subject, None)
        if entry is not None:
            entry.is_deleted = True
