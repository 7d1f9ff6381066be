"""Membership in a classic Kafka group for other purposes than consuming: liveness, elections, shared work.

Brokers monitor the members, and any admin tool lists the group, as with Kafka Connect. The caller defines
what the members publish about themselves and what the group's leader assigns to each.

A membership is driven by `Membership.poll`, in which it joins and calls its owner's methods, as a consumer
is. Owners without a thread of their own call `Membership.start` instead.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.coordinators import Coordinator, CoordinatorKind
from penstock.client.errors import ClientError, RequestTimedOut, ServerError, error_from
from penstock.client.groups.heartbeats import REJOIN, Heartbeats, Joined, Timeouts, leave
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

log = logging.getLogger(__name__)

Response = TypeVar("Response")

_LEAVE_S: Final = 5.0
_JOIN_LAPSE_MS: Final = 5_000
"""The time beyond the rebalance timeout for which a JoinGroup is awaited: the coordinator may be slow."""
_JOIN_POLL_S: Final = 0.1
"""A member that waits for others to join looks so often whether it is to stop."""


class Part(Protocol):
    """The owner's side of a membership. Its methods are called in the thread that polls."""

    def protocols(self) -> Mapping[str, bytes]:
        """Return the names of the protocols that this member speaks, the preferred one first.

        Each comes with the data that this member publishes in it. Called before each attempt to join.
        """

    def assign(self, joined: Joined, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """As the group's leader: return the assignment of each member id, given the data of all."""

    def assigned(self, joined: Joined, assignment: bytes) -> None:
        """Handle a completed rebalance."""

    def rebalancing(self) -> None:
        """Handle a rebalance that begins: afterwards this member joins again."""

    def lost(self) -> None:
        """Handle the end of the membership: the session has expired, or this process has left."""


class Membership:
    """A process's place in a group.

    `poll`, `leave` and `close` belong to the owner's thread; the other methods may be called in any.
    """

    def __init__(
        self, config: ClientConfig, group_id: str, protocol_type: str, timeouts: Timeouts, part: Part
    ) -> None:
        self.group_id = group_id
        self._protocol_type = protocol_type
        self._timeouts = timeouts
        self._part = part
        patience_ms = max(config.request_timeout_ms, timeouts.rebalance_ms + _JOIN_LAPSE_MS)
        self._cluster = Cluster(replace(config, request_timeout_ms=patience_ms))
        self._coordinator = Coordinator(self._cluster, CoordinatorKind.GROUP, group_id)
        self._woken = threading.Event()
        self._heartbeats = Heartbeats(config, group_id, timeouts, self._woken.set)
        self._member_id = ""
        self._joined: Joined | None = None
        self._rejoin_reason: str | None = None
        self._in_contact_until_s = 0.0
        """The end of the membership, postponed while the coordinator lets this member wait for others."""
        self._is_lost = True
        self._is_prepared = False
        self._failures = 0
        self.refusal: ClientError | None = None
        """The error of the last attempt to join if a retry cannot help, such as a missing permission."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{group_id} membership", daemon=True)

    def start(self) -> None:
        """Poll in a thread of the membership's own until it is closed."""
        self._thread.start()

    def close(self) -> None:
        """Leave the group, so that the others need not wait for the session to expire."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join(_LEAVE_S)
        elif not self._thread.ident:
            self._end()

    def stop(self) -> None:
        """Let `poll` return soon, even while this member joins; it must be closed next."""
        self._stopped.set()
        self._woken.set()

    @property
    def is_surely_in(self) -> bool:
        """Whether the group cannot have rebalanced without this member: its session has not expired yet."""
        return time.monotonic() < self._heartbeats.session_ends_s

    @property
    def joined(self) -> Joined | None:
        """The generation to which this member belongs; None before it, while it joins, and after it."""
        return self._joined

    @property
    def is_known(self) -> bool:
        """Whether this member has an id, and the coordinator has not said that it removed the member."""
        return bool(self._member_id)

    def request_rejoin(self, reason: str) -> None:
        """Join again, so that the group rebalances; the coordinator logs the reason (KIP-800)."""
        self._rejoin_reason = reason
        self._woken.set()

    def wake(self) -> None:
        """Let a waiting `poll` return, or the next one if none waits."""
        self._woken.set()

    def leave(self, reason: str) -> None:
        """Leave the group until the next `poll`."""
        log.info("leaving the group group=%s reason=%s", self.group_id, reason)
        self._heartbeats.end()
        if self._member_id:
            leave(self._coordinator, self.group_id, self._member_id)
        self._member_id = ""
        self._joined = None

    def poll(self, timeout_s: float | None = None) -> None:
        """Join the group if necessary, then wait for a rebalance.

        Returns after a completed rebalance, when `wake` is called, and after ``timeout_s``. Joining takes as
        long as the other members need, which may be longer.
        """
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        self._heartbeats.set_busy(False)
        try:
            while not self._stopped.is_set():
                if self._must_join():
                    if self._try_to_join():
                        return
                elif self._woken.wait(self._patience_s(ends_s)):
                    self._woken.clear()
                    if not self._must_join():
                        return
                if ends_s is not None and time.monotonic() >= ends_s:
                    return
        finally:
            self._heartbeats.set_busy(True)

    def _patience_s(self, ends_s: float | None) -> float:
        """The time to wait: until the end of the poll, and of the session, which heartbeats postpone."""
        until_s = self._heartbeats.session_ends_s
        return max(0.0, (until_s if ends_s is None else min(until_s, ends_s)) - time.monotonic())

    def _must_join(self) -> bool:
        failure = self._heartbeats.take_failure()
        if failure is not None:
            self._give_up(failure)
        elif self._joined is not None and not self.is_surely_in:
            self._give_up(RequestTimedOut(f"the session in group '{self.group_id}' has expired"))
        return self._joined is None or self._rejoin_reason is not None

    # In `poll`

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.poll()
        self._end()

    def _end(self) -> None:
        self._heartbeats.end()
        self._joined = None
        self._lose()
        if self._member_id:
            leave(self._coordinator, self.group_id, self._member_id)
        self._heartbeats.close()
        self._cluster.close()

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._part.lost()

    def _give_up(self, error: ClientError) -> None:
        """Note that this member must join again. Unless it is unknown, its heartbeats go on until then."""
        self._in_contact_until_s = max(self._in_contact_until_s, self._heartbeats.membership_ends_s)
        self._joined = None
        if isinstance(error, ServerError) and error.code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        if time.monotonic() >= self._in_contact_until_s:
            self._lose()

    def _try_to_join(self) -> bool:
        """Join and return whether this succeeded; after a failure, wait before the next attempt."""
        if not self._is_prepared:
            self._is_prepared = True
            self._part.rebalancing()
        self._heartbeats.end()
        self._in_contact_until_s = max(self._in_contact_until_s, self._heartbeats.membership_ends_s)
        self._joined = None
        try:
            self._join()
        except _Stopping:
            return False
        except ClientError as error:
            self._give_up(error)
            self._pause(error)
            return False
        self._failures = 0
        self.refusal = None
        return True

    def _pause(self, error: ClientError) -> None:
        """Wait after a failure, except when the group merely rebalances."""
        if isinstance(error, ServerError) and error.code in REJOIN:
            self._failures = 0
            return
        self._coordinator.forget()
        self.refusal = None if error.retriable else error
        if not self._failures:
            log.warning(
                "request to the group coordinator failed, retrying group=%s error=%s", self.group_id, error
            )
        self._failures += 1
        self._stopped.wait(self._cluster.policy.backoff_s(self._failures))

    def _join(self) -> None:
        reason, self._rejoin_reason = self._rejoin_reason, None
        response = self._join_group(reason or "")
        self._member_id = response.member_id
        joined = Joined(response.member_id, response.generation_id, response.protocol_name or "")
        assignments: Mapping[str, bytes] = {}
        if response.leader == response.member_id:
            members = {member.member_id: bytes(member.metadata) for member in response.members}
            assignments = self._part.assign(joined, members)
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=joined.generation,
            member_id=joined.member_id,
            protocol_type=self._protocol_type,
            protocol_name=joined.protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )
        sent_s = time.monotonic()
        synced = self._await(request, SyncGroupResponse)
        self._check(synced.error_code, "SyncGroup")
        self._heartbeats.begin(joined, sent_s)
        self._heartbeats.set_busy(True)
        self._joined = joined
        self._is_lost = self._is_prepared = False
        self._part.assigned(joined, bytes(synced.assignment))

    def _join_group(self, reason: str) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._timeouts.session_ms,
            rebalance_timeout_ms=self._timeouts.rebalance_ms,
            member_id=self._member_id,
            protocol_type=self._protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in self._part.protocols().items()
            ],
            reason=reason,
        )
        response = self._await(request, JoinGroupResponse)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            request.member_id = self._member_id = response.member_id
            response = self._await(request, JoinGroupResponse)
        self._check(response.error_code, "JoinGroup")
        return response

    def _await(self, request: Message, response_type: type[Response]) -> Response:
        """Send a request whose response waits for other members, and return it.

        While the connection lives, the coordinator does not remove this member.
        """
        node_id = self._coordinator.node_id
        try:
            connection = self._cluster.connection(node_id)
            connection.send(request)
            while not connection.readable(_JOIN_POLL_S) and not connection.overdue:
                if self._stopped.is_set():
                    raise _Stopping
                self._in_contact_until_s = time.monotonic() + self._timeouts.session_ms / 1000
            return connection.receive(response_type)
        except (ClientError, _Stopping):
            self._cluster.disconnect(node_id)
            self._coordinator.forget()
            raise

    def _check(self, code: int, what: str) -> None:
        if code:
            raise error_from(code, f"{what} of group '{self.group_id}'")


class _Stopping(Exception):
    """The membership ends while it joins."""
