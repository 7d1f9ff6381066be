"""The interface through which the coordinators use their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.broker.coordination.verification import VerifyingHost

if TYPE_CHECKING:
    from penstock.broker.control.forwarding import Forwarding
    from penstock.broker.following.replication import Replication
    from penstock.broker.partitions.group_commit import GroupCommit
    from penstock.broker.partitions.replica_manager import ReplicaManager
    from penstock.broker.setup.host import RunInWorker
    from penstock.metadata.image import MetadataImage


class CoordinationHost(VerifyingHost, Protocol):
    """A broker with replicas, whose coordinators keep their records in internal topics."""

    forwarding: Forwarding
    group_commit: GroupCommit
    replicas: ReplicaManager
    replication: Replication
    image: MetadataImage
    """The cluster's current metadata."""

    @property
    def decode_in_worker(self) -> RunInWorker:
        """Call a function that decodes records in a worker, with a limit on concurrent calls."""
