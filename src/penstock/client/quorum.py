"""The controllers' quorum: who leads it, who votes, how far each is; voters added and removed (KIP-853)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.client.cluster import Cluster
from penstock.client.config import ServerAddress
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
    """A voter or an observer as the quorum's leader sees it.

    `directory_id` is zero where the quorum is a fixed one; times are those of the leader's clock in ms since
    1970, -1 where it does not know them.
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
        """The leader's."""
        return next((v.log_end_offset for v in self.voters if v.node_id == self.leader_id), NOT_KNOWN)

    def lag(self, replica: QuorumReplica) -> int | None:
        """Records that it does not have yet; None where that is not known."""
        if NOT_KNOWN in (replica.log_end_offset, self.log_end_offset):
            return None
        return max(self.log_end_offset - replica.log_end_offset, 0)


def describe_quorum(cluster: Cluster) -> QuorumDescription:
    """What the quorum's leader says. Raises ServerError, retriable while there is none."""
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
    """Let a controller that follows the quorum vote in it; returns when that is committed.

    `listener` and `address` are where the other voters reach it. Raises ServerError: DUPLICATE_VOTER,
    REQUEST_TIMED_OUT where it is too far behind, UNSUPPORTED_VERSION where the quorum is a fixed one.
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
    """Take a voter out of the quorum; returns when that is committed.

    Raises ServerError: VOTER_NOT_FOUND, UNSUPPORTED_VERSION where the quorum is a fixed one.
    """
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=node_id, voter_directory_id=directory_id)
    response = cluster.call_any(request, RemoveRaftVoterResponse)
    if response.error_code:
        raise error_from(response.error_code, f"removing voter {node_id}", response.error_message)


def is_fixed(description: QuorumDescription) -> bool:
    """Whether the voters are those of every node's configuration, so that none can be added or removed."""
    return all(voter.directory_id == ZERO_UUID for voter in description.voters)
