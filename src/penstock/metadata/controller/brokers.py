"""Brokers come and go: registration, fencing, shutdown.

On one node the broker and its controller start and stop together, so there are no heartbeats to miss. What
remains of KIP-631 is what the log has to show: a registration with a new epoch at every start, and a new
leader epoch for every partition, so that a reader can tell what was written before from what came after.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.metadata.controller.features import SUPPORTED_FEATURES
from penstock.metadata.controller.state import ControllerState, Decision
from penstock.metadata.image import NO_LEADER, BrokerRegistration, Endpoint, PartitionRegistration
from penstock.protocol.messages import BrokerRegistrationChangeRecord, Message, PartitionChangeRecord

_UNFENCE, _FENCE = -1, 1


def register_broker(
    state: ControllerState,
    *,
    broker_id: int,
    epoch: int,
    incarnation_id: bytes,
    endpoints: Sequence[Endpoint],
    rack: str | None,
    log_dirs: Sequence[bytes],
) -> Decision[BrokerRegistration]:
    """Register a broker, fenced until it has caught up. ``epoch`` is the offset its record will have."""
    registration = BrokerRegistration(
        broker_id=broker_id,
        epoch=epoch,
        incarnation_id=incarnation_id,
        endpoints=tuple(endpoints),
        features=SUPPORTED_FEATURES,
        rack=rack,
        fenced=True,
        in_controlled_shutdown=False,
        log_dirs=tuple(log_dirs),
        cordoned_log_dirs=None,
    )
    return Decision([registration.to_record()], registration)


def unfence_broker(state: ControllerState, broker_id: int) -> Decision[None]:
    """Let a registered broker serve, and elect it where it leads or nobody does, under a new epoch."""
    registration = state.image.brokers[broker_id]
    records: list[Message] = [
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=registration.epoch, fenced=_UNFENCE)
    ]
    for topic in state.image.topics:
        for partition_id, partition in topic.partitions.items():
            election = _election(broker_id, partition)
            if election is not None:
                election.topic_id, election.partition_id = topic.topic_id, partition_id
                records.append(election)
    return Decision(records, None)


def _election(broker_id: int, partition: PartitionRegistration) -> PartitionChangeRecord | None:
    """How a returning broker comes to lead a partition; None if it doesn't.

    An empty ISR was left by a controller that knows eligible leader replicas (KIP-966): then one of those
    may lead, or, where there is none, the last leader known.
    """
    if partition.isr:
        if broker_id in partition.isr and partition.leader in (broker_id, NO_LEADER):
            return PartitionChangeRecord(leader=broker_id)
        return None
    if broker_id in (partition.elr or partition.last_known_elr):
        return PartitionChangeRecord(
            leader=broker_id, isr=[broker_id], eligible_leader_replicas=[], last_known_elr=[]
        )
    return None


def shut_down_broker(state: ControllerState, broker_id: int) -> Decision[None]:
    """Fence a broker that stops in good order, and take its partitions from it.

    This is how Kafka ends a controlled shutdown: a log that says so lets the node register again at once,
    while one that still has it alive makes a Kafka controller wait for its session to time out.
    """
    registration = state.image.brokers[broker_id]
    records: list[Message] = [
        PartitionChangeRecord(topic_id=topic.topic_id, partition_id=partition_id, leader=NO_LEADER)
        for topic in state.image.topics
        for partition_id, partition in topic.partitions.items()
        if partition.leader == broker_id
    ]
    records.append(
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=registration.epoch, fenced=_FENCE)
    )
    return Decision(records, None)
