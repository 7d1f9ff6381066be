"""Expire offsets and groups, by time or because a topic was deleted.

An offset expires ``offsets.retention.minutes`` after the group became Empty. In a group with members it
expires that long after its commit, if no member subscribes to its topic any more; in a simple group, that
long after its commit. A group without members is removed with its last offset (KIP-211).
"""

from collections.abc import Callable

from penstock.coordinators.group.group import ClassicGroup, Group
from penstock.coordinators.group.offset_store import CommittedOffset
from penstock.coordinators.group.records import group_tombstone, offset_tombstone
from penstock.coordinators.group.shard import Shard, TimerKind
from penstock.coordinators.group.states import ClassicGroupState
from penstock.coordinators.records import Records
from penstock.protocol.messages import ZERO_UUID

__all__ = ["EXPIRATION_KEY", "handle_topic_deleted", "on_expiration", "schedule_expiration"]

EXPIRATION_KEY = (TimerKind.EXPIRATION, "")

MAX_GROUPS_PER_TURN = 500
"""Limits the groups checked per turn, so that a large partition does not block the event loop."""
MAX_RECORDS_PER_TURN = 1_000
"""Limits the tombstones returned per turn, for the same reason."""

BaseTimestamp = Callable[[CommittedOffset], int]


def schedule_expiration(shard: Shard, now_ms: int) -> None:
    shard.timers.schedule(EXPIRATION_KEY, now_ms + shard.config.offsets_retention_check_interval_ms)


def on_expiration(shard: Shard, now_ms: int) -> Records:
    """Check some groups; the timer fires again at once while groups remain, else after the interval."""
    queue = shard.expiration_queue
    if not queue:
        queue.extend(shard.groups)
    records: Records = []
    looked_at = 0
    while queue and looked_at < MAX_GROUPS_PER_TURN and len(records) < MAX_RECORDS_PER_TURN:
        group = shard.groups.get(queue.pop())
        looked_at += 1
        if group is not None:
            records += _expire_group(shard, group, now_ms)
    if queue:
        shard.timers.schedule(EXPIRATION_KEY, now_ms)
    else:
        schedule_expiration(shard, now_ms)
    return records


def _expire_group(shard: Shard, group: Group, now_ms: int) -> Records:
    if not isinstance(group, ClassicGroup) or group.group_id in shard.held:
        return []  # a commit that is being appended renews its offsets
    group_id = group.group_id
    records: Records = []
    offset_count = 0
    base_timestamp = _base_timestamp(group)
    for topic, partitions in shard.offsets.of_group(group_id).items():
        offset_count += len(partitions)
        if base_timestamp is None or group.is_subscribed_to(topic):
            continue
        records += [
            offset_tombstone(group_id, topic, partition)
            for partition, offset in partitions.items()
            if _is_expired(shard, offset, base_timestamp, now_ms)
            and not shard.offsets.is_unstable(group_id, topic, partition)
        ]
    shard.counters.offset_expirations += len(records)
    is_over = group.state is ClassicGroupState.EMPTY and len(records) == offset_count
    if is_over and not shard.offsets.unstable_partitions(group_id):
        records.append(group_tombstone(group_id))
    return records


def _base_timestamp(group: ClassicGroup) -> BaseTimestamp | None:
    """The start of the retention time of this group's offsets; None while none of them may expire."""
    if group.protocol_type is None:
        return lambda offset: offset.commit_timestamp_ms
    if group.state is ClassicGroupState.EMPTY:
        if group.state_timestamp_ms < 0:  # loaded from a record without this timestamp
            return lambda offset: offset.commit_timestamp_ms
        return lambda offset: group.state_timestamp_ms
    if group.uses_consumer_protocol and group.topics is not None and group.state is ClassicGroupState.STABLE:
        return lambda offset: offset.commit_timestamp_ms
    return None


def _is_expired(shard: Shard, offset: CommittedOffset, base_timestamp: BaseTimestamp, now_ms: int) -> bool:
    if offset.expire_timestamp_ms is not None:
        return now_ms >= offset.expire_timestamp_ms
    return now_ms - base_timestamp(offset) >= shard.config.offsets_retention_ms


def handle_topic_deleted(shard: Shard, topic: str, topic_id: bytes) -> Records:
    """Return tombstones for all offsets of a deleted topic, those of open transactions included.

    Offsets of a topic with the same name and another id stay.
    """
    gone = {
        (group_id, partition)
        for group_id, topics in shard.offsets.groups()
        for partition, offset in topics.get(topic, {}).items()
        if offset.topic_id in (ZERO_UUID, topic_id)
    }
    gone.update(
        (group_id, partition)
        for group_id, pending_topic, partition, offset in shard.offsets.pending()
        if pending_topic == topic and offset.topic_id in (ZERO_UUID, topic_id)
    )
    return [offset_tombstone(group_id, topic, partition) for group_id, partition in sorted(gone)]
