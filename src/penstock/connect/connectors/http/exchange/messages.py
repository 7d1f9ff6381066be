"""One request and the answer to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.connect.errors import RetriableError

_USER: Final = re.compile(r"//[^/]*@")
_SHOWN_CHARS: Final = 300
"""Limits how much of an answer's body an error message shows."""


class HttpRequest(NamedTuple):
    """A request to send."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None


class HttpAnswer(NamedTuple):
    """The answer of a server. The names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether the server has accepted the request."""
        return 200 <= self.status < 300

    def __str__(self) -> str:
        """The status and the beginning of the body, for messages."""
        text = self.body[: 4 * _SHOWN_CHARS].decode(errors="replace").strip()
        shown = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
        return f"status {self.status}: {shown}" if shown else f"status {self.status}"


def shown_url(url: str) -> str:
    """Return a URL for messages, without its user, password and parameters, which may be secrets."""
    return _USER.sub("//", url.partition("?")[0], count=1)


class Unreachable(RetriableError):
    """No complete answer arrived. The server may have acted on the request nevertheless."""
