"""Apply one leader's fetch responses to a follower's partitions.

The follower appends the batches, truncates where the leader reports that the logs diverge, and adopts the
high watermark and the log start offset. If a partition fails, it pauses for `replica.fetch.backoff.ms`. A
partition whose leader epoch is over pauses until the metadata log brings the next epoch. The network belongs
to `fetcher`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.broker.following.fetched_batches import check_fetched
from penstock.broker.following.leader_session import LeaderSession, PartitionKey, Wanted
from penstock.broker.following.truncation import FetchPosition, first_position, truncation_offset
from penstock.protocol.batch import CorruptBatch
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import FetchResponse
from penstock.storage.errors import UnexpectedOffset
from penstock.storage.partition.leader_epochs import EpochEntry

if TYPE_CHECKING:
    from penstock.broker.following.throttle import ReplicationThrottle
    from penstock.broker.partitions.replicated_partition import ReplicatedPartition

log = logging.getLogger(__name__)

EXPECTED_ERRORS: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""One of the two nodes lags behind in the metadata log, usually for a short time."""

FIRST_PAUSE_S: Final = 0.02
"""The pause after the first of these errors; it doubles up to `replica.fetch.backoff.ms`. It is short because
a record that waits for its replicas after an election waits for this pause too."""


class Place(NamedTuple):
    topic: str
    partition: int
    leader_epoch: int


class OffsetsAtLeader(NamedTuple):
    """Where the leader's log begins and ends, or the error that it answered."""

    log_start_offset: int
    end_offset: int
    error: ErrorCode


class FollowingStats:
    """Counters of what one leader sent."""

    __slots__ = ("fetched_bytes", "truncations")

    def __init__(self) -> None:
        self.fetched_bytes = 0
        self.truncations = 0


class FollowedPartition:
    """One partition and its state with the leader."""

    __slots__ = ("failures", "lag", "leader_epoch", "partition", "position", "rests_until_s")

    def __init__(self, partition: ReplicatedPartition, leader_epoch: int, position: FetchPosition) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.position = position
        self.lag: int | None = None
        """Records between the log's end and the leader's high watermark; None before the first answer."""
        self.failures = 0
        """The number of expected errors in a row."""
        self.rests_until_s = 0.0
        """When fetching resumes after a failure."""

    @property
    def key(self) -> PartitionKey:
        replica = self.partition.replica
        return replica.topic_id, replica.partition

    @property
    def end(self) -> FetchPosition:
        """The end of the local log."""
        replica_log = self.partition.replica.log
        return FetchPosition(replica_log.log_end_offset, replica_log.leader_epochs.latest)

    def __str__(self) -> str:
        replica = self.partition.replica
        return f"topic={replica.topic} partition={replica.partition} leader_epoch={self.leader_epoch}"


