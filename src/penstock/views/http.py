"""The views over HTTP: JSON answers, named errors, positions in headers, and metrics.

`penstock.views.asking` defines the paths.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from functools import partial
from typing import Final
from urllib.parse import unquote

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Lifespan

from penstock.monitoring.process import registry_of
from penstock.security.access.access import Access
from penstock.security.access.roles import VISITOR, Identity, Role
from penstock.topology.errors import StreamsError
from penstock.views.asking import asked_by
from penstock.views.errors import Forbidden, InvalidQuery, KeyNotFound, Unauthenticated, ViewError
from penstock.views.metrics import ViewMetrics, endpoint_of
from penstock.views.node import FORWARDED, Node, body_of
from penstock.web.guard import Guard, identity_of, route
from penstock.web.metrics import CountRequests, RequestMetrics, answer_metrics

log = logging.getLogger(__name__)

POSITION_HEADER: Final = "penstock-position"
AT_LEAST_HEADER: Final = "penstock-at-least"
_JSON: Final = "application/json"


PATHS: Final[Mapping[str, Role]] = {
    "/stores": Role.READER,
    "/stores/{rest:path}": Role.READER,
    "/health": Role.READER,
    "/health/ready": Role.READER,
    "/metrics": Role.READER,
}
"""The role that each path needs."""


def application(
    node: Node,
    lifespan: Lifespan[Starlette] | None = None,
    *,
    access: Access | None = None,
    open_paths: re.Pattern[str] | None = None,
) -> Starlette:
    """Create the ASGI application of one node.

    ``access`` decides who may send requests; None allows everybody. ``open_paths`` are exempt.
    """
    requests = RequestMetrics()
    of_node = ViewMetrics(node.held, lambda: len(node.routes.members), lambda: node.views.trouble is None)
    registry = registry_of(requests, of_node)

    async def stores(request: Request) -> Response:
        return _json(node.stores())

    async def health(request: Request) -> Response:
        return _json(node.health())

    async def ready(request: Request) -> Response:
        """Answer load balancers: 503 until every store on this node has been read from its log.

        They need no credentials, and without these learn no more than that.
        """
        found = node.health()
        shown = {"status": found["status"]} if identity_of(request.scope) is VISITOR else found
        return _json(shown, 200 if found["status"] == "ready" else 503)

    async def metrics(request: Request) -> Response:
        return await asyncio.to_thread(answer_metrics, registry, request.headers.get("accept"))

    async def store(request: Request) -> Response:
        try:
            return await _answer(node, request)
        except ViewError as error:
            return _failure(error)
        except StreamsError as error:
            # A value that its serde can't read is the application's error, not the client's.
            log.warning("request failed path=%s error=%s", request.url.path, error)
            return _failure(ViewError(str(error)))

    made = partial(route, roles=PATHS, refuse=_forbidden)
    routes = [
        made("/stores", stores),
        made("/stores/{rest:path}", store),
        made("/health", health),
        made("/health/ready", ready),
        made("/metrics", metrics),
    ]
    counting = Middleware(CountRequests, metrics=requests, endpoint_of=endpoint_of)
    guard = Middleware(Guard, access=access or Access(), refusal=_unauthenticated, open_paths=open_paths)
    # The server logs unexpected errors.
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[counting, guard],
        exception_handlers={Exception: _unexpected},
    )


async def _answer(node: Node, request: Request) -> Response:
    scope = request.scope
    # The raw path is used because keys may contain any bytes, including slashes.
    path: str = scope["raw_path"].decode("ascii").partition("?")[0]
    _, _, name, *segments = path.split("/")
    found_store = node.views.find(unquote(name))
    parameters = dict(request.query_params)
    if len(request.query_params.multi_items()) > len(parameters):
        raise InvalidQuery(f"a parameter is given twice in {request.url.query}")
    asked = asked_by(found_store, segments, parameters, request.headers.get(AT_LEAST_HEADER))
    is_forwarded = FORWARDED in request.headers
    target = f"{path}?{scope['query_string'].decode('ascii')}"
    found = await node.answer(asked, target, is_forwarded=is_forwarded)
    headers = {POSITION_HEADER: found["position"]}
    return Response(body_of(found, asked, is_forwarded=is_forwarded), media_type=_JSON, headers=headers)


def _failure(error: ViewError) -> Response:
    headers = {POSITION_HEADER: error.position} if isinstance(error, KeyNotFound) else None
    body = {"code": error.code, "message": str(error), "retriable": error.retriable}
    return _json({"error": body}, error.status, headers)


def _unauthenticated() -> Response:
    return _failure(Unauthenticated("expected the name and the password, or the certificate, of a user"))


def _forbidden(identity: Identity, needs: Role) -> Response:
    return _failure(Forbidden(f"{identity.principal} has not the role {needs.name.lower()}"))


async def _unexpected(request: Request, error: Exception) -> Response:
    return _failure(ViewError(f"{type(error).__name__}: {error}"))


def _json(found: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(found), status, headers, _JSON)
