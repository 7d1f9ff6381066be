"""Make the assignments of a group as its leader, from what all its workers have said."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.connect.group.assignment import (
    CONFIG_MISMATCH,
    NO_ERROR,
    Assignment,
    Assignor,
    Configured,
    ConnectProtocol,
    Decision,
    Generations,
    Work,
)
from penstock.connect.group.eager_assignor import EagerAssignor
from penstock.connect.group.incremental_assignor import IncrementalCooperativeAssignor
from penstock.connect.group.protocol import decode_state, encode_assignment
from penstock.connect.task_id import ConnectorTaskId


class GroupLeader:
    """A worker's ability to lead its group, with what it remembers while it leads.

    Args:
        configured: returns the connectors and tasks as of the last record of the config topic that was read.
        max_delay_ms: ``scheduled.rebalance.max.delay.ms``.
        clock_ms: the current time in milliseconds.
    """

    def __init__(
        self, configured: Callable[[], Configured], max_delay_ms: int, clock_ms: Callable[[], int]
    ) -> None:
        self._configured = configured
        self._eager = EagerAssignor()
        self._incremental = IncrementalCooperativeAssignor(max_delay_ms, clock_ms)
        self._urls: dict[str | ConnectorTaskId, str] = {}

    def owner_url(self, item: str | ConnectorTaskId) -> str | None:
        """Return the URL of the worker to which this leader gave a connector or a task."""
        return self._urls.get(item)

    def resign(self) -> None:
        """Forget who owns what: a rebalance begins."""
        self._urls = {}

    def assign(
        self,
        protocol: ConnectProtocol,
        leader: str,
        generations: Generations,
        members: Mapping[str, bytes],
        known: Configured,
    ) -> dict[str, bytes]:
        """Return the assignment of each member.

        Args:
            leader: the own member id.
            members: the metadata of all members, in the order in which the coordinator lists them.
            known: the connectors and tasks as this worker knew them when it joined.

        Raises:
            DataError: a member's metadata cannot be read.
        """
        states = {member: decode_state(metadata) for member, metadata in members.items()}
        offset = max(state.config_offset for state in states.values())
        if known.offset < offset:
            known = self._configured()
            offset = max(known.offset, offset)
        error = NO_ERROR
        decision = Decision({}, {}, {})
        if known.offset < offset:
            error = CONFIG_MISMATCH
        else:
            running = {
                member: Work()
                if state.assignment is None
                else Work(state.assignment.connectors, state.assignment.tasks)
                for member, state in states.items()
            }
            assignor: Assignor = self._eager if protocol is ConnectProtocol.EAGER else self._incremental
            decision = assignor.assign(known, generations, running)
            self._urls = {
                item: states[member].url for member, work in decision.running.items() for item in work.items()
            }
        return {
            member: encode_assignment(
                Assignment(
                    *(protocol.version, error, leader, states[leader].url, offset),
                    *_flat(decision.assigned.get(member, Work())),
                    *_flat(decision.revoked.get(member, Work())),
                    decision.delay_ms,
                ),
                protocol,
            )
            for member in states
        }


def _flat(work: Work) -> tuple[tuple[str, ...], tuple[ConnectorTaskId, ...]]:
    return tuple(work.connectors), tuple(work.tasks)
