"""TxnOffsetCommit (28): commit a group's offsets as part of a transaction.

Versions 0 to 5. From version 3 on the member is checked too (KIP-447). Version 5 also adds the partition of
`__consumer_offsets` to the transaction (KIP-890). Needs WRITE on the transactional id, READ on the group, and
READ on each topic.

Versions:
- 1: a throttled client pauses by itself (KIP-219)
- 2: `committed_leader_epoch` (KIP-320)
- 3: flexible encoding (KIP-482); `member_id`, `group_instance_id` and `generation_id` (KIP-447)
- 4: the error TRANSACTION_ABORTABLE (KIP-890)
- 5: the coordinator adds the group's partition to the transaction, without AddOffsetsToTxn (KIP-890)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.broker.network.turns import next_turn
from penstock.coordinators.group.txn_offset_commit import txn_commit_error_response
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.image import MetadataImage
    from penstock.security.permissions import Permissions

LOADING_ERROR_VERSION = 2
"""Older producers fail at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""

PARTITIONS_PER_TURN = 200
"""Partitions committed per turn: encoding, appending and replaying one record takes at least ten
microseconds."""

RequestTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
RequestPartition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
ResponseTopic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
ResponsePartition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition


class Parts(Protocol):
    """The parts of the node that this API uses."""

    groups: GroupCoordinatorRuntime
    image: MetadataImage


def handle(
    parts: Parts, request: TxnOffsetCommitRequest, context: RequestContext
) -> Answer[TxnOffsetCommitResponse]:
    permissions, version = context.permissions, context.api_version
    try:
        permissions.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        permissions.require(Operation.READ, ResourceType.GROUP, request.group_id)
    except KafkaError as error:
        return Answer.of(_failed(request, error, version))
    refused = _take_out_unreadable(request, permissions) + _take_out_unknown(parts, request)
    if not request.topics:
        return Answer.of(TxnOffsetCommitResponse(topics=refused))
    if sum(len(topic.partitions) for topic in request.topics) > PARTITIONS_PER_TURN:
        return Answer.working(_commit_in_turns(parts, request, version, refused))
    answer = parts.groups.commit_offsets_in_transaction(request, version)
    return answer.recover(lambda error: _failed(request, error, version)).then(
        lambda response: _merge(response, refused)
    )


async def _commit_in_turns(
    parts: Parts, request: TxnOffsetCommitRequest, version: int, refused: list[ResponseTopic]
) -> TxnOffsetCommitResponse:
    """Commit in several steps; they take effect together, with the transaction."""
    answered = TxnOffsetCommitResponse(topics=refused)
    for topics in _portions(request.topics):
        request.topics = topics
        try:
            response = await parts.groups.commit_offsets_in_transaction(request, version)
        except KafkaError as error:
            response = _failed(request, error, version)
        answered = _merge(response, answered.topics)
        await next_turn()
    return answered


def _portions(topics: list[RequestTopic]) -> Iterator[list[RequestTopic]]:
    """Split the topics into portions of at most `PARTITIONS_PER_TURN` partitions."""
    portion: list[RequestTopic] = []
    room = PARTITIONS_PER_TURN
    for topic in topics:
        partitions = topic.partitions
        while partitions:
            some, partitions = partitions[:room], partitions[room:]
            portion.append(RequestTopic(name=topic.name, partitions=some))
            room -= len(some)
            if not room:
                yield portion
                portion, room = [], PARTITIONS_PER_TURN
    if portion:
        yield portion


def _failed(request: TxnOffsetCommitRequest, error: KafkaError, version: int) -> TxnOffsetCommitResponse:
    code = error.code
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_ERROR_VERSION:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return txn_commit_error_response(request, code)


def _take_out_unreadable(request: TxnOffsetCommitRequest, permissions: Permissions) -> list[ResponseTopic]:
    """Remove topics that the client may not read from the request, and return their answers."""
    names = [topic.name for topic in request.topics]
    may_read = permissions.allowed(Operation.READ, ResourceType.TOPIC, names)
    refused = [
        _refuse(topic.name, topic.partitions, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        for topic in request.topics
        if topic.name not in may_read
    ]
    request.topics = [topic for topic in request.topics if topic.name in may_read]
    return refused


def _refuse(name: str, partitions: list[RequestPartition], error: ErrorCode) -> ResponseTopic:
    return ResponseTopic(
        name=name,
        partitions=[
            ResponsePartition(partition_index=partition.partition_index, error_code=error)
            for partition in partitions
        ],
    )


def _take_out_unknown(parts: Parts, request: TxnOffsetCommitRequest) -> list[ResponseTopic]:
    """Remove partitions that do not exist from the request, and return their answers."""
    refused, known = [], []
    for topic in request.topics:
        image = parts.image.topics.by_name.get(topic.name)
        existing = image.partitions if image is not None else {}
        missing = [p for p in topic.partitions if p.partition_index not in existing]
        if missing:
            refused.append(_refuse(topic.name, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = [p for p in topic.partitions if p.partition_index in existing]
        if topic.partitions:
            known.append(topic)
    request.topics = known
    return refused


def _merge(response: TxnOffsetCommitResponse, refused: list[ResponseTopic]) -> TxnOffsetCommitResponse:
    """Merge the results so that each topic has one entry."""
    by_name = {topic.name: topic for topic in refused}
    for topic in response.topics:
        earlier = by_name.setdefault(topic.name, topic)
        if earlier is not topic:
            earlier.partitions += topic.partitions
    response.topics = list(by_name.values())
    return response


API = (
    Api(TxnOffsetCommitRequest)
    .on_broker(lambda node: node, handle)
    .needs(
        (Operation.WRITE, ResourceType.TRANSACTIONAL_ID),
        (Operation.READ, ResourceType.GROUP),
        (Operation.READ, ResourceType.TOPIC),
    )
)
