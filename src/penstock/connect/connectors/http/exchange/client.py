"""Sends requests over a pool of connections that stay open."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from penstock.connect.connectors.http.exchange.authorization import (
    Authorization,
    ClientCredentials,
    FixedAuthorization,
    TokenSettings,
)
from penstock.connect.connectors.http.exchange.messages import HttpAnswer, HttpRequest, Unreachable, shown_url
from penstock.connect.errors import ConnectError
from penstock.extras import needs_extra
from penstock.protocol.software import VERSION

if TYPE_CHECKING:
    from urllib3 import PoolManager

_HEADERS: Final = {"user-agent": f"penstock/{VERSION}", "accept-encoding": "gzip, deflate"}
_UNAUTHORIZED: Final = 401
_ANSWER_BYTES_MAX: Final = 128 << 20
"""Limits an answer after it is decompressed, so that no server fills the worker's memory."""


class HttpClient:
    """Sends requests, follows no redirects, and adds the credentials. For any threads.

    ``connections`` is the number of connections to each server that stay open.
    A timeout of None is none.
    """

    def __init__(
        self,
        authorization: FixedAuthorization | TokenSettings,
        *,
        tls: ssl.SSLContext | None,
        connect_timeout_s: float | None,
        read_timeout_s: float | None,
        connections: int = 1,
        answer_bytes_max: int = _ANSWER_BYTES_MAX,
    ) -> None:
        with needs_extra("http", "a connector for HTTP"):
            import urllib3
        self._pool: PoolManager = urllib3.PoolManager(
            maxsize=connections,
            retries=False,
            timeout=urllib3.Timeout(connect=connect_timeout_s, read=read_timeout_s),
            ssl_context=tls,
        )
        self._answer_bytes_max = answer_bytes_max
        self._authorization: Authorization = (
            ClientCredentials(authorization, self._exchange)
            if isinstance(authorization, TokenSettings)
            else authorization
        )

    def send(self, request: HttpRequest) -> HttpAnswer:
        """Send a request and return the answer, whatever its status.

        If the server refuses an access token, the request is sent again with a new one.

        Raises:
            Unreachable: no complete answer arrived.
            ConnectError: the URL is not valid, there is no access token, or the answer is too big.
        """
        answer = self._exchange(self._authorized(request))
        if answer.status == _UNAUTHORIZED and self._authorization.discard():
            answer = self._exchange(self._authorized(request))
        return answer

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def _authorized(self, request: HttpRequest) -> HttpRequest:
        return request._replace(headers={**request.headers, **self._authorization.headers()})

    def _exchange(self, request: HttpRequest) -> HttpAnswer:
        from urllib3.exceptions import HTTPError, LocationValueError

        method, url, headers, body = request
        try:
            answer = self._pool.request(
                *(method, url),
                body=body,
                headers={**_HEADERS, **headers},
                redirect=False,
                retries=False,
                preload_content=False,
            )
            content = answer.read(self._answer_bytes_max + 1)
            if len(content) > self._answer_bytes_max:
                answer.close()
                raise ConnectError(
                    f"the answer to {method} {shown_url(url)} has more than {self._answer_bytes_max} bytes"
                )
            answer.release_conn()
        except (LocationValueError, UnicodeError) as error:
            raise ConnectError(f"{shown_url(url)} is no URL for HTTP: {error}") from error
        except (HTTPError, OSError) as error:
            raise Unreachable(f"{method} {shown_url(url)} got no answer: {error}") from error
        found = {name.lower(): answer.headers[name] for name in answer.headers}  # joins repeated ones
        return HttpAnswer(answer.status, found, content)
