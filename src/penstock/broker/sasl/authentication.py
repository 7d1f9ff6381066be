"""The authentication of one connection: the states that Apache Kafka's SaslServerAuthenticator has.

A client may ask for the versions of APIs, then names a mechanism by SaslHandshake and exchanges messages with
it by SaslAuthenticate (KIP-152), or, after version 0 of SaslHandshake, as frames without a header. Until it
has authenticated, everything else ends the connection. A session has an end if the mechanism's credential or
`connections.max.reauth.ms` sets one; before that, the client authenticates again on the same connection
(KIP-368).
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from penstock.broker.network.answers import CloseConnection
from penstock.broker.sasl.listeners import NO_MECHANISM
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import SaslAuthenticateResponse, SaslHandshakeResponse
from penstock.security.sasl.server import Authenticated, Conversation, InvalidCredentials, Rejected

if TYPE_CHECKING:
    from penstock.broker.network.connection import Connection, Reply
    from penstock.broker.sasl.listeners import LoginStats, SaslListener

log = logging.getLogger(__name__)

TIME_LIMIT_S: Final = 10.0
"""The default of the clients' `socket.connection.setup.timeout.ms`: after it, they have given up."""

AGAIN_AFTER_S: Final = 1.0
"""The shortest time from one authentication to the next on the same connection, as in Kafka."""

_api_key: Final = struct.Struct(">h").unpack_from
_size: Final = struct.Struct(">i").pack
_MEANWHILE: Final = frozenset({ApiKey.SASL_AUTHENTICATE})
_BEFORE: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE})


class _State(Enum):
    """The states by what the client may send."""

    BEGINNING = auto()
    """ApiVersions, and SaslHandshake."""
    MESSAGES = auto()
    """SaslAuthenticate."""
    RAW_MESSAGES = auto()
    """Messages of the mechanism without a header."""
    COMPLETE = auto()
    """Everything."""
    FAILED = auto()
    """Nothing any more: the connection will close."""


def handle_authenticated(connection: Connection, frame: memoryview) -> Reply:
    """Answer a frame on a listener with SASL. Raises CloseConnection."""
    assert isinstance(connection.authentication, Authentication), "it begins with the connection"
    return connection.authentication.handle_request(frame)


