"""Requests for tokens at an issuer's endpoint: client credentials (RFC 6749) and assertions (RFC 7523)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus, urlencode

from penstock.security.oauth.assertions import AssertionSettings, assertion
from penstock.security.oauth.errors import EndpointFailed, TokenUnavailable
from penstock.security.oauth.http import Backoff, Endpoint

_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientSecret:
    """The grant of client credentials, with a secret."""

    client_id: str
    secret: str = field(repr=False)
    scope: str | None = None
    is_url_encoded: bool = False
    """`sasl.oauthbearer.header.urlencode`: the issuer decodes id and secret, as RFC 6749 wants it."""

    def form(self) -> str:
        return _form(grant_type="client_credentials", scope=self.scope)

    def headers(self) -> dict[str, str]:
        pair = (self.client_id, self.secret)
        text = ":".join(map(quote_plus, pair) if self.is_url_encoded else pair)
        return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientAssertion:
    """The grant of client credentials, with an assertion in place of a secret."""

    assertion: AssertionSettings
    client_id: str | None = None
    scope: str | None = None

    def form(self) -> str:
        return _form(
            grant_type="client_credentials",
            client_assertion_type=_CLIENT_ASSERTION,
            client_assertion=assertion(self.assertion),
            client_id=self.client_id,
            scope=self.scope,
        )

    def headers(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class AssertionGrant:
    """The grant of an assertion (``JwtBearerJwtRetriever``)."""

    assertion: AssertionSettings
    scope: str | None = None

    def form(self) -> str:
        return _form(grant_type=_JWT_BEARER, assertion=assertion(self.assertion), scope=self.scope)

    def headers(self) -> dict[str, str]:
        return {}


@dataclass(frozen=True, slots=True)
class GrantedToken:
    """A token that an endpoint grants; each call asks for a new one, and blocks."""

    endpoint: Endpoint
    grant: ClientSecret | ClientAssertion | AssertionGrant
    backoff: Backoff

    def __call__(self) -> str:
        """Return the token. Raises TokenUnavailable."""
        form, headers = self.grant.form(), self.grant.headers()
        try:
            answer = self.backoff.attempt(lambda: self.endpoint.post(form, headers))
        except EndpointFailed as error:
            raise TokenUnavailable(f"no token: {error}") from None
        try:
            granted = json.loads(answer)
        except ValueError:
            granted = None
        if isinstance(granted, dict):
            for name in ("access_token", "id_token"):
                token = granted.get(name)
                if isinstance(token, str) and token.strip():
                    return token.strip()
        raise TokenUnavailable(f"{self.endpoint.url} answers without an access_token")


def _form(**values: str | None) -> str:
    return urlencode({name: value for name, value in values.items() if value})
