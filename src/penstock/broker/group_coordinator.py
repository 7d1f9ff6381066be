"""The group coordinators of this node: how requests and transactions reach them."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Awaitable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker import group_loader
from penstock.broker.coordinator_runtime import CoordinatorRuntime, raise_for
from penstock.broker.group_partition import GroupPartition
from penstock.broker.transaction_verification import (
    ClientSupport,
    TransactionalProducer,
    Verified,
    verify,
)
from penstock.coordinators.append_errors import append_error
from penstock.coordinators.group.config import GroupCoordinatorConfig
from penstock.coordinators.group.coordinator import GroupCoordinator
from penstock.coordinators.group.results import Parked
from penstock.coordinators.group.shard import Counters
from penstock.coordinators.group.states import ClassicGroupState
from penstock.protocol.batch import NO_SEQUENCE
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    DescribeGroupsResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker
    from penstock.broker.replica import Replica
    from penstock.broker.transaction_markers import Marker
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.image.image import MetadataDelta
    from penstock.storage.log import Log

__all__ = ["GROUP_METADATA_TOPIC", "GroupCoordinatorRuntime"]

GROUP_METADATA_TOPIC = "__consumer_offsets"

ABORTABLE_VERSION = 4
"""From this version of TxnOffsetCommit on clients know TRANSACTION_ABORTABLE,"""
ADD_PARTITION_VERSION = 5
"""and from this one on they leave it to the broker to add the partition to the transaction (KIP-890)."""


class GroupCoordinatorRuntime(CoordinatorRuntime[GroupPartition]):
    """Requests in, answers out; every method raises KafkaError if this node cannot serve the group."""

    TOPIC = GROUP_METADATA_TOPIC
    PARTITION_COUNT_CONFIG = "offsets.topic.num.partitions"

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self._config = coordinator_config(broker.config)

    # -- requests ------------------------------------------------------------------------------------

    def join_group(
        self, request: JoinGroupRequest, context: RequestContext
    ) -> JoinGroupResponse | asyncio.Future[JoinGroupResponse]:
        """Answered at once, or when the join round ends."""
        owner = self._owner(request.group_id)
        ticket: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()
        records, response = owner.coordinator.handle_join_group(request, context, ticket, owner.now_ms())
        error = owner.settle(records)
        if isinstance(response, Parked):
            return ticket
        raise_for(error)
        return response

    def sync_group(self, request: SyncGroupRequest) -> SyncGroupResponse | asyncio.Future[SyncGroupResponse]:
        """Answered at once, or when the leader's assignment is in the log."""
        owner = self._owner(request.group_id)
        ticket: asyncio.Future[SyncGroupResponse] = asyncio.get_running_loop().create_future()
        records, response = owner.coordinator.handle_sync_group(request, ticket)
        owner.settle(records)
        return ticket if isinstance(response, Parked) else response

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        # A heartbeat only moves a deadline later: there is nothing to append, answer or arm.
        owner = self._owner(request.group_id)
        return owner.coordinator.handle_heartbeat(request, owner.now_ms())

    def leave_group(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        owner = self._owner(request.group_id)
        records, response = owner.coordinator.handle_leave_group(request, owner.now_ms())
        raise_for(owner.settle(records))
        return response

    def commit_offsets(self, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
        """The request's topics must exist and have their ids filled in."""
        owner = self._owner(request.group_id)
        records, response = owner.coordinator.handle_offset_commit(request, context, owner.now_ms())
        if records:
            raise_for(owner.settle(records))
        return response

    def fetch_offsets(
        self, request: OffsetFetchRequest.OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponse.OffsetFetchResponseGroup:
        coordinator = self._owner(request.group_id).coordinator
        return coordinator.handle_offset_fetch(request, require_stable=require_stable)

    def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        owner = self._owner(request.group_id)
        records, response = owner.coordinator.handle_offset_delete(request)
        raise_for(owner.settle(records))
        return response

    def describe_group(self, group_id: str, context: RequestContext) -> DescribeGroupsResponse.DescribedGroup:
        return self._owner(group_id).coordinator.handle_describe_group(group_id, context)

    def list_groups(
        self, states: Iterable[str], types: Iterable[str]
    ) -> list[ListGroupsResponse.ListedGroup]:
        """All groups of the partitions this node leads; it cannot be told while some are loading."""
        if self._loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        states, types = list(states), list(types)
        return [
            group
            for owner in self._loaded.values()
            for group in owner.coordinator.handle_list_groups(states, types)
        ]

    def delete_group(self, group_id: str) -> None:
        owner = self._owner(group_id)
        records, error = owner.coordinator.handle_delete_group(group_id)
        raise_for(owner.settle(records))
        raise_for(error)

    # -- transactions --------------------------------------------------------------------------------

    def commit_offsets_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
        """Offsets that count once the transaction commits; the request's topics must exist.

        The first ones of a transaction have its coordinator asked, as with records in a partition (KIP-890).
        """
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        owner = self._owner(request.group_id)
        try:
            replica = self._broker.replicas.leader(self.TOPIC, self.partition_of(request.group_id))
        except KafkaError as error:
            raise KafkaError(append_error(error.code)) from error
        support = (
            ClientSupport.ADD_PARTITION
            if api_version >= ADD_PARTITION_VERSION
            else ClientSupport.ABORTABLE_ERROR
            if api_version >= ABORTABLE_VERSION
            else ClientSupport.OLDEST_ERRORS
        )
        producer = TransactionalProducer(
            request.transactional_id, request.producer_id, request.producer_epoch, support
        )
        verified = verify(self._broker, producer, {replica: NO_SEQUENCE})
        if isinstance(verified, Verified):
            return _commit_in_transaction(owner, request, replica, verified)
        return self._commit_when_verified(request, replica, verified)

    async def _commit_when_verified(
        self, request: TxnOffsetCommitRequest, replica: Replica, verified: Awaitable[Verified]
    ) -> TxnOffsetCommitResponse:
        outcome = await verified
        return _commit_in_transaction(self._owner(request.group_id), request, replica, outcome)

    def end_transaction(self, partition: int, marker: Marker) -> None:
        """Write a transaction's marker, and make its offsets count or forget them. Raises KafkaError."""
        owner = self._owner_of_partition(partition)
        replica = self._broker.replicas.leader(GROUP_METADATA_TOPIC, partition)
        replica.append_marker(**marker._asdict())
        owner.coordinator.replay_end_transaction(marker.producer_id, committed=marker.committed)

    # -- life ----------------------------------------------------------------------------------------

    def on_image_change(self, delta: MetadataDelta) -> None:
        """Follow leadership and deleted topics; to be called after the replicas have followed."""
        super().on_image_change(delta)
        for deleted in delta.deleted_topics:
            for owner in list(self._loaded.values()):
                records = owner.coordinator.handle_topic_deleted(deleted.name, deleted.topic_id)
                owner.settle(records, atomic=False)

    def _new_owner(self, partition: int, replica: Replica) -> GroupPartition:
        coordinator = GroupCoordinator(self._config, lambda: str(uuid.uuid4()))
        append = partial(self._broker.replicas.append, GROUP_METADATA_TOPIC, partition)
        compression = self._broker.config.get_int("offsets.topic.compression.codec")
        return GroupPartition(coordinator, append, self._broker.clock_ms, compression)

    def _replay(self, owner: GroupPartition, partition_log: Log, end_offset: int, now_ms: int) -> None:
        group_loader.load(partition_log, end_offset, owner.coordinator, now_ms)

    # -- figures -------------------------------------------------------------------------------------

    def group_counts(self) -> Counter[ClassicGroupState]:
        """Groups by state."""
        counts: Counter[ClassicGroupState] = Counter()
        for owner in list(self._loaded.values()):
            counts.update(owner.coordinator.state_counts())
        return counts

    def offset_count(self) -> int:
        """Committed offsets held."""
        return sum(owner.coordinator.offset_count for owner in list(self._loaded.values()))

    def counters(self) -> Counters:
        """What all partitions have done since they were loaded."""
        total = Counters()
        for owner in list(self._loaded.values()):
            each = owner.coordinator.counters
            total.completed_rebalances += each.completed_rebalances
            total.offset_commits += each.offset_commits
            total.offset_deletions += each.offset_deletions
            total.offset_expirations += each.offset_expirations
        return total


def coordinator_config(config: BrokerConfig) -> GroupCoordinatorConfig:
    """What the coordinator needs of the node's configuration."""
    return GroupCoordinatorConfig(
        group_min_session_timeout_ms=config.get_int("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=config.get_int("group.max.session.timeout.ms"),
        group_initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
        group_max_size=config.get_int("group.max.size"),
        offset_metadata_max_bytes=config.get_int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.get_int("offsets.retention.check.interval.ms"),
    )


def _commit_in_transaction(
    owner: GroupPartition, request: TxnOffsetCommitRequest, replica: Replica, verified: Verified
) -> TxnOffsetCommitResponse:
    try:
        verification = verified.of(replica)
    except KafkaError as error:
        raise KafkaError(append_error(error.code)) from error
    records, response = owner.coordinator.handle_txn_offset_commit(request, owner.now_ms())
    if records:
        producer = (request.producer_id, request.producer_epoch)
        raise_for(owner.write_in_transaction(records, producer, verification))
    return response
