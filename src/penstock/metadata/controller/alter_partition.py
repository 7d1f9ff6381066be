"""AlterPartition (KIP-497): a leader shrinks or expands its in-sync replicas.

The request carries the epochs of the broker, the leader, the partition and each replica in the ISR (KIP-903).
They keep out both a deposed leader and a replica that has restarted since.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from penstock.metadata.controller.partition_change import RECOVERED, RECOVERING, Election, change_of
from penstock.metadata.controller.registration import check_broker_epoch
from penstock.metadata.controller.state import ControllerState, Decision
from penstock.metadata.image import LEADER_UNCHANGED, PartitionRegistration, TopicImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import AlterPartitionRequest, AlterPartitionResponse, Message

Asked: TypeAlias = AlterPartitionRequest.PartitionData
Answer: TypeAlias = AlterPartitionResponse.PartitionData
BrokerState: TypeAlias = AlterPartitionRequest.BrokerState

_BROKER_EPOCHS_SINCE: Final = 3
_ANY_EPOCH: Final = -1


def alter_partition(
    state: ControllerState, request: AlterPartitionRequest, api_version: int
) -> Decision[AlterPartitionResponse]:
    """Decide on each partition separately. Raises Refusal STALE_BROKER_EPOCH for the whole request."""
    if not request.topics:
        return Decision([], AlterPartitionResponse())  # as in Kafka, whoever asks
    check_broker_epoch(state, request.broker_id, request.broker_epoch)
    records: list[Message] = []
    response = AlterPartitionResponse()
    for asked_topic in request.topics:
        topic = state.image.topics.by_id.get(asked_topic.topic_id)
        answers = []
        for asked in asked_topic.partitions:
            if topic is None:
                answers.append(_error(asked, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            isr = _wanted_isr(asked, api_version)
            code = _problem(state, request.broker_id, topic, asked, isr)
            if code is not ErrorCode.NONE:
                answers.append(_error(asked, code))
                continue
            answers.append(_alter(state, request.broker_id, topic, asked, isr, records))
        response.topics.append(
            AlterPartitionResponse.TopicData(topic_id=asked_topic.topic_id, partitions=answers)
        )
    return Decision(records, response, is_atomic=False)


def _wanted_isr(asked: Asked, api_version: int) -> list[BrokerState]:
    if api_version >= _BROKER_EPOCHS_SINCE:
        return asked.new_isr_with_epochs
    state = AlterPartitionRequest.BrokerState
    return [state(broker_id=broker_id, broker_epoch=_ANY_EPOCH) for broker_id in asked.new_isr]


def _problem(
    state: ControllerState, broker_id: int, topic: TopicImage, asked: Asked, isr: list[BrokerState]
) -> ErrorCode:
    partition = topic.partitions.get(asked.partition_index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if asked.leader_epoch > partition.leader_epoch or asked.partition_epoch > partition.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # the leader knows a newer controller than this one
    if asked.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not _is_sound(partition, asked, [member.broker_id for member in isr]):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(state, member) for member in isr):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_sound(partition: PartitionRegistration, asked: Asked, isr: list[int]) -> bool:
    """Check that an ISR has distinct replicas and the leader, and only the leader while that recovers."""
    if len(set(isr)) != len(isr) or not set(isr) <= set(partition.replicas) or partition.leader not in isr:
        return False
    if asked.leader_recovery_state not in (RECOVERED, RECOVERING):
        return False
    recovering = asked.leader_recovery_state == RECOVERING
    return not (recovering and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED))


def _is_eligible(state: ControllerState, member: BrokerState) -> bool:
    """Whether the broker is active, and in the same incarnation in which it caught up with the leader."""
    broker = state.image.brokers.get(member.broker_id)
    if broker is None or not broker.active:
        return False
    return member.broker_epoch in (_ANY_EPOCH, broker.epoch)


def _alter(
    state: ControllerState,
    broker_id: int,
    topic: TopicImage,
    asked: Asked,
    isr: list[BrokerState],
    records: list[Message],
) -> Answer:
    change = change_of(state, topic, asked.partition_index)
    if state.allows_unclean_election(topic.name):
        change.election = Election.UNCLEAN
    change.isr = [member.broker_id for member in isr]
    change.leader_recovery_state = asked.leader_recovery_state
    partition, record = change.partition, change.record()
    if record is not None:
        records.append(record)
        partition = partition.merge(record)
        if record.leader not in (broker_id, LEADER_UNCHANGED):
            # The new ISR completed a reassignment that removes the leader itself: tell it about the election.
            return _error(asked, ErrorCode.NEW_LEADER_ELECTED)
    return AlterPartitionResponse.PartitionData(
        partition_index=asked.partition_index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=list(partition.isr),
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


def _error(asked: Asked, code: ErrorCode) -> Answer:
    return AlterPartitionResponse.PartitionData(partition_index=asked.partition_index, error_code=code)
