"""A sequence of operations on a cluster before and between changes of its node.

Real clients run it on either kind of node, so that the disk afterwards contains every feature: every codec,
headers, many segments, transactions, deletions, dynamic configs, consumer groups.
"""

import random
import time
from concurrent.futures import Future

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from node_view import LOADING

from broker_wire import Wire, batch_of
from penstock.protocol import messages as m
from penstock.protocol.errors import ErrorCode
from transaction_wire import Transactor
from waiting import wait_until

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPIC, BROKER = 2, 4
START_MS = 1_790_000_000_000
SEGMENTS = {"internal.segment.bytes": "4000", "index.interval.bytes": "500", "retention.ms": "-1"}
GROUPS = ("readers", "by hand", "of the new protocol", "of transactions")
TRANSACTIONAL_IDS = ("of the first protocol", "of version 2")
TIMESTAMPS = (START_MS, START_MS + 1_050, START_MS + 3_333, START_MS + 10**9)
"""Timestamps for lookups; some records are older than earlier ones."""
TIMEOUT_S = 60


class IdempotentWriter:
    """A producer id that outlives the nodes it writes to, its sequence numbers in plain sight."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.sequence = 0
        self.last_offset = -1
        with Wire(bootstrap) as wire:
            request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            found = wire.ask(request, m.InitProducerIdResponse, 4)
            assert found.error_code == 0, ErrorCode(found.error_code)
            self.producer_id, self.epoch = found.producer_id, found.producer_epoch

    def write(self, bootstrap: str, count: int) -> None:
        """Write records one by one.

        First repeat the last one, which gets the same answer, and try one after a gap, which is rejected.
        """
        with Wire(bootstrap) as wire:
            if self.sequence:
                again = self._produce(wire, self.sequence - 1)
                assert (again.error_code, again.base_offset) == (0, self.last_offset)
                gap = self._produce(wire, self.sequence + 1)
                assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            for _ in range(count):
                written = self._produce(wire, self.sequence)
                assert (written.error_code, written.base_offset) == (0, self.last_offset + 1)
                self.last_offset = written.base_offset
                self.sequence += 1

    def _produce(self, wire: Wire, sequence: int) -> m.ProduceResponse.PartitionProduceResponse:
        batch = batch_of(b"%d" % sequence, producer=(self.producer_id, self.epoch, sequence))
        return wire.produce(self.topic, batch)


class TransactionalWriter:
    """A transactional producer that leaves a transaction open for the next node, with an offset in it."""

    def __init__(self, bootstrap: str, transactional_id: str, topic: str) -> None:
        self.topic = topic
        self._offset = 0
        with Wire(bootstrap) as wire:
            self._producer = Transactor(
                wire,
                transactional_id,
                version_2=transactional_id == TRANSACTIONAL_IDS[1],
                timeout_ms=600_000,
            ).begin()
            for commits in (True, False, True):
                self._write(2)
                self._end(commits)
            self._write(2)

    def go_on(self, bootstrap: str, *, commits: bool) -> None:
        """End the transaction that the previous node left open, and run more."""
        with Wire(bootstrap) as wire:
            self._producer.wire = wire
            wait_until(lambda: self._producer.write(self.topic, b"found open") is ErrorCode.NONE)
            self._end(commits)
            for later in (not commits, commits):
                self._write(2)
                self._end(later)
            self._write(2)

    def _write(self, count: int) -> None:
        for _ in range(count):
            wait_until(lambda: self._producer.write(self.topic, b"one of two") is ErrorCode.NONE)
        self._offset += 1
        if not self._producer.is_version_2:
            wait_until(lambda: self._producer.add_offsets(GROUPS[3]) is ErrorCode.NONE)
        wait_until(
            lambda: self._producer.commit_offset(GROUPS[3], self.topic, self._offset) is ErrorCode.NONE
        )

    def _end(self, commits: bool) -> None:
        wait_until(lambda: self._producer.end(commit=commits) is ErrorCode.NONE)


class Story:
    """`begin` on the first node; `go_on` on each that takes over.

    With `kafkas_own` it begins with what only Kafka serves so far: a group of KIP-848's protocol. Without
    `trims` no records are deleted: where a log starts is on disk only after a clean stop, or within a minute.
    """

    def __init__(self, *, kafkas_own: bool = False, trims: bool = True, seed: int = 1) -> None:
        self._kafkas_own = kafkas_own
        self._trims = trims
        self._random = random.Random(seed)
        self._chapter = 0
        self.idempotent: IdempotentWriter | None = None
        self.transactional: list[TransactionalWriter] = []

    def begin(self, bootstrap: str) -> None:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        create(
            admin,
            NewTopic("codecs", len(CODECS), 1, config={**SEGMENTS, "cleanup.policy": "delete"}),
            NewTopic("stamped", 2, 1, config={**SEGMENTS, "message.timestamp.type": "LogAppendTime"}),
            NewTopic("trimmed", 1, 1, config=SEGMENTS),
            NewTopic("grown", 1, 1),
            NewTopic("gone", 2, 1),
            NewTopic("again", 1, 1),
            NewTopic("idempotent", 1, 1, config=SEGMENTS),
            *(NewTopic(topic_of(name), 1, 1, config=SEGMENTS) for name in TRANSACTIONAL_IDS),
            NewTopic("empty", 2, 1),
            NewTopic("compacted", 1, 1, config={"cleanup.policy": "compact"}),
        )
        self._produce(bootstrap)
        for topic in ("gone", "again", "compacted"):
            self._send(bootstrap, topic, 0, 3)
        if self._trims:
            trim(admin, "trimmed", 33)
        finish(admin.create_partitions([NewPartitions("grown", 3)]))
        finish(admin.delete_topics(["gone", "again"]))
        wait_until(lambda: not {"gone", "again"} & set(admin.list_topics(timeout=TIMEOUT_S).topics))
        create(admin, NewTopic("again", 2, 1))
        self._send(bootstrap, "again", 1, 2)
        set_configs(bootstrap, TOPIC, "grown", {"max.message.bytes": "123456", "retention.ms": "-1"})
        set_configs(bootstrap, BROKER, "1", {"log.cleaner.backoff.ms": "20000"})
        set_configs(bootstrap, BROKER, "", {"log.retention.ms": "99999999999"})
        consume(bootstrap, GROUPS[0], "codecs", 50)
        commit(bootstrap, GROUPS[1], {("stamped", 0): 7, ("stamped", 1): 5})
        if self._kafkas_own:
            consume(bootstrap, GROUPS[2], "codecs", 30, protocol="consumer")
        self._transact(bootstrap)
        self.idempotent = IdempotentWriter(bootstrap, "idempotent")
        self.idempotent.write(bootstrap, 25)
        self.transactional = [
            TransactionalWriter(bootstrap, name, topic_of(name)) for name in TRANSACTIONAL_IDS
        ]

    def go_on(self, bootstrap: str) -> None:
        """Repeat everything on another node, on top of the existing data."""
        self._chapter += 1
        assert self.idempotent is not None
        admin = AdminClient({"bootstrap.servers": bootstrap})
        self._produce(bootstrap)
        self._send(bootstrap, "grown", 2, 3)
        self._send(bootstrap, "again", 0, 1)
        create(admin, NewTopic(f"chapter-{self._chapter}", 2, 1, config=SEGMENTS))
        self._send(bootstrap, f"chapter-{self._chapter}", 1, 40)
        if self._trims:
            trim(admin, "trimmed", 33 + 40 * self._chapter)
        finish(admin.create_partitions([NewPartitions("empty", 2 + self._chapter)]))
        set_configs(bootstrap, TOPIC, "codecs", {"retention.bytes": str(10**9 + self._chapter)})
        consume(bootstrap, GROUPS[0], "codecs", 50)
        commit(bootstrap, GROUPS[1], {("stamped", 1): 6 + self._chapter})
        self.idempotent.write(bootstrap, 25)
        for writer in self.transactional:
            writer.go_on(bootstrap, commits=self._chapter % 2 == 1)
        self._transact(bootstrap)

    def _produce(self, bootstrap: str) -> None:
        for partition, codec in enumerate(CODECS):
            self._send(bootstrap, "codecs", partition, 60, codec)
        self._send(bootstrap, "stamped", 0, 10, "gzip")
        self._send(bootstrap, "stamped", 1, 10)
        self._send(bootstrap, "trimmed", 0, 60)

    def _send(self, bootstrap: str, topic: str, partition: int, count: int, codec: str = "none") -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "batch.num.messages": 7,
                "linger.ms": 50,
                "message.timeout.ms": TIMEOUT_S * 1000,
            }
        )
        failed = []
        for i in range(count):
            value = b"%d-" % i + self._random.randbytes(30).hex().encode() + b"ab" * 60
            producer.produce(
                topic,
                key=None if i % 5 == 0 and topic != "compacted" else b"key-%d" % (i % 9),
                value=None if i % 11 == 10 else value,
                headers=[("kind", b"\x00\xff"), ("none", None)] if i % 3 == 0 else [],
                timestamp=START_MS + i * 100 + self._random.randrange(-150, 150),
                partition=partition,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert not failed, (topic, partition, failed[0])

    def _transact(self, bootstrap: str) -> None:
        """Run one aborted transaction between two committed ones."""
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer"})
        producer.init_transactions(TIMEOUT_S)
        for commits in (True, False, True):
            producer.begin_transaction()
            for i in range(5):
                producer.produce("codecs", b"transacted %d" % i, partition=0)
            producer.flush(TIMEOUT_S)
            if commits:
                producer.commit_transaction(TIMEOUT_S)
            else:
                producer.abort_transaction(TIMEOUT_S)


def topic_of(transactional_id: str) -> str:
    """The topic that this producer writes to."""
    return transactional_id.replace(" ", "-")


def create(admin: AdminClient, *topics: NewTopic) -> None:
    """Create topics and wait until the node knows them."""
    finish(admin.create_topics(list(topics)))
    names = {topic.topic for topic in topics}
    wait_until(lambda: names <= set(admin.list_topics(timeout=TIMEOUT_S).topics))


def trim(admin: AdminClient, topic: str, offset: int) -> None:
    finish(admin.delete_records([TopicPartition(topic, 0, offset)]))


def set_configs(bootstrap: str, kind: int, name: str, configs: dict[str, str]) -> None:
    request = m.IncrementalAlterConfigsRequest(
        resources=[
            m.IncrementalAlterConfigsRequest.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    m.IncrementalAlterConfigsRequest.AlterableConfig(
                        name=key, config_operation=0, value=value
                    )
                    for key, value in configs.items()
                ],
            )
        ]
    )
    with Wire(bootstrap) as wire:
        (done,) = wire.ask(request, m.IncrementalAlterConfigsResponse, 1).responses
    assert done.error_code == 0, done.error_message


def consume(bootstrap: str, group: str, topic: str, count: int, protocol: str = "classic") -> None:
    """Read as a member of a consumer group, from its committed offsets, and commit."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        seen = 0
        deadline = time.monotonic() + TIMEOUT_S
        while seen < count and time.monotonic() < deadline:
            seen += len(consumer.consume(count - seen, timeout=1))
        assert seen == count
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def commit(bootstrap: str, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """Commit offsets as a client that assigns partitions to itself."""
    request = m.OffsetCommitRequest(
        group_id=group,
        topics=[
            m.OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    m.OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=0,
                        committed_metadata=f"at {offset}",
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ],
    )
    with Wire(bootstrap) as wire:
        while True:
            done = wire.ask(request, m.OffsetCommitResponse, 8)
            errors = {ErrorCode(p.error_code) for t in done.topics for p in t.partitions}
            if not errors & LOADING:
                break
    assert errors == {ErrorCode.NONE}


def finish(futures: dict[object, Future[object]]) -> None:
    for future in futures.values():
        future.result(TIMEOUT_S)
