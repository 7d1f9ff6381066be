"""The requests and responses of members survive Kafka's encoding unchanged, in all versions."""

import pytest

from penstock.broker.quorum.metadata_partition import NotTheMetadataLog
from penstock.broker.quorum.requests import message_of, request_of
from penstock.broker.quorum.responses import refusal, response_of, response_to
from penstock.consensus import messages as q
from penstock.consensus.log import Diverging, NeedsSnapshot, OffsetAndEpoch, SnapshotId
from penstock.consensus.voters import Address, ReplicaKey
from penstock.protocol import api_keys
from penstock.protocol import messages as m
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode

LISTENER = "CONTROLLER"
ONE, TWO = ReplicaKey(1, b"1" * 16), ReplicaKey(2, b"2" * 16)
ENDPOINTS = {LISTENER: Address("one", 9093)}

VOTE = q.VoteRequest("cluster", TWO, 7, ONE, OffsetAndEpoch(100, 6), True)
BEGIN = q.BeginQuorumEpochRequest("cluster", TWO, 1, 7, ENDPOINTS)
END = q.EndQuorumEpochRequest("cluster", 1, 7, (TWO, ONE), ENDPOINTS)
FETCH = q.FetchRequest("cluster", TWO, 7, 100, 6, 1 << 20, 500, 90)
PIECE = q.FetchSnapshotRequest("cluster", TWO, 7, SnapshotId(90, 6), 300, 1 << 20)
ADD = q.AddVoterRequest("cluster", TWO, ENDPOINTS, False)
REMOVE = q.RemoveVoterRequest("cluster", TWO)
UPDATE = q.UpdateVoterRequest("cluster", 7, TWO, ENDPOINTS, 0, 1)

OK = q.View(ErrorCode.NONE, 1, 7, ENDPOINTS)
UNKNOWN = q.View(ErrorCode.NOT_LEADER_OR_FOLLOWER, None, 7, {})
FOREIGN = q.View(ErrorCode.INCONSISTENT_CLUSTER_ID, top_level=True)


def passed(message: Message, version: int | None = None) -> Message:
    """Encode and decode a message, as on the way between two nodes."""
    key = ApiKey(message.ID)
    version = api_keys.api_range(key)[1] if version is None else version
    data = b"".join(bytes(part) for part in message.encode_parts(version))
    return type(message).decode(version, memoryview(data))[0]


@pytest.mark.parametrize("request_", [VOTE, BEGIN, END, FETCH, PIECE, ADD, REMOVE, UPDATE], ids=repr)
def test_requests(request_: q.Request) -> None:
    message = message_of(request_)
    version = api_keys.api_range(ApiKey(message.ID))[1]
    assert request_of(passed(message), version) == request_


def test_requests_of_before_voters_had_keys() -> None:
    """Version 0 contains only ids (KIP-595), and members of that version send no pre-votes."""
    vote = request_of(passed(message_of(VOTE._replace(pre_vote=False)), 0), 0)
    assert vote == VOTE._replace(pre_vote=False, voter=None, candidate=ReplicaKey(1))
    assert request_of(passed(message_of(BEGIN), 0), 0) == BEGIN._replace(voter=None, endpoints={})
    end = request_of(passed(message_of(END), 0), 0)
    assert end == END._replace(successors=(ReplicaKey(2), ReplicaKey(1)), endpoints={})
    assert request_of(passed(message_of(FETCH), 12), 12) == FETCH._replace(
        replica=ReplicaKey(2), high_watermark=2**63 - 1
    )


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (VOTE, q.VoteResponse(OK, True)),
        (VOTE, q.VoteResponse(UNKNOWN)),
        (VOTE, q.VoteResponse(FOREIGN)),
        (BEGIN, q.EpochResponse(OK)),
        (BEGIN, q.EpochResponse(FOREIGN)),
        (END, q.EpochResponse(OK)),
        (END, q.EpochResponse(UNKNOWN)),
        (FETCH, q.FetchResponse(OK, 95, 10, b"records")),
        (FETCH, q.FetchResponse(OK, 95, 10, instead=Diverging(OffsetAndEpoch(80, 5)))),
        (FETCH, q.FetchResponse(OK, 95, 10, instead=NeedsSnapshot(SnapshotId(90, 6)))),
        (FETCH, q.FetchResponse(UNKNOWN)),
        (FETCH, q.FetchResponse(FOREIGN)),
        (PIECE, q.FetchSnapshotResponse(OK, SnapshotId(90, 6), 1000, 300, b"piece")),
        (PIECE, q.FetchSnapshotResponse(q.View(ErrorCode.SNAPSHOT_NOT_FOUND, 1, 7, ENDPOINTS))),
        (ADD, q.ChangeResponse(ErrorCode.DUPLICATE_VOTER, "is one already")),
        (REMOVE, q.ChangeResponse(ErrorCode.NONE)),
        (UPDATE, q.UpdateVoterResponse(OK)),
    ],
    ids=repr,
)
def test_responses(request_: q.Request, response: q.Response) -> None:
    message = response_to(message_of(request_), response, LISTENER)
    assert response_of(request_, passed(message), LISTENER) == response


@pytest.mark.parametrize(
    "versions", [(0, 1), None], ids=["knows kraft.version", "has never heard of kraft.version"]
)
def test_supported_versions(versions: tuple[int, int] | None) -> None:
    features = [
        m.ApiVersionsResponse.SupportedFeatureKey(name="metadata.version", min_version=7, max_version=30)
    ]
    if versions is not None:
        features.append(
            m.ApiVersionsResponse.SupportedFeatureKey(
                name="kraft.version", min_version=versions[0], max_version=versions[1]
            )
        )
    answer = passed(m.ApiVersionsResponse(supported_features=features), 4)
    found = response_of(q.SupportedVersionsRequest(), answer, LISTENER)
    assert found == q.SupportedVersionsResponse(ErrorCode.NONE, versions)


@pytest.mark.parametrize("request_", [VOTE, BEGIN, END, PIECE], ids=lambda r: type(r).__name__)
def test_another_topic_is_refused(request_: q.Request) -> None:
    message = message_of(request_)
    (topic,) = message.topics  # type: ignore[attr-defined]
    for name in ("topic_name", "name"):
        if hasattr(topic, name):
            setattr(topic, name, "orders")
    with pytest.raises(NotTheMetadataLog):
        request_of(message, 1)
    assert refusal(message, ErrorCode.INVALID_REQUEST).error_code == ErrorCode.INVALID_REQUEST  # type: ignore[attr-defined]


def test_a_fetch_of_another_topic_is_refused() -> None:
    message = message_of(FETCH)
    assert isinstance(message, m.FetchRequest)
    message.topics[0].topic, message.topics[0].topic_id = "orders", b"o" * 16
    with pytest.raises(NotTheMetadataLog):
        request_of(message, 18)
