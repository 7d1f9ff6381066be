"""Decode frames, call handlers and encode responses for one kind of listener, and count per API.

The node passes the table of APIs, each with its handler and the part of the node that the handler takes.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from penstock.broker.network.answers import Answer, CloseConnection
from penstock.broker.network.charging import Charge, Charging
from penstock.broker.network.connection import Connection, HostileFrame, PendingReply, Reply
from penstock.broker.network.context import RequestContext
from penstock.broker.network.outbox import Part
from penstock.broker.network.refusals import log_refusal
from penstock.broker.network.served import Served, ServedApi
from penstock.broker.network.stats import ApiStats
from penstock.broker.network.turns import in_turns
from penstock.broker.quotas.client_quotas import UNLIMITED, ClientQuotas
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import MalformedMessage, Message
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages import ApiVersionsResponse

if TYPE_CHECKING:
    from penstock.broker.network.loop_lag import LoopLag
    from penstock.broker.network.stats import ServerStats
    from penstock.security.permissions import Permissions

log = logging.getLogger(__name__)

LONG_NS = 1_000_000
"""A request that holds the loop for longer is named in the report of a long turn."""

HEADER_TAGS_MAX = 64
"""Kafka has defined no header tags so far."""

_request_header = struct.Struct(">hhih").unpack_from
_response_v0 = struct.Struct(">ii").pack
_response_v1 = struct.Struct(">iiB").pack
_now_ns = time.perf_counter_ns


class Dispatcher:
    """The dispatcher of one kind of listener. It decodes requests, calls handlers and encodes responses."""

    def __init__(
        self,
        apis: Mapping[ApiKey, ServedApi],
        loop_lag: LoopLag,
        connections: ServerStats,
        permissions: Callable[[str, str, ApiKey], Permissions],
        quotas: ClientQuotas = UNLIMITED,
    ) -> None:
        """Create a dispatcher. ``permissions`` gives what a principal at a host may do by an API."""
        self._quotas = quotas
        self._charging = Charging(quotas)
        self._apis = apis
        self._permissions = permissions
        self._loop_lag = loop_lag
        self._connections = connections
        self._served: dict[tuple[int, int], Served] = {}
        self._working: set[Answer[object]] = set()
        """The answers of handlers whose work goes on."""
        self.stats: dict[ApiKey, ApiStats] = {key: ApiStats() for key in apis}
        self.advertised: dict[ApiKey, tuple[int, int]] = {key: api.advertised for key, api in apis.items()}
        """The lowest and highest version of each served API, for ApiVersions."""

    def handle_request(self, connection: Connection, frame: memoryview) -> Reply:
        """Reply to one frame.

        The frame's bytes are reused after the return, or for Produce once it is answered.

        Raises HostileFrame if no sensible answer is possible; the connection must be closed.
        """
        try:
            api_key, api_version, correlation_id, client_id_bytes = _request_header(frame)
        except struct.error:
            raise HostileFrame("too short for a request header") from None
        served = self._served.get((api_key, api_version)) or self._serve(api_key, api_version)
        if served is None:
            return self._refuse_version(api_key, api_version, correlation_id)
        if len(frame) > served.request_bytes_max:
            raise HostileFrame(
                f"{served.api_key.name} of {len(frame)} bytes, "
                f"at most {served.request_bytes_max} are accepted"
            )
        started_ns = _now_ns()
        body = 10
        if client_id_bytes > 0:
            body += client_id_bytes
            if body > len(frame):
                raise HostileFrame("client id ends beyond the frame")
            raw = frame[10:body]
            if raw != connection.client_id_raw:
                _set_client_id(connection, raw)
        elif connection.client_id_raw:
            _set_client_id(connection, b"")
        try:
            if served.flexible_request:
                body = body + 1 if frame[body] == 0 else _skip_tagged_fields(frame, body)
            if len(frame) > served.long_request_bytes:
                decoded = in_turns(served.decode_in_steps(api_version, frame, body))
                if not decoded.is_done:
                    return self._handle_later(served, correlation_id, connection, len(frame), decoded)
                request, _ = decoded.value
            else:
                request, _ = served.decode(api_version, frame, body)
        except (MalformedMessage, IndexError) as error:
            raise HostileFrame(f"{served.api_key.name} v{api_version}: {error}") from None
        context = connection.contexts.get(served) or self._context(connection, served)
        stats = served.stats
        stats.requests += 1
        stats.request_bytes += len(frame)
        try:
            response = served.handle(served.part, request, context)
            if type(response) is Answer and response.error is not None:
                raise response.error
        except CloseConnection:
            if self._quotas.is_active and context.metered is not None:
                self._charging.close(Charge(context.metered, len(frame)), served)
            raise
        except Exception as error:
            charge = None
            if self._quotas.is_active:
                charge = self._charging.of_request(
                    served, request, context, len(frame), _now_ns() - started_ns
                )
            return self._failed(served, correlation_id, connection, error, charge)
        stats.queue_ns += started_ns - connection.received_ns
        connection.answered_ns = ended_ns = _now_ns()
        connection.answering = stats
        took_ns = ended_ns - started_ns
        stats.handler_ns += took_ns
        if took_ns > LONG_NS:
            self._loop_lag.took(served.api_key.name, took_ns)
        charge = None
        if self._quotas.is_active:
            charge = self._charging.of_request(served, request, context, len(frame), took_ns)
        if type(response) is Answer:
            if not response.is_done:
                return self._reply_later(served, correlation_id, response, connection, charge)
            response = response.value
        if charge is not None:
            response = self._charging.respond(charge, served, connection, response)
        if type(response) is bytes:
            return frame_reply(served, correlation_id, response)
        if response is None:
            return None
        return encode_reply(served, correlation_id, cast("Message", response))

    def _handle_later(
        self,
        served: Served,
        correlation_id: int,
        connection: Connection,
        frame_bytes: int,
        decoded: Answer[tuple[Message, int]],
    ) -> PendingReply:
        """Call the handler once the request is decoded, which needs nothing of its frame any more."""
        context = connection.contexts.get(served) or self._context(connection, served)
        charge = None if context.metered is None else Charge(context.metered, frame_bytes)

        async def handle() -> object:
            try:
                request, _ = await decoded
            except MalformedMessage as error:
                self._connections.hostile_frames += 1
                raise HostileFrame(f"{served.api_key.name} v{served.version}: {error}") from None
            stats = served.stats
            stats.requests += 1
            stats.request_bytes += frame_bytes
            started_ns = _now_ns()
            if charge is not None and served.is_exempt is not None:
                charge.is_exempt = served.is_exempt(request, context)
            response = served.handle(served.part, request, context)
            took_ns = _now_ns() - started_ns
            stats.handler_ns += took_ns
            if charge is not None:
                charge.handler_ns = took_ns
            if type(response) is not Answer:
                return response
            if not response.blocks:
                pending.on_abandon = answer.abandon
            return await response

        answer = Answer.working(handle())
        pending = self._reply_later(served, correlation_id, answer, connection, charge)
        return pending

    async def abandon_requests(self) -> None:
        """Cancel all handlers that are still working, and return when none runs any more."""
        working = list(self._working)
        for answer in working:
            answer.abandon()
        await asyncio.gather(*(answer.task for answer in working if answer.task), return_exceptions=True)

    def _serve(self, api_key: int, version: int) -> Served | None:
        """Create the entry for an API version that is seen for the first time."""
        try:
            key = ApiKey(api_key)
        except ValueError:
            return None
        api = self._apis.get(key)
        if api is None or not api.versions[0] <= version <= api.versions[1]:
            return None
        served = Served(key, version, api, self.stats[key])
        self._served[api_key, version] = served
        return served

    def _context(self, connection: Connection, served: Served) -> RequestContext:
        context = connection.contexts[served] = RequestContext(
            served.version,
            connection.client_id,
            connection.client_host,
            connection.principal,
            connection.listener_name,
            permissions=self._permissions(connection.principal, connection.client_host, served.api_key),
            token_authenticated=connection.token_authenticated,
            authentication=connection.authentication,
            metered=self._charging.client(connection, served.api_key),
        )
        return context

    def _refuse_version(self, api_key: int, api_version: int, correlation_id: int) -> Reply:
        """Answer a too new ApiVersions in version 0 (KIP-511); for any other API, close the connection."""
        if api_key != ApiKey.API_VERSIONS:
            raise HostileFrame(f"api key {api_key} version {api_version} is not served")
        lowest, highest = api_keys.api_range(ApiKey.API_VERSIONS)
        response = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[
                ApiVersionsResponse.ApiVersion(
                    api_key=ApiKey.API_VERSIONS, min_version=lowest, max_version=highest
                )
            ],
        )
        body = response.encode(0)
        return _response_v0(4 + len(body), correlation_id) + body

    def _reply_later(
        self,
        served: Served,
        correlation_id: int,
        answer: Answer[object],
        connection: Connection,
        charge: Charge | None = None,
    ) -> PendingReply:
        since_ns = _now_ns()
        is_charged = False
        blocks = answer.blocks
        pending = PendingReply(
            connection, in_order=not blocks, holds_frame=blocks and served.api_key is ApiKey.PRODUCE
        )
        if blocks:
            self._working.add(answer)
        else:
            pending.on_abandon = answer.abandon

        def receive(done: Answer[object]) -> None:
            nonlocal since_ns, is_charged
            self._working.discard(done)
            if isinstance(done.error, asyncio.CancelledError):
                connection.close("request cancelled")
                return
            since_ns = _waited(served, connection, since_ns)
            try:
                if done.error is not None:
                    raise done.error
                response = done.value
                if charge is not None and not is_charged:
                    is_charged = True
                    response = self._charging.respond(charge, served, connection, response)
                if blocks and isinstance(response, Message) and not served.has_records:
                    encoded: Answer[object] = in_turns(response.encode_in_steps(served.version))
                    if not encoded.is_done:
                        self._working.add(encoded)
                        encoded.when_done(receive)
                        return
                    response = encoded.value
            except Exception as error:
                self._fail(pending, served, correlation_id, connection, error, None if is_charged else charge)
            else:
                self._complete(pending, served, correlation_id, response)

        answer.when_done(receive)
        return pending

    def _complete(self, pending: PendingReply, served: Served, correlation_id: int, response: object) -> None:
        if response is None:
            pending.complete([])
            return
        if type(response) is bytes:
            pending.complete([frame_reply(served, correlation_id, response)])
            return
        assert isinstance(response, served.response_class)
        reply = encode_reply(served, correlation_id, response)
        pending.complete([reply] if isinstance(reply, bytes) else reply)

    def _fail(
        self,
        pending: PendingReply,
        served: Served,
        correlation_id: int,
        connection: Connection,
        error: Exception,
        charge: Charge | None,
    ) -> None:
        try:
            if isinstance(error, CloseConnection):
                if charge is not None:
                    self._charging.close(charge, served)
                raise error
            pending.complete(self._failed(served, correlation_id, connection, error, charge))
        except CloseConnection as reason:
            connection.close(str(reason), logging.INFO)

    def _failed(
        self,
        served: Served,
        correlation_id: int,
        connection: Connection,
        error: BaseException,
        charge: Charge | None,
    ) -> list[Part]:
        """Log an exception and answer an error, or close if the message has no field for it."""
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
        if isinstance(error, KafkaError):
            code, message = error.code, error.message
            log_refusal(served.api_key.name, served.version, connection.client_id, error)
        else:
            served.stats.errors += 1
            log.error("request failed api=%s version=%d", served.api_key.name, served.version, exc_info=error)
        response = served.response_class()
        if not hasattr(response, "error_code"):
            raise CloseConnection(f"{served.api_key.name} failed: {error}")
        response.error_code = code
        if message is not None and hasattr(response, "error_message"):
            response.error_message = message
        if charge is not None:
            self._charging.respond(charge, served, connection, response)
        reply = encode_reply(served, correlation_id, response)
        return [reply] if isinstance(reply, bytes) else reply


def _waited(served: Served, connection: Connection, since_ns: int) -> int:
    """Record the time that a response waited for others, and return the current time."""
    now_ns = connection.answered_ns = _now_ns()
    stats = connection.answering = served.stats
    stats.remote_ns += now_ns - since_ns
    return now_ns


def encode_reply(served: Served, correlation_id: int, response: Message) -> bytes | list[Part]:
    """Encode the whole frame: size, response header, body; in parts if it contains slices of files."""
    if served.has_records:
        parts = cast("list[Part]", response.encode_parts(served.version))
        size = sum(map(len, parts))
        if served.flexible_response:
            return [_response_v1(size + 5, correlation_id, 0), *parts]
        return [_response_v0(size + 4, correlation_id), *parts]
    return frame_reply(served, correlation_id, response.encode(served.version))


def frame_reply(served: Served, correlation_id: int, body: bytes) -> bytes:
    """Add size and header to a response that is already encoded."""
    if served.flexible_response:
        return _response_v1(len(body) + 5, correlation_id, 0) + body
    return _response_v0(len(body) + 4, correlation_id) + body


def _set_client_id(connection: Connection, raw: memoryview | bytes) -> None:
    connection.forget_client()
    connection.client_id_raw = bytes(raw)
    connection.client_id = connection.client_id_raw.decode("utf-8", "replace")


def _skip_tagged_fields(frame: memoryview, position: int) -> int:
    """Skip the tagged fields at the end of a flexible header."""
    count, position = _unsigned_varint(frame, position)
    if count > HEADER_TAGS_MAX:
        raise HostileFrame(f"{count} tagged fields in a request header")
    for _ in range(count):
        _tag, position = _unsigned_varint(frame, position)
        size, position = _unsigned_varint(frame, position)
        position += size
    if position > len(frame):
        raise IndexError("header's tagged fields end beyond the frame")
    return position


def _unsigned_varint(frame: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise IndexError("unsigned varint longer than five bytes")
