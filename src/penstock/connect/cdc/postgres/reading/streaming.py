"""Turns the frames of the stream into batches, in which the places where transactions end are marked.

The last record of an open transaction is held back until the next one or the commit arrives, so that the task
always knows the record after which a Kafka transaction may end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from penstock.connect.cdc.postgres.events import EventWriter
from penstock.connect.cdc.postgres.framing import Keepalive, read_frame
from penstock.connect.cdc.postgres.messages import Begin, Commit, LogicalMessage
from penstock.connect.cdc.postgres.pgoutput import Decoder
from penstock.connect.cdc.postgres.reading.batches import Batch
from penstock.connect.cdc.postgres.reading.replication import ReplicationSession
from penstock.connect.cdc.postgres.reading.resuming import ResumePoint
from penstock.connect.cdc.postgres.reading.settings import CaptureSettings
from penstock.connect.data.records import SourceRecord

WAIT_S: Final = 0.5
"""Longest wait for the server or for space in the queue, so that a stop is noticed and replies are sent."""


class Stream:
    """The stream of one slot, over all sessions that it takes to read it.

    Sessions may break at any point, also while a transaction is sent again. The place to resume from is
    therefore that after the last record, in ``resume_point``, and not the writer's position.

    ``offer`` hands a batch over and returns False if there was no space in the given seconds. ``confirmed``
    gives the position that may be confirmed, ``is_stopped`` tells whether to end, and ``beat`` is called
    before each heartbeat.
    """

    def __init__(
        self,
        settings: CaptureSettings,
        writer: EventWriter,
        resume: ResumePoint,
        offer: Callable[[Batch, float], bool],
        confirmed: Callable[[], int],
        is_stopped: Callable[[], bool],
        beat: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._writer = writer
        self._offer = offer
        self._confirmed = confirmed
        self._is_stopped = is_stopped
        self._beat = beat
        self._records: list[SourceRecord] = []
        self._ends: list[tuple[int, int]] = []
        self._is_open = False
        self._resume = resume
        self._last: SourceRecord | None = None
        self._done = resume.start
        self._received = 0
        self._status_due = 0.0
        self._heartbeat_due = time.monotonic() + settings.heartbeat_s

    @property
    def resume_point(self) -> ResumePoint:
        """The place to start the next session at: after the last record, or the last transaction."""
        return self._resume if self._last is None else ResumePoint.of(self._last.source_offset)

    def read(self, session: ReplicationSession) -> None:
        """Read until stopped. The session has started at the place to resume from.

        Raises:
            StreamEnded, psycopg.Error: the session ended; read on with another one.
        """
        decoder, resume, skipped = Decoder(1), self.resume_point, False
        while not self._is_stopped():
            for data in session.receive(WAIT_S):
                frame = read_frame(data)
                if isinstance(frame, Keepalive):
                    self._keepalive(session, frame)
                    continue
                message = decoder.decode(frame.payload, frame.start)
                if isinstance(message, Begin):
                    self._is_open, skipped = True, message.xid == resume.xid
                records = self._writer.records(message, frame.start)
                if records and (not skipped or (records := resume.after(records))):
                    self._records += records
                    self._last = records[-1]
                if isinstance(message, Commit):
                    self._received = message.end_lsn
                    self._is_open = skipped = False
                    self._resume, self._last = ResumePoint(self._done), None
                    self._end(message.end_lsn)
                elif isinstance(message, LogicalMessage) and not message.transactional:
                    self._end(frame.start)
                if len(self._records) > self._settings.batch_size:
                    self._hand_over(session)
            self._heartbeat()
            self._hand_over(session)
            self._reply(session, is_due=time.monotonic() >= self._status_due)
        self._reply(session, is_due=True)

    def _keepalive(self, session: ReplicationSession, frame: Keepalive) -> None:
        self._received = max(self._received, frame.end)
        if self._settings.advances_when_idle and not self._is_open and frame.end > self._done:
            self._end(frame.end)  # no changes are left before it: idle databases need not keep their WAL
        if frame.reply_requested:
            self._reply(session, is_due=True)

    def _end(self, position: int) -> None:
        """Note that all transactions that end before this position were read."""
        if position > self._done:
            self._done, self._last = position, None
            self._resume = replace(self._resume, start=position)
        count = len(self._records)
        if self._ends and self._ends[-1][0] == count:
            self._ends.pop()
        self._ends.append((count, position))

    def _hand_over(self, session: ReplicationSession) -> None:
        """Put what was read into the queue, but for the last record of an open transaction."""
        ended = self._ends[-1][0] if self._ends else 0
        count = len(self._records) - (self._is_open and len(self._records) > ended)
        if not count and not self._ends:
            return
        boundary = self._records[ended - 1] if ended else None
        batch = Batch(self._records[:count], self._ends, boundary)
        while not self._offer(batch, WAIT_S):
            if self._is_stopped():
                return
            self._reply(session, is_due=time.monotonic() >= self._status_due)
        self._records, self._ends = self._records[count:], []

    def _reply(self, session: ReplicationSession, is_due: bool) -> None:
        """Send a status update."""
        if is_due:
            confirmed = self._confirmed()
            session.confirm(max(self._received, confirmed), confirmed)
            self._status_due = time.monotonic() + self._settings.status_s

    def _heartbeat(self) -> None:
        """Add a heartbeat record once the interval has passed, between transactions."""
        if not self._settings.heartbeat_s or self._is_open or time.monotonic() < self._heartbeat_due:
            return
        self._heartbeat_due = time.monotonic() + self._settings.heartbeat_s
        self._beat()
        self._records.append(self._writer.heartbeat(self._done or None))
        self._end(self._done)
