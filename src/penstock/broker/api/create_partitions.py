"""CreatePartitions (37): add partitions to a topic; their number never decreases.

Versions 0 to 3. The partitions exist when the answer is sent. The request's timeout limits the wait for the
commit: after REQUEST_TIMED_OUT the partitions may still be created.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.partitions import create_partitions
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.CREATE_PARTITIONS


async def handle_as_controller(
    broker: Broker, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    return await broker.controller.submit_and_follow(
        partial(create_partitions, request=request), request.timeout_ms
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
