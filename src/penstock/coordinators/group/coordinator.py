"""The coordinator of the groups in one partition of `__consumer_offsets`."""

from collections import Counter
from collections.abc import Callable, Container, Iterable

from penstock.coordinators.group import admin, expiration, offset_commit, offset_fetch, rebalance, replay
from penstock.coordinators.group.config import GroupCoordinatorConfig
from penstock.coordinators.group.group import ClassicGroup
from penstock.coordinators.group.heartbeat import handle_heartbeat
from penstock.coordinators.group.join import finish_static_replacement, handle_join_group
from penstock.coordinators.group.leave import handle_leave_group
from penstock.coordinators.group.results import Caller, Parked, Ticket
from penstock.coordinators.group.shard import Counters, Shard, TimerKind
from penstock.coordinators.group.states import ClassicGroupState
from penstock.coordinators.group.sync import handle_sync_group
from penstock.coordinators.group.txn_offset_commit import handle_txn_offset_commit
from penstock.coordinators.records import CoordinatorRecord, Records
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    DescribeGroupsResponse,
    GroupMetadataKey,
    GroupMetadataValue,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsResponse,
    OffsetCommitKey,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitValue,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

__all__ = ["GroupCoordinator"]

BLOCKED_RETRY_MS = 20
"""How long a timer is postponed when it fires while records of its group are not yet committed."""


