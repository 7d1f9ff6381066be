"""The messages between the members of a quorum, without the nesting of the wire format.

Each request and response corresponds to one of Kafka's, for the only partition (KIP-595, KIP-630, KIP-853,
KIP-996). `broker.quorum` converts them to Kafka's messages.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from penstock.consensus.log import Diverging, NeedsSnapshot, OffsetAndEpoch, SnapshotId
from penstock.consensus.voters import Endpoints, ReplicaKey
from penstock.protocol.errors import ErrorCode


class VoteRequest(NamedTuple):
    cluster_id: str | None
    voter: ReplicaKey | None
    """The voter asked, as the candidate knows it; None if the candidate does not know KIP-853."""
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
    """The other voters, those with the longest logs first."""
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
    """The replica's high watermark, or -1 if it is unknown."""


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
    """An ApiVersions request for the ``kraft.version`` range that a replica supports."""


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
    """The common part of all responses: the error, and the epoch and leader that the responder knows."""

    error: ErrorCode
    leader_id: int | None = None
    epoch: int = -1
    endpoints: Endpoints = {}  # noqa: RUF012 (never changed)
    """The endpoints of the leader."""
    top_level: bool = False
    """Whether the error is that of the whole request, so that nothing else in the response is valid."""


class VoteResponse(NamedTuple):
    view: View
    granted: bool = False


class EpochResponse(NamedTuple):
    """The response to BeginQuorumEpoch and EndQuorumEpoch."""

    view: View


class FetchResponse(NamedTuple):
    view: View
    high_watermark: int = -1
    log_start_offset: int = -1
    records: bytes = b""
    instead: Diverging | NeedsSnapshot | None = None
    """The reason why there are no records, if the follower has to truncate or fetch a snapshot first."""


class FetchSnapshotResponse(NamedTuple):
    view: View
    snapshot: SnapshotId = SnapshotId(-1, -1)
    size: int = 0
    position: int = 0
    data: bytes = b""


class ChangeResponse(NamedTuple):
    """The response to AddVoter and RemoveVoter."""

    error: ErrorCode
    message: str | None = None


class UpdateVoterResponse(NamedTuple):
    view: View


class SupportedVersionsResponse(NamedTuple):
    error: ErrorCode
    kraft_versions: tuple[int, int] | None
    """The lowest and highest version; None if the replica does not know the feature."""


Response: TypeAlias = (
    VoteResponse
    | EpochResponse
    | FetchResponse
    | FetchSnapshotResponse
    | ChangeResponse
    | UpdateVoterResponse
    | SupportedVersionsResponse
)
