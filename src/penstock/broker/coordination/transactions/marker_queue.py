"""The queue of transaction markers for one other broker, sent in one WriteTxnMarkers request at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from penstock.broker.coordination.marker import Marker
from penstock.broker.peers import Peer, PeerError
from penstock.coordinators.transaction.metadata import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

__all__ = ["MarkerQueue"]

log = logging.getLogger(__name__)

PARTITIONS_PER_REQUEST = 2_000
"""The limit on the partitions of one request; the receiving broker takes about 20 µs for each marker.

The partitions of a larger transaction are sent in several requests."""

Told: TypeAlias = Callable[[ErrorCode], None]
ByPartition: TypeAlias = dict[TopicPartition, Told]


class MarkerQueue:
    """The markers that wait to be sent to one broker.

    It belongs to the event loop. `peer` returns the broker's connection; None while it is unreachable.
    """

    def __init__(self, peer: Callable[[], Peer | None], timeout_ms: int) -> None:
        self._peer = peer
        self._timeout_ms = timeout_ms
        self._waiting: dict[Marker, ByPartition] = {}
        self._sender: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """The number of markers that have not been sent yet."""
        return sum(map(len, self._waiting.values()))

    def add(self, place: TopicPartition, marker: Marker, told: Told) -> None:
        """Queue a marker for a partition; `told` is called with the broker's error code for it."""
        self._waiting.setdefault(marker, {})[place] = told
        if self._sender is None:
            # it starts in the next turn of the loop, with all markers that this turn adds
            self._sender = asyncio.get_running_loop().create_task(self._send_all())

    def close(self) -> None:
        """Discard all markers without calling their callbacks."""
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
        """Take the next request's markers: one per producer, because responses are matched by producer id."""
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
        """Send the batch and return the results by producer, topic and partition.

        The result is NETWORK_EXCEPTION for all of them if the broker could not be reached.
        """
        peer = self._peer()
        failure = "the broker is not registered or is fenced"
        if peer is not None:
            request = WriteTxnMarkersRequest(
                markers=[_writable(marker, by_partition) for marker, by_partition in batch.items()]
            )
            try:
                return _answers(await peer.call(request, WriteTxnMarkersResponse, self._timeout_ms))
            except PeerError as error:
                failure = str(error)
        log.info("markers not delivered transactions=%d reason=%s", len(batch), failure)
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
