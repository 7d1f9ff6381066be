"""The current ends of partitions, cheap enough to be requested a hundred times a second.

Spark asks an idle streaming source for its latest offset every 10 ms. While nothing is new, a fetch waits at
each broker (a long poll), and asking costs only a check of the socket. Once a fetch is answered, after
`MAX_AGE_S` at the latest, the offsets are listed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.connection import Connection
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, UnknownPartition
from penstock.client.reading.offsets import LATEST, IsolationLevel, list_offsets
from penstock.protocol.messages import FetchRequest, FetchResponse
from penstock.spark.source.checkpointed import Checkpointed, GroupRef, ids_of
from penstock.spark.source.offsets import Offsets
from penstock.spark.source.subscription import Subscription

MAX_AGE_S: Final = 1.0
"""The duration of a long poll, and the longest time until new partitions and topics are noticed."""
_WAKE_BYTES: Final = 1
_DELETED_MEANWHILE_MAX: Final = 3


class Ends(Protocol):
    """The ends of some partitions, with what else a checkpoint holds about them. Used by one thread."""

    @property
    def last_listed(self) -> Offsets: ...

    def ends(self, known: Offsets) -> Offsets:
        """The current ends; the offsets ``known`` to the caller decide whether a request is needed."""
        ...

    def list_now(self) -> None:
        """Request the ends from the leaders. Raises ClientError."""
        ...

    def checkpointed(self, offsets: Offsets, group: GroupRef | None) -> Checkpointed:
        """Add what a checkpoint keeps with them to the ``offsets`` of listed partitions."""
        ...

    def close(self) -> None: ...


class Tail:
    """The ends of one subscription's partitions, listed for a single reader."""

    def __init__(
        self,
        cluster: Cluster,
        subscription: Subscription,
        isolation: IsolationLevel,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._isolation = isolation
        self._clock = clock
        self._listed: Offsets = {}
        self._listed_at = -MAX_AGE_S
        self._partitions: list[TopicPartition] = []
        self._partitions_at = -MAX_AGE_S
        self._watches: dict[int, Connection] = {}

    def close(self) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()

    @property
    def last_listed(self) -> Offsets:
        return self._listed

    def ends(self, known: Offsets) -> Offsets:
        if known == self._listed and not self._is_due():
            return dict(self._listed)
        self.list_now()
        if known == self._listed:
            self._watch()
        return dict(self._listed)

    def list_now(self) -> None:
        now = self._clock()
        for attempts_left in reversed(range(_DELETED_MEANWHILE_MAX)):
            if now - self._partitions_at >= MAX_AGE_S:
                self._partitions = self._subscription.partitions(self._cluster)
                self._partitions_at = now
            try:
                listed = list_offsets(self._cluster, dict.fromkeys(self._partitions, LATEST), self._isolation)
                break
            except UnknownPartition:  # deleted since it was listed; planning decides what that means
                if not attempts_left:
                    raise
                self._partitions_at = -MAX_AGE_S
        self._listed = {tp: found.offset for tp, found in listed.items()}
        self._listed_at = now

    def checkpointed(self, offsets: Offsets, group: GroupRef | None) -> Checkpointed:
        metadata = self._cluster.metadata
        named = ids_of({tp.topic for tp in offsets}, metadata)
        return Checkpointed(offsets, named, group, metadata.cluster_id)

    def _is_due(self) -> bool:
        """Whether the ends may have changed since they were listed."""
        for node_id, watch in list(self._watches.items()):
            if not watch.readable():
                continue
            try:
                if watch.in_flight:
                    watch.receive(FetchResponse)
                    continue
            except ClientError:
                pass
            self._watches.pop(node_id).close()  # failed, or the server closed it while nothing was asked
        # A connection with a response watches no more, until a listing finds nothing new.
        is_watched = bool(self._watches) and all(watch.in_flight for watch in self._watches.values())
        return not is_watched or self._clock() - self._listed_at >= 2 * MAX_AGE_S

    def _watch(self) -> None:
        """Leave a fetch waiting at the ends with every leader; on an error the next call lists again."""
        try:
            for node_id, partitions in self._cluster.leaders(self._partitions).items():
                if node_id not in self._watches:
                    self._watches[node_id] = self._cluster.open_connection(node_id)
                if not self._watches[node_id].in_flight:
                    self._watches[node_id].send(self._request(partitions))
        except ClientError:
            self.close()

    def _request(self, partitions: list[TopicPartition]) -> FetchRequest:
        topics: dict[str, FetchRequest.FetchTopic] = {}
        for tp in partitions:
            if tp.topic not in topics:
                topics[tp.topic] = FetchRequest.FetchTopic(
                    topic=tp.topic, topic_id=self._cluster.metadata.topics[tp.topic].topic_id, partitions=[]
                )
            topics[tp.topic].partitions.append(
                FetchRequest.FetchPartition(
                    partition=tp.partition,
                    current_leader_epoch=-1,
                    fetch_offset=self._listed[tp],
                    partition_max_bytes=_WAKE_BYTES,
                )
            )
        return FetchRequest(
            max_wait_ms=int(MAX_AGE_S * 1000),
            min_bytes=1,
            max_bytes=_WAKE_BYTES,
            isolation_level=self._isolation,
            session_epoch=-1,
            topics=list(topics.values()),
        )