class GroupCoordinator:
    """The groups of one partition as a pure state machine.

    Its owner must

    - append the records of each call as one batch, in the order of the calls;
    - then either `replay` each of them, in the order of the log, once they are committed, or call
      `fail_append`;
    - make no call for a group that has uncommitted records (see `watch`), except that commits of offsets may
      follow each other;
    - send the responses that `take_replies` returns after every call;
    - call `on_timeout` until `next_deadline_ms` lies in the future.

    The coordinator does not promise to answer a parked request if its owner stops calling. A response built
    before `fail_append` is no longer valid: the owner sends the error instead.
    """

    def __init__(self, config: GroupCoordinatorConfig, new_uuid: Callable[[], str]) -> None:
        self._shard = Shard(config, new_uuid)

    def watch(self, *, held: Container[str], blocked: Container[str]) -> None:
        """Set the groups with records between the append and `replay`, which timers check when they fire.

        `blocked` are those of them with records other than committed offsets.
        """
        self._shard.held, self._shard.blocked = held, blocked

    # -- requests ------------------------------------------------------------------------------------

    def handle_join_group(
        self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now_ms: int
    ) -> tuple[Records, JoinGroupResponse | Parked]:
        return handle_join_group(self._shard, request, caller, ticket, now_ms)

    def handle_sync_group(
        self, request: SyncGroupRequest, ticket: Ticket
    ) -> tuple[Records, SyncGroupResponse | Parked]:
        return handle_sync_group(self._shard, request, ticket)

    def handle_heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        return handle_heartbeat(self._shard, request, now_ms)

    def handle_leave_group(
        self, request: LeaveGroupRequest, now_ms: int
    ) -> tuple[Records, LeaveGroupResponse]:
        return handle_leave_group(self._shard, request, now_ms)

    def handle_offset_commit(
        self, request: OffsetCommitRequest, caller: Caller, now_ms: int
    ) -> tuple[Records, OffsetCommitResponse]:
        return offset_commit.handle_offset_commit(self._shard, request, caller, now_ms)

    def handle_txn_offset_commit(
        self, request: TxnOffsetCommitRequest, now_ms: int
    ) -> tuple[Records, TxnOffsetCommitResponse]:
        """Commit offsets within a transaction.

        The records belong to the producer's transaction and are replayed with its producer id.
        """
        return handle_txn_offset_commit(self._shard, request, now_ms)

    def handle_offset_delete(self, request: OffsetDeleteRequest) -> tuple[Records, OffsetDeleteResponse]:
        return offset_commit.handle_offset_delete(self._shard, request)

    def handle_offset_fetch(
        self, request: OffsetFetchRequest.OffsetFetchRequestGroup, *, require_stable: bool = False
    ) -> OffsetFetchResponse.OffsetFetchResponseGroup:
        return offset_fetch.handle_offset_fetch(self._shard, request, require_stable=require_stable)

    def handle_describe_group(self, group_id: str, caller: Caller) -> DescribeGroupsResponse.DescribedGroup:
        return admin.handle_describe_group(self._shard, group_id, caller)

    def handle_list_groups(
        self, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[ListGroupsResponse.ListedGroup]:
        return admin.handle_list_groups(self._shard, states, types)

    def handle_delete_group(self, group_id: str) -> tuple[Records, ErrorCode]:
        return admin.handle_delete_group(self._shard, group_id)

    def handle_topic_deleted(self, topic: str, topic_id: bytes) -> Records:
        return expiration.handle_topic_deleted(self._shard, topic, topic_id)

    # -- records -------------------------------------------------------------------------------------

    def replay(
        self,
        record: CoordinatorRecord,
        record_offset: int,
        now_ms: int,
        producer_id: int = replay.NO_PRODUCER_ID,
    ) -> None:
        """Apply one record of the log at `record_offset`; `producer_id` is set if a transaction wrote it."""
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            replay.replay_offset(self._shard, key, value, record_offset, producer_id, now_ms)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            replay.replay_group(self._shard, key.group, value, now_ms)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a transaction's marker once it is in the log: keep or discard the offsets it committed."""
        self._shard.offsets.end_transaction(producer_id, committed=committed)

    def fail_append(self, records: list[CoordinatorRecord], error: ErrorCode, now_ms: int) -> Records:
        """Undo the last call, whose records could not be written; return records that undoing requires."""
        return replay.fail_append(self._shard, records, error, now_ms)

    # -- loading and unloading -----------------------------------------------------------------------

    def on_loaded(self, now_ms: int) -> Records:
        """Start serving once the log has been replayed; each member gets a full session timeout to return."""
        shard = self._shard
        records: Records = []
        for group in self._classic_groups():
            for member in group.members.values():
                shard.renew_session(group, member, now_ms)
            if len(group.members) > shard.config.group_max_size:
                records += rebalance.prepare_rebalance(shard, group, "loaded over group.max.size", now_ms)
        expiration.schedule_expiration(shard, now_ms)
        return records

    def on_unloaded(self) -> None:
        """Answer every parked request with NOT_COORDINATOR, because another broker takes over."""
        error = ErrorCode.NOT_COORDINATOR
        for group in self._classic_groups():
            finish_static_replacement(self._shard, group, error, group.state_timestamp_ms)
            for member in group.members.values():
                response = JoinGroupResponse(error_code=error, member_id=member.member_id)
                self._shard.answer_join(group, member, response)
                self._shard.answer_sync(member, SyncGroupResponse(error_code=error))

    def take_replies(self) -> list[tuple[Ticket, JoinGroupResponse | SyncGroupResponse]]:
        """Return the responses to parked requests that became due since the last call."""
        replies = self._shard.replies
        if replies:
            self._shard.replies = []
        return replies

    # -- timers --------------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        return self._shard.timers.next_deadline_ms

    def shift_timers(self, by_ms: int) -> None:
        """Move all deadlines after the clock jumped by this much; sessions and rounds keep their length."""
        self._shard.timers.shift(by_ms)

    def on_timeout(self, now_ms: int) -> Records:
        """Fire one timer that is due, if there is one."""
        shard = self._shard
        key = shard.timers.pop_due(now_ms)
        match key:
            case (TimerKind.SESSION | TimerKind.JOIN | TimerKind.SYNC, str() as group_id, *_) if (
                group_id in shard.blocked
            ):
                shard.timers.schedule(key, now_ms + BLOCKED_RETRY_MS)
            case (TimerKind.SESSION, str() as group_id, str() as member_id):
                return rebalance.on_session_timeout(self._shard, group_id, member_id, now_ms)
            case (TimerKind.JOIN, str() as group_id):
                return rebalance.on_join_timeout(self._shard, group_id, now_ms)
            case (TimerKind.SYNC, str() as group_id):
                return rebalance.on_sync_timeout(self._shard, group_id, now_ms)
            case expiration.EXPIRATION_KEY:
                return expiration.on_expiration(self._shard, now_ms)
        return []

    # -- metrics -------------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        return self._shard.counters

    @property
    def offset_count(self) -> int:
        return self._shard.offsets.count

    def state_counts(self) -> Counter[ClassicGroupState]:
        """The number of groups in each state."""
        return Counter(group.state for group in self._classic_groups())

    def _classic_groups(self) -> list[ClassicGroup]:
        # Copied in one step, because another thread reads the metrics.
        groups = list(self._shard.groups.values())
        return [group for group in groups if isinstance(group, ClassicGroup)]
