"""Carry out a plan: begin the moves, report progress, and clean up when all partitions have moved."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from penstock.client.admin.brokers import describe_cluster
from penstock.client.admin.elections import ElectionType, elect_leaders
from penstock.client.admin.log_dirs import partition_bytes, replica_bytes
from penstock.client.admin.reassignments import OngoingReassignment, alter_reassignments, list_reassignments
from penstock.client.admin.replicas import describe_topics, partitions_of
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ServerError
from penstock.operations.placement import Assignment
from penstock.operations.throttle import throttle, unthrottle

PARTITIONS_PER_REQUEST: Final = 500
"""The number of partitions whose moves one request begins."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Partitions that have finished moving, and bytes copied to new replicas, each with its total."""

    partitions_done: int
    partitions: int
    bytes_done: int
    bytes_total: int

    @property
    def is_done(self) -> bool:
        return self.partitions_done == self.partitions


def begin(cluster: Cluster, current: Assignment, planned: Assignment, bytes_per_s: int | None) -> None:
    """Submit a plan to the controller, with a rate limit if one is given. Raises ServerError.

    If the controller refuses the plan, the limit is removed again.
    """
    if bytes_per_s is not None:
        throttle(cluster, current, planned, bytes_per_s)
    entries = sorted(planned.items())
    try:
        for start in range(0, len(entries), PARTITIONS_PER_REQUEST):
            alter_reassignments(cluster, dict(entries[start : start + PARTITIONS_PER_REQUEST]))
    except ServerError:
        if bytes_per_s is not None:
            lift_throttles(cluster, {tp.topic for tp in planned})
        raise


class Moving:
    """Partitions that move to new replicas: those of a plan, or all that the cluster is moving now."""

    def __init__(
        self, cluster: Cluster, adding: dict[TopicPartition, tuple[int, ...]], also: Collection[str] = ()
    ) -> None:
        self._cluster = cluster
        self._adding = adding
        self._topics = {tp.topic for tp in adding} | set(also)
        self._sizes: dict[TopicPartition, int] = {}

    @classmethod
    def of_plan(cls, cluster: Cluster, current: Assignment, planned: Assignment) -> Moving:
        """Track a plan that is about to begin; *current* is the assignment before it.

        The sizes are read now, because the leader of a partition may have changed once it has moved. Raises
        ServerError.
        """
        adding = {
            tp: tuple(broker for broker in replicas if broker not in current[tp])
            for tp, replicas in planned.items()
        }
        made = cls(cluster, adding)
        made._sizes = partition_bytes(cluster, [tp for tp, brokers in adding.items() if brokers])
        return made

    @classmethod
    def under_way(cls, cluster: Cluster, also: Collection[str] = ()) -> Moving:
        """Track all current moves, of any origin; `finish` also cleans up the topics in *also*."""
        adding = {tp: ongoing.adding for tp, ongoing in list_reassignments(cluster).items()}
        return cls(cluster, adding, also)

    def progress(self) -> Progress:
        """Read the progress from the cluster. Raises ServerError."""
        ongoing = list_reassignments(self._cluster, self._adding)
        done_bytes = total_bytes = 0
        sizes = self._leader_bytes(ongoing)
        held = self._held_bytes(ongoing)
        for tp, adding in self._adding.items():
            size = sizes.get(tp, 0)
            total_bytes += size * len(adding)
            if tp not in ongoing:
                done_bytes += size * len(adding)
            else:
                done_bytes += sum(min(held.get(broker, {}).get(tp, 0), size) for broker in adding)
        return Progress(len(self._adding) - len(ongoing), len(self._adding), done_bytes, total_bytes)

    def _leader_bytes(self, ongoing: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Log sizes at the leaders; for partitions that have finished moving, the last known size."""
        filling = [tp for tp in self._adding if self._adding[tp]]
        asked = [tp for tp in filling if tp in ongoing or tp not in self._sizes]
        self._sizes |= partition_bytes(self._cluster, asked)
        return self._sizes

    def _held_bytes(self, ongoing: Collection[TopicPartition]) -> dict[int, dict[TopicPartition, int]]:
        by_broker: dict[int, list[TopicPartition]] = {}
        for tp in ongoing:
            for broker in self._adding.get(tp, ()):
                by_broker.setdefault(broker, []).append(tp)
        return replica_bytes(self._cluster, by_broker)

    def wait(self, show: Callable[[Progress], None], pause: Callable[[], None]) -> None:
        """Show the progress repeatedly, with a pause between, until all moves are done.

        Raises ServerError.
        """
        while not (progress := self.progress()).is_done:
            show(progress)
            pause()
        show(progress)

    def finish(self) -> dict[TopicPartition, ServerError | None]:
        """Remove limits and elect the preferred leaders; returns the results of the elections."""
        lift_throttles(self._cluster, self._topics)
        return elect_first_replicas(self._cluster, self._adding.keys())


def cancel(
    cluster: Cluster, partitions: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, OngoingReassignment]:
    """Cancel the moves of these partitions (None: all) and return them. Raises ServerError.

    Limits are removed too, unless other partitions are still moving.
    """
    ongoing = list_reassignments(cluster, partitions)
    alter_reassignments(cluster, dict.fromkeys(ongoing))
    if not list_reassignments(cluster):
        lift_throttles(cluster, {tp.topic for tp in ongoing})
    return ongoing


def lift_throttles(cluster: Cluster, topics: Collection[str]) -> None:
    """Remove the limits of these topics and of all brokers that are not fenced. Raises ServerError."""
    cluster.refresh([])  # This loads the addresses of brokers that joined later.
    brokers = [broker.broker_id for broker in describe_cluster(cluster).brokers if not broker.is_fenced]
    unthrottle(cluster, _existing(cluster, topics), brokers)


def elect_first_replicas(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ServerError | None]:
    """Elect the preferred leader of each partition that another replica leads; returns each result."""
    topics = describe_topics(cluster, _existing(cluster, {tp.topic for tp in partitions}))
    found = partitions_of(topics)
    elsewhere = [tp for tp in partitions if tp in found and found[tp].leader_id != found[tp].replicas[0]]
    return elect_leaders(cluster, ElectionType.PREFERRED, elsewhere) if elsewhere else {}


def _existing(cluster: Cluster, topics: Collection[str]) -> list[str]:
    """The topics that still exist; some may have been deleted while they moved."""
    cluster.forget(topics)
    return sorted(cluster.topics(topics))
