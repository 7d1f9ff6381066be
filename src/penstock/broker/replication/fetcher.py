"""A follower's fetches from one leader: one task, one connection, one request under way.

What it does with the answers: append, cut where the leader says that logs diverge, follow high watermark and
log start, and where that fails leave the partition alone for `replica.fetch.backoff.ms`. A partition whose
leader epoch is over rests until the metadata log brings the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.broker.peers import PeerError
from penstock.broker.replication.fetched_batches import check_fetched
from penstock.broker.replication.leader_offsets import OffsetsAtLeader, ask_offsets
from penstock.broker.replication.leader_session import LeaderSession, PartitionKey, Wanted
from penstock.broker.replication.truncation import FetchPosition, first_position, truncation_offset
from penstock.protocol.batch import CorruptBatch
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import FetchRequest, FetchResponse
from penstock.storage.errors import UnexpectedOffset
from penstock.storage.leader_epochs import EpochEntry

if TYPE_CHECKING:
    from penstock.broker.peers import Peer
    from penstock.broker.replication.replicated_partition import ReplicatedPartition
    from penstock.broker.replication.throttle import ReplicationThrottle

log = logging.getLogger(__name__)

BYTES_PER_TURN: Final = 1024 * 1024
"""After so many appended bytes others have their turn."""

EXPECTED_ERRORS: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""One of the two nodes is behind the other with the metadata log."""


class FetcherSettings(NamedTuple):
    """Broker configs of a follower, under Kafka's names."""

    replica_fetch_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int


class FetcherStats:
    """Counters of one fetcher."""

    __slots__ = ("fetched_bytes", "requests", "truncations")

    def __init__(self) -> None:
        self.requests = 0
        self.fetched_bytes = 0
        self.truncations = 0


class FollowerContext(Protocol):
    """What following takes from the node."""

    @property
    def node_id(self) -> int: ...
    @property
    def fetcher_settings(self) -> FetcherSettings: ...
    @property
    def follower_throttle(self) -> ReplicationThrottle: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def own_epoch(self) -> int:
        """The broker epoch of this node."""

    def peer(self, leader_id: int, former: Peer | None) -> Peer | None:
        """A connection to where a broker is now: `former` if that is right; None if it is nowhere."""


class FollowedPartition:
    """One partition, and where it stands with this leader."""

    __slots__ = ("lag", "leader_epoch", "partition", "position", "rests_until_s")

    def __init__(self, partition: ReplicatedPartition, leader_epoch: int, position: FetchPosition) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.position = position
        self.lag: int | None = None
        """Records between the log's end and the leader's high watermark; None before the first answer."""
        self.rests_until_s = 0.0
        """When it is fetched again after a failure, by the loop's clock."""

    @property
    def key(self) -> PartitionKey:
        replica = self.partition.replica
        return replica.topic_id, replica.partition

    def __str__(self) -> str:
        replica = self.partition.replica
        return f"topic={replica.topic} partition={replica.partition} leader_epoch={self.leader_epoch}"


