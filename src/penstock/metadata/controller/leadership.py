"""Updates leaders and in-sync replicas when brokers are fenced, stop or return.

The affected partitions are found by scanning all of them, at a microsecond each. An index by broker would
take memory on every node, and time for every change of a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import NamedTuple

from penstock.metadata.controller.partition_change import Election, change_of
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.image import NO_LEADER, PartitionRegistration, TopicImage
from penstock.protocol.messages import (
    BrokerRegistrationChangeRecord,
    Message,
    UnregisterBrokerRecord,
)

FENCE, UNFENCE = 1, -1
"""The values of ``fenced`` in a BrokerRegistrationChangeRecord."""
IN_CONTROLLED_SHUTDOWN = 1

_NOBODY = -1


class PartitionPlace(NamedTuple):
    topic: TopicImage
    partition_id: int


def find_partitions(
    state: ControllerState, wanted: Callable[[PartitionRegistration], bool]
) -> Iterator[PartitionPlace]:
    """Iterate over the partitions for which ``wanted`` holds."""
    for topic in state.image.topics:
        for partition_id, partition in topic.partitions.items():
            if wanted(partition):
                yield PartitionPlace(topic, partition_id)


def leads_any(state: ControllerState, broker_id: int) -> bool:
    return any(find_partitions(state, lambda partition: partition.leader == broker_id))


def fence(state: ControllerState, broker_id: int) -> list[Message]:
    """Remove a broker from all ISRs and leaderships, and then fence it."""
    epoch = state.image.brokers[broker_id].epoch
    return [
        *without_replicas(state, broker_id, _in_isr(state, broker_id)),
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=FENCE),
    ]


def unfence(state: ControllerState, broker_id: int) -> list[Message]:
    """Unfence a broker, and elect it in partitions without a leader where it may lead."""
    epoch = state.image.brokers[broker_id].epoch
    leaderless = find_partitions(state, lambda partition: partition.leader == NO_LEADER)
    return [
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=UNFENCE),
        *_changes(state, leaderless, add=broker_id),
    ]


def begin_controlled_shutdown(state: ControllerState, broker_id: int) -> list[Message]:
    """Move leaderships and ISR memberships off a broker that wants to stop, while it still serves."""
    broker = state.image.brokers[broker_id]
    records: list[Message] = []
    if not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
            )
        )
    return records + without_replicas(state, broker_id, _in_isr(state, broker_id))


def stopped(state: ControllerState, broker_id: int, *, cleanly: bool) -> list[Message]:
    """Apply the end of a broker's last incarnation, which is known when the next one registers.

    A broker that did not stop cleanly may have lost unflushed records. With eligible leader replicas it then
    leaves not only the ISRs, but also the eligible leaders (KIP-966).
    """
    in_isr = _in_isr(state, broker_id)
    if cleanly or not state.elr_enabled:
        return without_replicas(state, broker_id, in_isr)
    in_elr = find_partitions(state, lambda partition: broker_id in partition.elr)
    return [
        *_changes(state, in_isr, uncleanly_stopped=broker_id),
        *_changes(state, in_elr, uncleanly_stopped=broker_id),
    ]


def unregister(state: ControllerState, broker_id: int) -> list[Message]:
    """Unregister a broker; it stays a replica of its partitions, but is no eligible leader any more."""
    in_elr = find_partitions(state, lambda partition: broker_id in partition.elr)
    return [
        *without_replicas(state, broker_id, _in_isr(state, broker_id)),
        *without_replicas(state, broker_id, in_elr),
        UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=state.image.brokers[broker_id].epoch),
    ]


def lose_directories(state: ControllerState, broker_id: int, offline: Iterable[bytes]) -> list[Message]:
    """Remove a broker's replicas in failed log directories, and record the directories left (KIP-858)."""
    broker = state.image.brokers[broker_id]
    offline = set(offline)
    lost = [directory for directory in broker.log_dirs if directory in offline]
    if not lost:
        return []
    records: list[Message] = []
    for directory in lost:
        records += without_replicas(state, broker_id, _in_directory(state, directory))
    left = [directory for directory in broker.log_dirs if directory not in offline]
    records.append(
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, log_dirs=left)
    )
    return records


def _in_directory(state: ControllerState, directory: bytes) -> Iterator[PartitionPlace]:
    return find_partitions(state, lambda partition: directory in partition.directories)


def _in_isr(state: ControllerState, broker_id: int) -> Iterator[PartitionPlace]:
    return find_partitions(state, lambda partition: broker_id in partition.isr)


def without_replicas(
    state: ControllerState, broker_id: int, places: Iterable[PartitionPlace]
) -> list[Message]:
    """Remove a broker from the ISR and the leadership of these partitions."""
    return _changes(state, places, remove=broker_id)


def _changes(
    state: ControllerState,
    places: Iterable[PartitionPlace],
    *,
    remove: int = _NOBODY,
    add: int = _NOBODY,
    uncleanly_stopped: int = _NOBODY,
) -> list[Message]:
    """The changes that remove one broker, or let one lead that the image still shows as fenced."""
    cluster = state.image.cluster

    def is_active(broker_id: int) -> bool:
        if broker_id in (remove, uncleanly_stopped):
            return False
        return broker_id == add or cluster.is_active(broker_id)

    records: list[Message] = []
    min_isr = cache(state.min_isr)
    allows_unclean_election = cache(state.allows_unclean_election)
    for topic, partition_id in places:
        change = change_of(state, topic, partition_id, is_active, min_isr(topic.name))
        if allows_unclean_election(topic.name):
            change.election = Election.UNCLEAN
        if uncleanly_stopped != _NOBODY:
            change.uncleanly_stopped = (uncleanly_stopped,)
        change.isr = [replica for replica in change.isr if replica not in (remove, uncleanly_stopped)]
        record = change.record()
        if record is not None:
            records.append(record)
    return records
