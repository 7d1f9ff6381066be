"""The ASGI application of one instance.

Threads answer the requests, because an answer may parse schemas or wait for the log.
"""

from __future__ import annotations

import json
import logging
import re
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response
from starlette.types import Lifespan, Scope

from penstock.monitoring.process import registry_of
from penstock.monitoring.server import METRICS_PATH
from penstock.registry.api import contexts, media, permissions, routing
from penstock.registry.api.answers import answer_text, failure
from penstock.registry.api.asked import Asked
from penstock.registry.api.forwarding import (
    FORWARD,
    ON_BEHALF_OF,
    Forwarded,
    Interrupted,
    Unreachable,
    forward,
)
from penstock.registry.api.metrics import ENDPOINT, RegistryMetrics, endpoint_of
from penstock.registry.api.resources import CHECK, RESOURCES
from penstock.registry.api.routing import Resource
from penstock.registry.store.store import NotLeader, Store
from penstock.registry.subjects import Decision, Registry, RequestRefused
from penstock.security.access.access import Access
from penstock.security.access.roles import Identity, Role
from penstock.web.answers import answer_json
from penstock.web.guard import Guard, identity_of
from penstock.web.metrics import CountRequests, RequestMetrics, answer_metrics

log = logging.getLogger(__name__)

_FORWARDING_FAILED: Final = 50003
_UNKNOWN_LEADER: Final = 50004
# The limit fits a schema of the maximum size even if its JSON escapes every character.
_BODY_BYTES_MAX: Final = 8 << 20
# Writes wait for each other and for unreachable leaders and brokers, so they get threads of their own and
# never occupy those of reads.
_WRITE_THREADS: Final = 64
# Number of threads that look up and compare schemas, so that plain reads need not wait for such a request.
_CHECK_THREADS: Final = 8
# Requests whose schemas are parsed at the same time. A parsed schema takes a hundred times the memory of its
# text.
_PARSED_MAX: Final = 4
# Delay before a leader that could not be reached is tried again.
_LOOK_S: Final = 0.2


class _Sent(NamedTuple):
    """A request as received."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    identity: Identity

    @property
    def target(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def is_forwarded(self) -> bool:
        return self.headers.get(FORWARD, "").lower() == "true"

    @property
    def passed_on(self) -> Mapping[str, str]:
        """The headers for the leader, to which the client's certificate does not travel."""
        others = {name: value for name, value in self.headers.items() if name.lower() != ON_BEHALF_OF}
        if not self.identity.is_certified:
            return others
        return {**others, ON_BEHALF_OF: self.identity.principal.removeprefix("User:")}


