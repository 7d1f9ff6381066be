"""One loaded partition of `__transaction_state`, which delivers its decisions to other partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.coordination.partition import CoordinatorLog, CoordinatorPartition
from penstock.broker.coordination.uncommitted import Hold
from penstock.coordinators.records import CoordinatorRecord
from penstock.protocol.messages import TransactionLogKey

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.marker_sender import MarkerSender
    from penstock.coordinators.transaction.coordinator import TransactionCoordinator
    from penstock.coordinators.transaction.results import TimedOut, TransactionMarkers

__all__ = ["TransactionPartition"]

UNCOMPRESSED = 0


class TransactionPartition(CoordinatorPartition):
    """A transaction coordinator with its log, its clock and the sender of its markers."""

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        partition_log: CoordinatorLog,
        clock_ms: Callable[[], int],
        markers: MarkerSender,
        request_producer_id: Callable[[TransactionPartition, TimedOut], None],
        *,
        write_timeout_ms: int,
        lost: Callable[[], None],
    ) -> None:
        """Create the partition.

        `request_producer_id` allocates a producer id, and calls `abort` with it.
        """
        super().__init__(
            coordinator, partition_log, clock_ms, UNCOMPRESSED, write_timeout_ms=write_timeout_ms, lost=lost
        )
        self.coordinator = coordinator
        self._markers = markers
        self._request_producer_id = request_producer_id
        self._completions: dict[str, asyncio.Future[None]] = {}

    def stop(self) -> None:
        super().stop()
        self._markers.cancel(self)
        for completion in self._completions.values():
            completion.set_result(None)
        self._completions.clear()

    def completion_of(self, transactional_id: str) -> asyncio.Future[None] | None:
        """Return a future that is done once the ending transaction has ended; None if none is ending.

        It is also done if this node stops coordinating the id. Callers share it and must not cancel it.
        """
        if not self.coordinator.is_ending(transactional_id):
            return None
        completion = self._completions.get(transactional_id)
        if completion is None:
            completion = self._completions[transactional_id] = self._loop.create_future()
        return completion

    def markers_written(self, markers: TransactionMarkers) -> None:
        """Complete a transaction whose partitions all have their markers, so that the next one may begin."""
        self.settle(
            self.coordinator.on_markers_written(
                markers.transactional_id, markers.producer_id, markers.producer_epoch, self.now_ms()
            )
        )

    def abort(self, timed_out: TimedOut, new_producer_id: int) -> None:
        """Abort a transaction that has timed out, and whose producer id has no epochs left."""
        self.settle(self.coordinator.abort_timed_out(timed_out, new_producer_id, self.now_ms()))

    def _replay(self, record: CoordinatorRecord, offset: int, now_ms: int, producer_id: int) -> None:
        self.coordinator.replay(record, now_ms)
        if self._completions:
            self._note_completion(record)

    def _note_completion(self, record: CoordinatorRecord) -> None:
        assert isinstance(record.key, TransactionLogKey)
        transactional_id = record.key.transactional_id
        if not self.coordinator.is_ending(transactional_id):
            completion = self._completions.pop(transactional_id, None)
            if completion is not None:
                completion.set_result(None)

    def _hold(self, record: CoordinatorRecord) -> Hold:
        """Hold the transactional id, as its steps must be committed one after the other."""
        assert isinstance(record.key, TransactionLogKey)
        return Hold(record.key.transactional_id, blocks=True)

    def _deliver(self) -> None:
        for markers in self.coordinator.take_markers():
            self._markers.send_when_durable(self, markers)
        for timed_out in self.coordinator.take_producer_id_requests():
            self._request_producer_id(self, timed_out)