class Fetcher:
    """Follows one leader in all partitions that it leads and this node has a replica of."""

    def __init__(self, leader_id: int, context: FollowerContext) -> None:
        self.leader_id = leader_id
        self.stats = FetcherStats()
        self._context = context
        self._session = LeaderSession()
        self._followed: dict[PartitionKey, FollowedPartition] = {}
        self._resting: dict[PartitionKey, None] = {}
        self._throttled: dict[PartitionKey, None] = {}
        self._news = asyncio.Event()
        self._peer: Peer | None = None
        self._task: asyncio.Task[None] = context.loop.create_task(self._run())

    def __len__(self) -> int:
        return len(self._followed)

    @property
    def lag_max(self) -> int:
        """Of the partition that is farthest behind."""
        return max((followed.lag or 0 for followed in self._followed.values()), default=0)

    def add(self, partition: ReplicatedPartition) -> None:
        """Follow the leader in a partition, in the leader epoch that the replica is in now. Blocks.

        What the replica's log has above its high watermark without an epoch is cut: LogError.
        """
        replica = partition.replica
        replica_log = replica.log
        position = first_position(
            replica_log.leader_epochs, replica_log.log_end_offset, replica.high_watermark
        )
        partition.truncate_to(position.offset)
        self._follow(FollowedPartition(partition, replica.leader_epoch, position))
        self._news.set()

    def remove(self, key: PartitionKey) -> None:
        """Follow the leader in that partition no longer."""
        if self._followed.pop(key, None) is not None:
            self._session.forget(key)
            self._resting.pop(key, None)
            self._throttled.pop(key, None)

    async def close(self) -> None:
        """Stop, with nothing under way any more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    # --- the task

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch_once()
            except Exception:
                log.exception("fetcher failed leader=%d", self.leader_id)
                self._rest_all()
                await asyncio.sleep(self._context.fetcher_settings.replica_fetch_backoff_ms / 1000)

    async def _fetch_once(self) -> None:
        self._wake_rested()
        self._throttle()
        if not self._session.wanted and not self._session.has_news:
            await self._pause()
            return
        self._peer = self._context.peer(self.leader_id, self._peer)
        if self._peer is None:
            self._rest_all()
            return  # until it is registered again
        settings = self._context.fetcher_settings
        request = FetchRequest(
            replica_state=FetchRequest.ReplicaState(
                replica_id=self._context.node_id, replica_epoch=self._context.own_epoch
            ),
            max_wait_ms=min(settings.replica_fetch_wait_max_ms, self._wait_max_ms()),
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
        )
        self._session.fill(request)
        self.stats.requests += 1
        try:
            response = await self._peer.call(request, FetchResponse, settings.replica_socket_timeout_ms)
        except PeerError as error:
            log.info("fetch failed leader=%d error=%s", self.leader_id, error)
            self._rest_all()
            return
        error_code = ErrorCode.of(response.error_code)
        if self._session.answered(error_code, response.session_id):
            await self._take(response)
        elif error_code not in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
            log.warning("fetch refused leader=%d error=%s", self.leader_id, error_code.name)
            self._rest_all()

    def _wait_max_ms(self) -> int:
        """Until the next partition has rested enough."""
        if not self._resting:
            return 2**31 - 1
        wakes_s = min(self._followed[key].rests_until_s for key in self._resting)
        return max(1, int((wakes_s - self._context.loop.time()) * 1000))

    async def _pause(self) -> None:
        """Until a partition is added, or has rested enough."""
        self._news.clear()
        wait_s = self._wait_max_ms() / 1000 if self._resting else None
        if self._throttled:
            wait_s = min(wait_s or 1.0, self._context.fetcher_settings.replica_fetch_backoff_ms / 1000)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._news.wait()

    # --- which partitions are fetched

    def _follow(self, followed: FollowedPartition) -> None:
        key = followed.key
        self._resting.pop(key, None)
        self._throttled.pop(key, None)
        self._followed[key] = followed
        self._want(key, followed)

    def _want(self, key: PartitionKey, followed: FollowedPartition) -> None:
        self._session.want(
            key,
            Wanted(
                fetch_offset=followed.position.offset,
                last_fetched_epoch=followed.position.last_epoch,
                log_start_offset=followed.partition.replica.log.log_start_offset,
                current_leader_epoch=followed.leader_epoch,
                max_bytes=self._context.fetcher_settings.replica_fetch_max_bytes,
            ),
        )

    def _rest(self, key: PartitionKey) -> None:
        """Leave a partition alone for a while."""
        self._session.forget(key)
        backoff_s = self._context.fetcher_settings.replica_fetch_backoff_ms / 1000
        self._followed[key].rests_until_s = self._context.loop.time() + backoff_s
        self._resting[key] = None

    def _rest_all(self) -> None:
        """Begin anew with all partitions after a while."""
        self._session.failed()
        for key in list(self._session.wanted):
            self._rest(key)

    def _wake_rested(self) -> None:
        now_s = self._context.loop.time()
        for key in [key for key in self._resting if self._followed[key].rests_until_s <= now_s]:
            del self._resting[key]
            self._want(key, self._followed[key])

    def _throttle(self) -> None:
        """Take out of the session what has to go slower, and put it back when it may go on."""
        throttle = self._context.follower_throttle
        if throttle.is_idle and not self._throttled:
            return
        if not throttle.is_exceeded:
            for key in self._throttled:
                self._want(key, self._followed[key])
            self._throttled = {}
            return
        for key in list(self._session.wanted):
            followed = self._followed[key]
            replica = followed.partition.replica
            if followed.lag != 0 and throttle.is_throttled(replica.topic, replica.partition):
                self._session.forget(key)
                self._throttled[key] = None

    # --- answers

    async def _take(self, response: FetchResponse) -> None:
        out_of_range: list[FollowedPartition] = []
        turn_bytes = 0
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                if not self._session.is_current(key):
                    continue  # it is followed no more, or from another place
                followed = self._followed[key]
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    out_of_range.append(followed)
                elif not self._take_partition(followed, data):
                    self._rest(key)
                turn_bytes += len(data.records or b"")
                if turn_bytes >= BYTES_PER_TURN:
                    turn_bytes = 0
                    await asyncio.sleep(0)
        if out_of_range:
            await self._find_range(out_of_range)

    def _take_partition(self, followed: FollowedPartition, data: FetchResponse.PartitionData) -> bool:
        """One partition's part of an answer; whether it may be fetched again at once."""
        if data.error_code == ErrorCode.FENCED_LEADER_EPOCH:
            log.info("leader epoch is over %s leader=%d", followed, self.leader_id)
            self._session.forget(followed.key)  # until the metadata log tells of the next
            return True
        if data.error_code != ErrorCode.NONE:
            error = ErrorCode.of(data.error_code)
            level = logging.DEBUG if error in EXPECTED_ERRORS else logging.WARNING
            log.log(level, "cannot fetch %s leader=%d error=%s", followed, self.leader_id, error.name)
            return False
        try:
            if data.diverging_epoch.end_offset >= 0:
                self._truncate(followed, data.diverging_epoch)
            else:
                self._append(followed, data)
        except CorruptBatch as error:
            log.error("leader sent a damaged batch %s leader=%d: %s", followed, self.leader_id, error)
            return False
        except KafkaError as error:
            log.error("cannot follow %s leader=%d error=%s", followed, self.leader_id, error)
            self._begin_at(followed, self._end_of(followed))
            return False
        return True

    def _append(self, followed: FollowedPartition, data: FetchResponse.PartitionData) -> None:
        """Append what came, and follow the leader's offsets. Raises CorruptBatch, LogError."""
        partition = followed.partition
        replica_log = partition.replica.log
        records = data.records
        position = followed.position
        if records is not None and len(records):
            headers, size_bytes = check_fetched(records, followed.leader_epoch)
            if headers:
                try:
                    partition.append_as_follower(records[:size_bytes], headers)
                except UnexpectedOffset as error:
                    if not replica_log.log_start_offset == replica_log.log_end_offset <= error.last_offset:
                        raise
                    # The leader's log starts in the middle of a batch (DeleteRecords), and this one is empty.
                    partition.truncate_fully_and_start_at(error.first_offset)
                    partition.append_as_follower(records[:size_bytes], headers)
                epoch = headers[-1].partition_leader_epoch
                position = FetchPosition(
                    replica_log.log_end_offset, epoch if epoch >= 0 else position.last_epoch
                )
                self._count(partition, size_bytes)
        partition.follow_offsets(data.high_watermark, data.log_start_offset)
        followed.lag = max(0, data.high_watermark - position.offset)
        self._begin_at(followed, position)

    def _count(self, partition: ReplicatedPartition, size_bytes: int) -> None:
        self.stats.fetched_bytes += size_bytes
        throttle = self._context.follower_throttle
        if not throttle.is_idle and throttle.is_throttled(
            partition.replica.topic, partition.replica.partition
        ):
            throttle.record(size_bytes)

    def _truncate(self, followed: FollowedPartition, diverging: FetchResponse.EpochEndOffset) -> None:
        """Cut the log where the leader's went another way. Raises LogError."""
        partition = followed.partition
        replica_log = partition.replica.log
        offset = truncation_offset(
            replica_log.leader_epochs,
            replica_log.log_end_offset,
            followed.position.offset,
            EpochEntry(diverging.epoch, diverging.end_offset),
        )
        log.info(
            "truncating %s to offset=%d from=%d leader=%d: its epoch %d ended at %d",
            followed,
            offset,
            replica_log.log_end_offset,
            self.leader_id,
            diverging.epoch,
            diverging.end_offset,
        )
        self._cut(partition, offset)
        self._begin_at(followed, FetchPosition(offset, replica_log.leader_epochs.latest))

    def _cut(self, partition: ReplicatedPartition, offset: int) -> None:
        self.stats.truncations += 1
        if offset < partition.replica.high_watermark:
            log.warning(
                "truncating below the high watermark topic=%s partition=%d offset=%d high_watermark=%d",
                partition.replica.topic,
                partition.replica.partition,
                offset,
                partition.replica.high_watermark,
            )
        partition.truncate_to(offset)

    def _end_of(self, followed: FollowedPartition) -> FetchPosition:
        replica_log = followed.partition.replica.log
        return FetchPosition(replica_log.log_end_offset, replica_log.leader_epochs.latest)

    def _begin_at(self, followed: FollowedPartition, position: FetchPosition) -> None:
        """Fetch on from there, and have the leader know if that, or the log's start, is news to it."""
        key = followed.key
        wanted = self._session.wanted[key]
        log_start_offset = followed.partition.replica.log.log_start_offset
        if position != followed.position or wanted.log_start_offset != log_start_offset:
            followed.position = position
            self._want(key, followed)

    # --- out of range

    async def _find_range(self, lost: list[FollowedPartition]) -> None:
        """The leader's log begins above, or ends below: go there."""
        assert self._peer is not None
        try:
            found = await ask_offsets(
                self._peer,
                self._context.node_id,
                [(f.partition.replica.topic, f.partition.replica.partition, f.leader_epoch) for f in lost],
                self._context.fetcher_settings.replica_socket_timeout_ms,
            )
        except PeerError as error:
            log.info("cannot ask for offsets leader=%d error=%s", self.leader_id, error)
            found = {}
        for followed in lost:
            key = followed.key
            if not self._session.is_current(key) or self._followed[key] is not followed:
                continue
            offsets = found.get((followed.partition.replica.topic, followed.partition.replica.partition))
            try:
                if offsets is None or not self._go_into_range(followed, offsets):
                    self._rest(key)
            except KafkaError as error:
                log.error("cannot follow %s leader=%d error=%s", followed, self.leader_id, error)
                self._rest(key)

    def _go_into_range(self, followed: FollowedPartition, leader: OffsetsAtLeader) -> bool:
        """Whether it can be fetched on at once. Raises LogError."""
        if leader.error is ErrorCode.FENCED_LEADER_EPOCH:
            self._session.forget(followed.key)
            return True
        if leader.error is not ErrorCode.NONE:
            log.info("cannot ask for offsets %s error=%s", followed, leader.error.name)
            return False
        partition = followed.partition
        end_offset = partition.replica.log.log_end_offset
        if leader.end_offset < end_offset:
            # An unclean election: its leader never had what lies above.
            log.warning("leader %d ends at %d, cutting %s", self.leader_id, leader.end_offset, followed)
            self._cut(partition, leader.end_offset)
        elif leader.log_start_offset > end_offset:
            log.warning(
                "leader %d starts at %d, beyond %s", self.leader_id, leader.log_start_offset, followed
            )
            partition.truncate_fully_and_start_at(leader.log_start_offset)
        followed.lag = max(0, leader.end_offset - partition.replica.log.log_end_offset)
        self._begin_at(followed, self._end_of(followed))
        return True
