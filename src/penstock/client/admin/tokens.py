"""Create, find, renew and expire delegation tokens (KIP-48, KIP-373). Any broker takes the requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.client.connections.cluster import Cluster
from penstock.client.errors import UnsupportedByServer, error_from
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

SERVER_DEFAULT_MS: Final = -1
"""Stands for the cluster's own limit of a lifetime or a period."""

AT_ONCE_MS: Final = -1
"""The period of a token that is removed."""

_OWNER_VERSION: Final = 3
"""The version of CreateDelegationToken from which a token may have another owner than the requester."""


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. Principals are ``type:name``, and ``repr`` does not show the HMAC, the token's password."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    """When the token ends even if it is renewed."""
    hmac: bytes = field(repr=False)


def create_token(
    cluster: Cluster,
    *,
    owner: str | None = None,
    renewers: Sequence[str] = (),
    max_lifetime_ms: int = SERVER_DEFAULT_MS,
) -> DelegationToken:
    """Create a token for ``owner``, or for the user who asks.

    Raises ServerError; UnsupportedByServer if the server is too old for another owner.
    """
    owner_type, owner_name = _split(owner) if owner is not None else ("", "")
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=[
            CreateDelegationTokenRequest.CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, name in map(_split, renewers)
        ],
        max_lifetime_ms=max_lifetime_ms,
    )

    def create() -> CreateDelegationTokenResponse:
        if owner and cluster.any_version_of(ApiKey.CREATE_DELEGATION_TOKEN) < _OWNER_VERSION:
            raise UnsupportedByServer("the server is too old to create tokens for another owner")
        response = cluster.call_any(request, CreateDelegationTokenResponse)
        if response.error_code:
            raise error_from(response.error_code, "creating a token")
        return response

    created = cluster.retry(create)
    principal = f"{created.principal_type}:{created.principal_name}"
    return DelegationToken(
        token_id=created.token_id,
        owner=principal,
        requester=_requester(created) or principal,
        renewers=tuple(renewers),
        issue_timestamp_ms=created.issue_timestamp_ms,
        expiry_timestamp_ms=created.expiry_timestamp_ms,
        max_timestamp_ms=created.max_timestamp_ms,
        hmac=bytes(created.hmac),
    )


def describe_tokens(cluster: Cluster, owners: Sequence[str] | None = None) -> list[DelegationToken]:
    """The tokens that the user may see, sorted by owner and age: all, or those of some owners.

    A token counts as that of its renewers and its requester, too. Raises ServerError.
    """
    asked = None
    if owners is not None:
        asked = [
            DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(
                principal_type=kind, principal_name=name
            )
            for kind, name in map(_split, owners)
        ]
    request = DescribeDelegationTokenRequest(owners=asked)

    def describe() -> list[DelegationToken]:
        response = cluster.call_any(request, DescribeDelegationTokenResponse)
        if response.error_code:
            raise error_from(response.error_code, "reading tokens")
        return sorted(
            map(_described, response.tokens),
            key=lambda token: (token.owner, token.issue_timestamp_ms, token.token_id),
        )

    return cluster.retry(describe)


def renew_token(cluster: Cluster, hmac: bytes, period_ms: int = SERVER_DEFAULT_MS) -> int:
    """Let the token with this HMAC expire later, and return when, in milliseconds. Raises ServerError."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)

    def renew() -> int:
        response = cluster.call_any(request, RenewDelegationTokenResponse)
        if response.error_code:
            raise error_from(response.error_code, "renewing the token")
        return response.expiry_timestamp_ms

    return cluster.retry(renew)


def expire_token(cluster: Cluster, hmac: bytes, period_ms: int = AT_ONCE_MS) -> int:
    """Let the token expire after a period or remove it, and return when, in milliseconds.

    Raises ServerError.
    """
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)

    def expire() -> int:
        response = cluster.call_any(request, ExpireDelegationTokenResponse)
        if response.error_code:
            raise error_from(response.error_code, "expiring the token")
        return response.expiry_timestamp_ms

    return cluster.retry(expire)


def _described(token: DescribeDelegationTokenResponse.DescribedDelegationToken) -> DelegationToken:
    owner = f"{token.principal_type}:{token.principal_name}"
    return DelegationToken(
        token_id=token.token_id,
        owner=owner,
        requester=_requester(token) or owner,
        renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in token.renewers),
        issue_timestamp_ms=token.issue_timestamp,
        expiry_timestamp_ms=token.expiry_timestamp,
        max_timestamp_ms=token.max_timestamp,
        hmac=bytes(token.hmac),
    )


def _requester(
    token: CreateDelegationTokenResponse | DescribeDelegationTokenResponse.DescribedDelegationToken,
) -> str | None:
    """The requester of a token; None in the answers of servers for which it is always the owner."""
    kind, name = token.token_requester_principal_type, token.token_requester_principal_name
    return f"{kind}:{name}" if kind else None


def _split(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name
