"""The interface through which the metrics read their node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from penstock.broker.control.authorization import Authorization
    from penstock.broker.control.lifecycle import BrokerLifecycle
    from penstock.broker.control.metadata_follower import MetadataFollower
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
    from penstock.broker.following.replication import Replication
    from penstock.broker.network.dispatch import Dispatcher
    from penstock.broker.network.loop_lag import LoopLag
    from penstock.broker.network.server import Server
    from penstock.broker.partitions.purgatory import Purgatory
    from penstock.broker.partitions.replica_manager import ReplicaManager
    from penstock.broker.quorum.quorum import Quorum
    from penstock.broker.quotas.client_quotas import ClientQuotas
    from penstock.broker.quotas.connections import ConnectionQuotas
    from penstock.broker.quotas.mutations import MutationQuotas
    from penstock.broker.reading.cold_reads import ColdReads
    from penstock.broker.reading.fetch_session import FetchSessionCache
    from penstock.broker.sasl.listeners import NodeSasl
    from penstock.broker.tls.listeners import NodeTls
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.image import MetadataImage
    from penstock.storage.directories.log_manager import LogManager


class MetricsHost(Protocol):
    """A node with the parts that count."""

    authorization: Authorization
    cold_reads: ColdReads
    config: BrokerConfig
    connection_quotas: tuple[ConnectionQuotas, ...]
    dispatcher: Dispatcher
    fetch_sessions: FetchSessionCache
    groups: GroupCoordinatorRuntime
    image: MetadataImage
    is_stopping: bool
    lifecycle: BrokerLifecycle
    logs: LogManager
    loop: asyncio.AbstractEventLoop
    loop_lag: LoopLag
    metadata: MetadataFollower
    mutation_quotas: MutationQuotas
    node_id: int
    purgatory: Purgatory
    quorum: Quorum
    quotas: ClientQuotas
    replicas: ReplicaManager
    replication: Replication
    sasl: NodeSasl
    server: Server
    tls: NodeTls
    transactions: TransactionCoordinatorRuntime

    def clock_ms(self) -> int: ...
