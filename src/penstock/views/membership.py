"""The group of processes that serve one application's views: who they are and where they listen.

It is a group of Kafka's classic protocol, of a type of its own (as Kafka Connect's is), so brokers watch over
its members and any admin tool lists it. A member's metadata is its endpoint, as Kafka Streams'
``application.server``; the leader hands the list of all to everybody. Who holds what follows from the list:
see `penstock.views.routes`.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.client.coordinators import Coordinator, CoordinatorKind
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

logger = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "penstock-views"
_PROTOCOL: Final = "endpoints"
_VERSION: Final = 1
_REJOIN: Final = frozenset(
    (
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.MEMBER_ID_REQUIRED,
    )
)
_LEAVE_S: Final = 5.0


class Membership:
    """A thread that keeps this process in the group.

    Args:
        endpoint: where this process listens: ``http://host:port``.
        session_timeout_ms: a member that was not heard of for so long is out; brokers bound it by
            ``group.min.session.timeout.ms``, 6 seconds by default.
        changed: called in the thread with all endpoints whenever they have changed.
    """

    def __init__(
        self,
        config: ClientConfig,
        group_id: str,
        endpoint: str,
        session_timeout_ms: int,
        changed: Callable[[frozenset[str]], None],
    ) -> None:
        self.group_id = group_id
        self._endpoint = endpoint
        self._session_timeout_ms = session_timeout_ms
        self._changed = changed
        self._cluster = Cluster(config)
        self._coordinator = Coordinator(self._cluster, CoordinatorKind.GROUP, group_id)
        self._member_id = ""
        self._generation = -1
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{group_id} membership", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Leave the group, so that the others need not wait for the session to end."""
        self._stopped.set()
        self._thread.join(_LEAVE_S)

    # The thread

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                self._changed(self._join())
                failures = 0
                self._beat()
            except ServerError as error:
                if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                failures = self._pause(error, failures)
            except ClientError as error:
                failures = self._pause(error, failures)
        self._leave()
        self._cluster.close()

    def _pause(self, error: ClientError, failures: int) -> int:
        """After a failure: at once where the group merely forms anew."""
        if isinstance(error, ServerError) and error.code in _REJOIN:
            return 0
        if not failures:
            logger.warning("group %s: %s; it is tried again", self.group_id, error)
        self._stopped.wait(self._cluster.policy.backoff_s(failures + 1))
        return failures + 1

    def _join(self) -> frozenset[str]:
        metadata = json.dumps({"version": _VERSION, "endpoint": self._endpoint}).encode()
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._session_timeout_ms,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=_PROTOCOL, metadata=metadata)],
        )
        joined = self._coordinator.retry(lambda: self._joined(request))
        self._member_id, self._generation = joined.member_id, joined.generation_id
        assignments = []
        if joined.leader == joined.member_id:
            everybody = _encode({_endpoint_of(member.metadata) for member in joined.members})
            assignments = [
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member.member_id, assignment=everybody)
                for member in joined.members
            ]
        sync = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=_PROTOCOL,
            assignments=assignments,
        )
        synced = self._coordinator.call(sync, SyncGroupResponse)
        self._check(synced.error_code, "SyncGroup")
        return _decode(synced.assignment)

    def _joined(self, request: JoinGroupRequest) -> JoinGroupResponse:
        response = self._coordinator.call(request, JoinGroupResponse)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            request.member_id = self._member_id = response.member_id
            response = self._coordinator.call(request, JoinGroupResponse)
        self._check(response.error_code, "JoinGroup")
        return response

    def _beat(self) -> None:
        """Until the group forms anew, which raises, or this process leaves."""
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self._generation, member_id=self._member_id
        )
        interval_s = min(self._session_timeout_ms / 6000, 1.0)
        heard_s = time.monotonic()
        while not self._stopped.wait(interval_s):
            try:
                response = self._coordinator.call(request, HeartbeatResponse)
                self._check(response.error_code, "Heartbeat")
                heard_s = time.monotonic()
            except ClientError as error:
                is_decided = isinstance(error, ServerError) and error.code in _REJOIN
                if is_decided or (time.monotonic() - heard_s) * 1000 > self._session_timeout_ms:
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
            logger.info("group %s was not left: %s", self.group_id, error)

    def _check(self, code: int, what: str) -> None:
        if code:
            raise error_from(code, f"{what} of group '{self.group_id}'")


def _endpoint_of(metadata: bytes) -> str:
    return str(json.loads(metadata)["endpoint"])


def _encode(endpoints: set[str]) -> bytes:
    return json.dumps({"version": _VERSION, "endpoints": sorted(endpoints)}).encode()


def _decode(assignment: bytes) -> frozenset[str]:
    return frozenset(json.loads(assignment)["endpoints"])
