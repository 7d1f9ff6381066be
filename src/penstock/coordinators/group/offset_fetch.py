"""OffsetFetch: reads the committed offsets of a group.

A missing group is not an error: every offset is -1, and a request for all offsets returns none. Member id and
epoch (version 9) belong to KIP-848 groups; a classic group ignores them.
"""

from penstock.coordinators.group.offset_store import CommittedOffset
from penstock.coordinators.group.shard import Shard
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ZERO_UUID, OffsetFetchRequest, OffsetFetchResponse

__all__ = ["handle_offset_fetch"]

INVALID_OFFSET = -1
NO_LEADER_EPOCH = -1

RequestGroup = OffsetFetchRequest.OffsetFetchRequestGroup
ResponseGroup = OffsetFetchResponse.OffsetFetchResponseGroup
ResponseTopic = OffsetFetchResponse.OffsetFetchResponseTopics
ResponsePartition = OffsetFetchResponse.OffsetFetchResponsePartitions


def handle_offset_fetch(shard: Shard, request: RequestGroup, *, require_stable: bool) -> ResponseGroup:
    """Return one group's offsets: those of the given topics, or all if `topics` is None.

    With `require_stable`, a partition whose offset an open transaction may still change gets the error
    UNSTABLE_OFFSET_COMMIT (KIP-447).
    """
    group_id = request.group_id
    committed = shard.offsets.of_group(group_id)
    wanted: list[tuple[str, bytes, list[int]]]
    if request.topics is None:
        wanted = [(topic, ZERO_UUID, list(partitions)) for topic, partitions in committed.items()]
    else:
        wanted = [(topic.name, topic.topic_id, topic.partition_indexes) for topic in request.topics]
    topics = []
    for name, topic_id, indexes in wanted:
        offsets = committed.get(name, {})
        partitions = []
        for index in indexes:
            if require_stable and shard.offsets.is_unstable(group_id, name, index):
                partitions.append(_no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            else:
                partitions.append(_partition(index, offsets.get(index), topic_id))
        topics.append(ResponseTopic(name=name, topic_id=topic_id, partitions=partitions))
    return ResponseGroup(group_id=group_id, topics=topics)


def _partition(index: int, offset: CommittedOffset | None, topic_id: bytes) -> ResponsePartition:
    if offset is None or _is_of_another_topic(offset.topic_id, topic_id):
        return _no_offset(index, ErrorCode.NONE)
    return ResponsePartition(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def _is_of_another_topic(committed_id: bytes, asked_id: bytes) -> bool:
    """Whether the topic was deleted and recreated after the commit, as far as both topic ids are known."""
    return committed_id != asked_id and committed_id != ZERO_UUID and asked_id != ZERO_UUID


def _no_offset(index: int, error: ErrorCode) -> ResponsePartition:
    return ResponsePartition(
        partition_index=index,
        committed_offset=INVALID_OFFSET,
        committed_leader_epoch=NO_LEADER_EPOCH,
        metadata="",
        error_code=error,
    )
