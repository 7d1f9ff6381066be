"""AssignReplicasToDirs (KIP-858): a broker reports the log directories of its replicas."""

from __future__ import annotations

from typing import TypeAlias

from penstock.metadata.controller import leadership
from penstock.metadata.controller.features import DIRECTORY_ASSIGNMENT_LEVEL
from penstock.metadata.controller.leadership import PartitionPlace
from penstock.metadata.controller.partition_change import change_of
from penstock.metadata.controller.registration import check_broker_epoch
from penstock.metadata.controller.state import ControllerState, Decision, Refusal
from penstock.metadata.image import TopicImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, Message

PartitionAnswer: TypeAlias = AssignReplicasToDirsResponse.PartitionData


def assign_replicas_to_dirs(
    state: ControllerState, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    """Record the directories; a replica in an offline directory leaves the ISR and the leadership."""
    if state.image.metadata_version < DIRECTORY_ASSIGNMENT_LEVEL:
        raise Refusal(ErrorCode.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = check_broker_epoch(state, request.broker_id, request.broker_epoch)
    records: list[Message] = []
    offline: dict[tuple[bytes, int], PartitionPlace] = {}
    response = AssignReplicasToDirsResponse()
    for directory in request.directories:
        answered = AssignReplicasToDirsResponse.DirectoryData(id=directory.id)
        for topic in directory.topics:
            answers = []
            for asked in topic.partitions:
                place = (topic.topic_id, asked.partition_index)
                code = ErrorCode.NONE
                try:
                    assigned = _assign(state, request.broker_id, place, directory.id, records)
                    if not broker.has_online_directory(directory.id):
                        offline[place] = assigned
                except Refusal as refusal:
                    code = refusal.code
                answers.append(
                    AssignReplicasToDirsResponse.PartitionData(
                        partition_index=asked.partition_index, error_code=code
                    )
                )
            answered.topics.append(
                AssignReplicasToDirsResponse.TopicData(topic_id=topic.topic_id, partitions=answers)
            )
        response.directories.append(answered)
    records += leadership.without_replicas(state, request.broker_id, offline.values())
    return Decision(records, response, is_atomic=False)


def _assign(
    state: ControllerState,
    broker_id: int,
    place: tuple[bytes, int],
    directory_id: bytes,
    records: list[Message],
) -> PartitionPlace:
    """Assign the replica, and return the partition to remove the broker from if the directory is lost.

    If the assignment completes a reassignment, this is the partition after completion. Kafka uses the
    partition before it, and may elect a broker that is no longer a replica. Raises Refusal.
    """
    topic_id, partition_id = place
    topic = state.image.topics.by_id.get(topic_id)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID)
    partition = topic.partitions.get(partition_id)
    if partition is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if broker_id not in partition.replicas:
        raise Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    change = change_of(state, topic, partition_id)
    change.directories[broker_id] = directory_id
    record = change.record()
    if record is not None:
        records.append(record)
        if record.replicas is not None:
            topic = TopicImage(topic.name, topic_id, {partition_id: partition.merge(record)})
    return PartitionPlace(topic, partition_id)
