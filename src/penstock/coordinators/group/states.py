"""The life of a classic group, as a table.

A classic group (KIP-62) agrees on an assignment in two rounds. In the *join* round every member sends
what it can do; in the *sync* round one of them, the leader, sends back who gets what. The coordinator
never computes an assignment: it makes sure that all members of one generation see the same one.

``Empty``
    No members, perhaps offsets. Also the only state of a *simple* group, which commits offsets without
    ever joining. It ends when its offsets have expired.
``PreparingRebalance``
    The join round. Join requests are parked until every known member has come back, or the rebalance
    timeout (the longest any member asked for) is over. Heartbeats are answered REBALANCE_IN_PROGRESS, so
    that members learn of the round. Commits are taken: members finish their work before they rejoin.
    A group that was Empty waits ``group.initial.rebalance.delay.ms`` first, and again for each arrival
    up to the rebalance timeout, so that a fleet that starts together rebalances once.
``CompletingRebalance``
    The sync round. The generation has begun, its members are known, followers are parked until the
    leader's assignment is in the log. Commits are refused with REBALANCE_IN_PROGRESS: partitions are
    changing hands. Members that never sync are removed after the rebalance timeout.
``Stable``
    Everybody works. A new member, a lost one, a leader that joins again or a follower that joins with
    other metadata all lead back to PreparingRebalance.
``Dead``
    Removed. Final; requests that still hold the object are told to look for the coordinator again.

Only two things are written to the log: the assignment when the sync round ends, and the fact that a
group became Empty. So a group is loaded as Stable or Empty, never in the middle of a round; members of a
round that was lost with the coordinator simply join again.
"""

from enum import Enum, unique

__all__ = ["VALID_PREVIOUS_STATES", "ClassicGroupState", "GroupType"]


@unique
class GroupType(Enum):
    """The protocols a group can speak. Only classic groups are served; the others name their doors."""

    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
    SHARE = "share"  # KIP-932
    STREAMS = "streams"  # KIP-1071


@unique
class ClassicGroupState(Enum):
    """The value is the name that DescribeGroups and ListGroups show."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_S = ClassicGroupState

#: target state → the states it may be entered from
VALID_PREVIOUS_STATES: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    _S.EMPTY: frozenset({_S.PREPARING_REBALANCE}),
    _S.PREPARING_REBALANCE: frozenset({_S.EMPTY, _S.COMPLETING_REBALANCE, _S.STABLE}),
    _S.COMPLETING_REBALANCE: frozenset({_S.PREPARING_REBALANCE}),
    _S.STABLE: frozenset({_S.COMPLETING_REBALANCE}),
    _S.DEAD: frozenset(_S),
}
