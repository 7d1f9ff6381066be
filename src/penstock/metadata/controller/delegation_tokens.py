"""Delegation tokens: create, renew and expire them in the metadata log (KIP-48, KIP-373).

The requester is the principal that sent the request. A token's owner, whom its users act as, may be another
one. The owner and the renewers of a token may renew it and let it expire; the requester of a token for
another owner may not. Errors stand in the responses, beside owner and requester, as in Kafka.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.metadata.controller.features import DELEGATION_TOKEN_LEVEL
from penstock.metadata.controller.state import ControllerState, Decision
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DelegationTokenRecord,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    Message,
    RemoveDelegationTokenRecord,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from penstock.protocol.uuids import uuid_to_text
from penstock.security.delegation_tokens import TokenSecret

log = logging.getLogger(__name__)

USER: Final = "User"
"""The only type of principals that may be renewers."""

EXPIRED_PER_ROUND_MAX: Final = 1000
"""The most expired tokens that one round removes, so that others wait no longer for their decisions."""

_TIME_MAX_MS: Final = 2**63 - 1


def owner_of(request: CreateDelegationTokenRequest, requester: str) -> str:
    """The owner of the token that a request asks for: the requester, unless it names another one."""
    if not request.owner_principal_name:
        return requester
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def names_only_users(request: CreateDelegationTokenRequest) -> bool:
    """Whether all renewers in a request are of the type `USER`."""
    return all(renewer.principal_type == USER for renewer in request.renewers)


def creation_response(owner: str, requester: str) -> CreateDelegationTokenResponse:
    """The response to a creation without a token."""
    response = CreateDelegationTokenResponse()
    response.principal_type, _, response.principal_name = owner.partition(":")
    kind, _, name = requester.partition(":")
    response.token_requester_principal_type, response.token_requester_principal_name = kind, name
    return response


def create_delegation_token(
    state: ControllerState,
    request: CreateDelegationTokenRequest,
    *,
    requester: str,
    secret: TokenSecret | None,
    now_ms: int,
) -> Decision[CreateDelegationTokenResponse]:
    """Create a token with a random id. ``secret`` is None on a node that has none."""
    response = creation_response(owner := owner_of(request, requester), requester)
    if secret is None or (error := _unsupported(state)):
        response.error_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED if secret is None else error
        return Decision([], response)
    if not names_only_users(request):
        response.error_code = ErrorCode.INVALID_PRINCIPAL_TYPE
        return Decision([], response)
    max_ms = _later(now_ms, _shorter(_max_lifetime_ms(state), request.max_lifetime_ms))
    record = DelegationTokenRecord(
        owner=owner,
        requester=requester,
        renewers=[f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=max_ms,
        expiration_timestamp=min(max_ms, _later(now_ms, _expiry_time_ms(state))),
        token_id=_new_id(state),
    )
    response.issue_timestamp_ms, response.max_timestamp_ms = now_ms, max_ms
    response.expiry_timestamp_ms = record.expiration_timestamp
    response.token_id, response.hmac = record.token_id, secret.hmac(record.token_id)
    return Decision([record], response)


def renew_delegation_token(
    state: ControllerState,
    request: RenewDelegationTokenRequest,
    *,
    requester: str,
    secret: TokenSecret | None,
    now_ms: int,
) -> Decision[RenewDelegationTokenResponse]:
    """Let a token expire later, counted from now, but not after its maximum lifetime."""
    token = _token(state, bytes(request.hmac), secret)
    if isinstance(token, ErrorCode):
        return Decision([], RenewDelegationTokenResponse(error_code=token))
    if _is_expired(token, now_ms):
        return Decision([], RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    if not _may_renew(token, requester):
        mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        return Decision([], RenewDelegationTokenResponse(error_code=mismatch))
    period_ms = _shorter(_expiry_time_ms(state), request.renew_period_ms)
    renewed = _expiring(token, _later(now_ms, period_ms))
    expiry_ms = renewed.expiration_timestamp
    return Decision([renewed], RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms))


def expire_delegation_token(
    state: ControllerState,
    request: ExpireDelegationTokenRequest,
    *,
    requester: str,
    secret: TokenSecret | None,
    now_ms: int,
) -> Decision[ExpireDelegationTokenResponse]:
    """Let a token expire after a period, or remove it at once if the period is negative."""
    token = _token(state, bytes(request.hmac), secret)
    if isinstance(token, ErrorCode):
        return Decision([], ExpireDelegationTokenResponse(error_code=token))
    if not _may_renew(token, requester):
        mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        return Decision([], ExpireDelegationTokenResponse(error_code=mismatch))
    if request.expiry_time_period_ms < 0:
        removal = RemoveDelegationTokenRecord(token_id=token.token_id)
        return Decision([removal], ExpireDelegationTokenResponse(expiry_timestamp_ms=now_ms))
    if _is_expired(token, now_ms):
        return Decision([], ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    changed = _expiring(token, _later(now_ms, request.expiry_time_period_ms))
    expiry_ms = changed.expiration_timestamp
    return Decision([changed], ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms))


def remove_expired_tokens(state: ControllerState, now_ms: int) -> Decision[bool]:
    """Remove expired tokens, `EXPIRED_PER_ROUND_MAX` at most. The response is whether there may be more."""
    records: list[Message] = []
    for token in state.image.delegation_tokens.values():
        if _is_expired(token, now_ms):
            log.info("delegation token expired token=%s owner=%s", token.token_id, token.owner)
            records.append(RemoveDelegationTokenRecord(token_id=token.token_id))
            if len(records) >= EXPIRED_PER_ROUND_MAX:
                break
    return Decision(records, len(records) >= EXPIRED_PER_ROUND_MAX, is_atomic=False)


def _token(
    state: ControllerState, token_hmac: bytes, secret: TokenSecret | None
) -> DelegationTokenRecord | ErrorCode:
    """The token with an HMAC, or the reason why there is none."""
    if secret is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if error := _unsupported(state):
        return error
    token_id = secret.find(token_hmac, state.image.delegation_tokens)
    if token_id is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    return state.image.delegation_tokens[token_id]


def _unsupported(state: ControllerState) -> ErrorCode:
    is_supported = state.image.metadata_version >= DELEGATION_TOKEN_LEVEL
    return ErrorCode.NONE if is_supported else ErrorCode.UNSUPPORTED_VERSION


def _is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


def _may_renew(token: DelegationTokenRecord, principal: str) -> bool:
    return principal == token.owner or principal in token.renewers


def _expiring(token: DelegationTokenRecord, expiry_ms: int) -> DelegationTokenRecord:
    """The token with another time of expiry, within its maximum lifetime."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=min(token.max_timestamp, expiry_ms),
        token_id=token.token_id,
    )


def _new_id(state: ControllerState) -> str:
    """A random id. As in Kafka it does not begin with a dash, which would make it an option of a command."""
    while (token_id := uuid_to_text(state.new_uuid())).startswith("-"):
        pass
    return token_id


def _max_lifetime_ms(state: ControllerState) -> int:
    return state.static_config.get_int("delegation.token.max.lifetime.ms")


def _expiry_time_ms(state: ControllerState) -> int:
    return state.static_config.get_int("delegation.token.expiry.time.ms")


def _shorter(limit_ms: int, asked_ms: int) -> int:
    """The period that a request asks for, within the limit; the limit itself if it asks for none."""
    return min(limit_ms, asked_ms) if asked_ms > 0 else limit_ms


def _later(now_ms: int, period_ms: int) -> int:
    return min(now_ms + period_ms, _TIME_MAX_MS)
