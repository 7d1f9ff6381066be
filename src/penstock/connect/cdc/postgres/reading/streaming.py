"""Turns the frames of the stream into batches, in which the places where transactions end are marked.

The last record of an open transaction is held back until the next one or the commit arrives, so that the task
always knows the record after which a Kafka transaction may end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, Protocol

from penstock.connect.cdc.batches import Batch
from penstock.connect.cdc.postgres.events import EventWriter
from penstock.connect.cdc.postgres.framing import Keepalive, read_frame
from penstock.connect.cdc.postgres.messages import Begin, Commit, LogicalMessage
from penstock.connect.cdc.postgres.pgoutput import Decoder
from penstock.connect.cdc.postgres.reading.replication import ReplicationSession
from penstock.connect.cdc.postgres.reading.resuming import SLOT_POSITION, ResumePoint
from penstock.connect.cdc.postgres.reading.settings import CaptureSettings
from penstock.connect.data.records import SourceRecord

ASK_S: Final = 0.05
"""Time between questions for the server's position while records wait for it and nothing else arrives."""
WAIT_S: Final = 0.5
"""Longest wait for the server or for space in the queue, so that a stop is noticed and replies are sent."""


class Companion(Protocol):
    """The snapshots that run beside the stream, on its thread, because signals ask for them."""

    @property
    def waits(self) -> bool:
        """Whether records wait for the stream to reach a position."""
        ...

    def begin(self, xid: int) -> None:
        """Note the transaction whose records follow."""
        ...

    def see(self, records: list[SourceRecord]) -> list[SourceRecord]:
        """Return the records of a change with the offsets that they shall have."""
        ...

    def between(self, done: int) -> Iterator[list[SourceRecord]]:
        """The records that come after the transactions before a position, and before the next one.

        A Kafka transaction may end after each list.
        """
        ...

    def stored(self, position: int) -> None:
        """Note that offsets up to a position are stored."""
        ...


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
        companion: Companion | None = None,
    ) -> None:
        self._settings = settings
        self._writer = writer
        self._offer = offer
        self._confirmed = confirmed
        self._is_stopped = is_stopped
        self._beat = beat
        self._companion = companion
        self._records: list[SourceRecord] = []
        self._ends: list[tuple[int, int]] = []
        self._is_open = False
        self._resume = resume
        self._last: SourceRecord | None = None
        self._done = resume.start
        self._received = 0
        self._status_due = self._ask_due = 0.0
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
            frames = session.receive(WAIT_S)
            at = 0
            while at < len(frames):
                if self._is_open and not skipped:
                    most = self._settings.batch_size + 1 - len(self._records)
                    plain, at = self._writer.plain_records(frames, at, most)
                    if plain:
                        if self._companion is not None:
                            plain = self._companion.see(plain)
                        self._records += plain
                        self._last = plain[-1]
                        self._hand_over_if_full(session)
                        continue
                frame = read_frame(frames[at])
                at += 1
                if isinstance(frame, Keepalive):
                    self._keepalive(session, frame)
                    continue
                message = decoder.decode(frame.payload, frame.start)
                if isinstance(message, Begin):
                    self._is_open, skipped = True, message.xid == resume.xid
                    if self._companion is not None:
                        self._companion.begin(message.xid)
                records = self._writer.records(message, frame.start)
                if records and (not skipped or (records := resume.after(records))):
                    if self._companion is not None:
                        records = self._companion.see(records)
                    self._records += records
                    self._last = records[-1]
                if isinstance(message, Commit):
                    self._received = message.end_lsn
                    self._is_open = skipped = False
                    self._done = max(self._done, message.end_lsn)
                    self._resume, self._last = ResumePoint(self._done), None
                    self._end(message.end_lsn)
                    self._run_companion(session)
                elif isinstance(message, LogicalMessage) and not message.transactional:
                    self._end(frame.start)
                self._hand_over_if_full(session)
            self._run_companion(session)
            self._heartbeat()
            self._hand_over(session)
            self._reply(session, is_due=time.monotonic() >= self._status_due)
        self._reply(session, is_due=True)

    def _run_companion(self, session: ReplicationSession) -> None:
        """Add what comes between two transactions, which may be whole tables."""
        if self._companion is None or self._is_open or not self._done:
            return
        for records in self._companion.between(self._done):
            self._records += records
            self._end(self._done)
            if len(self._records) > self._settings.batch_size:
                self._hand_over(session)
                self._reply(session, is_due=time.monotonic() >= self._status_due)
            if self._is_stopped():
                return
        self._companion.stored(self._confirmed())
        if self._companion.waits and time.monotonic() >= self._ask_due:
            self._reply(session, is_due=True, asks=True)
            self._ask_due = time.monotonic() + ASK_S

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
        if self._settings.trusts_offset:
            if count == (self._ends[-1][0] if self._ends else 0):
                return  # no offset tells of this position yet
            last = self._records[-1]
            self._records[-1] = last.with_offset({**last.source_offset, SLOT_POSITION: position})
        if self._ends and self._ends[-1][0] == count:
            self._ends.pop()
        self._ends.append((count, position))

    def _hand_over_if_full(self, session: ReplicationSession) -> None:
        if len(self._records) > self._settings.batch_size:
            self._hand_over(session)

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

    def _reply(self, session: ReplicationSession, is_due: bool, asks: bool = False) -> None:
        """Send a status update; ``asks`` lets the server answer with its position."""
        if is_due:
            confirmed = self._confirmed()
            session.confirm(max(self._received, confirmed), confirmed, asks)
            self._status_due = time.monotonic() + self._settings.status_s

    def _heartbeat(self) -> None:
        """Add a heartbeat record once the interval has passed, between transactions."""
        if not self._settings.heartbeat_s or self._is_open or time.monotonic() < self._heartbeat_due:
            return
        self._heartbeat_due = time.monotonic() + self._settings.heartbeat_s
        self._beat()
        records = [self._writer.heartbeat(self._done or None)]
        self._records += records if self._companion is None else self._companion.see(records)
        self._end(self._done)
