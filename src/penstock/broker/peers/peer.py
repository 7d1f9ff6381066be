"""`Peer`: another node at one address, with one connection that is made when it is needed.

Requests are pipelined: each is sent at once, and answers arrive in the order of the requests. If the
connection is lost or an answer is overdue, all requests that wait on it fail. The next call connects again,
after a pause that doubles as long as connecting fails. No request is retried here, because only the caller
knows which may be.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from dataclasses import dataclass
from typing import Final, TypeVar

from penstock.broker.peers import wire
from penstock.broker.peers.errors import PeerError, PeerTimedOut, PeerUnreachable, PeerViolation
from penstock.broker.peers.link import Dial, Link
from penstock.protocol import software
from penstock.protocol.api_keys import ApiKey, api_range
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import ApiVersionsRequest, ApiVersionsResponse

log = logging.getLogger(__name__)

Response = TypeVar("Response", bound=Message)

_BACKOFF_JITTER: Final = 0.2


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """The times of a connection in milliseconds; the defaults are Kafka's towards controllers."""

    setup_timeout_ms: int = 10_000
    """The longest time to make a connection, including its ApiVersions."""
    reconnect_backoff_ms: int = 50
    """The pause after the first failure to connect."""
    reconnect_backoff_max_ms: int = 500


class _Waiting:
    """A request that was sent and is not answered yet."""

    __slots__ = ("answer", "correlation_id", "deadline_s", "key", "version")

    def __init__(
        self,
        key: ApiKey,
        version: int,
        correlation_id: int,
        answer: asyncio.Future[Message],
        deadline_s: float,
    ) -> None:
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.answer = answer
        self.deadline_s = deadline_s


