"""SaslAuthenticate (36): a message of the mechanism by which a client authenticates (KIP-152).

Versions 0 to 2. A listener without SASL answers ILLEGAL_SASL_STATE, as in Kafka. It needs no permission,
since clients ask it before they have a principal.

Versions:
- 1: `session_lifetime_ms`: when the client has to authenticate again (KIP-368)
- 2: flexible encoding (KIP-482)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext


def handle(
    _node: object, request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse:
    if context.authentication is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    return context.authentication.go_on(bytes(request.auth_bytes))


async def handle_as_controller(
    node: object, request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse:
    return handle(node, request, context)


API = (
    Api(SaslAuthenticateRequest)
    .on_broker(lambda node: node, handle)
    .on_controller(lambda node: node, handle_as_controller)
)
