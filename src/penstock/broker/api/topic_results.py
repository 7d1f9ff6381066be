"""The log of what became of the topics in a request that creates or deletes topics."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from penstock.protocol.errors import ErrorCode
from penstock.protocol.uuids import uuid_to_text

if TYPE_CHECKING:
    from penstock.protocol.messages import CreateTopicsResponse, DeleteTopicsResponse

    TopicResult: TypeAlias = (
        CreateTopicsResponse.CreatableTopicResult | DeleteTopicsResponse.DeletableTopicResult
    )

log = logging.getLogger(__name__)

LOGGED_TOPICS_MAX: Final = 100
"""Limit on the lines for one request, so that the log of thousands of topics does not block the loop."""


def log_results(outcome: str, topics: Sequence[TopicResult]) -> None:
    """Log a line for each topic of a response; ``outcome`` is "created" or "deleted"."""
    for topic in topics[:LOGGED_TOPICS_MAX]:
        if topic.error_code:
            error = ErrorCode.of(topic.error_code).name
            log.info(
                "topic not %s topic=%s error=%s reason=%s", outcome, topic.name, error, topic.error_message
            )
        else:
            log.info("topic %s topic=%s topic_id=%s", outcome, topic.name, uuid_to_text(topic.topic_id))
    if len(topics) > LOGGED_TOPICS_MAX:
        log.info("more topics in the same request count=%d", len(topics) - LOGGED_TOPICS_MAX)
