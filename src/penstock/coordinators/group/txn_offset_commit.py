"""TxnOffsetCommit: commits offsets as part of a producer's transaction (KIP-98, KIP-447).

The log validates the producer, because it knows the producer's epoch. This module validates the member, if
the request names one (version 3). As in Kafka, and unlike a plain commit, this one neither waits for a
rebalance to complete nor renews the member's session.
"""

from penstock.coordinators.group.offset_commit import judge_metadata
from penstock.coordinators.group.offset_store import CommittedOffset
from penstock.coordinators.group.records import offset_record
from penstock.coordinators.group.shard import Shard
from penstock.coordinators.group.states import ClassicGroupState
from penstock.coordinators.records import Records
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ZERO_UUID, TxnOffsetCommitRequest, TxnOffsetCommitResponse

__all__ = ["handle_txn_offset_commit", "txn_commit_error_response"]

ResponseTopic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
ResponsePartition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


def handle_txn_offset_commit(
    shard: Shard, request: TxnOffsetCommitRequest, now_ms: int
) -> tuple[Records, TxnOffsetCommitResponse]:
    """Return the offset records, which stay pending after replay; as in Kafka they have no topic ids."""
    error = _validate(shard, request)
    if error is not ErrorCode.NONE:
        return [], txn_commit_error_response(request, error)
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
                    None,
                    ZERO_UUID,
                )
                records.append(offset_record(request.group_id, topic.name, partition.partition_index, offset))
            partitions.append(ResponsePartition(partition_index=partition.partition_index, error_code=error))
        topics.append(ResponseTopic(name=topic.name, partitions=partitions))
    shard.counters.offset_commits += len(records)
    return records, TxnOffsetCommitResponse(topics=topics)


def txn_commit_error_response(request: TxnOffsetCommitRequest, error: ErrorCode) -> TxnOffsetCommitResponse:
    """The same error for every partition, because the response has no error field of its own."""
    return TxnOffsetCommitResponse(
        topics=[
            ResponseTopic(
                name=topic.name,
                partitions=[
                    ResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _validate(shard: Shard, request: TxnOffsetCommitRequest) -> ErrorCode:
    generation_id = request.generation_id
    group = shard.classic_group(request.group_id)
    if group is None:
        return ErrorCode.NONE if generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    if generation_id < 0 and group.state is ClassicGroupState.EMPTY:
        return ErrorCode.NONE
    if generation_id < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.NONE  # versions below 3 cannot name a member
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and generation_id != group.generation_id:
        error = ErrorCode.ILLEGAL_GENERATION
    return error
