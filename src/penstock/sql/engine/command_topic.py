"""The log of a service's statements: one partition, read from its beginning when the engine starts, and
written to in transactions. Who starts takes the transactional id of the service over: a server that had it
before can't write any more.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from penstock.client.cluster import Cluster
from penstock.client.config import ClientConfig
from penstock.client.errors import ClientError, TransactionLost
from penstock.client.fetcher import FetchConfig, Fetcher, PartitionRange
from penstock.client.metadata import TopicPartition
from penstock.client.offsets import EARLIEST, LATEST, IsolationLevel, list_offsets
from penstock.client.producer import Producer, ProducerConfig
from penstock.client.topics import BROKER_DEFAULT, NewTopic, create_topics
from penstock.client.transactor import LOST, Transactor
from penstock.protocol.records import Record, decode_batches, encode_batch
from penstock.sql.engine.config import EngineConfig

_TRANSACTION_TIMEOUT_MS: Final = 60_000
_COMMITTED_TIMEOUT_S: Final = 30.0
_LOOK_S: Final = 0.002
_CONFIG: Final = {"cleanup.policy": "delete", "retention.ms": "-1"}


class Fenced(ClientError):
    """Another server has taken the service over."""


def make_topic(config: EngineConfig) -> None:
    """Make a service's topic if it is not there. Raises ClientError."""
    told = config.values.get("ksql.internal.topic.replicas")
    replicas = BROKER_DEFAULT if told is None else int(told)
    with Cluster(config.client) as cluster:
        create_topics(cluster, [NewTopic(config.command_topic, 1, _CONFIG, replication_factor=replicas)])


class Appended(NamedTuple):
    """A record of the topic at its offset."""

    offset: int
    key: bytes | None
    value: bytes | None


class CommandTopic:
    """Belongs to one thread at a time. Raises ClientError."""

    def __init__(self, config: ClientConfig, name: str) -> None:
        self.name = name
        self._tp = TopicPartition(name, 0)
        self._cluster = Cluster(config)
        self._fetcher = Fetcher(self._cluster, FetchConfig(isolation_level="read_committed"))
        self._transactor = Transactor(self._cluster, name, _TRANSACTION_TIMEOUT_MS)
        self._position = 0

    def start(self) -> None:
        """Fence whoever wrote to it."""
        self._transactor.begin()
        self._position = list_offsets(self._cluster, {self._tp: EARLIEST})[self._tp].offset

    def close(self) -> None:
        self._fetcher.close()
        self._cluster.close()

    def read(self) -> list[Appended]:
        """What was committed since the last call."""
        listed = list_offsets(self._cluster, {self._tp: LATEST}, IsolationLevel.READ_COMMITTED)
        end = listed[self._tp].offset
        found: list[Appended] = []
        for fetched in self._fetcher.read([PartitionRange(self.name, 0, self._position, end)]):
            found += [
                Appended(record.offset, record.key, record.value)
                for record in decode_batches(fetched.batches)
                if self._position <= record.offset < end
            ]
        self._position = max(self._position, end)
        return found

    def append(self, key: bytes, value: bytes) -> list[Appended]:
        """Write one record and wait until it is committed; what was committed since the last call, this
        record at the end. Raises Fenced.
        """
        try:
            self._write(key, value)
        except ClientError as error:
            if isinstance(error, TransactionLost) or getattr(error.__cause__, "code", None) in LOST:
                raise Fenced(str(error)) from error
            self._transactor.begin()  # whether it was committed is settled then
            if found := self.read():
                return found
            raise
        deadline = time.monotonic() + _COMMITTED_TIMEOUT_S
        while not (found := self.read()):
            if time.monotonic() > deadline:
                raise ClientError(f"a command was not committed to {self.name} in {_COMMITTED_TIMEOUT_S} s")
            time.sleep(_LOOK_S)
        return found

    def _write(self, key: bytes, value: bytes) -> None:
        self._transactor.add_partitions([self._tp])
        record = Record(0, time.time_ns() // 1_000_000, key, value)
        transaction = self._transactor.transaction
        producer = Producer(self._cluster, ProducerConfig(), create_topics=False, transaction=transaction)
        try:
            producer.send(self.name, 0, bytearray(encode_batch([record], transactional=True)))
            producer.flush()
        finally:
            producer.close()
        self._transactor.end(commit=True)
