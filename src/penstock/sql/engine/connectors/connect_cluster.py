"""The Connect cluster that a server's properties name, with refusals as the engine's errors."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import javaproperties

from penstock.client.security.security_config import SecurityConfig, tls_context
from penstock.client.settings import ConfigError, from_properties
from penstock.connect.client import ConnectClient, InvalidUrl, WorkerRefused, WorkerUnreachable
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.ground.properties import CONNECT_PREFIX, Values

_FILE: Final = f"{CONNECT_PREFIX}basic.auth.credentials.file"


class ConnectCluster:
    """The workers of Connect, as statements ask them."""

    def __init__(self, values: Values) -> None:
        self._values = values

    def ask(
        self,
        failed: str,
        method: str,
        *segments: str,
        body: object = None,
        code: ErrorCode | None = None,
    ) -> Any:
        """Send a request and return the JSON of its answer. ``code`` replaces that of a refusal.

        Raises:
            EngineError: a worker refused the request, or does not answer; its message begins with ``failed``.
        """
        try:
            return self._client().ask(method, segments, {}, body)
        except WorkerRefused as error:
            raise EngineError(f"{failed}: {error.message}", code or _code_of(error.status)) from None
        except WorkerUnreachable as error:
            reason = error.__cause__ or error
            url = self._values.get(f"{CONNECT_PREFIX}url")
            raise EngineError(
                f"{failed}: no worker of Connect answers at ksql.connect.url={url}: {reason}",
                ErrorCode.SERVER_ERROR,
            ) from error

    def _client(self) -> ConnectClient:
        timeout_s = self._values.number(f"{CONNECT_PREFIX}request.timeout.ms") / 1000
        try:
            return ConnectClient(
                self._values.get(f"{CONNECT_PREFIX}url") or "", self._login(), self._tls(), timeout_s
            )
        except InvalidUrl as error:
            raise EngineError(f"ksql.connect.url: {error}", ErrorCode.SERVER_ERROR) from None

    def _login(self) -> str | None:
        """The user and password in the file of credentials. It may change, so it is read for each request."""
        source = self._values.get(f"{CONNECT_PREFIX}basic.auth.credentials.source") or ""
        if source.lower() != "file":
            return None
        file = self._values.get(_FILE) or ""
        try:
            found: Mapping[str, str] = javaproperties.loads(Path(file).read_text("latin-1"))
            return f"{found['username']}:{found['password']}"
        except (OSError, ValueError, KeyError) as error:
            reason = error.strerror if isinstance(error, OSError) else "expected username and password in it"
            raise EngineError(f"{_FILE}={file}: {reason}", ErrorCode.SERVER_ERROR) from None

    def _tls(self) -> ssl.SSLContext | None:
        """The TLS of the server's clients, with what ``ksql.connect.ssl.`` sets in its place."""
        set_ = self._values.merged()
        own = {
            name.removeprefix(CONNECT_PREFIX): value
            for name, value in set_.items()
            if name.startswith(f"{CONNECT_PREFIX}ssl.")
        }
        given = {name: value for name, value in set_.items() if name.startswith("ssl.")} | own
        if not given:
            return None
        try:
            return tls_context(from_properties(SecurityConfig, {"security.protocol": "SSL", **given}))
        except ConfigError as error:
            raise EngineError(f"{CONNECT_PREFIX}: {error}", ErrorCode.SERVER_ERROR) from None


def _code_of(status: int) -> ErrorCode:
    """The error code for the HTTP status of a worker's refusal."""
    try:
        return ErrorCode(status * 100)
    except ValueError:
        return ErrorCode.BAD_REQUEST if status < 500 else ErrorCode.SERVER_ERROR
