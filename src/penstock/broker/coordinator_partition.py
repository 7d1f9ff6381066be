"""One loaded partition of a coordinator's topic: a coordinator with its log, its clock and its clients."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias

from penstock.broker.uncommitted import Hold, Uncommitted
from penstock.coordinators.records import CoordinatorRecord, Records
from penstock.protocol.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.record_serde import encode_coordinator_key, encode_versioned
from penstock.protocol.records import Record, encode_batch

if TYPE_CHECKING:
    from penstock.broker.commit_waiters import OnCommit
    from penstock.storage.log import AppendInfo
    from penstock.storage.verification import Verification

__all__ = ["CoordinatorLog", "CoordinatorPartition", "Outcome", "encode_records"]

log = logging.getLogger(__name__)

#: Timers that fire in one turn of the event loop before others have theirs.
MAX_TIMERS_PER_TURN = 8

#: Well below the 1 MiB of max.message.bytes, whatever each record adds.
MAX_BATCH_KEY_BYTES = 256 * 1024

#: A wall clock that differs this much from the steady one was set, not slewed.
CLOCK_JUMP_MS = 500

NOBODY = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

Outcome: TypeAlias = ErrorCode | asyncio.Future[ErrorCode]
"""What became of an append: known at once where there is one replica, else when others have it, too."""


class CoordinatorLog(Protocol):
    """The partition's log as its leader sees it."""

    @property
    def high_watermark(self) -> int: ...
    def when_committed(self, end_offset: int, then: OnCommit) -> None:
        """As `Replica.when_committed`."""

    def append(self, records: bytes, verification: Verification | None) -> AppendInfo:
        """Append a batch as leader. Raises KafkaError."""


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

    A record counts once it is committed: only then is it replayed. With one replica that is so when the
    append returns, before anything else is looked at. With several it takes until the followers have it; who
    asks for the same group or transactional id meanwhile waits in line (`line_of`), so that a decision never
    rests on a record that an election may still take back.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        partition_log: CoordinatorLog,
        clock_ms: Callable[[], int],
        compression: int,
        *,
        write_timeout_ms: int,
        lost: Callable[[], None],
    ) -> None:
        """`write_timeout_ms`: how long a client waits for the replication of a record. `lost` is called when
        this node turns out to lead the partition no more."""
        self._coordinator = coordinator
        self._log = partition_log
        self._clock_ms = clock_ms
        self._compression = compression
        self._loop = asyncio.get_running_loop()
        self._uncommitted = Uncommitted(self._loop, partition_log, write_timeout_ms, self._on_committed, lost)
        self._clock_ahead_ms = clock_ms() - self._loop.time() * 1000
        self._timer: asyncio.TimerHandle | None = None
        self._armed_ms = 0

    @abstractmethod
    def _replay(self, record: CoordinatorRecord, offset: int, now_ms: int, producer_id: int) -> None:
        """Apply a record that is committed now."""

    @abstractmethod
    def _hold(self, record: CoordinatorRecord) -> Hold:
        """Whose requests have to wait until this record is committed."""

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
        self._uncommitted.abandon(ErrorCode.NOT_COORDINATOR)
        self._deliver()

    # -- records -------------------------------------------------------------------------------------

    def settle(self, records: Records, *, atomic: bool = True) -> Outcome:
        """Append what a call has returned, replay it once it is committed, answer who can be answered now,
        set the timer.

        The outcome is NONE, or why the records are not in the log; the coordinator knows of it then. One
        that takes time may become NOT_COORDINATOR, or REQUEST_TIMED_OUT: then it will still be replayed if
        it is ever committed. Records that need not be there together (`atomic=False`) may take several
        batches.
        """
        outcome: Outcome = ErrorCode.NONE
        for batch in (records,) if atomic else _split(records):
            if not batch:
                continue
            outcome = self._write(batch)
            if outcome is not ErrorCode.NONE and isinstance(outcome, ErrorCode):
                followups = self._coordinator.fail_append(batch, outcome, self.now_ms())
                if followups:
                    self.settle(followups)
                break
        self._deliver()
        self._arm()
        return outcome

    def settled(self) -> Outcome:
        """When all that has been appended by now is committed."""
        return self._uncommitted.settled()

    @property
    def uncommitted(self) -> int:
        """Appends that are not committed yet."""
        return len(self._uncommitted)

    def line_of(self, key: str, *, behind_all: bool = False) -> asyncio.Future[ErrorCode] | None:
        """What a request has to wait for, or None: then it may be handled now.

        Once it is done the request asks again, unless it is done with an error. `behind_all`: wait for
        records of this key that do not exclude each other, too.
        """
        uncommitted = self._uncommitted
        holders = uncommitted.held if behind_all else uncommitted.blocked
        return uncommitted.line_of(key) if key in holders else None

    @property
    def _held(self) -> Container[str]:
        """Keys that have records on the way."""
        return self._uncommitted.held

    @property
    def _blocked(self) -> Container[str]:
        """Keys that have records on the way which exclude all others."""
        return self._uncommitted.blocked

    def _write(
        self,
        records: Records,
        producer: tuple[int, int] = NOBODY,
        verification: Verification | None = None,
    ) -> Outcome:
        """Append records as one batch, in a producer's transaction or not, and replay them when committed."""
        now_ms = self.now_ms()
        try:
            info = self._log.append(
                encode_records(records, now_ms, self._compression, producer), verification
            )
        except KafkaError as error:
            log.log(
                logging.ERROR if producer is NOBODY else logging.INFO,
                "cannot write coordinator records count=%d producer_id=%d error=%s",
                len(records),
                producer[0],
                error,
            )
            return error.code

        def replay() -> None:
            for offset, record in enumerate(records, info.first_offset):
                self._replay(record, offset, now_ms, producer[0])

        if self._uncommitted.is_committed(info.last_offset + 1):
            replay()
            return ErrorCode.NONE
        return self._uncommitted.add(info.last_offset + 1, replay, map(self._hold, records))

    def _on_committed(self) -> None:
        """Records have been replayed, within a follower's fetch: what they lead to is for the next turn.

        A marker that was appended here might go to a partition which that fetch has looked at already, and
        would be found half a second later.
        """
        self._loop.call_soon(self._hand_on)

    def _hand_on(self) -> None:
        if not self._uncommitted.is_abandoned:
            self._deliver()
            self._arm()

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
