"""WriteTxnMarkers (27): how transactions ended, told to the leaders of their partitions.

Versions 1 and 2. Coordinators send it to other brokers, and administrators to end a transaction that nobody
coordinates any more. Version 2 says by which protocol the transaction was run (KIP-1228).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from penstock.broker.transaction_markers import Marker, write_marker
from penstock.broker.turns import Steps, in_turns
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.WRITE_TXN_MARKERS

MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

COORDINATOR_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Of the group coordinator; who sends markers expects errors of a log."""


def handle(
    broker: Broker, request: WriteTxnMarkersRequest, context: RequestContext
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    return in_turns(_answer(broker, request))


def _answer(broker: Broker, request: WriteTxnMarkersRequest) -> Steps[WriteTxnMarkersResponse]:
    by_producer: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for told in request.markers:
        marker = Marker(
            told.producer_id,
            told.producer_epoch,
            told.coordinator_epoch,
            told.transaction_result,
            told.transaction_version,
        )
        by_topic = by_producer.setdefault(told.producer_id, {})
        for topic in told.topics:
            by_partition = by_topic.setdefault(topic.name, {})
            for index in dict.fromkeys(topic.partition_indexes):
                yield
                by_partition[index] = _write(broker, topic.name, index, marker)
    return WriteTxnMarkersResponse(
        markers=[
            MarkerResult(producer_id=producer_id, topics=[_result(*item) for item in by_topic.items()])
            for producer_id, by_topic in by_producer.items()
        ]
    )


def _write(broker: Broker, topic: str, index: int, marker: Marker) -> ErrorCode:
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # as Kafka, which cannot make a batch of it
    error = write_marker(broker, topic, index, marker)
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if error in COORDINATOR_ERRORS else error


def _result(topic: str, by_partition: dict[int, ErrorCode]) -> TopicResult:
    return TopicResult(
        name=topic,
        partitions=[
            PartitionResult(partition_index=index, error_code=error) for index, error in by_partition.items()
        ],
    )
