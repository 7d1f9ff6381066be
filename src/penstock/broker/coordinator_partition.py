"""One loaded partition of a coordinator's topic: a coordinator with its log, its clock and its clients."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from penstock.coordinators.records import CoordinatorRecord, Records
from penstock.protocol.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.record_serde import encode_coordinator_key, encode_versioned
from penstock.protocol.records import Record, encode_batch

if TYPE_CHECKING:
    from penstock.storage.log import AppendInfo
    from penstock.storage.verification import Verification

__all__ = ["Append", "CoordinatorPartition", "encode_records"]

log = logging.getLogger(__name__)

#: Timers that fire in one turn of the event loop before others have theirs.
MAX_TIMERS_PER_TURN = 8

#: Well below the 1 MiB of max.message.bytes, whatever each record adds.
MAX_BATCH_KEY_BYTES = 256 * 1024

#: A wall clock that differs this much from the steady one was set, not slewed.
CLOCK_JUMP_MS = 500


class Append(Protocol):
    """Appends a batch to the partition's log as its leader. Raises KafkaError."""

    def __call__(self, records: bytes, *, verification: Verification | None = None) -> AppendInfo: ...


class Coordinator(Protocol):
    """What every coordinator promises to its owner; how its records are replayed is its own affair."""

    @property
    def next_deadline_ms(self) -> int | None: ...
    def shift_timers(self, by_ms: int) -> None: ...
    def on_timeout(self, now_ms: int) -> Records: ...
    def on_loaded(self, now_ms: int) -> Records: ...
    def on_unloaded(self) -> None: ...
    def fail_append(self, records: Records, error: ErrorCode, now_ms: int) -> Records: ...


class CoordinatorPartition(ABC):
    """Does for a coordinator what its contract asks of the owner.

    A record counts once it is appended: the append ends before anything else is looked at, so a decision
    never rests on a record that is not in the log yet.
    """

    def __init__(
        self, coordinator: Coordinator, append: Append, clock_ms: Callable[[], int], compression: int
    ) -> None:
        self._coordinator = coordinator
        self._append = append
        self._clock_ms = clock_ms
        self._compression = compression
        self._loop = asyncio.get_running_loop()
        self._clock_ahead_ms = clock_ms() - self._loop.time() * 1000
        self._timer: asyncio.TimerHandle | None = None
        self._armed_ms = 0

    @abstractmethod
    def _replay(self, record: CoordinatorRecord, offset: int, now_ms: int) -> None:
        """Apply a record that is in the log now."""

    @abstractmethod
    def _deliver(self) -> None:
        """Hand on what the coordinator has to say after a call."""

    def now_ms(self) -> int:
        """The wall clock, for records and timers alike; when it is set anew, the timers move along."""
        now_ms = self._clock_ms()
        jump_ms = now_ms - self._loop.time() * 1000 - self._clock_ahead_ms
        if abs(jump_ms) > CLOCK_JUMP_MS:
            log.warning("clock jumped by_ms=%d", jump_ms)
            self._clock_ahead_ms += jump_ms
            self._armed_ms += int(jump_ms)
            self._coordinator.shift_timers(int(jump_ms))
        return now_ms

    def start(self) -> None:
        """Begin to serve: timers of what was loaded run from now on."""
        self.settle(self._coordinator.on_loaded(self.now_ms()))

    def stop(self) -> None:
        """Serve no longer; requests that wait are told to look elsewhere."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._coordinator.on_unloaded()
        self._deliver()

    def settle(self, records: Records, *, atomic: bool = True) -> ErrorCode:
        """Append and replay what a call has returned, answer who can be answered, set the timer.

        The error is NONE, or why the records are not in the log; the coordinator knows of it then. Records
        that need not be there together (`atomic=False`) may take several batches.
        """
        error = ErrorCode.NONE
        for batch in (records,) if atomic else _split(records):
            error = self._write(batch) if batch else error
            if error is not ErrorCode.NONE:
                followups = self._coordinator.fail_append(batch, error, self.now_ms())
                if followups:
                    self.settle(followups)
                break
        self._deliver()
        self._arm()
        return error

    def _write(self, records: Records) -> ErrorCode:
        now_ms = self.now_ms()
        try:
            info = self._append(encode_records(records, now_ms, self._compression))
        except KafkaError as error:
            log.error("cannot write coordinator records count=%d error=%s", len(records), error)
            return error.code
        for offset, record in enumerate(records, info.first_offset):
            self._replay(record, offset, now_ms)
        return ErrorCode.NONE

    # -- timers --------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Wake up for the next deadline. One timer is enough: deadlines that move later are found then."""
        deadline_ms = self._coordinator.next_deadline_ms
        if deadline_ms is None or (self._timer is not None and self._armed_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_ms = deadline_ms
        delay_ms = max(deadline_ms - self.now_ms(), 0)
        self._timer = self._loop.call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self.now_ms()
        try:
            for _ in range(MAX_TIMERS_PER_TURN):
                deadline_ms = self._coordinator.next_deadline_ms
                if deadline_ms is None or deadline_ms > now_ms:
                    break
                self.settle(self._coordinator.on_timeout(now_ms), atomic=False)
        finally:
            self._arm()


def _split(records: Records) -> Iterator[Records]:
    """Runs of records whose keys stay below MAX_BATCH_KEY_BYTES; for tombstones that is all there is."""
    run: Records = []
    size_bytes = 0
    for record in records:
        key_bytes = len(encode_coordinator_key(record.key))
        if run and size_bytes + key_bytes > MAX_BATCH_KEY_BYTES:
            yield run
            run, size_bytes = [], 0
        run.append(record)
        size_bytes += key_bytes
    yield run


def encode_records(
    records: Records,
    now_ms: int,
    compression: int,
    producer: tuple[int, int] = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH),
) -> bytes:
    """One batch, so that the records are in the log together or not at all.

    With a producer's id and epoch they belong to its transaction, without a sequence, as Kafka writes them.
    """
    producer_id, producer_epoch = producer
    return encode_batch(
        [
            Record(
                0,
                now_ms,
                encode_coordinator_key(record.key),
                None if record.value is None else encode_versioned(record.value, record.value_version),
            )
            for record in records
        ],
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=producer_id != NO_PRODUCER_ID,
    )
