"""Partitions of a node with a simulated second replica, whose progress and elections the test controls."""

from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
from penstock.broker.node import Broker
from penstock.broker.partitions.replica import Replica
from penstock.broker.reading.fetch_session import FetchTarget
from penstock.broker.reading.session_changes import SessionChanges
from penstock.metadata.image import MetadataDelta
from penstock.metadata.image.topics import PartitionRegistration
from penstock.protocol.messages import FetchRequest

OTHER = 2
"""The id of the broker that has the second replica."""

Runtime = GroupCoordinatorRuntime | TransactionCoordinatorRuntime


class Followed:
    """A partition with replicas on this node and another; this node leads until `lose`."""

    def __init__(self, broker: Broker, topic: str, partition: int) -> None:
        replica = broker.replicas.get(topic, partition)
        assert replica is not None
        self.broker = broker
        self.replica: Replica = replica
        self._take_part(leader=broker.node_id, leader_epoch=replica.leader_epoch)

    @property
    def uncommitted(self) -> int:
        """The number of offsets that the follower does not have yet."""
        return self.replica.log.log_end_offset - self.replica.high_watermark

    def commit(self, to: int | None = None) -> None:
        """Move the follower to the offset `to`, or to the end of the log."""
        replicated = self.replica.replicated
        assert replicated is not None
        end_offset = self.replica.log.log_end_offset
        high_watermark = end_offset if to is None else min(to, end_offset)
        if high_watermark > self.replica.high_watermark:
            replicated.commit(high_watermark)

    def stand_still(self) -> None:
        """Let time pass without a fetch from the follower."""
        replicated = self.replica.replicated
        assert replicated is not None
        assert replicated.leading is not None
        replicated.leading.since_ms -= self.broker.replication.silence_max_ms + 1

    def follow(self) -> SessionChanges:
        """A new fetch session of the follower."""
        replicated = self.replica.replicated
        assert replicated is not None
        session = SessionChanges(OTHER)
        wanted = FetchRequest.FetchPartition(partition=self.replica.partition)
        session.watch(FetchTarget(self.replica.topic_id, wanted), replicated)
        return session

    def lose(self, runtime: Runtime | None = None) -> None:
        """Make the other broker the leader."""
        self._take_part(leader=OTHER, leader_epoch=self.replica.leader_epoch + 1)
        self._tell(runtime)

    def win(self, runtime: Runtime | None = None, keep_to: int | None = None) -> None:
        """Make this node lead again. It keeps uncommitted records below `keep_to`, by default none."""
        high_watermark = self.replica.high_watermark
        self.replica.log.truncate_to(max(high_watermark, keep_to or 0))
        self._take_part(leader=self.broker.node_id, leader_epoch=self.replica.leader_epoch + 1)
        self._tell(runtime)

    def _take_part(self, leader: int, leader_epoch: int) -> None:
        both = (self.broker.node_id, OTHER)
        registration = PartitionRegistration(
            replicas=both, isr=both, leader=leader, leader_epoch=leader_epoch, partition_epoch=leader_epoch
        )
        self.replica.lead_or_follow(registration, self.broker.node_id, self.broker.replication)

    def _tell(self, runtime: Runtime | None) -> None:
        if runtime is not None:
            changed = {(self.replica.topic_id, self.replica.partition)}
            runtime.on_image_change(MetadataDelta(changed_partitions=changed))


def follow_all(broker: Broker, runtime: Runtime) -> list[Followed]:
    """All partitions of a coordinator's topic."""
    topic = broker.image.topics.by_name[runtime.TOPIC]
    return [Followed(broker, runtime.TOPIC, partition) for partition in topic.partitions]


def commit_all(followed: list[Followed]) -> None:
    for each in followed:
        each.commit()
