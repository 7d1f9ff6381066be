"""Requests for delegation tokens on this node: its secret, and the connections on which they are allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from penstock.protocol.errors import ErrorCode
from penstock.security.delegation_tokens import TokenSecret
from penstock.security.permissions import ANONYMOUS

if TYPE_CHECKING:
    from penstock.broker.control.controller import Controller
    from penstock.broker.control.forwarding import Forwarding
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.configs import BrokerConfig

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
