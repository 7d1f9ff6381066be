"""A consumer of a classic group (Kafka's KafkaConsumer with the range assignor).

All partitions are taken away before each rebalance, in which the listener can commit offsets.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.coordinators import Coordinator, CoordinatorKind
from penstock.client.connections.metadata import TopicPartition
from penstock.client.consuming.partition_reader import ConsumedRecord, PartitionReader
from penstock.client.consuming.range_assignment import (
    RANGE,
    assign_ranges,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from penstock.client.errors import ClientError, OffsetOutOfRange, UnknownPartition, error_from
from penstock.client.groups.consumer_group import ConsumerGroup
from penstock.client.groups.heartbeats import Joined, Timeouts
from penstock.client.groups.membership import Membership
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.reading.offsets import EARLIEST, LATEST, list_offsets
from penstock.client.settings import ConfigError, one_of, setting, text, whole_number
from penstock.protocol.messages import OffsetCommitRequest, OffsetCommitResponse

log = logging.getLogger(__name__)

_PROTOCOL: Final = "consumer"
_BY_NAME_VERSION: Final = 9
"""The newest version of OffsetCommit that names topics: a coordinator may not know a new topic's id yet."""
_SLICE_S: Final = 0.1
"""A consumer that waits for records looks so often whether its group rebalances."""
_ATTEMPT_MS: Final = 1_000
"""The timeout of one attempt of all but commits, so that `poll` returns soon while the cluster is away."""
_MISSING_S: Final = 1.0
"""The time between two looks for topics that do not exist."""

_PLACE_S: Final = 0.5
"""The time between two attempts to find where assigned partitions begin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerSettings:
    """The settings of a consumer, beside those of its fetches."""

    group_id: str = setting("group.id", "", text)
    max_records: int = setting("max.poll.records", 500, whole_number(1))
    max_poll_ms: int = setting("max.poll.interval.ms", 300_000, whole_number(1))
    session_ms: int = setting("session.timeout.ms", 45_000, whole_number(1))
    heartbeat_ms: int = setting("heartbeat.interval.ms", 3_000, whole_number(1))
    reset: str = setting("auto.offset.reset", "earliest", one_of("earliest", "latest", "none"))

    def __post_init__(self) -> None:
        if self.heartbeat_ms >= self.session_ms:
            # The member would expire before each heartbeat, and join again without end.
            raise ConfigError(
                f"'heartbeat.interval.ms' is {self.heartbeat_ms}: expected less than 'session.timeout.ms', "
                f"which is {self.session_ms}"
            )

    @property
    def timeouts(self) -> Timeouts:
        return Timeouts(self.session_ms, self.max_poll_ms, self.heartbeat_ms)


class RebalanceListener(Protocol):
    """Takes changes of a consumer's partitions, on its thread, during `GroupConsumer.poll`.

    What a method raises is raised by that `poll`, once the rebalance is over.
    """

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Note the partitions that are read from now on; they have positions already.

        Partitions of one assignment that have no leader at first follow in later calls.
        """

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Note that partitions go to other members next. Their offsets can be committed a last time."""

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Note that other members may read partitions already: no offset can be committed."""


