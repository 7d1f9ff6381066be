"""DeleteTopics (20): delete topics by name, or from version 6 on by id.

Versions 1 to 6. The answer is sent once the topic is removed from the metadata; its files are deleted later.
Needs DELETE on the cluster, or on each topic. A client without DESCRIBE on a topic learns neither whether a
name exists nor the name of an id.

Versions:
- 1: `throttle_time_ms` (KIP-124)
- 2: a throttled client pauses by itself (KIP-219)
- 3: the error TOPIC_DELETION_DISABLED (KIP-322)
- 4: flexible encoding (KIP-482)
- 5: `error_message`, the error THROTTLING_QUOTA_EXCEEDED (KIP-599)
- 6: topics by name or by id (KIP-516)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from penstock.broker.api.mutation_quota import MutationParts, quota_of, throttled
from penstock.broker.api.topic_results import log_results
from penstock.broker.api_entry import Api
from penstock.metadata.controller.topics import delete_topics, names_to_delete
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse
from penstock.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.controller.state import Charge, ControllerState, Decision
    from penstock.security.permissions import Permissions

_DISABLED_VERSION = 3
"""The first version whose clients know TOPIC_DELETION_DISABLED."""
_STRICT_SINCE: Final = 5
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED."""


class Parts(MutationParts, Protocol):
    """The parts of the node that this API uses."""

    config: BrokerConfig


async def handle_as_controller(
    parts: Parts, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    if not parts.config.get_bool("delete.topic.enable"):
        is_known = context.api_version >= _DISABLED_VERSION
        code = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "Topic deletion is disabled.")
    permissions = context.permissions
    quota = quota_of(parts, context, _STRICT_SINCE)
    decide = partial(delete_topics, request=request, charge=quota.charge)
    if not permissions.allows(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False):
        decide = partial(_delete_permitted, request, permissions, quota.charge)
    response = await throttled(
        quota,
        parts.controller.submit_and_follow(decide, request.timeout_ms),
        lambda error: answer_error(request, error, context.api_version),
    )
    log_results("deleted", response.responses)
    return response


def _delete_permitted(
    request: DeleteTopicsRequest, permissions: Permissions, charge: Charge, state: ControllerState
) -> Decision[DeleteTopicsResponse]:
    """Ask for permissions once the names are known, of which the request may have only the ids."""
    names = names_to_delete(state, request)
    may_describe = permissions.allowed(Operation.DESCRIBE, ResourceType.TOPIC, names)
    may_delete = permissions.allowed(Operation.DELETE, ResourceType.TOPIC, names)
    return delete_topics(state, request, may_describe, may_delete, charge)


def answer_error(request: DeleteTopicsRequest, error: KafkaError, _version: int) -> DeleteTopicsResponse:
    result = DeleteTopicsResponse.DeletableTopicResult
    code, message = error.code, error.message
    by_state = [
        result(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message)
        for topic in request.topics
    ]
    by_name = [result(name=name, error_code=code, error_message=message) for name in request.topic_names]
    return DeleteTopicsResponse(responses=by_state + by_name)


API = (
    Api(DeleteTopicsRequest, answer_error=answer_error)
    .on_controller(lambda node: node, handle_as_controller)
    .needs(
        (Operation.DELETE, ResourceType.CLUSTER),
        (Operation.DELETE, ResourceType.TOPIC, "without DELETE on the cluster"),
        (Operation.DESCRIBE, ResourceType.TOPIC, "to see names of ids, and which topics do not exist"),
    )
)
