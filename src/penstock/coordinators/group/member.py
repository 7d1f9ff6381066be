"""One member of a classic group."""

from penstock.coordinators.group.results import Ticket

__all__ = ["Member", "Protocols"]

Protocols = tuple[tuple[str, bytes], ...]
"""The protocols a member supports, in its order of preference: (protocol name, metadata)."""


class Member:
    """One member: its settings, its assignment, and its parked requests.

    At most one JoinGroup and one SyncGroup of a member are parked. JoinGroup tickets are set through the
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
        self.is_new = False
        """Whether its first JoinGroup is still unanswered, so that it cannot send heartbeats yet."""

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether a parked request keeps the session alive; a new member has no session to keep."""
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def metadata(self, protocol_name: str) -> bytes:
        """The member's metadata for a protocol. Raises KeyError if it does not support the protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise KeyError(protocol_name)

    def vote(self, candidates: set[str]) -> str:
        """The candidate that the member prefers; it must support at least one."""
        return next(name for name, _ in self.protocols if name in candidates)
