"""The log of a coordinator's partition, which this node writes as its leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from penstock.broker.partitions.commit_waiters import OnCommit
    from penstock.broker.partitions.replica import Replica
    from penstock.broker.partitions.replica_manager import ReplicaManager
    from penstock.storage.partition.log import AppendInfo
    from penstock.storage.producers.verification import Verification

__all__ = ["ReplicaLog"]


class ReplicaLog:
    """The log of a replica that led when its coordinator was elected; valid until the replica is replaced."""

    def __init__(self, replicas: ReplicaManager, replica: Replica, *, needs_in_sync_replicas: bool) -> None:
        """Create the log.

        `needs_in_sync_replicas`: refuse appends below `min.insync.replicas`, as with acks=all.
        """
        self._replicas = replicas
        self._replica = replica
        self._needs_in_sync_replicas = needs_in_sync_replicas

    @property
    def high_watermark(self) -> int:
        return self._replica.high_watermark

    def when_committed(self, end_offset: int, then: OnCommit) -> None:
        self._replica.when_committed(end_offset, then)

    def append(self, records: bytes, verification: Verification | None) -> AppendInfo:
        """Append a batch as the leader. Raises KafkaError."""
        replica = self._replica
        if self._replicas.leader(replica.topic, replica.partition) is not replica:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # the replica was replaced meanwhile
        if self._needs_in_sync_replicas:
            replica.check_enough_replicas()
        return self._replicas.append(replica.topic, replica.partition, records, verification=verification)
