"""Checks that a query's options still fit its checkpoint.

Spark writes the end of a batch to its offset log before it asks for the batch's tasks, and never changes that
entry. An end that leaves out partitions would therefore stay: with the right options again, their records
would count as lost, and then be read again from the beginning. So these checks come before Spark has an end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import groupby

from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.settings import ConfigError
from penstock.spark.source.checkpointed import Checkpointed
from penstock.spark.source.subscription import Subscription


def require_same_cluster(start: Checkpointed, cluster_id: str | None, servers: str) -> None:
    """Raise ConfigError if the offsets in the checkpoint are those of another cluster."""
    if start.cluster_id is None or cluster_id is None or start.cluster_id == cluster_id:
        return
    raise ConfigError(
        f"the query's checkpoint has offsets in the cluster {start.cluster_id}, but option "
        f"'kafka.bootstrap.servers', {servers}, now names the cluster {cluster_id}. The checkpoint is "
        "unchanged: set the addresses of the former cluster again, or start with a new checkpoint"
    )


def require_same_subscription(
    start: Checkpointed, end: Checkpointed, subscription: Subscription, cluster: Cluster
) -> None:
    """Raise ConfigError if the end that Spark asks for leaves out partitions that exist."""
    if left_out := _left_out(start, end, cluster):
        raise ConfigError(
            f"the query's checkpoint has offsets of {_named(start.offsets)}, but '{subscription}' leaves out "
            f"{_named(left_out)}, which exist. The checkpoint is unchanged: start the query with a "
            "subscription that includes them, as before. To read fewer topics, start with a new checkpoint; "
            "startingOffsets can name the offsets to continue from"
        )


def require_whole_entry(start: Checkpointed, end: Checkpointed, cluster: Cluster) -> None:
    """Raise ConfigError if the end in Spark's offset log leaves out partitions that exist.

    Releases before 0.3 logged such an end when the subscription had changed.
    """
    if left_out := _left_out(start, end, cluster):
        raise ConfigError(
            f"the last batch in the offset log of the query's checkpoint leaves out {_named(left_out)}, "
            "which exist: it was planned with another subscription, and would make the query read them again "
            "from the beginning. Delete the file with the highest number in the checkpoint's directory "
            "'offsets', if 'commits' has no file of that name, and start the query with a subscription that "
            "includes them"
        )


def _left_out(start: Checkpointed, end: Checkpointed, cluster: Cluster) -> list[TopicPartition]:
    """The partitions that only ``start`` has although they exist, in the topics that it means."""
    gone = start.still_there(end).keys() - end.offsets.keys()
    if not gone:
        return []
    topics = cluster.refresh({tp.topic for tp in gone}).topics
    return [
        tp
        for tp in sorted(gone)
        if tp.topic in topics
        and tp.partition in topics[tp.topic].partitions
        and start.topic_id(tp.topic) in (None, topics[tp.topic].topic_id)
    ]


def _named(partitions: Collection[TopicPartition]) -> str:
    """Name the topics, with the numbers of their partitions."""

    def numbers(of: Iterable[TopicPartition]) -> str:
        return ", ".join(str(tp.partition) for tp in of)

    topics = groupby(sorted(partitions), key=lambda tp: tp.topic)
    return "; ".join(f"{topic} (partitions {numbers(of)})" for topic, of in topics)
