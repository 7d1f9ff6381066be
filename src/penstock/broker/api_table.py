"""The table of APIs: the listeners that serve each one, and the handlers that answer it.

Each module of `broker/api` is one API. It defines its `API_KEY`, its `VERSIONS` if they differ from the
definition's stable range, and one or both of

- ``handle(broker, request, context)``: the broker's handler;
- ``handle_as_controller(broker, request, context)``: the active controller's handler. It raises KafkaError
  NOT_CONTROLLER if the active controller is not on this node (any more), and never answers that itself.

If a broker's listener serves an API that only the controller can answer, the request is forwarded to it
(KIP-590). A module that takes part in that has its own `handle`, which calls `Forwarding.forward`.

``answer_error(request, error, api_version)`` converts a KafkaError to a response; messages with an error code
at the top level need none. As in Kafka, an API's definition decides which listeners serve it.
`ADVERTISED_VERSIONS` may list more versions than are served (Produce requires that, KAFKA-18659).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Awaitable, Callable
from enum import Enum
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from penstock.broker import api as api_package
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message
from penstock.protocol.errors import KafkaError

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext
    from penstock.broker.node import Broker

Handler = Callable[["Broker", Any, "RequestContext"], object]
ControllerHandler = Callable[["Broker", Any, "RequestContext"], Awaitable[Message | bytes]]


class ListenerType(Enum):
    """The purpose of a listener, by its name in the definitions."""

    BROKER = "broker"
    CONTROLLER = "controller"


@cache
def modules() -> dict[ApiKey, ModuleType]:
    """All modules of `broker/api` by the API they serve."""
    found: dict[ApiKey, ModuleType] = {}
    for info in pkgutil.iter_modules(api_package.__path__):
        module = importlib.import_module(f"{api_package.__name__}.{info.name}")
        key = getattr(module, "API_KEY", None)
        if isinstance(key, ApiKey):
            found[key] = module
    return dict(sorted(found.items()))


def versions(module: ModuleType) -> tuple[int, int]:
    """The lowest and highest version that a module serves."""
    lowest, highest = getattr(module, "VERSIONS", None) or api_keys.api_range(module.API_KEY)
    return lowest, highest


def advertised_versions(module: ModuleType) -> tuple[int, int]:
    """The versions that ApiVersions lists."""
    told: tuple[int, int] = getattr(module, "ADVERTISED_VERSIONS", None) or versions(module)
    return told


def handlers(listener: ListenerType) -> dict[ApiKey, Handler]:
    """The handlers of all APIs of a listener."""
    found: dict[ApiKey, Handler] = {}
    for key, module in modules().items():
        if listener.value not in api_keys.api(key).listeners:
            continue
        handler = _handler(module, listener)
        if handler is not None:
            found[key] = handler
    return found


def _handler(module: ModuleType, listener: ListenerType) -> Handler | None:
    as_controller: ControllerHandler | None = getattr(module, "handle_as_controller", None)
    if listener is ListenerType.CONTROLLER:
        return as_controller and _answering_errors(as_controller)
    handle: Handler | None = getattr(module, "handle", None)
    return handle or (as_controller and _answering_errors(_forward))


def controller_handler(key: ApiKey) -> ControllerHandler | None:
    """The active controller's handler of an API, unwrapped: it raises KafkaError."""
    module = modules().get(key)
    return None if module is None else getattr(module, "handle_as_controller", None)


async def _forward(broker: Broker, request: Message, context: RequestContext) -> Message | bytes:
    return await broker.forwarding.forward(request, context)


def _answering_errors(handle: ControllerHandler) -> Handler:
    async def answer(broker: Broker, request: Message, context: RequestContext) -> Message | bytes:
        try:
            return await handle(broker, request, context)
        except KafkaError as error:
            return answer_error(request, error, context.api_version)

    return answer


def answer_error(request: Message, error: KafkaError, api_version: int) -> Message:
    """The response with the error. Raises the error itself if the message has no field for one."""
    key = ApiKey(request.ID)
    of_module = getattr(modules()[key], "answer_error", None)
    if of_module is not None:
        made: Message = of_module(request, error, api_version)
        return made
    response = api_keys.response_class(key)()
    if not hasattr(response, "error_code"):
        raise error
    response.error_code = error.code
    if hasattr(response, "error_message"):
        response.error_message = error.message
    return response
