"""The ASGI application of a worker's REST API.

Handlers run on the event loop. They call the herder in threads and wait for its futures on the loop, so that
requests that wait for a rebalance occupy no thread.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.connect.errors import ConnectError
from penstock.connect.rest.answers import RequestRefused, failure
from penstock.connect.rest.asked import Asked
from penstock.connect.rest.cors import CrossOrigin
from penstock.connect.rest.response_headers import ResponseHeaders
from penstock.connect.rest.routing import Endpoint, find, matches, methods
from penstock.connect.rest.settings import RestSettings
from penstock.security.access.access import Access
from penstock.security.access.roles import Role
from penstock.web.guard import Guard, identity_of

log = logging.getLogger(__name__)

_IS_SIGNED: Final = "penstock.is_signed"
"""The key of a request's scope for whether the herder checks a signature instead of credentials."""
_BODY_BYTES_MAX: Final = 8 << 20
"""Limits a request's body, so that a client cannot fill the memory; a config record is smaller by default."""


def application(
    endpoints: Sequence[Endpoint],
    settings: RestSettings,
    signs: Callable[[], bool],
    access: Access | None = None,
    open_paths: re.Pattern[str] | None = None,
) -> Starlette:
    """Build the application that serves these endpoints.

    ``access`` decides who may send requests; None allows everybody. ``open_paths`` are exempt, and so are
    workers' own requests while ``signs`` returns that workers sign them.
    """

    async def respond(request: Request) -> Response:
        path = request.scope["raw_path"].decode("latin-1").partition("?")[0]
        try:
            if request.method == "OPTIONS":
                allowed = ", ".join(methods(endpoints, path))
                return Response(allowed, headers={"allow": allowed}, media_type="text/plain")
            endpoint, parameters = find(endpoints, request.method, path, request.headers)
            needs = endpoint.needs
            if needs is None and not request.scope[_IS_SIGNED]:
                needs = Role.WRITER  # anybody could send such a request
            if needs is not None and not identity_of(request.scope).may(needs):
                raise RequestRefused(403, f"expected a user with the role {needs.name.lower()}")
            asked = await _asked(request, path, parameters)
            if asked.body and not endpoint.any_body and "content-type" not in request.headers:
                raise RequestRefused(415, "HTTP 415 Unsupported Media Type")
            return await endpoint.handler(asked)
        except ConnectError as error:
            return failure(error)

    middleware = [
        Middleware(_GuardUnlessSigned, endpoints=endpoints, signs=signs, access=access, open_paths=open_paths)
    ]
    if settings.response_headers:
        middleware.insert(0, Middleware(ResponseHeaders, rules=settings.response_headers))
    if settings.origins is not None:
        middleware.insert(0, Middleware(CrossOrigin, origins=settings.origins, methods=settings.methods))
    made = Starlette(middleware=middleware, exception_handlers={Exception: _unexpected})
    made.router.default = request_response(respond)  # routes would decode the path and redirect
    return made


class _GuardUnlessSigned:
    """Lets workers' own requests through, if they are signed, and passes all others to the guard.

    A group with a worker that does not speak ``sessioned`` does not sign. With users, a worker's own request
    to the leader is refused then, because it has no credentials.
    """

    def __init__(
        self,
        application: ASGIApp,
        endpoints: Sequence[Endpoint],
        signs: Callable[[], bool],
        access: Access | None,
        open_paths: re.Pattern[str] | None,
    ) -> None:
        self._application = application
        self._signed = [endpoint for endpoint in endpoints if endpoint.needs is None]
        self._signs = signs
        self._guard = Guard(application, access or Access(), _unauthorized, open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_signed = scope["type"] == "http" and self._is_signed(scope) and self._signs()
        scope[_IS_SIGNED] = is_signed
        await (self._application if is_signed else self._guard)(scope, receive, send)

    def _is_signed(self, scope: Scope) -> bool:
        path = scope["raw_path"].decode("latin-1").partition("?")[0]
        try:
            return any(endpoint.method == scope["method"] for endpoint, _ in matches(self._signed, path))
        except RequestRefused:
            return False


async def _asked(request: Request, path: str, parameters: dict[str, str]) -> Asked:
    """Read the whole request. Raises RequestRefused if the body is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _BODY_BYTES_MAX:
            raise RequestRefused(413, f"the body has more than {_BODY_BYTES_MAX} bytes")
    query = tuple(parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True))
    base_url = f"{request.scope['scheme']}://{request.headers.get('host', 'localhost')}"
    return Asked(base_url, request.method, path, parameters, query, request.headers, bytes(body))


def _unauthorized() -> Response:
    return failure(RequestRefused(401, "User cannot access the resource."))


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("a request failed method=%s path=%s", request.method, request.url.path, exc_info=error)
    return failure(error)
