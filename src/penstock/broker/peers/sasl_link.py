"""Links to nodes that require SASL: a login at the beginning, and before each end of a session (KIP-368)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from typing import Final, TypeVar

from penstock.broker.peers import wire
from penstock.broker.peers.errors import PeerViolation
from penstock.broker.peers.link import Buffer, Dial, Link, LinkEnd
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from penstock.security.sasl.clients import (
    GSSAPI,
    OAUTHBEARER,
    Conversation,
    Credentials,
    LoginUnavailable,
    SaslRejected,
    converse,
)
from penstock.security.scram import new_nonce

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

_VERSIONS: Final = {ApiKey.SASL_HANDSHAKE: 1, ApiKey.SASL_AUTHENTICATE: 2}
"""The versions that every node of Apache Kafka 2.5 and later serves."""
_BLOCKING: Final = frozenset({OAUTHBEARER, GSSAPI})
"""The mechanisms whose logins wait for another server."""
_CLIENT_ID: Final = "login"
_PART_OF_SESSION: Final = 0.9
"""When to log in again: Kafka's clients do so after 0.85 to 0.95 of the session.

A token is due after at most 0.85 of its life, so that this needs a new one.
"""


class LoginFailed(OSError):
    """The other node does not let this one in."""


class SaslDial:
    """Opens links by another dial, and logs in on them. ``rng`` makes nonces.

    ``login`` takes the other node's host. It may block, and raise LoginUnavailable.
    """

    def __init__(self, dial: Dial, mechanism: str, login: Callable[[str], Credentials], rng: Random) -> None:
        self._dial = dial
        self._mechanism = mechanism
        self._login = login
        self._nonce = partial(new_nonce, rng)
        self._worker = ThreadPoolExecutor(1, "sasl") if mechanism in _BLOCKING else None
        """The thread that fetches tokens or tickets, for all links one after the other."""

    async def __call__(self, host: str, port: int, end: LinkEnd) -> Link:
        link = SaslLink(end, self._mechanism, partial(self._start, host))
        await link.open(self._dial, host, port)
        return link

    async def _start(self, host: str) -> Conversation:
        """Start a conversation with the login of now. Raises LoginUnavailable."""
        if self._worker is None:
            login = self._login(host)
        else:
            login = await asyncio.get_running_loop().run_in_executor(self._worker, self._login, host)
        return converse(self._mechanism, login, self._nonce)


class SaslLink:
    """A link that is logged in. It is the end of the link below, and the link of the end above."""

    def __init__(self, end: LinkEnd, mechanism: str, start: Callable[[], Awaitable[Conversation]]) -> None:
        self._end = end
        self._mechanism = mechanism
        self._start = start
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._answer: asyncio.Future[memoryview] | None = None
        """The answer that a login waits for."""
        self._unanswered = 0
        """The requests of the end above that wait for an answer: these come before that of a login."""
        self._held_back: list[Sequence[Buffer]] | None = []
        """The frames of the end above that wait for the end of a login; None if none is going on."""
        self._again: asyncio.Task[None] | None = None

    async def open(self, dial: Dial, host: str, port: int) -> None:
        """Connect and log in. Raises OSError."""
        self._link = await dial(host, port, self)
        try:
            await self._log_in()
        except BaseException:
            self.close()
            raise

    def send(self, frame: Sequence[Buffer]) -> None:
        if self._held_back is not None:
            self._held_back.append(frame)
        elif self._link is not None:
            self._unanswered += 1
            self._link.send(frame)

    def close(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if self._link is not None:
            self._link.close()
            self._link = None

    def frame_received(self, frame: memoryview) -> None:
        if self._unanswered:
            self._unanswered -= 1
            self._end.frame_received(frame)
        elif self._answer is not None and not self._answer.done():
            self._answer.set_result(frame)
        else:
            self._lose("answered a request that was not sent")

    def link_lost(self, reason: str) -> None:
        self._link = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ConnectionResetError(reason))
        else:
            self._lose(reason)

    def _lose(self, reason: str) -> None:
        self.close()
        self._end.link_lost(reason)

    async def _log_in(self) -> None:
        """Log in, and plan the next time. Raises OSError."""
        self._held_back = self._held_back or []
        try:
            session_ms = await self._converse()
        except (SaslRejected, PeerViolation) as error:
            raise LoginFailed(f"login refused: {error}") from None
        except LoginUnavailable as error:
            raise LoginFailed(f"no login: {error}") from None
        held_back, self._held_back = self._held_back, None
        for frame in held_back:
            self.send(frame)
        if session_ms > 0:
            self._again = self._loop.create_task(self._log_in_again(session_ms * _PART_OF_SESSION / 1000))

    async def _log_in_again(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            await self._log_in()
        except OSError as error:
            self._again = None  # this task, which must not cancel itself
            self._lose(str(error))

    async def _converse(self) -> int:
        """Exchange the messages of the mechanism, and return the time of the session in milliseconds."""
        conversation = await self._start()
        chosen = await self._ask(SaslHandshakeRequest(mechanism=self._mechanism), SaslHandshakeResponse)
        if chosen.error_code:
            offered = ", ".join(chosen.mechanisms)
            raise SaslRejected(f"{self._mechanism} is not enabled; the node offers {offered or 'nothing'}")
        message = next(conversation)
        while True:
            request = SaslAuthenticateRequest(auth_bytes=message)
            answer = await self._ask(request, SaslAuthenticateResponse)
            if answer.error_code:
                code = ErrorCode.of(answer.error_code)
                raise SaslRejected(answer.error_message or code.name)
            try:
                message = conversation.send(bytes(answer.auth_bytes))
            except StopIteration:
                return int(answer.session_lifetime_ms)

    async def _ask(self, request: Message, kind: type[M]) -> M:
        key = ApiKey(request.ID)
        if self._link is None:
            raise ConnectionResetError("the connection is closed")
        self._answer = self._loop.create_future()
        self._link.send(wire.encode_request(request, _VERSIONS[key], 0, _CLIENT_ID))
        frame = await self._answer
        response = wire.decode_response(key, _VERSIONS[key], frame)
        assert isinstance(response, kind)
        return response
