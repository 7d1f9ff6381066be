"""Write the markers of decided transactions to their partitions.

A decision is final once it is committed in `__transaction_state`; readers and logs learn it from the markers.
Markers for partitions that this node leads are written in the turn of the decision, so that a client that has
its answer finds its records readable. The others are sent to the brokers that lead the partitions. A marker
that can't be written now (no leader, a full disk, a group coordinator that is loading) is retried until it is
written or its topic is deleted. A marker may be written twice: logs recognize the second one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock.broker.coordination.broker_peers import BrokerPeers
from penstock.broker.coordination.marker import Marker
from penstock.broker.coordination.transactions.marker_queue import MarkerQueue
from penstock.broker.coordination.transactions.marker_writes import write_marker
from penstock.coordinators.transaction.metadata import TopicPartition
from penstock.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.host import TransactionHost
    from penstock.coordinators.transaction.results import TransactionMarkers

__all__ = ["MarkerOwner", "MarkerSender"]

log = logging.getLogger(__name__)

MARKERS_PER_TURN = 64
"""The markers written per turn of the event loop: each takes about 20 µs, and there may be thousands.

This is a number, not a time, so that the records of an ordinary transaction are readable when EndTxn is
answered, however busy the machine is."""

RETRY_S = 0.1
AFTER_DISK_FAILURE_S = 5.0

GIVE_UP = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Errors that end a delivery: a newer coordinator or producer epoch has superseded this decision."""

NO_MARKER_NEEDED = frozenset({ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION})
"""Errors of a broker whose partition can hold no transactions, so it has no records of this one."""


class MarkerOwner(Protocol):
    """The partition of `__transaction_state` that a decision belongs to."""

    def markers_written(self, markers: TransactionMarkers) -> None:
        """Called once all partitions have their markers."""


class _Delivery:
    """The delivery of one transaction's markers."""

    __slots__ = ("failed", "is_retry", "marker", "markers", "owner", "to_write", "under_way")

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
        self.to_write: list[TopicPartition] = sorted(markers.partitions)
        self.failed: list[TopicPartition] = []
        self.under_way = 0
        """The markers that wait for other replicas or other brokers."""
        self.is_retry = False

    def begin_again(self) -> None:
        self.to_write, self.failed = sorted(self.markers.partitions), []