class GroupConsumer:
    """A member of a group, for one thread except `wake` and `stop`. `poll` must be called regularly.

    ``topics`` are names, or a function that chooses among all names; internal topics are left out then.
    A commit is retried for ``commit_timeout_ms``, by default ``default.api.timeout.ms``.
    """

    def __init__(
        self,
        config: ClientConfig,
        settings: ConsumerSettings,
        fetch: FetchConfig,
        topics: Collection[str] | Callable[[str], bool],
        listener: RebalanceListener,
        *,
        commit_timeout_ms: int | None = None,
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._listener = listener
        self._cluster = Cluster(replace(config, api_timeout_ms=min(config.api_timeout_ms, _ATTEMPT_MS)))
        self._committing = Cluster(replace(config, api_timeout_ms=commit_timeout_ms or config.api_timeout_ms))
        self._coordinator = Coordinator(self._committing, CoordinatorKind.GROUP, settings.group_id)
        self._committed = ConsumerGroup(self._cluster, settings.group_id)
        self._isolation = fetch.isolation
        self._reader = PartitionReader(self._cluster, fetch, self._reset)
        self._membership = Membership(config, settings.group_id, _PROTOCOL, settings.timeouts, self)
        self._joined: Joined | None = None
        """The generation in which offsets can be committed; unlike the membership's, until it has revoked."""
        self._counts: Mapping[str, int] = {}
        """The partitions of the topics that this member reads, when it joined or, as the leader, assigned."""
        self._look_at_s = 0.0
        self._unplaced: set[TopicPartition] = set()
        """Assigned partitions without a committed offset whose logs could not be asked for one yet."""
        self._place_at_s = 0.0
        self._failures = 0
        self._error: Exception | None = None
        self._woken = threading.Event()

    # From any thread

    def wake(self) -> None:
        """Let `poll` return soon, unless it waits for other members of the group."""
        self._woken.set()
        self._reader.wake()

    def stop(self) -> None:
        """Let `poll` return soon, and not join the group any more; `close` follows."""
        self._membership.stop()
        self.wake()

    # From the owner's thread

    def poll(self, timeout_s: float) -> list[ConsumedRecord]:
        """Return records, or none once ``timeout_s`` is over or `wake` was called.

        A rebalance takes as long as the other members need, which may be longer.

        Raises ClientError if a retry cannot help, and what the listener raised.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._membership.poll(0.0)
            if self._membership.refusal is not None:
                raise self._membership.refusal
            self._check_topics()
            self._place_partitions()
            self._raise_error()
            records = self._reader.take(self._settings.max_records)
            if records:
                self._fetch_ahead()
            left_s = deadline_s - time.monotonic()
            if records or left_s <= 0 or self._woken.is_set():
                self._woken.clear()
                return records
            self._wait(min(left_s, _SLICE_S))

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets as this member. Raises ClientError, for example because it is no member any more."""
        joined = self._joined
        by_topic: dict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]] = {}
        for tp, offset in offsets.items():
            by_topic.setdefault(tp.topic, []).append(
                OffsetCommitRequest.OffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=offset,
                    committed_leader_epoch=-1,
                    committed_metadata="",
                )
            )
        request = OffsetCommitRequest(
            group_id=self._settings.group_id,
            generation_id_or_member_epoch=-1 if joined is None else joined.generation,
            member_id="" if joined is None else joined.member_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=partitions)
                for name, partitions in by_topic.items()
            ],
        )

        def ask() -> None:
            response = self._coordinator.call(request, OffsetCommitResponse, newest=_BY_NAME_VERSION)
            for topic in response.topics:
                for answer in topic.partitions:
                    if answer.error_code:
                        where = f"commit of {topic.name}-{answer.partition_index}"
                        raise error_from(answer.error_code, f"{where} in group '{self._settings.group_id}'")

        self._coordinator.retry(ask)

    @property
    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now."""
        return self._reader.partitions

    def position(self, tp: TopicPartition) -> int:
        """The offset of the next record of an assigned partition. Raises KeyError for another."""
        return self._reader.position(tp)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Read an assigned partition from another offset. Raises KeyError for another partition."""
        self._reader.seek(tp, offset)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Return no records of assigned partitions until `resume`. Raises KeyError for others."""
        self._reader.pause(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        """Return records of paused partitions again. Raises KeyError for partitions that are not assigned."""
        self._reader.pause(partitions, is_paused=False)

    def close(self) -> None:
        """Leave the group; the listener gets nothing any more."""
        self._reader.assign({})
        self._membership.close()
        self._reader.close()
        for cluster in (self._cluster, self._committing):
            cluster.close()

    # Topics

    def _check_topics(self) -> None:
        """Look for new topics and partitions from time to time, and rejoin the group if there are some."""
        now_s = time.monotonic()
        if now_s < self._look_at_s or self._membership.joined is None:
            return
        self._look_at_s = now_s + _MISSING_S
        try:
            counts = self._find_topics()
        except ClientError as error:
            log.warning("cannot look for topics, retrying group=%s error=%s", self._settings.group_id, error)
            return
        if counts != self._counts:
            self._membership.request_rejoin("the topics or their partitions have changed")

    def _find_topics(self) -> dict[str, int]:
        """The topics that this member reads and that exist, with their numbers of partitions."""
        if callable(self._topics):
            found = self._cluster.refresh().topics
            names = [name for name, topic in found.items() if not topic.is_internal and self._topics(name)]
        else:
            found = self._cluster.refresh(self._topics, create=True).topics
            names = [name for name in self._topics if name in found]
        counts = {name: len(found[name].partitions) for name in names}
        is_complete = callable(self._topics) or len(counts) == len(set(self._topics))
        wait_s = self._cluster.config.metadata_max_age_ms / 1000
        self._look_at_s = time.monotonic() + (wait_s if is_complete else min(wait_s, _MISSING_S))
        return counts

    # Records

    def _fetch_ahead(self) -> None:
        """Ask for the next records while the owner works on these; the next `poll` handles failures."""
        with contextlib.suppress(ClientError):
            self._reader.ask()

    def _wait(self, timeout_s: float) -> None:
        try:
            self._reader.wait(timeout_s)
        except ClientError as error:
            if not (error.retriable or isinstance(error, UnknownPartition)):
                raise
            self._failures += 1
            if self._failures == 1:
                log.warning("a fetch failed, retrying group=%s error=%s", self._settings.group_id, error)
            self._woken.wait(min(timeout_s, self._cluster.policy.backoff_s(self._failures)))
            self._cluster.forget({tp.topic for tp in self.assignment})
        else:
            self._failures = 0
        if self._reader.take_missed():
            self._look_at_s = 0.0  # a topic was deleted: join again with those that are left

    def _reset(self, error: OffsetOutOfRange) -> int:
        log.info("a position is outside of the log, resetting to %s error=%s", self._settings.reset, error)
        tp = TopicPartition(error.topic, error.partition)
        return self._reset_positions([tp], error)[tp]

    def _reset_positions(
        self, partitions: Collection[TopicPartition], error: ClientError | None = None
    ) -> dict[TopicPartition, int]:
        if self._settings.reset == "none" and partitions:
            named = ", ".join(map(str, sorted(partitions)))
            raise _NoOffset(f"no offset is committed for {named}, and 'auto.offset.reset' is none") from error
        timestamp = LATEST if self._settings.reset == "latest" else EARLIEST
        listed = list_offsets(self._cluster, dict.fromkeys(partitions, timestamp), self._isolation)
        return {tp: each.offset for tp, each in listed.items()}

    def _first_positions(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where to begin in partitions without a committed offset; the others remain in `_unplaced`.

        Raises ClientError if a retry cannot help.
        """
        self._unplaced = set(partitions)
        self._place_at_s = time.monotonic() + _PLACE_S
        try:
            by_node, failures = self._cluster.find_leaders(partitions)
            positions = self._reset_positions([tp for led in by_node.values() for tp in led])
        except ClientError as error:
            if not (error.retriable or isinstance(error, UnknownPartition)):
                raise
            log.warning("positions are unknown, retrying group=%s error=%s", self._settings.group_id, error)
            return {}
        if any(isinstance(failure, UnknownPartition) for failure in failures.values()):
            self._look_at_s = 0.0
        self._unplaced -= positions.keys()
        return positions

    def _place_partitions(self) -> None:
        """Begin with partitions that had no leader when they were assigned, and tell the listener."""
        if not self._unplaced or time.monotonic() < self._place_at_s:
            return
        positions = self._first_positions(self._unplaced)
        if positions:
            self._reader.add(positions)
            self._call(lambda: self._listener.assigned(sorted(positions)))

    # The membership calls these methods

    def protocols(self) -> Mapping[str, bytes]:
        self._counts = self._find_topics()
        names = self._counts if callable(self._topics) else self._topics
        return {RANGE: encode_subscription(names)}

    def assign(self, joined: Joined, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        subscriptions = {member_id: subscribed_topics(data) for member_id, data in members.items()}
        names = {name for topics in subscriptions.values() for name in topics}
        found = self._cluster.refresh(names).topics
        counts = {name: len(found[name].partitions) for name in names if name in found}
        # Topics may have changed since this member joined: what is assigned now is compared from now on.
        own = self._counts if callable(self._topics) else self._topics
        self._counts = {name: counts[name] for name in own if name in counts}
        assigned = assign_ranges(subscriptions, counts)
        return {member_id: encode_assignment(partitions) for member_id, partitions in assigned.items()}

    def assigned(self, joined: Joined, assignment: bytes) -> None:
        partitions = decode_assignment(assignment)
        committed = self._cluster.retry(lambda: self._committed.committed(partitions))
        positions = {tp: each.offset for tp, each in committed.items()}
        try:
            positions |= self._first_positions([tp for tp in partitions if tp not in positions])
        except _NoOffset as error:
            self._error = error
        self._reader.assign(positions)
        self._joined = joined
        self._call(lambda: self._listener.assigned(sorted(positions)))

    def rebalancing(self) -> None:
        self._remove(self._listener.revoked if self._membership.is_known else self._listener.lost)

    def lost(self) -> None:
        self._joined = None
        self._remove(self._listener.lost)

    def _remove(self, notify: Callable[[Collection[TopicPartition]], None]) -> None:
        removed = sorted(self.assignment)
        if removed:
            self._call(lambda: notify(removed))
        self._reader.assign({})
        self._unplaced.clear()
        self._joined = None

    def _call(self, notify: Callable[[], None]) -> None:
        try:
            notify()
        except Exception as error:
            self._error = self._error or error

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error


class _NoOffset(ClientError):
    """A partition has no committed offset, and the settings name no other place to begin."""
