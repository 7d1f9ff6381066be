"""Ask a leader where its log begins and ends, for a follower that is out of range (ListOffsets)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.broker.following.following import OffsetsAtLeader, Place
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ListOffsetsRequest, ListOffsetsResponse

if TYPE_CHECKING:
    from penstock.broker.peers import Peer

LATEST: Final = -1
EARLIEST_LOCAL: Final = -4


async def ask_offsets(
    peer: Peer, node_id: int, places: Sequence[Place], timeout_ms: float
) -> dict[tuple[str, int], OffsetsAtLeader]:
    """Request the leader's offsets by topic and partition. Raises PeerError."""
    latest = await _ask(peer, node_id, places, LATEST, timeout_ms)
    earliest = await _ask(peer, node_id, places, EARLIEST_LOCAL, timeout_ms)
    found = {}
    for place in latest.keys() & earliest.keys():
        last, first = latest[place], earliest[place]
        error = ErrorCode.of(last.error_code or first.error_code)
        found[place] = OffsetsAtLeader(first.offset, last.offset, error)
    return found


async def _ask(
    peer: Peer, node_id: int, places: Sequence[Place], timestamp: int, timeout_ms: float
) -> dict[tuple[str, int], ListOffsetsResponse.ListOffsetsPartitionResponse]:
    topics: dict[str, ListOffsetsRequest.ListOffsetsTopic] = {}
    for topic, partition, leader_epoch in places:
        topics.setdefault(topic, ListOffsetsRequest.ListOffsetsTopic(name=topic)).partitions.append(
            ListOffsetsRequest.ListOffsetsPartition(
                partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp
            )
        )
    request = ListOffsetsRequest(replica_id=node_id, topics=list(topics.values()))
    response = await peer.call(request, ListOffsetsResponse, timeout_ms)
    return {
        (answered.name, data.partition_index): data
        for answered in response.topics
        for data in answered.partitions
    }
