"""The command topic: the log of a service's statements, in one partition.

The engine reads it from its beginning when it starts, and writes to it in transactions. A server that starts
takes over the service's transactional id, which fences the server that had it before.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Final, NamedTuple

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster
from penstock.client.connections.metadata import TopicPartition
from penstock.client.errors import ClientError, TransactionLost
from penstock.client.producing.producer import Producer, ProducerConfig
from penstock.client.producing.transactor import LOST, Transactor
from penstock.client.reading.fetcher import FetchConfig, Fetcher, PartitionRange
from penstock.client.reading.offsets import EARLIEST, LATEST, IsolationLevel, list_offsets
from penstock.protocol.records import Record, decode_batches, encode_batch

_TRANSACTION_TIMEOUT_MS: Final = 60_000
_LOOK_S: Final = 0.002
"""The pause between attempts to read a command that was just committed."""


class Fenced(ClientError):
    """Another server has taken over the service; the command was not written."""


class OutcomeUnknown(ClientError):
    """The brokers did not answer, so the command may have been written. `CommandTopic.settle` finds out."""


class NotSeen(ClientError):
    """A command was written but can't be read yet, because an earlier transaction is still open."""


class Appended(NamedTuple):
    """A record of the topic at its offset."""

    offset: int
    key: bytes | None
    value: bytes | None


class _Last(Enum):
    """The outcome of the last command, as far as it is known."""

    SETTLED = "its outcome is known"
    GIVEN_UP = "it was not written; its transaction may still be open"
    WRITTEN = "it was written, and has not been read"
    UNKNOWN = "the request to commit its transaction was not answered"


class CommandTopic:
    """The command topic of one service, for one thread at a time. All methods raise ClientError.

    ``seen_timeout_s`` limits how long `append` waits until it can read a command that was written.
    """

    def __init__(self, config: ClientConfig, name: str, seen_timeout_s: float) -> None:
        self.name = name
        self._seen_timeout_s = seen_timeout_s
        self._tp = TopicPartition(name, 0)
        self._cluster = Cluster(config)
        self._fetcher = Fetcher(self._cluster, FetchConfig(isolation_level="read_committed"))
        self._transactor = Transactor(self._cluster, name, _TRANSACTION_TIMEOUT_MS)
        self._position = 0
        self._last = _Last.SETTLED
        self._command: tuple[bytes, bytes] = (b"", b"")
        self._read: list[Appended] = []

    def start(self) -> None:
        """Fence any server that wrote to the topic, and start at its beginning."""
        self._transactor.begin()
        self._position = list_offsets(self._cluster, {self._tp: EARLIEST})[self._tp].offset

    def close(self) -> None:
        self._fetcher.close()
        self._cluster.close()

    def read(self) -> list[Appended]:
        """The records that were committed since the last call."""
        end = self._end(IsolationLevel.READ_COMMITTED)
        found: list[Appended] = []
        for fetched in self._fetcher.read([PartitionRange(self.name, 0, self._position, end)]):
            found += [
                Appended(record.offset, record.key, record.value)
                for record in decode_batches(fetched.batches)
                if self._position <= record.offset < end
            ]
        self._position = max(self._position, end)
        return found

    def _end(self, isolation: IsolationLevel) -> int:
        return list_offsets(self._cluster, {self._tp: LATEST}, isolation)[self._tp].offset

    @property
    def is_settled(self) -> bool:
        """Whether the outcome of the last command is known."""
        return self._last not in (_Last.WRITTEN, _Last.UNKNOWN)

    def append(self, key: bytes, value: bytes) -> list[Appended]:
        """Write one record and wait until it is committed.

        The outcome of the previous command must be known. Returns the records that were committed since the
        last call, this one at the end. Raises Fenced, OutcomeUnknown or NotSeen; after any other error the
        record was not written.
        """
        if self._last is _Last.GIVEN_UP:
            self._resume()
        self._last, self._command, self._read = _Last.GIVEN_UP, (key, value), []
        try:
            self._send(key, value)
        except ClientError as error:
            if _is_fenced(error):
                raise Fenced(str(error)) from error
            raise
        self._last = _Last.UNKNOWN
        try:
            self._transactor.end(commit=True)
        except ClientError as error:
            return self._without_answer(error)
        self._last = _Last.WRITTEN
        deadline = time.monotonic() + self._seen_timeout_s
        while True:
            try:
                return self.settle()
            except NotSeen:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_LOOK_S)

    def _without_answer(self, error: ClientError) -> list[Appended]:
        """Find out whether a commit without an answer was executed."""
        try:
            found = self.settle()
        except Fenced:
            raise
        except ClientError as still:
            raise OutcomeUnknown(f"{error}; then {still}") from error
        if not found:
            raise error
        return found

    def settle(self) -> list[Appended]:
        """Find out the outcome of the last command.

        Returns the records that were committed since the last call, up to that command; nothing if it was
        not written. Raises Fenced or NotSeen; after any other error nothing has changed.
        """
        fenced: Fenced | None = None
        end = 0
        if self._last is _Last.UNKNOWN:
            try:
                self._resume()
            except Fenced as error:  # the server that took over has also ended this transaction
                fenced = error
            end = self._end(IsolationLevel.READ_UNCOMMITTED)
        self._read += self.read()
        places = [(each.key, each.value) for each in self._read]
        if self._command in places:
            self._last = _Last.SETTLED
            return self._read[: places.index(self._command) + 1]
        if self._last is _Last.WRITTEN or self._position < end:
            raise NotSeen(f"the command can't be read yet: a transaction in {self.name} is still open")
        self._last = _Last.SETTLED
        if fenced is not None:
            raise fenced
        return self._read

    def _resume(self) -> None:
        """End a transaction that may be open, and continue. Raises Fenced if another server took over."""
        try:
            self._transactor.begin(resumed=True)
        except ClientError as error:
            if _is_fenced(error):
                raise Fenced(str(error)) from error
            raise

    def _send(self, key: bytes, value: bytes) -> None:
        self._transactor.add_partitions([self._tp])
        record = Record(0, time.time_ns() // 1_000_000, key, value)
        transaction = self._transactor.transaction
        config = ProducerConfig(delivery_timeout_ms=self._cluster.config.api_timeout_ms)
        producer = Producer(self._cluster, config, create_topics=False, transaction=transaction)
        try:
            producer.send(self.name, 0, bytearray(encode_batch([record], transactional=True)))
            producer.flush()
        finally:
            producer.close()


def _is_fenced(error: ClientError) -> bool:
    return isinstance(error, TransactionLost) or getattr(error.__cause__, "code", None) in LOST
