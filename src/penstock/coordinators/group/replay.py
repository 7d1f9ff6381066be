"""Applies records to the state, both live and at recovery.

Live, a group's record meets a group whose state says more than the record: all protocols of its members,
their parked requests, their sessions. There the record means that a step is now durable, and replay finishes
that step. At recovery there is no group, or one of an older generation, and replay creates the group from the
record.
"""

from penstock.coordinators.append_errors import append_error
from penstock.coordinators.group.group import ClassicGroup
from penstock.coordinators.group.join import finish_static_replacement
from penstock.coordinators.group.member import Member
from penstock.coordinators.group.offset_store import CommittedOffset
from penstock.coordinators.group.rebalance import (
    drop_assignments,
    maybe_prepare_rebalance_or_complete_join,
    publish_assignments,
)
from penstock.coordinators.group.shard import Shard
from penstock.coordinators.group.states import ClassicGroupState
from penstock.coordinators.records import CoordinatorRecord, Records
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    GroupMetadataKey,
    GroupMetadataValue,
    JoinGroupResponse,
    OffsetCommitKey,
    OffsetCommitValue,
)

__all__ = ["fail_append", "replay_group", "replay_offset"]

NO_PRODUCER_ID = -1


def replay_offset(
    shard: Shard,
    key: OffsetCommitKey,
    value: OffsetCommitValue | None,
    record_offset: int,
    producer_id: int,
    now_ms: int,
) -> None:
    if value is None:
        shard.offsets.remove(key.group, key.topic, key.partition)
        return
    if key.group not in shard.groups:  # a simple group, which no member ever joined
        group = ClassicGroup(key.group, now_ms)
        group.is_durable = True
        shard.groups[key.group] = group
    offset = CommittedOffset.from_record(value, record_offset)
    if producer_id == NO_PRODUCER_ID:
        shard.offsets.put(key.group, key.topic, key.partition, offset)
    else:
        shard.offsets.put_pending(producer_id, key.group, key.topic, key.partition, offset)


def replay_group(shard: Shard, group_id: str, value: GroupMetadataValue | None, now_ms: int) -> None:
    group = shard.classic_group(group_id)
    if value is None:
        if group is not None:
            shard.remove_group(group)
        return
    if group is not None and group.generation_id == value.generation:
        group.is_durable = True
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            _end_sync(shard, group, value, now_ms)
            return
        if group.static_replacement is not None:
            finish_static_replacement(shard, group, ErrorCode.NONE, now_ms)
            return
        if not value.members:
            if group.state is ClassicGroupState.EMPTY:
                group.protocol_type = value.protocol_type or None
                group.topics = group.compute_topics()
                group.state_timestamp_ms = value.current_state_timestamp
            return
    shard.groups[group_id] = _load(group_id, value)


def _end_sync(shard: Shard, group: ClassicGroup, value: GroupMetadataValue, now_ms: int) -> None:
    """Make the group Stable, now that the assignment is in the log, and answer every waiting member."""
    publish_assignments(shard, group, {m.member_id: m.assignment for m in value.members}, now_ms)
    group.transition_to(ClassicGroupState.STABLE, value.current_state_timestamp)
    shard.counters.completed_rebalances += 1


def _load(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    group = ClassicGroup(group_id, value.current_state_timestamp)
    group.is_durable = True
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.generation_id = value.generation
    group.leader_id = value.leader
    for loaded in value.members:
        rebalance_timeout_ms = loaded.rebalance_timeout
        member = Member(
            member_id=loaded.member_id,
            group_instance_id=loaded.group_instance_id,
            client_id=loaded.client_id,
            client_host=loaded.client_host,
            rebalance_timeout_ms=loaded.session_timeout if rebalance_timeout_ms < 0 else rebalance_timeout_ms,
            session_timeout_ms=loaded.session_timeout,
            protocols=((value.protocol or "", loaded.subscription),),
            assignment=loaded.assignment,
        )
        group.add(member, value.protocol_type)
    if group.members:
        group.state = ClassicGroupState.STABLE
    group.topics = group.compute_topics()
    return group


def fail_append(shard: Shard, records: list[CoordinatorRecord], error: ErrorCode, now_ms: int) -> Records:
    """Undo the steps that began before their records failed to be written; return records this requires.

    Offsets need no undoing, because only replay changes them.
    """
    followups: Records = []
    for record in records:
        if isinstance(record.key, GroupMetadataKey) and record.value is not None:
            group = shard.classic_group(record.key.group)
            if group is not None:
                followups += _fail_group(shard, group, append_error(error), now_ms)
    return followups


def _fail_group(shard: Shard, group: ClassicGroup, error: ErrorCode, now_ms: int) -> Records:
    if group.static_replacement is not None:
        finish_static_replacement(shard, group, error, now_ms)
    elif group.state is ClassicGroupState.COMPLETING_REBALANCE:
        drop_assignments(shard, group, error, now_ms)
        reason = f"{error.name} when the assignment was written"
        return maybe_prepare_rebalance_or_complete_join(shard, group, reason, now_ms)
    elif not group.is_durable:
        for member in group.members.values():
            shard.answer_join(group, member, JoinGroupResponse(error_code=error, member_id=""))
        shard.remove_group(group)
    return []
