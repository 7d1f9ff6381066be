"""The metadata quorum as this node takes part in it: Raft's decisions carried out on disk.

`consensus.raft` decides; here its effects meet the metadata log. What was appended is flushed by a worker,
one flush for all that gathered meanwhile, and what Raft then calls committed goes to the listener in order:
from memory when this node appended it, else from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from penstock.broker.quorum.host import QuorumHost
from penstock.broker.quorum.listener import CommittedBatch, FrozenState, QuorumListener, SnapshotId
from penstock.broker.quorum.metadata_log import MetadataLog
from penstock.consensus.raft import BeginEpoch, Commit, Effect, Persist, Raft
from penstock.metadata.snapshot import encode_records
from penstock.protocol import messages as m
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import ControlRecordType, encode_control_batch
from penstock.storage.errors import LogError

log = logging.getLogger(__name__)

_LEADER_CHANGE_VERSION: Final = 0
"""The only one Kafka writes, and the only one it reads, however the voters are kept."""


class Quorum:
    """One member of the metadata quorum.

    `open` recovers the log, `listen` names who follows it, `start` takes part; `close` ends in good order.
    """

    def __init__(self, broker: QuorumHost) -> None:
        self._broker = broker
        self._config = broker.config
        machine = broker.environment
        self._log = MetadataLog(
            self._config.metadata_log_dir, self._config, broker.clock_ms, machine.files, machine.rng
        )
        self._raft: Raft | None = None
        self._listener: QuorumListener | None = None
        self._failure: str | None = None
        self._flusher: asyncio.Task[None] | None = None
        self._delivered: int | None = None
        """Up to which offset the listener has the log; None before it has anything."""
        self._recent: deque[CommittedBatch] = deque()
        """What this node appended as the leader and the listener has not seen, without a gap to the end."""
        self._delivering: asyncio.Task[None] | None = None
        self._told_leader: tuple[int | None, int] = (None, -1)
        self._delivered_epoch = -1
        self._delivered_timestamp_ms = -1
        self._bytes_since_snapshot = 0
        self._snapshot_timer: asyncio.TimerHandle | None = None
        self._snapshotting = False

    # Life

    async def open(self) -> None:
        """Recover the metadata log. Raises LogDirectoryError, OSError."""
        await self._broker.run_in_worker(self._log.open)
        node_id, election = self._broker.node_id, self._log.read_election()
        self._log.check_voters(node_id, election)
        self._raft = Raft.restore(node_id, frozenset((node_id,)), election, self._log.last_epoch)

    def listen(self, listener: QuorumListener) -> None:
        """Tell ``listener`` everything from the beginning, and all that follows. Before `start`, once."""
        assert self._listener is None, "the metadata log has one listener"
        self._listener = listener

    async def start(self) -> None:
        """Take part. A sole voter is elected, and its listener told all there is, when this returns.

        Raises LogDirectoryError for a log that cannot be read, LogError, OSError.
        """
        assert self._raft is not None, "open comes first"
        assert self._listener is not None, "listen comes first"
        await self._carry_out(self._raft.campaign())
        if self._delivering is not None:
            await self._delivering
        self._schedule_snapshot()

    async def bootstrap_records(self) -> list[m.Message]:
        """What the first leader of a new cluster appends. Raises LogDirectoryError, OSError."""
        return await self._broker.run_in_worker(self._log.bootstrap)

    async def close(self) -> None:
        """Commit what is pending, resign, close the log. Safe at any stage of the start."""
        if self._snapshot_timer is not None:
            self._snapshot_timer.cancel()
        if self._flusher is not None:
            await self._flusher
        if self._delivering is not None:
            await self._delivering
        if self._raft is not None and self._raft.is_leader:
            self._raft.resign()
        try:
            await self._broker.run_in_worker(self._log.close)
        except LogError as error:
            log.error("metadata log not closed cleanly error=%s", error)

    # What there is

    @property
    def leader_id(self) -> int | None:
        return None if self._raft is None else self._raft.election.leader_id

    @property
    def epoch(self) -> int:
        return 0 if self._raft is None else self._raft.epoch

    @property
    def is_leader(self) -> bool:
        """Whether this node may append. It is asked for decisions only after `handle_leader_change`."""
        return self._raft is not None and self._raft.is_leader

    @property
    def high_watermark(self) -> int:
        return 0 if self._raft is None else self._raft.high_watermark

    @property
    def log_end_offset(self) -> int:
        """Where the next record goes: the broker epoch of a registration that is appended now."""
        return self._log.end_offset

    # Appending

    def append(self, records: Sequence[m.Message], metadata_version: int) -> int:
        """Append records as one batch: all of it is committed, or nothing. The log's end after it.

        Each is written in the version that ``metadata_version`` calls for. They are committed when
        `QuorumListener.handle_commit` brings them. Raises KafkaError: NOT_CONTROLLER unless this node leads,
        UNKNOWN_SERVER_ERROR when the log cannot be written.
        """
        if self._failure is not None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, self._failure)
        if self._raft is None or not self._raft.is_leader:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        now_ms = self._broker.clock_ms()
        data = encode_records(records, metadata_version, now_ms)
        info = self._log.append(data, self._raft.epoch)
        self._appended(info.first_offset, data, now_ms, records)
        return self._log.end_offset

    def resign(self, epoch: int, reason: str) -> None:
        """Lead no more, if ``epoch`` is the one this node leads: for a controller that cannot go on."""
        if self._raft is not None and self._raft.is_leader and self._raft.epoch == epoch:
            log.warning("metadata quorum leader resigns epoch=%d reason=%s", epoch, reason)
            self._raft.resign()
            self._tell_leader(None)

    def _appended(self, first_offset: int, data: bytes, now_ms: int, records: Sequence[m.Message]) -> None:
        assert self._raft is not None
        last_offset = self._log.end_offset - 1
        self._recent.append(
            CommittedBatch(first_offset, last_offset, self._raft.epoch, now_ms, len(data), records)
        )
        if self._flusher is None or self._flusher.done():
            self._flusher = self._broker.loop.create_task(self._flush())

    async def _flush(self) -> None:
        """Flush until all is durable; each flush commits all that was appended before it began."""
        assert self._raft is not None
        flushed = -1
        while flushed < self._log.end_offset:
            try:
                flushed = await self._broker.run_in_worker(self._log.flush)
            except (LogError, OSError) as error:
                self._fail(error)
                return
            await self._carry_out(self._raft.flushed(flushed))

    async def _carry_out(self, effects: list[Effect]) -> None:
        assert self._raft is not None
        for effect in effects:
            match effect:
                case Persist(election):
                    await self._broker.run_in_worker(self._log.write_election, election)
                    await self._carry_out(self._raft.persisted(election))
                case BeginEpoch():
                    self._begin_epoch(effect)
                    assert self._flusher is not None
                    await self._flusher
                case Commit():
                    self._deliver()

    def _begin_epoch(self, begin: BeginEpoch) -> None:
        """Append the LeaderChange of a new epoch."""
        assert self._raft is not None
        voter = m.LeaderChangeMessage.Voter
        change = m.LeaderChangeMessage(
            version=_LEADER_CHANGE_VERSION,
            leader_id=self._broker.node_id,
            voters=[voter(voter_id=v) for v in begin.voters],
            granting_voters=[voter(voter_id=v) for v in begin.granting_voters],
        )
        now_ms = self._broker.clock_ms()
        data = encode_control_batch(
            [(ControlRecordType.LEADER_CHANGE, change.encode(_LEADER_CHANGE_VERSION))], timestamp=now_ms
        )
        log.info("metadata quorum leader epoch=%d", begin.epoch)
        first_offset = self._log.append(data, begin.epoch).first_offset
        self._raft.appended(first_offset)
        self._appended(first_offset, data, now_ms, ())

    def _fail(self, error: Exception) -> None:
        """The log cannot be trusted with more: append nothing, go on telling what is committed."""
        self._failure = f"the metadata log cannot be written: {error}"
        log.critical("metadata quorum stopped error=%s", error)
        if self._listener is not None:
            self._listener.handle_failure(self._failure)

    # Telling the listener

    def _deliver(self) -> None:
        """Tell what is committed and not told yet: at once from memory, else by a task that reads it."""
        if self._delivering is not None and not self._delivering.done():
            return
        if self._delivered is None or (self._recent and self._recent[0].base_offset > self._delivered):
            self._delivering = self._broker.loop.create_task(self._deliver_from_log())
        else:
            self._deliver_recent()

    def _deliver_recent(self) -> None:
        assert self._raft is not None
        ready: list[CommittedBatch] = []
        while self._recent and self._recent[0].last_offset < self._raft.high_watermark:
            ready.append(self._recent.popleft())
        if ready:
            self._handle_commit(ready)
        self._tell_leader(self._broker.node_id)

    async def _deliver_from_log(self) -> None:
        """Read for the listener until it has come to what is in memory."""
        assert self._raft is not None
        assert self._listener is not None
        if self._delivered is None:
            self._delivered = 0
            snapshot = self._log.latest_snapshot
            if snapshot is not None:
                records = await self._broker.run_in_worker(self._log.read_snapshot, snapshot)
                self._listener.handle_snapshot(snapshot, records)
                self._delivered, self._delivered_epoch = snapshot
        while self._recent and self._recent[0].base_offset < self._delivered:
            self._recent.popleft()
        while self._delivered < (limit := self._limit_in_log()):
            batches = await self._broker.run_in_worker(self._log.read_batches, self._delivered, limit)
            self._handle_commit(batches)
        self._deliver_recent()

    def _limit_in_log(self) -> int:
        assert self._raft is not None
        high_watermark = self._raft.high_watermark
        return min(high_watermark, self._recent[0].base_offset) if self._recent else high_watermark

    def _handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        assert self._listener is not None
        last = batches[-1]
        self._delivered = last.last_offset + 1
        self._delivered_epoch, self._delivered_timestamp_ms = last.epoch, last.timestamp_ms
        self._bytes_since_snapshot += sum(batch.size_bytes for batch in batches)
        self._listener.handle_commit(batches)
        if self._bytes_since_snapshot >= self._config.get_int(
            "metadata.log.max.record.bytes.between.snapshots"
        ):
            self._snapshot()

    def _tell_leader(self, leader_id: int | None) -> None:
        assert self._listener is not None
        if self._told_leader != (leader_id, self.epoch):
            self._told_leader = (leader_id, self.epoch)
            self._listener.handle_leader_change(leader_id, self.epoch)

    # Snapshots

    def _schedule_snapshot(self) -> None:
        interval_ms = self._config.get_int("metadata.log.max.snapshot.interval.ms")
        if interval_ms:
            self._snapshot_timer = self._broker.loop.call_later(interval_ms / 1000, self._snapshot_on_time)

    def _snapshot_on_time(self) -> None:
        self._schedule_snapshot()
        if self._bytes_since_snapshot:
            self._snapshot()

    def _snapshot(self) -> None:
        """Write the listener's state to a snapshot file, in a worker, from a copy taken now."""
        assert self._listener is not None
        assert self._delivered is not None
        if self._snapshotting or (frozen := self._listener.freeze()) is None:
            return
        self._snapshotting = True
        self._bytes_since_snapshot = 0
        at = SnapshotId(self._delivered, self._delivered_epoch)
        writing = self._broker.run_in_worker(self._write_snapshot, at, frozen, self._delivered_timestamp_ms)
        writing.add_done_callback(partial(self._snapshot_written, at))

    def _write_snapshot(self, at: SnapshotId, frozen: FrozenState, timestamp_ms: int) -> int:
        return self._log.write_snapshot(at, frozen.records(), frozen.metadata_version, timestamp_ms)

    def _snapshot_written(self, at: SnapshotId, writing: asyncio.Future[int]) -> None:
        self._snapshotting = False
        if writing.cancelled():
            return
        error = writing.exception()
        if error is not None:
            log.error("metadata snapshot failed end_offset=%d error=%s", at.end_offset, error)
            return
        try:
            self._log.installed_snapshot(at, self._broker.clock_ms())
        except (LogError, OSError) as failure:
            log.error("metadata log not trimmed end_offset=%d error=%s", at.end_offset, failure)
        log.info("metadata snapshot end_offset=%d epoch=%d bytes=%d", *at, writing.result())
