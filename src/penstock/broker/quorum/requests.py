"""Convert the quorum's requests to Kafka's messages, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from penstock.broker.quorum.metadata_log import TOPIC_ID
from penstock.broker.quorum.metadata_partition import NOBODY, NotTheMetadataLog, only_partition
from penstock.consensus import messages as q
from penstock.consensus.log import OffsetAndEpoch, SnapshotId
from penstock.consensus.voters import Address, Endpoints, ReplicaKey
from penstock.protocol import messages as m
from penstock.protocol import software
from penstock.protocol.messages import Message
from penstock.storage.names import CLUSTER_METADATA_TOPIC

# Incoming


def request_of(message: Message, api_version: int) -> q.Request:
    """Convert another member's message to a request. Raises NotTheMetadataLog."""
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
    raise AssertionError(f"{type(message).__name__} is no message of the quorum")


def _vote_of(message: m.VoteRequest) -> q.VoteRequest:
    asked = only_partition(message.topics, "topic_name", "partition_index")
    return q.VoteRequest(
        message.cluster_id,
        _voter(message.voter_id, asked.voter_directory_id),
        asked.replica_epoch,
        ReplicaKey(asked.replica_id, asked.replica_directory_id),
        OffsetAndEpoch(asked.last_offset, asked.last_offset_epoch),
        asked.pre_vote,
    )


def _begin_of(message: m.BeginQuorumEpochRequest) -> q.BeginQuorumEpochRequest:
    asked = only_partition(message.topics, "topic_name", "partition_index")
    return q.BeginQuorumEpochRequest(
        message.cluster_id,
        _voter(message.voter_id, asked.voter_directory_id),
        asked.leader_id,
        asked.leader_epoch,
        _endpoints(message.leader_endpoints),
    )


def _end_of(message: m.EndQuorumEpochRequest) -> q.EndQuorumEpochRequest:
    asked = only_partition(message.topics, "topic_name", "partition_index")
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
    asked = only_partition(message.topics, None, "partition")
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
    asked = only_partition(message.topics, "name", "partition")
    return q.FetchSnapshotRequest(
        message.cluster_id,
        ReplicaKey(message.replica_id, asked.replica_directory_id),
        asked.current_leader_epoch,
        SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch),
        asked.position,
        message.max_bytes,
    )


def _voter(voter_id: int, directory_id: bytes) -> ReplicaKey | None:
    return None if voter_id < 0 else ReplicaKey(voter_id, directory_id)


def _endpoints(listeners: Iterable[Any]) -> Endpoints:
    return {listener.name: Address(listener.host, listener.port) for listener in listeners}


# Outgoing


def message_of(request: q.Request) -> Message:
    """Convert a request to the message for another member."""
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
            return m.ApiVersionsRequest(
                client_software_name=software.NAME, client_software_version=software.VERSION
            )


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
