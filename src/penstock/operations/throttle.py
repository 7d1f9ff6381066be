"""Limit the replication of moving partitions, and remove the limit again (KIP-73).

A limit consists of two configurations of each broker, and on each topic the replicas that it applies to:
those that lead the moving partitions or could, and those that are being copied. All other replication runs at
full speed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from penstock.client.admin.configs import ConfigResource, ResourceType, alter_configs, describe_configs
from penstock.client.connections.cluster import Cluster
from penstock.operations.placement import Assignment

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


def throttle_changes(
    current: Assignment, planned: Assignment, bytes_per_s: int
) -> dict[ConfigResource, dict[str, str | None]]:
    """The configurations that limit each broker to *bytes_per_s* as leader and as follower. Pure."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    brokers: set[int] = set()
    for tp, replicas in sorted(planned.items()):
        adding = [broker for broker in replicas if broker not in current[tp]]
        if not adding:
            continue
        brokers.update(current[tp], replicas)
        leaders.setdefault(tp.topic, []).extend(f"{tp.partition}:{broker}" for broker in current[tp])
        followers.setdefault(tp.topic, []).extend(f"{tp.partition}:{broker}" for broker in adding)
    changes: dict[ConfigResource, dict[str, str | None]] = {
        ConfigResource(ResourceType.TOPIC, topic): {
            LEADER_REPLICAS: ",".join(leaders[topic]),
            FOLLOWER_REPLICAS: ",".join(followers[topic]),
        }
        for topic in leaders
    }
    for broker in sorted(brokers):
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        changes[resource] = {LEADER_RATE: str(bytes_per_s), FOLLOWER_RATE: str(bytes_per_s)}
    return changes


def throttle(cluster: Cluster, current: Assignment, planned: Assignment, bytes_per_s: int) -> None:
    """Limit the moves of a plan before they begin. Raises ServerError. Unreachable brokers are skipped."""
    cluster.refresh([])
    alter_configs(cluster, throttle_changes(current, planned, bytes_per_s))


def unthrottle(cluster: Cluster, topics: Collection[str], broker_ids: Collection[int]) -> int:
    """Remove every such limit of these topics and brokers; returns how many of them had one.

    Unreachable brokers are skipped. Raises ServerError.
    """
    wanted: Mapping[ConfigResource, tuple[str, ...]] = {
        **{ConfigResource(ResourceType.TOPIC, t): (LEADER_REPLICAS, FOLLOWER_REPLICAS) for t in topics},
        **{ConfigResource(ResourceType.BROKER, str(b)): (LEADER_RATE, FOLLOWER_RATE) for b in broker_ids},
    }
    names = (LEADER_RATE, FOLLOWER_RATE, LEADER_REPLICAS, FOLLOWER_REPLICAS)
    changes: dict[ConfigResource, dict[str, str | None]] = {}
    for resource, configs in describe_configs(cluster, list(wanted), names).items():
        own = [config.name for config in configs if config.is_own and config.name in wanted[resource]]
        if own:
            changes[resource] = dict.fromkeys(own)
    alter_configs(cluster, changes)
    return len(changes)
