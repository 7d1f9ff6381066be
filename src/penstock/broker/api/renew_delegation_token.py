"""RenewDelegationToken (39): let a delegation token expire later (KIP-48).

Versions 1 and 2. The token is named by its HMAC. Its owner and its renewers may do it, without any ACL, over
connections that authenticate clients, but not after a login with a token.

Versions:
- 2: flexible encoding (KIP-482)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.control.delegation_tokens import NO_TIME_MS, NOT_ALLOWED, allows_token_requests
from penstock.metadata.controller.delegation_tokens import renew_delegation_token
from penstock.protocol.messages import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from penstock.broker.control.delegation_tokens import ControllerParts, Parts
    from penstock.broker.network.context import RequestContext
    from penstock.protocol.messages import Message


async def handle(
    parts: Parts, request: RenewDelegationTokenRequest, context: RequestContext
) -> Message | bytes:
    if not allows_token_requests(parts.config, context):
        return RenewDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME_MS)
    return await parts.forwarding.forward(request, context)


async def handle_as_controller(
    parts: ControllerParts, request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    if not allows_token_requests(parts.config, context):
        return RenewDelegationTokenResponse(error_code=NOT_ALLOWED, expiry_timestamp_ms=NO_TIME_MS)
    return await parts.controller.submit_and_follow(
        partial(
            renew_delegation_token,
            request=request,
            requester=context.principal,
            secret=parts.token_secret,
            now_ms=parts.clock_ms(),
        )
    )


API = (
    Api(RenewDelegationTokenRequest)
    .on_broker(lambda node: node, handle)
    .on_controller(lambda node: node, handle_as_controller)
)
