"""AssignReplicasToDirs (KIP-858): a broker tells in which of its log directories it keeps its replicas."""

from __future__ import annotations

from typing import TypeAlias

from penstock.metadata.controller import leadership
from penstock.metadata.controller.features import DIRECTORY_ASSIGNMENT_LEVEL
from penstock.metadata.controller.leadership import PartitionPlace
from penstock.metadata.controller.partition_change import change_of
from penstock.metadata.controller.registration import check_broker_epoch
from penstock.metadata.controller.state import ControllerState, Decision, Refusal
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse, Message

PartitionAnswer: TypeAlias = AssignReplicasToDirsResponse.PartitionData


def assign_replicas_to_dirs(
    state: ControllerState, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    """Note the directories; a replica in one that is offline leaves the ISR and the leadership."""
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
                code = _assign(state, request.broker_id, place, directory.id, records)
                if code is ErrorCode.NONE and not broker.has_online_directory(directory.id):
                    offline[place] = PartitionPlace(state.image.topics.by_id[place[0]], place[1])
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
) -> ErrorCode:
    topic_id, partition_id = place
    topic = state.image.topics.by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if partition_id not in topic.partitions:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker_id not in topic.partitions[partition_id].replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    change = change_of(state, topic, partition_id)
    change.directories[broker_id] = directory_id
    record = change.record()
    if record is not None:
        records.append(record)
    return ErrorCode.NONE
