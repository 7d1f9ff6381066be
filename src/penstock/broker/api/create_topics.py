"""CreateTopics (19): create topics with partitions and configs; each succeeds or fails on its own.

Versions 2 to 7. The records are committed and this node's logs are open when the answer is sent. The
request's timeout limits the wait for the commit: after REQUEST_TIMED_OUT the topics may still be created.
Needs CREATE on the cluster, or on each topic. The response describes only topics with DESCRIBE_CONFIGS.

Versions:
- 2: `throttle_time_ms` (KIP-124)
- 3: a throttled client pauses by itself (KIP-219)
- 4: -1 as the number of partitions or replicas requests the broker's default (KIP-464)
- 5: flexible encoding (KIP-482); the response describes the topic and its configs (KIP-525)
- 6: the error THROTTLING_QUOTA_EXCEEDED (KIP-599)
- 7: the response has the topic's id (KIP-516)
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.broker.api.mutation_quota import quota_of, throttled
from penstock.broker.api.topic_results import log_results
from penstock.broker.api_entry import Api
from penstock.metadata.controller.topic_names import CLUSTER_METADATA
from penstock.metadata.controller.topics import create_topics
from penstock.protocol.encoder import uvarint_bytes
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import CreateTopicsRequest, CreateTopicsResponse
from penstock.security.acls import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.api.mutation_quota import MutationParts
    from penstock.broker.network.context import RequestContext

TOPICS_PER_TURN: Final = 100
"""The number of topics encoded per turn of the event loop; each includes all its configs."""

_FLEXIBLE_SINCE: Final = 5
_STRICT_SINCE: Final = 6
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED."""


async def handle_as_controller(
    parts: MutationParts, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse | bytes:
    permissions = context.permissions
    names = {topic.name for topic in request.topics} - {CLUSTER_METADATA}
    may_create = names
    if not permissions.allows(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=False):
        may_create = permissions.allowed(Operation.CREATE, ResourceType.TOPIC, names)
    shows_configs_of = permissions.allowed(
        Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names, logs_denial=False
    )
    quota = quota_of(parts, context, _STRICT_SINCE)
    decide = partial(
        create_topics,
        request=request,
        may_create=may_create,
        shows_configs_of=shows_configs_of,
        charge=quota.charge,
    )
    response = await throttled(
        quota,
        parts.controller.submit_and_follow(decide, request.timeout_ms),
        lambda error: answer_error(request, error, context.api_version),
    )
    if not request.validate_only:
        log_results("created", response.topics)
    if len(response.topics) <= TOPICS_PER_TURN:
        return response
    return await _encode_in_turns(response, context.api_version)


def answer_error(request: CreateTopicsRequest, error: KafkaError, _version: int) -> CreateTopicsResponse:
    result = CreateTopicsResponse.CreatableTopicResult
    return CreateTopicsResponse(
        topics=[
            result(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


async def _encode_in_turns(response: CreateTopicsResponse, version: int) -> bytes:
    """Encode the response as `response.encode` does, yielding to other tasks in between."""
    topics = response.topics
    is_flexible = version >= _FLEXIBLE_SINCE
    count = uvarint_bytes(len(topics) + 1) if is_flexible else len(topics).to_bytes(4, "big")
    # the number of bytes before the topics, and after them
    before, after = (4 + 1, 1) if is_flexible else (4 + 4, 0)
    parts = [response.throttle_time_ms.to_bytes(4, "big"), count]
    for start in range(0, len(topics), TOPICS_PER_TURN):
        some = CreateTopicsResponse(topics=topics[start : start + TOPICS_PER_TURN]).encode(version)
        parts.append(some[before : len(some) - after])
        await asyncio.sleep(0)
    return b"".join([*parts, bytes(after)])


API = (
    Api(CreateTopicsRequest, answer_error=answer_error)
    .on_controller(lambda node: node, handle_as_controller)
    .needs(
        (Operation.CREATE, ResourceType.CLUSTER),
        (Operation.CREATE, ResourceType.TOPIC, "without CREATE on the cluster"),
        (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "for the description of the new topic"),
    )
)
