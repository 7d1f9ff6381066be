"""Finds the endpoint of a request, as the API's paths, methods and content types have it (JAX-RS)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.responses import Response

from penstock.connect.rest.answers import JSON, RequestRefused
from penstock.connect.rest.asked import Asked
from penstock.security.access.roles import Role
from penstock.web.accept import weight_of, weights_of

Handler = Callable[[Asked], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A method of a path.

    Attributes:
        needs: the role of clients that it answers; None for requests of workers, which are signed instead.
        any_body: whether it takes bodies of any content type, as the workers' own requests are read.
    """

    method: str
    path: str
    handler: Handler
    needs: Role | None
    any_body: bool = False

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return the path's parameters if it matches this endpoint, else None."""
        parts = segments_of(self.path)
        if len(parts) != len(segments):
            return None
        found = {}
        for part, segment in zip(parts, segments, strict=True):
            if part.startswith("{"):
                found[part[1:-1]] = segment
            elif part != segment:
                return None
        return found


NOT_FOUND: Final = "HTTP 404 Not Found"
_BROKEN_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")


def segments_of(path: str) -> list[str]:
    """Split a path and decode its parts; one slash at the end does not count.

    Raises RequestRefused for empty parts, and for bytes that are neither ASCII nor escaped UTF-8.
    """
    parts = path.removeprefix("/").removesuffix("/").split("/")
    if parts == [""]:
        return []
    if "" in parts:
        raise RequestRefused(400, "Ambiguous URI empty segment")
    if not path.isascii() or _BROKEN_ESCAPE.search(path):
        raise RequestRefused(400, "the path has a character that is not escaped, or a broken escape")
    try:
        return [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError:
        raise RequestRefused(400, "Bad UTF-8 encoding") from None


def find(
    endpoints: Sequence[Endpoint], method: str, path: str, headers: Headers
) -> tuple[Endpoint, dict[str, str]]:
    """Find the endpoint of a request and the parameters of its path.

    Raises RequestRefused: 404 for the path, 405 for the method, 415 for the content type of the body, and 406
    if the client does not accept JSON, in this order.
    """
    matching = matches(endpoints, path)
    if not matching:
        raise RequestRefused(404, NOT_FOUND)
    method = "GET" if method == "HEAD" else method
    for endpoint, found in matching:
        if endpoint.method == method:
            kind = headers.get("content-type")
            if kind is not None and not endpoint.any_body and not _is_json(kind):
                raise RequestRefused(415, "HTTP 415 Unsupported Media Type")
            accept = headers.get("accept")
            if accept and not weight_of(JSON, weights_of(accept)):
                raise RequestRefused(406, "HTTP 406 Not Acceptable")
            return endpoint, found
    raise RequestRefused(405, "HTTP 405 Method Not Allowed")


def matches(endpoints: Sequence[Endpoint], path: str) -> list[tuple[Endpoint, dict[str, str]]]:
    """The endpoints of a path, with its parameters. Raises RequestRefused for an invalid path."""
    segments = segments_of(path)
    return [(each, found) for each in endpoints if (found := each.match(segments)) is not None]


def methods(endpoints: Sequence[Endpoint], path: str) -> list[str]:
    """The methods of a path, for the answer to OPTIONS. Raises RequestRefused 404."""
    found = {endpoint.method for endpoint, _ in matches(endpoints, path)}
    if not found:
        raise RequestRefused(404, NOT_FOUND)
    return sorted({*found, "OPTIONS", *(["HEAD"] if "GET" in found else [])})


def _is_json(kind: str) -> bool:
    return kind.partition(";")[0].strip().lower() == JSON
