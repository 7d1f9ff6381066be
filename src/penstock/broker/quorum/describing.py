"""Answer DescribeQuorum (KIP-595, KIP-836, KIP-853): leader, voters and observers, and their progress."""

from __future__ import annotations

from penstock.broker.quorum.metadata_partition import NotTheMetadataLog, only_partition
from penstock.consensus.leader import Leader, Progress
from penstock.consensus.raft import Raft
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DescribeQuorumRequest, DescribeQuorumResponse
from penstock.storage.names import CLUSTER_METADATA_TOPIC

TopicData = DescribeQuorumResponse.TopicData
PartitionData = DescribeQuorumResponse.PartitionData


def describe(raft: Raft, request: DescribeQuorumRequest, now_ms: int, wall_ms: int) -> DescribeQuorumResponse:
    """Describe the quorum as its leader sees it.

    ``now_ms`` is the time of the state machine's clock, ``wall_ms`` the time of the wall clock.
    """
    try:
        only_partition(request.topics, "topic_name", "partition_index")
    except NotTheMetadataLog:
        return _refused(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    leader = raft.role
    if not isinstance(leader, Leader):
        partition = PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return _response([partition])
    offset_ms = wall_ms - now_ms

    def state(progress: Progress) -> DescribeQuorumResponse.ReplicaState:
        is_leader = progress.key.id == leader.local.id
        return DescribeQuorumResponse.ReplicaState(
            replica_id=progress.key.id,
            replica_directory_id=progress.key.directory_id,
            log_end_offset=raft.log.end_offset if is_leader else _or_unknown(progress.end_offset),
            last_fetch_timestamp=wall_ms if is_leader else _at(progress.last_fetch_ms, offset_ms),
            last_caught_up_timestamp=wall_ms if is_leader else _at(progress.last_caught_up_ms, offset_ms),
        )

    response = _response(
        [
            PartitionData(
                partition_index=0,
                leader_id=leader.local.id,
                leader_epoch=leader.epoch,
                high_watermark=_or_unknown(leader.high_watermark),
                current_voters=[state(progress) for progress in leader.voters.values()],
                observers=[state(progress) for progress in leader.active_observers(now_ms)],
            )
        ]
    )
    response.nodes = [
        DescribeQuorumResponse.Node(
            node_id=progress.key.id,
            listeners=[
                DescribeQuorumResponse.Listener(name=name, host=address.host, port=address.port)
                for name, address in progress.endpoints.items()
            ],
        )
        for progress in leader.voters.values()
    ]
    return response


def _response(partitions: list[PartitionData]) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=partitions)]
    )


def _refused(request: DescribeQuorumRequest, error: ErrorCode) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[
            TopicData(
                topic_name=topic.topic_name,
                partitions=[
                    PartitionData(
                        partition_index=partition.partition_index,
                        error_code=error,
                        error_message=error.default_message,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _or_unknown(offset: int | None) -> int:
    return -1 if offset is None else offset


def _at(time_ms: int, offset_ms: int) -> int:
    return -1 if time_ms < 0 else time_ms + offset_ms
