"""A worker's membership in its group, with the work that the group gives it.

The worker's thread polls; rebalances happen in there, and revoked work is stopped in there, before the worker
joins again. Other work goes on meanwhile. After each rebalance the worker settles: it reads the config topic
up to the offset of the assignment before it starts anything.

    group = WorkerGroup(config, settings, url, store.configured, listener)
    while not stopping:
        group.poll(timeout_s)
        if not group.is_settled and group.settle(store.refresh):
            start(group.assignment)
    group.close()
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final, Protocol

from penstock.client.config import ClientConfig
from penstock.client.groups.heartbeats import Joined, Timeouts
from penstock.client.groups.membership import Membership
from penstock.connect.group.assignment import (
    Assignment,
    Configured,
    ConnectProtocol,
    Generations,
    WorkerState,
)
from penstock.connect.group.leading import GroupLeader
from penstock.connect.group.protocol import decode_assignment, encode_state
from penstock.connect.group.settings import GroupSettings
from penstock.connect.task_id import ConnectorTaskId

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "connect"
_BACKOFF_RETRIES: Final = 5
"""A worker keeps its work for so many failed attempts to read the config topic, as in Kafka Connect."""


class Listener(Protocol):
    """The worker's side. Its methods are called in the thread that polls or settles."""

    def assigned(self, assignment: Assignment, generation: int) -> None:
        """Note what this worker shall run in this generation. It starts it when it has settled."""

    def revoked(self, leader: str, connectors: Collection[str], tasks: Collection[ConnectorTaskId]) -> None:
        """Stop these connectors and tasks, and return once they have stopped."""


