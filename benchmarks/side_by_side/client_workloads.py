"""The work of rows with ordinary clients: librdkafka and Kafka's own performance tools."""

import re
import subprocess
from dataclasses import dataclass

from side_by_side.data import Data
from side_by_side.session import Outcome, RunFailed, Session
from side_by_side.workloads import ConsumeCold, Workload

LIBRDKAFKA_SETTINGS = ("linger.ms=5", "queue.buffering.max.messages=500000")
PERCENTILES = re.compile(r"(\d+) ms 50th, \d+ ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th")


@dataclass(frozen=True)
class EndToEnd(Workload):
    """From librdkafka's producer to its consumer at a fixed rate, with each record timed."""

    records_per_s: int = 1_000
    seconds: float = 10
    size_bytes: int = 100

    @property
    def value_bytes(self) -> int:
        return self.size_bytes

    @property
    def fixed_rate(self) -> bool:
        return True

    def act(self, session: Session, topic: str) -> Outcome:
        count = session.scaled(self.records_per_s * self.seconds, least=1000)
        words = (session.broker.bootstrap, topic, self.size_bytes, count, self.records_per_s, "acks=all")
        return session.outcome(session.loadgen.command("latency", *words))


@dataclass(frozen=True)
class EndToEndBesideCold(ConsumeCold):
    """The same while another client reads gigabytes of cold data from the same broker."""

    live: EndToEnd = EndToEnd(seconds=5, size_bytes=1024)

    @property
    def fixed_rate(self) -> bool:
        return True

    def act(self, session: Session, topic: str) -> Outcome:
        live_topic = session.create_topic()
        reader = subprocess.Popen(self.reader(session, topic), stdout=subprocess.DEVNULL)
        try:
            return self.live.act(session, live_topic)
        finally:
            reader.kill()
            reader.wait()
            session.delete_topic(live_topic)


@dataclass(frozen=True)
class LibrdkafkaProduce(Workload):
    """One librdkafka producer at full speed."""

    size_bytes: int
    records: int
    settings: tuple[str, ...] = ("acks=1",)
    partitions: int = 4

    @property
    def value_bytes(self) -> int:
        return self.size_bytes

    def act(self, session: Session, topic: str) -> Outcome:
        words = (topic, self.size_bytes, session.scaled(self.records), *LIBRDKAFKA_SETTINGS, *self.settings)
        return session.outcome(session.loadgen.command("produce", session.broker.bootstrap, *words))


@dataclass(frozen=True)
class ReadOnce(Workload):
    """A topic with a known number of records that a client reads from the beginning."""

    size_bytes: int
    records: int
    partitions: int = 4

    @property
    def value_bytes(self) -> int:
        return self.size_bytes

    def prepare(self, session: Session, topic: str) -> None:
        payload_bytes = session.scaled(self.records) * self.size_bytes
        session.fill(topic, Data(self.size_bytes), payload_bytes, self.partitions)


class LibrdkafkaConsume(ReadOnce):
    """One librdkafka consumer at full speed."""

    def act(self, session: Session, topic: str) -> Outcome:
        words = (session.broker.bootstrap, topic, session.scaled(self.records))
        return session.outcome(session.loadgen.command("consume", *words))


class JavaConsume(ReadOnce):
    """`kafka-consumer-perf-test.sh`: one Java consumer, timed without the rebalance."""

    def act(self, session: Session, topic: str) -> Outcome:
        count = session.scaled(self.records)
        words = ("--bootstrap-server", session.broker.bootstrap, "--topic", topic, "--num-records", count)
        last = (
            session.run(session.java("ConsumerPerformance", *words, "--hide-header")).strip().splitlines()[-1]
        )
        cells = [cell.strip() for cell in last.split(",")]
        if len(cells) != 10:
            raise RunFailed(f"unexpected line from ConsumerPerformance: {last}")
        fetch_s = float(cells[7]) / 1000
        return Outcome(fetch_s, int(cells[4]))


@dataclass(frozen=True)
class JavaProduce(Workload):
    """`kafka-producer-perf-test.sh` with the producer's defaults (acks=all, idempotent), at full speed."""

    size_bytes: int
    records: int
    transaction_ms: int = 0
    partitions: int = 4

    @property
    def value_bytes(self) -> int:
        return self.size_bytes

    def act(self, session: Session, topic: str) -> Outcome:
        count = session.scaled(self.records)
        words: list[object] = ["--bootstrap-server", session.broker.bootstrap, "--topic", topic]
        words += ["--num-records", count, "--record-size", self.size_bytes, "--throughput", -1]
        if self.transaction_ms:
            words += ["--transactional-id", topic, "--transaction-duration-ms", self.transaction_ms]
        last = session.run(session.java("ProducerPerformance", *words)).strip().splitlines()[-1]
        rate, found = re.search(r"sent, ([\d.]+) records/sec", last), PERCENTILES.search(last)
        if rate is None or found is None:
            raise RunFailed(f"unexpected line from ProducerPerformance: {last}")
        p50_ms, p99_ms, p999_ms = (float(text) for text in found.groups())
        return Outcome(count / float(rate[1]), count, p50_ms, p99_ms, p999_ms)
