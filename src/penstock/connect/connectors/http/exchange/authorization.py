"""The Authorization header of requests: a fixed one, or OAuth 2's tokens by client credentials (RFC 6749)."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import quote, urlencode

from penstock.connect.connectors.http.exchange.messages import HttpAnswer, HttpRequest, shown_url
from penstock.connect.connectors.http.exchange.refusals import is_transient
from penstock.connect.errors import ConnectError, RetriableError

_RENEW_EARLY_S: Final = 30.0
"""A token is renewed this long before it expires, so that it does not expire on its way."""
_RENEW_EARLY_SHARE: Final = 0.1
"""A token that lasts for less than five minutes is renewed when this share of its lifetime is left."""


class Authorization(Protocol):
    """Credentials for requests. For any threads."""

    def headers(self) -> Mapping[str, str]:
        """Return the headers that carry the credentials. Raises ConnectError."""
        ...

    def discard(self) -> bool:
        """Discard credentials that the server refused; return whether others may be had."""
        ...


class FixedAuthorization:
    """The same header in each request, or none."""

    def __init__(self, header: str | None = None) -> None:
        self._headers = {} if header is None else {"authorization": header}

    def headers(self) -> Mapping[str, str]:
        return self._headers

    def discard(self) -> bool:
        return False


def basic(user: str, password: str) -> str:
    """Return the header of HTTP's basic authentication."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenSettings:
    """Where an access token comes from."""

    url: str
    client_id: str
    secret: str = field(repr=False)
    in_form: bool = False
    """Whether the form carries the credentials, and not a header of basic authentication."""
    scope: str | None = None
    property: str = "access_token"
    """The property of the answer that has the token."""


class ClientCredentials:
    """Access tokens of OAuth 2, which are fetched when one is needed and renewed before they expire."""

    def __init__(
        self,
        settings: TokenSettings,
        send: Callable[[HttpRequest], HttpAnswer],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._send = send
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._token: str | None = None
        self._renew_at_s = 0.0

    def headers(self) -> Mapping[str, str]:
        with self._lock:
            if self._token is None or self._clock_s() >= self._renew_at_s:
                self._token, self._renew_at_s = self._fetch()
            return {"authorization": f"Bearer {self._token}"}

    def discard(self) -> bool:
        with self._lock:
            self._token = None
        return True

    def _fetch(self) -> tuple[str, float]:
        """Return a new token, and when to renew it."""
        settings, asked_s = self._settings, self._clock_s()
        answer = self._send(self._request())
        if not answer.is_success:
            kind = RetriableError if is_transient(answer.status) else ConnectError
            raise kind(f"no access token from {shown_url(settings.url)}: {answer}")
        try:
            found = json.loads(answer.body)
            token, lifetime_s = found[settings.property], float(found.get("expires_in", "inf"))
        except (ValueError, LookupError, TypeError, AttributeError):
            found = None
        if found is None or not isinstance(token, str) or not token:
            raise ConnectError(
                f"no access token from {shown_url(settings.url)}: expected a JSON object with the string "
                f"'{settings.property}'"
            )
        return token, asked_s + lifetime_s - min(_RENEW_EARLY_S, lifetime_s * _RENEW_EARLY_SHARE)

    def _request(self) -> HttpRequest:
        settings = self._settings
        form = {"grant_type": "client_credentials"}
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        if settings.scope:
            form["scope"] = settings.scope
        if settings.in_form:
            form |= {"client_id": settings.client_id, "client_secret": settings.secret}
        else:  # RFC 6749 section 2.3.1 encodes both first
            headers["authorization"] = basic(quote(settings.client_id, ""), quote(settings.secret, ""))
        return HttpRequest("POST", settings.url, headers, urlencode(form).encode())
