"""Random histories of clients, clocks, failing disks and restarts, with invariants of groups."""

import itertools
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.coordinators.group.config import GroupCoordinatorConfig
from penstock.coordinators.group.coordinator import GroupCoordinator
from penstock.coordinators.group.group import ClassicGroup
from penstock.coordinators.group.results import PARKED
from penstock.coordinators.group.shard import TimerKind
from penstock.coordinators.group.states import ClassicGroupState
from penstock.coordinators.records import CoordinatorRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    ZERO_UUID,
    GroupMetadataKey,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)

PARTITIONS = [f"p{index}" for index in range(5)]
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x02t1\xff\xff\xff\xff"
SETTLED = (ClassicGroupState.EMPTY, ClassicGroupState.STABLE)
CONFIG = GroupCoordinatorConfig(
    group_initial_rebalance_delay_ms=1_000,
    group_max_size=4,
    offsets_retention_ms=60_000,
    offsets_retention_check_interval_ms=20_000,
)


@dataclass(eq=False)
class Consumer:
    """A client of a group, with its view of the group."""

    group_id: str
    client_id: str
    instance: str | None
    api_version: int = 9
    client_host: str = "10.0.0.1"
    member_id: str = ""
    generation_id: int = -1
    seen_members: list[str] = field(default_factory=list)


@dataclass(eq=False)
class Ticket:
    consumer: Consumer
    kind: type
    generation_id: int
    answered: bool = False


