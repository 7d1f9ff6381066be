"""Reset an application to its beginning, as Kafka Streams' application reset tool does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.client.admin.topics import delete_topics
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.groups.consumer_group import CommittedOffset, ConsumerGroup
from penstock.client.reading.offsets import EARLIEST, list_offsets
from penstock.spark.sink.locations import Location
from penstock.spark.streams.running.checkpoint import CheckpointMismatch, read_kept
from penstock.spark.streams.running.preparation import client_properties
from penstock.topology.graph import Topology


class CheckpointOfAnother(CheckpointMismatch):
    """The checkpoint does not belong to the application, and is not changed."""


@dataclass(frozen=True, slots=True)
class Reset:
    """The result of a reset: the deleted topics, and the partitions set to their beginning."""

    deleted_topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]


def reset(
    topology: Topology,
    *,
    bootstrap_servers: str,
    checkpoint: str | Path | None = None,
    options: Mapping[str, str] | None = None,
) -> Reset:
    """Delete the application's own topics and its checkpoint, and set its group to the beginning.

    The application must not be running. Its output topics stay. ``options`` are ``kafka.…`` properties of the
    client, as for `start`.

    Raises GroupInUse, ServerError, CheckpointMismatch, CheckpointOfAnother.
    """
    config = ClientConfig.from_properties(client_properties(bootstrap_servers, options or {}))
    with Cluster(config) as cluster:
        group = ConsumerGroup(cluster, topology.application)
        cluster.retry(group.require_no_members)
        if checkpoint is not None:
            _remove_checkpoint(topology.application, str(checkpoint))
        owned = {topology.topic(name) for name in topology.repartitions}
        owned |= {topology.changelog_topic(spec.name) for spec in topology.stores.values() if spec.logged}
        there = cluster.refresh(sorted(owned)).topics.keys() & owned
        delete_topics(cluster, there)
        read = sorted(topology.source_topics().keys() - owned - topology.frames.keys())
        found = cluster.refresh(read).topics
        partitions = [
            TopicPartition(name, n) for name in read if name in found for n in found[name].partitions
        ]
        begins = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
        offsets = {tp: CommittedOffset(at.offset) for tp, at in begins.items()}
        cluster.retry(lambda: group.commit(offsets))
        return Reset(tuple(sorted(there)), tuple(sorted(offsets)))


def _remove_checkpoint(application: str, checkpoint: str) -> None:
    where = Location.open(checkpoint, "checkpoint")
    kept = read_kept(where)
    if kept is not None:
        if kept.application != application:
            raise CheckpointOfAnother(
                f"{where.uri} is the checkpoint of the application {kept.application}, not of {application}"
            )
        where.remove()
