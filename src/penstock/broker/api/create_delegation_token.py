"""CreateDelegationToken (38): create a token to log in with in place of the main credential (KIP-48).

Versions 1 to 3. The response has the token's HMAC, which is its password. Everybody may create tokens for
themselves, over connections that authenticate clients, but not after a login with a token. A token for
another owner needs CREATE_TOKENS on this owner, as a resource of the type USER whose name is the principal.

Versions:
- 2: flexible encoding (KIP-482)
- 3: an owner other than the requester (KIP-373)
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.broker.api_entry import Api
from penstock.broker.control.delegation_tokens import NO_TIME_MS, NOT_ALLOWED, allows_token_requests
from penstock.metadata.controller.delegation_tokens import (
    create_delegation_token,
    creation_response,
    names_only_users,
    owner_of,
)
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from penstock.security.acls import Operation, ResourceType
from penstock.security.permissions import ANONYMOUS

if TYPE_CHECKING:
    from penstock.broker.control.delegation_tokens import ControllerParts, Parts
    from penstock.broker.network.context import RequestContext
    from penstock.metadata.configs import BrokerConfig
    from penstock.protocol.messages import Message


async def handle(
    parts: Parts, request: CreateDelegationTokenRequest, context: RequestContext
) -> Message | bytes:
    error = _refusal(parts.config, request, context)
    if error is ErrorCode.NONE and not names_only_users(request):
        error = ErrorCode.INVALID_PRINCIPAL_TYPE
    if error is not ErrorCode.NONE:
        return _refused(error, owner_of(request, context.principal), context.principal)
    return await parts.forwarding.forward(request, context)


async def handle_as_controller(
    parts: ControllerParts, request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    error = _refusal(parts.config, request, context)
    if error is not ErrorCode.NONE:
        return _refused(error, owner_of(request, context.principal), context.principal)
    return await parts.controller.submit_and_follow(
        partial(
            create_delegation_token,
            request=request,
            requester=context.principal,
            secret=parts.token_secret,
            now_ms=parts.clock_ms(),
        )
    )


def _refusal(
    config: BrokerConfig, request: CreateDelegationTokenRequest, context: RequestContext
) -> ErrorCode:
    """The reason why the sender may not create this token; NONE if it may.

    Raises KafkaError INVALID_REQUEST for an owner without a type.
    """
    if request.owner_principal_name and request.owner_principal_type is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"the owner {request.owner_principal_name!r} has no type, such as User"
        )
    if not allows_token_requests(config, context):
        return NOT_ALLOWED
    owner = owner_of(request, context.principal)
    if owner == context.principal or context.permissions.allows(
        Operation.CREATE_TOKENS, ResourceType.USER, owner
    ):
        return ErrorCode.NONE
    return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def _refused(error: ErrorCode, owner: str, requester: str) -> CreateDelegationTokenResponse:
    response = creation_response(owner, requester)
    response.error_code = error
    response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = NO_TIME_MS
    return response


def answer_error(
    _request: CreateDelegationTokenRequest, error: KafkaError, _version: int
) -> CreateDelegationTokenResponse:
    """The error with Kafka's stand-in for owner and requester."""
    return _refused(error.code, ANONYMOUS, ANONYMOUS)


API = (
    Api(CreateDelegationTokenRequest, answer_error=answer_error)
    .on_broker(lambda node: node, handle)
    .on_controller(lambda node: node, handle_as_controller)
    .needs((Operation.CREATE_TOKENS, ResourceType.USER, "for another owner, on the owner"))
)
