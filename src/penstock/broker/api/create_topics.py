"""CreateTopics (19): topics with their partitions and configs, each by itself a success or a failure.

Versions 2 to 7. The request's timeout is not needed: records are committed, and the logs opened, when the
answer goes out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.CREATE_TOPICS


async def handle(
    broker: Broker, request: CreateTopicsRequest, context: RequestContext
) -> CreateTopicsResponse:
    try:
        return await broker.controller.create_topics(request)
    except KafkaError as error:
        result = CreateTopicsResponse.CreatableTopicResult
        return CreateTopicsResponse(
            topics=[
                result(name=topic.name, error_code=error.code, error_message=error.message)
                for topic in request.topics
            ]
        )