def application(
    store: Store,
    version: str,
    lifespan: Lifespan[Starlette] | None = None,
    *,
    access: Access | None = None,
    open_paths: re.Pattern[str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Starlette:
    """Build the application that serves ``store``.

    ``version`` is the answer of ``/v1/metadata/version``. ``access`` decides who may send requests; None
    allows everybody. ``open_paths`` are exempt. ``tls`` is used to connect to a leader that listens with TLS.
    """
    access = access or Access()
    api = _Api(store, version, access, tls)
    requests = RequestMetrics()
    registry = registry_of(requests, api.metrics)

    async def answer(request: Request) -> Response:
        if request.scope["path"] == METRICS_PATH and request.method in ("GET", "HEAD"):
            request.scope[ENDPOINT] = METRICS_PATH
            if not identity_of(request.scope).has(Role.READER):
                return failure(permissions.denied(Role.READER))
            return await to_thread.run_sync(answer_metrics, registry, request.headers.get("accept"))
        kind = media.answer_type(request.headers.get("accept"))
        if kind is None:
            return failure(RequestRefused(406, "HTTP 406 Not Acceptable"))
        try:
            return await api.answer(await _received(request), kind, request.scope)
        except RequestRefused as error:
            return failure(error, kind)

    middleware = [
        Middleware(CountRequests, metrics=requests, endpoint_of=endpoint_of),
        Middleware(Guard, access=access, refusal=_unauthorized, open_paths=open_paths),
    ]
    application = Starlette(
        middleware=middleware,
        lifespan=lifespan,
        exception_handlers={Exception: _unexpected},
    )
    application.router.default = request_response(answer)  # a route's path would not match line breaks
    return application


def _unauthorized() -> Response:
    return failure(RequestRefused(401, "Unauthorized"))


class _Api:
    def __init__(self, store: Store, version: str, access: Access, tls: ssl.SSLContext | None) -> None:
        self._store = store
        self._access = access
        self._tls = tls
        self._version = version
        self._writes = CapacityLimiter(_WRITE_THREADS)
        self._checks = CapacityLimiter(_CHECK_THREADS)
        self._parsing = threading.BoundedSemaphore(_PARSED_MAX)
        self.metrics = RegistryMetrics(
            lambda: store.read(Registry.counts), lambda: store.election.leadership.is_own
        )

    async def answer(self, sent: _Sent, kind: str, scope: Scope) -> Response:
        """Answer one request, and note its endpoint in the scope.

        Raises RequestRefused if it can't be answered.
        """
        identity = self._sender(sent, identity_of(scope))
        segments, query = _decoded(sent)
        if segments[:2] == ["v1", "metadata"] and sent.method in ("GET", "HEAD"):
            if not identity.has(Role.READER):
                raise permissions.denied(Role.READER)
            scope[ENDPOINT] = "/v1/metadata"
            return answer_json(self._metadata(segments), kind)
        segments, query = contexts.rewritten(segments, query)
        if sent.method == "OPTIONS" and (allowed := routing.methods(RESOURCES, segments)):
            return Response(headers={"allow": ", ".join([*allowed, "OPTIONS"])})
        resource, parameters = routing.find(RESOURCES, sent.method, segments)
        scope[ENDPOINT] = resource.path
        asked = Asked(parameters, query, _content(sent) if resource.has_body else None)
        limiter = self._limiter(resource)
        sent = sent._replace(identity=identity)
        return await to_thread.run_sync(partial(self._answer, resource, asked, sent, kind), limiter=limiter)

    def _sender(self, sent: _Sent, identity: Identity) -> Identity:
        """Return who sends a request: the client of another instance, if that one has forwarded it.

        An instance is an admin with a certificate. Clients with passwords send them through it. Raises
        RequestRefused.
        """
        name = sent.headers.get(ON_BEHALF_OF)
        if name is None or self._access.is_open:
            return identity
        is_instance = identity.may(Role.ADMIN)
        found = self._access.without_password(name, is_certified=True) if is_instance else None
        if found is None:
            raise permissions.denied(Role.ADMIN)
        return found

    def _limiter(self, resource: Resource) -> CapacityLimiter | None:
        """Return the limiter of the threads that answer; None for reads that parse no schema."""
        if resource.write is not None:
            return self._writes
        return self._checks if resource.has_body else None

    def _answer(self, resource: Resource, asked: Asked, sent: _Sent, kind: str) -> Response:
        if resource.read is not None:
            read = resource.read

            def permitted(registry: Registry) -> Any:
                seen = permissions.seen_by(sent.identity, registry)
                permissions.check(sent.identity, resource, asked, seen)
                return read(seen, asked)

            with self._parsing if resource.has_body else nullcontext():
                found = self._store.read(permitted)
            if resource.path.startswith(CHECK):
                self.metrics.checked(found["is_compatible"])
            if found is not None or resource.write is None:
                return answer_text(found, kind) if resource.is_text else answer_json(found, kind)
        return self._write(resource, asked, sent, kind)

    def _write(self, resource: Resource, asked: Asked, sent: _Sent, kind: str) -> Response:
        """Let the current leader write, and retry with its successor while the timeout lasts."""
        write = resource.write
        assert write is not None

        def permitted(registry: Registry) -> Decision:
            permissions.check(sent.identity, resource, asked, registry)
            return write(registry, asked)

        self._store.read(lambda registry: permissions.check(sent.identity, resource, asked, registry))
        election = self._store.election
        deadline_s = time.monotonic() + self._store.config.timeout_ms / 1000
        leadership = election.wait_for_leader(deadline_s - time.monotonic())
        while leadership.leader is not None:
            if leadership.is_own:
                try:
                    found = self._store.write(permitted)
                    return Response(status_code=204) if found is None else answer_json(found, kind)
                except NotLeader:
                    pass
            elif sent.is_forwarded:
                break  # the instance that forwarded the request retries with the new leader
            else:
                answer = self._forwarded(leadership.leader, sent, deadline_s)
                if answer is not None:
                    return Response(answer.body, answer.status, media_type=answer.content_type or kind)
            if time.monotonic() >= deadline_s:
                break
            leadership = election.wait_for_another(leadership, min(_LOOK_S, deadline_s - time.monotonic()))
            if leadership.leader is None:
                leadership = election.wait_for_leader(deadline_s - time.monotonic())
        raise RequestRefused(_UNKNOWN_LEADER, "Leader not known.")

    def _forwarded(self, leader: Any, sent: _Sent, deadline_s: float) -> Forwarded | None:
        """Forward the request to the leader and return its answer.

        Returns None if that instance does not lead or is unreachable. Raises RequestRefused if forwarding
        failed.
        """
        timeout_s = self._store.config.timeout_ms / 1000
        try:
            found = forward(
                leader, sent.method, sent.target, sent.passed_on, sent.body, 2 * timeout_s, self._tls
            )
        except Unreachable as error:
            if time.monotonic() >= deadline_s:
                raise RequestRefused(_FORWARDING_FAILED, f"Error while forwarding: {error}") from error
            return None
        except Interrupted as error:
            raise RequestRefused(_FORWARDING_FAILED, f"Error while forwarding: {error}") from error
        if found.status >= 500 and _code_of(found.body) == _UNKNOWN_LEADER:
            return None
        if found.status < 300:
            try:
                self._store.catch_up()  # a client may read its own write here
            except RequestRefused as error:
                log.warning("a forwarded write is not replayed here yet error=%s", error)
        return found

    def _metadata(self, segments: list[str]) -> Any:
        match segments[2:]:
            case ["id"]:
                clusters = {
                    "kafka-cluster": self._store.cluster_id,
                    "schema-registry-cluster": self._store.config.group_id,
                }
                return {"scope": {"path": [], "clusters": clusters}}
            case ["version"]:
                return {"version": self._version}
            case _:
                raise RequestRefused(404, "HTTP 404 Not Found")


async def _received(request: Request) -> _Sent:
    """Read the whole request. Raises RequestRefused if the body is too large."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _BODY_BYTES_MAX:
            raise RequestRefused(413, f"the body has more than {_BODY_BYTES_MAX} bytes")
    scope = request.scope
    # The raw path is kept, because subjects may contain any characters, including slashes.
    path = scope["raw_path"].decode("latin-1").partition("?")[0]
    query = scope["query_string"].decode("latin-1")
    return _Sent(request.method, path, query, request.headers, bytes(body), identity_of(scope))


def _decoded(sent: _Sent) -> tuple[list[str], contexts.Query]:
    """Return the decoded segments of the path and the decoded query.

    Raises RequestRefused for bytes that are not UTF-8: replacing them could make two names equal.
    """
    path = sent.path.strip("/")
    try:
        segments = [unquote(part, errors="strict") for part in path.split("/")] if path else []
        query = tuple(parse_qsl(sent.query, keep_blank_values=True, errors="strict"))
    except UnicodeDecodeError as error:
        raise RequestRefused(400, f"the path is not UTF-8: {error}") from None
    return segments, query


def _content(sent: _Sent) -> Any:
    """Return the JSON value of the body, or None without a body. Raises RequestRefused if it is not JSON."""
    kind = sent.headers.get("content-type")
    if not media.is_readable(kind):
        raise RequestRefused(415, "HTTP 415 Unsupported Media Type")
    if not sent.body.strip():
        return None
    try:
        return json.loads(sent.body)
    except (ValueError, RecursionError) as error:
        raise RequestRefused(400, f"the body is not JSON: {error}") from None


def _code_of(body: bytes) -> int | None:
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found.get("error_code") if isinstance(found, dict) else None


async def _unexpected(request: Request, error: Exception) -> Response:
    return failure(RequestRefused(500, f"{type(error).__name__}: {error}"))
