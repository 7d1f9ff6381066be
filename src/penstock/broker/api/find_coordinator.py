"""FindCoordinator (10): find the broker that coordinates a group or a transactional id.

Versions 0 to 6; several keys at once from version 4 on (KIP-699). Needs DESCRIBE on each group or
transactional id, and CLUSTER_ACTION for share groups. Differences from Kafka:
- the first request creates `__consumer_offsets` or `__transaction_state` and is answered when the topic
  exists; Kafka answers COORDINATOR_NOT_AVAILABLE until then;
- if that topic cannot be created, the message of COORDINATOR_NOT_AVAILABLE says why, in all versions;
- share groups have no coordinator on this node yet and get COORDINATOR_NOT_AVAILABLE, which is also Kafka's
  answer while it has none.

Versions:
- 1: `key_type`, for transactional ids (KIP-98); `throttle_time_ms` and `error_message`
- 2: a throttled client pauses by itself (KIP-219)
- 3: flexible encoding (KIP-482)
- 4: several keys at once (KIP-699)
- 5: the error TRANSACTION_ABORTABLE (KIP-890)
- 6: share groups (KIP-932)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.network.answers import Answer
from penstock.broker.network.turns import Steps, in_turns
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.uuids import uuid_from_text
from penstock.security.acls import Operation, ResourceType
from penstock.security.permissions import AUTHORIZATION_FAILED

if TYPE_CHECKING:
    from penstock.broker.coordination.groups.runtime import GroupCoordinatorRuntime
    from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.image import MetadataImage

SEVERAL_KEYS_VERSION = 4
SHARE_VERSION = 6


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


_RESOURCE_TYPES: Final[Mapping[int, ResourceType]] = {
    KeyType.GROUP: ResourceType.GROUP,
    KeyType.TRANSACTION: ResourceType.TRANSACTIONAL_ID,
}
"""The types of the resources that keys name."""


class Found(NamedTuple):
    """The address of a coordinator, or the error if it cannot be found."""

    error: ErrorCode
    message: str
    node_id: int = -1
    host: str = ""
    port: int = -1


_EXPLAINED_ERRORS: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE,)
"""The errors whose message is also sent in the versions for several keys, where Kafka sends none."""

Answers = dict[str, Found]
"""The answers by key."""


class Parts(Protocol):
    """The parts of the node that this API uses."""

    groups: GroupCoordinatorRuntime
    image: MetadataImage
    transactions: TransactionCoordinatorRuntime


def handle(
    parts: Parts, request: FindCoordinatorRequest, context: RequestContext
) -> Answer[FindCoordinatorResponse]:
    if request.key_type == KeyType.SHARE and context.api_version >= SHARE_VERSION:
        context.permissions.require(Operation.CLUSTER_ACTION)
    return in_turns(_refused_keys(request, context)).and_then(
        lambda refused: _find_others(parts, request, context, refused)
    )


def _refused_keys(request: FindCoordinatorRequest, context: RequestContext) -> Steps[Answers]:
    """The answers for the keys whose coordinator the client may not know."""
    refused: Answers = {}
    resource_type = _RESOURCE_TYPES.get(request.key_type)
    if resource_type is None or context.permissions.is_unrestricted:
        return refused
    error = AUTHORIZATION_FAILED[resource_type]
    for key in _keys(request, context):
        yield
        if not context.permissions.allows(Operation.DESCRIBE, resource_type, key):
            refused[key] = Found(error, error.default_message)
    return refused


def _find_others(
    parts: Parts, request: FindCoordinatorRequest, context: RequestContext, refused: Answers
) -> Answer[FindCoordinatorResponse]:
    """Answer for the other keys too. Only they create the coordinators' topic."""
    coordinators = _coordinators(parts, request.key_type)
    if coordinators is None or coordinators.has_topic or refused.keys() >= set(_keys(request, context)):
        return in_turns(_answer(parts, request, context, refused))
    return Answer.working(_create_and_answer(parts, coordinators, request, context, refused))


