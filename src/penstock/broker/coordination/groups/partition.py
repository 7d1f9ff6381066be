"""One loaded partition of `__consumer_offsets`, with its waiting requests and transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.coordination.partition import CoordinatorLog, CoordinatorPartition, Outcome
from penstock.broker.coordination.uncommitted import Hold
from penstock.coordinators.records import CoordinatorRecord, Records
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import GroupMetadataKey, OffsetCommitKey

if TYPE_CHECKING:
    from penstock.coordinators.group.coordinator import GroupCoordinator
    from penstock.storage.producers.verification import Verification

__all__ = ["GroupPartition"]


class GroupPartition(CoordinatorPartition):
    """The owner of a group coordinator."""

    def __init__(
        self,
        coordinator: GroupCoordinator,
        partition_log: CoordinatorLog,
        clock_ms: Callable[[], int],
        compression: int,
        *,
        write_timeout_ms: int,
        lost: Callable[[], None],
    ) -> None:
        super().__init__(
            coordinator, partition_log, clock_ms, compression, write_timeout_ms=write_timeout_ms, lost=lost
        )
        self.coordinator = coordinator
        coordinator.watch(held=self._held, blocked=self._blocked)

    def write_in_transaction(
        self, records: Records, producer: tuple[int, int], verification: Verification | None
    ) -> Outcome:
        """Append offsets that take effect with the producer's marker; return NONE or the error.

        `producer` is its id and epoch. No state depends on the offsets yet, so a failed append needs no
        rollback.
        """
        return self._write(records, producer, verification)

    def marker_appended(self, end_offset: int, producer_id: int, *, committed: bool) -> Outcome:
        """Apply a transaction's marker that ends at `end_offset` in the log, once it is committed."""

        def replay() -> None:
            self.coordinator.replay_end_transaction(producer_id, committed=committed)

        if self._uncommitted.is_committed(end_offset):
            replay()
            return ErrorCode.NONE
        return self._uncommitted.add(end_offset, replay, ())

    def _replay(self, record: CoordinatorRecord, offset: int, now_ms: int, producer_id: int) -> None:
        self.coordinator.replay(record, offset, now_ms, producer_id)

    def _hold(self, record: CoordinatorRecord) -> Hold:
        """Let commits of a group proceed concurrently, since the last one in the log counts."""
        key = record.key
        assert isinstance(key, OffsetCommitKey | GroupMetadataKey)
        return Hold(key.group, blocks=isinstance(key, GroupMetadataKey) or record.value is None)

    def _deliver(self) -> None:
        for ticket, response in self.coordinator.take_replies():
            assert isinstance(ticket, asyncio.Future)
            if not ticket.done():  # its connection may be closed
                ticket.set_result(response)
