"""A client of ksqlDB's REST API, over HTTP/1.1."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote, urlsplit

from penstock.cli.wrong_server import serves_kafka

_TYPE: Final = "application/vnd.ksql.v1+json"
_LINES_TYPE: Final = "application/vnd.ksqlapi.delimited.v1"
_TIMEOUT_S: Final = 120.0
_CONNECT_TIMEOUT_S: Final = 10.0


class Unreachable(Exception):
    """No server answered."""


class Refused(Exception):
    """The server refused a request.

    ``code`` is the error's code, or the HTTP status; ``entities`` are the answers to statements executed
    before.
    """

    def __init__(self, message: str, code: int, entities: list[dict[str, Any]]) -> None:
        super().__init__(message)
        self.code = code
        self.entities = entities


class Rest:
    """One server; each request opens its own connection.

    Args:
        user: name and password, if the server needs them.
        token: a bearer token instead of these.
        tls: the context for HTTPS. Without one, the system's authorities are trusted.

    Raises ValueError if ``url`` is invalid.
    """

    def __init__(
        self,
        url: str,
        user: tuple[str, str] | None = None,
        token: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"found {url}, expected http://HOST:PORT or https://HOST:PORT")
        self.url = url.rstrip("/")
        self._user = user
        self._token = token
        self._tls = tls
        self._base = parts.path.rstrip("/")
        self._host, self._port = parts.hostname, parts.port
        self._is_https = parts.scheme == "https"

    def at(self, url: str) -> Rest:
        """Make a client of another server with the same credentials. Raises ValueError."""
        return Rest(url, self._user, self._token, self._tls)

    def info(self) -> dict[str, Any]:
        """Fetch the server's version and service id. Raises Unreachable, Refused."""
        found: dict[str, Any] = self._ask("GET", "/info")["KsqlServerInfo"]
        return found

    def check_property(self, name: str) -> None:
        """Check that the server knows a property. Raises Unreachable, Refused."""
        self._ask("GET", f"/is_valid_property/{quote(name, safe='')}")

    def execute(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run statements that are answered at once. Raises Unreachable, Refused."""
        found: list[dict[str, Any]] = self._ask("POST", "/ksql", body)
        return found

    @contextmanager
    def rows(self, body: Mapping[str, Any]) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield a query's header, rows and messages as they arrive; leaving the block ends the query.

        Raises Unreachable, Refused.
        """
        with self._lines("/query", body, _TYPE) as lines:
            yield self._elements(lines)

    def _elements(self, lines: Iterator[str]) -> Iterator[dict[str, Any]]:
        """The elements of an array with one element per line.

        Raises Unreachable if the array is incomplete.
        """
        line = ""
        for line in lines:
            if found := line.strip().removeprefix("[").removesuffix("]").removesuffix(","):
                try:
                    yield json.loads(found)
                except ValueError:
                    break
        if not line.rstrip().endswith("]"):
            raise Unreachable(f"{self.url} closed the connection before the end of the rows")

    @contextmanager
    def lines(self, body: Mapping[str, Any]) -> Iterator[Iterator[str]]:
        """Yield a topic's records as they arrive; leaving the block ends that.

        Raises Unreachable, Refused.
        """
        asked = {"sql": body["ksql"], "properties": body.get("streamsProperties", {})}
        asked["sessionVariables"] = body.get("sessionVariables", {})
        with self._lines("/query-stream", asked, _LINES_TYPE) as lines:
            yield (line.rstrip("\n") for line in lines)

    @contextmanager
    def _lines(self, path: str, body: Mapping[str, Any], accepted: str) -> Iterator[Iterator[str]]:
        connection = self._connection(_CONNECT_TIMEOUT_S)
        try:
            with self._reported():
                connection.connect()
                connection.sock.settimeout(None)  # rows may arrive at any time
                response = self._sent(connection, "POST", path, body, accepted)
                if response.status >= 300:
                    raise _refusal(response.status, response.read())
            yield self._read_lines(response)
        finally:
            connection.close()

    def _read_lines(self, response: http.client.HTTPResponse) -> Iterator[str]:
        with self._reported():
            while line := response.readline():
                yield line.decode()

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        connection = self._connection(_TIMEOUT_S)
        try:
            with self._reported():
                response = self._sent(connection, method, path, body, _TYPE)
                data = response.read()
        finally:
            connection.close()
        if response.status >= 300:
            raise _refusal(response.status, data)
        try:
            return json.loads(data)
        except ValueError:
            raise Unreachable(f"{self.url} answered no JSON: is it a SQL server?") from None

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._is_https:
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)

    def _sent(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        accepted: str,
    ) -> http.client.HTTPResponse:
        headers = {"Accept": accepted, "Content-Type": _TYPE}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        elif self._user is not None:
            credentials = base64.b64encode(":".join(self._user).encode()).decode()
            headers["Authorization"] = f"Basic {credentials}"
        data = None if body is None else json.dumps(body)
        connection.request(method, f"{self._base}{path}", data, headers)
        return connection.getresponse()

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or repr(error)
            if serves_kafka(self._host, self._port or (443 if self._is_https else 80)):
                reason = "a Kafka listener is there"
            raise Unreachable(f"no SQL server answers at {self.url} ({reason})") from error


def _refusal(status: int, data: bytes) -> Exception:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict) or "message" not in found:
        return Refused(f"the server answered HTTP {status}", status, [])
    return Refused(found["message"], found.get("error_code", status), found.get("entities") or [])
