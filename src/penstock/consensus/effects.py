"""The actions that the state machine requests. The node carries them out in order, one at a time."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from penstock.consensus.messages import Request, Response
from penstock.consensus.quorum_state import ElectionState
from penstock.consensus.voters import Address


class Node(NamedTuple):
    """The receiver of a request. Bootstrap servers, whose ids are unknown, have negative ids from -2 down."""

    id: int
    address: Address


class Persist(NamedTuple):
    """Make the election state durable before the effects that follow, which rely on it."""

    election: ElectionState


class BeginEpoch(NamedTuple):
    """Call `Raft.begin_epoch`, which appends the leader's first batch; the election is now durable."""

    epoch: int


class Flush(NamedTuple):
    """Make the log durable up to its end, because the next Fetch reports that it is."""


class Truncate(NamedTuple):
    """Drop all records at and above an offset, durably."""

    offset: int


class InstallSnapshot(NamedTuple):
    """Make the snapshot just received durable, and let the log continue from it.

    Then call `Raft.snapshot_installed`.
    """


class Send(NamedTuple):
    """Send a request, and pass the response, or None without one, to `Raft.receive_response`."""

    to: Node
    correlation_id: int
    request: Request


class Reply(NamedTuple):
    """Send the response to the request that was received with this token."""

    token: int
    response: Response


Effect: TypeAlias = Persist | BeginEpoch | Flush | Truncate | InstallSnapshot | Send | Reply
