"""Prepare an application's start: find or create its topics, and commit first offsets for its group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.client.admin.topics import NewTopic, create_topics
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.groups.consumer_group import CommittedOffset, ConsumerGroup
from penstock.client.reading.offsets import EARLIEST, LATEST, IsolationLevel, list_offsets
from penstock.client.settings import resolved
from penstock.spark.streams.planning.plan import shuffled_topics
from penstock.topology.errors import StreamsError
from penstock.topology.graph import InternalTopic, Sink, Topology

_RESETS: Final = {"earliest": EARLIEST, "latest": LATEST}


class MissingTopics(StreamsError):
    """Topics that the application reads don't exist."""


class InternalTopicMismatch(StreamsError):
    """An internal topic exists, but not as the application needs it."""


def client_properties(bootstrap_servers: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return a client's properties, from the options of source and sink. Raises ConfigError."""
    properties = {
        name.removeprefix("kafka."): value
        for name, value in resolved(given, prefix="kafka.").items()
        if name.lower().startswith("kafka.")
    }
    return properties | {"bootstrap.servers": bootstrap_servers}


def prepare_topics(cluster: Cluster, topology: Topology) -> dict[str, int]:
    """Create the topics that the application owns or writes to, and return the partition counts of all.

    Raises MissingTopics, InternalTopicMismatch, CoPartitioningError, ServerError.
    """
    owned = {topology.topic(name) for name in topology.repartitions}
    known = read_topics(cluster, topology)
    counts = topology.partition_counts(known)
    internal = topology.internal_topics(known)
    internal = {name: topic for name, topic in internal.items() if name not in shuffled_topics(topology)}
    there = _partitions(cluster, set(internal))
    _require_same(internal, there)
    create_topics(
        cluster,
        [
            NewTopic(topic.name, topic.partitions, topic.config)
            for topic in internal.values()
            if topic.name not in there
        ],
    )
    written = written_topics(topology) - owned
    create_topics(
        cluster, [NewTopic(name) for name in sorted(written - _partitions(cluster, written).keys())]
    )
    return _partitions(cluster, written) | counts


def read_topics(cluster: Cluster, topology: Topology) -> dict[str, int]:
    """Return the partition counts of the topics that the application reads, except its own.

    Raises MissingTopics.
    """
    owned = {topology.topic(name) for name in topology.repartitions} | topology.frames.keys()
    read = topology.source_topics().keys() - owned | topology.globals.keys()
    known = _partitions(cluster, read)
    missing = sorted(read - known.keys())
    if missing:
        raise MissingTopics(
            f"{topology.application} reads topics that don't exist at {cluster.config.servers_text}: "
            f"{', '.join(missing)}. Create them first"
        )
    return known


def written_topics(topology: Topology) -> set[str]:
    """Return the topics known before a record chooses one, including the dead-letter topic."""
    topics = {
        topology.topic(node.topic)
        for node in topology.nodes.values()
        if isinstance(node, Sink) and isinstance(node.topic, str)
    }
    dead_letters = topology.errors.dead_letter_topic
    return topics if dead_letters is None else topics | {dead_letters}


def prepare_group(cluster: Cluster, topology: Topology, topics: Mapping[str, int]) -> None:
    """Commit a first offset for each partition of ``topics`` for which the group has none.

    ``latest`` thus means the same moment however often the start is tried. Raises GroupInUse, ServerError.
    """
    group = ConsumerGroup(cluster, topology.application)
    cluster.retry(group.require_no_members)
    resets = {
        topology.topic(topic): source.reset
        for part in topology.sub_topologies
        for source in part.sources
        for topic in source.topics
    }
    partitions = [TopicPartition(name, number) for name, count in topics.items() for number in range(count)]
    committed = cluster.retry(lambda: group.committed(partitions))
    missing = {tp: _RESETS[resets.get(tp.topic) or "earliest"] for tp in partitions if tp not in committed}
    listed = list_offsets(cluster, missing, IsolationLevel.READ_COMMITTED)
    offsets = {tp: CommittedOffset(found.offset) for tp, found in listed.items()}
    cluster.retry(lambda: group.commit(offsets))


def _partitions(cluster: Cluster, names: set[str] | frozenset[str] | Mapping[str, int]) -> dict[str, int]:
    wanted = list(names)
    topics = cluster.refresh(wanted).topics if wanted else {}
    return {
        name: len(topics[name].partitions) for name in wanted if name in topics and topics[name].partitions
    }


def _require_same(internal: Mapping[str, InternalTopic], there: Mapping[str, int]) -> None:
    for name, count in there.items():
        if count != internal[name].partitions:
            raise InternalTopicMismatch(
                f"the {internal[name].kind} topic {name} has {count} partitions, expected "
                f"{internal[name].partitions}, as many as the topics it belongs to: reset the application, "
                "or restore the former number of partitions of its topics"
            )
