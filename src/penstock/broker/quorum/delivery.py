"""Deliver committed batches to the listener in order.

Batches that this node appended come from memory, all others are read from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from penstock.broker.quorum.listener import CommittedBatch, QuorumListener
from penstock.consensus.log import BOOTSTRAP_SNAPSHOT
from penstock.storage.errors import OffsetOutOfRange

if TYPE_CHECKING:
    from penstock.broker.quorum.metadata_log import MetadataLog
    from penstock.broker.setup.host import NodeHost

log = logging.getLogger(__name__)

READ_HERE_RECORDS: Final = 500
"""Up to this many records are read and decoded on the loop; a worker reads more than that."""


class Delivery:
    """The delivery of one node's metadata log to its listener, up to the high watermark.

    Args:
        delivered: called after each piece, in the same turn.
        failed: called when committed records cannot be read.
    """

    def __init__(
        self,
        host: NodeHost,
        metadata_log: MetadataLog,
        listener: QuorumListener,
        delivered: Callable[[Sequence[CommittedBatch]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.offset: int | None = None
        """The offset up to which the listener has the log; None before it has anything."""
        self.epoch = -1
        self.timestamp_ms = -1
        """The timestamp of the last record that the listener has."""
        self._host = host
        self._log = metadata_log
        self._listener = listener
        self._delivered = delivered
        self._failed = failed
        self._high_watermark = 0
        self._recent: deque[CommittedBatch] = deque()
        """Batches that this node appended as the leader and the listener has not seen, without a gap up to
        the end."""
        self._reading: asyncio.Task[None] | None = None

    def appended(self, batch: CommittedBatch) -> None:
        """Take note of a batch that this node appended."""
        if self._recent and (
            self._recent[-1].last_offset + 1 != batch.base_offset or self._recent[-1].epoch != batch.epoch
        ):
            self._recent.clear()
        self._recent.append(batch)

    def lost_leadership(self) -> None:
        """Drop the batches in memory, since other batches may be committed at their offsets."""
        self._recent.clear()

    def advance(self, high_watermark: int) -> None:
        """Deliver all batches below the high watermark, at once if that is quick."""
        self._high_watermark = max(high_watermark, self._high_watermark)
        if self.offset == self._high_watermark or self.is_reading:
            return
        if self._has_gap() and not self._read_here():
            self._reading = self._host.loop.create_task(self._read())
            self._reading.add_done_callback(self._was_read)
        else:
            self._deliver_recent()

    def _was_read(self, reading: asyncio.Task[None]) -> None:
        if not reading.cancelled() and (error := reading.exception()) is not None:
            self._failed(error)

    @property
    def is_reading(self) -> bool:
        return self._reading is not None and not self._reading.done()

    async def finish(self) -> None:
        """Return once all committed batches are delivered. Raises any error of reading them."""
        if self._reading is not None:
            await self._reading

    async def stop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))

    def _has_gap(self) -> bool:
        """Whether the listener needs batches before those in memory."""
        while self._recent and self.offset is not None and self._recent[0].base_offset < self.offset:
            self._recent.popleft()
        if self.offset is None or not self._recent:
            return True
        return self._recent[0].base_offset > self.offset

    def _limit(self) -> int:
        """The offset up to which the log must be read."""
        if self._recent:
            return min(self._high_watermark, self._recent[0].base_offset)
        return self._high_watermark

    def _read_here(self) -> bool:
        """Deliver from the log on the loop if that is quick; return whether no gap is left."""
        if self.offset is None or self.offset < self._log.start_offset:
            return False
        while self.offset < (limit := self._limit()):
            if limit - self.offset > READ_HERE_RECORDS:
                return False
            self._pass_on(self._log.read_batches(self.offset, limit))
        return True

    async def _read(self) -> None:
        """Read the log in a worker for the listener, up to the batches in memory or the end."""
        while True:
            if self.offset is None or self.offset < self._log.start_offset:
                await self._load_snapshot()
                continue
            if self._read_here_is_enough():
                break
            try:
                batches = await self._host.run_in_worker(self._log.read_batches, self.offset, self._limit())
            except OffsetOutOfRange:
                continue  # a snapshot has replaced the log meanwhile
            self._pass_on(batches)
        self._deliver_recent()

    def _read_here_is_enough(self) -> bool:
        self._has_gap()
        return self._read_here()

    async def _load_snapshot(self) -> None:
        """Start with the newest snapshot, or with an empty state if there is none."""
        at = self._log.latest_snapshot
        if at is None or at == BOOTSTRAP_SNAPSHOT:
            self.offset = 0
            return
        try:
            records = await self._host.run_in_worker(self._log.read_snapshot, at)
        except FileNotFoundError:
            return  # a newer snapshot has replaced it
        self._listener.handle_snapshot(at, records)
        self.offset, self.epoch = at.end_offset, at.epoch
        self._high_watermark = max(self._high_watermark, at.end_offset)

    def _deliver_recent(self) -> None:
        ready: list[CommittedBatch] = []
        while self._recent and self._recent[0].last_offset < self._high_watermark:
            ready.append(self._recent.popleft())
        self._pass_on(ready)

    def _pass_on(self, batches: Sequence[CommittedBatch]) -> None:
        if batches:
            last = batches[-1]
            self.offset = last.last_offset + 1
            self.epoch, self.timestamp_ms = last.epoch, last.timestamp_ms
            self._listener.handle_commit(batches)
        self._delivered(batches)
