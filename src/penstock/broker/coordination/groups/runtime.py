"""The group coordinators of this node, and the requests and transactions that they handle."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.coordination.groups import loader as group_loader
from penstock.broker.coordination.groups.partition import GroupPartition
from penstock.broker.coordination.partition import Outcome
from penstock.broker.coordination.replica_log import ReplicaLog
from penstock.broker.coordination.runtime import CoordinatorRuntime, raise_for
from penstock.broker.coordination.verification import (
    ClientSupport,
    TransactionalProducer,
    Verified,
    verify,
)
from penstock.broker.network.answers import Answer
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
    from penstock.broker.coordination.host import CoordinationHost
    from penstock.broker.coordination.marker import Marker
    from penstock.broker.network.context import RequestContext
    from penstock.broker.partitions.replica import Replica
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.image.image import MetadataDelta
    from penstock.metadata.image.topics import TopicImage
    from penstock.storage.partition.log import Log

__all__ = ["GROUP_METADATA_TOPIC", "GroupCoordinatorRuntime"]

GROUP_METADATA_TOPIC = "__consumer_offsets"

ABORTABLE_VERSION = 4
"""The first version of TxnOffsetCommit whose clients know TRANSACTION_ABORTABLE."""
ADD_PARTITION_VERSION = 5
"""The first version of TxnOffsetCommit whose clients let the broker add the partition to the transaction
(KIP-890)."""

FetchedGroup = OffsetFetchResponse.OffsetFetchResponseGroup


class GroupCoordinatorRuntime(CoordinatorRuntime[GroupPartition]):
    """The runtime of the group coordinators.

    If this node cannot serve the group, answers fail with KafkaError, and methods without an answer raise it.
    If the group's partition has one replica, answers are there at once, otherwise when the records that they
    depend on are committed.
    """

    TOPIC = GROUP_METADATA_TOPIC
    PARTITION_COUNT_CONFIG = "offsets.topic.num.partitions"
    REPLICATION_FACTOR_CONFIG = "offsets.topic.replication.factor"
    WRITE_TIMEOUT_CONFIG = "offsets.commit.timeout.ms"

    def __init__(self, host: CoordinationHost) -> None:
        super().__init__(host)
        self._config = coordinator_config(host.config)
        self.refused_clients: set[str] = set()
        """The ids of clients that asked for the consumer protocol and that the log has named."""

    # -- requests ------------------------------------------------------------------------------------

    def join_group(self, request: JoinGroupRequest, context: RequestContext) -> Answer[JoinGroupResponse]:
        """Answer at once, or when the join round ends."""

        def join(owner: GroupPartition) -> Answer[JoinGroupResponse]:
            ticket: asyncio.Future[JoinGroupResponse] = asyncio.get_running_loop().create_future()
            records, response = owner.coordinator.handle_join_group(request, context, ticket, owner.now_ms())
            outcome = owner.settle(records)
            return (
                Answer.of_future(ticket) if isinstance(response, Parked) else self._answer(outcome, response)
            )

        return self._in_line(request.group_id, join)

    def sync_group(self, request: SyncGroupRequest) -> Answer[SyncGroupResponse]:
        """Answer at once, or when the leader's assignment is committed."""

        def sync(owner: GroupPartition) -> Answer[SyncGroupResponse]:
            ticket: asyncio.Future[SyncGroupResponse] = asyncio.get_running_loop().create_future()
            records, response = owner.coordinator.handle_sync_group(request, ticket)
            owner.settle(records)
            return Answer.of_future(ticket) if isinstance(response, Parked) else Answer.of(response)

        return self._in_line(request.group_id, sync)

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        # A heartbeat only moves a deadline later: there is nothing to append, to answer or to schedule.
        owner = self._owner(request.group_id)
        return owner.coordinator.handle_heartbeat(request, owner.now_ms())

    def leave_group(self, request: LeaveGroupRequest) -> Answer[LeaveGroupResponse]:
        def leave(owner: GroupPartition) -> Answer[LeaveGroupResponse]:
            records, response = owner.coordinator.handle_leave_group(request, owner.now_ms())
            return self._answer(owner.settle(records), response)

        return self._in_line(request.group_id, leave)

    def commit_offsets(
        self, request: OffsetCommitRequest, context: RequestContext
    ) -> Answer[OffsetCommitResponse]:
        """Commit offsets; the request's topics must exist and have their ids filled in."""

        def commit(owner: GroupPartition) -> Answer[OffsetCommitResponse]:
            records, response = owner.coordinator.handle_offset_commit(request, context, owner.now_ms())
            return self._answer(owner.settle(records), response) if records else Answer.of(response)

        return self._in_line(request.group_id, commit)

    def fetch_offsets(
        self, request: OffsetFetchRequest.OffsetFetchRequestGroup, *, require_stable: bool
    ) -> Answer[FetchedGroup]:
        """Return committed offsets; with `require_stable` (KIP-447), wait for all earlier appends first.

        Clients that require stable offsets move records exactly once. With outdated offsets they would
        process again what was committed through another coordinator meanwhile.
        """
        try:
            owner = self._certain_owner(request.group_id) if require_stable else self._owner(request.group_id)
            if require_stable and owner.uncommitted:
                return Answer.working(self._fetch_settled_offsets(owner, request))
            return Answer.of(owner.coordinator.handle_offset_fetch(request, require_stable=require_stable))
        except KafkaError as error:
            return Answer.failed(error)

    async def _fetch_settled_offsets(
        self, owner: GroupPartition, request: OffsetFetchRequest.OffsetFetchRequestGroup
    ) -> FetchedGroup:
        outcome = owner.settled()
        error = outcome if isinstance(outcome, ErrorCode) else await outcome
        if error is ErrorCode.REQUEST_TIMED_OUT:
            error = ErrorCode.NOT_COORDINATOR  # as in Kafka: consumers before 3.9 retry at no other error
        raise_for(error)
        owner = self._certain_owner(request.group_id)
        return owner.coordinator.handle_offset_fetch(request, require_stable=True)

    def delete_offsets(self, request: OffsetDeleteRequest) -> Answer[OffsetDeleteResponse]:
        def delete(owner: GroupPartition) -> Answer[OffsetDeleteResponse]:
            records, response = owner.coordinator.handle_offset_delete(request)
            return self._answer(owner.settle(records), response)

        return self._in_line(request.group_id, delete, behind_all=True)

    def describe_group(self, group_id: str, context: RequestContext) -> DescribeGroupsResponse.DescribedGroup:
        return self._owner(group_id).coordinator.handle_describe_group(group_id, context)

    def list_groups(
        self, states: Iterable[str], types: Iterable[str]
    ) -> list[ListGroupsResponse.ListedGroup]:
        """List the groups of all partitions led here. Raises KafkaError while some are loading."""
        if self._loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        states, types = list(states), list(types)
        return [
            group
            for owner in self._loaded.values()
            for group in owner.coordinator.handle_list_groups(states, types)
        ]

    def delete_group(self, group_id: str) -> Answer[ErrorCode]:
        """Delete a group; the result is NONE or the error."""

        def delete(owner: GroupPartition) -> Answer[ErrorCode]:
            records, error = owner.coordinator.handle_delete_group(group_id)
            return self._answer(owner.settle(records), append_error(error))

        return self._in_line(group_id, delete, behind_all=True)

    # -- transactions --------------------------------------------------------------------------------

    def commit_offsets_in_transaction(
        self, request: TxnOffsetCommitRequest, api_version: int
    ) -> Answer[TxnOffsetCommitResponse]:
        """Append offsets that take effect once the transaction commits; the request's topics must exist.

        For the first offsets of a transaction its coordinator is asked, as for records in a partition
        (KIP-890).
        """
        try:
            replica = self._verified_replica(request.group_id)
        except KafkaError as error:
            return Answer.failed(error)
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
        return verify(self._host, producer, {replica: NO_SEQUENCE}).and_then(
            lambda verified: self._commit_verified(request, replica, verified)
        )

    def _verified_replica(self, group_id: str) -> Replica:
        """The replica with the group's records, for which the transaction is verified. Raises KafkaError."""
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        self._owner(group_id)
        try:
            return self._host.replicas.leader(self.TOPIC, self.partition_of(group_id))
        except KafkaError as error:
            raise KafkaError(append_error(error.code)) from error

    def _commit_verified(
        self, request: TxnOffsetCommitRequest, replica: Replica, verified: Verified
    ) -> Answer[TxnOffsetCommitResponse]:
        try:
            verification = verified.of(replica)
        except KafkaError as error:
            raise KafkaError(append_error(error.code)) from error
        producer = (request.producer_id, request.producer_epoch)

        def commit(owner: GroupPartition) -> Answer[TxnOffsetCommitResponse]:
            records, response = owner.coordinator.handle_txn_offset_commit(request, owner.now_ms())
            if not records:
                return Answer.of(response)
            return self._answer(owner.write_in_transaction(records, producer, verification), response)

        return self._in_line(request.group_id, commit)

    def end_transaction(self, partition: int, marker: Marker) -> Outcome:
        """Write a transaction's marker, and make its offsets effective or discard them. Raises KafkaError.

        The outcome is known when the marker is committed.
        """
        owner = self._owner_of_partition(partition)
        replica = self._host.replicas.leader(GROUP_METADATA_TOPIC, partition)
        info = replica.append_marker(**marker._asdict())
        return owner.marker_appended(info.last_offset + 1, marker.producer_id, committed=marker.committed)

    # -- lifecycle -----------------------------------------------------------------------------------

    def on_image_change(self, delta: MetadataDelta) -> None:
        """Follow leadership changes and deleted topics; call it after the replicas have followed."""
        super().on_image_change(delta)
        for deleted in delta.deleted_topics:
            for partition, owner in list(self._loaded.items()):
                if owner.uncommitted:  # uncommitted commits must be deleted too
                    self._start(self._forget_topic_when_settled(partition, owner, deleted))
                else:
                    _forget_topic(owner, deleted)

    async def _forget_topic_when_settled(
        self, partition: int, owner: GroupPartition, deleted: TopicImage
    ) -> None:
        outcome = owner.settled()
        while isinstance(outcome, asyncio.Future):
            # If it takes longer than clients wait, wait again.
            if await outcome is not ErrorCode.REQUEST_TIMED_OUT:
                break
            outcome = owner.settled()
        if self._loaded.get(partition) is owner:
            _forget_topic(owner, deleted)

    def _new_owner(self, partition: int, replica: Replica) -> GroupPartition:
        coordinator = GroupCoordinator(self._config, lambda: str(self._host.environment.uuid()))
        return GroupPartition(
            coordinator,
            ReplicaLog(self._host.replicas, replica, needs_in_sync_replicas=False),
            self._host.clock_ms,
            self._host.config.get_int("offsets.topic.compression.codec"),
            write_timeout_ms=self._write_timeout_ms,
            lost=partial(self._lost, partition),
        )

    def _replay(self, owner: GroupPartition, partition_log: Log, end_offset: int, now_ms: int) -> None:
        group_loader.load(partition_log, end_offset, owner.coordinator, now_ms)

    # -- metrics -------------------------------------------------------------------------------------

    def group_counts(self) -> Counter[ClassicGroupState]:
        """The number of groups by state."""
        counts: Counter[ClassicGroupState] = Counter()
        for owner in list(self._loaded.values()):
            counts.update(owner.coordinator.state_counts())
        return counts

    def offset_count(self) -> int:
        """The number of committed offsets held."""
        return sum(owner.coordinator.offset_count for owner in list(self._loaded.values()))

    def counters(self) -> Counters:
        """The counters of all partitions since they were loaded."""
        total = Counters()
        for owner in list(self._loaded.values()):
            each = owner.coordinator.counters
            total.completed_rebalances += each.completed_rebalances
            total.offset_commits += each.offset_commits
            total.offset_deletions += each.offset_deletions
            total.offset_expirations += each.offset_expirations
        return total


def coordinator_config(config: BrokerConfig) -> GroupCoordinatorConfig:
    """The coordinator's settings from the node's configuration."""
    return GroupCoordinatorConfig(
        group_min_session_timeout_ms=config.get_int("group.min.session.timeout.ms"),
        group_max_session_timeout_ms=config.get_int("group.max.session.timeout.ms"),
        group_initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
        group_max_size=config.get_int("group.max.size"),
        offset_metadata_max_bytes=config.get_int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.get_int("offsets.retention.check.interval.ms"),
    )


def _forget_topic(owner: GroupPartition, deleted: TopicImage) -> None:
    """Delete the offsets of a deleted topic."""
    records = owner.coordinator.handle_topic_deleted(deleted.name, deleted.topic_id)
    owner.settle(records, atomic=False)
