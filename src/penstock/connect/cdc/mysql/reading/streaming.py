"""Reads one session's events and hands their records over in batches, with the ends of transactions.

Records of an open transaction are handed over too once they fill a batch, so that memory stays flat however
large a transaction is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.connect.cdc.batches import Batch
from penstock.connect.cdc.mysql.events import FORMAT, HEARTBEATS, Query
from penstock.connect.cdc.mysql.positions import ResumePoint
from penstock.connect.cdc.mysql.reading.binlog_session import BinlogSession
from penstock.connect.cdc.mysql.reading.settings import CaptureSettings
from penstock.connect.cdc.mysql.records import RecordWriter
from penstock.connect.data.records import SourceRecord
from penstock.connect.errors import ReplicationProtocolError

log = logging.getLogger(__name__)

_LINGER_S: Final = 0.01
"""Longest time that whole transactions wait for more of them, so that a busy stream has large batches."""


class Stream:
    """The records of one session."""

    def __init__(
        self,
        settings: CaptureSettings,
        writer: RecordWriter,
        resume: ResumePoint,
        offer: Callable[[Batch], bool],
        beat: Callable[[], None],
        is_half_handed_over: bool = False,
    ) -> None:
        """``offer`` hands a batch over; ``beat`` runs before each heartbeat record."""
        self._settings = settings
        self._writer = writer
        self._offer = offer
        self._beat = beat
        self._records: list[SourceRecord] = []
        self._ended = 0
        self._started = time.monotonic()
        self._heartbeat_due = time.monotonic() + settings.heartbeat_s
        self.resume_point = resume
        """The place after the records that were handed over."""
        self.is_half_handed_over = is_half_handed_over
        """Whether these end within a transaction."""

    def step(self, session: BinlogSession) -> None:
        """Read one event; hand over what is ready. Raises as `BinlogSession.read` does."""
        header, event = session.read()
        if header.type == FORMAT and self._writer.is_open:
            self._abandon()
        is_undone = isinstance(event, Query) and event.statement.strip().upper() == "ROLLBACK"
        if is_undone and self._writer.is_open:
            self._discard()
        records = self._writer.records(header, event)
        if is_undone:  # its end has no record either
            records = []
        if records and not self._records:
            self._started = time.monotonic()
        self._records += records
        if self._is_between_transactions():
            self._ended = len(self._records)
            self._heartbeat()
        is_full = len(self._records) >= self._settings.batch_size
        is_due = self._ended and (not session.has_more() or time.monotonic() - self._started > _LINGER_S)
        if is_full or is_due:
            self._hand_over()
        elif not self._records and self._is_between_transactions() and header.type not in HEARTBEATS:
            self.resume_point = ResumePoint.of(self._writer.position.offset())
            self.is_half_handed_over = False

    def _is_between_transactions(self) -> bool:
        """Whether the writer's position is one to resume from, as before a transaction to catch up with."""
        return not self._writer.is_open and not self._writer.is_resuming

    def _abandon(self) -> None:
        """Discard the records of a transaction in which the log ends, because the server died there.

        Another file follows, which begins with its format.
        """
        log.warning(
            "the log ends within a transaction, which is left out gtid=%s", self._writer.position.gtid
        )
        self._discard()
        self._writer.abandon()

    def _discard(self) -> None:
        """Discard the records of the transaction at hand, which has no effect on the server.

        Rolled back ones are in the log if they made temporary tables. If records that filled a batch are
        handed over already, the one that was kept back carries the request to abort them.
        """
        if self.is_half_handed_over and not self._ended:
            if not self._records:
                raise ReplicationProtocolError(
                    f"the transaction {self._writer.position.gtid} ends early in the server's log, and all "
                    "of it is handed over; restart the task to leave it out"
                )
            self._offer(Batch(self._records[-1:], (), None, aborts=True))
            self.is_half_handed_over = False
        self._records = self._records[: self._ended]

    def _hand_over(self) -> None:
        """Put what was read into the queue, but for the last row of an open transaction.

        That one is kept back, because it may turn out to be the last one, which ends the Kafka transaction.
        All records of a row stay together, because a session cannot resume between them.
        """
        count = len(self._records)
        if self._writer.is_open and count > self._ended:
            count = max(self._ended, count - self._writer.last_row_records)
        if not count:
            return
        boundary = self._records[self._ended - 1] if self._ended else None
        if not self._offer(Batch(self._records[:count], (), boundary)):
            return
        offset: Mapping[str, Any] = self._records[count - 1].source_offset
        if self._ended == len(self._records):
            offset = self._writer.position.offset()
        self.resume_point = ResumePoint.of(offset)
        self.is_half_handed_over = count > self._ended or (self.is_half_handed_over and not self._ended)
        self._records, self._ended = self._records[count:], 0

    def _heartbeat(self) -> None:
        """Add a heartbeat record once the interval has passed, between transactions."""
        interval = self._settings.heartbeat_s
        if interval and time.monotonic() >= self._heartbeat_due:
            self._heartbeat_due = time.monotonic() + interval
            self._beat()
            self._records.append(self._writer.heartbeat())
            self._ended = len(self._records)
