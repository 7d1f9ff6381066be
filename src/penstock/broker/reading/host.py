"""The interface through which fetches use their node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.broker.following.replication import Replication
    from penstock.broker.partitions.purgatory import Purgatory
    from penstock.broker.partitions.replica_manager import ReplicaManager
    from penstock.broker.quotas.client_quotas import ClientQuotas
    from penstock.broker.reading.cold_reads import ColdReads
    from penstock.broker.reading.fetch_session import FetchSessionCache
    from penstock.metadata.image import MetadataImage


class ReadingHost(Protocol):
    """A broker whose partitions are read."""

    node_id: int
    loop: asyncio.AbstractEventLoop
    cold_reads: ColdReads
    fetch_max_bytes: int
    """`fetch.max.bytes`: the limit on the records in a response."""
    fetch_sessions: FetchSessionCache
    purgatory: Purgatory
    quotas: ClientQuotas
    replicas: ReplicaManager
    replication: Replication
    image: MetadataImage
    """The cluster's current metadata."""