class _Session:
    """One link and the requests that wait for an answer on it."""

    def __init__(self, peer: Peer) -> None:
        self.link: Link | None = None
        self.versions: wire.PeerVersions | None = None
        self.failure: str | None = None
        self._peer = peer
        self._waiting: deque[_Waiting] = deque()
        self._correlation_id = 0
        self._timer: asyncio.TimerHandle | None = None
        """One timer for all waiting requests. It is not reset when an answer arrives, since nearly all arrive
        in time."""

    def send(self, request: Message, version: int, deadline_s: float) -> asyncio.Future[Message]:
        """Send a request and return the future of its response, which may fail with PeerTimedOut.

        An UnencodableMessage leaves the link as it was.
        """
        assert self.link is not None, "connect before sending"
        correlation_id = self._correlation_id
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        frame = wire.encode_request(request, version, correlation_id, self._peer.client_id)
        answer: asyncio.Future[Message] = self._peer.loop.create_future()
        self._waiting.append(_Waiting(ApiKey(request.ID), version, correlation_id, answer, deadline_s))
        if self._timer is None or deadline_s < self._timer.when():
            self._arm(deadline_s)
        self.link.send(frame)
        return answer

    def _arm(self, deadline_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._peer.loop.call_at(deadline_s, self._expire)

    def _expire(self) -> None:
        """Fail the requests whose answer is overdue, and set the timer for the next deadline."""
        self._timer = None
        now_s = self._peer.loop.time()
        next_s = float("inf")
        for waiting in self._waiting:
            if waiting.answer.done():
                continue
            if waiting.deadline_s <= now_s:
                message = f"{self._peer} did not answer {waiting.key.name} in time"
                waiting.answer.set_exception(PeerTimedOut(message))
            else:
                next_s = min(next_s, waiting.deadline_s)
        if next_s < float("inf"):
            self._arm(next_s)

    def frame_received(self, frame: memoryview) -> None:
        """Complete the oldest request with its answer."""
        if self.failure is not None:
            return
        try:
            found = wire.correlation_id_of(frame)
            if not self._waiting or self._waiting[0].correlation_id != found:
                expected = self._waiting[0].correlation_id if self._waiting else "none"
                raise PeerViolation(f"answered with correlation id {found}, expected {expected}")
            waiting = self._waiting.popleft()
            version = waiting.version
            if waiting.key is ApiKey.API_VERSIONS and _is_refusal(frame):
                version = 0  # KIP-511: a node answers an unknown version in version 0
            try:
                response = wire.decode_response(waiting.key, version, frame)
            except PeerViolation as violation:
                if not waiting.answer.done():
                    waiting.answer.set_exception(PeerViolation(f"{self._peer}: {violation}"))
                raise
        except PeerViolation as violation:
            self.fail(str(violation))
            return
        if not waiting.answer.done():
            waiting.answer.set_result(response)

    def link_lost(self, reason: str) -> None:
        self.fail(reason)

    def fail(self, reason: str) -> None:
        """Close the link; all requests that wait on it fail with PeerUnreachable."""
        if self.failure is not None:
            return
        self.failure = reason
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.link is not None:
            self.link.close()
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if not each.answer.done():
                each.answer.set_exception(PeerUnreachable(f"{self._peer}: {reason}"))
                each.answer.exception()  # prevents a warning if the caller stopped waiting


class Peer:
    """Another node at ``host:port``.

    Use one connection for one purpose, because a slow answer delays those behind it.

    Args:
        dial: opens connections.
        node_id: the node at this address, for messages; None if only the address is known.
        client_id: the client id of requests, for instance ``broker-1-fetcher-0``.
        rng: randomizes the pauses between attempts to connect.
    """

    def __init__(
        self,
        dial: Dial,
        host: str,
        port: int,
        *,
        node_id: int | None,
        client_id: str,
        rng: random.Random,
        settings: PeerSettings | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.node_id = node_id
        self.client_id = client_id
        self._dial = dial
        self._rng = rng
        self._settings = settings or PeerSettings()
        self.loop = asyncio.get_running_loop()
        self._session: _Session | None = None
        self._connecting: asyncio.Task[_Session] | None = None
        self._failures = 0
        self._try_again_s = 0.0
        self._closed = False

    def __str__(self) -> str:
        who = "node" if self.node_id is None else f"node {self.node_id}"
        return f"{who} at {self.host}:{self.port}"

    @property
    def versions(self) -> wire.PeerVersions | None:
        """The APIs that the other node reported when the connection was made; None without a connection."""
        session = self._session
        return None if session is None or session.failure is not None else session.versions

    async def call(self, request: Message, response_type: type[Response], timeout_ms: float) -> Response:
        """Send a request and return its response, whatever error codes it has.

        The request has the highest version that both sides know. During a pause after a failure to connect,
        the call waits until the pause ends, and fails if the next attempt does.

        Raises:
            PeerUnreachable: there is no connection, or it was lost before the answer.
            PeerTimedOut: no answer within ``timeout_ms``; the connection is dropped.
            PeerViolation: the node does not serve the API in a known version, or its answer is malformed.
        """
        key = ApiKey(request.ID)
        deadline_s = self.loop.time() + timeout_ms / 1000
        session = await self._connected(deadline_s, key)
        assert session.versions is not None
        try:
            version = session.versions.choose(key)
        except PeerViolation as violation:
            raise PeerViolation(f"{self} {violation}") from None
        response = await self._answered(session, session.send(request, version, deadline_s), key)
        if not isinstance(response, response_type):
            raise TypeError(f"{key.name} is answered by {type(response).__name__}, not {response_type}")
        return response

    def close(self) -> None:
        """Drop the connection for good; waiting requests and later ones fail with PeerUnreachable."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._session is not None:
            self._session.fail("closed by this node")
            self._session = None

    async def _answered(self, session: _Session, answer: asyncio.Future[Message], key: ApiKey) -> Message:
        """Return the answer. On PeerTimedOut the link is closed, since the answers behind it are late too."""
        try:
            return await answer
        except PeerTimedOut:
            session.fail(f"{key.name} was not answered in time")
            raise

    async def _connected(self, deadline_s: float, key: ApiKey) -> _Session:
        """Return the session, connecting first if there is none. Concurrent callers share one attempt."""
        if self._session is not None and self._session.failure is None:
            return self._session
        if self._closed:
            raise PeerUnreachable(f"{self}: closed by this node")
        if self._connecting is None:
            self._connecting = self.loop.create_task(self._connect())
            self._connecting.add_done_callback(self._connect_ended)
        connecting = self._connecting
        await asyncio.wait((connecting,), timeout=max(0.0, deadline_s - self.loop.time()))
        if not connecting.done():
            raise PeerTimedOut(f"{self} could not be connected to in time for {key.name}")
        if connecting.cancelled():
            raise PeerUnreachable(f"{self}: closed by this node")
        return connecting.result()

    def _connect_ended(self, connecting: asyncio.Task[_Session]) -> None:
        self._connecting = None
        if connecting.cancelled():
            return
        error = connecting.exception()
        if error is None:
            self._failures = 0
            self._session = connecting.result()
            if self._closed:
                self._disconnect()
            return
        settings = self._settings
        pause_ms = min(settings.reconnect_backoff_ms * 2**self._failures, settings.reconnect_backoff_max_ms)
        pause_ms *= 1 + self._rng.uniform(-_BACKOFF_JITTER, _BACKOFF_JITTER)
        self._failures = min(self._failures + 1, 16)
        self._try_again_s = self.loop.time() + pause_ms / 1000
        if not isinstance(error, PeerError):
            log.error("connecting failed peer=%s", self, exc_info=error)

    async def _connect(self) -> _Session:
        """Wait until the pause ends, connect, and agree on versions."""
        pause_s = self._try_again_s - self.loop.time()
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        session = _Session(self)
        deadline_s = self.loop.time() + self._settings.setup_timeout_ms / 1000
        try:
            async with asyncio.timeout_at(deadline_s):
                session.link = await self._dial(self.host, self.port, session)
            session.versions = await self._agree(session, deadline_s)
        except TimeoutError:
            session.fail("connecting took too long")
            raise PeerUnreachable(f"{self}: connecting took too long") from None
        except OSError as error:
            raise PeerUnreachable(f"{self}: {error}") from None
        except PeerTimedOut as error:
            raise PeerUnreachable(str(error)) from None
        except BaseException:
            session.fail("connecting was cancelled")
            raise
        return session

    async def _agree(self, session: _Session, deadline_s: float) -> wire.PeerVersions:
        """Send ApiVersions, newest version first; an older node answers with its versions in version 0."""
        key = ApiKey.API_VERSIONS
        version = api_range(key)[1]
        request = ApiVersionsRequest(
            client_software_name=software.NAME, client_software_version=software.VERSION
        )
        while True:
            answer = session.send(request, version, deadline_s)
            response = await self._answered(session, answer, key)
            assert isinstance(response, ApiVersionsResponse)
            versions = wire.PeerVersions(response)
            if response.error_code == ErrorCode.UNSUPPORTED_VERSION and version > 0:
                version = min(versions.choose(key), version - 1) if versions.serves(key) else 0
                continue
            if response.error_code:
                raise PeerViolation(f"{self} refused ApiVersions with error {response.error_code}")
            return versions


def _is_refusal(frame: memoryview) -> bool:
    return int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION
