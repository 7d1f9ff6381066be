"""Send one request to a list of registries and take the first answer, retrying after failures."""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Callable
from typing import Any, Final

from penstock.client.security.security_config import tls_context
from penstock.registry.client.config import RegistryConfig, RegistryUrl
from penstock.registry.client.errors import RegistryRefused, RegistryUnreachable

_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
# A schema with its references has at most a megabyte; as JSON inside JSON it can take several times that.
ANSWER_BYTES_MAX: Final = 16 << 20
# Statuses after which another registry of the list, or the same one later, may succeed.
_RETRIED: Final = (408, 429, 500, 502, 503, 504)


class Transport:
    """The HTTP transport of one client; several threads may use it.

    It keeps no connection open: answers are cached, so requests are rare.
    """

    def __init__(self, config: RegistryConfig, sleep: Callable[[float], None] = time.sleep) -> None:
        self._config = config
        self._sleep = sleep
        self._first = 0  # index of the registry that answered last

    def get(self, path: str) -> Any:
        """Return the JSON of the answer. Raises RegistryRefused or RegistryUnreachable."""
        return self._ask("GET", path, None)

    def post(self, path: str, content: object) -> Any:
        """Post a request that is safe to retry: registering a schema again returns the same id."""
        return self._ask("POST", path, json.dumps(content).encode())

    def delete(self, path: str) -> Any:
        """Delete a resource. A retry after a delete that succeeded is refused with 404."""
        return self._ask("DELETE", path, None)

    def _ask(self, method: str, path: str, body: bytes | None) -> Any:
        config = self._config
        failures: dict[str, str] = {}
        refused: RegistryRefused | None = None
        for attempt in range(config.retries_max + 1):
            if attempt:
                self._sleep(self._wait_s(attempt))
            first = self._first
            for number in range(len(config.urls)):
                at = (first + number) % len(config.urls)
                url = config.urls[at]
                try:
                    answer = self._ask_one(url, method, path, body)
                except RegistryRefused as error:
                    if error.status not in _RETRIED:
                        raise
                    refused = error
                    failures[str(url)] = f"{error.status} {error.message}"
                except (OSError, http.client.HTTPException, RegistryUnreachable) as error:
                    failures[str(url)] = str(error) or type(error).__name__
                else:
                    self._first = at
                    return answer
        if refused is not None and len(failures) == 1:
            raise refused
        told = "; ".join(f"{url}: {why}" for url, why in failures.items())
        raise RegistryUnreachable(
            f"no schema registry answered {method} {path} in {config.retries_max + 1} attempts: {told}"
        )

    def _wait_s(self, attempt: int) -> float:
        """The delay before an attempt. It doubles each time.

        Jitter keeps tasks that failed together from retrying together.
        """
        config = self._config
        wait_ms: int = min(config.retries_wait_ms << (attempt - 1), config.retries_wait_max_ms)
        return wait_ms * random.uniform(0.8, 1.2) / 1000

    def _ask_one(self, url: RegistryUrl, method: str, path: str, body: bytes | None) -> Any:
        connection = self._connection(url)
        try:
            connection.connect()
            connection.sock.settimeout(self._config.read_timeout_ms / 1000)
            connection.request(method, url.path + path, body, self._headers(body))
            response = connection.getresponse()
            data = response.read(ANSWER_BYTES_MAX + 1)
        finally:
            connection.close()
        if len(data) > ANSWER_BYTES_MAX:
            raise RegistryUnreachable(f"its answer is larger than {ANSWER_BYTES_MAX} bytes")
        if response.status // 100 != 2:
            raise _refusal(f"{method} {url}{path}", response.status, data)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise RegistryUnreachable(
                f"expected JSON, found {len(data)} bytes {data[:80]!r}: is it a schema registry?"
            ) from None

    def _connection(self, url: RegistryUrl) -> http.client.HTTPConnection:
        timeout_s = self._config.connect_timeout_ms / 1000
        if url.scheme == "http":
            return http.client.HTTPConnection(url.host, url.port, timeout=timeout_s)
        context = tls_context(self._config.tls)
        return http.client.HTTPSConnection(url.host, url.port, timeout=timeout_s, context=context)

    def _headers(self, body: bytes | None) -> dict[str, str]:
        headers = {"Accept": f"{_CONTENT_TYPE}, application/json", **self._config.identification}
        if body is not None:
            headers["Content-Type"] = _CONTENT_TYPE
        return headers


def _refusal(asked: str, status: int, data: bytes) -> RegistryRefused:
    """Build the error from the JSON that registries send; a proxy in front of one may send another body."""
    try:
        told = json.loads(data)
        return RegistryRefused(asked, status, int(told["error_code"]), str(told["message"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return RegistryRefused(asked, status, status, data[:200].decode(errors="replace") or "no message")
