"""The table of APIs: the listeners that serve each one, and the handlers that answer it.

Each module of `broker/api` is one API, and its `API` is its entry in the table (`api_entry`). As in Kafka,
an API's definition decides which listeners serve it. If a broker's listener serves an API that only the
controller can answer, the request is forwarded to the controller (KIP-590).
"""

from __future__ import annotations

import importlib
import pkgutil
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

from penstock.broker import api as api_package
from penstock.broker.api_entry import Api, Handled, NodeParts, Versions, answering
from penstock.broker.network.answers import Answer
from penstock.broker.network.refusals import log_refusal
from penstock.broker.network.served import ServedApi
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message
from penstock.protocol.errors import KafkaError

if TYPE_CHECKING:
    from penstock.broker.api_entry import ControllerHandler
    from penstock.broker.control.controller_apis import AnswerAsController
    from penstock.broker.control.forwarding import Forwarding
    from penstock.broker.network.answers import Handler
    from penstock.broker.network.context import RequestContext


class ListenerType(Enum):
    """The purpose of a listener, by its name in the definitions."""

    BROKER = "broker"
    CONTROLLER = "controller"


@cache
def apis() -> dict[ApiKey, Api[Any]]:
    """The entries of all modules of `broker/api`, by key."""
    found: dict[ApiKey, Api[Any]] = {}
    for info in pkgutil.iter_modules(api_package.__path__):
        api = getattr(importlib.import_module(f"{api_package.__name__}.{info.name}"), "API", None)
        if isinstance(api, Api):
            found[api.key] = api
    return dict(sorted(found.items()))


def served_by(listener: ListenerType) -> dict[ApiKey, Handled]:
    """The handlers of all APIs that a listener serves."""
    found: dict[ApiKey, Handled] = {}
    for key, api in apis().items():
        handled = _handled(api, listener)
        if handled is not None and listener.value in api_keys.api(key).listeners:
            found[key] = handled
    return found


def _handled(api: Api[Any], listener: ListenerType) -> Handled | None:
    if listener is ListenerType.BROKER and api.broker is not None:
        part, handle = api.broker
        return Handled(part, _answering_refusals(handle)) if api.answer_error is not None else api.broker
    if api.controller is None:
        return None
    if listener is ListenerType.BROKER:
        return Handled(lambda node: node.forwarding, _answering_errors(_forward))
    return Handled(api.controller.part, _answering_errors(api.controller.handle))


def bound(
    node: NodeParts, listener: ListenerType, *, serves_unstable: bool = False
) -> dict[ApiKey, ServedApi]:
    """The APIs of a listener of this node, for a dispatcher. All parts of the node must exist."""
    found = {}
    for key, (part, handle) in served_by(listener).items():
        api = apis()[key]
        found[key] = ServedApi(part(node), handle, api.versions, api.advertised, api.is_exempt)
        unstable = api_keys.unstable_version(key) if serves_unstable else None
        if unstable is not None:
            versions, advertised = (api.versions[0], unstable), (api.advertised[0], unstable)
            found[key] = found[key]._replace(versions=versions, advertised=advertised)
    return found


class NodeControllerApis:
    """The controller's APIs of one node: `ControllerApis` by the table."""

    def __init__(self, node: NodeParts) -> None:
        self._node = node

    def handler(self, key: ApiKey) -> AnswerAsController | None:
        handled = apis()[key].controller if key in apis() else None
        if handled is None:
            return None
        part, handle = handled

        async def answer(request: Message, context: RequestContext) -> Message | bytes:
            return await handle(part(self._node), request, context)

        return answer

    def versions(self, key: ApiKey) -> Versions:
        return apis()[key].versions

    def answer_error(self, request: Message, error: KafkaError, api_version: int) -> Message:
        return answer_error(request, error, api_version)


async def _forward(forwarding: Forwarding, request: Message, context: RequestContext) -> Message | bytes:
    return await forwarding.forward(request, context)


def _answering_errors(handle: ControllerHandler) -> Handler:
    async def answer(part: object, request: Message, context: RequestContext) -> Message | bytes:
        try:
            return await handle(part, request, context)
        except KafkaError as error:
            log_refusal(ApiKey(request.ID).name, context.api_version, context.client_id, error)
            return answer_error(request, error, context.api_version)

    return answering(answer)


def _answering_refusals(handle: Handler) -> Handler:
    """Answer a KafkaError of a broker's handler in the form of the API, as for a controller's handler."""

    def answer(part: object, request: Message, context: RequestContext) -> object:
        def refused(error: KafkaError) -> object:
            return answer_error(request, error, context.api_version)

        try:
            response = handle(part, request, context)
        except KafkaError as error:
            return refused(error)
        return response.recover(refused) if isinstance(response, Answer) else response

    return answer


def answer_error(request: Message, error: KafkaError, api_version: int) -> Message:
    """The response with the error. Raises the error itself if the message has no field for one."""
    key = ApiKey(request.ID)
    of_api = apis()[key].answer_error
    if of_api is not None:
        return of_api(request, error, api_version)
    response = api_keys.response_class(key)()
    if not hasattr(response, "error_code"):
        raise error
    response.error_code = error.code
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response
