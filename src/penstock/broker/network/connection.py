"""One client connection: it reads frames, calls the dispatcher, and sends responses in request order.

The socket is non-blocking, and the loop's callbacks read and write it directly; no task and no future stands
between a request and its response. All frames of one read are handled in one turn, within a budget that keeps
a flooding client from starving the others. A turn of the loop has a limit too: connections that become ready
after it queue for the next turn.

A request ends in one of three ways:
- Its response is available when the handler returns. It is sent at the end of the turn.
- The handler promises it (`PendingReply.in_order`). Its effects have happened and only the answer must wait
  (a long poll, an acknowledgement by replicas), so later requests may be handled meanwhile.
- The handler is still working. Later requests of this connection wait, as they do in Kafka, which mutes a
  connection until its request is answered.

The connection stops reading, and TCP pushes back, while the buffer is full of requests that must wait:
because of the last case, too many promised responses, or too many bytes that the client does not read.

A connection is muted while its client exceeds a quota: it sends its responses, but neither reads nor handles
requests. The requests that were read before wait in as much memory as they need.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from penstock.broker.network.answers import CloseConnection
from penstock.broker.network.buffers import STANDARD_BYTES
from penstock.broker.network.outbox import FileRange, NotReady, Outbox, Part
from penstock.broker.tls.secured_socket import SecuredSocket
from penstock.security.permissions import ANONYMOUS

if TYPE_CHECKING:
    from penstock.broker.network.buffers import BufferPool, RequestMemory
    from penstock.broker.network.context import Authentication, RequestContext
    from penstock.broker.network.stats import ApiStats, ServerStats
    from penstock.broker.quotas.client_quotas import ClientQuotas, MeteredClient

log = logging.getLogger(__name__)

REQUESTS_PER_TURN = 128
PENDING_REPLIES_MAX = 256
UNSENT_BYTES_MAX = 4 * 1024 * 1024
BUFFER_BYTES_MAX_HINT = 4 * 1024 * 1024
RESERVE_FROM_BYTES = 16 * 1024
"""Frames up to this size do not count against `queued.max.request.bytes`, because they arrive whole."""

FRAME_SIZE_BYTES = 4
REQUEST_HEADER_BYTES_MIN = 8

_now_ns = time.perf_counter_ns
_frame_size = struct.Struct(">i").unpack_from


class HostileFrame(CloseConnection):
    """The received bytes are not a request of Kafka's protocol."""


class PendingReply:
    """A place in the order of responses that is filled later."""

    __slots__ = ("_connection", "holds_frame", "in_order", "on_abandon", "parts")

    def __init__(self, connection: Connection, *, in_order: bool, holds_frame: bool = False) -> None:
        self._connection = connection
        self.in_order = in_order
        self.holds_frame = holds_frame
        """Whether the handler still reads from the frame, so that its memory must not be reused."""
        self.parts: Iterable[Part] | None = None
        self.on_abandon: Callable[[], None] | None = None
        """Called if the connection closes before the response is complete."""

    def complete(self, parts: Iterable[Part]) -> None:
        """Fill the place; without parts, no response is sent (acks=0)."""
        assert self.parts is None, "a response is completed once"
        self.parts = parts
        self._connection.reply_completed(self)


Reply = bytes | list[Part] | PendingReply | None


class ConnectionOwner(Protocol):
    """The server of a connection, with the buffers, limits and counters that its connections share."""

    loop: asyncio.AbstractEventLoop
    frame_bytes_max: int
    buffers: BufferPool
    request_memory: RequestMemory
    stats: ServerStats
    client_quotas: ClientQuotas
    sendfile: Callable[[int, int, int, int], int]

    def wait_in_line(self, callback: Callable[[], None], /) -> None:
        """Call back in the next turn of the loop, or in a later one if earlier callbacks fill it."""

    def turn_deadline_ns(self) -> int:
        """Return the time until which work may begin in this turn."""

    def after_turn(self) -> None:
        """Complete what the requests of a connection's turn have made ready."""

    def reload(self, part: FileRange, then: Callable[[str | None], None], /) -> None:
        """Have a worker read a slice into memory again, then call back with an error text or None."""

    def connection_closed(self, connection: Connection) -> None:
        """Remove a connection that has closed itself."""


