"""The decision about the credentials of a request.

Whatever is missing, malformed or unknown is refused. A request has at most one header Authorization, and then
that header alone decides. Without one, the client's certificate does: it identifies the user of the file that
has its name and no password. Another kind of credentials is one more entry of ``schemes``: a scheme of the
header, and a function that finds the user.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from penstock.security.access.errors import InvalidAccess
from penstock.security.access.roles import EVERYBODY, Identity
from penstock.security.access.users import User, Users
from penstock.security.oauth.errors import KeysUnavailable
from penstock.security.oauth.validator import TokenValidator
from penstock.security.tls.principals import SslPrincipals
from penstock.security.tokens.compact import InvalidToken

log = logging.getLogger(__name__)

_PREFIX: Final = "User:"
_CERTIFICATES: Final = 1024
"""Number of certificates whose names are kept, because each request of a connection shows one."""

Scheme: TypeAlias = Callable[[str], Identity | None]
"""Returns who has shown these credentials of a header, or None."""


class Access:
    """The clients that may send requests to a server.

    Args:
        schemes: the schemes of the header Authorization, by their names in lower case.
        users: returns the users of now; those without a password show a certificate. None lets everybody do
            everything.
        principals: the mapping of certificates to principals.
        realm: the realm of challenges.
        tokens: the validator of bearer tokens, which name a user without a password.
    """

    def __init__(
        self,
        users: Callable[[], Users] | None = None,
        schemes: Mapping[str, Scheme] | None = None,
        principals: SslPrincipals | None = None,
        realm: str = "",
        tokens: TokenValidator | None = None,
    ) -> None:
        self._users = users
        self._schemes = dict(schemes or {})
        self._tokens = tokens
        if tokens is not None:
            self._schemes["bearer"] = self._by_token
        self._principal_of = lru_cache(_CERTIFICATES)((principals or SslPrincipals()).principal_of)
        realm = realm.replace("\\", "").replace('"', "'")
        self.challenges = tuple(f'{scheme.capitalize()} realm="{realm}"' for scheme in self._schemes)
        """The values of WWW-Authenticate in a refusal."""

    def start(self) -> None:
        """Get the keys of the tokens' issuer, if there are tokens; this may block. Raises InvalidAccess."""
        if self._tokens is not None:
            try:
                self._tokens.start()
            except KeysUnavailable as error:
                raise InvalidAccess(f"there are no keys for tokens: {error}") from None

    def close(self) -> None:
        if self._tokens is not None:
            self._tokens.close()

    @property
    def is_open(self) -> bool:
        """Whether everybody may do everything."""
        return self._users is None

    def identify(self, authorization: Sequence[str], certificate: bytes | None) -> Identity | None:
        """Find who sends a request; None for a client that is refused.

        ``authorization`` are all headers of this name, and ``certificate`` is the one (DER) that the client
        has shown in a TLS handshake.
        """
        if self._users is None:
            return EVERYBODY
        if authorization:
            scheme, _, credentials = authorization[0].partition(" ")
            identify = self._schemes.get(scheme.lower())
            return None if identify is None or len(authorization) > 1 else identify(credentials.strip())
        if certificate is None:
            return None
        try:
            principal = self._principal_of(certificate)
        except ValueError:  # no rule maps the name, or it cannot be read
            return None
        return self.without_password(principal.removeprefix(_PREFIX), is_certified=True)

    def _by_token(self, credentials: str) -> Identity | None:
        assert self._tokens is not None
        try:
            return self.without_password(self._tokens(credentials).principal)
        except InvalidToken as error:
            log.info("a token is refused reason=%s", error)
            return None

    def without_password(self, name: str, *, is_certified: bool = False) -> Identity | None:
        """Return a user that has no password in the file; None if there is none of this name."""
        user = None if self._users is None else self._users().find(name)
        return Identity(_PREFIX + name, user.grants, is_certified) if user and user.password is None else None


def by_password(users: Callable[[], Users]) -> Scheme:
    """The scheme Basic (RFC 7617)."""

    def identify(credentials: str) -> Identity | None:
        try:
            name, colon, password = base64.b64decode(credentials, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        user = users().find(name)
        # An unknown name takes the time of a known one.
        is_right = (user or _NOBODY).has_password(password)
        return Identity(_PREFIX + name, user.grants) if user is not None and colon and is_right else None

    return identify


_NOBODY: Final = User("\0", ())