class Authentication:
    """The state of one connection. ``dispatch`` answers what the client may ask."""

    def __init__(
        self,
        connection: Connection,
        listener: SaslListener,
        dispatch: Callable[[Connection, memoryview], Reply],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._connection = connection
        self._listener = listener
        self._dispatch = dispatch
        self._loop = loop
        self._state = _State.BEGINNING
        self._mechanism = ""
        self._principal: str | None = None
        """The principal, once the client has authenticated."""
        self._conversation: Conversation | None = None
        self._refused_mechanism: str | None = None
        """Another mechanism than before, by which the client wants to authenticate again."""
        self._expires_at_s: float | None = None
        self._began_at_s = -AGAIN_AFTER_S
        self._timer = loop.call_later(TIME_LIMIT_S, self._close, "not authenticated in time")
        connection.frame_bytes_max = listener.max_receive_bytes

    def handle_request(self, frame: memoryview) -> Reply:
        """Answer a frame, or close the connection. Raises CloseConnection."""
        state = self._state
        if state is _State.COMPLETE:
            if frame[1] != ApiKey.SASL_HANDSHAKE or frame[0] or not self._may_begin_again():
                if self._expires_at_s is None or self._loop.time() < self._expires_at_s:
                    return self._dispatch(self._connection, frame)
                self._logins.expired += 1
                raise CloseConnection("the session has ended, and the client has not authenticated again")
            self._state = _State.BEGINNING
            self._began_at_s = self._loop.time()
        elif state is _State.FAILED:
            return None
        elif state is _State.RAW_MESSAGES:
            return self._take_raw(bytes(frame))
        elif state is _State.MESSAGES:
            self._allow(frame, _MEANWHILE)
        else:
            self._allow(frame, _BEFORE)
        return self._dispatch(self._connection, frame)

    def begin(self, mechanism: str, version: int) -> SaslHandshakeResponse:
        """Answer SaslHandshake."""
        offered = list(self._listener.mechanisms)
        if self._state is not _State.BEGINNING:
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        if mechanism not in offered:
            self._fail(f"the mechanism {mechanism[:50]!r} is not enabled")
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
        if self._mechanism not in ("", mechanism):
            self._refused_mechanism = mechanism
        self._mechanism = self._mechanism or mechanism
        self._conversation = self._listener.converse(mechanism)
        next(self._conversation)
        self._state = _State.MESSAGES
        if version == 0:
            self._state = _State.RAW_MESSAGES
            self._connection.frame_bytes_min = 0
        return SaslHandshakeResponse(mechanisms=offered)

    def go_on(self, message: bytes) -> SaslAuthenticateResponse:
        """Answer SaslAuthenticate."""
        if self._state is not _State.MESSAGES:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after successful authentication",
            )
        try:
            answer, session_ms = self._take(message)
        except Rejected as refused:
            self._fail(refused.reason)
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(refused)
            )
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=session_ms)

    def _take_raw(self, message: bytes) -> bytes:
        try:
            answer, _session_ms = self._take(message)
        except Rejected as refused:
            self._count_failure()
            raise CloseConnection(f"authentication failed: {refused.reason}") from None
        return _size(len(answer)) + answer

    def _take(self, message: bytes) -> tuple[bytes, int]:
        """Return the answer and the time of the session, once it begins.

        Raises Rejected, and CloseConnection if the client must not get an answer.
        """
        assert self._conversation is not None, "a conversation follows SaslHandshake"
        if self._refused_mechanism is not None:  # as in Kafka, without an answer
            self._count_failure()
            raise CloseConnection(
                f"SASL mechanism {self._refused_mechanism!r} requested by client is not supported for "
                f"re-authentication of mechanism {self._mechanism!r}"
            )
        try:
            return self._conversation.send(message), 0
        except StopIteration as done:
            outcome: Authenticated = done.value
            return outcome.answer, self._complete(outcome)
        except InvalidCredentials as reason:
            log.debug("invalid credentials peer=%s reason=%s", self._connection.peer, reason)
            what = "authentication" if self._principal is None else "re-authentication"
            raise Rejected(
                f"Authentication failed during {what} due to invalid credentials with SASL mechanism "
                f"{self._mechanism}"
            ) from None

    def _complete(self, outcome: Authenticated) -> int:
        """Let the client in, and return the time of its session. Raises Rejected."""
        connection, principal = self._connection, f"User:{outcome.name}"
        if self._principal not in (None, principal):
            raise Rejected(
                "Cannot change principals during re-authentication from "
                f"{str(self._principal).replace(':', '.', 1)}: {principal.replace(':', '.', 1)}"
            )
        session_ms = self._session_ms(outcome)
        self._expires_at_s = None if session_ms is None else self._loop.time() + session_ms / 1000
        self._state = _State.COMPLETE
        self._conversation = None
        self._timer.cancel()
        if self._principal is None:
            self._logins.succeeded += 1
        else:
            self._logins.succeeded_again += 1
        self._principal = connection.principal = principal
        connection.token_authenticated = outcome.token_authenticated
        connection.forget_client()
        connection.lift_frame_limits()
        return session_ms or 0

    def _session_ms(self, outcome: Authenticated) -> int | None:
        limits = []
        if (longest_ms := self._listener.session_ms(self._mechanism)) > 0:
            limits.append(longest_ms)
        if outcome.expires_at_ms is not None:
            limits.append(max(outcome.expires_at_ms - self._listener.now_ms(), 0))
        return min(limits) if limits else None

    def _may_begin_again(self) -> bool:
        """Whether the session has an end, and the client's last attempt was not a moment ago."""
        return self._expires_at_s is not None and self._loop.time() - self._began_at_s >= AGAIN_AFTER_S

    def _allow(self, frame: memoryview, keys: frozenset[ApiKey]) -> None:
        (key,) = _api_key(frame)
        if key not in keys:
            self._count_failure()
            raise CloseConnection(f"request {key} before the client has authenticated")

    def _fail(self, reason: str) -> None:
        """Close the connection a little later, so that a client that guesses passwords has to wait."""
        self._state = _State.FAILED
        self._timer.cancel()
        self._count_failure()
        log.info(
            "authentication failed peer=%s listener=%s mechanism=%s reason=%s",
            self._connection.peer,
            self._connection.listener_name,
            self._mechanism or NO_MECHANISM,
            reason,
        )
        self._loop.call_later(self._listener.failure_delay_s, self._close, f"authentication failed: {reason}")

    @property
    def _logins(self) -> LoginStats:
        return self._listener.logins[self._mechanism or NO_MECHANISM]

    def _count_failure(self) -> None:
        if self._principal is None:
            self._logins.failed += 1
        else:
            self._logins.failed_again += 1

    def _close(self, reason: str) -> None:
        self._connection.close(reason, logging.INFO)
