"""What the state machine wants done. Effects are carried out in order, each before the next is begun."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from penstock.consensus.messages import Request, Response
from penstock.consensus.quorum_state import ElectionState
from penstock.consensus.voters import Address


class Node(NamedTuple):
    """Who a request goes to. Bootstrap servers, whose ids nobody knows, have negative ones from -2 down."""

    id: int
    address: Address


class Persist(NamedTuple):
    """Make the election state durable. What follows would be a lie if it were forgotten."""

    election: ElectionState


class BeginEpoch(NamedTuple):
    """The election is durable: call `Raft.begin_epoch`, which appends the leader's first batch."""

    epoch: int


class Flush(NamedTuple):
    """Make the log durable up to its end: the next Fetch says that it is."""


class Truncate(NamedTuple):
    """Drop all records at and above an offset, durably."""

    offset: int


class InstallSnapshot(NamedTuple):
    """The snapshot being received is complete: make it durable, and the log go on from it.

    Then call `Raft.snapshot_installed`.
    """


class Send(NamedTuple):
    """Send a request, and report the response with `Raft.receive_response`, or that there is none."""

    to: Node
    correlation_id: int
    request: Request


class Reply(NamedTuple):
    """The response to a request that came in with this token."""

    token: int
    response: Response


Effect: TypeAlias = Persist | BeginEpoch | Flush | Truncate | InstallSnapshot | Send | Reply
