"""Metrics that operators of several nodes set alerts on: replication, elections, the quorum.

The leader of a partition counts it, and only the active controller reports the state of the whole cluster, so
that sums over all nodes are correct. The names are Apache Kafka's, in Prometheus style.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from penstock.metadata.image.topics import NO_LEADER

if TYPE_CHECKING:
    from penstock.broker.control.metadata_follower import MetadataFollower
    from penstock.broker.metrics.host import MetricsHost
    from penstock.broker.partitions.replica import Replica
    from penstock.broker.quorum.quorum import Quorum
    from penstock.metadata.image import MetadataDelta, MetadataImage, PartitionRegistration


class Elections:
    """The leader changes in the metadata log while this node was the active controller."""

    def __init__(self, metadata: MetadataFollower, quorum: Quorum) -> None:
        self.clean = 0
        self.unclean = 0
        self._image = metadata.image
        self._quorum = quorum
        self._known: dict[tuple[bytes, int], PartitionRegistration] = {
            (topic.topic_id, number): partition
            for topic in self._image.topics
            for number, partition in topic.partitions.items()
        }
        metadata.on_image_change(self._changed)

    def _changed(self, delta: MetadataDelta) -> None:
        for topic in delta.deleted_topics:
            for number in topic.partitions:
                self._known.pop((topic.topic_id, number), None)
        for key in delta.changed_partitions:
            topic_id, number = key
            now = self._image.topics.by_id[topic_id].partitions[number]
            before = self._known.get(key)
            self._known[key] = now
            if before is None or now.leader in (NO_LEADER, before.leader) or not self._quorum.is_leader:
                continue
            if now.leader in before.isr or now.leader in before.elr:
                self.clean += 1
            else:
                self.unclean += 1


def cluster_metrics(host: MetricsHost, elections: Elections) -> Iterator[Metric]:
    """All cluster metrics. They are read in the thread that scrapes them."""
    yield from _partitions(host)
    yield from _replication(host)
    yield from _whole_cluster(host.image, host.quorum.is_leader, elections)
    yield from _quorum(host)


def _partitions(host: MetricsHost) -> Iterable[Metric]:
    led = [replica for replica in list(host.replicas) if replica.is_leader]
    image = host.image
    under_replicated = under_min_isr = at_min_isr = reassigning = 0
    for replica in led:
        registration = image.topics.partition(replica.topic, replica.partition)
        if registration is None:
            continue  # deleted at this moment
        settled = len(registration.replicas) - len(registration.adding_replicas)
        in_sync = len(registration.isr)
        under_replicated += in_sync < settled
        under_min_isr += in_sync < _min_isr(replica)
        at_min_isr += in_sync == _min_isr(replica)
        reassigning += registration.is_reassigning
    for name, text, value in (
        ("partitions_led", "Partitions that this node leads.", len(led)),
        (
            "under_replicated_partitions",
            "Led partitions with replicas that are not in sync.",
            under_replicated,
        ),
        (
            "under_min_isr_partitions",
            "Led partitions with fewer in-sync replicas than min.insync.replicas.",
            under_min_isr,
        ),
        ("at_min_isr_partitions", "Led partitions with exactly min.insync.replicas in sync.", at_min_isr),
        ("reassigning_partitions", "Led partitions that are being reassigned.", reassigning),
    ):
        yield GaugeMetricFamily(f"penstock_{name}", text, value)


def _min_isr(replica: Replica) -> int:
    return min(replica.config.min_insync_replicas, replica.replica_count)


def _replication(host: MetricsHost) -> Iterable[Metric]:
    replication = host.replication
    stats = replication.alter_partition.stats
    yield CounterMetricFamily(
        "penstock_isr_shrinks", "Shrinks of the in-sync replicas by this leader.", stats.shrinks
    )
    yield CounterMetricFamily(
        "penstock_isr_expands", "Expansions of the in-sync replicas by this leader.", stats.expands
    )
    yield CounterMetricFamily(
        "penstock_isr_updates_failed",
        "Changes of in-sync replicas that the controller refused.",
        stats.failed,
    )
    followings = [fetcher.following for fetcher in replication.fetchers]
    lag = max((followed.lag or 0 for following in followings for followed in list(following)), default=0)
    yield GaugeMetricFamily(
        "penstock_replica_lag_max", "Records by which the most lagging replica of this node is behind.", lag
    )


def _whole_cluster(image: MetadataImage, is_active: bool, elections: Elections) -> Iterable[Metric]:
    yield GaugeMetricFamily("penstock_active_controller", "1 on the active controller.", int(is_active))
    brokers = GaugeMetricFamily(
        "penstock_brokers", "Registered brokers, on the active controller.", labels=["state"]
    )
    registered = list(image.brokers.values()) if is_active else []
    for state, is_fenced in (("active", False), ("fenced", True)):
        brokers.add_metric([state], sum(broker.fenced is is_fenced for broker in registered))
    yield brokers
    partitions = (
        [p for topic in list(image.topics) for p in list(topic.partitions.values())] if is_active else []
    )
    for name, text, value in (
        ("offline_partitions", "without a leader", sum(p.leader == NO_LEADER for p in partitions)),
        (
            "preferred_replica_imbalance",
            "not led by their first replica",
            sum(not p.has_preferred_leader for p in partitions),
        ),
        ("cluster_partitions", "in total", len(partitions)),
    ):
        yield GaugeMetricFamily(f"penstock_{name}", f"Partitions {text}, on the active controller.", value)
    yield CounterMetricFamily(
        "penstock_leader_elections",
        "Leaders elected by this controller.",
        elections.clean + elections.unclean,
    )
    yield CounterMetricFamily(
        "penstock_unclean_leader_elections",
        "Elections of replicas that were not in sync, which may lose records.",
        elections.unclean,
    )


def _quorum(host: MetricsHost) -> Iterable[Metric]:
    quorum = host.quorum
    leader_id = quorum.leader_id
    for name, text, value in (
        ("quorum_epoch", "The epoch of the metadata quorum.", quorum.epoch),
        (
            "quorum_leader",
            "The leader of the metadata quorum; -1 if it is unknown.",
            -1 if leader_id is None else leader_id,
        ),
        ("metadata_log_end_offset", "The end offset of this node's metadata log.", quorum.log_end_offset),
        ("metadata_high_watermark", "The high watermark of the metadata log.", quorum.high_watermark),
        (
            "metadata_applied_offset",
            "The offset of the last metadata record that this node has applied.",
            host.image.offset,
        ),
    ):
        yield GaugeMetricFamily(f"penstock_{name}", text, value)
