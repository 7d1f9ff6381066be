"""Carry a plan out: begin, see how far it is, and tidy up when all partitions have arrived."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from penstock.client.brokers import describe_cluster
from penstock.client.cluster import Cluster
from penstock.client.elections import ElectionType, elect_leaders
from penstock.client.errors import ServerError
from penstock.client.log_dirs import partition_bytes, replica_bytes
from penstock.client.metadata import TopicPartition
from penstock.client.reassignments import OngoingReassignment, alter_reassignments, list_reassignments
from penstock.client.replicas import describe_topics, partitions_of
from penstock.operations.placement import Assignment
from penstock.operations.throttle import throttle, unthrottle

#: Partitions that one request begins to move.
PARTITIONS_PER_REQUEST: Final = 500


@dataclass(frozen=True, slots=True)
class Progress:
    """Partitions that have arrived, and bytes of the replicas that are being made, out of all."""

    partitions_done: int
    partitions: int
    bytes_done: int
    bytes_total: int

    @property
    def is_done(self) -> bool:
        return self.partitions_done == self.partitions


def begin(cluster: Cluster, current: Assignment, planned: Assignment, bytes_per_s: int | None) -> None:
    """Let the controller take a plan on, under a limit if one is given. Raises ServerError.

    A plan that is refused leaves no limit behind.
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
    """Partitions on their way to new replicas: those of a plan, or all that a cluster is moving now."""

    def __init__(
        self, cluster: Cluster, adding: dict[TopicPartition, tuple[int, ...]], also: Collection[str] = ()
    ) -> None:
        self._cluster = cluster
        self._adding = adding
        self._topics = {tp.topic for tp in adding} | set(also)
        self._sizes: dict[TopicPartition, int] = {}

    @classmethod
    def of_plan(cls, cluster: Cluster, current: Assignment, planned: Assignment) -> Moving:
        """Of a plan that has begun; *current* is where replicas were before."""
        adding = {
            tp: tuple(broker for broker in replicas if broker not in current[tp])
            for tp, replicas in planned.items()
        }
        return cls(cluster, adding)

    @classmethod
    def under_way(cls, cluster: Cluster, also: Collection[str] = ()) -> Moving:
        """Of whatever moves now, whoever has begun it; *also* these topics are tidied up at the end."""
        adding = {tp: ongoing.adding for tp, ongoing in list_reassignments(cluster).items()}
        return cls(cluster, adding, also)

    def progress(self) -> Progress:
        """Ask the cluster. Raises ServerError."""
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
        """Of partitions that have arrived, as last seen."""
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
        """Until all have arrived: tell how far it is, pause, and so on. Raises ServerError."""
        while not (progress := self.progress()).is_done:
            show(progress)
            pause()
        show(progress)

    def finish(self) -> dict[TopicPartition, ServerError | None]:
        """Take limits back and let the first replicas lead; who could not be elected, and why not."""
        lift_throttles(self._cluster, self._topics)
        return elect_first_replicas(self._cluster, self._adding.keys())


def cancel(
    cluster: Cluster, partitions: Collection[TopicPartition] | None = None
) -> dict[TopicPartition, OngoingReassignment]:
    """Turn back what moves of these partitions (None: all); what it was. Raises ServerError.

    Limits are taken back too, unless other partitions are still moving.
    """
    ongoing = list_reassignments(cluster, partitions)
    alter_reassignments(cluster, dict.fromkeys(ongoing))
    if not list_reassignments(cluster):
        lift_throttles(cluster, {tp.topic for tp in ongoing})
    return ongoing


def lift_throttles(cluster: Cluster, topics: Collection[str]) -> None:
    """Take limits back from these topics and from all brokers that are there. Raises ServerError."""
    cluster.refresh([])  # the addresses of brokers that came later
    brokers = [broker.broker_id for broker in describe_cluster(cluster).brokers if not broker.is_fenced]
    unthrottle(cluster, _existing(cluster, topics), brokers)


def elect_first_replicas(
    cluster: Cluster, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ServerError | None]:
    """Let the preferred leader of each partition lead it, where it does not; what became of each."""
    topics = describe_topics(cluster, _existing(cluster, {tp.topic for tp in partitions}))
    found = partitions_of(topics)
    elsewhere = [tp for tp in partitions if tp in found and found[tp].leader_id != found[tp].replicas[0]]
    return elect_leaders(cluster, ElectionType.PREFERRED, elsewhere) if elsewhere else {}


def _existing(cluster: Cluster, topics: Collection[str]) -> list[str]:
    """Without those that were deleted while they moved."""
    cluster.forget(topics)
    return sorted(cluster.topics(topics))
