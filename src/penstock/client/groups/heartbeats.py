"""Heartbeats of a group's member, in a thread of their own: they go on while the member works or waits.

They need a connection of their own, too, since a broker answers the requests of a connection in order and a
JoinGroup waits for all members.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.coordinators import Coordinator, CoordinatorKind
from penstock.client.errors import ClientError, ServerError, error_from
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
)

log = logging.getLogger(__name__)

REJOIN: Final = frozenset(
    (
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
    )
)
"""The errors by which a coordinator makes a member join again."""


class Timeouts(NamedTuple):
    """The times that bound a membership, in milliseconds.

    Attributes:
        session_ms: the coordinator removes a member after this time without a heartbeat; brokers bound it by
            ``group.min.session.timeout.ms``, 6 seconds by default.
        rebalance_ms: the time in which members must join again once a rebalance has begun, and for which the
            owner of a membership may be busy without looking after it.
        heartbeat_ms: the time between two heartbeats.
    """

    session_ms: int
    rebalance_ms: int
    heartbeat_ms: int

    @classmethod
    def for_liveness(cls, session_ms: int) -> Timeouts:
        """Return the times of a member that does nothing but be there, and so joins again at once."""
        return cls(session_ms, session_ms, min(session_ms // 6, 1000))


class Joined(NamedTuple):
    """A generation of the group, in which this process is a member, and the protocol of that generation."""

    member_id: str
    generation: int
    protocol: str


class Heartbeats:
    """The thread that sends heartbeats between two rebalances. It starts with the first `begin`.

    Args:
        ended: called in the thread when the member must join again: `take_failure` says why.
    """

    def __init__(
        self, config: ClientConfig, group_id: str, timeouts: Timeouts, ended: Callable[[], None]
    ) -> None:
        self._group_id = group_id
        self._timeouts = timeouts
        self._ended = ended
        self._cluster = Cluster(config)
        self._coordinator = Coordinator(self._cluster, CoordinatorKind.GROUP, group_id)
        self._changed = threading.Condition()
        self._joined: Joined | None = None
        self._is_rebalancing = False
        self._failure: ClientError | None = None
        self._answered_s = 0.0
        self._known_s = 0.0
        self._busy_since_s: float | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"{group_id} heartbeats", daemon=True)

    def close(self) -> None:
        """End the thread, which may wait for a response until then, without waiting for it."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def begin(self, joined: Joined, sent_s: float) -> None:
        """Send heartbeats for this generation; its SyncGroup was sent at ``sent_s``."""
        with self._changed:
            self._joined, self._failure = joined, None
            self._answered_s = self._known_s = sent_s
            self._is_rebalancing = False
            self._changed.notify_all()
        if not self._thread.ident:
            self._thread.start()

    def end(self) -> None:
        """Send no more heartbeats: the member joins again, or leaves."""
        with self._changed:
            self._joined = self._failure = None

    def take_failure(self) -> ClientError | None:
        """Return why the member must join again, once; None if it need not."""
        with self._changed:
            failure, self._failure = self._failure, None
            return failure

    def set_busy(self, is_busy: bool) -> None:
        """Note that the owner works, or that it looks after the membership again."""
        with self._changed:
            self._busy_since_s = time.monotonic() if is_busy else None

    @property
    def session_ends_s(self) -> float:
        """The time, on the monotonic clock, until which the group cannot have rebalanced without this member.

        The session counts from when the last answered request was sent, so it ends here before it ends at the
        coordinator.
        """
        return self._answered_s + self._timeouts.session_ms / 1000

    @property
    def membership_ends_s(self) -> float:
        """The same time, except that it is also postponed while the group waits for this member to join."""
        return self._known_s + self._timeouts.session_ms / 1000

    # The thread

    def _run(self) -> None:
        while (joined := self._next()) is not None:
            try:
                self._beat(joined)
            except ClientError as error:
                is_decided = isinstance(error, ServerError) and error.code in REJOIN
                if is_decided or time.monotonic() >= self.session_ends_s:
                    self._end_with(joined, error)
                else:
                    self._coordinator.forget()
        self._cluster.close()

    def _next(self) -> Joined | None:
        """Wait until a heartbeat is due and return its generation; None after the end."""
        with self._changed:
            self._changed.wait(self._timeouts.heartbeat_ms / 1000)
            self._changed.wait_for(lambda: self._is_closed or self._joined is not None)
            return None if self._is_closed else self._joined

    def _beat(self, joined: Joined) -> None:
        busy_since_s, sent_s = self._busy_since_s, time.monotonic()
        if busy_since_s is not None and sent_s - busy_since_s > self._timeouts.rebalance_ms / 1000:
            log.warning(
                "the member leaves the group, since its owner was busy for too long group=%s timeout_ms=%d",
                self._group_id,
                self._timeouts.rebalance_ms,
            )
            leave(self._coordinator, self._group_id, joined.member_id)
            raise error_from(ErrorCode.UNKNOWN_MEMBER_ID, f"group '{self._group_id}'")
        request = HeartbeatRequest(
            group_id=self._group_id, generation_id=joined.generation, member_id=joined.member_id
        )
        response = self._coordinator.call(request, HeartbeatResponse)
        with self._changed:
            if self._joined is joined and response.error_code in (0, ErrorCode.REBALANCE_IN_PROGRESS):
                self._known_s = sent_s
                if not response.error_code:
                    self._answered_s = sent_s
        if response.error_code:
            raise error_from(response.error_code, f"Heartbeat of group '{self._group_id}'")

    def _end_with(self, joined: Joined, error: ClientError) -> None:
        is_rebalance = isinstance(error, ServerError) and error.code == ErrorCode.REBALANCE_IN_PROGRESS
        with self._changed:
            if self._joined is not joined or (is_rebalance and self._is_rebalancing):
                return
            self._failure = error  # the end of the membership replaces a rebalance that was not handled yet
            if is_rebalance:
                self._is_rebalancing = True  # the owner may need time before it joins again
            else:
                self._joined = None
        self._ended()


def leave(coordinator: Coordinator, group_id: str, member_id: str) -> None:
    """Leave the group, so that the others need not wait for the session to expire. Logs a failure."""
    request = LeaveGroupRequest(
        group_id=group_id,
        member_id=member_id,
        members=[LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=None)],
    )
    try:
        coordinator.call(request, LeaveGroupResponse)
    except ClientError as error:
        log.info("cannot leave the group group=%s error=%s", group_id, error)
