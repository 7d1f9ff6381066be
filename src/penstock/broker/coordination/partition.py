"""One loaded partition of a coordinator's topic: a coordinator with its log, its clock and its clients."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias

from penstock.broker.coordination.uncommitted import Hold, Uncommitted
from penstock.coordinators.records import CoordinatorRecord, Records
from penstock.protocol.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.record_serde import encode_coordinator_key, encode_versioned
from penstock.protocol.records import Record, encode_batch

if TYPE_CHECKING:
    from penstock.broker.partitions.commit_waiters import OnCommit
    from penstock.storage.partition.log import AppendInfo
    from penstock.storage.producers.verification import Verification

__all__ = ["CoordinatorLog", "CoordinatorPartition", "Outcome", "encode_records"]

log = logging.getLogger(__name__)

MAX_TIMERS_PER_TURN = 8
"""The timers that fire in one turn of the event loop before it yields to other tasks."""

MAX_BATCH_KEY_BYTES = 256 * 1024
"""The limit on the keys of one batch, well below the 1 MiB of max.message.bytes whatever each record adds."""

CLOCK_JUMP_MS = 500
"""A wall clock that differs this much from the monotonic clock was set, not slewed."""

NOBODY = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

Outcome: TypeAlias = ErrorCode | asyncio.Future[ErrorCode]
"""The result of an append: known at once with one replica, else once the followers have the records."""


class CoordinatorLog(Protocol):
    """The partition's log as its leader uses it."""

    @property
    def high_watermark(self) -> int: ...
    def when_committed(self, end_offset: int, then: OnCommit) -> None:
        """Call `then` once the offset is committed, like `Replica.when_committed`."""

    def append(self, records: bytes, verification: Verification | None) -> AppendInfo:
        """Append a batch as leader. Raises KafkaError."""


class Coordinator(Protocol):
    """The interface that every coordinator offers to its owner, except for the replay of its records."""

    @property
    def next_deadline_ms(self) -> int | None: ...
    def shift_timers(self, by_ms: int) -> None: ...
    def on_timeout(self, now_ms: int) -> Records: ...
    def on_loaded(self, now_ms: int) -> Records: ...
    def on_unloaded(self) -> None: ...
    def fail_append(self, records: Records, error: ErrorCode, now_ms: int) -> Records: ...


class CoordinatorPartition(ABC):
    """The owner of a coordinator, which fulfils the coordinator's contract.

    A record is replayed only once it is committed. With one replica that is when the append returns, before
    any other work. With several replicas it takes until the followers have it. Meanwhile requests for the
    same group or transactional id queue (`line_of`), so that a decision never depends on a record that an
    election may take back.
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
        """Create the owner of a coordinator.

        `write_timeout_ms` is how long a client waits for the replication of a record. `lost` is called when
        this node finds out that it does not lead the partition any more.
        """
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
        """Apply a committed record."""

    @abstractmethod
    def _hold(self, record: CoordinatorRecord) -> Hold:
        """The key whose requests must wait until this record is committed."""

    @abstractmethod
    def _deliver(self) -> None:
        """Deliver the replies and effects that the coordinator has produced in a call."""

    def now_ms(self) -> int:
        """The wall clock's time, for records and timers; if the clock was set, the timers shift with it."""
        now_ms = self._clock_ms()
        jump_ms = now_ms - self._loop.time() * 1000 - self._clock_ahead_ms
        if abs(jump_ms) > CLOCK_JUMP_MS:
            log.warning("clock jumped by_ms=%d", jump_ms)
            self._clock_ahead_ms += jump_ms
            self._armed_ms += int(jump_ms)
            self._coordinator.shift_timers(int(jump_ms))
        return now_ms

    def start(self) -> None:
        """Start to serve; the timers of the loaded state run from now on."""
        self.settle(self._coordinator.on_loaded(self.now_ms()))

    def stop(self) -> None:
        """Stop serving; waiting requests fail with NOT_COORDINATOR."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._coordinator.on_unloaded()
        self._uncommitted.abandon(ErrorCode.NOT_COORDINATOR)
        self._deliver()

    # -- records -------------------------------------------------------------------------------------

    def settle(self, records: Records, *, atomic: bool = True) -> Outcome:
        """Append a call's records, replay them once they are committed, send replies, and set the timer.

        The outcome is NONE, or the reason why the records are not in the log, which the coordinator has been
        notified of. An outcome that takes time may become NOT_COORDINATOR, or REQUEST_TIMED_OUT; the records
        are then still replayed if they are ever committed. Records that need not be written together
        (`atomic=False`) may take several batches.
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
        """The outcome of all appends up to now, known when they are committed."""
        return self._uncommitted.settled()

    @property
    def uncommitted(self) -> int:
        """The number of appends that are not committed yet."""
        return len(self._uncommitted)

    def line_of(self, key: str, *, behind_all: bool = False) -> asyncio.Future[ErrorCode] | None:
        """Return the future that a request must wait for, or None if it may be handled now.

        When the future is done without an error, the request calls this again. `behind_all`: also wait for
        records of this key that do not exclude each other.
        """
        uncommitted = self._uncommitted
        holders = uncommitted.held if behind_all else uncommitted.blocked
        return uncommitted.line_of(key) if key in holders else None

    @property
    def _held(self) -> Container[str]:
        """The keys with uncommitted records."""
        return self._uncommitted.held

    @property
    def _blocked(self) -> Container[str]:
        """The keys with uncommitted records that exclude all others."""
        return self._uncommitted.blocked

    def _write(
        self,
        records: Records,
        producer: tuple[int, int] = NOBODY,
        verification: Verification | None = None,
    ) -> Outcome:
        """Append records as one batch and replay them when committed.

        With `producer`, they are part of its transaction.
        """
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
        """Schedule the effects of replayed records for the next turn, as a follower's fetch is running.

        A marker appended now might go to a partition that the fetch has already read, and would be found half
        a second later.
        """
        self._loop.call_soon(self._hand_on)

    def _hand_on(self) -> None:
        if not self._uncommitted.is_abandoned:
            self._deliver()
            self._arm()

    # -- timers --------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Set the timer for the next deadline.

        One timer is enough: when it fires, it also finds deadlines that have moved to later times.
        """
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
    """Split records into runs with less than MAX_BATCH_KEY_BYTES of keys.

    For tombstones, that limits the batch, since they have no values.
    """
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
    """Encode records as one batch, so that either all of them are in the log or none.

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
