"""Tells the partitions of a decided transaction how it ended.

A decision counts once it is in `__transaction_state`; its markers are what readers and logs learn it from.
Those of partitions led here are written in the turn of the decision, so that a client that has its answer
finds its records readable. What can't be written now (no leader, a full disk, a group coordinator that is
loading) is tried again until it can, or until its topic is gone. Markers may be written twice: logs take the
second for what it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.broker.group_coordinator import GROUP_METADATA_TOPIC
from penstock.coordinators.transaction.metadata import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.broker.node import Broker
    from penstock.coordinators.transaction.results import TransactionMarkers

__all__ = ["Marker", "MarkerOwner", "MarkerSender", "write_marker"]

log = logging.getLogger(__name__)

MARKERS_PER_TURN = 64
"""A marker takes some 20 µs; a transaction may have thousands. By number, not by time: that the records of an
ordinary one are readable when EndTxn is answered must not depend on how busy the machine is."""

RETRY_S = 0.1
AFTER_DISK_FAILURE_S = 5.0

GIVE_UP = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""A newer coordinator, or a newer epoch of the producer, has decided here: this one has no say any more."""


class Marker(NamedTuple):
    """How a producer's transaction ended, as one partition is told."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


def write_marker(broker: Broker, topic: str, partition: int, marker: Marker) -> ErrorCode:
    """Write a marker to a replica of this node; for `__consumer_offsets` the groups learn of it too."""
    replica = broker.replicas.get(topic, partition)
    if replica is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        if topic == GROUP_METADATA_TOPIC:
            broker.groups.end_transaction(partition, marker)
        else:
            replica.append_marker(**marker._asdict())
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


class MarkerOwner(Protocol):
    """The partition of `__transaction_state` that a decision belongs to."""

    def markers_written(self, markers: TransactionMarkers) -> None:
        """All have heard."""


class _Delivery:
    """The markers of one transaction on their way."""

    __slots__ = ("failed", "is_retry", "marker", "markers", "owner", "to_write")

    def __init__(self, owner: MarkerOwner, markers: TransactionMarkers) -> None:
        self.owner = owner
        self.markers = markers
        self.marker = Marker(
            markers.producer_id,
            markers.producer_epoch,
            markers.coordinator_epoch,
            markers.commit,
            markers.transaction_version,
        )
        self.to_write: list[TopicPartition] = list(markers.partitions)
        self.failed: list[TopicPartition] = []
        self.is_retry = False


class MarkerSender:
    """Transactions whose markers are on their way, by transactional id."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._deliveries: dict[str, _Delivery] = {}
        self.written = 0
        self.retries = 0

    @property
    def pending(self) -> int:
        """Transactions that are decided, but not all of whose partitions have heard."""
        return len(self._deliveries)

    def send_when_durable(self, owner: MarkerOwner, markers: TransactionMarkers) -> None:
        """Write what can be written now; `owner` is told when all is done, which may be before the return.

        Where power cuts count (`penstock.acks.fsync`) no marker is written before the decision is durable,
        nor forgotten before all markers are.
        """
        delivery = _Delivery(owner, markers)
        self._deliveries[markers.transactional_id] = delivery
        self._when_durable(delivery, self._go_on)

    def _when_durable(self, delivery: _Delivery, then: Callable[[_Delivery], None]) -> None:
        group_commit = self._broker.group_commit
        if not group_commit.acks_fsync or group_commit.is_idle:
            then(delivery)
            return

        def durable(error: BaseException | None) -> None:
            if error is None:
                then(delivery)
                return
            transactional_id = delivery.markers.transactional_id
            log.error("markers held back transactional_id=%s error=%s", transactional_id, error)
            # All again, once the log that failed has lost its leader: if it is the coordinator's own, this
            # delivery has ended by then.
            delivery.to_write, delivery.failed = list(delivery.markers.partitions), []
            self._broker.loop.call_later(AFTER_DISK_FAILURE_S, self._when_durable, delivery, self._go_on)

        group_commit.when_durable(durable)

    def cancel(self, owner: MarkerOwner) -> None:
        """Another node coordinates these now, and sends the markers again."""
        self._deliveries = {key: kept for key, kept in self._deliveries.items() if kept.owner is not owner}

    def _go_on(self, delivery: _Delivery) -> None:
        transactional_id = delivery.markers.transactional_id
        if self._deliveries.get(transactional_id) is not delivery:
            return
        for _ in range(min(MARKERS_PER_TURN, len(delivery.to_write))):
            place = delivery.to_write.pop()
            error = self._write(place, delivery.marker)
            if error in GIVE_UP:
                log.warning(
                    "markers given up transactional_id=%s topic=%s partition=%d error=%s",
                    transactional_id,
                    *place,
                    error.name,
                )
                del self._deliveries[transactional_id]
                return
            if error is not ErrorCode.NONE:
                if not delivery.is_retry:
                    log.info(
                        "marker to be tried again transactional_id=%s topic=%s partition=%d error=%s",
                        transactional_id,
                        *place,
                        error.name,
                    )
                delivery.failed.append(place)
        if delivery.to_write:
            self._broker.loop.call_soon(self._go_on, delivery)
        elif delivery.failed:
            delivery.to_write, delivery.failed = delivery.failed, []
            delivery.is_retry = True
            self.retries += 1
            self._broker.loop.call_later(RETRY_S, self._go_on, delivery)
        else:
            self._when_durable(delivery, self._complete)

    def _complete(self, delivery: _Delivery) -> None:
        transactional_id = delivery.markers.transactional_id
        if self._deliveries.get(transactional_id) is delivery:
            del self._deliveries[transactional_id]
            delivery.owner.markers_written(delivery.markers)

    def _write(self, place: TopicPartition, marker: Marker) -> ErrorCode:
        """To the partition's leader, which is this node or none; NONE as well where the topic is gone."""
        registration = self._broker.image.topics.partition(*place)
        if registration is None:
            return ErrorCode.NONE
        if registration.leader != self._broker.node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        error = write_marker(self._broker, *place, marker)
        if error is ErrorCode.NONE:
            self.written += 1
        return error