class GroupHistories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.log: list[CoordinatorRecord] = []
        self.refusals = 0
        self.tickets: list[Ticket] = []
        self.generations: dict[str, int] = {}
        self.owners: dict[tuple[str, int, str], str] = {}
        self.uuids = itertools.count()
        self.consumers = [
            Consumer(group_id, f"{group_id}{index}", f"i{index}" if index < 2 else None)
            for group_id in ("g", "h")
            for index in range(5)
        ]
        self.start()

    def start(self) -> None:
        self.coordinator = GroupCoordinator(CONFIG, lambda: str(next(self.uuids)))
        for offset, record in enumerate(self.log):
            self.coordinator.replay(record, offset, self.now_ms)
        self.settle(self.coordinator.on_loaded(self.now_ms))

    def settle(self, records: list[CoordinatorRecord]) -> ErrorCode:
        error = ErrorCode.NONE
        if records and self.refusals:
            self.refusals -= 1
            error = ErrorCode.KAFKA_STORAGE_ERROR
            self.settle(self.coordinator.fail_append(records, error, self.now_ms))
        else:
            for record in records:
                self.log.append(record)
                if isinstance(record.key, GroupMetadataKey) and record.value is None:
                    self.forget_group(record.key.group)
                self.coordinator.replay(record, len(self.log) - 1, self.now_ms)
        for ticket, response in self.coordinator.take_replies():
            assert isinstance(ticket, Ticket)
            self.deliver(ticket, response)
        return error

    def forget_group(self, group_id: str) -> None:
        """Forget a deleted group, which may be created again from generation 0."""
        self.generations.pop(group_id, None)
        self.owners = {key: owner for key, owner in self.owners.items() if key[0] != group_id}

    def deliver(self, ticket: Ticket, response: JoinGroupResponse | SyncGroupResponse) -> None:
        assert not ticket.answered, "a parked request is answered once"
        assert isinstance(response, ticket.kind)
        ticket.answered = True
        if isinstance(response, JoinGroupResponse):
            self.joined(ticket.consumer, response)
        elif response.error_code == ErrorCode.NONE:
            self.synced(ticket.consumer, ticket.generation_id, response.assignment)

    def joined(self, consumer: Consumer, response: JoinGroupResponse) -> None:
        if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            consumer.member_id = response.member_id
            consumer.generation_id = response.generation_id
            consumer.seen_members = [member.member_id for member in response.members]
        elif response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            consumer.member_id = ""

    def synced(self, consumer: Consumer, generation_id: int, assignment: bytes) -> None:
        for partition in filter(None, assignment.decode().split(",")):
            key = (consumer.group_id, generation_id, partition)
            owner = self.owners.setdefault(key, consumer.client_id)
            assert owner == consumer.client_id, f"{key} belongs to {owner} and {consumer.client_id}"

    # -- actions of clients --------------------------------------------------------------------------

    @initialize(versions=st.lists(st.sampled_from([3, 5, 9]), min_size=10, max_size=10))
    def choose_versions(self, versions: list[int]) -> None:
        for consumer, version in zip(self.consumers, versions, strict=True):
            consumer.api_version = version

    @rule(
        index=st.integers(0, 9),
        protocols=st.sampled_from([("range",), ("range", "sticky"), ("sticky", "range"), ("sticky",)]),
        restarted=st.booleans(),
    )
    def join(self, index: int, protocols: tuple[str, ...], restarted: bool) -> None:
        consumer = self.consumers[index]
        if restarted:
            consumer.member_id = ""
        request = JoinGroupRequest(
            group_id=consumer.group_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=15_000,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance if consumer.api_version >= 5 else None,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=SUBSCRIPTION)
                for name in protocols
            ],
        )
        ticket = Ticket(consumer, JoinGroupResponse, -1)
        records, response = self.coordinator.handle_join_group(request, consumer, ticket, self.now_ms)
        if response is PARKED:
            self.tickets.append(ticket)
        error = self.settle(records)
        if response is not PARKED:
            self.joined(consumer, JoinGroupResponse(error_code=error) if error else response)

    @rule(index=st.integers(0, 9), seed=st.randoms(use_true_random=False))
    def sync(self, index: int, seed: object) -> None:
        consumer = self.consumers[index]
        shares: dict[str, list[str]] = {member_id: [] for member_id in consumer.seen_members}
        for partition in PARTITIONS if shares else ():
            shares[seed.choice(sorted(shares))].append(partition)
        request = SyncGroupRequest(
            group_id=consumer.group_id,
            generation_id=consumer.generation_id,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance if consumer.api_version >= 5 else None,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(
                    member_id=member_id, assignment=",".join(share).encode()
                )
                for member_id, share in shares.items()
            ],
        )
        ticket = Ticket(consumer, SyncGroupResponse, consumer.generation_id)
        records, response = self.coordinator.handle_sync_group(request, ticket)
        if response is PARKED:
            self.tickets.append(ticket)
        self.settle(records)
        if response is not PARKED and response.error_code == ErrorCode.NONE:
            self.synced(consumer, consumer.generation_id, response.assignment)

    @rule(
        first=st.sampled_from([0, 5]),
        count=st.integers(1, 4),
        protocols=st.sampled_from([("range",), ("range", "sticky")]),
        seed=st.randoms(use_true_random=False),
    )
    def settle_down(self, first: int, count: int, protocols: tuple[str, ...], seed: object) -> None:
        """Let some consumers of a group behave correctly, so that many rebalances complete."""
        indexes = range(first, first + count)
        for _ in range(2):  # the second time with the id that the first may have received
            for index in indexes:
                self.join(index, protocols, restarted=False)
        self.pass_time(1_000)
        for index in indexes:
            self.sync(index, seed)

    @rule(index=st.integers(0, 9))
    def heartbeat(self, index: int) -> None:
        consumer = self.consumers[index]
        request = HeartbeatRequest(
            group_id=consumer.group_id,
            generation_id=consumer.generation_id,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance if consumer.api_version >= 5 else None,
        )
        self.coordinator.handle_heartbeat(request, self.now_ms)
        self.settle([])

    @rule(indexes=st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True))
    def leave(self, indexes: list[int]) -> None:
        consumers = [self.consumers[index] for index in indexes]
        request = LeaveGroupRequest(
            group_id=consumers[0].group_id,
            members=[LeaveGroupRequest.MemberIdentity(member_id=c.member_id) for c in consumers],
        )
        records, _ = self.coordinator.handle_leave_group(request, self.now_ms)
        self.settle(records)

    @rule(index=st.integers(0, 9), offset=st.integers(0, 99), topic=st.sampled_from(["t1", "t2"]))
    def commit(self, index: int, offset: int, topic: str) -> None:
        consumer = self.consumers[index]
        request = OffsetCommitRequest(
            group_id=consumer.group_id,
            generation_id_or_member_epoch=consumer.generation_id,
            member_id=consumer.member_id,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=ZERO_UUID,
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset
                        )
                    ],
                )
            ],
        )
        records, _ = self.coordinator.handle_offset_commit(request, consumer, self.now_ms)
        self.settle(records)

    # -- environment ---------------------------------------------------------------------------------

    @rule(step_ms=st.sampled_from([0, 500, 3_000, 9_000, 30_000]))
    def pass_time(self, step_ms: int) -> None:
        end_ms = self.now_ms + step_ms
        while (deadline_ms := self.coordinator.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self.now_ms = max(self.now_ms, deadline_ms)
            self.settle(self.coordinator.on_timeout(self.now_ms))
        self.now_ms = end_ms

    @rule()
    def refuse_next_append(self) -> None:
        self.refusals = 1

    @rule(group_id=st.sampled_from(["g", "h"]))
    def delete(self, group_id: str) -> None:
        records, _ = self.coordinator.handle_delete_group(group_id)
        self.settle(records)

    @rule()
    def restart(self) -> None:
        self.tickets.clear()
        self.generations.clear()  # a rebalance that was not written is lost
        self.owners.clear()
        self.start()

    # -- invariants ----------------------------------------------------------------------------------

    def groups(self, coordinator: GroupCoordinator) -> list[ClassicGroup]:
        return [g for g in coordinator._shard.groups.values() if isinstance(g, ClassicGroup)]

    @invariant()
    def generations_only_rise(self) -> None:
        for group in self.groups(self.coordinator):
            assert group.generation_id >= self.generations.get(group.group_id, 0)
            self.generations[group.group_id] = group.generation_id

    @invariant()
    def bookkeeping_is_sound(self) -> None:
        for group in self.groups(self.coordinator):
            members = group.members.values()
            assert group.awaiting_join_count == sum(m.join_ticket is not None for m in members)
            counted = Counter(name for m in members for name, _ in m.protocols)
            assert +group.protocol_counts == counted
            assert group.static_ids == {m.group_instance_id: m.member_id for m in members if m.is_static}
            assert (group.leader_id in group.members) if group.members else group.leader_id is None
            assert group.static_replacement is None
            assert group.pending_sync_ids <= group.members.keys()
            assert not group.pending_join_ids & group.members.keys()
            if group.state is ClassicGroupState.EMPTY:
                assert not group.members

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        waiting = {
            ticket
            for group in self.groups(self.coordinator)
            for member in group.members.values()
            for ticket in (member.join_ticket, member.sync_ticket)
            if ticket is not None
        }
        assert waiting == {ticket for ticket in self.tickets if not ticket.answered}
        timers = self.coordinator._shard.timers
        for group in self.groups(self.coordinator):
            for member in group.members.values():
                if not member.is_excused:
                    key = (TimerKind.SESSION, group.group_id, member.member_id)
                    assert timers.deadline_ms(key) is not None
            if group.state is ClassicGroupState.PREPARING_REBALANCE:
                assert timers.deadline_ms((TimerKind.JOIN, group.group_id)) is not None
            if group.state is ClassicGroupState.COMPLETING_REBALANCE:
                assert timers.deadline_ms((TimerKind.SYNC, group.group_id)) is not None

    @invariant()
    def the_log_tells_the_same(self) -> None:
        recovered = GroupCoordinator(CONFIG, lambda: "")
        for offset, record in enumerate(self.log):
            recovered.replay(record, offset, self.now_ms)
        assert offsets_of(recovered) == offsets_of(self.coordinator)
        loaded = {group.group_id: group for group in self.groups(recovered)}
        for group in self.groups(self.coordinator):
            twin = loaded.pop(group.group_id)
            assert twin.generation_id <= group.generation_id
            # Only this coordinator knows state that it could not write.
            if group.state in SETTLED and twin.generation_id == group.generation_id:
                assert durable_view(twin) == durable_view(group)
        assert not loaded


def offsets_of(coordinator: GroupCoordinator) -> dict[tuple[str, str, int], int]:
    return {
        (group_id, topic, partition): offset.offset
        for group_id, topics in coordinator._shard.offsets.groups()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def durable_view(group: ClassicGroup) -> object:
    members = {
        m.member_id: (m.group_instance_id, m.client_id, m.session_timeout_ms, m.assignment)
        for m in group.members.values()
    }
    return (
        group.state,
        group.generation_id,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        group.topics,
        members,
    )


TestGroupHistories = GroupHistories.TestCase
TestGroupHistories.settings = settings(max_examples=60, stateful_step_count=60)
