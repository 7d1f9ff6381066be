"""Charge clients for their requests, and mute the connections of those that exceed a quota.

Most requests are charged for their time, those that move records also for their bytes, and none before its
answer is known: the answer names the throttle time.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, cast

from penstock.broker.network.sized_response import SizedResponse
from penstock.broker.quotas.client_quotas import UNLIMITED
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.security.permissions import ANONYMOUS

if TYPE_CHECKING:
    from penstock.broker.network.connection import Connection
    from penstock.broker.network.context import RequestContext
    from penstock.broker.network.served import Served
    from penstock.broker.quotas.client_quotas import ClientQuotas, MeteredClient
    from penstock.protocol.codec import Message

AUTHENTICATING: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""Requests that no quota limits, because they say whose quotas apply."""


class Charge:
    """The use of one request, which its client is charged once the answer is there."""

    __slots__ = ("client", "frame_bytes", "handler_ns", "is_exempt")

    def __init__(self, client: MeteredClient, frame_bytes: int) -> None:
        self.client = client
        self.frame_bytes = frame_bytes
        self.handler_ns = 0
        self.is_exempt = False


class Charging:
    """The charges for the requests of a kind of listener."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas

    def client(self, connection: Connection, api_key: ApiKey) -> MeteredClient | None:
        """The client as the quotas see it; None for requests that no quota limits."""
        if self._quotas is UNLIMITED or api_key in AUTHENTICATING:
            return None
        if connection.authentication is not None and connection.principal == ANONYMOUS:
            return None
        if connection.metered is None:
            connection.metered = self._quotas.client(connection.principal, connection.client_id)
        return connection.metered

    def of_request(
        self, served: Served, request: Message, context: RequestContext, frame_bytes: int, handler_ns: int
    ) -> Charge | None:
        """The charge for a request; None if no quota limits it."""
        if context.metered is None:
            return None
        charge = Charge(context.metered, frame_bytes)
        charge.handler_ns = handler_ns
        charge.is_exempt = served.is_exempt is not None and served.is_exempt(request, context)
        return charge

    def respond(self, charge: Charge, served: Served, connection: Connection, response: object) -> object:
        """Charge the client for a request, and return the response.

        If a quota is exceeded, the response has the throttle time, and the connection is muted. The response
        is sent nevertheless.
        """
        quotas, client = self._quotas, charge.client
        if isinstance(response, SizedResponse):
            throttle_ms = quotas.fetched(client, response.size_bytes(), charge.handler_ns)
            response = response.emptied() if throttle_ms else response.in_full()
        elif charge.is_exempt:
            quotas.exempted(charge.handler_ns)
            connection.metered = None
            return response
        elif served.api_key is ApiKey.PRODUCE:
            is_answered = response is not None
            throttle_ms = quotas.produced(
                client, charge.frame_bytes, charge.handler_ns, is_answered=is_answered
            )
        else:
            controller_ms = _controller_throttle_ms(served, response)
            throttle_ms = quotas.requested(client, charge.handler_ns, controller_ms)
        connection.metered = client
        if throttle_ms:
            connection.mute(throttle_ms)
            return _with_throttle_time(served, response, throttle_ms)
        return response

    def close(self, charge: Charge, served: Served) -> None:
        """Charge a Produce whose answer is that the connection closes: the client may come back."""
        if served.api_key is ApiKey.PRODUCE:
            self._quotas.produced(charge.client, charge.frame_bytes, charge.handler_ns, is_answered=False)


def _controller_throttle_ms(served: Served, response: object) -> int:
    """The throttle time that the controller has answered. A broker's handlers leave it at 0."""
    if isinstance(response, bytes):
        is_first = _begins_with_throttle_time(served.api_key, served.version)
        return int.from_bytes(response[:4], "big") if is_first else 0
    return cast("int", getattr(response, "throttle_time_ms", 0))


@cache
def _begins_with_throttle_time(api_key: ApiKey, version: int) -> bool:
    """Whether encoded responses begin with their throttle time, as those to mutations of partitions do."""
    mark = 0x5AFE_0FF5
    marked = api_keys.response_class(api_key)()
    if not hasattr(marked, "throttle_time_ms"):
        return False
    marked.throttle_time_ms = mark
    return marked.encode(version).startswith(mark.to_bytes(4, "big"))


def _with_throttle_time(served: Served, response: object, throttle_ms: int) -> object:
    """Set the throttle time of a response, if its version has one."""
    if isinstance(response, bytes):
        response, _ = served.response_class.decode(served.version, response)
    if hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_ms
    return response
