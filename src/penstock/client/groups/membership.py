"""Membership in a classic Kafka group for other purposes than consuming: liveness and leader election.

Brokers monitor the members, and any admin tool lists the group, as with Kafka Connect. The caller defines
what the members publish about themselves and what the group's leader assigns to each.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.coordinators import Coordinator, CoordinatorKind
from penstock.client.errors import ClientError, ServerError, error_from
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

log = logging.getLogger(__name__)

_REJOIN: Final = frozenset(
    (
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
    )
)
_LEAVE_S: Final = 5.0


class GroupProtocol(NamedTuple):
    """The type of a group and the protocol that its members share."""

    type: str
    name: str


class Part(Protocol):
    """The caller's side of a membership. Its methods are called in the membership's thread."""

    def metadata(self) -> bytes:
        """Return the data that this member publishes to the others."""

    def assign(self, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """As the group's leader: return the assignment of each member id, given the metadata of all."""

    def assigned(self, member_id: str, generation: int, assignment: bytes) -> None:
        """Handle a completed rebalance."""

    def revoked(self) -> None:
        """Handle a rebalance that begins, or the loss of contact with the group."""


class Membership:
    """A thread that keeps this process in a group.

    Args:
        session_timeout_ms: the coordinator removes a member after this time without a heartbeat; brokers
            bound it by ``group.min.session.timeout.ms``, 6 seconds by default.
    """

    def __init__(
        self,
        config: ClientConfig,
        group_id: str,
        protocol: GroupProtocol,
        session_timeout_ms: int,
        part: Part,
    ) -> None:
        self.group_id = group_id
        self._protocol = protocol
        self._session_timeout_ms = session_timeout_ms
        self._part = part
        self._cluster = Cluster(config)
        self._coordinator = Coordinator(self._cluster, CoordinatorKind.GROUP, group_id)
        self._member_id = ""
        self._generation = -1
        self._heard_s = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{group_id} membership", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Leave the group, so that the others need not wait for the session to expire."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_LEAVE_S)

    @property
    def is_surely_in(self) -> bool:
        """Whether the group cannot have rebalanced without this member: its session has not expired yet.

        The session counts from when the last answered request was sent, so it ends here before it ends at the
        coordinator.
        """
        return time.monotonic() - self._heard_s < self._session_timeout_ms / 1000

    # The thread

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                self._join()
                failures = 0
                self._beat()
            except ClientError as error:
                self._part.revoked()
                if isinstance(error, ServerError) and error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                failures = self._pause(error, failures)
        self._part.revoked()
        self._leave()
        self._cluster.close()

    def _pause(self, error: ClientError, failures: int) -> int:
        """Wait after a failure, except when the group merely rebalances; returns the number of failures."""
        if isinstance(error, ServerError) and error.code in _REJOIN:
            return 0
        if not failures:
            log.warning(
                "request to the group coordinator failed, retrying group=%s error=%s", self.group_id, error
            )
        self._stopped.wait(self._cluster.policy.backoff_s(failures + 1))
        return failures + 1

    def _join(self) -> None:
        own = self._part.metadata()
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._session_timeout_ms,
            member_id=self._member_id,
            protocol_type=self._protocol.type,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=self._protocol.name, metadata=own)],
        )
        joined = self._coordinator.retry(lambda: self._joined(request))
        self._member_id, self._generation = joined.member_id, joined.generation_id
        told: Mapping[str, bytes] = {}
        if joined.leader == joined.member_id:
            told = self._part.assign({member.member_id: member.metadata for member in joined.members})
        sync = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=self._protocol.type,
            protocol_name=self._protocol.name,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in told.items()
            ],
        )
        sent_s = time.monotonic()
        synced = self._coordinator.call(sync, SyncGroupResponse)
        self._check(synced.error_code, "SyncGroup")
        self._heard_s = sent_s
        self._part.assigned(self._member_id, self._generation, bytes(synced.assignment))

    def _joined(self, request: JoinGroupRequest) -> JoinGroupResponse:
        response = self._coordinator.call(request, JoinGroupResponse)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            request.member_id = self._member_id = response.member_id
            response = self._coordinator.call(request, JoinGroupResponse)
        self._check(response.error_code, "JoinGroup")
        return response

    def _beat(self) -> None:
        """Send heartbeats until the group rebalances, which raises, or this process leaves."""
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self._generation, member_id=self._member_id
        )
        interval_s = min(self._session_timeout_ms / 6000, 1.0)
        while not self._stopped.wait(interval_s):
            sent_s = time.monotonic()
            try:
                response = self._coordinator.call(request, HeartbeatResponse)
                self._check(response.error_code, "Heartbeat")
                self._heard_s = sent_s
            except ClientError as error:
                is_decided = isinstance(error, ServerError) and error.code in _REJOIN
                if is_decided or not self.is_surely_in:
                    raise
                self._coordinator.forget()

    def _leave(self) -> None:
        if not self._member_id:
            return
        request = LeaveGroupRequest(
            group_id=self.group_id,
            member_id=self._member_id,
            members=[LeaveGroupRequest.MemberIdentity(member_id=self._member_id, group_instance_id=None)],
        )
        try:
            self._coordinator.call(request, LeaveGroupResponse)
        except ClientError as error:
            log.info("cannot leave the group group=%s error=%s", self.group_id, error)

    def _check(self, code: int, what: str) -> None:
        if code:
            raise error_from(code, f"{what} of group '{self.group_id}'")
