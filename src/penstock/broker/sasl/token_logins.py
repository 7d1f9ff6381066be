"""Logins with delegation tokens: what SCRAM needs of a token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from penstock.security.sasl.scram import TokenLogin

if TYPE_CHECKING:
    from penstock.protocol.messages import DelegationTokenRecord
    from penstock.security.delegation_tokens import TokenSecret
    from penstock.security.scram import ScramMechanism

_USER: Final = "User:"


class TokenLogins:
    """The logins with the tokens of the node's metadata; there are none on a node without a secret."""

    def __init__(
        self, secret: TokenSecret | None, tokens: Callable[[], Mapping[str, DelegationTokenRecord]]
    ) -> None:
        self._secret = secret
        self._tokens = tokens

    def login(self, mechanism: ScramMechanism, token_id: str) -> TokenLogin | None:
        """The login with a token; None if there is no such token.

        A client becomes a principal of the type User. Apache Kafka lets it become that too if the owner has
        another type, whose tokens other ACLs protect.
        """
        token = self._tokens().get(token_id)
        if token is None or self._secret is None or not token.owner.startswith(_USER):
            return None
        return TokenLogin(
            token.owner.removeprefix(_USER),
            self._secret.credential(mechanism, token_id),
            token.expiration_timestamp,
        )
