"""The group coordinators of this node: which partitions they own, and how requests reach them.

This node coordinates the groups of every partition of `__consumer_offsets` that it leads. A partition is
loaded by a worker when this node begins to lead it; until then its clients are asked to wait.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from penstock.broker import group_loader
from penstock.broker.group_partition import GroupPartition
from penstock.coordinators.group.config import GroupCoordinatorConfig
from penstock.coordinators.group.coordinator import GroupCoordinator
from penstock.coordinators.group.java_strings import partition_for
from penstock.coordinators.group.results import Parked, append_error
from penstock.coordinators.group.shard import Counters
from penstock.coordinators.group.states import ClassicGroupState
from penstock.metadata.controller.topics import internal_topic
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import (
    CreateTopicsRequest,
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
)

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker
    from penstock.broker.replicas import Replica
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.image.image import MetadataDelta

__all__ = ["GROUP_METADATA_TOPIC", "GroupCoordinatorRuntime"]

log = logging.getLogger(__name__)

GROUP_METADATA_TOPIC = "__consumer_offsets"
CREATE_TIMEOUT_MS = 30_000


class GroupCoordinatorRuntime:
    """Requests in, answers out; every method raises KafkaError if this node cannot serve the group."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._config = coordinator_config(broker.config)
        self._partition_count = broker.config.get_int("offsets.topic.num.partitions")
        self._loaded: dict[int, GroupPartition] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._creation: asyncio.Future[None] | None = None

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
        _raise_for(error)
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
        _raise_for(owner.settle(records))
        return response

    def commit_offsets(self, request: OffsetCommitRequest, context: RequestContext) -> OffsetCommitResponse:
        """The request's topics must exist and have their ids filled in."""
        owner = self._owner(request.group_id)
        records, response = owner.coordinator.handle_offset_commit(request, context, owner.now_ms())
        if records:
            _raise_for(owner.settle(records))
        return response

    def fetch_offsets(
        self, request: OffsetFetchRequest.OffsetFetchRequestGroup, *, require_stable: bool
    ) -> OffsetFetchResponse.OffsetFetchResponseGroup:
        coordinator = self._owner(request.group_id).coordinator
        return coordinator.handle_offset_fetch(request, require_stable=require_stable)

    def delete_offsets(self, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
        owner = self._owner(request.group_id)
        records, response = owner.coordinator.handle_offset_delete(request)
        _raise_for(owner.settle(records))
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
        _raise_for(owner.settle(records))
        _raise_for(error)

    def _owner(self, group_id: str) -> GroupPartition:
        partition = partition_for(group_id, self._partition_count)
        owner = self._loaded.get(partition)
        if owner is None:
            if partition in self._loading or self._is_expected(partition):
                raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return owner

    def _is_expected(self, partition: int) -> bool:
        """Whether the image has this node lead the partition, whose log is still on the way."""
        registration = self._broker.image.topics.partition(GROUP_METADATA_TOPIC, partition)
        return (
            registration is not None
            and registration.leader == self._broker.node_id
            and self._broker.replicas.get(GROUP_METADATA_TOPIC, partition) is None
            and (GROUP_METADATA_TOPIC, partition) not in self._broker.replicas.failed
        )

    # -- where groups live ---------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that this group belongs to."""
        return partition_for(group_id, self._partition_count)

    @property
    def has_topic(self) -> bool:
        """Whether `__consumer_offsets` is there, with its logs."""
        return self._creation is None and GROUP_METADATA_TOPIC in self._broker.image.topics.by_name

    async def ensure_topic(self) -> None:
        """Create `__consumer_offsets` if it does not exist. Raises KafkaError if that fails."""
        if self.has_topic:
            return
        if self._creation is None:
            self._creation = asyncio.ensure_future(self._create_topic())
            self._creation.add_done_callback(self._created)
        await asyncio.shield(self._creation)

    def _created(self, creation: asyncio.Future[None]) -> None:
        self._creation = None
        if not creation.cancelled() and creation.exception() is not None:
            log.error("cannot create topic=%s error=%s", GROUP_METADATA_TOPIC, creation.exception())

    async def _create_topic(self) -> None:
        topic = internal_topic(GROUP_METADATA_TOPIC, self._broker.config)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_TIMEOUT_MS)
        response = await self._broker.controller.create_topics(request)
        result = response.topics[0]
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, result.error_message)

    # -- life ----------------------------------------------------------------------------------------

    def on_image_change(self, delta: MetadataDelta) -> None:
        """Follow leadership and deleted topics; to be called after the replicas have followed."""
        topic = self._broker.image.topics.by_name.get(GROUP_METADATA_TOPIC)
        is_deleted = any(deleted.name == GROUP_METADATA_TOPIC for deleted in delta.deleted_topics)
        if is_deleted:
            self._resign(range(self._partition_count))
            self._partition_count = self._broker.config.get_int("offsets.topic.num.partitions")
        elif topic is not None:
            for topic_id, partition in delta.changed_partitions:
                if topic_id == topic.topic_id:
                    self._follow_leadership(partition)
            self._partition_count = len(topic.partitions)
        for deleted in delta.deleted_topics:
            for owner in list(self._loaded.values()):
                records = owner.coordinator.handle_topic_deleted(deleted.name, deleted.topic_id)
                owner.settle(records, atomic=False)

    def close(self) -> None:
        """Stop serving; requests that wait are answered NOT_COORDINATOR."""
        self._resign([*self._loaded, *self._loading])

    async def wait_until_loaded(self) -> None:
        """Return when no partition is loading."""
        while self._loading:
            await asyncio.wait(list(self._loading.values()))

    def _follow_leadership(self, partition: int) -> None:
        replica = self._broker.replicas.get(GROUP_METADATA_TOPIC, partition)
        if replica is None or not replica.is_leader:
            self._resign([partition])
        elif partition not in self._loaded and partition not in self._loading:
            self._elect(partition, replica)

    def _elect(self, partition: int, replica: Replica) -> None:
        coordinator = GroupCoordinator(self._config, lambda: str(uuid.uuid4()))
        if replica.log.log_end_offset == replica.log.log_start_offset:
            self._serve(partition, coordinator)
        else:
            self._loading[partition] = asyncio.create_task(self._load(partition, replica, coordinator))

    async def _load(self, partition: int, replica: Replica, coordinator: GroupCoordinator) -> None:
        try:
            await self._broker.run_in_worker(
                group_loader.load, replica.log, replica.high_watermark, coordinator, self._broker.clock_ms()
            )
        except Exception:
            log.exception("cannot load groups partition=%d", partition)
        else:
            self._serve(partition, coordinator)
        finally:
            if self._loading.get(partition) is asyncio.current_task():
                del self._loading[partition]

    def _serve(self, partition: int, coordinator: GroupCoordinator) -> None:
        append = partial(self._broker.replicas.append, GROUP_METADATA_TOPIC, partition)
        compression = self._broker.config.get_int("offsets.topic.compression.codec")
        owner = GroupPartition(coordinator, append, self._broker.clock_ms, compression)
        self._loaded[partition] = owner
        owner.start()

    def _resign(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            loading = self._loading.pop(partition, None)
            if loading is not None:
                loading.cancel()
            owner = self._loaded.pop(partition, None)
            if owner is not None:
                owner.stop()

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


def _raise_for(error: ErrorCode) -> None:
    """Raise what group clients understand for an error of the log, or of a group."""
    if error is not ErrorCode.NONE:
        raise KafkaError(append_error(error))
