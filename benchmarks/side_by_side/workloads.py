"""The work of rows with the raw client: prepare a topic, measure one run, clean up."""

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass

from penstock.protocol.compression import Codec
from side_by_side.brokers import drop_from_page_cache
from side_by_side.data import Data
from side_by_side.session import Configs, Measurement, Outcome, RunFailed, Session

MIB = 1 << 20
GB = 1e9


class Workload(ABC):
    """One row's work on one topic; the same for both brokers."""

    @property
    @abstractmethod
    def value_bytes(self) -> int | None:
        """The size of each record's value, or None if megabytes have no meaning."""

    @property
    def fixed_rate(self) -> bool:
        """Whether the client sets the pace: such a row measures latency, not what the broker can do."""
        return False

    @property
    def partitions(self) -> int:
        return 1

    @property
    def topic_config(self) -> Configs:
        return ()

    def run(self, session: Session) -> Measurement:
        """Prepare, measure, clean up.

        Raises:
            RunFailed: a client or the broker failed.
        """
        topic = session.create_topic(self.partitions, self.topic_config)
        try:
            self.prepare(session, topic)
            session.settle()
            return session.measured(lambda: self.act(session, topic), self.value_bytes)
        finally:
            if session.broker.running():
                session.delete_topic(topic)

    def prepare(self, session: Session, topic: str) -> None:  # noqa: B027 - nothing, for most
        """Prepare the topic, unmeasured."""

    @abstractmethod
    def act(self, session: Session, topic: str) -> Outcome:
        """Do the measured work."""


@dataclass(frozen=True)
class Produce(Workload):
    """The raw client produces a fixed number of bytes, five requests in flight on each connection."""

    data: Data
    payload_bytes: float = 2 * GB
    partitions: int = 16
    per_request: int = 16
    connections: int = 10
    acks: int = 1
    idempotent: bool = False
    requests_per_s: int = 0
    topic_config: Configs = ()
    over_tls: bool = False

    @property
    def value_bytes(self) -> int:
        return self.data.size_bytes

    @property
    def fixed_rate(self) -> bool:
        return self.requests_per_s > 0

    def act(self, session: Session, topic: str) -> Outcome:
        per_request_bytes = self.data.per_batch * self.data.size_bytes * self.per_request
        command = session.raw_client(
            "produce",
            topic,
            batches=session.batches(self.data),
            requests=session.scaled(self.payload_bytes / per_request_bytes, least=100),
            partitions=self.partitions,
            per_request=self.per_request,
            connections=self.connections,
            acks=self.acks,
            idempotent=int(self.idempotent),
            rate=self.requests_per_s,
            over_tls=self.over_tls,
        )
        return session.outcome(command)


@dataclass(frozen=True)
class Consume(Workload):
    """The raw client reads data in the page cache repeatedly; each partition has a reader."""

    data: Data
    payload_bytes: float = 4 * GB
    partitions: int = 16
    connections: int = 10
    log_bytes: float = 1 * GB
    over_tls: bool = False

    @property
    def value_bytes(self) -> int:
        return self.data.size_bytes

    def prepare(self, session: Session, topic: str) -> None:
        session.fill(topic, self.data, session.scaled(self.log_bytes), self.partitions)

    def act(self, session: Session, topic: str) -> Outcome:
        shrunk = session.log_bytes(topic) / session.scaled(self.log_bytes)  # ratio of batches to their values
        wanted = int(session.scaled(self.payload_bytes) * shrunk)
        alike = int(self.data.codec == Codec.NONE)
        options = {"partitions": self.partitions, "connections": self.connections, "uniform": alike}
        command = session.raw_client("fetch", topic, over_tls=self.over_tls, bytes=wanted, **options)
        return session.outcome(command)


@dataclass(frozen=True)
class ConsumeCold(Workload):
    """One connection reads a log that was not read for long: every byte comes from the disk."""

    size_bytes: int = 1024
    log_bytes: float = 5 * GB
    partitions: int = 4

    @property
    def value_bytes(self) -> int:
        return self.size_bytes

    def prepare(self, session: Session, topic: str) -> None:
        session.fill(topic, Data(self.size_bytes), session.scaled(self.log_bytes), self.partitions)
        drop_from_page_cache(session.broker.data_dir)

    def act(self, session: Session, topic: str) -> Outcome:
        return session.outcome(self.reader(session, topic))

    def reader(self, session: Session, topic: str) -> list[str]:
        """Return the command of the client that reads the log once."""
        wanted = session.log_bytes(topic) - MIB  # less than the log, or the client would wait at its end
        return session.raw_client("fetch", topic, bytes=wanted, partitions=self.partitions, uniform=1)


@dataclass(frozen=True)
class Compaction(Workload):
    """The time that the cleaner takes for a log in which each key occurs ten times."""

    size_bytes: int = 1000
    keys: int = 100_000
    log_bytes: float = 1 * GB
    segment_bytes: int = 16 * MIB

    @property
    def value_bytes(self) -> int:
        return self.size_bytes

    @property
    def topic_config(self) -> Configs:
        not_yet = ("min.cleanable.dirty.ratio", "1.0")
        return (("cleanup.policy", "compact"), ("segment.bytes", str(self.segment_bytes)), not_yet)

    def data(self, session: Session) -> Data:
        """Return data that has each key once."""
        return Data(self.size_bytes, keys=session.scaled(self.keys, least=1000))

    def prepare(self, session: Session, topic: str) -> None:
        session.fill(topic, self.data(session), session.scaled(self.log_bytes))

    def act(self, session: Session, topic: str) -> Outcome:
        before = session.log_bytes(topic)
        target = 1.3 * session.batches(self.data(session)).stat().st_size + 2 * self.segment_bytes
        session.set_topic_config(topic, "min.cleanable.dirty.ratio", "0.01")
        began_s = time.monotonic()
        while (left := session.log_bytes(topic)) > target:
            if time.monotonic() - began_s > 120 or not session.broker.running():
                raise RunFailed(f"not compacted: {left} of {before} bytes are left")
            time.sleep(0.02)
        return Outcome(time.monotonic() - began_s, before // self.size_bytes)


@dataclass(frozen=True)
class Transactions(Workload):
    """Transactions of 100 records to one partition, one after another on every connection; each is timed."""

    connections: int = 1
    transactions: int = 1000
    partitions: int = 16
    size_bytes: int = 100

    @property
    def value_bytes(self) -> int:
        return self.size_bytes

    def act(self, session: Session, topic: str) -> Outcome:
        command = session.raw_client(
            "transactions",
            topic,
            batches=session.batches(Data(self.size_bytes, records_per_batch=100)),
            requests=session.scaled(self.transactions, least=self.connections),
            partitions=self.partitions,
            connections=self.connections,
        )
        return session.outcome(command)
