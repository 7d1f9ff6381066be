"""One loaded partition of `__consumer_offsets`: who waits for a group, and what transactions bring."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.broker.coordinator_partition import Append, CoordinatorPartition, encode_records
from penstock.coordinators.records import CoordinatorRecord, Records
from penstock.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.coordinators.group.coordinator import GroupCoordinator
    from penstock.storage.verification import Verification

__all__ = ["GroupPartition"]

log = logging.getLogger(__name__)


class GroupPartition(CoordinatorPartition):
    """A group coordinator in its place."""

    def __init__(
        self,
        coordinator: GroupCoordinator,
        append: Append,
        clock_ms: Callable[[], int],
        compression: int,
    ) -> None:
        super().__init__(coordinator, append, clock_ms, compression)
        self.coordinator = coordinator

    def write_in_transaction(
        self, records: Records, producer: tuple[int, int], verification: Verification | None
    ) -> ErrorCode:
        """Append offsets that count once the producer's marker comes; NONE, or why they are not in the log.

        `producer` is its id and epoch. Nothing rests on the offsets yet: a failed append needs no way back.
        """
        now_ms = self.now_ms()
        batch = encode_records(records, now_ms, self._compression, producer)
        try:
            info = self._append(batch, verification=verification)
        except KafkaError as error:
            log.info("offsets of a transaction refused producer_id=%d error=%s", producer[0], error)
            return error.code
        for offset, record in enumerate(records, info.first_offset):
            self.coordinator.replay(record, offset, now_ms, producer[0])
        return ErrorCode.NONE

    def _replay(self, record: CoordinatorRecord, offset: int, now_ms: int) -> None:
        self.coordinator.replay(record, offset, now_ms)

    def _deliver(self) -> None:
        for ticket, response in self.coordinator.take_replies():
            assert isinstance(ticket, asyncio.Future)
            if not ticket.done():  # its connection may be gone
                ticket.set_result(response)
