"""Requests to an issuer's endpoints. They block; threads make them.

Answers are limited, and redirects are followed only for GET and to HTTPS: credentials go to the address in
the configuration, and to no other. A proxy is taken from the environment (``https_proxy``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import unquote, urlsplit

from penstock.security.oauth.errors import EndpointFailed
from penstock.security.tls.settings import TlsSettings

if TYPE_CHECKING:
    import ssl
    from urllib.request import OpenerDirector

T = TypeVar("T")

TIMEOUT_S: Final = 20.0
"""The time in which an endpoint must connect, and send each part of its answer."""

_MAX_ANSWER_BYTES: Final = 1 << 20
_SHOWN_CHARS: Final = 300
_FINAL_STATUSES: Final = frozenset({*range(400, 408), *range(409, 416), 501, 505})
"""Statuses that will not change by asking again, as Kafka has them."""

_TLS_FIELDS: Final = {
    f"{store}_{name}": f"ssl.{store}.{name.replace('_', '.')}"
    for store, names in (
        ("keystore", ("location", "password", "key", "certificate_chain")),
        ("truststore", ("location", "password", "certificates")),
    )
    for name in names
} | {
    "key_password": "ssl.key.password",
    "endpoint_identification_algorithm": "ssl.endpoint.identification.algorithm",
}


def parse_endpoint(text: str) -> Path | str:
    """Parse the URL of an endpoint: the path of a ``file:`` URL, or else the URL itself.

    Plain HTTP is for addresses of this machine only: whoever can change what it carries could make tokens.
    Raises ValueError("found …, expected …"), which shows no password.
    """
    expected = f"found {text}, expected a URL that begins with file: or https:"
    try:
        url = urlsplit(text)
        host, _ = url.hostname, url.port
    except ValueError:
        raise ValueError(expected) from None
    if url.username is not None or url.password is not None:
        raise ValueError("expected a URL without a user and a password, which logs would show")
    if url.scheme == "file":
        if host not in (None, "localhost") or not url.path.startswith("/"):
            raise ValueError(f"found {text}, expected an absolute path after file://, on this machine")
        return Path(unquote(url.path))
    if url.scheme not in ("http", "https") or not host:
        raise ValueError(expected)
    if url.scheme == "http" and not _is_loopback(host):
        raise ValueError(f"found {text}, expected https: (http: only to this machine, as http://localhost/)")
    return url.geturl()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address over HTTPS, and whom to trust there."""

    url: str
    tls: TlsSettings = field(default_factory=TlsSettings)
    timeout_s: float = TIMEOUT_S

    def get(self) -> bytes:
        """Return what is there. Raises EndpointFailed."""
        return self._ask(None, {"Accept": "application/json"})

    def post(self, form: str, headers: Mapping[str, str]) -> bytes:
        """Send a form and return the answer. Raises EndpointFailed."""
        return self._ask(
            form.encode(),
            {
                "Accept": "application/json",
                "Cache-Control": "no-cache",
                "Content-Type": "application/x-www-form-urlencoded",
                **headers,
            },
        )

    def _ask(self, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request

        request = Request(self.url, body, dict(headers))
        try:
            with _opener(self._context()).open(request, timeout=self.timeout_s) as answer:
                content: bytes = answer.read(_MAX_ANSWER_BYTES + 1)
        except HTTPError as error:
            with error:
                raise self._refusal(error.code, error.read(_SHOWN_CHARS)) from None
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise EndpointFailed(f"{self.url} cannot be reached: {reason}") from error
        if len(content) > _MAX_ANSWER_BYTES:
            raise EndpointFailed(f"{self.url} answers with more than {_MAX_ANSWER_BYTES} bytes")
        return content

    def _context(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https:"):
            return None
        from penstock.security.tls.contexts import client_context
        from penstock.security.tls.errors import InvalidTls

        try:
            return client_context(self.tls)
        except InvalidTls as error:
            raise EndpointFailed(f"{self.url}: {error}", is_final=True) from None

    def _refusal(self, status: int, body: bytes) -> EndpointFailed:
        """An error of OAuth (RFC 6749, section 5.2) shows no secrets."""
        shown = body.decode(errors="replace").strip()
        return EndpointFailed(
            f"{self.url} answers {status}" + (f": {shown}" if shown else ""),
            is_final=status in _FINAL_STATUSES or status // 100 == 3,
        )


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between attempts, which double: the first one, and the time after which no other begins."""

    first_ms: int = 100
    limit_ms: int = 10_000

    def __post_init__(self) -> None:
        if not 0 <= self.first_ms <= self.limit_ms:
            raise ValueError(f"from 0 to the limit of {self.limit_ms} ms")

    def attempt(
        self,
        action: Callable[[], T],
        clock_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> T:
        """Repeat an action until it succeeds, or its time is over. Raises the first EndpointFailed."""
        end_s, pause_s = clock_s() + self.limit_ms / 1000, self.first_ms / 1000
        first: EndpointFailed | None = None
        while True:
            try:
                return action()
            except EndpointFailed as error:
                first = first or error
                left_s = end_s - clock_s()
                if error.is_final or min(pause_s, left_s) <= 0:
                    raise first from None
            sleep(min(pause_s, left_s))
            pause_s *= 2


def tls_of_options(options: Mapping[str, str]) -> TlsSettings:
    """The TLS settings for endpoints: options of the login module, as in Kafka. Raises InvalidTls."""
    given: dict[str, str | None] = {
        name: options[option] for name, option in _TLS_FIELDS.items() if option in options
    }
    for store in ("keystore", "truststore"):
        kind = options.get(f"ssl.{store}.type")
        given[f"{store}_type"] = kind and kind.upper()
    return TlsSettings(**given)  # type: ignore[arg-type]


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _opener(context: ssl.SSLContext | None) -> OpenerDirector:
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

    class Redirects(HTTPRedirectHandler):
        def redirect_request(self, req: Request, *args: object) -> Request | None:
            new_url = str(args[-1])
            if req.get_method() != "GET" or not new_url.startswith("https:"):
                return None
            return super().redirect_request(req, *args)  # type: ignore[arg-type]

    return build_opener(Redirects, *([] if context is None else [HTTPSHandler(context=context)]))
