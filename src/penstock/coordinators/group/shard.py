"""The state that the handlers of one partition of `__consumer_offsets` share, with timers and responses."""

from collections.abc import Callable, Container
from dataclasses import dataclass
from enum import Enum, auto

from penstock.coordinators.group.config import GroupCoordinatorConfig
from penstock.coordinators.group.group import ClassicGroup, Group
from penstock.coordinators.group.member import Member
from penstock.coordinators.group.offset_store import OffsetStore
from penstock.coordinators.group.results import Ticket
from penstock.coordinators.timers import Timers
from penstock.protocol.messages import JoinGroupResponse, SyncGroupResponse

__all__ = ["Counters", "Shard", "TimerKind"]


class TimerKind(Enum):
    """The first part of a timer's key; the group id and, for sessions, the member id follow."""

    SESSION = auto()
    JOIN = auto()
    SYNC = auto()
    EXPIRATION = auto()


@dataclass(slots=True)
class Counters:
    """Counts of events since the start, for metrics."""

    completed_rebalances: int = 0
    offset_commits: int = 0
    offset_deletions: int = 0
    offset_expirations: int = 0


class Shard:
    """The state with small operations on it; the modules named after the requests take the decisions."""

    __slots__ = (
        "blocked",
        "config",
        "counters",
        "expiration_queue",
        "groups",
        "held",
        "new_uuid",
        "offsets",
        "replies",
        "timers",
    )

    def __init__(self, config: GroupCoordinatorConfig, new_uuid: Callable[[], str]) -> None:
        self.config = config
        self.new_uuid = new_uuid
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self.timers = Timers()
        self.counters = Counters()
        self.expiration_queue: list[str] = []  # groups that the running expiration has yet to check
        self.replies: list[tuple[Ticket, JoinGroupResponse | SyncGroupResponse]] = []
        self.held: Container[str] = ()
        """Groups with records that have been appended, but neither replayed nor refused yet."""
        self.blocked: Container[str] = ()
        """The held groups that admit no other decision until then."""

    def classic_group(self, group_id: str) -> ClassicGroup | None:
        """The group if it exists and is of the classic type."""
        group = self.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    def remove_group(self, group: Group) -> None:
        """Remove a group and its timers."""
        self.groups.pop(group.group_id, None)
        if isinstance(group, ClassicGroup):
            for member_id in (*group.members, *group.pending_join_ids):
                self.cancel_session(group, member_id)
        self.timers.cancel((TimerKind.JOIN, group.group_id))
        self.timers.cancel((TimerKind.SYNC, group.group_id))

    # -- sessions ------------------------------------------------------------------------------------

    def renew_session(self, group: ClassicGroup, member: Member, now_ms: int) -> None:
        self.timers.schedule(
            (TimerKind.SESSION, group.group_id, member.member_id), now_ms + member.session_timeout_ms
        )

    def set_session(self, group: ClassicGroup, member_id: str, deadline_ms: int) -> None:
        self.timers.schedule((TimerKind.SESSION, group.group_id, member_id), deadline_ms)

    def cancel_session(self, group: ClassicGroup, member_id: str) -> None:
        self.timers.cancel((TimerKind.SESSION, group.group_id, member_id))

    # -- parked requests -----------------------------------------------------------------------------

    def answer_join(self, group: ClassicGroup, member: Member, response: JoinGroupResponse) -> bool:
        """Answer the member's parked JoinGroup; False if it has none."""
        ticket = group.take_join(member)
        if ticket is None:
            return False
        self.replies.append((ticket, response))
        return True

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Answer the member's parked SyncGroup; False if it has none."""
        ticket = member.sync_ticket
        if ticket is None:
            return False
        member.sync_ticket = None
        self.replies.append((ticket, response))
        return True
