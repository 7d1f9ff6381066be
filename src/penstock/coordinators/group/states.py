"""The states of a classic group, and the table of their transitions.

A classic group (KIP-62) agrees on an assignment in two rounds. In the *join* round every member sends the
protocols it supports with its metadata. In the *sync* round one member, the leader, sends the assignment of
partitions to all members. The coordinator never computes an assignment: it makes sure that all members of one
generation see the same one.

``Empty``
    The group has no members, but may have offsets. This is also the only state of a *simple* group, which
    commits offsets without ever joining. The group ends when its offsets have expired.
``PreparingRebalance``
    The join round. Join requests are parked until every known member has rejoined or the rebalance timeout
    (the longest of all members) has passed. Heartbeats are answered with REBALANCE_IN_PROGRESS, so that
    members learn about the round. Commits are accepted, because members finish their work before they rejoin.
    A group that was Empty first waits ``group.initial.rebalance.delay.ms``, and again after each arrival up
    to the rebalance timeout, so that members that start together cause a single rebalance. The groups of
    schema registries, which elect a leader and share no partitions, do not wait.
``CompletingRebalance``
    The sync round. The generation has begun, its members are known, and followers are parked until the
    leader's assignment is in the log. Commits are refused with REBALANCE_IN_PROGRESS, because partitions are
    changing their owners. Members that never sync are removed after the rebalance timeout.
``Stable``
    All members work. The group returns to PreparingRebalance when a member is added or lost, when the leader
    joins again, or when a follower joins with other metadata.
``Dead``
    The group has been removed. This state is final; requests that still hold the object are answered with an
    error that makes the client find the coordinator again.

Only two things are written to the log: the assignment when the sync round ends, and the fact that a group
became Empty. So a group is loaded as Stable or Empty, never in the middle of a round. If a coordinator fails
during a round, the members of that round join again.
"""

from enum import Enum, unique

__all__ = ["VALID_PREVIOUS_STATES", "ClassicGroupState", "GroupType"]


@unique
class GroupType(Enum):
    """The protocol of a group. Only classic groups are served; the other types have no more than a name."""

    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    SHARE = "share"  # KIP-932
    STREAMS = "streams"  # KIP-1071


@unique
class ClassicGroupState(Enum):
    """One state of a classic group; the value is its name in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = ClassicGroupState

VALID_PREVIOUS_STATES: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE}),
    _S.PREPARING_REBALANCE: frozenset({_S.EMPTY, _S.COMPLETING_REBALANCE, _S.STABLE}),
    _S.COMPLETING_REBALANCE: frozenset({_S.PREPARING_REBALANCE}),
    _S.STABLE: frozenset({_S.COMPLETING_REBALANCE}),
    _S.DEAD: frozenset(_S),
}
"""The states from which each state may be entered."""
