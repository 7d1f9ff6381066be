"""CreatePartitions (37): add partitions to a topic; their number never decreases.

Versions 0 to 3. The partitions exist when the answer is sent. The request's timeout limits the wait for the
commit: after REQUEST_TIMED_OUT the partitions may still be created.

Versions:
- 1: a throttled client pauses by itself (KIP-219)
- 2: flexible encoding (KIP-482)
- 3: the error THROTTLING_QUOTA_EXCEEDED (KIP-599)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.broker.api.mutation_quota import quota_of, throttled
from penstock.broker.api_entry import Api
from penstock.metadata.controller.partitions import create_partitions
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.api.mutation_quota import MutationParts
    from penstock.broker.network.context import RequestContext

_STRICT_SINCE: Final = 3
"""The first version whose clients know THROTTLING_QUOTA_EXCEEDED."""


async def handle_as_controller(
    parts: MutationParts, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    may_alter = context.permissions.allowed(
        Operation.ALTER, ResourceType.TOPIC, {topic.name for topic in request.topics}
    )
    quota = quota_of(parts, context, _STRICT_SINCE)
    decide = partial(create_partitions, request=request, may_alter=may_alter, charge=quota.charge)
    return await throttled(
        quota,
        parts.controller.submit_and_follow(decide, request.timeout_ms),
        lambda error: answer_error(request, error, context.api_version),
    )


def answer_error(
    request: CreatePartitionsRequest, error: KafkaError, _version: int
) -> CreatePartitionsResponse:
    result = CreatePartitionsResponse.CreatePartitionsTopicResult
    return CreatePartitionsResponse(
        results=[
            result(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


API = (
    Api(CreatePartitionsRequest, answer_error=answer_error)
    .on_controller(lambda node: node, handle_as_controller)
    .needs((Operation.ALTER, ResourceType.TOPIC))
)
