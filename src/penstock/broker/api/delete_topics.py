"""DeleteTopics (20): by name, or from version 6 on by id.

Versions 1 to 6. Answered once the topic is out of the metadata; its files go by and by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from penstock.broker.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.DELETE_TOPICS

_DISABLED_VERSION = 3
"""Since then clients know TOPIC_DELETION_DISABLED."""


async def handle(
    broker: Broker, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    if not broker.config.get_bool("delete.topic.enable"):
        return _disabled(request, context.api_version)
    return await broker.controller.delete_topics(request)


def _disabled(request: DeleteTopicsRequest, version: int) -> DeleteTopicsResponse:
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= _DISABLED_VERSION else ErrorCode.INVALID_REQUEST
    result = DeleteTopicsResponse.DeletableTopicResult
    message = "Topic deletion is disabled."
    by_state = [
        result(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message)
        for topic in request.topics
    ]
    by_name = [result(name=name, error_code=code, error_message=message) for name in request.topic_names]
    return DeleteTopicsResponse(responses=by_state + by_name)
