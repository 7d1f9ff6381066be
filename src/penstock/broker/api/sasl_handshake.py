"""SaslHandshake (17): choose the mechanism by which a client authenticates (KIP-43).

Versions 0 and 1. A listener without SASL answers ILLEGAL_SASL_STATE, as in Kafka, and so does one where the
client's session has no end, or where it has authenticated again less than a second ago. It needs no
permission, since clients ask it before they have a principal.

Versions:
- 1: SaslAuthenticate frames the mechanism's messages (KIP-152)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from penstock.broker.network.context import RequestContext


def handle(_node: object, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    if context.authentication is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    return context.authentication.begin(request.mechanism, context.api_version)


async def handle_as_controller(
    node: object, request: SaslHandshakeRequest, context: RequestContext
) -> SaslHandshakeResponse:
    return handle(node, request, context)


API = (
    Api(SaslHandshakeRequest)
    .on_broker(lambda node: node, handle)
    .on_controller(lambda node: node, handle_as_controller)
)
