"""The ASGI application of a server. Statements run in threads, because they wait for the cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from penstock.monitoring.process import registry_of
from penstock.monitoring.server import METRICS_PATH
from penstock.security.access.access import Access
from penstock.security.access.roles import Role
from penstock.sql.engine import Engine, EngineError, ErrorCode
from penstock.sql.engine.ground.entities import to_json
from penstock.sql.engine.reading.results import QueryResult
from penstock.sql.language.errors import SqlError
from penstock.sql.language.parsing.lexer import tokens_of
from penstock.sql.server import media, roles
from penstock.sql.server.access import guards
from penstock.sql.server.asked import Asked, InsertsAsked, bad_request, query_id_of, topics_to_delete
from penstock.sql.server.inserting import INSERT_TYPES, InsertsResponse, Lines
from penstock.sql.server.metrics import SqlMetrics, endpoint_of
from penstock.sql.server.reading import RowReading
from penstock.sql.server.row_formats import (
    QUERY_TYPES,
    STREAM_TYPES,
    PrintedLines,
    RowFormat,
    query_format,
    stream_format,
)
from penstock.sql.server.streaming import StreamedResponse, Streams
from penstock.web.answers import answer_json
from penstock.web.guard import identity_of, route
from penstock.web.metrics import CountRequests, RequestMetrics, answer_metrics

log = logging.getLogger(__name__)

_BODY_BYTES_MAX: Final = 8 << 20
_BODY_S: Final = 60.0
_STATEMENT_THREADS: Final = 64
"""Limit on the statements that run at the same time; others wait."""
_QUESTION_THREADS: Final = 8
"""Threads for /info, /healthcheck and metadata, which must answer while statements wait."""
_RETRY_AFTER_S: Final = 10
_TYPES: Final = (media.JSON, media.KSQL_V1)

T = TypeVar("T")


def application(engine: Engine, streams: Streams, access: Access) -> Starlette:
    """Build the application. Its server has to close ``streams`` at the end. Raises ConfigError."""
    api = _Api(engine, streams)
    made = partial(route, roles=roles.PATHS, refuse=roles.refuse)
    routes = [  # the first match wins
        made("/query-stream", api.query_stream, methods=["POST"]),
        made("/query", api.query, methods=["POST"]),
        made("/", api.home),
        made("/ksql", api.statements, methods=["POST"]),
        made("/ksql/terminate", api.terminate, methods=["POST"]),
        made("/inserts-stream", api.inserts_stream, methods=["POST"]),
        made("/close-query", api.close_query, methods=["POST"]),
        made("/info", api.info),
        made("/healthcheck", api.healthcheck),
        made("/clusterStatus", api.cluster_status),
        made("/status", api.statuses),
        made("/status/{command_id:path}", api.status),
        made("/is_valid_property/{name:path}", api.is_valid_property),
        made("/v1/metadata", api.metadata),
        made("/v1/metadata/id", api.metadata_id),
        made("/chc/live", api.alive),
        made("/chc/ready", api.alive),
        made(METRICS_PATH, api.metrics),
    ]
    handlers: dict[Any, Any] = {
        EngineError: _refused,
        HTTPException: _no_such_thing,
        ClientDisconnect: _gone,
        Exception: _unexpected,
    }
    counting = Middleware(CountRequests, metrics=api.requests, endpoint_of=endpoint_of(routes))
    middleware = [counting, *guards(engine.config.values, access)]
    return Starlette(routes=routes, middleware=middleware, exception_handlers=handlers)


class _Api:
    def __init__(self, engine: Engine, streams: Streams) -> None:
        self._engine = engine
        self._streams = streams
        self._statements = CapacityLimiter(_STATEMENT_THREADS)
        self._questions = CapacityLimiter(_QUESTION_THREADS)
        self.requests = RequestMetrics()
        self._registry = registry_of(
            self.requests, SqlMetrics(engine.figures, lambda: streams.rows), engine.host_metrics
        )

    async def _run(self, call: Callable[[], T]) -> T:
        return await to_thread.run_sync(call, limiter=self._statements)

    async def _ask(self, call: Callable[[], T]) -> T:
        return await to_thread.run_sync(call, limiter=self._questions)

    # Statements

    async def statements(self, request: Request) -> Response:
        kind = _answer_type(request, _TYPES)
        asked = Asked.of_statements(await _body(request))
        call = partial(
            self._engine.execute,
            asked.text,
            asked.properties,
            asked.variables,
            asked.command_sequence,
            partial(roles.require_for, identity_of(request.scope)),
        )
        return answer_json(to_json(await self._run(call)), kind)

    async def terminate(self, request: Request) -> Response:
        kind = _answer_type(request, _TYPES)
        patterns = topics_to_delete(await _body(request))
        found = await self._run(partial(self._engine.terminate_cluster, patterns))
        return answer_json(to_json(found), kind)

    # Rows

    async def query(self, request: Request) -> Response:
        kind = _answer_type(request, QUERY_TYPES)
        return await self._read(request, Asked.of_statements(await _body(request)), query_format, kind)

    async def query_stream(self, request: Request) -> Response:
        kind = _answer_type(request, STREAM_TYPES)
        return await self._read(request, Asked.of_stream(await _body(request)), stream_format, kind)

    async def _read(
        self, request: Request, asked: Asked, form: Callable[[QueryResult, str], RowFormat], kind: str
    ) -> Response:
        reader = identity_of(request.scope).principal
        known = self._engine.query_now(asked.text, asked.properties, asked.variables)
        if known is not None:
            return self._begun(RowReading(known, form(known, kind), reader))
        call = partial(self._answered, asked, form, kind, reader)
        return await to_thread.run_sync(call, limiter=self._streams.limiter)

    def _answered(
        self, asked: Asked, form: Callable[[QueryResult, str], RowFormat], kind: str, reader: str
    ) -> Response:
        """Start a query or a PRINT and its answer. Raises EngineError, HTTPException."""
        if _is_print(asked.text):
            if kind == media.JSON:
                raise _not_acceptable(f"a PRINT is answered as {media.DELIMITED}")
            result = self._engine.print_topic(asked.text, asked.properties, asked.variables)
            reading = RowReading(result, PrintedLines(kind), reader)
        else:
            result = self._engine.query(asked.text, asked.properties, asked.variables)
            reading = RowReading(result, form(result, kind), reader)
        return self._begun(reading)

    def _begun(self, reading: RowReading) -> Response:
        """Start an answer, in one piece if the query has already ended. Raises EngineError."""
        self._streams.opened(reading)
        try:
            reading.start()
        except BaseException:
            self._streams.closed(reading)
            raise
        whole = reading.whole()
        if whole is None:
            return StreamedResponse(reading, self._streams)
        self._streams.closed(reading)
        return Response(whole, media_type=reading.media_type)

    async def close_query(self, request: Request) -> Response:
        query_id, identity = query_id_of(await _body(request)), identity_of(request.scope)
        if not self._streams.is_read_by(query_id, identity.principal) and not identity.may(Role.WRITER):
            roles.refuse(identity, Role.WRITER)
        if not await self._run(partial(self._engine.close_query, query_id)):
            raise bad_request(f"No query with id {query_id}")
        return Response()

    async def inserts_stream(self, request: Request) -> Response:
        kind = _answer_type(request, INSERT_TYPES)
        lines = Lines(request)
        asked = InsertsAsked.of(await lines.first())
        insert = partial(self._engine.insert, asked.target)
        await self._run(insert)  # check the target before the first row
        return InsertsResponse(lines, insert, kind)

    # The server's status

    async def home(self, request: Request) -> Response:
        return RedirectResponse("/info", 307)

    async def alive(self, request: Request) -> Response:
        return answer_json({}, media.JSON)

    async def metrics(self, request: Request) -> Response:
        accept = request.headers.get("accept")
        return await self._ask(lambda: answer_metrics(self._registry, accept))

    async def info(self, request: Request) -> Response:
        kind = _answer_type(request, _TYPES)
        return answer_json({"KsqlServerInfo": to_json(await self._ask(self._engine.info))}, kind)

    async def healthcheck(self, request: Request) -> Response:
        kind = _answer_type(request, _TYPES)
        return answer_json(to_json(await self._ask(self._engine.healthcheck)), kind)

    async def cluster_status(self, request: Request) -> Response:
        kind = _answer_type(request, _TYPES)
        return answer_json({"clusterStatus": to_json(self._engine.cluster_status())}, kind)

    async def statuses(self, request: Request) -> Response:
        kind = _answer_type(request, _TYPES)
        return answer_json({"commandStatuses": self._engine.statuses()}, kind)

    async def status(self, request: Request) -> Response:
        kind = _answer_type(request, _TYPES)
        return answer_json(to_json(self._engine.status(unquote(request.path_params["command_id"]))), kind)

    async def is_valid_property(self, request: Request) -> Response:
        kind = _answer_type(request, _TYPES)
        return answer_json(self._engine.is_valid_property(unquote(request.path_params["name"])), kind)

    async def metadata(self, request: Request) -> Response:
        kind = _answer_type(request, _TYPES)
        found = await self._ask(self._engine.info)
        return answer_json({"version": found.version, "clusterId": _cluster_id(found)}, kind)

    async def metadata_id(self, request: Request) -> Response:
        kind = _answer_type(request, _TYPES)
        return answer_json(_cluster_id(await self._ask(self._engine.info)), kind)


def _cluster_id(info: Any) -> dict[str, Any]:
    clusters = {"kafka-cluster": info.kafka_cluster_id, "ksql-cluster": info.ksql_service_id}
    return {"scope": {"path": [], "clusters": clusters}, "id": ""}


def _is_print(text: str) -> bool:
    """Whether a text contains a PRINT; statements that set something may precede it."""
    try:
        tokens = tokens_of(text)
    except SqlError:
        return False  # the full parser reports the error
    begins = [0, *(number + 1 for number, token in enumerate(tokens) if token.source == ";")]
    return any(tokens[number].text == "PRINT" for number in begins if number < len(tokens))


async def _body(request: Request) -> bytes:
    """Read the body of a request. Raises EngineError if it is too long or takes too long."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > _BODY_BYTES_MAX:
                    raise bad_request(f"the body has more than {_BODY_BYTES_MAX} bytes")
    except TimeoutError:
        raise EngineError(
            f"the body did not arrive within {_BODY_S:g} s", ErrorCode.REQUEST_TIMEOUT
        ) from None
    return bytes(body)


