"""Adds the headers of cross-origin requests, as Jetty does for Kafka Connect.

A preflight request is answered like any other request with the method OPTIONS, and gets more headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import regex
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from penstock.connect.errors import ConfigInvalid
from penstock.java.patterns import PatternError, compile_pattern

DEFAULT_METHODS: Final = ("GET", "POST", "HEAD")
_HEADERS: Final = "Content-Type"
_MAX_AGE_S: Final = 60


@dataclass(frozen=True, slots=True)
class Origins:
    """The origins that may use the API from a browser; ``patterns`` is None if all may."""

    patterns: tuple[regex.Pattern[str], ...] | None

    @classmethod
    def parse(cls, words: Sequence[str]) -> Origins | None:
        """Parse ``access.control.allow.origin``: ``*``, or Java's patterns. None stands for no words.

        Raises ConfigInvalid.
        """
        if not words or "*" in words:
            return cls(None) if words else None
        try:
            return cls(tuple(compile_pattern(f"(?i){word}") for word in words))
        except PatternError as error:
            raise ConfigInvalid(f"'access.control.allow.origin' has an invalid pattern: {error}") from None

    def allow(self, origin: str) -> bool:
        """Whether a request with this header, which may name several origins, is from one of them."""
        if self.patterns is None:
            return True
        return any(pattern.fullmatch(each) for each in origin.split() for pattern in self.patterns)


class CrossOrigin:
    """Middleware that lets pages from other origins use the API."""

    def __init__(self, application: ASGIApp, origins: Origins, methods: Sequence[str]) -> None:
        self._application = application
        self._origins = origins
        self._methods = ",".join(methods)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        request = Headers(scope=scope)
        origin = request.get("origin")
        is_allowed = origin is not None and self._origins.allow(origin)
        is_preflight = scope["method"] == "OPTIONS" and "access-control-request-method" in request

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.append("vary", "Origin")
                if is_allowed:
                    headers["access-control-allow-origin"] = str(origin)
                if is_allowed and is_preflight:
                    headers["access-control-allow-methods"] = self._methods
                    headers["access-control-allow-headers"] = _HEADERS
                    headers["access-control-max-age"] = str(_MAX_AGE_S)
            await send(message)

        await self._application(scope, receive, send_with_headers)
