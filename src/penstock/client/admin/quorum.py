"""The controllers' quorum: leader, voters and their progress; adding and removing voters (KIP-853)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.client.config import ServerAddress
from penstock.client.connections.cluster import Cluster
from penstock.client.errors import ProtocolViolation, error_from
from penstock.protocol.messages import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from penstock.protocol.uuids import ZERO_UUID

METADATA_TOPIC: Final = "__cluster_metadata"
NOT_KNOWN: Final = -1


class QuorumReplica(NamedTuple):
    """A voter or an observer as reported by the quorum's leader.

    `directory_id` is zero in a static quorum; times are in ms since 1970 by the leader's clock, -1 if
    unknown.
    """

    node_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_timestamp_ms: int
    last_caught_up_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]

    @property
    def log_end_offset(self) -> int:
        """The leader's log end offset."""
        return next((v.log_end_offset for v in self.voters if v.node_id == self.leader_id), NOT_KNOWN)

    def lag(self, replica: QuorumReplica) -> int | None:
        """The number of records that the replica does not have yet; None if that is unknown."""
        if NOT_KNOWN in (replica.log_end_offset, self.log_end_offset):
            return None
        return max(self.log_end_offset - replica.log_end_offset, 0)


def describe_quorum(cluster: Cluster) -> QuorumDescription:
    """Describe the quorum as its leader sees it. Raises ServerError, retriable while there is no leader."""
    partition = DescribeQuorumRequest.PartitionData(partition_index=0)
    topic = DescribeQuorumRequest.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    request = DescribeQuorumRequest(topics=[topic])

    def ask() -> QuorumDescription:
        response = cluster.call_any(request, DescribeQuorumResponse)
        if response.error_code:
            raise error_from(response.error_code, "describing the quorum", response.error_message)
        if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
            raise ProtocolViolation(f"DESCRIBE_QUORUM answered for {len(response.topics)} topics, expected 1")
        [found] = response.topics[0].partitions
        if found.error_code:
            raise error_from(found.error_code, "describing the quorum", found.error_message)
        return QuorumDescription(
            found.leader_id,
            found.leader_epoch,
            found.high_watermark,
            _replicas(found.current_voters),
            _replicas(found.observers),
        )

    return cluster.retry(ask)


def _replicas(states: list[DescribeQuorumResponse.ReplicaState]) -> list[QuorumReplica]:
    return sorted(
        QuorumReplica(
            state.replica_id,
            state.replica_directory_id,
            state.log_end_offset,
            state.last_fetch_timestamp,
            state.last_caught_up_timestamp,
        )
        for state in states
    )


def add_voter(
    cluster: Cluster, node_id: int, directory_id: bytes, listener: str, address: ServerAddress
) -> None:
    """Make a controller that follows the quorum a voter; returns when that is committed.

    The other voters reach it at `listener` and `address`. Raises ServerError: DUPLICATE_VOTER,
    REQUEST_TIMED_OUT if it lags too far behind, UNSUPPORTED_VERSION if the quorum is static.
    """
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=cluster.config.request_timeout_ms,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[AddRaftVoterRequest.Listener(name=listener, host=address.host, port=address.port)],
    )
    response = cluster.call_any(request, AddRaftVoterResponse)
    if response.error_code:
        raise error_from(response.error_code, f"adding voter {node_id}", response.error_message)


def remove_voter(cluster: Cluster, node_id: int, directory_id: bytes) -> None:
    """Remove a voter from the quorum; returns when that is committed.

    Raises ServerError: VOTER_NOT_FOUND, UNSUPPORTED_VERSION if the quorum is static.
    """
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id)
    response = cluster.call_any(request, RemoveRaftVoterResponse)
    if response.error_code:
        raise error_from(response.error_code, f"removing voter {node_id}", response.error_message)


def is_fixed(description: QuorumDescription) -> bool:
    """Whether the quorum is static: every node's configuration lists its voters, which cannot change."""
    return all(voter.directory_id == ZERO_UUID for voter in description.voters)
