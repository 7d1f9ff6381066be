"""TxnOffsetCommit: offsets that count once the producer's transaction commits (KIP-98, KIP-447).

The producer's own rights are the log's affair, which knows its epoch; here the member's are judged, if the
request names one (version 3). Unlike a plain commit this one neither waits for a rebalance to complete nor
renews the member's session, as in Kafka.
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
    """Offsets that pend once they are replayed with their producer's id; without topic ids, as in Kafka."""
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
    """The same error for every partition: the response has no place for one of its own."""
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
        return ErrorCode.NONE  # versions below 3 could not name a member
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is ErrorCode.NONE and generation_id != group.generation_id:
        error = ErrorCode.ILLEGAL_GENERATION
    return error
