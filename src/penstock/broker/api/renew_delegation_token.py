"""RenewDelegationToken (39): let a delegation token expire later (KIP-48).

Versions 1 and 2. The token is named by its HMAC. Its owner and its renewers may do it, without any ACL, over
connections that authenticate clients, but not after a login with a token.

Versions:
- 2: flexible encoding (KIP-482)
"""

from __future__ import annotations

from penstock.broker.api_entry import Api
from penstock.broker.control.delegation_tokens import LifetimeChange
from penstock.metadata.controller.delegation_tokens import renew_delegation_token
from penstock.protocol.messages import RenewDelegationTokenRequest, RenewDelegationTokenResponse

_CHANGE = LifetimeChange(RenewDelegationTokenResponse, renew_delegation_token)

API = (
    Api(RenewDelegationTokenRequest)
    .on_broker(lambda node: node, _CHANGE.handle)
    .on_controller(lambda node: node, _CHANGE.handle_as_controller)
)
