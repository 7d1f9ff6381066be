"""Sends requests to the REST APIs of other workers: forwarded ones, and signed ones of the worker itself."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from penstock.connect.herding.errors import HerderError

TIMEOUT_S: Final = 120.0
"""Limits how long a worker waits for the answer of another one, which itself may wait 90 s for its herder."""
_HEADERS: Final = {"accept": "application/json", "user-agent": "penstock-connect"}


class WorkerUnreachable(HerderError):
    """Another worker did not answer. It may have performed the operation nevertheless."""


class WorkerAnswer(NamedTuple):
    """The answer of another worker; the names of ``headers`` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> str:
        """The message of an error, or the whole body if it has none."""
        try:
            found = json.loads(self.body)["message"]
        except (ValueError, LookupError, TypeError):
            found = None
        return found if isinstance(found, str) else self.body.decode(errors="replace")


class WorkerClient:
    """Asks other workers. For any threads.

    ``tls`` is used for workers that listen with TLS; None trusts the system's certificate authorities.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self._tls = tls
        self._timeout_s = timeout_s

    def ask(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> WorkerAnswer:
        """Send a request, whose body is JSON, and return the answer. Raises WorkerUnreachable."""
        parts = urlsplit(url)
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        # Jetty refuses a request with two headers of one name, whatever their case
        sent = {**_HEADERS, **{name.lower(): value for name, value in (headers or {}).items()}}
        if body:
            sent.setdefault("content-type", "application/json")
        try:
            connection = (
                http.client.HTTPSConnection(parts.netloc, timeout=self._timeout_s, context=self._tls)
                if parts.scheme == "https"
                else http.client.HTTPConnection(parts.netloc, timeout=self._timeout_s)
            )
            try:
                connection.request(method, target, body, sent)
                answer = connection.getresponse()
                found = {name.lower(): value for name, value in answer.getheaders()}
                return WorkerAnswer(answer.status, found, answer.read())
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            told = f"the worker at {parts.netloc} did not answer: {error}"
            raise WorkerUnreachable(f"IO Error trying to forward REST request: {told}") from error
