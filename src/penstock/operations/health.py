"""The health of a cluster: the load of each broker, and the partitions that need an operator's attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.client.admin.brokers import Broker, describe_cluster
from penstock.client.admin.configs import ConfigResource, ResourceType, describe_configs
from penstock.client.admin.quorum import QuorumDescription, describe_quorum
from penstock.client.admin.reassignments import OngoingReassignment, list_reassignments
from penstock.client.admin.replicas import PartitionReplicas, describe_topics, partitions_of
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition

MIN_ISR: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """The numbers of partitions at one broker.

    It leads `leaders`, and would lead `preferred_leaders` if each partition were led by its first replica. It
    holds `replicas`, of which `out_of_sync` are not in sync.
    """

    leaders: int = 0
    preferred_leaders: int = 0
    replicas: int = 0
    out_of_sync: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """A snapshot of the cluster. A partition appears in each list whose condition it meets."""

    cluster_id: str
    brokers: list[Broker]
    quorum: QuorumDescription
    partitions: Mapping[TopicPartition, PartitionReplicas]
    moving: Mapping[TopicPartition, OngoingReassignment]
    loads: Mapping[int, BrokerLoad]
    under_replicated: list[TopicPartition] = field(default_factory=list)
    under_min_isr: list[TopicPartition] = field(default_factory=list)
    offline: list[TopicPartition] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Whether every partition has a leader and all replicas in sync, and no partition is moving."""
        return not (self.under_replicated or self.offline or self.moving)


def health(cluster: Cluster) -> Health:
    """Describe the cluster. Raises ServerError."""
    described = describe_cluster(cluster)
    topics = describe_topics(cluster)
    partitions = partitions_of(topics)
    moving = list_reassignments(cluster)
    minimum = _min_isr(cluster, list(topics))
    found = Health(
        described.cluster_id,
        described.brokers,
        describe_quorum(cluster),
        partitions,
        moving,
        broker_loads([broker.broker_id for broker in described.brokers], partitions),
    )
    for tp, partition in partitions.items():
        # Replicas that are still being copied don't count: a partition that only moves is no problem.
        adding = moving[tp].adding if tp in moving else ()
        settled = [replica for replica in partition.replicas if replica not in adding]
        if not set(settled) <= set(partition.isr):
            found.under_replicated.append(tp)
        if len(partition.isr) < min(minimum.get(tp.topic, 1), len(settled)):
            found.under_min_isr.append(tp)
        if partition.is_offline:
            found.offline.append(tp)
    return found


def broker_loads(
    broker_ids: list[int], partitions: Mapping[TopicPartition, PartitionReplicas]
) -> dict[int, BrokerLoad]:
    """The load of each broker, including brokers outside *broker_ids* that hold replicas. Pure."""
    held = {replica for partition in partitions.values() for replica in partition.replicas}
    loads = {}
    for broker in sorted({*broker_ids, *held}):
        holds = [partition for partition in partitions.values() if broker in partition.replicas]
        loads[broker] = BrokerLoad(
            leaders=sum(partition.leader_id == broker for partition in holds),
            preferred_leaders=sum(partition.replicas[0] == broker for partition in holds),
            replicas=len(holds),
            out_of_sync=sum(broker not in partition.isr for partition in holds),
        )
    return loads


def _min_isr(cluster: Cluster, topics: list[str]) -> dict[str, int]:
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    return {
        resource.name: int(config.value)
        for resource, configs in describe_configs(cluster, resources, [MIN_ISR]).items()
        for config in configs
        if config.name == MIN_ISR and config.value is not None
    }
