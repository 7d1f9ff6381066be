"""Write a snapshot of the metadata log after a number of bytes or an interval (KIP-630)."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.quorum.listener import FrozenState
from penstock.consensus.log import SnapshotId
from penstock.metadata.snapshot import QuorumRecords

if TYPE_CHECKING:
    from penstock.broker.quorum.delivery import Delivery
    from penstock.broker.quorum.listener import QuorumListener
    from penstock.broker.quorum.metadata_log import MetadataLog
    from penstock.broker.quorum.retention import MetadataRetention
    from penstock.broker.setup.host import NodeHost

log = logging.getLogger(__name__)


class Snapshotting:
    """The snapshot writer of one metadata log.

    It gets the listener's state, and a worker writes it. One snapshot is written at a time.
    """

    def __init__(
        self,
        host: NodeHost,
        metadata_log: MetadataLog,
        listener: QuorumListener,
        delivery: Delivery,
        retention: MetadataRetention,
    ) -> None:
        self._host = host
        self._log = metadata_log
        self._listener = listener
        self._delivery = delivery
        self._retention = retention
        self._bytes = 0
        """The bytes of committed batches since the last snapshot."""
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[int] | None = None

    def start(self) -> None:
        interval_ms = self._host.config.get_int("metadata.log.max.snapshot.interval.ms")
        if interval_ms:
            self._timer = self._host.loop.call_later(interval_ms / 1000, self._on_time)

    async def stop(self) -> None:
        """Stop writing snapshots; return once none is being written."""
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await asyncio.wait((self._writing,))

    def committed(self, size_bytes: int) -> None:
        """Count delivered batches of `size_bytes` bytes; write a snapshot if there are enough."""
        self._bytes += size_bytes
        limit_bytes = self._host.config.get_int("metadata.log.max.record.bytes.between.snapshots")
        if self._bytes >= limit_bytes:
            self._snapshot()

    def _on_time(self) -> None:
        self.start()
        if self._bytes:
            self._snapshot()

    def _snapshot(self) -> None:
        """Write the listener's state, from a copy taken now."""
        if self._writing is not None or self._delivery.offset is None:
            return
        frozen = self._listener.freeze()
        if frozen is None:
            return
        self._bytes = 0
        at = SnapshotId(self._delivery.offset, self._delivery.epoch)
        quorum = self._log.quorum_records(at.end_offset)
        self._writing = self._host.run_in_worker(self._write, at, frozen, self._delivery.timestamp_ms, quorum)
        self._writing.add_done_callback(partial(self._written, at))

    def _write(self, at: SnapshotId, frozen: FrozenState, timestamp_ms: int, quorum: QuorumRecords) -> int:
        return self._log.write_snapshot(at, frozen.records(), frozen.metadata_version, timestamp_ms, quorum)

    def _written(self, at: SnapshotId, writing: asyncio.Future[int]) -> None:
        self._writing = None
        if writing.cancelled():
            return
        error = writing.exception()
        if error is not None:
            log.error("metadata snapshot failed end_offset=%d error=%s", at.end_offset, error)
            return
        self._log.keep_snapshot(at)
        log.info("metadata snapshot end_offset=%d epoch=%d bytes=%d", *at, writing.result())
        self._retention.clean()
