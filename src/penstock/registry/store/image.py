"""Follow the topic and keep its state in memory."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from penstock.client.config import ClientConfig
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.reading.follower import Committed, Follower
from penstock.protocol.records import decode_batches
from penstock.registry.subjects import Registry

log = logging.getLogger(__name__)

T = TypeVar("T")

# The longest wait of a fetch on a quiet topic; a fetch returns at once when there are new records.
_MAX_WAIT_MS: Final = 500
_ATTEMPTS: Final = 3


class Broken(Exception):
    """The topic can't be followed any longer; the message says why."""


class NotRead(Exception):
    """The topic has not been read to its end since the start, or since it was recreated."""


class Image:
    """A `Registry` that follows the topic. Any thread may read; only the follower's thread replays records.

    After the topic was truncated or recreated, it is read from its start into a new registry.
    """

    def __init__(self, config: ClientConfig, topic: str, make: Callable[[], Registry]) -> None:
        self._make = make
        self._registry = make()
        self._changed = threading.Condition(threading.RLock())
        self._position = 0
        self._replays = 0  # incremented before each replay, so that a reader notices one that has begun
        self._is_read = False
        self._error: BaseException | None = None
        self._follower = Follower(
            config,
            FetchConfig(max_wait_ms=_MAX_WAIT_MS),
            [topic],
            lambda *_: [0],
            self,
            name="schema registry follower",
        )

    def start(self) -> None:
        self._follower.start()

    def close(self) -> None:
        self._follower.close()

    def read(self, question: Callable[[Registry], T]) -> T:
        """Return the registry's answer as of now. Raises Broken or NotRead.

        The question runs without the lock, since comparing large schemas may take seconds. If a record was
        replayed meanwhile, the question runs again, the last time under the lock.
        """
        for _ in range(_ATTEMPTS):
            with self._changed:
                registry, replays = self._readable(), self._replays
            try:
                answer = question(registry)
            except Exception:
                if self._replays == replays:
                    raise
            else:
                if self._replays == replays:
                    return answer
        with self._changed:
            return question(self._readable())

    def _readable(self) -> Registry:
        self._check()
        if not self._is_read:
            raise NotRead(self.trouble or "the topic has not been read to its end yet")
        return self._registry

    def wait_until_read(self, timeout_s: float) -> bool:
        """Wait until all committed records are replayed; return False on timeout. Raises Broken."""
        return self._wait(lambda: self._is_read, timeout_s)

    def wait_for(self, offset: int, timeout_s: float) -> bool:
        """Wait until the record at ``offset`` is replayed; return False on timeout. Raises Broken."""
        return self._wait(lambda: self._position > offset, timeout_s)

    @property
    def trouble(self) -> str | None:
        """The reason why the follower is waiting, if it is."""
        return self._follower.trouble

    def _wait(self, is_done: Callable[[], bool], timeout_s: float) -> bool:
        with self._changed:
            done = self._changed.wait_for(lambda: self._error is not None or is_done(), timeout_s)
            self._check()
            return done

    def _check(self) -> None:
        if self._error is not None:
            raise Broken(str(self._error)) from self._error

    # The follower calls these methods.

    def counted(self, partitions: Mapping[str, int]) -> None:
        """Do nothing: `topic` has verified that there is one partition."""

    def dropped(self, tp: TopicPartition) -> None:
        """Keep the current state: the topic was deleted, and reads use this state until it is recreated."""

    def begin(self, tp: TopicPartition, offset: int) -> None:
        with self._changed:
            self._registry = self._make()
            self._replays += 1
            self._position = offset
            self._is_read = False

    def take(self, arrived: Mapping[TopicPartition, Committed]) -> None:
        with self._changed:
            for found in arrived.values():
                for span in found.spans:
                    for record in decode_batches(span):
                        if record.offset >= self._position:
                            self._replay(record.key, record.value, record.offset, record.timestamp)
                self._position = max(self._position, found.next_offset)
                self._is_read = self._is_read or self._position >= found.stable_end
            self._changed.notify_all()

    def failed(self, error: BaseException) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _replay(self, key: bytes | None, value: bytes | None, offset: int, timestamp_ms: int) -> None:
        self._replays += 1
        problem = self._registry.replay(key, value, timestamp_ms)
        if problem is not None:
            log.warning("a record was skipped offset=%d reason=%s", offset, problem)
