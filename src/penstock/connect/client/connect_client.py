"""Requests to the REST API of a worker, and its answers as values."""

from __future__ import annotations

import base64
import json
import ssl
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit

from penstock.connect.errors import ConnectError
from penstock.connect.herding.worker_client import TIMEOUT_S, WorkerAnswer, WorkerClient, WorkerUnreachable

_REBALANCE: Final = "because a rebalance is expected"
"""How workers refuse requests for a moment after each change of a configuration."""
_REBALANCE_S: Final = 30.0
_REBALANCE_WAIT_S: Final = 0.1


class InvalidUrl(ConnectError):
    """A text is not the URL of a worker."""


class WorkerRefused(ConnectError):
    """A worker refused a request, with this HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class ConnectClient:
    """A client of one worker. For any threads.

    Args:
        url: where the worker listens; ``USER:PASSWORD@`` before the host logs in.
        login: user and password as ``USER:PASSWORD``, in place of those in the URL.
        tls: for workers that listen with TLS; None trusts the system's certificate authorities.

    Raises:
        InvalidUrl: the URL has no host, or another scheme than http and https.
    """

    def __init__(
        self,
        url: str,
        login: str | None = None,
        tls: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        parts = urlsplit(url if "//" in url else f"http://{url}")
        try:
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port = None, None
        if parts.scheme not in ("http", "https") or not host:
            raise InvalidUrl("found no URL of a worker, expected http://HOST:PORT")
        self.host: Final = host
        self.port: Final = port or (443 if parts.scheme == "https" else 80)
        self.root: Final = urlunsplit(
            (parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")
        )
        """The URL without user and password."""
        if login is None and parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        self._headers = {}
        if login is not None:
            self._headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        self._client = WorkerClient(tls, timeout_s)

    def ask(
        self,
        method: str,
        segments: tuple[str, ...],
        query: Mapping[str, str | bool] | None = None,
        body: object = None,
    ) -> Any:
        """Send a request and return the JSON of its answer, None if it has none.

        A worker that refuses because it waits for a rebalance is asked again for up to 30 s.

        Raises:
            WorkerRefused: the worker refused the request.
            WorkerUnreachable: the worker did not answer, or with something else than JSON.
        """
        path = f"/{'/'.join(quote(segment, safe='') for segment in segments)}"
        asked = urlencode({name: str(value).lower() for name, value in (query or {}).items()})
        url = f"{self.root}{path}?{asked}" if asked else self.root + path
        data = None if body is None else json.dumps(body).encode()
        deadline_s = time.monotonic() + _REBALANCE_S
        found = self._client.ask(method, url, data, self._headers)
        while _waits_for_rebalance(found) and time.monotonic() < deadline_s:
            time.sleep(_REBALANCE_WAIT_S)
            found = self._client.ask(method, url, data, self._headers)
        return _result(found)


def _result(found: WorkerAnswer) -> Any:
    if found.status // 100 != 2:
        raise WorkerRefused(found.message, found.status)
    if not found.body:
        return None
    try:
        return json.loads(found.body)
    except ValueError:
        raise WorkerUnreachable(f"expected JSON, found {found.body[:80]!r}") from None


def _waits_for_rebalance(answer: WorkerAnswer) -> bool:
    return answer.status // 100 != 2 and _REBALANCE in answer.message
