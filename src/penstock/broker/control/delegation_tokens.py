"""Requests for delegation tokens on this node: its secret, and the connections on which they are allowed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from penstock.security.delegation_tokens import TokenSecret
from penstock.security.permissions import ANONYMOUS

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.control.forwarding import Forwarding
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.controller.state import ControllerState, Decision
    from penstock.protocol.messages import Message

Q = TypeVar("Q", bound=RenewDelegationTokenRequest | ExpireDelegationTokenRequest, contravariant=True)
R = TypeVar("R", bound=RenewDelegationTokenResponse | ExpireDelegationTokenResponse)

NOT_ALLOWED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED

NO_TIME_MS: Final = -1
"""The times of a token in the response to a request that is refused before the controller decides."""


class Parts(Protocol):
    """The parts of a broker that checks and forwards requests which change tokens."""

    config: BrokerConfig
    forwarding: Forwarding


class ControllerParts(Protocol):
    """The parts of a controller that answers these requests."""

    config: BrokerConfig
    controller: Controller
    token_secret: TokenSecret | None

    def clock_ms(self) -> int: ...


def token_secret(config: BrokerConfig) -> TokenSecret | None:
    """The secret of the cluster's tokens. None if none is set, which disables tokens on this node."""
    secret = config["delegation.token.secret.key"]
    return TokenSecret(secret) if isinstance(secret, str) and secret else None


def allows_token_requests(config: BrokerConfig, context: RequestContext) -> bool:
    """Whether the sender may ask about tokens at all, as in Kafka.

    Tokens travel only over connections whose client has authenticated. A client that has logged in with a
    token must not get another one, with which it could outlive the first. A broker that forwards a request
    has checked the connection, so that the controller checks only how the client has authenticated.
    """
    if context.token_authenticated:
        return False
    if context.is_forwarded:
        return True
    protocol = config.security_protocol(context.listener_name)
    return protocol != "PLAINTEXT" and not (protocol == "SSL" and context.principal == ANONYMOUS)


class Decide(Protocol[Q, R]):
    """The controller's decision about a token that shall expire at another time."""

    def __call__(
        self,
        state: ControllerState,
        request: Q,
        *,
        requester: str,
        secret: TokenSecret | None,
        now_ms: int,
    ) -> Decision[R]: ...


class LifetimeChange(Generic[Q, R]):
    """The handlers of a request that lets a token expire earlier or later."""

    def __init__(self, response: type[R], decide: Decide[Q, R]) -> None:
        self._response = response
        self._decide = decide

    async def handle(self, parts: Parts, request: Q, context: RequestContext) -> Message | bytes:
        if not allows_token_requests(parts.config, context):
            return self._refusal()
        return await parts.forwarding.forward(request, context)

    async def handle_as_controller(self, parts: ControllerParts, request: Q, context: RequestContext) -> R:
        if not allows_token_requests(parts.config, context):
            return self._refusal()
        decide = partial(
            self._decide,
            request=request,
            requester=context.principal,
            secret=parts.token_secret,
            now_ms=parts.clock_ms(),
        )
        return await parts.controller.submit_and_follow(decide)

    def _refusal(self) -> R:
        return self._response(error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME_MS)
