"""Convert the quorum's responses to Kafka's messages, and back."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from penstock.broker.quorum.metadata_log import TOPIC_ID
from penstock.broker.quorum.metadata_partition import NOBODY, NotTheMetadataLog, only_partition
from penstock.consensus import messages as q
from penstock.consensus.log import Diverging, NeedsSnapshot, OffsetAndEpoch, SnapshotId
from penstock.consensus.voters import Address, Endpoints
from penstock.protocol import messages as m
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import Message
from penstock.storage.names import CLUSTER_METADATA_TOPIC

KRAFT_VERSION: Final = "kraft.version"

Fields: TypeAlias = dict[str, Any]


# Outgoing


def refusal(message: Message, error: ErrorCode) -> Message:
    """The response to a request that is refused as a whole."""
    match message:
        case m.VoteRequest():
            return m.VoteResponse(error_code=error)
        case m.BeginQuorumEpochRequest():
            return m.BeginQuorumEpochResponse(error_code=error)
        case m.EndQuorumEpochRequest():
            return m.EndQuorumEpochResponse(error_code=error)
        case m.FetchRequest():
            return m.FetchResponse(error_code=error)
        case m.FetchSnapshotRequest():
            return m.FetchSnapshotResponse(error_code=error)
        case m.AddRaftVoterRequest():
            return m.AddRaftVoterResponse(error_code=error)
        case m.RemoveRaftVoterRequest():
            return m.RemoveRaftVoterResponse(error_code=error)
        case m.UpdateRaftVoterRequest():
            return m.UpdateRaftVoterResponse(error_code=error)
    raise AssertionError(f"{type(message).__name__} is no message of the quorum")


def response_to(message: Message, response: q.Response, listener: str) -> Message:
    """Convert the response to ``message``; endpoints are those of ``listener``, where the request arrived."""
    view = getattr(response, "view", None)
    if view is not None and view.top_level:
        return refusal(message, view.error)
    match response:
        case q.VoteResponse():
            return _vote_response(response, listener)
        case q.EpochResponse() if isinstance(message, m.BeginQuorumEpochRequest):
            return m.BeginQuorumEpochResponse(
                topics=[
                    m.BeginQuorumEpochResponse.TopicData(
                        topic_name=CLUSTER_METADATA_TOPIC,
                        partitions=[m.BeginQuorumEpochResponse.PartitionData(**_view_fields(response.view))],
                    )
                ],
                node_endpoints=_nodes(m.BeginQuorumEpochResponse.NodeEndpoint, response.view, listener),
            )
        case q.EpochResponse():
            return m.EndQuorumEpochResponse(
                topics=[
                    m.EndQuorumEpochResponse.TopicData(
                        topic_name=CLUSTER_METADATA_TOPIC,
                        partitions=[m.EndQuorumEpochResponse.PartitionData(**_view_fields(response.view))],
                    )
                ],
                node_endpoints=_nodes(m.EndQuorumEpochResponse.NodeEndpoint, response.view, listener),
            )
        case q.FetchResponse():
            return _fetch_response(response, listener)
        case q.FetchSnapshotResponse():
            return _fetch_snapshot_response(response, listener)
        case q.ChangeResponse() if isinstance(message, m.AddRaftVoterRequest):
            return m.AddRaftVoterResponse(error_code=response.error, error_message=response.message)
        case q.ChangeResponse():
            return m.RemoveRaftVoterResponse(error_code=response.error, error_message=response.message)
        case q.UpdateVoterResponse():
            return _update_response(response, listener)
        case q.SupportedVersionsResponse():
            raise AssertionError("ApiVersions is answered by the node, not by its quorum")


def _view_fields(view: q.View) -> Fields:
    return {
        "error_code": view.error,
        "leader_id": NOBODY if view.leader_id is None else view.leader_id,
        "leader_epoch": view.epoch,
    }


def _nodes(make: Any, view: q.View, listener: str) -> list[Any]:
    """The leader's address, if it is known on this listener."""
    address = view.endpoints.get(listener)
    if view.leader_id is None or address is None:
        return []
    return [make(node_id=view.leader_id, host=address.host, port=address.port)]


def _vote_response(response: q.VoteResponse, listener: str) -> m.VoteResponse:
    partition = m.VoteResponse.PartitionData(**_view_fields(response.view), vote_granted=response.granted)
    return m.VoteResponse(
        topics=[m.VoteResponse.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        node_endpoints=_nodes(m.VoteResponse.NodeEndpoint, response.view, listener),
    )


def _fetch_response(response: q.FetchResponse, listener: str) -> m.FetchResponse:
    view = response.view
    data = m.FetchResponse.PartitionData(
        partition_index=0,
        error_code=view.error,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        current_leader=m.FetchResponse.LeaderIdAndEpoch(
            leader_id=NOBODY if view.leader_id is None else view.leader_id, leader_epoch=view.epoch
        ),
        records=response.records,
    )
    match response.instead:
        case Diverging(end):
            data.diverging_epoch = m.FetchResponse.EpochEndOffset(epoch=end.epoch, end_offset=end.offset)
        case NeedsSnapshot(snapshot):
            data.snapshot_id = m.FetchResponse.SnapshotId(
                end_offset=snapshot.end_offset, epoch=snapshot.epoch
            )
    return m.FetchResponse(
        responses=[
            m.FetchResponse.FetchableTopicResponse(
                topic=CLUSTER_METADATA_TOPIC, topic_id=TOPIC_ID, partitions=[data]
            )
        ],
        node_endpoints=_nodes(m.FetchResponse.NodeEndpoint, view, listener),
    )


def _fetch_snapshot_response(response: q.FetchSnapshotResponse, listener: str) -> m.FetchSnapshotResponse:
    view = response.view
    piece = m.FetchSnapshotResponse.PartitionSnapshot(
        index=0,
        error_code=view.error,
        snapshot_id=m.FetchSnapshotResponse.SnapshotId(
            end_offset=response.snapshot.end_offset, epoch=response.snapshot.epoch
        ),
        current_leader=m.FetchSnapshotResponse.LeaderIdAndEpoch(
            leader_id=NOBODY if view.leader_id is None else view.leader_id, leader_epoch=view.epoch
        ),
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )
    return m.FetchSnapshotResponse(
        topics=[m.FetchSnapshotResponse.TopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[piece])],
        node_endpoints=_nodes(m.FetchSnapshotResponse.NodeEndpoint, view, listener),
    )