class Connection:
    """The state of one socket; all its methods run on the event loop."""

    __slots__ = (
        "_blocked_by",
        "_buffer",
        "_buffer_bytes_hint",
        "_end",
        "_eof",
        "_handle_request",
        "_held_back",
        "_holds_frame",
        "_in_turn",
        "_loop",
        "_mute_timer",
        "_muted_until_s",
        "_outbox",
        "_parked",
        "_quotas",
        "_reading",
        "_reloading",
        "_replies",
        "_reserved_bytes",
        "_server",
        "_socket",
        "_start",
        "_tls",
        "_turn_scheduled",
        "_waits_for_memory",
        "_writing",
        "answered_ns",
        "answering",
        "authentication",
        "client_host",
        "client_id",
        "client_id_raw",
        "closed",
        "contexts",
        "fd",
        "frame_bytes_max",
        "frame_bytes_min",
        "is_muted",
        "last_active_s",
        "listener_name",
        "metered",
        "peer",
        "principal",
        "received_ns",
        "token_authenticated",
    )

    def __init__(
        self,
        server: ConnectionOwner,
        sock: socket.socket | SecuredSocket,
        peer: tuple[str, int],
        listener_name: str,
        handle_request: Callable[[Connection, memoryview], Reply],
        principal: str = ANONYMOUS,
    ) -> None:
        self._server = server
        self._quotas = server.client_quotas
        self._loop = server.loop
        self._socket = sock
        self._tls = sock if isinstance(sock, SecuredSocket) else None
        self._handle_request = handle_request
        self.fd = sock.fileno()
        self.peer = f"{peer[0]}:{peer[1]}"
        self.client_host = peer[0]
        self.client_id = ""
        self.client_id_raw = b""
        self.contexts: dict[object, RequestContext] = {}
        """The contexts by API and version, valid while the client id and the principal stay the same."""
        self.metered: MeteredClient | None = None
        """The client that is charged for transfers; None if its last request was exempt from quotas."""
        self.principal = principal
        self.token_authenticated = False
        """Whether the client has logged in with a delegation token."""
        self.authentication: Authentication | None = None
        """The state of its authentication by SASL; None on a listener without."""
        self.lift_frame_limits()
        self.listener_name = listener_name
        self.last_active_s = self._loop.time()
        self.closed = False
        self.received_ns = 0
        """When the socket last became readable; the requests in the buffer have waited at most since then."""
        self.answered_ns = 0
        """When the last answer was ready; `answering` has the counters of its API."""
        self.answering: ApiStats | None = None
        self.is_muted = False
        """Whether no request is read or handled, because the client exceeds a quota."""
        self._muted_until_s = 0.0
        self._mute_timer: asyncio.TimerHandle | None = None
        self._parked = b""
        """The bytes that were read before the connection was muted."""
        self._buffer: memoryview | None = None
        self._buffer_bytes_hint = STANDARD_BYTES
        self._start = self._end = 0
        self._reserved_bytes = 0
        self._outbox = Outbox(sock, server.sendfile if self._tls is None else self._tls.sendfile)
        self._replies: deque[bytes | list[Part] | PendingReply] = deque()
        self._blocked_by: PendingReply | None = None
        self._held_back = False
        self._holds_frame = False
        self._eof = False
        self._in_turn = False
        self._turn_scheduled = False
        self._waits_for_memory = False
        self._writing = False
        self._reloading = False
        self._reading = True
        self._loop.add_reader(self.fd, self._on_readable)
        self._receive_the_rest()

    @property
    def waits_for_reply(self) -> bool:
        """Whether a request is still being worked on, or its answer still being sent."""
        return bool(self._replies) or self._writing or self._reloading

    def lift_frame_limits(self) -> None:
        """Accept frames of all sizes that requests may have."""
        self.frame_bytes_min = REQUEST_HEADER_BYTES_MIN
        self.frame_bytes_max = self._server.frame_bytes_max

    def forget_client(self) -> None:
        """Determine the client and its permissions again, because its id or its principal has changed."""
        self.contexts.clear()
        self.metered = None

    # Events of the loop

    def _on_readable(self) -> None:
        if self._turn_scheduled:
            return  # handle the data of the last read first
        self.received_ns = now_ns = _now_ns()
        if now_ns > self._server.turn_deadline_ns():
            self._turn_scheduled = True
            self._server.wait_in_line(self._receive)
            return
        self._receive()

    def _receive(self) -> None:
        self._turn_scheduled = False
        if self.closed or not self._reading:
            return
        began_ns = _now_ns() if self._quotas.is_active else 0
        try:
            buffer = self._buffer
            if buffer is None:
                buffer = self._buffer = self._server.buffers.take(self._buffer_bytes_hint)
            elif self._end == len(buffer) and not self._make_room():
                return
            received = self._socket.recv_into(self._buffer[self._end :])  # type: ignore[index]
        except BlockingIOError:
            return
        except OSError as error:
            self.close(str(error))
            return
        if began_ns:
            self._transferred_since(began_ns)
        self._end += received
        if received == 0:
            self._eof = True
            self._stop_reading()
        self._turn()

    def _on_writable(self) -> None:
        if self._turn_scheduled:
            return
        if _now_ns() > self._server.turn_deadline_ns():
            self.schedule_turn()
            return
        self._turn()

    def _turn(self) -> None:
        """Handle the requests in the buffer, then send the responses that are ready."""
        if self.closed:
            return
        self.last_active_s = self._loop.time()
        self._in_turn = True
        try:
            self._handle_frames()
            self._server.after_turn()
            self._flush()
            if self._held_back and self._may_handle():
                self.schedule_turn()
        except HostileFrame as error:
            self._flush_last_words()
            self._server.stats.hostile_frames += 1
            self.close(f"hostile frame: {error}", logging.WARNING)
        except CloseConnection as error:
            self._flush_last_words()
            self.close(str(error), logging.INFO)
        except OSError as error:
            self.close(str(error))
        except Exception:
            log.exception("connection failed peer=%s", self.peer)
            self.close("internal error", logging.ERROR)
        finally:
            self._in_turn = False
        self._receive_the_rest()

    def _receive_the_rest(self) -> None:
        """Go on with bytes that TLS has received and the selector does not see."""
        if self._tls is not None and self._tls.has_more and self._reading and not self._turn_scheduled:
            self._turn_scheduled = True
            self._server.wait_in_line(self._receive)

    def schedule_turn(self) -> None:
        if not self._turn_scheduled and not self.closed:
            self._turn_scheduled = True
            self._server.wait_in_line(self._scheduled_turn)

    def _scheduled_turn(self) -> None:
        self._turn_scheduled = False
        self._turn()

    # Requests

    def _may_handle(self) -> bool:
        return (
            self._blocked_by is None
            and not self.is_muted
            and len(self._replies) < PENDING_REPLIES_MAX
            and self._outbox.unsent_bytes < UNSENT_BYTES_MAX
        )

    def _handle_frames(self) -> None:
        self._held_back = False
        if self._holds_frame:
            return
        buffer = self._buffer
        if buffer is None:
            if self._eof and not self._parked:
                self.close("closed by the client")
            return
        start, end = self._start, self._end
        outbox, replies = self._outbox, self._replies
        budget = REQUESTS_PER_TURN
        deadline_ns = self._server.turn_deadline_ns()
        size = -1
        while end - start >= FRAME_SIZE_BYTES:
            (size,) = _frame_size(buffer, start)
            if not self.frame_bytes_min <= size <= self.frame_bytes_max:
                raise HostileFrame(f"size {size}, expected {self.frame_bytes_min} to {self.frame_bytes_max}")
            frame_end = start + FRAME_SIZE_BYTES + size
            if frame_end > end:
                break
            if (
                self._blocked_by is not None
                or self.is_muted
                or outbox.unsent_bytes >= UNSENT_BYTES_MAX
                or replies
            ):
                self._held_back = not self._may_handle()
                if self._held_back:
                    self._start = start
                    if self.is_muted:
                        self._park()
                    return
            if budget == 0 or (budget < REQUESTS_PER_TURN and _now_ns() > deadline_ns):
                self._start = start
                self.schedule_turn()
                return
            budget -= 1
            if self._reserved_bytes:
                self._release_reservation()
            reply = self._handle_request(self, buffer[start + FRAME_SIZE_BYTES : frame_end])
            self._start = start = frame_end
            if type(reply) is bytes and not replies:
                outbox.put_bytes(reply)
            elif reply is not None:
                self._take_reply(reply)
                if self._holds_frame:
                    return
            size = -1
            if self.closed:
                return
        self._start = start
        self._settle_buffer(size)

    def _settle_buffer(self, size: int) -> None:
        """After all whole frames, return the buffer or make room for the rest of the next frame."""
        buffer = self._buffer
        if self._eof or buffer is None:
            self._flush_last_words()
            self.close("closed by the client")
            return
        if self._start == self._end:
            if self._end <= STANDARD_BYTES // 2:
                self._buffer_bytes_hint = STANDARD_BYTES
            self._start = self._end = 0
            self._buffer = None
            self._server.buffers.give(buffer)
        elif self.is_muted:
            self._park()
        elif size >= 0 and not self._prepare_for(FRAME_SIZE_BYTES + size):
            self._stop_reading()
            return
        self._resume_reading()

    def _prepare_for(self, frame_bytes: int) -> bool:
        """Make the buffer large enough for a frame that has arrived in part; return False without memory."""
        buffer = self._buffer
        assert buffer is not None
        if frame_bytes > RESERVE_FROM_BYTES and not self._reserved_bytes:
            if not self._server.request_memory.reserve(frame_bytes):
                if not self._waits_for_memory:
                    self._waits_for_memory = True
                    self._server.request_memory.call_when_free(self._memory_is_free)
                return False
            self._reserved_bytes = frame_bytes
        room = len(buffer) - self._start
        if frame_bytes <= room and (self._start == 0 or len(buffer) - self._end >= STANDARD_BYTES // 4):
            return True
        rest = self._end - self._start
        if frame_bytes > len(buffer):
            larger = self._server.buffers.take(frame_bytes)
            self._buffer_bytes_hint = min(len(larger), BUFFER_BYTES_MAX_HINT)
            larger[:rest] = buffer[self._start : self._end]
            self._buffer = larger
            self._server.buffers.give(buffer)
        else:
            buffer[:rest] = buffer[self._start : self._end]
        self._start, self._end = 0, rest
        return True

    def _memory_is_free(self) -> None:
        self._waits_for_memory = False
        self.schedule_turn()

    def _make_room(self) -> bool:
        """Move the waiting frames to the start of the full buffer, or stop reading if that is impossible."""
        assert self._buffer is not None
        if self._start == 0 or self._holds_frame:
            self._stop_reading()
            return False
        rest = self._end - self._start
        self._buffer[:rest] = self._buffer[self._start : self._end]
        self._start, self._end = 0, rest
        return True

    # Quotas

    def mute(self, throttle_ms: int) -> None:
        """Neither read nor handle requests for this time, because the client exceeds a quota."""
        if self.closed:
            return
        self._muted_until_s = max(self._muted_until_s, self._loop.time() + throttle_ms / 1000)
        if not self.is_muted:
            self.is_muted = True
            self._stop_reading()
            self._mute_timer = self._loop.call_at(self._muted_until_s, self._unmute)

    def _unmute(self) -> None:
        if self._loop.time() < self._muted_until_s:
            self._mute_timer = self._loop.call_at(self._muted_until_s, self._unmute)
            return
        self.is_muted = False
        self._mute_timer = None
        try:
            self._unpark()
        except OSError as error:
            self.close(str(error))
            return
        if self._buffer is None:
            self._resume_reading()
        self.schedule_turn()

    def _park(self) -> None:
        """Keep what was read in as much memory as it needs, and return the buffer.

        A large frame keeps its buffer and its reservation: else `queued.max.request.bytes` would not count
        what this connection holds.
        """
        buffer = self._buffer
        if buffer is None or self._reserved_bytes:
            return
        self._parked = bytes(buffer[self._start : self._end])
        self._start = self._end = 0
        self._buffer = None
        self._server.buffers.give(buffer)

    def _unpark(self) -> None:
        """Continue with the bytes that were read before. Raises OSError without memory."""
        parked, self._parked = self._parked, b""
        if parked:
            self._buffer = self._server.buffers.take(max(len(parked), self._buffer_bytes_hint))
            self._end = len(parked)
            self._buffer[: self._end] = parked

    def _transferred_since(self, began_ns: int) -> None:
        """Charge the client for the time of a transfer."""
        if self.metered is not None:
            self._quotas.transferred(self.metered, _now_ns() - began_ns)

    def _release_reservation(self) -> None:
        reserved, self._reserved_bytes = self._reserved_bytes, 0
        self._server.request_memory.release(reserved)

    # Responses

    def _take_reply(self, reply: bytes | list[Part] | PendingReply) -> None:
        if self._replies:
            self._replies.append(reply)
        elif isinstance(reply, bytes):
            self._outbox.put(reply)
        elif isinstance(reply, list):
            for part in reply:
                self._outbox.put(part)
        else:
            self._replies.append(reply)
        if isinstance(reply, PendingReply):
            if reply.parts is not None:
                self._drain_replies()
            elif not reply.in_order:
                self._blocked_by = reply
                self._holds_frame = reply.holds_frame

    def reply_completed(self, reply: PendingReply) -> None:
        """Send a promised response, unless one before it is still missing."""
        if self.closed:
            return
        if self._blocked_by is reply:
            self._blocked_by = None
            self._holds_frame = False
        self._drain_replies()
        if not self._in_turn:
            self._turn()

    def _drain_replies(self) -> None:
        replies, put = self._replies, self._outbox.put
        while replies:
            reply = replies[0]
            if isinstance(reply, PendingReply):
                if reply.parts is None:
                    return
                for part in reply.parts:
                    put(part)
            elif isinstance(reply, bytes):
                put(reply)
            else:
                for part in reply:
                    put(part)
            replies.popleft()

    def _flush(self) -> None:
        if self.closed or not self._outbox.unsent_bytes or self._reloading:
            return
        began_ns = _now_ns() if self._quotas.is_active else 0
        try:
            is_empty = self._outbox.flush(self.last_active_s)
        except NotReady as waits:
            self._reload(waits.part)
            return
        if began_ns:
            self._transferred_since(began_ns)
        if is_empty:
            if self.answering is not None:
                self.answering.send_ns += _now_ns() - self.answered_ns
            if self._writing:
                self._writing = False
                self._loop.remove_writer(self.fd)
        elif not self._writing:
            self._writing = True
            self._loop.add_writer(self.fd, self._on_writable)

    def _reload(self, part: FileRange) -> None:
        """Have a worker read a slice again that left memory because the client is slow."""
        self._reloading = True
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self.fd)
        self._server.reload(part, self._reloaded)

    def _reloaded(self, damage: str | None) -> None:
        self._reloading = False
        if damage is not None:
            self.close(f"records cannot be sent completely: {damage}", logging.ERROR)
            return
        self._outbox.resume()
        self.schedule_turn()

    def _flush_last_words(self) -> None:
        try:
            self._outbox.flush(self.last_active_s)
        except (OSError, NotReady):
            return

    # Flow control and closing

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self.fd)

    def _resume_reading(self) -> None:
        if not self._reading and not self._eof and not self.closed and not self.is_muted:
            self._reading = True
            self._loop.add_reader(self.fd, self._on_readable)

    def close(self, reason: str, level: int = logging.DEBUG) -> None:
        """Close at once; unsent responses are lost, and promised ones are ignored."""
        if self.closed:
            return
        self.closed = True
        log.log(level, "closing connection peer=%s client_id=%r reason=%s", self.peer, self.client_id, reason)
        self._stop_reading()
        if self._writing:
            self._loop.remove_writer(self.fd)
        if self._mute_timer is not None:
            self._mute_timer.cancel()
        if self._reserved_bytes:
            self._release_reservation()
        self._outbox.clear()
        replies, self._replies = self._replies, deque()
        if self._buffer is not None and not self._in_turn and not self._holds_frame:
            self._server.buffers.give(self._buffer)
        self._buffer = None
        self._socket.close()
        self._server.connection_closed(self)
        for reply in replies:
            if isinstance(reply, PendingReply) and reply.on_abandon is not None:
                reply.on_abandon()
