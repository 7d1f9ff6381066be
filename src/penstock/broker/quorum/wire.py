"""The quorum's requests and responses as Kafka's messages, and back.

All of Kafka's have a list of topics with a list of partitions; there is one, the metadata log. A request that
names another is answered INVALID_REQUEST as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from penstock.broker.quorum.metadata_log import TOPIC_ID
from penstock.consensus import messages as q
from penstock.consensus.log import Diverging, NeedsSnapshot, OffsetAndEpoch, SnapshotId
from penstock.consensus.voters import Address, Endpoints, ReplicaKey
from penstock.protocol import messages as m
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import Message
from penstock.storage.names import CLUSTER_METADATA_TOPIC

NOBODY: Final = -1
KRAFT_VERSION: Final = "kraft.version"

Fields: TypeAlias = dict[str, Any]


class NotTheMetadataLog(Exception):
    """A request for another partition than the one there is."""


# Requests that come in


def request_of(message: Message, api_version: int) -> q.Request:
    """What a message of another member asks. Raises NotTheMetadataLog."""
    match message:
        case m.VoteRequest():
            return _vote_of(message)
        case m.BeginQuorumEpochRequest():
            return _begin_of(message)
        case m.EndQuorumEpochRequest():
            return _end_of(message)
        case m.FetchRequest():
            return _fetch_of(message, api_version)
        case m.FetchSnapshotRequest():
            return _fetch_snapshot_of(message)
        case m.AddRaftVoterRequest():
            return q.AddVoterRequest(
                message.cluster_id,
                ReplicaKey(message.voter_id, message.voter_directory_id),
                _endpoints(message.listeners),
                message.ack_when_committed,
            )
        case m.RemoveRaftVoterRequest():
            key = ReplicaKey(message.voter_id, message.voter_directory_id)
            return q.RemoveVoterRequest(message.cluster_id, key)
        case m.UpdateRaftVoterRequest():
            return q.UpdateVoterRequest(
                message.cluster_id,
                message.current_leader_epoch,
                ReplicaKey(message.voter_id, message.voter_directory_id),
                _endpoints(message.listeners),
                message.kraft_version_feature.min_supported_version,
                message.kraft_version_feature.max_supported_version,
            )
    raise AssertionError(f"{type(message).__name__} is none of the quorum's")


def _vote_of(message: m.VoteRequest) -> q.VoteRequest:
    asked = _only_partition(message.topics, "topic_name", "partition_index")
    return q.VoteRequest(
        message.cluster_id,
        _voter(message.voter_id, asked.voter_directory_id),
        asked.replica_epoch,
        ReplicaKey(asked.replica_id, asked.replica_directory_id),
        OffsetAndEpoch(asked.last_offset, asked.last_offset_epoch),
        asked.pre_vote,
    )


def _begin_of(message: m.BeginQuorumEpochRequest) -> q.BeginQuorumEpochRequest:
    asked = _only_partition(message.topics, "topic_name", "partition_index")
    return q.BeginQuorumEpochRequest(
        message.cluster_id,
        _voter(message.voter_id, asked.voter_directory_id),
        asked.leader_id,
        asked.leader_epoch,
        _endpoints(message.leader_endpoints),
    )


def _end_of(message: m.EndQuorumEpochRequest) -> q.EndQuorumEpochRequest:
    asked = _only_partition(message.topics, "topic_name", "partition_index")
    successors = [
        ReplicaKey(candidate.candidate_id, candidate.candidate_directory_id)
        for candidate in asked.preferred_candidates
    ] or [ReplicaKey(successor) for successor in asked.preferred_successors]
    return q.EndQuorumEpochRequest(
        message.cluster_id,
        asked.leader_id,
        asked.leader_epoch,
        tuple(successors),
        _endpoints(message.leader_endpoints),
    )


def _fetch_of(message: m.FetchRequest, api_version: int) -> q.FetchRequest:
    if len(message.topics) != 1 or not is_metadata_topic(message.topics[0]):
        raise NotTheMetadataLog
    asked = _only_partition(message.topics, None, "partition")
    replica_id = message.replica_id if api_version < 15 else message.replica_state.replica_id
    return q.FetchRequest(
        message.cluster_id,
        ReplicaKey(replica_id, asked.replica_directory_id),
        asked.current_leader_epoch,
        asked.fetch_offset,
        asked.last_fetched_epoch,
        message.max_bytes,
        message.max_wait_ms,
        asked.high_watermark,
    )


def is_metadata_topic(topic: m.FetchRequest.FetchTopic) -> bool:
    return topic.topic == CLUSTER_METADATA_TOPIC or topic.topic_id == TOPIC_ID


def _fetch_snapshot_of(message: m.FetchSnapshotRequest) -> q.FetchSnapshotRequest:
    asked = _only_partition(message.topics, "name", "partition")
    return q.FetchSnapshotRequest(
        message.cluster_id,
        ReplicaKey(message.replica_id, asked.replica_directory_id),
        asked.current_leader_epoch,
        SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch),
        asked.position,
        message.max_bytes,
    )


def _only_partition(topics: list[Any], name: str | None, index: str) -> Any:
    if (
        len(topics) != 1
        or (name is not None and getattr(topics[0], name) != CLUSTER_METADATA_TOPIC)
        or len(topics[0].partitions) != 1
        or getattr(topics[0].partitions[0], index) != 0
    ):
        raise NotTheMetadataLog
    return topics[0].partitions[0]


def _voter(voter_id: int, directory_id: bytes) -> ReplicaKey | None:
    return None if voter_id < 0 else ReplicaKey(voter_id, directory_id)


def _endpoints(listeners: Iterable[Any]) -> Endpoints:
    return {listener.name: Address(listener.host, listener.port) for listener in listeners}


# Responses that go out


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
    raise AssertionError(f"{type(message).__name__} is none of the quorum's")


def response_to(message: Message, response: q.Response, listener: str) -> Message:
    """The message that answers ``message``; endpoints are those of the listener it came by."""
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
                        partitions=[m.BeginQuorumEpochResponse.PartitionData(**_told(response.view))],
                    )
                ],
                node_endpoints=_nodes(m.BeginQuorumEpochResponse.NodeEndpoint, response.view, listener),
            )
        case q.EpochResponse():
            return m.EndQuorumEpochResponse(
                topics=[
                    m.EndQuorumEpochResponse.TopicData(
                        topic_name=CLUSTER_METADATA_TOPIC,
                        partitions=[m.EndQuorumEpochResponse.PartitionData(**_told(response.view))],
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


def _told(view: q.View) -> Fields:
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
    partition = m.VoteResponse.PartitionData(**_told(response.view), vote_granted=response.granted)
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


# Requests that go out


def message_of(request: q.Request) -> Message:
    """The message for another member."""
    match request:
        case q.VoteRequest():
            return _vote_message(request)
        case q.BeginQuorumEpochRequest():
            return _begin_message(request)
        case q.EndQuorumEpochRequest():
            return _end_message(request)
        case q.FetchRequest():
            return _fetch_message(request)
        case q.FetchSnapshotRequest():
            return _fetch_snapshot_message(request)
        case q.AddVoterRequest():
            return m.AddRaftVoterRequest(
                cluster_id=request.cluster_id,
                timeout_ms=_CHANGE_TIMEOUT_MS,
                voter_id=request.voter.id,
                voter_directory_id=request.voter.directory_id,
                listeners=_listeners(m.AddRaftVoterRequest.Listener, request.endpoints),
                ack_when_committed=request.ack_when_committed,
            )
        case q.RemoveVoterRequest():
            return m.RemoveRaftVoterRequest(
                cluster_id=request.cluster_id,
                voter_id=request.voter.id,
                voter_directory_id=request.voter.directory_id,
            )
        case q.UpdateVoterRequest():
            return m.UpdateRaftVoterRequest(
                cluster_id=request.cluster_id,
                current_leader_epoch=request.epoch,
                voter_id=request.voter.id,
                voter_directory_id=request.voter.directory_id,
                listeners=_listeners(m.UpdateRaftVoterRequest.Listener, request.endpoints),
                kraft_version_feature=m.UpdateRaftVoterRequest.KRaftVersionFeature(
                    min_supported_version=request.min_kraft_version,
                    max_supported_version=request.max_kraft_version,
                ),
            )
        case q.SupportedVersionsRequest():
            return m.ApiVersionsRequest(client_software_name="penstock", client_software_version="0.1.0")


_CHANGE_TIMEOUT_MS: Final = 2000


def _listeners(make: Any, endpoints: Endpoints) -> list[Any]:
    return [make(name=name, host=address.host, port=address.port) for name, address in endpoints.items()]


def _vote_message(request: q.VoteRequest) -> m.VoteRequest:
    voter = request.voter or ReplicaKey(NOBODY)
    partition = m.VoteRequest.PartitionData(
        partition_index=0,
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=request.last.epoch,
        last_offset=request.last.offset,
        pre_vote=request.pre_vote,
    )
    return m.VoteRequest(
        cluster_id=request.cluster_id,
        voter_id=voter.id,
        topics=[m.VoteRequest.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
    )


def _begin_message(request: q.BeginQuorumEpochRequest) -> m.BeginQuorumEpochRequest:
    voter = request.voter or ReplicaKey(NOBODY)
    partition = m.BeginQuorumEpochRequest.PartitionData(
        partition_index=0,
        voter_directory_id=voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return m.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=voter.id,
        topics=[
            m.BeginQuorumEpochRequest.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
        ],
        leader_endpoints=_listeners(m.BeginQuorumEpochRequest.LeaderEndpoint, request.endpoints),
    )


def _end_message(request: q.EndQuorumEpochRequest) -> m.EndQuorumEpochRequest:
    partition = m.EndQuorumEpochRequest.PartitionData(
        partition_index=0,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[key.id for key in request.successors],
        preferred_candidates=[
            m.EndQuorumEpochRequest.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in request.successors
        ],
    )
    return m.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=[m.EndQuorumEpochRequest.TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=_listeners(m.EndQuorumEpochRequest.LeaderEndpoint, request.endpoints),
    )


def _fetch_message(request: q.FetchRequest) -> m.FetchRequest:
    partition = m.FetchRequest.FetchPartition(
        partition=0,
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_epoch,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return m.FetchRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        replica_state=m.FetchRequest.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        topics=[
            m.FetchRequest.FetchTopic(topic=CLUSTER_METADATA_TOPIC, topic_id=TOPIC_ID, partitions=[partition])
        ],
    )


def _fetch_snapshot_message(request: q.FetchSnapshotRequest) -> m.FetchSnapshotRequest:
    partition = m.FetchSnapshotRequest.PartitionSnapshot(
        partition=0,
        current_leader_epoch=request.epoch,
        snapshot_id=m.FetchSnapshotRequest.SnapshotId(
            end_offset=request.snapshot.end_offset, epoch=request.snapshot.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return m.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=[m.FetchSnapshotRequest.TopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
    )


# Responses that come in


def response_of(request: q.Request, message: Message, listener: str) -> q.Response | None:
    """What a member answered to ``request``; None for what cannot be understood."""
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
        partition = _only_partition(message.topics, "topic_name", "partition_index")
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
        data = _only_partition(message.responses, None, "partition_index")
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
        piece = _only_partition(message.topics, "name", "index")
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
