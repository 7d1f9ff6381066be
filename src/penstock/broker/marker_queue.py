"""Markers on their way to one other broker: WriteTxnMarkers with all that has gathered, one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from penstock.broker.marker_writes import Marker
from penstock.broker.peers import Peer, PeerError
from penstock.coordinators.transaction.metadata import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

__all__ = ["MarkerQueue"]

log = logging.getLogger(__name__)

PARTITIONS_PER_REQUEST = 2_000
"""A transaction may have more; the broker writes some 20 µs at each."""

Told: TypeAlias = Callable[[ErrorCode], None]
ByPartition: TypeAlias = dict[TopicPartition, Told]


class MarkerQueue:
    """Belongs to the event loop; `peer` gives the broker's connection, None while it can't be reached."""

    def __init__(self, peer: Callable[[], Peer | None], timeout_ms: int) -> None:
        self._peer = peer
        self._timeout_ms = timeout_ms
        self._waiting: dict[Marker, ByPartition] = {}
        self._sender: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Markers that have not been sent yet."""
        return sum(map(len, self._waiting.values()))

    def add(self, place: TopicPartition, marker: Marker, told: Told) -> None:
        """Have a marker written to a partition; `told` is called with what the broker says of it."""
        self._waiting.setdefault(marker, {})[place] = told
        if self._sender is None:
            # begins in the next turn of the loop, with all that this turn brings
            self._sender = asyncio.get_running_loop().create_task(self._send_all())

    def close(self) -> None:
        """Nobody is told of anything any more."""
        self._waiting.clear()
        if self._sender is not None:
            self._sender.cancel()

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch = self._take()
                answers = await self._send(batch)
                for marker, by_partition in batch.items():
                    for place, told in by_partition.items():
                        told(answers.get((marker.producer_id, *place), ErrorCode.UNKNOWN_SERVER_ERROR))
        finally:
            self._sender = None

    def _take(self) -> dict[Marker, ByPartition]:
        """What goes into the next request. It answers by producer: each may be in it once."""
        batch: dict[Marker, ByPartition] = {}
        producers: set[int] = set()
        room = PARTITIONS_PER_REQUEST
        for marker in list(self._waiting):
            if marker.producer_id in producers:
                continue
            producers.add(marker.producer_id)
            waiting = self._waiting.pop(marker)
            places = list(waiting)
            batch[marker] = {place: waiting[place] for place in places[:room]}
            if len(places) > room:
                self._waiting[marker] = {place: waiting[place] for place in places[room:]}
            room -= len(batch[marker])
            if room <= 0:
                break
        return batch

    async def _send(self, batch: dict[Marker, ByPartition]) -> dict[tuple[int, str, int], ErrorCode]:
        """By producer, topic and partition; what could not be asked is NETWORK_EXCEPTION."""
        peer = self._peer()
        failure = "it is not registered, or fenced"
        if peer is not None:
            request = WriteTxnMarkersRequest(
                markers=[_writable(marker, by_partition) for marker, by_partition in batch.items()]
            )
            try:
                return _answers(await peer.call(request, WriteTxnMarkersResponse, self._timeout_ms))
            except PeerError as error:
                failure = str(error)
        log.info("markers not delivered transactions=%d: %s", len(batch), failure)
        return {
            (marker.producer_id, *place): ErrorCode.NETWORK_EXCEPTION
            for marker, by_partition in batch.items()
            for place in by_partition
        }


def _writable(marker: Marker, places: Iterable[TopicPartition]) -> WriteTxnMarkersRequest.WritableTxnMarker:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        by_topic.setdefault(topic, []).append(partition)
    return WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.committed,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
            for name, indexes in by_topic.items()
        ],
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _answers(response: WriteTxnMarkersResponse) -> dict[tuple[int, str, int], ErrorCode]:
    return {
        (marker.producer_id, topic.name, partition.partition_index): ErrorCode.of(partition.error_code)
        for marker in response.markers
        for topic in marker.topics
        for partition in topic.partitions
    }