def _update_response(response: q.UpdateVoterResponse, listener: str) -> m.UpdateRaftVoterResponse:
    view = response.view
    address = view.endpoints.get(listener)
    leader = m.UpdateRaftVoterResponse.CurrentLeader(
        leader_id=NOBODY if view.leader_id is None else view.leader_id, leader_epoch=view.epoch
    )
    if address is not None:
        leader.host, leader.port = address.host, address.port
    return m.UpdateRaftVoterResponse(error_code=view.error, current_leader=leader)


# Incoming


def response_of(request: q.Request, message: Message, listener: str) -> q.Response | None:
    """Convert a member's answer to ``request``; None if it cannot be interpreted."""
    match message:
        case m.VoteResponse():
            found = _answered(message, listener)
            if found is None:
                return None
            view, partition = found
            return q.VoteResponse(view, partition is not None and partition.vote_granted)
        case m.BeginQuorumEpochResponse() | m.EndQuorumEpochResponse():
            found = _answered(message, listener)
            return None if found is None else q.EpochResponse(found[0])
        case m.FetchResponse():
            return _fetch_answer(message, listener)
        case m.FetchSnapshotResponse():
            return _fetch_snapshot_answer(message, listener)
        case m.AddRaftVoterResponse() | m.RemoveRaftVoterResponse():
            return q.ChangeResponse(ErrorCode.of(message.error_code), message.error_message)
        case m.UpdateRaftVoterResponse():
            leader = message.current_leader
            endpoints = {listener: Address(leader.host, leader.port)} if leader.host else {}
            return q.UpdateVoterResponse(
                _view(message.error_code, leader.leader_id, leader.leader_epoch, endpoints)
            )
        case m.ApiVersionsResponse():
            return q.SupportedVersionsResponse(
                ErrorCode.of(message.error_code),
                next(
                    (
                        (feature.min_version, feature.max_version)
                        for feature in message.supported_features
                        if feature.name == KRAFT_VERSION
                    ),
                    None,
                ),
            )
    raise AssertionError(f"{type(message).__name__} answers {type(request).__name__}")


def _view(error: int, leader_id: int, epoch: int, endpoints: Endpoints) -> q.View:
    return q.View(ErrorCode.of(error), None if leader_id < 0 else leader_id, epoch, endpoints)


def _failed(error: int) -> q.View:
    return q.View(ErrorCode.of(error), top_level=True)


def _answered(message: Any, listener: str) -> tuple[q.View, Any] | None:
    """The view and the partition of a response to Vote, BeginQuorumEpoch or EndQuorumEpoch."""
    if message.error_code:
        return _failed(message.error_code), None
    try:
        partition = only_partition(message.topics, "topic_name", "partition_index")
    except NotTheMetadataLog:
        return None
    endpoints = _leaders_endpoints(message, partition.leader_id, listener)
    return _view(partition.error_code, partition.leader_id, partition.leader_epoch, endpoints), partition


def _leaders_endpoints(message: Any, leader_id: int, listener: str) -> Endpoints:
    for node in message.node_endpoints:
        if node.node_id == leader_id:
            return {listener: Address(node.host, node.port)}
    return {}


def _fetch_answer(message: m.FetchResponse, listener: str) -> q.FetchResponse | None:
    if message.error_code:
        return q.FetchResponse(_failed(message.error_code))
    try:
        data = only_partition(message.responses, None, "partition_index")
    except NotTheMetadataLog:
        return None
    leader = data.current_leader
    view = _view(
        data.error_code,
        leader.leader_id,
        leader.leader_epoch,
        _leaders_endpoints(message, leader.leader_id, listener),
    )
    instead: Diverging | NeedsSnapshot | None = None
    if data.diverging_epoch.epoch >= 0:
        instead = Diverging(OffsetAndEpoch(data.diverging_epoch.end_offset, data.diverging_epoch.epoch))
    elif data.snapshot_id.epoch >= 0 and data.snapshot_id.end_offset >= 0:
        instead = NeedsSnapshot(SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch))
    records = b"" if data.records is None else bytes(data.records)
    return q.FetchResponse(view, data.high_watermark, data.log_start_offset, records, instead)


def _fetch_snapshot_answer(message: m.FetchSnapshotResponse, listener: str) -> q.FetchSnapshotResponse | None:
    if message.error_code:
        return q.FetchSnapshotResponse(_failed(message.error_code))
    try:
        piece = only_partition(message.topics, "name", "index")
    except NotTheMetadataLog:
        return None
    leader = piece.current_leader
    view = _view(
        piece.error_code,
        leader.leader_id,
        leader.leader_epoch,
        _leaders_endpoints(message, leader.leader_id, listener),
    )
    return q.FetchSnapshotResponse(
        view,
        SnapshotId(piece.snapshot_id.end_offset, piece.snapshot_id.epoch),
        piece.size,
        piece.position,
        bytes(piece.unaligned_records or b""),
    )
