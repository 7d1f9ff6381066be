"""One member of a classic group."""

from penstock.coordinators.group.results import Ticket

__all__ = ["Member", "Protocols"]

#: What a member can do, in its order of preference: (protocol name, metadata).
Protocols = tuple[tuple[str, bytes], ...]


class Member:
    """A member: what it asked for, what it was given, and its parked requests.

    At most one JoinGroup and one SyncGroup of a member are parked; their tickets are set through the
    group, which counts them.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.join_ticket: Ticket | None = None
        self.sync_ticket: Ticket | None = None
        #: Its first JoinGroup has not been answered yet: it cannot send heartbeats.
        self.is_new = False

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_excused(self) -> bool:
        """A parked request keeps a member's session alive, unless it is new and has no session yet."""
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def metadata(self, protocol_name: str) -> bytes:
        """Its metadata for a protocol it supports; KeyError otherwise."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(protocol_name)

    def vote(self, candidates: set[str]) -> str:
        """The candidate it likes best; at least one must be its own."""
        return next(name for name, _ in self.protocols if name in candidates)
