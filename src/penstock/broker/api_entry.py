"""An entry of the API table: the request that a module of `broker/api` serves, and its handlers.

Each module ends with its entry:

    API = Api(HeartbeatRequest).on_broker(lambda node: node.groups, handle)

The entry names the part of the node that the handler takes as its first parameter. A handler that needs
several parts takes a Protocol that stands beside it, and its entry passes the node as that. The type checker
verifies that the part, the request and the handler fit together.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, Self, TypeVar

from penstock.broker.control.host import ControlHost
from penstock.broker.coordination.transactions.host import TransactionHost
from penstock.broker.network.answers import Answer, Handler
from penstock.broker.reading.host import ReadingHost
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message
from penstock.protocol.errors import KafkaError
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.broker.control.authorization import Authorization
    from penstock.broker.control.controller import Controller
    from penstock.broker.control.controller_apis import ControllerApis
    from penstock.broker.control.forwarding import Forwarding
    from penstock.broker.coordination.transactions.runtime import TransactionCoordinatorRuntime
    from penstock.broker.network.context import RequestContext
    from penstock.broker.network.dispatch import Dispatcher
    from penstock.broker.partitions.schema_validation import SchemaIds
    from penstock.broker.quotas.mutations import MutationQuotas
    from penstock.broker.tls.listeners import NodeTls
    from penstock.security.delegation_tokens import TokenSecret

P = TypeVar("P")
Request = TypeVar("Request", bound=Message)

Versions = tuple[int, int]
"""The lowest and the highest version."""


class NodeParts(ControlHost, ReadingHost, TransactionHost, Protocol):
    """All parts of a node that an entry may name, which `broker.node.Broker` implements."""

    authorization: Authorization
    controller: Controller
    controller_apis: ControllerApis
    controller_dispatcher: Dispatcher
    dispatcher: Dispatcher
    forwarding: Forwarding
    mutation_quotas: MutationQuotas
    schemas: SchemaIds
    tls: NodeTls
    token_secret: TokenSecret | None
    transactions: TransactionCoordinatorRuntime


class Handled(NamedTuple):
    """A handler, and the function that picks its part of the node."""

    part: Callable[[NodeParts], Any]
    handle: Handler


ControllerHandler = Callable[[Any, Any, "RequestContext"], Coroutine[Any, Any, Message | bytes]]
"""(part of the node, request, context) → the active controller's response. Raises KafkaError."""


class ControllerHandled(NamedTuple):
    """The handler of the active controller, and the function that picks its part of the node."""

    part: Callable[[NodeParts], Any]
    handle: ControllerHandler


class Permission(NamedTuple):
    """An operation on a type of resource that an API checks before it does its work."""

    operation: Operation
    resource_type: ResourceType
    condition: str = ""
    """When the permission is needed, or what stands for it; empty if every request needs it."""


class Api(Generic[Request]):
    """The entry of one API. The type of its request gives its key and, by default, its versions."""

    def __init__(
        self,
        request: type[Request],
        *,
        versions: Versions | None = None,
        advertised: Versions | None = None,
        answer_error: Callable[[Request, KafkaError, int], Message] | None = None,
        is_refused: bool = False,
        is_exempt: Callable[[Request, RequestContext], bool] | None = None,
    ) -> None:
        """Create an entry without handlers.

        `versions` is needed only if fewer are served than the definition's stable range. ApiVersions lists
        `advertised` instead, if given. `answer_error` converts a KafkaError to a response in the given
        version; messages with an error code at the top level need none. The handler of an API that
        `is_refused` answers every request with an error. Quotas do not limit the requests that `is_exempt`
        picks, because they come from brokers.
        """
        self.key = ApiKey(request.ID)
        self.versions = versions or api_keys.api_range(self.key)
        self.advertised = advertised or self.versions
        self.answer_error = answer_error
        self.is_refused = is_refused
        self.is_exempt = is_exempt
        self.broker: Handled | None = None
        """The handler on a broker's listener."""
        self.controller: ControllerHandled | None = None
        """The handler on a controller's listener."""
        self.permissions: tuple[Permission, ...] = ()
        """The permissions that the handlers check, for docs/security.md and the tests."""

    def needs(
        self, *permissions: tuple[Operation, ResourceType] | tuple[Operation, ResourceType, str]
    ) -> Self:
        """Name the permissions that the handlers check by `context.permissions`."""
        self.permissions = tuple(Permission(*permission) for permission in permissions)
        return self

    def on_broker(
        self,
        part: Callable[[NodeParts], P],
        handle: Callable[
            [P, Request, RequestContext], Message | Answer[Any] | Coroutine[Any, Any, Message | bytes]
        ],
    ) -> Self:
        """Serve the API on a broker's listener.

        The handler returns its response, or an `Answer` if that may take longer, or is a coroutine function.
        Without a handler, a broker forwards the API to the active controller, if its listener serves the API
        (KIP-590).
        """
        self.broker = Handled(part, answering(handle) if iscoroutinefunction(handle) else handle)
        return self

    def on_controller(
        self,
        part: Callable[[NodeParts], P],
        handle: Callable[[P, Request, RequestContext], Coroutine[Any, Any, Message | bytes]],
    ) -> Self:
        """Serve the API as the active controller.

        The handler raises KafkaError, NOT_CONTROLLER if the active controller is not on this node (any more).
        It never answers that itself.
        """
        self.controller = ControllerHandled(part, handle)
        return self


def answering(handle: ControllerHandler) -> Handler:
    """Turn a coroutine function into a handler, whose answer is the result of a task."""

    @wraps(handle)
    def answer(part: object, request: Message, context: RequestContext) -> Answer[object]:
        return Answer.working(handle(part, request, context))

    return answer
