"""`ControllerChannel` sends requests to the active controller, wherever it is, and retries until it answers.

It works like Kafka's NodeToControllerChannelManager; the quorum knows the active controller. If a request
fails because the controller has moved or is unreachable, it is sent again to the controller of that moment.
So a request may be carried out twice; requests sent this way have epochs, or fail harmlessly the second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeVar

from penstock.broker.peers.errors import PeerError, PeerTimedOut, PeerViolation
from penstock.broker.peers.link import Dial
from penstock.broker.peers.peer import Peer, PeerSettings
from penstock.broker.peers.wire import PeerVersions
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

Response = TypeVar("Response", bound=Message)

RETRY_BACKOFF_MS: Final = 100
"""The pause before a request is sent again, unless the quorum reports another controller first."""


class ControllerAddress(NamedTuple):
    """The active controller, on the listener where controllers serve nodes."""

    node_id: int
    host: str
    port: int


class ControllerChannel:
    """One connection to the active controller.

    Args:
        leader: returns the active controller as the quorum knows it; None while it is unknown.
        handle_here: answers a request while this node is the active controller. Raises KafkaError
            NOT_CONTROLLER when it is not any more.
        attempt_timeout_ms: the timeout of a single attempt, after which the next one is made.
        problem: returns the reason why no leader is known, if that is known.
    """

    def __init__(
        self,
        node_id: int,
        dial: Dial,
        leader: Callable[[], ControllerAddress | None],
        handle_here: Callable[[Message], Awaitable[Message]],
        *,
        client_id: str,
        rng: random.Random,
        attempt_timeout_ms: float,
        settings: PeerSettings | None = None,
        problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._node_id = node_id
        self._dial = dial
        self._leader = leader
        self._handle_here = handle_here
        self._client_id = client_id
        self._rng = rng
        self._attempt_timeout_ms = attempt_timeout_ms
        self._settings = settings
        self._problem = problem
        self._loop = asyncio.get_running_loop()
        self._peer: Peer | None = None
        self._peer_is: ControllerAddress | None = None
        self._moved: asyncio.Future[None] = self._loop.create_future()
        self._closed = False

    async def call(
        self, request: Message, response_type: type[Response], timeout_ms: float | None = None
    ) -> Response:
        """Return the active controller's response.

        Raises PeerTimedOut if there is none within ``timeout_ms`` (None: no limit) or the channel is closed,
        PeerViolation if the controller does not serve the API, and any KafkaError that this node's own
        controller raised.
        """
        deadline_s = float("inf") if timeout_ms is None else self._loop.time() + timeout_ms / 1000
        failure = "no active controller is known"
        while True:
            if self._closed:
                raise PeerTimedOut("the node is stopping")
            remaining_ms = (deadline_s - self._loop.time()) * 1000
            if remaining_ms <= 0:
                raise PeerTimedOut(f"the active controller did not answer in time: {failure}")
            address = self._leader()
            if address is None:
                failure = self._problem() or failure
            else:
                try:
                    response = await self._attempt(address, request, remaining_ms)
                except PeerViolation:
                    raise
                except PeerError as error:
                    failure = str(error)
                else:
                    if not _has_moved(response):
                        assert isinstance(response, response_type), type(response).__name__
                        return response
                    failure = f"node {address.node_id} is not the active controller"
                log.debug("request to the controller failed error=%s", failure)
            await self.wait_for_controller_change(min(RETRY_BACKOFF_MS, remaining_ms))

    @property
    def is_here(self) -> bool:
        """Whether this node is the active controller, as the quorum knows now."""
        leader = self._leader()
        return leader is not None and leader.node_id == self._node_id

    @property
    def versions(self) -> PeerVersions | None:
        """The APIs of the active controller; None if it is this node or is not connected."""
        peer = self._peer
        return None if peer is None or self._leader() != self._peer_is else peer.versions

    def leader_changed(self) -> None:
        """Make calls that wait for the former leader's answer ask the new leader."""
        if self._peer is not None and self._leader() != self._peer_is:
            self._drop_peer("the active controller has moved")
        if self._closed:
            return
        moved, self._moved = self._moved, self._loop.create_future()
        moved.set_result(None)

    def close(self) -> None:
        """Drop the connection; waiting calls fail with PeerTimedOut."""
        self._closed = True
        self._drop_peer("closed by this node")
        if not self._moved.done():
            self._moved.set_result(None)

    async def _attempt(self, address: ControllerAddress, request: Message, remaining_ms: float) -> Message:
        timeout_ms = min(self._attempt_timeout_ms, remaining_ms)
        if address.node_id == self._node_id:
            return await self._answer_here(request, timeout_ms)
        if self._peer is None or self._peer_is != address:
            self._drop_peer("the active controller has moved")
            self._peer_is = address
            self._peer = Peer(
                self._dial,
                address.host,
                address.port,
                node_id=address.node_id,
                client_id=self._client_id,
                rng=self._rng,
                settings=self._settings,
            )
        return await self._peer.call(request, Message, timeout_ms)

    async def _answer_here(self, request: Message, timeout_ms: float) -> Message:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self._handle_here(request)
        except KafkaError as error:
            if error.code is not ErrorCode.NOT_CONTROLLER:
                raise
            raise PeerTimedOut(str(error)) from None
        except TimeoutError:
            raise PeerTimedOut(f"{type(request).__name__} was not answered on this node in time") from None

    async def wait_for_controller_change(self, at_most_ms: float) -> None:
        """Wait until the quorum reports a change of the active controller, at most ``at_most_ms``."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_ms / 1000):
                await asyncio.shield(self._moved)

    def _drop_peer(self, reason: str) -> None:
        peer, self._peer, self._peer_is = self._peer, None, None
        if peer is not None:
            log.debug("disconnecting peer=%s reason=%s", peer, reason)
            peer.close()


def _has_moved(response: Message) -> bool:
    """Whether a former controller has answered. CreateTopics has no error codes but those of its topics."""
    if hasattr(response, "error_code"):
        return bool(response.error_code == ErrorCode.NOT_CONTROLLER)
    return any(topic.error_code == ErrorCode.NOT_CONTROLLER for topic in getattr(response, "topics", ()))
