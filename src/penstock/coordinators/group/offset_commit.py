"""OffsetCommit and OffsetDelete: validation of the requests, and the records they produce."""

from penstock.coordinators.group.group import ClassicGroup
from penstock.coordinators.group.offset_store import CommittedOffset
from penstock.coordinators.group.records import offset_record, offset_tombstone
from penstock.coordinators.group.results import Caller
from penstock.coordinators.group.shard import Shard
from penstock.coordinators.group.states import ClassicGroupState
from penstock.coordinators.records import Records
from penstock.java.strings import utf16_length
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
)

__all__ = [
    "commit_error_response",
    "handle_offset_commit",
    "handle_offset_delete",
    "judge_metadata",
]

GROUP_ID_NOT_FOUND_VERSION = 9
"""From this version on, a missing group is reported differently from an old generation."""

NO_RETENTION_TIME = -1

EMPTY = ClassicGroupState.EMPTY


def handle_offset_commit(
    shard: Shard, request: OffsetCommitRequest, caller: Caller, now_ms: int
) -> tuple[Records, OffsetCommitResponse]:
    """Commit offsets, and renew the member's session; the caller must have filled in topic ids."""
    error = _validate_commit(shard, request, caller, now_ms)
    if error is not ErrorCode.NONE:
        return [], commit_error_response(request, error)
    retention_ms = request.retention_time_ms
    expire_ms = None if retention_ms == NO_RETENTION_TIME else now_ms + retention_ms
    records: Records = []
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            error = judge_metadata(shard, metadata)
            if error is ErrorCode.NONE:
                offset = CommittedOffset(
                    partition.committed_offset,
                    partition.committed_leader_epoch,
                    metadata,
                    now_ms,
                    expire_ms,
                    topic.topic_id,
                )
                records.append(offset_record(request.group_id, topic.name, partition.partition_index, offset))
            partitions.append(
                OffsetCommitResponse.OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
        topics.append(
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    shard.counters.offset_commits += len(records)
    return records, OffsetCommitResponse(topics=topics)


def judge_metadata(shard: Shard, metadata: str) -> ErrorCode:
    """Check the length of commit metadata: `offset.metadata.max.bytes` limits it in UTF-16 code units."""
    limit = shard.config.offset_metadata_max_bytes
    if len(metadata) * 2 > limit and utf16_length(metadata) > limit:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def commit_error_response(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    """The same error for every partition, because the response has no error field of its own."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponse.OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _validate_commit(shard: Shard, request: OffsetCommitRequest, caller: Caller, now_ms: int) -> ErrorCode:
    generation_id = request.generation_id_or_member_epoch
    group = shard.classic_group(request.group_id)
    if group is None:
        if generation_id < 0:
            return ErrorCode.NONE  # a simple consumer; replaying its first record creates the group
        if caller.api_version >= GROUP_ID_NOT_FOUND_VERSION:
            return ErrorCode.GROUP_ID_NOT_FOUND
        return ErrorCode.ILLEGAL_GENERATION
    if generation_id < 0 and group.state is EMPTY:
        return ErrorCode.NONE
    return _validate_member_commit(shard, group, request, now_ms)


def _validate_member_commit(
    shard: Shard, group: ClassicGroup, request: OffsetCommitRequest, now_ms: int
) -> ErrorCode:
    generation_id = request.generation_id_or_member_epoch
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        # Only an empty group accepts commits without a member and a generation.
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    shard.renew_session(group, group.members[request.member_id], now_ms)
    return ErrorCode.NONE


def handle_offset_delete(shard: Shard, request: OffsetDeleteRequest) -> tuple[Records, OffsetDeleteResponse]:
    """Delete offsets of topics that the group does not currently read."""
    if not request.group_id:
        return [], OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    group = shard.classic_group(request.group_id)
    if group is None:
        return [], OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    if group.state is not EMPTY and not group.uses_consumer_protocol:
        # The subscriptions of other protocols are unknown, so every topic counts as read.
        return [], OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
    records: Records = []
    topics = []
    for topic in request.topics:
        is_subscribed = group.is_subscribed_to(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_subscribed else ErrorCode.NONE
        indexes = [partition.partition_index for partition in topic.partitions]
        if not is_subscribed:
            records += [
                offset_tombstone(group.group_id, topic.name, index)
                for index in indexes
                if shard.offsets.get(group.group_id, topic.name, index) is not None
                or shard.offsets.is_unstable(group.group_id, topic.name, index)
            ]
        topics.append(
            OffsetDeleteResponse.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponse.OffsetDeleteResponsePartition(
                        partition_index=index, error_code=error
                    )
                    for index in indexes
                ],
            )
        )
    shard.counters.offset_deletions += len(records)
    return records, OffsetDeleteResponse(topics=topics)
