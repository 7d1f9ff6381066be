"""Fetch from one leader: one task with one connection.

One request is in flight, which the leader may hold for a while. If partitions are added meanwhile, for
example after an election, a second request follows at once. Our leader then answers the first one early;
other leaders answer the second after the first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from penstock.broker.following.following import Following
from penstock.broker.following.leader_offsets import ask_offsets
from penstock.broker.following.response_size import ResponseSize
from penstock.broker.peers import PeerError
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import FetchRequest, FetchResponse
from penstock.storage.errors import LogError

if TYPE_CHECKING:
    from penstock.broker.following.leader_session import PartitionKey
    from penstock.broker.following.throttle import ReplicationThrottle
    from penstock.broker.partitions.replicated_partition import ReplicatedPartition
    from penstock.broker.peers import Peer

log = logging.getLogger(__name__)

BYTES_PER_TURN: Final = 1024 * 1024
"""The fetcher yields to other tasks after appending this many bytes."""

SESSION_ERRORS: Final = frozenset(
    {ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH}
)
"""The leader has dropped the session; a new one is opened at once."""


class FetcherSettings(NamedTuple):
    """Broker configs of a follower, under Kafka's names."""

    replica_fetch_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_backoff_ms: int
    replica_socket_timeout_ms: int


class FollowerContext(Protocol):
    """The parts of the node that a fetcher needs."""

    @property
    def node_id(self) -> int: ...
    @property
    def fetcher_settings(self) -> FetcherSettings: ...
    @property
    def follower_throttle(self) -> ReplicationThrottle: ...
    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def own_epoch(self) -> int:
        """The broker epoch of this node."""

    @property
    def settled(self) -> Callable[[], Awaitable[None]] | None:
        """Waits until the appended records are durable; None if the leader may learn of them before.

        Raises StorageFailed.
        """

    @property
    def note_log_starts(self) -> Callable[[], Awaitable[None]]:
        """Writes down the start offsets of all logs. Raises OSError."""

    def peer(self, leader_id: int, former: Peer | None, fetcher: int) -> Peer | None:
        """A connection to the broker's current address (`former` if still correct); None if it has none."""


class _Call(NamedTuple):
    """A request in flight."""

    number: int
    response: asyncio.Task[FetchResponse]


