"""The answers that handlers give, at once or later, and the exception instead of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.broker.network.context import RequestContext
from penstock.protocol.codec import Message

Handler = Callable[[Any, Any, RequestContext], object]
"""(part of the node, request, context) → a response message or its bytes, None for no response, or a later
response: an awaitable or a `Promise`."""


class CloseConnection(Exception):
    """A handler raises this if it can only answer by closing the connection."""


Kept = Message | bytes | BaseException | None
"""A response, its bytes without the header, an exception instead of one, or None if there is none."""


class Promise:
    """A response that a handler gives later, while later requests on the connection may proceed.

    It is for requests whose effects have happened when the handler returns. A handler that is still working
    returns an awaitable instead.
    """

    __slots__ = ("_completed", "_deliver", "_response", "on_abandon")

    def __init__(self, on_abandon: Callable[[], None] | None = None) -> None:
        self.on_abandon = on_abandon
        """Called when the response is not needed any more."""
        self._deliver: Callable[[Kept], None] | None = None
        self._response: Kept = None
        self._completed = False

    def complete(self, response: Message | bytes | None) -> None:
        self._keep(response)

    def fail(self, error: BaseException) -> None:
        """Close the connection, because there is no correct answer."""
        self._keep(error)

    def _keep(self, response: Kept) -> None:
        assert not self._completed, "a promise is kept once"
        self._completed = True
        if self._deliver is not None:
            self._deliver(response)
        else:
            self._response = response

    def deliver_to(self, deliver: Callable[[Kept], None]) -> None:
        self._deliver = deliver
        if self._completed:
            deliver(self._response)
