"""What the members of a quorum say to each other, without the wire's nesting.

Each request and response is one of Kafka's for the one partition there is (KIP-595, KIP-630, KIP-853,
KIP-996). `broker.quorum` puts them into Kafka's messages.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from penstock.consensus.log import Diverging, NeedsSnapshot, OffsetAndEpoch, SnapshotId
from penstock.consensus.voters import Endpoints, ReplicaKey
from penstock.protocol.errors import ErrorCode


class VoteRequest(NamedTuple):
    cluster_id: str | None
    voter: ReplicaKey | None
    """Who is asked, as the candidate's voters say; None by those that do not know KIP-853."""
    epoch: int
    candidate: ReplicaKey
    last: OffsetAndEpoch
    pre_vote: bool


class BeginQuorumEpochRequest(NamedTuple):
    cluster_id: str | None
    voter: ReplicaKey | None
    leader_id: int
    epoch: int
    endpoints: Endpoints


class EndQuorumEpochRequest(NamedTuple):
    cluster_id: str | None
    leader_id: int
    epoch: int
    successors: tuple[ReplicaKey, ...]
    """Voters, the one with the longest log first."""
    endpoints: Endpoints


class FetchRequest(NamedTuple):
    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    offset: int
    last_epoch: int
    max_bytes: int
    max_wait_ms: int
    high_watermark: int
    """-1 where it isn't known."""


class FetchSnapshotRequest(NamedTuple):
    cluster_id: str | None
    replica: ReplicaKey
    epoch: int
    snapshot: SnapshotId
    position: int
    max_bytes: int


class AddVoterRequest(NamedTuple):
    cluster_id: str | None
    voter: ReplicaKey
    endpoints: Endpoints
    ack_when_committed: bool


class RemoveVoterRequest(NamedTuple):
    cluster_id: str | None
    voter: ReplicaKey


class UpdateVoterRequest(NamedTuple):
    cluster_id: str | None
    epoch: int
    voter: ReplicaKey
    endpoints: Endpoints
    min_kraft_version: int
    max_kraft_version: int


class SupportedVersionsRequest(NamedTuple):
    """ApiVersions, for the ``kraft.version`` that a replica knows."""


Request: TypeAlias = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | SupportedVersionsRequest
)


class View(NamedTuple):
    """What every response tells: how it went, and whom the responder takes for the leader of which epoch."""

    error: ErrorCode
    leader_id: int | None = None
    epoch: int = -1
    endpoints: Endpoints = {}  # noqa: RUF012 (never changed)
    """The leader's."""
    top_level: bool = False
    """The error is of the request as a whole; nothing else in the response counts."""


class VoteResponse(NamedTuple):
    view: View
    granted: bool = False


class EpochResponse(NamedTuple):
    """To BeginQuorumEpoch and EndQuorumEpoch."""

    view: View


class FetchResponse(NamedTuple):
    view: View
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    instead: Diverging | NeedsSnapshot | None = None
    """Why there are no records, where the follower has to do something else first."""


class FetchSnapshotResponse(NamedTuple):
    view: View
    snapshot: SnapshotId = SnapshotId(-1, -1)
    size: int = 0
    position: int = 0
    data: bytes = b""


class ChangeResponse(NamedTuple):
    """To AddVoter and RemoveVoter."""

    error: ErrorCode
    message: str | None = None


class UpdateVoterResponse(NamedTuple):
    view: View


class SupportedVersionsResponse(NamedTuple):
    error: ErrorCode
    kraft_versions: tuple[int, int] | None
    """Lowest and highest; None from who does not know the feature."""


Response: TypeAlias = (
    VoteResponse
    | EpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | ChangeResponse
    | UpdateVoterResponse
    | SupportedVersionsResponse
)
