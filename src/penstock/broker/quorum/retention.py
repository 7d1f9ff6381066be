"""Remove snapshots and the parts of the metadata log that newer snapshots make superfluous (KIP-630).

The oldest snapshot is removed together with the log up to the end of the next one, as long as the log and the
snapshots together exceed `metadata.max.retention.bytes`, or the newest record that the snapshot covers is
older than `metadata.max.retention.ms`. The newest snapshot and the log from its end on stay. -1 disables
either rule.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.storage.errors import LogError

if TYPE_CHECKING:
    from penstock.broker.quorum.metadata_log import MetadataLog
    from penstock.broker.setup.host import NodeHost

log = logging.getLogger(__name__)

PERIOD_S: Final = 60.0
"""The time between two checks, as in Kafka."""


class MetadataRetention:
    """The retention of one metadata log. It checks periodically, and after each new snapshot."""

    def __init__(self, host: NodeHost, metadata_log: MetadataLog) -> None:
        self._host = host
        self._log = metadata_log
        self._retention_ms = host.config.get_int("metadata.max.retention.ms")
        self._retention_bytes = host.config.get_int("metadata.max.retention.bytes")
        self._timer: asyncio.TimerHandle | None = None
        self._removing: asyncio.Future[None] | None = None

    def start(self) -> None:
        self._timer = self._host.loop.call_later(PERIOD_S, self._on_time)

    async def stop(self) -> None:
        """Stop removing snapshots; return once no removal is running."""
        if self._timer is not None:
            self._timer.cancel()
        if self._removing is not None:
            await asyncio.wait((self._removing,))

    def _on_time(self) -> None:
        self.start()
        self.clean()

    def _removed(self, removing: asyncio.Future[None]) -> None:
        self._removing = None
        if not removing.cancelled() and (error := removing.exception()) is not None:
            log.error("files of the metadata log not removed error=%s", error)

    def clean(self) -> None:
        """Remove superfluous snapshots and log; the log's files are deleted when their delay is over."""
        now_ms = self._host.clock_ms()
        try:
            while self._is_superfluous(now_ms):
                self._log.forget_oldest_snapshot(now_ms)
        except (LogError, OSError) as error:
            log.error("metadata log not trimmed error=%s", error)
        if self._removing is None:
            self._removing = self._host.run_in_worker(self._log.log.remove_deleted_files, now_ms)
            self._removing.add_done_callback(self._removed)

    def _is_superfluous(self, now_ms: int) -> bool:
        """Whether the oldest snapshot is superfluous; then a newer one exists."""
        snapshots = self._log.snapshots
        oldest = snapshots.earliest
        if oldest is None or oldest == snapshots.latest:
            return False
        if 0 <= self._retention_bytes < self._log.log.size_bytes + snapshots.size_bytes():
            return True
        if self._retention_ms < 0:
            return False
        newest_record_ms = snapshots.last_timestamp_ms(oldest)
        return newest_record_ms is not None and now_ms - newest_record_ms > self._retention_ms