class MarkerSender:
    """The sender of transaction markers, which has one delivery for each transactional id."""

    def __init__(self, host: TransactionHost) -> None:
        self._host = host
        self._deliveries: dict[str, _Delivery] = {}
        self._peers = BrokerPeers.of_node(host, "txn-marker-sender")
        self._queues: dict[int, MarkerQueue] = {}
        self.written = 0
        self.retries = 0

    @property
    def pending(self) -> int:
        """The number of decided transactions with partitions that have no marker yet."""
        return len(self._deliveries)

    def send_when_durable(self, owner: MarkerOwner, markers: TransactionMarkers) -> None:
        """Start to deliver the markers; `owner` is notified once all are written, perhaps before the return.

        With `penstock.acks.fsync`, no marker is written before the decision is durable, and the delivery ends
        only once all markers are durable.
        """
        delivery = _Delivery(owner, markers)
        self._deliveries[markers.transactional_id] = delivery
        self._when_durable(delivery, self._go_on)

    def cancel(self, owner: MarkerOwner) -> None:
        """Discard the deliveries of `owner`: another node coordinates them and sends the markers again."""
        self._deliveries = {key: kept for key, kept in self._deliveries.items() if kept.owner is not owner}

    def close(self) -> None:
        """Discard all deliveries and close the connections."""
        self._deliveries.clear()
        for queue in self._queues.values():
            queue.close()
        self._peers.close()

    def _when_durable(self, delivery: _Delivery, then: Callable[[_Delivery], None]) -> None:
        group_commit = self._host.group_commit
        if not group_commit.acks_fsync or group_commit.is_idle:
            then(delivery)
            return

        def durable(error: BaseException | None) -> None:
            if error is None:
                then(delivery)
                return
            transactional_id = delivery.markers.transactional_id
            log.error("markers delayed transactional_id=%s error=%s", transactional_id, error)
            # Write all markers again, once the failed log has lost its leader. If it is the coordinator's
            # own log, this delivery has ended by then.
            delivery.begin_again()
            self._host.loop.call_later(AFTER_DISK_FAILURE_S, self._when_durable, delivery, self._go_on)

        group_commit.when_durable(durable)

    def _is_current(self, delivery: _Delivery) -> bool:
        return self._deliveries.get(delivery.markers.transactional_id) is delivery

    def _go_on(self, delivery: _Delivery) -> None:
        """Write or send some markers, then continue in the next turn or end the round."""
        if not self._is_current(delivery):
            return
        for _ in range(min(MARKERS_PER_TURN, len(delivery.to_write))):
            place = delivery.to_write.pop()
            registration = self._host.image.topics.partition(*place)
            if registration is None:
                continue  # the topic was deleted
            error = self._write(place, registration.leader, delivery)
            if error is not None:
                self._note(delivery, place, error)
                if not self._is_current(delivery):
                    return
        if delivery.to_write:
            self._host.loop.call_soon(self._go_on, delivery)
        else:
            self._end_round(delivery)

    def _end_round(self, delivery: _Delivery) -> None:
        """Retry the failed partitions once every partition was tried, or complete the delivery."""
        if delivery.to_write or delivery.under_way:
            return
        if delivery.failed:
            delivery.to_write, delivery.failed = delivery.failed, []
            delivery.is_retry = True
            self.retries += 1
            self._host.loop.call_later(RETRY_S, self._go_on, delivery)
        else:
            self._when_durable(delivery, self._complete)

    def _complete(self, delivery: _Delivery) -> None:
        if self._is_current(delivery):
            del self._deliveries[delivery.markers.transactional_id]
            delivery.owner.markers_written(delivery.markers)

    def _write(self, place: TopicPartition, leader: int, delivery: _Delivery) -> ErrorCode | None:
        """Write the marker, or send it to the partition's leader; None if the result is not known at once."""
        finished = partial(self._finish_late, delivery, place)
        if leader != self._host.node_id:
            if leader < 0:
                return ErrorCode.LEADER_NOT_AVAILABLE
            delivery.under_way += 1
            self._queue_of(leader).add(place, delivery.marker, finished)
            return None
        outcome = write_marker(self._host, *place, delivery.marker)
        if isinstance(outcome, ErrorCode):
            return outcome
        delivery.under_way += 1
        outcome.add_done_callback(lambda done: finished(_result_of(done)))
        return None

    def _finish_late(self, delivery: _Delivery, place: TopicPartition, error: ErrorCode) -> None:
        """Handle the late result of a marker."""
        delivery.under_way -= 1
        if self._is_current(delivery):
            self._note(delivery, place, error)
            if self._is_current(delivery):
                self._end_round(delivery)

    def _note(self, delivery: _Delivery, place: TopicPartition, error: ErrorCode) -> None:
        """Record the result: the marker is written, must be retried, or ends the whole delivery."""
        if error is ErrorCode.NONE:
            self.written += 1
            return
        if error in NO_MARKER_NEEDED:
            return
        transactional_id = delivery.markers.transactional_id
        if error in GIVE_UP:
            log.warning(
                "markers abandoned transactional_id=%s topic=%s partition=%d error=%s",
                transactional_id,
                *place,
                error.name,
            )
            del self._deliveries[transactional_id]
            return
        if not delivery.is_retry:
            log.info(
                "marker will be retried transactional_id=%s topic=%s partition=%d error=%s",
                transactional_id,
                *place,
                error.name,
            )
        delivery.failed.append(place)

    def _queue_of(self, broker_id: int) -> MarkerQueue:
        queue = self._queues.get(broker_id)
        if queue is None:
            timeout_ms = self._host.config.get_int("request.timeout.ms")
            queue = self._queues[broker_id] = MarkerQueue(partial(self._peers.of, broker_id), timeout_ms)
        return queue


def _result_of(done: asyncio.Future[ErrorCode]) -> ErrorCode:
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if done.cancelled() else done.result()
