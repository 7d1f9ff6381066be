"""Replication on one node: the partitions that it leads with followers, and the leaders that it follows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from penstock.broker.following.alter_partition import AlterPartitionManager
from penstock.broker.following.fetcher import FetcherSettings
from penstock.broker.following.fetchers import Fetchers
from penstock.broker.following.image_brokers import ImageBrokers
from penstock.broker.following.throttle import ReplicationThrottle
from penstock.metadata.configs.support import RACK_AWARE_SELECTOR
from penstock.protocol.errors import KafkaError

if TYPE_CHECKING:
    from penstock.broker.following.alter_partition import Controller
    from penstock.broker.following.leader_session import PartitionKey
    from penstock.broker.partitions.leadership import IsrProposal
    from penstock.broker.partitions.replica import Replica
    from penstock.broker.partitions.replicated_partition import ReplicatedPartition
    from penstock.broker.peers import Peer
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.image import MetadataImage

log = logging.getLogger(__name__)

ConnectPeer = Callable[[str, int, int, str], "Peer"]
"""(host, port, node id, client id) → a peer that is not connected yet."""


class Replication:
    """The replication of one node. It does nothing until a partition has several replicas.

    It belongs to the event loop.

    Args:
        image: returns the cluster's current metadata.
        own_epoch: returns the epoch of this broker's registration.
        controller: returns the connection to the active controller, called when one is needed.
        connect: makes a connection to another broker, used for fetches alone.
        settled: with `penstock.acks.fsync`, waits until the appended records are durable, before the leader
            learns of them; raises StorageFailed.
        note_log_starts: writes down the start offsets of all logs; raises OSError.
    """

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        image: Callable[[], MetadataImage],
        own_epoch: Callable[[], int],
        controller: Callable[[], Controller],
        connect: ConnectPeer,
        settled: Callable[[], Awaitable[None]] | None,
        note_log_starts: Callable[[], Awaitable[None]],
    ) -> None:
        self.settled = settled
        self.note_log_starts = note_log_starts
        self.node_id = config.node_id
        self.loop = loop
        self.brokers = ImageBrokers(image, own_epoch)
        self.lag_time_max_ms = config.get_int("replica.lag.time.max.ms")
        self.silence_max_ms = max(
            config.get_int("broker.session.timeout.ms") - 2 * config.get_int("broker.heartbeat.interval.ms"),
            2 * config.get_int("replica.fetch.wait.max.ms"),
        )
        """A leader whose followers are silent for longer may have been fenced and replaced."""
        self.sends_to_nearest = config["replica.selector.class"] == RACK_AWARE_SELECTOR
        self.fetcher_settings = _fetcher_settings(config)
        samples = config.get_int("replication.quota.window.num")
        sample_ms = config.get_int("replication.quota.window.size.seconds") * 1000
        self.leader_throttle = ReplicationThrottle(samples, sample_ms, self.now_ms)
        self.follower_throttle = ReplicationThrottle(samples, sample_ms, self.now_ms)
        self.alter_partition = AlterPartitionManager(self.node_id, controller, own_epoch, loop)
        self.fetchers = Fetchers(self, config.get_int("num.replica.fetchers"))
        self._image = image
        self._own_epoch = own_epoch
        self._connect = connect
        self._listener = config.inter_broker_listener_name
        self._replicated: dict[PartitionKey, ReplicatedPartition] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.reconfigure(config)

    def now_ms(self) -> float:
        """The loop's monotonic clock."""
        return self.loop.time() * 1000

    @property
    def own_epoch(self) -> int:
        return self._own_epoch()

    def __iter__(self) -> Iterator[ReplicatedPartition]:
        return iter(list(self._replicated.values()))

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply broker configs that changed (KIP-226)."""
        self.leader_throttle.bytes_per_second_max = config.get_int("leader.replication.throttled.rate")
        self.follower_throttle.bytes_per_second_max = config.get_int("follower.replication.throttled.rate")
        for key, partition in self.fetchers.resize(config.get_int("num.replica.fetchers")):
            self._start_fetching(key, partition)
        self.close_idle_fetchers()

    def throttle_topic(self, topic: str, leader_replicas: list[str], follower_replicas: list[str]) -> None:
        """Apply a topic's lists of throttled replicas."""
        self.leader_throttle.mark(topic, leader_replicas, self.node_id)
        self.follower_throttle.mark(topic, follower_replicas, self.node_id)

    # --- added, changed and removed partitions

    def follow_change(self, replica: Replica, changed: bool) -> None:
        """Start or stop fetching according to the replica's role; `changed` if that role is new."""
        key = (replica.topic_id, replica.partition)
        partition = replica.replicated
        if partition is None:
            self._replicated.pop(key, None)
            self.fetchers.leave(key)
            return
        self._replicated[key] = partition
        self._start_timer()
        if replica.is_leader:
            self.fetchers.leave(key)
        elif changed or key not in self.fetchers:
            self.fetchers.leave(key)
            self._start_fetching(key, partition)

    def forget(self, replica: Replica) -> None:
        """Stop replicating a replica that this node no longer serves."""
        key = (replica.topic_id, replica.partition)
        self.fetchers.leave(key)
        partition = self._replicated.pop(key, None)
        if partition is not None:
            partition.follow()

    def _start_fetching(self, key: PartitionKey, partition: ReplicatedPartition) -> None:
        replica = partition.replica
        if replica.leader_id < 0:
            return
        try:
            self.fetchers.follow(key, partition)
        except KafkaError as error:
            log.error(
                "cannot follow a partition topic=%s partition=%d error=%s",
                replica.topic,
                replica.partition,
                error,
            )

    def close_idle_fetchers(self) -> None:
        """Close the fetchers of leaders that lead no partition here any more, after a metadata change."""
        self.fetchers.close_idle()

    def brokers_changed(self) -> None:
        """Recompute the watermarks after brokers were fenced or unfenced."""
        for partition in self:
            partition.brokers_changed()

    async def close(self) -> None:
        """Stop following all leaders and cancel requests in flight."""
        if self._timer is not None:
            self._timer.cancel()
        await self.alter_partition.close()
        await self.fetchers.close()

    # --- what leaders and followers need from the node

    def alter(self, partition: ReplicatedPartition, proposal: IsrProposal) -> None:
        self.alter_partition.submit(partition, proposal)

    def peer(self, leader_id: int, former: Peer | None, fetcher: int) -> Peer | None:
        """A fetcher's connection to a broker's registered endpoint: `former` if that is still correct."""
        broker = self._image().brokers.get(leader_id)
        endpoint = broker.endpoint(self._listener) if broker is not None else None
        if former is not None:
            if endpoint is not None and (former.host, former.port) == (endpoint.host, endpoint.port):
                return former
            former.close()
        if endpoint is None:
            return None
        client_id = f"broker-{self.node_id}-fetcher-{fetcher}"
        return self._connect(endpoint.host, endpoint.port, leader_id, client_id)

    # --- in-sync replicas

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.lag_time_max_ms / 2000, self._on_timer)

    def _on_timer(self) -> None:
        """Propose to remove lagging replicas; runs twice within `replica.lag.time.max.ms`."""
        assert self._timer is not None
        late_ms = self.now_ms() - self._timer.when() * 1000
        self._timer = None
        if self._replicated:
            self._start_timer()
        if late_ms > self.lag_time_max_ms / 4:
            return  # the machine stood still: handle the fetches that arrived meanwhile first
        for partition in self:
            partition.shrink_if_lagging()


def _fetcher_settings(config: BrokerConfig) -> FetcherSettings:
    values = (config.get_int(name.replace("_", ".")) for name in FetcherSettings._fields)
    return FetcherSettings(*values)
