"""The interface to the controller's APIs on this node, for requests that need no connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.protocol.api_keys import ApiKey
    from penstock.protocol.codec import Message
    from penstock.protocol.errors import KafkaError


class AnswerAsController(Protocol):
    """Answer a request as the active controller. Raises KafkaError NOT_CONTROLLER if this node is not it."""

    async def __call__(self, request: Message, context: RequestContext) -> Message | bytes: ...


class ControllerApis(Protocol):
    """The table of the controller's APIs, which `broker.api_table` implements."""

    def handler(self, key: ApiKey) -> AnswerAsController | None:
        """The handler of an API, which raises KafkaError; None if no controller serves the API."""

    def versions(self, key: ApiKey) -> tuple[int, int]:
        """The lowest and highest version served. Raises KeyError for an API that is not served."""

    def answer_error(self, request: Message, error: KafkaError, api_version: int) -> Message:
        """The response with the error. Raises the error itself if the message has no field for one."""