class WorkerGroup:
    """One worker in its group.

    `poll`, `settle`, `catch_up`, `leave` and `close` belong to the worker's thread; the rest may be called in
    any.

    Args:
        url: where the other workers reach this one.
        configured: returns the connectors and tasks as of the last record of the config topic that was read.
        clock_ms: the current time in milliseconds; by default that of the system.
    """

    def __init__(
        self,
        config: ClientConfig,
        settings: GroupSettings,
        url: str,
        configured: Callable[[], Configured],
        listener: Listener,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._settings = settings
        self._url = url
        self._configured = configured
        self._known = configured()
        self._listener = listener
        self._clock_ms = clock_ms
        self._leader = GroupLeader(configured, settings.scheduled_rebalance_max_delay_ms, clock_ms)
        self._assignment: Assignment | None = None
        self._protocol = settings.protocol
        self._last_completed = -1
        self._rebalance_at_ms: int | None = None
        self._is_settled = True
        self._retries = _BACKOFF_RETRIES
        self._stopping = threading.Event()
        timeouts = Timeouts(
            settings.session_timeout_ms, settings.rebalance_timeout_ms, settings.heartbeat_interval_ms
        )
        self._membership = Membership(config, settings.group_id, PROTOCOL_TYPE, timeouts, self)

    # The state of the membership

    @property
    def assignment(self) -> Assignment | None:
        """All that this worker shall run; None before the first rebalance and after the session is lost."""
        return self._assignment

    @property
    def protocol(self) -> ConnectProtocol:
        """The protocol that all workers of the group speak."""
        return self._protocol

    @property
    def member_id(self) -> str | None:
        """This worker's id in the group; None while it is not in it."""
        joined = self._membership.joined
        return None if joined is None else joined.member_id

    @property
    def generation(self) -> int:
        """The last generation of the group that this worker has completed; -1 before the first."""
        return self._last_completed

    @property
    def is_leader(self) -> bool:
        assignment = self._assignment
        return assignment is not None and assignment.leader == self.member_id

    @property
    def leader_url(self) -> str | None:
        """The URL of the worker that leads the group."""
        return None if self._assignment is None else self._assignment.leader_url

    @property
    def is_settled(self) -> bool:
        """Whether nothing is to be done about the last rebalance: see `settle`."""
        return self._is_settled

    def owner_url(self, item: str | ConnectorTaskId) -> str | None:
        """Return the URL of the worker that runs a connector or task; None unless this worker leads."""
        return self._leader.owner_url(item) if self.is_leader else None

    # What the worker does

    def poll(self, timeout_s: float | None = None) -> None:
        """Take part in rebalances until ``timeout_s`` has passed, one is completed, or `wake` is called."""
        if self._rebalance_at_ms is not None:
            remaining_ms = self._rebalance_at_ms - self._clock_ms()
            if remaining_ms <= 0:
                self._rebalance_at_ms = None
                self.request_rejoin("the scheduled rebalance delay has passed")
            elif timeout_s is None or timeout_s > remaining_ms / 1000:
                timeout_s = remaining_ms / 1000
        self._membership.poll(timeout_s)

    def settle(self, refresh: Callable[[], bool]) -> bool:
        """Catch up with the last assignment; return whether its work may start now.

        If not, this worker joins again in the next `poll`. It also joins again after an assignment that
        revoked some of its work, so that the group can assign what it has stopped.

        Args:
            refresh: reads the config topic to its end, and returns False if that takes too long.
        """
        assignment = self._assignment
        if self._is_settled or assignment is None:
            return False
        if assignment.is_failed:
            log.warning("the group's leader could not assign work group=%s", self._settings.group_id)
        needs_refresh = self._configured().offset < assignment.config_offset
        if assignment.is_failed and self.is_leader:
            needs_refresh = True
        if needs_refresh and not self.catch_up(refresh):
            self.request_rejoin("the config topic could not be read in time")
        elif assignment.is_failed:
            self.request_rejoin("the leader's config topic was behind")
        elif self._configured().offset != assignment.config_offset:
            self.request_rejoin("the config topic has gone on since the assignment")
        else:
            self._is_settled = True
            if assignment.revokes:
                self._assignment = replace(assignment, revoked_connectors=(), revoked_tasks=())
                self.request_rejoin("revoked connectors and tasks have stopped")
            return True
        return False

    def catch_up(self, refresh: Callable[[], bool]) -> bool:
        """Read the config topic to its end; return whether it succeeded.

        If not, this worker leaves the group, so that the group need not wait for it, and waits a while. After
        several failures it stops its work, which the group gives to others by then.
        """
        if refresh():
            self._retries = _BACKOFF_RETRIES
            return True
        self.leave("reading the config topic takes too long")
        if self._protocol is ConnectProtocol.EAGER:
            if self._is_settled:  # the group gives this worker's work to others at once
                self._revoke_all()
            self._stopping.wait(self._settings.worker_unsync_backoff_ms / 1000)
        elif self._retries:
            # Come back before the group gives this worker's work to others
            backoff_ms = self._settings.scheduled_rebalance_max_delay_ms // 10 // self._retries
            self._retries -= 1
            self._stopping.wait(backoff_ms / 1000)
        else:
            self._retries = _BACKOFF_RETRIES
            self._revoke_all()
        return False

    def request_rejoin(self, reason: str) -> None:
        """Rebalance: the configuration has changed, or this worker has stopped what was revoked."""
        log.debug("requesting a rebalance group=%s reason=%s", self._settings.group_id, reason)
        self._membership.request_rejoin(reason)

    def wake(self) -> None:
        """Let `poll` return."""
        self._membership.wake()

    def leave(self, reason: str) -> None:
        """Leave the group until the next `poll`. Work goes on."""
        self._membership.leave(reason)

    def stop(self) -> None:
        """Let `poll` and `settle` return soon; the worker's thread then calls `close`."""
        self._stopping.set()
        self._membership.stop()

    def close(self) -> None:
        """Leave the group. The worker has stopped its work before, or is told to stop it."""
        self.stop()
        self._membership.close()

    def _revoke_all(self) -> None:
        assignment, self._assignment = self._assignment, None
        if assignment is not None and not assignment.is_failed:
            self._listener.revoked(assignment.leader, assignment.connectors, assignment.tasks)

    # The membership calls these methods.

    def protocols(self) -> Mapping[str, bytes]:
        self._known = self._configured()
        state = WorkerState(self._url, self._known.offset, self._assignment)
        offered = [each for each in ConnectProtocol if each.version <= self._settings.protocol.version]
        return {each.protocol_name: encode_state(state, each) for each in reversed(offered)}

    def assign(self, joined: Joined, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        generations = Generations(joined.generation, self._last_completed)
        protocol = ConnectProtocol.named(joined.protocol)
        return self._leader.assign(protocol, joined.member_id, generations, members, self._known)

    def assigned(self, joined: Joined, assignment: bytes) -> None:
        received = decode_assignment(assignment)
        self._protocol = ConnectProtocol.named(joined.protocol)
        if received.revokes:
            self._listener.revoked(received.leader, received.revoked_connectors, received.revoked_tasks)
        self._assignment = received.with_kept(self._assignment)
        self._last_completed = joined.generation
        self._rebalance_at_ms = self._clock_ms() + received.delay_ms if received.delay_ms > 0 else None
        self._is_settled = False
        self._listener.assigned(self._assignment, joined.generation)

    def rebalancing(self) -> None:
        self._leader.resign()
        if self._protocol is ConnectProtocol.EAGER:
            self._revoke_all()

    def lost(self) -> None:
        """Stop everything: the group may give this worker's work to others now."""
        self._revoke_all()
