"""DeleteTopics (20): delete topics by name, or from version 6 on by id.

Versions 1 to 6. The answer is sent once the topic is removed from the metadata; its files are deleted later.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.metadata.controller.topics import delete_topics
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker

API_KEY = ApiKey.DELETE_TOPICS

_DISABLED_VERSION = 3
"""The first version whose clients know TOPIC_DELETION_DISABLED."""


async def handle_as_controller(
    broker: Broker, request: DeleteTopicsRequest, context: RequestContext
) -> DeleteTopicsResponse:
    if not broker.config.get_bool("delete.topic.enable"):
        is_known = context.api_version >= _DISABLED_VERSION
        code = ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        raise KafkaError(code, "Topic deletion is disabled.")
    return await broker.controller.submit_and_follow(
        partial(delete_topics, request=request), request.timeout_ms
    )


def answer_error(request: DeleteTopicsRequest, error: KafkaError, _version: int) -> DeleteTopicsResponse:
    result = DeleteTopicsResponse.DeletableTopicResult
    code, message = error.code, error.message
    by_state = [
        result(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message)
        for topic in request.topics
    ]
    by_name = [result(name=name, error_code=code, error_message=message) for name in request.topic_names]
    return DeleteTopicsResponse(responses=by_state + by_name)
