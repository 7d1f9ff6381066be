"""WriteTxnMarkers (27): write the outcome of transactions to the partitions that this node leads.

Versions 1 and 2. Coordinators send it to other brokers, and administrators send it to end a transaction that
has no coordinator any more. Version 2 names the protocol version of the transaction (KIP-1228). The answer is
sent once the markers are committed, or with REQUEST_TIMED_OUT after `request.timeout.ms`. Needs ALTER or
CLUSTER_ACTION on the cluster.

Versions:
- 1: flexible encoding (KIP-482)
- 2: `transaction_version` (KIP-1228)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.coordination.marker import Marker
from penstock.broker.coordination.partition import Outcome
from penstock.broker.coordination.transactions.marker_writes import write_marker
from penstock.broker.network.answers import Answer
from penstock.broker.network.turns import Steps, in_turns
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from penstock.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.transactions.marker_writes import MarkerHost
    from penstock.broker.network.context import RequestContext

MarkerResult = WriteTxnMarkersResponse.WritableTxnMarkerResult
TopicResult = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult
PartitionResult = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult

Place = tuple[int, str, int]
"""The producer id, the topic and the partition."""
Outcomes = dict[Place, Outcome]

COORDINATOR_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The group coordinator's errors; the sender of markers only expects errors of a log."""


def handle(
    host: MarkerHost, request: WriteTxnMarkersRequest, context: RequestContext
) -> Answer[WriteTxnMarkersResponse]:
    permissions = context.permissions
    if not permissions.allows(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False):
        permissions.require(Operation.CLUSTER_ACTION)
    written = in_turns(_write_all(host, request))
    return written.and_then(lambda outcomes: _answer(host, outcomes))


def _answer(host: MarkerHost, outcomes: Outcomes) -> Answer[WriteTxnMarkersResponse]:
    codes = _codes_now(outcomes)
    return Answer.working(_when_committed(host, outcomes)) if codes is None else Answer.of(_response(codes))


async def _when_committed(host: MarkerHost, outcomes: Outcomes) -> WriteTxnMarkersResponse:
    under_way = [outcome for outcome in outcomes.values() if not isinstance(outcome, ErrorCode)]
    if under_way:
        await asyncio.wait(under_way, timeout=host.config.get_int("request.timeout.ms") / 1000)
    return _response({place: _code_of(outcome) for place, outcome in outcomes.items()})


def _code_of(outcome: Outcome) -> ErrorCode:
    if not isinstance(outcome, ErrorCode):
        outcome = outcome.result() if outcome.done() else ErrorCode.REQUEST_TIMED_OUT
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if outcome in COORDINATOR_ERRORS else outcome


def _codes_now(outcomes: Outcomes) -> dict[Place, ErrorCode] | None:
    """The error codes of all outcomes; None if a marker is not committed yet."""
    codes = {}
    for place, outcome in outcomes.items():
        if not isinstance(outcome, ErrorCode):
            return None
        codes[place] = _code_of(outcome)
    return codes


def _write_all(host: MarkerHost, request: WriteTxnMarkersRequest) -> Steps[Outcomes]:
    outcomes: Outcomes = {}
    for wanted in request.markers:
        marker = Marker(
            wanted.producer_id,
            wanted.producer_epoch,
            wanted.coordinator_epoch,
            wanted.transaction_result,
            wanted.transaction_version,
        )
        for topic in wanted.topics:
            for index in dict.fromkeys(topic.partition_indexes):
                yield
                outcomes[marker.producer_id, topic.name, index] = _write(host, topic.name, index, marker)
    return outcomes


def _write(host: MarkerHost, topic: str, index: int, marker: Marker) -> Outcome:
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # as in Kafka, which cannot build a batch with such ids
    return write_marker(host, topic, index, marker)


def _response(codes: dict[Place, ErrorCode]) -> WriteTxnMarkersResponse:
    by_producer: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for (producer_id, topic, index), code in codes.items():
        by_producer.setdefault(producer_id, {}).setdefault(topic, {})[index] = code
    return WriteTxnMarkersResponse(
        markers=[
            MarkerResult(producer_id=producer_id, topics=[_result(*item) for item in by_topic.items()])
            for producer_id, by_topic in by_producer.items()
        ]
    )


def _result(topic: str, by_partition: dict[int, ErrorCode]) -> TopicResult:
    return TopicResult(
        name=topic,
        partitions=[
            PartitionResult(partition_index=index, error_code=error) for index, error in by_partition.items()
        ],
    )


def answer_error(
    request: WriteTxnMarkersRequest, error: KafkaError, _version: int
) -> WriteTxnMarkersResponse:
    """Each marker has the error for all its partitions, also if it has none."""
    return WriteTxnMarkersResponse(
        markers=[
            MarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    _result(topic.name, dict.fromkeys(topic.partition_indexes, error.code))
                    for topic in marker.topics
                    if topic.partition_indexes
                ],
            )
            for marker in request.markers
        ]
    )


API = (
    Api(WriteTxnMarkersRequest, answer_error=answer_error, is_exempt=lambda _request, _context: True)
    .on_broker(lambda node: node, handle)
    .needs(
        (Operation.ALTER, ResourceType.CLUSTER, "or CLUSTER_ACTION"),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "or ALTER"),
    )
)
