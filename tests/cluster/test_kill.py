"""kill -9 during full-speed producing: acknowledged records keep their offsets.

The page cache outlives the process, so every acknowledged record must be there although nothing was flushed.
PENSTOCK_SEED repeats a run's sizes and times, PENSTOCK_KILLS sets the number of kills: a few by default,
fifty and more by `make soak`.
"""

import os
import random
import threading
import time
from array import array
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from segment_tail import read_tail

from long_run import repetitions
from penstock.testing import Cluster

KILLS = repetitions("PENSTOCK_KILLS", gate=3, long=15)
PARTITIONS = 2
SEGMENT_BYTES = 1 << 20  # the smallest that Kafka 4 allows (KIP-1030)
VALUE_SIZES = (100, 2_000, 40_000)
SEQUENCE_BYTES = 8
# A kill tears large batches; small ones extend beyond the last index entry.
CLIENTS = {
    "acks-1": {"acks": "1", "batch.size": 900_000},
    "acks-all": {"acks": "all", "batch.size": 100_000},
    "idempotent": {"enable.idempotence": True, "max.in.flight.requests.per.connection": 5},
}


class Writer(threading.Thread):
    """A producer that sends numbered records at full speed and keeps the offset of each acknowledged one."""

    def __init__(self, bootstrap: str, topic: str, settings: dict[str, object], seed: int) -> None:
        super().__init__(name=topic, daemon=True)
        self.topic = topic
        # acknowledged[partition]: pairs (offset, sequence), flat
        self.acknowledged = [array("q") for _ in range(PARTITIONS)]
        self.refused: list[KafkaError] = []
        self._random = random.Random(seed)
        self._running = threading.Event()
        self._running.set()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "queue.buffering.max.kbytes": 16_384,
                "log_level": 0,
                **settings,
            }
        )

    def run(self) -> None:
        filler = self._random.randbytes(max(VALUE_SIZES))
        sequence = 0
        while self._running.is_set():
            value = sequence.to_bytes(SEQUENCE_BYTES, "big") + filler[: self._random.choice(VALUE_SIZES)]
            try:
                self._producer.produce(
                    self.topic, value, partition=sequence % PARTITIONS, on_delivery=self._delivered
                )
                sequence += 1
                self._producer.poll(0)
            except BufferError:
                self._producer.poll(0.01)
        self._producer.flush(60)

    def finish(self) -> None:
        """Stop producing and wait for pending acknowledgements."""
        self._running.clear()
        self.join(90)
        assert not self.is_alive()

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(error)
            return
        offset, value = message.offset(), message.value()
        self.acknowledged[message.partition()].extend((offset, int.from_bytes(value[:SEQUENCE_BYTES], "big")))


@pytest.mark.longer
@pytest.mark.timeout(60 + 12 * KILLS)
def test_acknowledged_records_survive_kills(tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    print(f"PENSTOCK_SEED={seed}")
    moments = random.Random(seed)
    damaged = torn = 0
    with Cluster({"log.segment.bytes": str(SEGMENT_BYTES)}, data_dir=tmp_path / "data") as cluster:
        create_topics(cluster)
        writers = [
            Writer(cluster.bootstrap_servers, topic, settings, seed + number)
            for number, (topic, settings) in enumerate(CLIENTS.items())
        ]
        for writer in writers:
            writer.start()
        for _ in range(KILLS):
            wait_for_progress(writers)
            time.sleep(moments.uniform(0.0, 0.5))
            cluster.kill()
            tails = [
                read_tail(cluster.data_dir / f"{topic}-{p}") for topic in CLIENTS for p in range(PARTITIONS)
            ]
            torn += any(tail.torn for tail in tails)
            damaged += any(tail.torn or tail.unindexed for tail in tails)
            cluster.start()
        for writer in writers:
            writer.finish()
        print(f"{KILLS} kills: {torn} left a torn batch, {damaged} a torn or unindexed tail")
        for writer in writers:
            assert not writer.refused, f"{writer.topic}: {writer.refused[:3]}"
            for partition in range(PARTITIONS):
                found = read_sequences(cluster.bootstrap_servers, writer.topic, partition)
                check_acknowledged(writer.topic, writer.acknowledged[partition], found)
                if writer.topic == "idempotent":
                    check_once_and_in_order(partition, list(found.values()))
    assert damaged >= min(10, KILLS // 5)


def create_topics(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in CLIENTS]).values():
        future.result(60)


def wait_for_progress(writers: list[Writer]) -> None:
    """Wait until each writer has had more records acknowledged, so that every kill hits active producing."""
    before = [sum(map(len, writer.acknowledged)) for writer in writers]
    deadline = time.monotonic() + 60
    while any(sum(map(len, w.acknowledged)) == count for w, count in zip(writers, before, strict=True)):
        if time.monotonic() > deadline:
            pytest.fail("production did not resume within 60 s of a restart")
        time.sleep(0.01)


def read_sequences(bootstrap: str, topic: str, partition: int) -> dict[int, int]:
    """Offset → sequence of every record of a partition, by a client that checks each CRC."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "check", "check.crcs": True, "enable.auto.commit": False}
    )
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
        assert low == 0
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: dict[int, int] = {}
        deadline = time.monotonic() + 120
        while len(found) < high and time.monotonic() < deadline:
            for message in consumer.consume(10_000, timeout=1.0):
                if message.error() is not None:
                    raise KafkaException(message.error())
                found[message.offset()] = int.from_bytes(message.value()[:SEQUENCE_BYTES], "big")
        assert len(found) == high, f"{topic}-{partition}: {len(found)} records below offset {high}"
        return found
    finally:
        consumer.close()


def check_acknowledged(topic: str, acknowledged: array, found: dict[int, int]) -> None:
    pairs = zip(acknowledged[::2], acknowledged[1::2], strict=True)
    wrong = [
        (offset, sequence, found.get(offset)) for offset, sequence in pairs if found.get(offset) != sequence
    ]
    assert not wrong, f"{topic}: acknowledged (offset, sequence) but found: {wrong[:5]} ({len(wrong)} in all)"


def check_once_and_in_order(partition: int, sequences: list[int]) -> None:
    expected = list(range(partition, partition + PARTITIONS * len(sequences), PARTITIONS))
    first = next((i for i, (a, b) in enumerate(zip(sequences, expected, strict=True)) if a != b), None)
    assert first is None, (
        f"partition {partition}: offset {first} holds {sequences[first]}, not {expected[first]}"
    )
