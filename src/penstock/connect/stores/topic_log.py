"""Follow all partitions of a worker's topic, and wait until everything in it has been replayed.

This is the place of Connect's KafkaBasedLog, on the client's `Follower`, which retries forever and therefore
survives changes of leaders. Records of transactions are replayed once they are committed, in any mode of the
worker: an Apache worker without exactly-once sources also reads those that are aborted later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Protocol

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.reading.follower import Committed, Follower
from penstock.client.reading.offsets import LATEST, list_offsets
from penstock.connect.errors import ConnectError
from penstock.protocol.records import Record, decode_batches

log = logging.getLogger(__name__)

# The longest wait of a fetch on a quiet topic; a fetch returns at once when there are new records.
_MAX_WAIT_MS: Final = 500
# The timeout of one request for the ends of the partitions; it is repeated until the caller's deadline.
_ATTEMPT_MS: Final = 1_000


class TopicState(Protocol):
    """The state that a topic's records build. Its methods are called in the follower's thread."""

    def replay(self, partition: int, record: Record) -> None:
        """Apply the next record of a partition."""

    def restart(self, partition: int) -> None:
        """Forget the partition's records: its log was truncated or replaced, and is read again."""


class TopicLog:
    """The follower of one topic, which feeds a `TopicState`. Any thread may call its methods."""

    def __init__(self, config: ClientConfig, topic: str, state: TopicState) -> None:
        self.topic = topic
        self._state = state
        self._ends = Cluster(replace(config, api_timeout_ms=min(config.api_timeout_ms, _ATTEMPT_MS)))
        self._ends_lock = threading.Lock()
        self._changed = threading.Condition()
        self._partitions: tuple[TopicPartition, ...] = ()
        self._positions: dict[TopicPartition, int] = {}
        self._again: set[TopicPartition] = set()
        """Partitions whose log was replaced. The old state holds until the new log can be read."""
        self._error: BaseException | None = None
        self._follower = Follower(
            config,
            FetchConfig(max_wait_ms=_MAX_WAIT_MS),
            [topic],
            lambda _, count: range(count),
            self,
            name=f"connect follower {topic}",
        )

    def start(self, partitions: int, timeout_s: float) -> None:
        """Replay all records that are in the topic now. Raises ConnectError and TimeoutError."""
        self._partitions = tuple(TopicPartition(self.topic, number) for number in range(partitions))
        self._follower.start()
        self.read_to_end(timeout_s)

    def interrupt(self) -> None:
        """Let calls of `read_to_end` in other threads fail."""
        self.failed(ConnectError("the worker stops"))

    def close(self) -> None:
        self._follower.close()
        self._ends.close()

    def read_to_end(self, timeout_s: float) -> None:
        """Return once every record is replayed that was in the topic at the time of the call.

        Records of an open transaction count: they are waited for until it ends. Raises ConnectError if the
        topic can no longer be followed, and TimeoutError.
        """
        deadline_s = time.monotonic() + timeout_s
        ends = self._end_offsets(deadline_s)

        def behind() -> list[TopicPartition]:
            return [tp for tp, end in ends.items() if self._positions.get(tp, -1) < end]

        with self._changed:
            self._changed.wait_for(
                lambda: self._error is not None or not behind(), max(0.0, deadline_s - time.monotonic())
            )
            if self._error is not None:
                raise ConnectError(
                    f"topic '{self.topic}' is no longer followed: {self._error}"
                ) from self._error
            if behind():
                raise TimeoutError(
                    f"topic '{self.topic}' was not read to its end within {timeout_s:g} s:"
                    f" {self._follower.trouble or f'{len(behind())} partitions are behind'}"
                )

    def _end_offsets(self, deadline_s: float) -> dict[TopicPartition, int]:
        """The high watermarks: a last stable offset would leave out what is being committed."""
        if not self._ends_lock.acquire(timeout=max(0.0, deadline_s - time.monotonic())):
            raise TimeoutError(f"topic '{self.topic}': other readers wait for its end offsets")
        try:
            while True:
                try:
                    listed = list_offsets(self._ends, dict.fromkeys(self._partitions, LATEST))
                    return {tp: each.offset for tp, each in listed.items()}
                except ClientError as error:
                    if time.monotonic() >= deadline_s:
                        raise TimeoutError(f"no end offsets of topic '{self.topic}': {error}") from error
                    if not error.retriable:
                        raise ConnectError(f"no end offsets of topic '{self.topic}': {error}") from error
                    # The leader may be dead, and another broker lead the partition by now.
                    self._ends.forget([self.topic])
        finally:
            self._ends_lock.release()

    # The follower calls these methods.

    def counted(self, partitions: Mapping[str, int]) -> None:
        """Do nothing: partitions that are added later are followed, but not waited for."""

    def dropped(self, tp: TopicPartition) -> None:
        """Keep the state of a partition that is gone until another one takes its place."""

    def begin(self, tp: TopicPartition, offset: int) -> None:
        with self._changed:
            if tp in self._positions:
                log.warning("a partition is read again from its beginning partition=%s", tp)
                self._again.add(tp)
            self._positions[tp] = offset

    def take(self, arrived: Mapping[TopicPartition, Committed]) -> None:
        for tp, found in arrived.items():
            if tp in self._again:
                self._again.remove(tp)
                self._state.restart(tp.partition)
            position = self._positions[tp]
            for span in found.spans:
                for record in decode_batches(span):
                    if record.offset >= position:
                        self._state.replay(tp.partition, record)
        with self._changed:
            for tp, found in arrived.items():
                self._positions[tp] = max(self._positions[tp], found.next_offset)
            self._changed.notify_all()

    def failed(self, error: BaseException) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()