def _coordinators(
    parts: Parts, key_type: int
) -> GroupCoordinatorRuntime | TransactionCoordinatorRuntime | None:
    """The runtime that maps keys of this type to coordinators; None if there is none."""
    if key_type == KeyType.GROUP:
        return parts.groups
    return parts.transactions if key_type == KeyType.TRANSACTION else None


async def _create_and_answer(
    parts: Parts,
    coordinators: GroupCoordinatorRuntime | TransactionCoordinatorRuntime,
    request: FindCoordinatorRequest,
    context: RequestContext,
    refused: Answers,
) -> FindCoordinatorResponse:
    try:
        await coordinators.ensure_topic()
    except KafkaError as error:
        not_available = Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message)
        refused = dict.fromkeys(_keys(request, context), not_available) | refused
    return await in_turns(_answer(parts, request, context, refused))


def _answer(
    parts: Parts, request: FindCoordinatorRequest, context: RequestContext, refused: Answers
) -> Steps[FindCoordinatorResponse]:
    """Find the coordinators of all keys that are not refused, and answer."""
    answers: Answers = {}
    for key in _keys(request, context):
        yield
        if key not in answers:
            answers[key] = refused.get(key) or _find(parts, request.key_type, key, context)
    if context.api_version < SEVERAL_KEYS_VERSION:
        return _single_response(answers[request.key])
    response = FindCoordinatorResponse()
    for key, answer in answers.items():
        yield
        response.coordinators.append(
            FindCoordinatorResponse.Coordinator(
                key=key,
                node_id=answer.node_id,
                host=answer.host,
                port=answer.port,
                error_code=answer.error,
                error_message=answer.message if answer.error in _EXPLAINED_ERRORS else "",
            )
        )
    return response


def _single_response(answer: Found) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=answer.error,
        error_message=answer.message,
        node_id=answer.node_id,
        host=answer.host,
        port=answer.port,
    )


def _keys(request: FindCoordinatorRequest, context: RequestContext) -> list[str]:
    return request.coordinator_keys if context.api_version >= SEVERAL_KEYS_VERSION else [request.key]


def _find(parts: Parts, key_type: int, key: str, context: RequestContext) -> Found:
    coordinators = _coordinators(parts, key_type)
    if coordinators is not None:
        return _find_leader(parts, coordinators.TOPIC, coordinators.partition_of(key), context)
    if key_type == KeyType.SHARE and context.api_version >= SHARE_VERSION and _is_share_key(key):
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE, "This node does not coordinate share groups yet.")
    return Found(ErrorCode.INVALID_REQUEST, f"No coordinator has keys of type {key_type} like {key!r}.")


def _find_leader(parts: Parts, topic: str, index: int, context: RequestContext) -> Found:
    partition = parts.image.topics.partition(topic, index)
    leader = parts.image.brokers.get(partition.leader) if partition is not None else None
    endpoint = leader.endpoint(context.listener_name) if leader is not None else None
    if partition is None or endpoint is None:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return Found(error, error.default_message)
    return Found(ErrorCode.NONE, "NONE", partition.leader, endpoint.host, endpoint.port)


def _is_share_key(key: str) -> bool:
    """Whether the key has the form ``group:topic id:partition``; the group's own name may contain colons."""
    parts = key.rsplit(":", 2)
    if len(parts) != 3 or not parts[0] or not parts[2].isdigit():
        return False
    try:
        uuid_from_text(parts[1])
    except ValueError:
        return False
    return True


def answer_error(request: FindCoordinatorRequest, error: KafkaError, version: int) -> FindCoordinatorResponse:
    if version < SEVERAL_KEYS_VERSION:
        return _single_response(Found(error.code, error.message))
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponse.Coordinator(
                key=key, node_id=-1, port=-1, error_code=error.code, error_message=error.message
            )
            for key in request.coordinator_keys
        ]
    )


API = (
    Api(FindCoordinatorRequest, answer_error=answer_error)
    .on_broker(lambda node: node, handle)
    .needs(
        (Operation.DESCRIBE, ResourceType.GROUP, "to find the coordinator of a group"),
        (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "to find the coordinator of transactions"),
        (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "to find the coordinator of a share group"),
    )
)
