"""Delegation tokens (KIP-48): what follows from a token's id and from the secret that all nodes share.

A token's HMAC is its password, and a client logs in with the token as a user of SCRAM whose name is the id
and whose password is the HMAC in base64. The cluster's metadata has neither the secret nor HMACs: every node
computes them.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from penstock.security.scram import (
    MIN_ITERATIONS,
    SALT_BYTES,
    ScramCredential,
    ScramMechanism,
    credential,
    salted_password,
)

_DIGEST: Final = "sha512"
_KEPT_CREDENTIALS_MAX: Final = 4096
"""The limit on the credentials that are kept, because each takes milliseconds to compute."""


class TokenSecret:
    """The secret of a cluster, ``delegation.token.secret.key``, which ``repr`` does not show."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._ids: dict[bytes, str] = {}
        """The ids of tokens by HMAC, as of the last search."""
        self._credential = lru_cache(_KEPT_CREDENTIALS_MAX)(self._compute_credential)

    def hmac(self, token_id: str) -> bytes:
        """The HMAC of a token."""
        return hmac.digest(self._secret, token_id.encode(), _DIGEST)

    def find(self, token_hmac: bytes, tokens: Mapping[str, object]) -> str | None:
        """The id of the token with this HMAC among ``tokens``, which are by id; None if there is none."""
        if len(self._ids) > 2 * len(tokens):
            self._ids = {}
        for token_id in tokens.keys() - self._ids.values():
            self._ids[self.hmac(token_id)] = token_id
        token_id = self._ids.get(token_hmac, "")
        return token_id if token_id in tokens else None

    def credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        """The credential that checks a login with a token. It is the same on all nodes."""
        return self._credential(mechanism, token_id)

    def _compute_credential(self, mechanism: ScramMechanism, token_id: str) -> ScramCredential:
        token_hmac = self.hmac(token_id)
        salt = hmac.digest(token_hmac, mechanism.title.encode(), _DIGEST)[:SALT_BYTES]
        salted = salted_password(mechanism, password_of(token_hmac), salt, MIN_ITERATIONS)
        return credential(mechanism, salt, salted, MIN_ITERATIONS)


def password_of(token_hmac: bytes) -> str:
    """The password of a token's login: its HMAC in base64."""
    return base64.b64encode(token_hmac).decode()