class Fetcher:
    """The follower of one leader in the partitions that were added to it.

    ``number`` distinguishes it from the node's other fetchers of that leader.
    """

    def __init__(self, leader_id: int, context: FollowerContext, number: int) -> None:
        self.leader_id = leader_id
        self.number = number
        self.requests = 0
        self._context = context
        settings = context.fetcher_settings
        self.following = Following(
            leader_id,
            settings.replica_fetch_max_bytes,
            settings.replica_fetch_backoff_ms,
            context.follower_throttle,
        )
        self._response_size = ResponseSize(settings.replica_fetch_response_max_bytes)
        self._wake = asyncio.Event()
        self._peer: Peer | None = None
        self._is_waiting = False
        """Whether a request is in flight."""
        self._hurry_handle: asyncio.Handle | None = None
        self._hurried: _Call | None = None
        """The second request in flight."""
        self._task: asyncio.Task[None] = context.loop.create_task(self._run())

    def add(self, partition: ReplicatedPartition) -> None:
        """Follow the leader in a partition; see `Following.add`."""
        self.following.add(partition)
        self._wake.set()
        if self._hurry_handle is None:  # at the end of this turn, with all partitions added by then
            self._hurry_handle = self._context.loop.call_soon(self._hurry)

    def remove(self, key: PartitionKey) -> None:
        """Stop following the leader in the partition."""
        self.following.remove(key)

    async def close(self) -> None:
        """Stop, and cancel requests in flight."""
        tasks = [self._task] if self._hurried is None else [self._task, self._hurried.response]
        if self._hurry_handle is not None:
            self._hurry_handle.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    async def _run(self) -> None:
        while True:
            try:
                await self._fetch_once()
            except Exception:
                log.exception("fetcher failed leader=%d", self.leader_id)
                self._rest_all()
                await asyncio.sleep(self._context.fetcher_settings.replica_fetch_backoff_ms / 1000)

    def _rest_all(self) -> None:
        self.following.rest_all(self._context.loop.time())

    async def _fetch_once(self) -> None:
        following, now_s = self.following, self._context.loop.time()
        if following.starts_moved and not await self._note_starts():
            return
        if self._hurried is None:
            if not following.prepare(now_s):
                await self._pause(following.wakes_in_s(now_s))
                return
            self._peer = self._context.peer(self.leader_id, self._peer, self.number)
            if self._peer is None:
                self._rest_all()  # until the leader is registered again
                return
        try:
            number, response = await self._call(now_s)
        except PeerError as error:
            log.info("fetch failed leader=%d error=%s", self.leader_id, error)
            self._rest_all()
            return
        error_code = ErrorCode.of(response.error_code)
        if following.session.answered(number, error_code, response.session_id):
            await self._take(response, number)
            if self._context.settled is not None:
                await self._settle(self._context.settled)
        elif error_code is not ErrorCode.NONE and error_code not in SESSION_ERRORS:
            log.warning("fetch refused leader=%d error=%s", self.leader_id, error_code.name)
            self._rest_all()

    async def _call(self, now_s: float) -> tuple[int, FetchResponse]:
        """Return the answer to the second request, if one was sent, or to a new one. Raises PeerError."""
        if self._hurried is not None:
            (number, response), self._hurried = self._hurried, None
            return number, await response
        assert self._peer is not None
        request = self._request(self.following.wakes_in_s(now_s))
        number = self.following.session.fill(request)
        self._is_waiting = True
        try:
            return number, await self._send(self._peer, request)
        finally:
            self._is_waiting = False

    def _hurry(self) -> None:
        """Send a second request with newly added partitions while the leader holds the first one."""
        self._hurry_handle = None
        session = self.following.session
        if self._is_waiting and self._hurried is None and session.is_open and session.has_changes:
            assert self._peer is not None
            request = self._request(self.following.wakes_in_s(self._context.loop.time()))
            number = session.fill(request)
            self._hurried = _Call(number, self._context.loop.create_task(self._send(self._peer, request)))

    async def _send(self, peer: Peer, request: FetchRequest) -> FetchResponse:
        self.requests += 1
        sent_s = self._context.loop.time()
        response = await peer.call(
            request, FetchResponse, self._context.fetcher_settings.replica_socket_timeout_ms
        )
        self._response_size.answered(self._context.loop.time() - sent_s)
        return response

    async def _pause(self, wait_s: float | None) -> None:
        """Wait until a partition is added, or for `wait_s` seconds."""
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wake.wait()

    def _request(self, wakes_in_s: float | None) -> FetchRequest:
        settings = self._context.fetcher_settings
        wait_ms = settings.replica_fetch_wait_max_ms
        session = self.following.session
        if not session.is_open and not session.is_refused:
            wait_ms = 0  # open a session first: only within one can partitions be added while a request waits
        if wakes_in_s is not None:
            wait_ms = min(wait_ms, int(wakes_in_s * 1000) + 1)
        return FetchRequest(
            replica_state=FetchRequest.ReplicaState(
                replica_id=self._context.node_id, replica_epoch=self._context.own_epoch
            ),
            max_wait_ms=wait_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=self._response_size.bytes,
        )

    async def _take(self, response: FetchResponse, number: int) -> None:
        following, loop = self.following, self._context.loop
        out_of_range: list[PartitionKey] = []
        turn_bytes = 0
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                if following.take(key, data, number, loop.time()):
                    out_of_range.append(key)
                turn_bytes += len(data.records or b"")
                if turn_bytes >= BYTES_PER_TURN:
                    turn_bytes = 0
                    await asyncio.sleep(0)
        if out_of_range:
            await self._find_range(out_of_range, number)

    async def _settle(self, settled: Callable[[], Awaitable[None]]) -> None:
        """Make the appended records durable before the next request reports them (`penstock.acks.fsync`)."""
        try:
            await settled()
        except LogError as error:
            log.error("cannot sync fetched records leader=%d error=%s", self.leader_id, error)
            self._rest_all()

    async def _note_starts(self) -> bool:
        """Write down the start offsets of logs and return whether that succeeded.

        So deleted records do not reappear after the process is killed.
        """
        self.following.starts_moved = False
        try:
            await self._context.note_log_starts()
        except OSError as error:
            log.error("cannot write log start offsets leader=%d error=%s", self.leader_id, error)
            self.following.starts_moved = True
            await asyncio.sleep(self._context.fetcher_settings.replica_fetch_backoff_ms / 1000)
        return not self.following.starts_moved

    async def _find_range(self, keys: list[PartitionKey], number: int) -> None:
        assert self._peer is not None, "it has just answered"
        following = self.following
        places = following.places(keys)
        timeout_ms = self._context.fetcher_settings.replica_socket_timeout_ms
        try:
            found = await ask_offsets(self._peer, self._context.node_id, list(places.values()), timeout_ms)
        except PeerError as error:
            log.info("cannot ask for offsets leader=%d error=%s", self.leader_id, error)
            found = {}
        for key, place in places.items():
            offsets = found.get((place.topic, place.partition))
            following.go_into_range(key, offsets, number, self._context.loop.time())