class Following:
    """All partitions that one leader leads and this node follows. Times are in seconds of one clock.

    Args:
        fetch_max_bytes: `replica.fetch.max.bytes`.
        backoff_ms: `replica.fetch.backoff.ms`.
    """

    def __init__(
        self, leader_id: int, fetch_max_bytes: int, backoff_ms: int, throttle: ReplicationThrottle
    ) -> None:
        self.leader_id = leader_id
        self.session = LeaderSession()
        self.stats = FollowingStats()
        self._fetch_max_bytes = fetch_max_bytes
        self._backoff_s = backoff_ms / 1000
        self._throttle = throttle
        self._followed: dict[PartitionKey, FollowedPartition] = {}
        self._resting: dict[PartitionKey, None] = {}
        self._throttled: dict[PartitionKey, None] = {}
        self.starts_moved = False
        """Whether log start offsets have moved but are not written down yet. They must be before the leader
        learns of them."""

    def __len__(self) -> int:
        return len(self._followed)

    def __iter__(self) -> Iterator[FollowedPartition]:
        return iter(self._followed.values())

    # --- which partitions are fetched

    def add(self, partition: ReplicatedPartition) -> None:
        """Follow the leader in a partition, in the replica's current leader epoch. Blocks.

        In an old log without epochs, records above the high watermark are cut off. Raises LogError.
        """
        replica = partition.replica
        replica_log = replica.log
        position = first_position(
            replica_log.leader_epochs, replica_log.log_end_offset, replica.high_watermark
        )
        if position.offset < replica_log.log_end_offset:
            partition.truncate_to(position.offset)
        followed = FollowedPartition(partition, replica.leader_epoch, position)
        key = followed.key
        self.remove(key)
        self._followed[key] = followed
        self._want(key, followed)

    def remove(self, key: PartitionKey) -> None:
        """Stop following the leader in the partition."""
        if self._followed.pop(key, None) is not None:
            self.session.forget(key)
            self._resting.pop(key, None)
            self._throttled.pop(key, None)

    def prepare(self, now_s: float) -> bool:
        """Resume paused partitions, exclude throttled ones, and return whether a request is needed.

        A request is needed if there is something to fetch or the leader must learn of a change.
        """
        for key in [key for key in self._resting if self._followed[key].rests_until_s <= now_s]:
            del self._resting[key]
            self._want(key, self._followed[key])
        if self._throttled or not self._throttle.is_idle:
            self._obey_throttle()
        return bool(self.session.wanted) or self.session.has_changes

    def wakes_in_s(self, now_s: float) -> float | None:
        """Seconds until more may be fetched than now; None if no partition pauses."""
        wakes = [self._followed[key].rests_until_s - now_s for key in self._resting]
        if self._throttled:
            wakes.append(self._backoff_s)
        return max(0.0, min(wakes)) if wakes else None

    def rest_all(self, now_s: float) -> None:
        """Pause all partitions and open a new session later, since there was no answer."""
        self.session.failed()
        for key in list(self.session.wanted):
            self._rest(key, now_s)

    def _rest(self, key: PartitionKey, now_s: float, pause_s: float | None = None) -> None:
        """Pause a partition for a while."""
        self.session.forget(key)
        self._followed[key].rests_until_s = now_s + (self._backoff_s if pause_s is None else pause_s)
        self._resting[key] = None

    def _want(self, key: PartitionKey, followed: FollowedPartition) -> None:
        self.session.want(
            key,
            Wanted(
                fetch_offset=followed.position.offset,
                last_fetched_epoch=followed.position.last_epoch,
                log_start_offset=followed.partition.replica.log.log_start_offset,
                current_leader_epoch=followed.leader_epoch,
                max_bytes=self._fetch_max_bytes,
                high_watermark=followed.partition.replica.high_watermark,
            ),
        )

    def _obey_throttle(self) -> None:
        """Remove throttled partitions from the session, and add them again once the rate allows it."""
        if not self._throttle.is_exceeded:
            throttled, self._throttled = self._throttled, {}
            for key in throttled:
                self._want(key, self._followed[key])
            return
        for key in list(self.session.wanted):
            followed = self._followed[key]
            replica = followed.partition.replica
            if followed.lag != 0 and self._throttle.is_throttled(replica.topic, replica.partition):
                self.session.forget(key)
                self._throttled[key] = None

    # --- answers

    def take(self, key: PartitionKey, data: FetchResponse.PartitionData, number: int, now_s: float) -> bool:
        """Apply one partition's part of the answer to request `number`.

        Returns whether the leader must be asked for the range of its log (`go_into_range`).
        """
        if not self.session.is_current(key, number):
            return False  # it is no longer followed, or was requested from another position
        followed = self._followed[key]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return True
        if data.error_code == ErrorCode.FENCED_LEADER_EPOCH:
            self._await_next_epoch(followed)
        elif data.error_code != ErrorCode.NONE:
            self._refused(followed, ErrorCode.of(data.error_code), now_s)
        else:
            followed.failures = 0
            try:
                if data.diverging_epoch.end_offset >= 0:
                    self._truncate(followed, data.diverging_epoch)
                else:
                    self._append(followed, data)
            except CorruptBatch as error:
                log.error(
                    "leader sent a damaged batch %s leader=%d error=%s", followed, self.leader_id, error
                )
                self._rest(key, now_s)
            except KafkaError as error:
                log.error("cannot follow %s leader=%d error=%s", followed, self.leader_id, error)
                followed.position = followed.end
                self._rest(key, now_s)
        return False

    def _refused(self, followed: FollowedPartition, error: ErrorCode, now_s: float) -> None:
        is_expected = error in EXPECTED_ERRORS
        level = logging.DEBUG if is_expected else logging.WARNING
        log.log(level, "cannot fetch %s leader=%d error=%s", followed, self.leader_id, error.name)
        pause_s = self._backoff_s
        if is_expected:
            pause_s = min(pause_s, FIRST_PAUSE_S * 2**followed.failures)
            followed.failures = min(followed.failures + 1, 16)
        self._rest(followed.key, now_s, pause_s)

    def _await_next_epoch(self, followed: FollowedPartition) -> None:
        log.info("leader epoch is over %s leader=%d", followed, self.leader_id)
        self.session.forget(followed.key)

    def _append(self, followed: FollowedPartition, data: FetchResponse.PartitionData) -> None:
        """Append the records and adopt the leader's offsets. Raises CorruptBatch or LogError."""
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
                    is_past = replica_log.log_end_offset <= max(
                        data.log_start_offset, replica_log.log_start_offset
                    )
                    if not is_past or error.last_offset < replica_log.log_end_offset:
                        raise
                    # The leader's log starts in the middle of a batch (DeleteRecords), and it has deleted all
                    # records that are here.
                    partition.truncate_fully_and_start_at(error.first_offset)
                    partition.append_as_follower(records[:size_bytes], headers)
                epoch = headers[-1].partition_leader_epoch
                position = FetchPosition(
                    replica_log.log_end_offset, epoch if epoch >= 0 else position.last_epoch
                )
                self._count(partition, size_bytes)
        partition.follow_offsets(data.high_watermark, data.log_start_offset)
        followed.lag = max(0, data.high_watermark - position.offset)
        self._go_on_at(followed, position)

    def _count(self, partition: ReplicatedPartition, size_bytes: int) -> None:
        self.stats.fetched_bytes += size_bytes
        throttle, replica = self._throttle, partition.replica
        if not throttle.is_idle and throttle.is_throttled(replica.topic, replica.partition):
            throttle.record(size_bytes)

    def _truncate(self, followed: FollowedPartition, diverging: FetchResponse.EpochEndOffset) -> None:
        """Truncate the log where it diverges from the leader's. Raises LogError."""
        replica_log = followed.partition.replica.log
        offset = truncation_offset(
            replica_log.leader_epochs,
            replica_log.log_end_offset,
            followed.position.offset,
            EpochEntry(diverging.epoch, diverging.end_offset),
        )
        log.info(
            "truncating a log that diverges diverging_epoch=%d end_offset=%d %s leader=%d from=%d to=%d",
            diverging.epoch,
            diverging.end_offset,
            followed,
            self.leader_id,
            replica_log.log_end_offset,
            offset,
        )
        self._cut(followed, offset)

    def _cut(self, followed: FollowedPartition, offset: int) -> None:
        """Discard all records from `offset` on and continue to fetch there. Raises LogError."""
        self.stats.truncations += 1
        replica = followed.partition.replica
        if offset < replica.high_watermark:
            log.warning(
                "truncating committed records %s to=%d high_watermark=%d",
                followed,
                offset,
                replica.high_watermark,
            )
        followed.partition.truncate_to(offset)
        self._go_on_at(followed, followed.end)

    def _go_on_at(self, followed: FollowedPartition, position: FetchPosition) -> None:
        """Fetch from `position` next, and notify the leader if that or the log start offset changed."""
        key = followed.key
        log_start_offset = followed.partition.replica.log.log_start_offset
        known = self.session.wanted[key]
        if known.log_start_offset != log_start_offset:
            self.starts_moved = True
        if position != followed.position or known.log_start_offset != log_start_offset:
            followed.position = position
            self._want(key, followed)

    # --- out of range

    def places(self, keys: Iterable[PartitionKey]) -> dict[PartitionKey, Place]:
        """The topic, partition and leader epoch of the keys that are still followed."""
        places = {}
        for key in keys:
            followed = self._followed.get(key)
            if followed is not None:
                replica = followed.partition.replica
                places[key] = Place(replica.topic, replica.partition, followed.leader_epoch)
        return places

    def go_into_range(
        self, key: PartitionKey, leader: OffsetsAtLeader | None, number: int, now_s: float
    ) -> None:
        """Move into the range of the leader's log; `leader` is None if the leader could not be asked."""
        if not self.session.is_current(key, number):
            return
        followed = self._followed[key]
        if leader is not None and leader.error is ErrorCode.FENCED_LEADER_EPOCH:
            self._await_next_epoch(followed)
        elif leader is None or leader.error is not ErrorCode.NONE:
            log.info("cannot ask for offsets %s leader=%d", followed, self.leader_id)
            self._rest(key, now_s)
        else:
            try:
                self._go_between(followed, leader)
            except KafkaError as error:
                log.error("cannot follow %s leader=%d error=%s", followed, self.leader_id, error)
                followed.position = followed.end
                self._rest(key, now_s)

    def _go_between(self, followed: FollowedPartition, leader: OffsetsAtLeader) -> None:
        """Truncate or restart the log so that its end lies in the leader's range. Raises LogError."""
        partition = followed.partition
        end_offset = followed.end.offset
        if leader.end_offset < end_offset:
            # After an unclean election the new leader never had the records above its end.
            log.warning(
                "truncating above the leader's end leader=%d end_offset=%d %s",
                self.leader_id,
                leader.end_offset,
                followed,
            )
            self._cut(followed, leader.end_offset)
        elif leader.log_start_offset > end_offset:
            log.warning(
                "leader's log starts above the local end leader=%d log_start_offset=%d %s",
                self.leader_id,
                leader.log_start_offset,
                followed,
            )
            partition.truncate_fully_and_start_at(leader.log_start_offset)
        self._go_on_at(followed, followed.end)
        followed.lag = max(0, leader.end_offset - followed.position.offset)
