"""The rows of the comparison, in the order of the report. Each varies one property of a middle row."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from penstock.protocol.compression import Codec
from side_by_side.client_workloads import (
    EndToEnd,
    EndToEndBesideCold,
    JavaConsume,
    JavaProduce,
    LibrdkafkaConsume,
    LibrdkafkaProduce,
)
from side_by_side.data import Data
from side_by_side.group_workloads import LostMember, StableGroup
from side_by_side.node_workloads import Handshakes, IdleConnections, IdlePartitions
from side_by_side.session import Measurement, Session
from side_by_side.workloads import Compaction, Consume, ConsumeCold, Produce, Transactions

START = "start to first acknowledgement"
AT_REST = "At rest"
GROUPS = "Groups"
TLS = "TLS"
HANDSHAKES = "TLS handshakes"
SIZES = {"100 B": 100, "1 KiB": 1024, "10 KiB": 10240}
KIB = Data(1024)
COMPRESSED = {codec.name.lower(): Data(1024, codec) for codec in Codec if codec != Codec.NONE}
COMPACT = (
    ("cleanup.policy", "compact"),
    ("segment.bytes", str(64 << 20)),
    ("min.cleanable.dirty.ratio", "0.1"),
)


class Measurable(Protocol):
    """A workload, or another measurement of a node."""

    def run(self, session: Session) -> Measurement: ...


class Row(NamedTuple):
    """One line of the report."""

    section: str
    name: str
    work: Measurable

    @property
    def over_tls(self) -> bool:
        """Whether the broker needs a listener with TLS."""
        return self.section in {TLS, HANDSHAKES}


def all_rows() -> list[Row]:
    """Return every row but the start, which each round measures when it launches a broker."""
    return [
        *_produce(),
        *_consume(),
        *_compacted(),
        *_transactions(),
        *_latency(),
        *_ordinary_clients(),
        *_over_tls(),
        *_groups(),
        *_idle(),
    ]


def _produce() -> Iterator[Row]:
    for label, size in SIZES.items():
        for acks, number in (("0", 0), ("1", 1), ("all", -1)):
            yield Row("Produce", f"produce {label}, acks {acks}", Produce(Data(size), acks=number))
    yield Row("Produce", "produce 1 KiB, acks all, idempotent", Produce(KIB, acks=-1, idempotent=True))
    for name, data in COMPRESSED.items():
        yield Row("Produce", f"produce 1 KiB, {name}", Produce(data))
    for codec in (Codec.LZ4, Codec.ZSTD):
        large = Produce(Data(1024, codec, records_per_batch=900), per_request=1)
        yield Row("Produce", f"produce 1 KiB, {codec.name.lower()}, batches of 900 KiB", large)
    yield Row("Produce", "produce 1 KiB, 1 partition", Produce(KIB, partitions=1, per_request=1))
    yield Row("Produce", "produce 1 KiB, 200 partitions", Produce(KIB, partitions=200, per_request=50))
    for count in (1, 100):
        yield Row("Produce", f"produce 1 KiB, {_connections(count)}", Produce(KIB, connections=count))
    one = Produce(Data(100, records_per_batch=1), payload_bytes=20e6, per_request=1)
    yield Row("Produce", "produce 100 B, one record a request", one)
    flushed = Produce(KIB, payload_bytes=50e6, per_request=1, topic_config=(("flush.messages", "1"),))
    yield Row("Produce", "produce 1 KiB, each request flushed", flushed)


def _consume() -> Iterator[Row]:
    for label, size in SIZES.items():
        yield Row("Consume", f"consume {label}", Consume(Data(size)))
    for name, data in COMPRESSED.items():
        yield Row("Consume", f"consume 1 KiB, {name}", Consume(data))
    for label, partitions in (("1 partition", 1), ("200 partitions", 200)):
        yield Row("Consume", f"consume 1 KiB, {label}", Consume(KIB, partitions=partitions))
    for count in (1, 100):
        yield Row("Consume", f"consume 1 KiB, {_connections(count)}", Consume(KIB, connections=count))
    yield Row("Consume", "consume 1 KiB, 5 GB behind, from the disk", ConsumeCold())


def _compacted() -> Iterator[Row]:
    keyed = Data(1000, keys=100_000)
    produce = Produce(keyed, payload_bytes=1e9, partitions=1, per_request=1, topic_config=COMPACT)
    yield Row("Compacted topic", "produce 1,000 B with keys while the cleaner works", produce)
    yield Row("Compacted topic", "clean 1 GB, each key ten times", Compaction())


def _transactions() -> Iterator[Row]:
    for connections, count in ((1, 500), (10, 3000), (100, 6000)):
        name = f"transactions of 100 records, {connections} producer{'s' if connections > 1 else ''}"
        yield Row("Transactions", name, Transactions(connections, count))


def _latency() -> Iterator[Row]:
    yield Row("Latency at a fixed rate", "end to end, 1,000 records/s", EndToEnd())
    yield Row("Latency at a fixed rate", "end to end, 10,000 records/s", EndToEnd(10_000))
    beside = EndToEndBesideCold()
    yield Row("Latency at a fixed rate", "end to end, 1,000 records/s beside a cold reader", beside)
    paced = Produce(KIB, payload_bytes=200e6, per_request=1, acks=-1, requests_per_s=1500)
    yield Row("Latency at a fixed rate", "produce 1 KiB, 1,500 requests/s", paced)


def _ordinary_clients() -> Iterator[Row]:
    for label, size, count in (("100 B", 100, 8_000_000), ("1 KiB", 1024, 1_500_000)):
        yield Row("Ordinary clients", f"librdkafka produce {label}", LibrdkafkaProduce(size, count))
        yield Row("Ordinary clients", f"librdkafka consume {label}", LibrdkafkaConsume(size, count))
    for label, size, count in (("100 B", 100, 4_000_000), ("1 KiB", 1024, 800_000)):
        yield Row("Ordinary clients", f"kafka-producer-perf-test {label}", JavaProduce(size, count))
        yield Row("Ordinary clients", f"kafka-consumer-perf-test {label}", JavaConsume(size, count))
    transactional = JavaProduce(1024, 400_000, transaction_ms=100)
    yield Row("Ordinary clients", "kafka-producer-perf-test 1 KiB, a transaction every 100 ms", transactional)


def _over_tls() -> Iterator[Row]:
    for label, size in (("100 B", 100), ("1 KiB", 1024)):
        yield Row(TLS, f"produce {label} over TLS", Produce(Data(size), over_tls=True))
        yield Row(TLS, f"consume {label} over TLS", Consume(Data(size), over_tls=True))
    one = Produce(Data(100, records_per_batch=1), payload_bytes=20e6, per_request=1, over_tls=True)
    yield Row(TLS, "produce 100 B, one record a request, over TLS", one)
    for count in (1, 10):
        name = f"full handshakes, {count} client{'s' if count > 1 else ''}"
        yield Row(HANDSHAKES, name, Handshakes(10_000, count))


def _groups() -> Iterator[Row]:
    for members in (1, 4, 50):
        name = f"{members} member{'s' if members > 1 else ''} that start{'' if members > 1 else 's'} at once"
        yield Row(GROUPS, name, StableGroup(members))
    yield Row(GROUPS, "one of 4 members is killed (session.timeout.ms=6000)", LostMember())


def _idle() -> Iterator[Row]:
    yield Row(AT_REST, "2,000 idle connections", IdleConnections(2000))
    yield Row(AT_REST, "2,000 partitions", IdlePartitions(2000))


def _connections(count: int) -> str:
    return f"{count} connection{'s' if count > 1 else ''}"
