"""How commands speak to a schema registry: JSON over HTTP, and what to say when that fails."""

from __future__ import annotations

import http.client
import json
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode, urlsplit

import typer

from penstock.cli.connection import EXIT_REFUSED, EXIT_UNREACHABLE, EXIT_USAGE, fail

DEFAULT_URL: Final = "http://127.0.0.1:8081"
_TIMEOUT_S: Final = 30.0
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"

Url = Annotated[
    str,
    typer.Option("--registry", envvar="PENSTOCK_REGISTRY", metavar="URL", help="The schema registry."),
]


class Registry:
    """One command's registry. What it refuses ends the command with its message."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        try:
            parts = urlsplit(self.url)
            self._host, self._port = parts.hostname, parts.port
        except ValueError:
            parts, self._host = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not self._host:
            fail(f"--registry {url}: expected http://HOST:PORT or https://HOST:PORT", EXIT_USAGE)
        self._is_secure = parts.scheme == "https"
        self._base = parts.path

    def get(self, *segments: str, **query: object) -> Any:
        return self._ask("GET", segments, query, None)

    def post(self, *segments: str, body: object, **query: object) -> Any:
        return self._ask("POST", segments, query, body)

    def delete(self, *segments: str, **query: object) -> Any:
        return self._ask("DELETE", segments, query, None)

    def _ask(self, method: str, segments: tuple[str, ...], query: dict[str, object], body: object) -> Any:
        path = f"{self._base}/{'/'.join(quote(segment, safe='') for segment in segments)}"
        asked = {key: str(value).lower() for key, value in query.items() if value not in (None, False)}
        target = f"{path}?{urlencode(asked)}" if asked else path
        kind = http.client.HTTPSConnection if self._is_secure else http.client.HTTPConnection
        connection = kind(self._host or "", self._port, timeout=_TIMEOUT_S)
        headers = {"Accept": _CONTENT_TYPE, "Content-Type": _CONTENT_TYPE}
        try:
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or repr(error)
            fail(
                f"no schema registry answers at {self.url} ({reason}). `penstock registry start` starts one; "
                "--registry or PENSTOCK_REGISTRY names another.",
                EXIT_UNREACHABLE,
            )
        finally:
            connection.close()
        return self._content(response.status, data)

    def _content(self, status: int, data: bytes) -> Any:
        try:
            found = json.loads(data) if data else None
        except ValueError:
            fail(
                f"{self.url} answered HTTP {status} with no JSON: is it a schema registry?", EXIT_UNREACHABLE
            )
        if status < 300:
            return found
        if isinstance(found, dict) and "message" in found:
            fail(f"{found['message']} ({found.get('error_code', status)})", EXIT_REFUSED)
        fail(f"{self.url} answered HTTP {status}", EXIT_REFUSED)
