"""Load by concurrent real clients, and a history of their results for the checker in tests/model."""

import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.append(str(Path(__file__).parents[1] / "model"))

from client_histories import (
    INPUT,
    OUTPUT,
    PARTITIONS,
    History,
    Reader,
    Transformer,
    Worker,
    Writer,
    all_partitions,
    polls_of,
)
from history import Operation, Outcome, Poll
from history_checker import check
from java_load import JavaClients

READ_TIMEOUT_S = 90
GOES_ON_WITHIN_S = 40
"""With shortened timeouts a new leader is elected within seconds, but clients take longer to find it."""
JAVAS = PARTITIONS - 1
"""The partition whose values a Java client transforms."""


class Load:
    """Running clients on topics of their own: writers, transactions and readers, of librdkafka and Java."""

    def __init__(self, bootstrap_servers: str, seed: int, libs: Path) -> None:
        self._history = History()
        self._writers = [Writer(bootstrap_servers, self._history, seed) for _ in range(2)]
        others = [Transformer(bootstrap_servers, self._history, seed, number) for number in range(JAVAS)]
        self._others: list[Worker] = [*others, Reader(bootstrap_servers, self._history, seed)]
        for worker in (*self._writers, *self._others):
            worker.start()
        self._java = JavaClients(libs, bootstrap_servers, self._history, seed, JAVAS)
        self._processes = [worker.process for worker in (*self._writers, *self._others)]
        self._processes += self._java.processes

    def goes_on(self, within_s: float = GOES_ON_WITHIN_S) -> None:
        """Wait until each client has reported an operation that succeeded after this moment."""
        before = len(self._history.operations)
        deadline = time.monotonic() + within_s
        waiting = set(self._processes)
        while waiting:
            for operation in self._history.operations[before:]:
                if operation.outcome is Outcome.OK:
                    waiting.discard(operation.process)
            assert time.monotonic() < deadline, f"processes {sorted(waiting)} of the history stand still"
            time.sleep(0.05)

    def finish(self) -> History:
        """Stop the writers first; the other clients end once they have processed everything."""
        for writer in self._writers:
            writer.finish()
        self._java.finish_writing()
        for other in self._others:
            other.finish()
        self._java.finish()
        return self._history

    def kill(self) -> None:
        self._java.kill()


def under_load(
    bootstrap_servers: str, replication_factor: int, seed: int, libs: Path, disturb: Callable[[Load], None]
) -> None:
    """Run writers, transactions and readers during `disturb`, then read and check everything.

    Every acknowledged record must be there once, in order, and no other; each value must be transformed once.
    """
    config = {"min.insync.replicas": str(replication_factor // 2 + 1)}
    topics = [NewTopic(name, PARTITIONS, replication_factor, config=config) for name in (INPUT, OUTPUT)]
    make_topics(bootstrap_servers, topics)
    load = Load(bootstrap_servers, seed, libs)
    try:
        load.goes_on()
        disturb(load)
        history = load.finish()
    finally:
        load.kill()
    read_everything(bootstrap_servers, history)
    judge(history)


def make_topics(bootstrap_servers: str, topics: list[NewTopic]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for future in admin.create_topics(topics).values():
        try:
            future.result(30)
        except KafkaException as error:
            # A broker retries if the controller changes during its request, which may have succeeded.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def read_everything(bootstrap_servers: str, history: History) -> None:
    """The last operation of a history: every committed record of all partitions."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": False,
            "check.crcs": True,
        }
    )
    try:
        ends = {
            partition: consumer.get_watermark_offsets(TopicPartition(*partition), timeout=30)[1]
            for partition in all_partitions()
        }
        consumer.assign([TopicPartition(*partition, offset=0) for partition in ends])
        found: dict[tuple[str, int], list[tuple[int, str]]] = {partition: [] for partition in ends}
        deadline = time.monotonic() + READ_TIMEOUT_S
        while True:
            for poll in polls_of(consumer.consume(1000, timeout=0.5)):
                found[poll.partition] += poll.records
            positions = consumer.position([TopicPartition(*partition) for partition in ends])
            behind = [at for at in positions if at.offset < ends[at.topic, at.partition]]
            if not behind:
                break
            assert time.monotonic() < deadline, (
                f"a transaction hangs, or records are missing: {behind}, {ends}"
            )
    finally:
        consumer.close()
    polls = tuple(Poll(partition, tuple(records), sought=True) for partition, records in found.items())
    history.add(Operation(history.new_process(), polls))


def judge(history: History) -> None:
    report = check(history.operations)
    outcomes = Counter(operation.outcome.value for operation in history.operations)
    print(f"{len(history.operations)} operations: {dict(outcomes)}")
    assert report.anomalies() == {}
    found: dict[str, list[str]] = {INPUT: [], OUTPUT: []}
    for poll in history.operations[-1].polls():
        found[poll.partition[0]] += [value for _, value in poll.records]
    assert len(found[INPUT]) > 100, "hardly anything was written"
    moved = Counter(value.split("/")[0] for value in found[OUTPUT])
    written_once = Counter(found[INPUT])
    assert (sorted(written_once - moved), sorted(moved - written_once)) == ([], []), (
        "each value is moved once"
    )
    written = [operation for operation in history.operations if operation.outcome is Outcome.OK]
    assert len(written) > len(history.operations) / 3