def _answer_type(request: Request, offered: tuple[str, ...]) -> str:
    found = media.chosen(request.headers.get("accept"), offered)
    if found is None:
        raise _not_acceptable(f"expected one of {', '.join(offered)}")
    return found


def _not_acceptable(problem: str) -> HTTPException:
    return HTTPException(406, f"HTTP 406 Not Acceptable: {problem}")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, EngineError)
    waits = {"retry-after": str(_RETRY_AFTER_S)} if error.code is ErrorCode.SERVER_NOT_READY else None
    if error.code is ErrorCode.SERVER_ERROR:
        log.error(
            "request failed method=%s path=%s error=%s",
            request.method,
            request.url.path,
            error,
            exc_info=error.__cause__,
        )
    return answer_json(error.to_json(), media.JSON, error.code.http_status, waits)


async def _no_such_thing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = str(error.detail)
    if error.status_code in (404, 405):
        message = f"HTTP {error.status_code} {error.detail}: {request.method} {request.url.path}"
    body = {"@type": "generic_error", "error_code": error.status_code * 100, "message": message}
    return answer_json(body, media.JSON, error.status_code, dict(error.headers or {}))


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # the client has disconnected and won't read it


async def _unexpected(request: Request, error: Exception) -> Response:
    refused = EngineError(f"{type(error).__name__}: {error}", ErrorCode.SERVER_ERROR)
    return answer_json(refused.to_json(), media.JSON, 500)
