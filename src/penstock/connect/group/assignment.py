"""The terms of a Connect group: protocols, tasks, assignments, and the state of a worker."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple, Protocol

from penstock.connect.task_id import ConnectorTaskId
from penstock.java.strings import hash_code, utf16

NO_ERROR: Final = 0
CONFIG_MISMATCH: Final = 1
"""The leader has not read the config topic as far as another worker, so it could not assign anything."""


class ConnectProtocol(Enum):
    """A version of the group protocol, by its number and its name in the group's requests."""

    EAGER = (0, "default")
    """Workers stop all work before each rebalance."""
    COMPATIBLE = (1, "compatible")
    """Workers keep their work during a rebalance (KIP-415)."""
    SESSIONED = (2, "sessioned")
    """As compatible; in addition, workers sign their requests to each other (KIP-507)."""

    def __init__(self, version: int, protocol_name: str) -> None:
        self.version = version
        self.protocol_name = protocol_name

    @classmethod
    def named(cls, protocol_name: str) -> ConnectProtocol:
        """Return the protocol that the group has chosen. Raises ValueError for another name."""
        for protocol in cls:
            if protocol.protocol_name == protocol_name.lower():
                return protocol
        known = ", ".join(protocol.protocol_name for protocol in cls)
        raise ValueError(f"the group protocol is '{protocol_name}', expected one of {known}")


def task_hash(task: ConnectorTaskId) -> int:
    """Return the hash code that Java gives to this task's id."""
    return (31 * hash_code(task.connector) + task.task) & 0xFFFFFFFF


def task_order(task: ConnectorTaskId) -> tuple[bytes, int]:
    """Return a sort key with Java's order of tasks."""
    return utf16(task.connector), task.task


@dataclass(frozen=True, slots=True)
class Assignment:
    """The work of one worker.

    From the group's leader it holds what to start and what to stop. The worker's own copy holds all
    that the worker runs.
    """

    version: int
    error: int
    leader: str
    """The member id of the leader."""
    leader_url: str
    config_offset: int
    """The offset of the config topic at which this assignment was made."""
    connectors: tuple[str, ...] = ()
    tasks: tuple[ConnectorTaskId, ...] = ()
    revoked_connectors: tuple[str, ...] = ()
    revoked_tasks: tuple[ConnectorTaskId, ...] = ()
    delay_ms: int = 0
    """The time after which the workers rejoin, to assign the work of a missing worker; 0 for never."""

    @property
    def is_failed(self) -> bool:
        return self.error != NO_ERROR

    @property
    def revokes(self) -> bool:
        return bool(self.revoked_connectors or self.revoked_tasks)

    def with_kept(self, held: Assignment | None) -> Assignment:
        """Return this assignment with all that the worker held and that it does not revoke."""
        if held is None or self.version == ConnectProtocol.EAGER.version:
            return self
        kept = (connector for connector in held.connectors if connector not in self.revoked_connectors)
        kept_tasks = (task for task in held.tasks if task not in self.revoked_tasks)
        return replace(self, connectors=(*self.connectors, *kept), tasks=(*self.tasks, *kept_tasks))


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The metadata that a worker sends when it joins the group."""

    url: str
    config_offset: int
    assignment: Assignment | None = None
    """The worker's own copy of its assignment; None in the eager protocol and if it has none."""


class Configured(NamedTuple):
    """The connectors of the config topic with the tasks of each, as of an offset."""

    offset: int
    tasks: Mapping[str, Sequence[ConnectorTaskId]]


class Work(NamedTuple):
    """Some connectors and tasks."""

    connectors: Collection[str] = ()
    tasks: Collection[ConnectorTaskId] = ()

    def items(self) -> Iterator[str | ConnectorTaskId]:
        yield from self.connectors
        yield from self.tasks


class Decision(NamedTuple):
    """The result of one rebalance, by member id."""

    assigned: Mapping[str, Work]
    revoked: Mapping[str, Work]
    running: Mapping[str, Work]
    """All that each worker runs after it has acted on this decision."""
    delay_ms: int = 0


class Generations(NamedTuple):
    """The generation of the group that begins, and the last one that this worker, the leader, completed."""

    current: int
    last_completed: int


class Assignor(Protocol):
    """Distributes connectors and tasks over the workers of a group."""

    def assign(
        self, configured: Configured, generations: Generations, running: Mapping[str, Work]
    ) -> Decision:
        """Decide what each member starts and stops.

        Args:
            running: what each member says it runs, in the order in which the coordinator listed the members.
        """
