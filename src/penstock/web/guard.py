"""The middleware that lets clients in: each request has an identity, or it is refused.

It answers for all paths of an application, those that do not exist included. An application finds the
identity of a request with `identity_of` and decides by a table which role the request needs. Without this
middleware, no identity is found and no request is answered.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.security.access.access import Access
from penstock.security.access.roles import VISITOR, Identity, Role
from penstock.web.certificates import certificate_of

Answer = Callable[[Request], Awaitable[Response]]

_IDENTITY: Final = "penstock.identity"


class Guard:
    """Middleware that answers requests without valid credentials with a ``refusal`` of status 401.

    Requests to ``open_paths`` need no credentials. They may read there, and nothing else.
    """

    def __init__(
        self,
        application: ASGIApp,
        access: Access,
        refusal: Callable[[], Response],
        open_paths: re.Pattern[str] | None = None,
    ) -> None:
        self._application = application
        self._access = access
        self._refusal = refusal
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            identity = self._identify(scope)
            if identity is None:
                answer = self._refusal()
                for challenge in self._access.challenges:
                    answer.headers.append("WWW-Authenticate", challenge)
                await answer(scope, receive, send)
                return
            scope[_IDENTITY] = identity
        elif scope["type"] != "lifespan":
            raise RuntimeError(f"{scope['type']} is not served")
        await self._application(scope, receive, send)

    def _identify(self, scope: Scope) -> Identity | None:
        headers = Headers(scope=scope).getlist("authorization")
        identity = self._access.identify(headers, certificate_of(scope))
        if identity is None and self._open_paths is not None and self._open_paths.fullmatch(scope["path"]):
            return VISITOR
        return identity


def route(
    path: str,
    answer: Answer,
    roles: Mapping[str, Role],
    refuse: Callable[[Identity, Role], Response],
    methods: Sequence[str] = ("GET",),
) -> Route:
    """Make a route for clients with the role of its path in the table; others get a refusal.

    Raises KeyError for a path that the table does not have.
    """
    needs = roles[path]

    async def answer_permitted(request: Request) -> Response:
        identity = identity_of(request.scope)
        return await answer(request) if identity.may(needs) else refuse(identity, needs)

    return Route(path, answer_permitted, methods=methods)


def identity_of(scope: Scope) -> Identity:
    """Return who sends a request. Raises KeyError if no `Guard` has let it in."""
    identity: Identity = scope[_IDENTITY]
    return identity
