"""DescribeDelegationToken (41): report delegation tokens and their HMACs, which are passwords (KIP-48).

Versions 1 to 3. Every node answers from its own metadata. A request names owners, of whom it finds the tokens
that they own, may renew or have asked for; without owners it means all tokens. Among these, the response has
the tokens of the sender in the same sense, and others with DESCRIBE on the token or DESCRIBE_TOKENS on its
owner, as a resource of the type USER whose name is the principal. It has expired tokens until the controller
removes them. Apache Kafka's controllers list this API but do not serve it; ours answer as brokers do.

Versions:
- 2: flexible encoding (KIP-482)
- 3: the requesters of tokens (KIP-373)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.broker.api_entry import Api
from penstock.broker.control.delegation_tokens import NOT_ALLOWED, allows_token_requests
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from penstock.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.broker.network.context import RequestContext
    from penstock.metadata.configs import BrokerConfig
    from penstock.metadata.image import MetadataImage
    from penstock.protocol.messages import DelegationTokenRecord
    from penstock.security.delegation_tokens import TokenSecret
    from penstock.security.permissions import Permissions


class Parts(Protocol):
    """The parts of the node that this API uses."""

    config: BrokerConfig
    image: MetadataImage
    token_secret: TokenSecret | None


def handle(
    parts: Parts, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    if not allows_token_requests(parts.config, context):
        return DescribeDelegationTokenResponse(error_code=NOT_ALLOWED)
    secret = parts.token_secret
    if secret is None:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = request.owners
    wanted = None if owners is None else {f"{each.principal_type}:{each.principal_name}" for each in owners}
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, secret)
            for token in parts.image.delegation_tokens.values()
            if _is_shown(token, wanted, context.principal, context.permissions)
        ]
    )


def _is_shown(
    token: DelegationTokenRecord, wanted: Collection[str] | None, principal: str, permissions: Permissions
) -> bool:
    parties = {token.owner, token.requester, *token.renewers}
    if wanted is not None and parties.isdisjoint(wanted):
        return False
    return (
        principal in parties
        or permissions.allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or permissions.allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _described(
    token: DelegationTokenRecord, secret: TokenSecret
) -> DescribeDelegationTokenResponse.DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    requester_type, _, requester_name = token.requester.partition(":")
    renewers = [renewer.partition(":") for renewer in token.renewers]
    return DescribeDelegationTokenResponse.DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=secret.hmac(token.token_id),
        renewers=[
            DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer(
                principal_type=kind, principal_name=name
            )
            for kind, _, name in renewers
        ],
    )


async def handle_as_controller(
    parts: Parts, request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    return handle(parts, request, context)


API = (
    Api(DescribeDelegationTokenRequest)
    .on_broker(lambda node: node, handle)
    .on_controller(lambda node: node, handle_as_controller)
    .needs(
        (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, "or DESCRIBE_TOKENS, for tokens of others"),
        (Operation.DESCRIBE_TOKENS, ResourceType.USER, "or DESCRIBE, for tokens of others, on the owner"),
    )
)
