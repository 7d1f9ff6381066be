"""The typed settings of a group coordinator, under Kafka's names."""

from dataclasses import dataclass

__all__ = ["GroupCoordinatorConfig"]


@dataclass(frozen=True, slots=True)
class GroupCoordinatorConfig:
    """The settings of one group coordinator; the defaults are Kafka's."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1000
    offsets_retention_check_interval_ms: int = 600_000
    new_member_join_timeout_ms: int = 5 * 60 * 1000
    """How long the first JoinGroup of a member stays parked.

    The session timeout cannot guard this request: a member without an id sends no heartbeats.
    """
