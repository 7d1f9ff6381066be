"""The bookkeeping of a classic group: members, generation, leader, protocol. It takes no decisions."""

from collections import Counter
from typing import NamedTuple

from penstock.coordinators.group.member import Member, Protocols
from penstock.coordinators.group.results import Ticket
from penstock.coordinators.group.states import VALID_PREVIOUS_STATES, ClassicGroupState, GroupType
from penstock.coordinators.group.subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from penstock.protocol.errors import ErrorCode

__all__ = ["ClassicGroup", "Group", "StaticReplacement"]


class Group:
    """A group of any type."""

    __slots__ = ("group_id",)

    type: GroupType

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id


class StaticReplacement(NamedTuple):
    """A static member that returned under a new id, which takes effect once its record is in the log."""

    old_member_id: str
    member: Member
    ticket: Ticket
    api_version: int


class ClassicGroup(Group):
    """A group of the classic protocol (JoinGroup, SyncGroup), or a simple group that only commits offsets."""

    __slots__ = (
        "awaiting_join_count",
        "generation_id",
        "initial_join_remaining_ms",
        "is_durable",
        "leader_id",
        "members",
        "new_member_added",
        "pending_join_ids",
        "pending_sync_ids",
        "previous_state",
        "protocol_counts",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_ids",
        "static_replacement",
        "topics",
    )

    type = GroupType.CLASSIC

    def __init__(self, group_id: str, now_ms: int) -> None:
        super().__init__(group_id)
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.DEAD
        self.state_timestamp_ms = now_ms  # -1: unknown, because the record is of an old version
        self.protocol_type: str | None = None  # None: a simple group
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}  # group.instance.id → member id
        self.pending_join_ids: set[str] = set()  # ids handed out with MEMBER_ID_REQUIRED
        self.pending_sync_ids: set[str] = set()
        self.awaiting_join_count = 0
        self.protocol_counts: Counter[str] = Counter()
        self.topics: frozenset[str] | None = None  # the subscription of a consumer group; None: unknown
        self.new_member_added = False
        self.initial_join_remaining_ms = 0
        """How much longer the group's first join round may still be extended."""
        self.is_durable = False
        """Whether the log contains the group, as a record of its own or by an offset."""
        self.static_replacement: StaticReplacement | None = None

    # -- state ---------------------------------------------------------------------------------------

    def transition_to(self, target: ClassicGroupState, now_ms: int) -> None:
        assert self.state in VALID_PREVIOUS_STATES[target], f"{self.group_id}: {self.state} → {target}"
        self.previous_state = self.state
        self.state = target
        self.state_timestamp_ms = now_ms

    def can_rebalance(self) -> bool:
        return self.state in VALID_PREVIOUS_STATES[ClassicGroupState.PREPARING_REBALANCE]

    def begin_next_generation(self, now_ms: int) -> None:
        """End the join round: start the sync round, or become Empty if there are no members."""
        self.generation_id += 1
        if self.members:
            self.protocol_name = self.select_protocol()
            self.transition_to(ClassicGroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol_name = None
            self.transition_to(ClassicGroupState.EMPTY, now_ms)
        self.topics = self.compute_topics()
        self.pending_sync_ids.clear()

    # -- members -------------------------------------------------------------------------------------

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first member leads the group and sets its protocol type."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_ids
            self.static_ids[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.pending_join_ids.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member or a pending member id with all of its state."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count_protocols(member, -1)
            if member.join_ticket is not None:
                self.awaiting_join_count -= 1
            if member.group_instance_id is not None:
                del self.static_ids[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_join_ids.discard(member_id)
        self.pending_sync_ids.discard(member_id)

    def replace_static(self, old_member_id: str, member: Member) -> None:
        """Replace a static member by its new incarnation, which also takes over the leadership."""
        assert member.group_instance_id is not None
        old = self.members.pop(old_member_id)
        self._count_protocols(old, -1)
        if old.join_ticket is not None:
            self.awaiting_join_count -= 1
        self.members[member.member_id] = member
        self._count_protocols(member, 1)
        self.static_ids[member.group_instance_id] = member.member_id
        if self.leader_id == old_member_id:
            self.leader_id = member.member_id
        self.pending_sync_ids.discard(old_member_id)

    def update_protocols(self, member: Member, protocols: Protocols) -> None:
        self._count_protocols(member, -1)
        member.protocols = protocols
        self._count_protocols(member, 1)

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Check that the member belongs to the group; an id is fenced if its static id has a newer owner."""
        if group_instance_id is not None:
            current_id = self.static_ids.get(group_instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def elect_joined_leader(self) -> bool:
        """Elect a leader among the members that rejoined; return False if no member has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_ticket is not None:
            return True
        for member in self.members.values():
            if member.join_ticket is not None:
                self.leader_id = member.member_id
                return True
        return False

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # -- parked requests -----------------------------------------------------------------------------

    def park_join(self, member: Member, ticket: Ticket) -> Ticket | None:
        """Park a JoinGroup; return the ticket of the older request that it replaces, if any."""
        replaced = member.join_ticket
        if replaced is None:
            self.awaiting_join_count += 1
        member.join_ticket = ticket
        return replaced

    def take_join(self, member: Member) -> Ticket | None:
        ticket = member.join_ticket
        if ticket is not None:
            member.join_ticket = None
            self.awaiting_join_count -= 1
        return ticket

    def have_all_members_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending_join_ids

    # -- protocols -----------------------------------------------------------------------------------

    def supports_protocols(self, protocol_type: str, names: list[str]) -> bool:
        """Whether a member of this type shares at least one of these protocols with all other members."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        return self.protocol_type == protocol_type and any(
            self.protocol_counts[name] == len(self.members) for name in names
        )

    def select_protocol(self) -> str:
        """Select a protocol: each member votes for its first one that all support; the most votes win."""
        candidates = {name for name, count in self.protocol_counts.items() if count == len(self.members)}
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the group reads the topic; a consumer group with an unknown subscription reads them all."""
        if self.topics is None:
            return self.uses_consumer_protocol
        return topic in self.topics

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def compute_topics(self) -> frozenset[str] | None:
        """The union of the members' subscriptions; None if it is unknown."""
        if not self.uses_consumer_protocol:
            return None
        if not self.members:
            return frozenset()
        protocol = self.protocol_name
        if protocol is None:
            return None
        return subscribed_topics(member.metadata(protocol) for member in self.members.values())

    def _count_protocols(self, member: Member, step: int) -> None:
        for name, _ in member.protocols:
            self.protocol_counts[name] += step
