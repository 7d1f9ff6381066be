"""Encode and decode what the workers of a Connect group tell each other (KIP-415).

A worker's state travels in JoinGroup, assignments in SyncGroup. The eager protocol, version 0, has neither
the worker's allocation nor revocations and the delay. A reader takes all versions: later ones only append.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from penstock.connect.errors import DataError
from penstock.connect.group.assignment import Assignment, ConnectProtocol, WorkerState
from penstock.connect.task_id import ConnectorTaskId
from penstock.java.hash_order import copied
from penstock.java.strings import hash_code

_CONNECTOR: Final = -1
"""The number, among those of tasks, that stands for the connector itself."""
_LONGEST_STRING: Final = 32767


def encode_state(state: WorkerState, protocol: ConnectProtocol) -> bytes:
    """Return a worker's state as the metadata of this protocol. Raises DataError for too long a URL."""
    data = _Writer(protocol.version)
    data.string(state.url, "url")
    data.number(">q", state.config_offset)
    if protocol is not ConnectProtocol.EAGER:
        allocation = state.assignment
        data.nullable_bytes(None if allocation is None else encode_assignment(allocation, protocol))
    return data.bytes()


def decode_state(data: bytes) -> WorkerState:
    """Return the state that a worker's metadata holds. Raises DataError if the bytes are not metadata."""
    reader = _Reader(data)
    reader.version()
    url, config_offset = reader.string(), reader.number(">q")
    allocation = reader.nullable_bytes() if reader.has_more else None
    return WorkerState(url, config_offset, None if allocation is None else decode_assignment(allocation))


def encode_assignment(assignment: Assignment, protocol: ConnectProtocol) -> bytes:
    """Return an assignment in this protocol. Raises DataError for too long a name."""
    data = _Writer(protocol.version)
    data.number(">h", assignment.error)
    data.string(assignment.leader, "leader")
    data.string(assignment.leader_url, "leader-url")
    data.number(">q", assignment.config_offset)
    data.work(copied(assignment.connectors, hash_code), assignment.tasks)
    if protocol is not ConnectProtocol.EAGER:
        data.work(dict.fromkeys(assignment.revoked_connectors), assignment.revoked_tasks)
        data.number(">i", assignment.delay_ms)
    return data.bytes()


def decode_assignment(data: bytes) -> Assignment:
    """Return an assignment of any version. Raises DataError if the bytes are not an assignment."""
    reader = _Reader(data)
    version = reader.version()
    error, leader, leader_url = reader.number(">h"), reader.string(), reader.string()
    config_offset = reader.number(">q")
    connectors, tasks = reader.work()
    revoked_connectors, revoked_tasks = reader.work()
    delay_ms = reader.number(">i") if reader.has_more else 0
    return Assignment(
        *(version, error, leader, leader_url, config_offset),
        *(connectors, tasks, revoked_connectors, revoked_tasks, delay_ms),
    )


class _Writer:
    """The bytes written so far, which begin with the protocol's version."""

    def __init__(self, version: int) -> None:
        self._data = bytearray(struct.pack(">h", version))

    def number(self, form: str, value: int) -> None:
        self._data += struct.pack(form, value)

    def string(self, text: str, name: str) -> None:
        data = text.encode()
        if len(data) > _LONGEST_STRING:
            raise DataError(f"the field {name} has {len(data)} bytes, expected at most {_LONGEST_STRING}")
        self.number(">h", len(data))
        self._data += data

    def nullable_bytes(self, data: bytes | None) -> None:
        self.number(">i", -1 if data is None else len(data))
        self._data += data or b""

    def work(self, connectors: Iterable[str], tasks: Iterable[ConnectorTaskId]) -> None:
        by_connector = {connector: [_CONNECTOR] for connector in connectors}
        for connector, task in tasks:
            by_connector.setdefault(connector, []).append(task)
        self.number(">i", len(by_connector))
        for connector, numbers in by_connector.items():
            self.string(connector, "connector")
            self.number(">i", len(numbers))
            for number in numbers:
                self.number(">i", number)

    def bytes(self) -> bytes:
        return bytes(self._data)


class _Reader:
    """Takes fields from the front of one message, and ignores what later versions append."""

    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        self._at = 0

    @property
    def has_more(self) -> bool:
        return self._at < len(self._data)

    def version(self) -> int:
        version = self.number(">h")
        if version < 0:
            raise DataError(f"the version of the group protocol is {version}, expected 0 or more")
        return version

    def number(self, form: str) -> int:
        [value] = struct.unpack(form, self._take(struct.calcsize(form)))
        return int(value)

    def string(self) -> str:
        return self._take(self.number(">h")).decode(errors="replace")

    def nullable_bytes(self) -> bytes | None:
        size = self.number(">i")
        return None if size < 0 else self._take(size)

    def work(self) -> tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]:
        """Take a list of connectors with numbers of tasks; an absent or a null list has none."""
        connectors: list[str] = []
        tasks: list[ConnectorTaskId] = []
        for _ in range(max(self._size(), 0) if self.has_more else 0):
            connector = self.string()
            numbers = self._size()
            if numbers < 0:
                raise DataError(f"connector '{connector}' has {numbers} tasks, expected 0 or more")
            for _ in range(numbers):
                task = self.number(">i")
                if task == _CONNECTOR:
                    connectors.append(connector)
                else:
                    tasks.append(ConnectorTaskId(connector, task))
        return tuple(connectors), tuple(tasks)

    def _size(self) -> int:
        """Take the size of an array, each of whose elements has a byte at least."""
        size = self.number(">i")
        if size > len(self._data) - self._at:
            raise DataError(
                f"an array has {size} elements, but only {len(self._data) - self._at} bytes follow"
            )
        return size

    def _take(self, size: int) -> bytes:
        if size < 0 or size > len(self._data) - self._at:
            raise DataError(f"a field has {size} bytes, but {len(self._data) - self._at} bytes follow")
        found = self._data[self._at : self._at + size]
        self._at += size
        return found
