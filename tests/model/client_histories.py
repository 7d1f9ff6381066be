"""Real clients that work concurrently, and the responses they get: a history for `history_checker`.

Writers send numbered values to `in`; transformers move each value from `in` to `out` in transactions that
commit the offsets they read, and abort some of them; readers poll both topics in `read_committed`.
"""

import itertools
import random
import threading
import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from history import Operation, Outcome, Partition, Poll, Send
from model_reader import read
from node_client import LATEST, NodeClient

INPUT, OUTPUT = "in", "out"
PARTITIONS = 2
GROUP = "transformers"
# librdkafka reports these, looks up the coordinator, and leaves the next attempt to the application.
MOVED = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE)
# A request that is made while one node after another hangs may time out; it can be repeated.
UNANSWERED = (KafkaError._TIMED_OUT,)
DISCONNECTED = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
ABORTS = 0.15
DRAIN_S = 60.0
CLIENT = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "socket.timeout.ms": 10_000,
    # librdkafka 2.16 loses its transaction coordinator when it returns to the bootstrap servers
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


class History:
    """Operations in the order in which they were completed."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._lock = threading.Lock()
        self._processes = itertools.count()

    def new_process(self) -> int:
        return next(self._processes)

    def add(self, operation: Operation) -> None:
        with self._lock:
            self.operations.append(operation)


class Worker(threading.Thread):
    """One process of the history: it calls `step` repeatedly until it is stopped."""

    def __init__(self, bootstrap_servers: str, history: History, seed: int) -> None:
        self.process = history.new_process()
        super().__init__(name=f"{type(self).__name__} {self.process}", daemon=True)
        self.config = {"bootstrap.servers": bootstrap_servers, **CLIENT}
        self.history = history
        self.dice = random.Random(seed + self.process)
        self.failure: BaseException | None = None
        self._running = threading.Event()
        self._running.set()

    def run(self) -> None:
        try:
            while self._running.is_set():
                self.step()
            self.leave()
        except BaseException as error:
            self.failure = error
            raise

    def step(self) -> None:
        raise NotImplementedError

    def leave(self) -> None:
        """Close the clients."""

    def finish(self) -> None:
        self._running.clear()
        self.join(90)
        assert not self.is_alive(), f"{self.name} hangs"
        assert self.failure is None, f"{self.name}: {self.failure}"


class Writer(Worker):
    """A worker that sends a few values at a time and waits for their acknowledgements."""

    def __init__(self, bootstrap_servers: str, history: History, seed: int) -> None:
        super().__init__(bootstrap_servers, history, seed)
        self._numbers = itertools.count()
        settings = {"enable.idempotence": True, "linger.ms": 1, "message.timeout.ms": 60_000}
        self._producer = Producer({**self.config, **settings})

    def step(self) -> None:
        sends: list[Send] = []
        failures: list[KafkaError] = []
        for _ in range(self.dice.randint(1, 5)):
            produce(
                self._producer, INPUT, f"{self.process}.{next(self._numbers)}", self.dice, sends, failures
            )
        self._producer.flush(70)
        outcome = Outcome.UNKNOWN if failures else Outcome.OK
        self.history.add(Operation(self.process, tuple(sends), outcome))
        time.sleep(self.dice.uniform(0, 0.01))


class Reader(Worker):
    """A worker that polls both topics from their start on."""

    def __init__(self, bootstrap_servers: str, history: History, seed: int) -> None:
        super().__init__(bootstrap_servers, history, seed)
        self._consumer = consumer_of(self.config, f"reader-{self.process}")
        self._consumer.assign([TopicPartition(*p, offset=0) for p in all_partitions()])

    def step(self) -> None:
        polls = tuple(polls_of(self._consumer.consume(50, timeout=0.1)))
        if polls:
            self.history.add(Operation(self.process, polls))

    def leave(self) -> None:
        self._consumer.close()


class Transformer(Worker):
    """A worker that moves one partition's values to `out`: reads, writes and offsets in one transaction."""

    def __init__(self, bootstrap_servers: str, history: History, seed: int, partition: int) -> None:
        super().__init__(bootstrap_servers, history, seed)
        self._input = (INPUT, partition)
        self._attempts = itertools.count()
        self._sought = True
        self._start()

    def _start(self) -> None:
        """Start a new instance, which fences the previous one and continues from the group's offsets."""
        settings = {
            "transactional.id": f"transformer-{self._input[1]}",
            "linger.ms": 1,
            # librdkafka 2.16, after a group coordinator was away for a while, waits until something happens
            # to one of its connections, such as the idle timeout.
            "connections.max.idle.ms": 3_000,
        }
        self._producer = Producer({**self.config, **settings})
        persist(lambda: self._producer.init_transactions(30))
        self._consumer = consumer_of(self.config, GROUP)
        self._rewind()

    def _rewind(self) -> None:
        """Seek to the committed offset."""
        wanted = [TopicPartition(*self._input)]
        (committed,) = persist(lambda: self._consumer.committed(wanted, timeout=30))
        self._consumer.assign([TopicPartition(*self._input, offset=max(committed.offset, 0))])
        self._sought = True

    def step(self) -> None:
        messages = self._consumer.consume(20, timeout=0.1)
        polls = list(polls_of(messages, sought=self._sought))
        if not polls:
            return
        self._sought = False
        sends: list[Send] = []
        outcome = self._transact([value for poll in polls for _, value in poll.records], sends)
        steps = (*polls, *sends)
        self.history.add(Operation(self.process, steps, outcome, transactional=True))
        if outcome is not Outcome.OK:
            self._rewind()

    def _transact(self, values: list[str], sends: list[Send]) -> Outcome:
        asked_to_commit = False
        try:
            self._producer.begin_transaction()
            attempt = next(self._attempts)
            for value in values:
                produce(self._producer, OUTPUT, f"{value}/{self.process}.{attempt}", self.dice, sends, [])
            if self.dice.random() < ABORTS:
                self._producer.flush(self.dice.choice([0, 30]))
                persist(lambda: self._producer.abort_transaction(30))
                return Outcome.FAILED
            positions = self._consumer.position([TopicPartition(*self._input)])
            group = self._consumer.consumer_group_metadata()
            persist(lambda: self._producer.send_offsets_to_transaction(positions, group, 30))
            persist(lambda: self._producer.flush(30))
            asked_to_commit = True
            persist(lambda: self._producer.commit_transaction(30))
            return Outcome.OK
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                persist(lambda: self._producer.abort_transaction(30))
                return Outcome.FAILED
            self._consumer.close()
            self._start()
            return Outcome.UNKNOWN if asked_to_commit else Outcome.FAILED

    def leave(self) -> None:
        """Continue until nothing is left to move."""
        deadline = time.monotonic() + DRAIN_S
        idle = 0
        while idle < 5:
            assert time.monotonic() < deadline, "it never came to the end"
            before = len(self.history.operations)
            self.step()
            idle = 0 if len(self.history.operations) > before else idle + 1
        self._consumer.close()


def produce(
    producer: Producer,
    topic: str,
    value: str,
    dice: random.Random,
    sends: list[Send],
    failures: list[KafkaError],
) -> None:
    """Send a value to a random partition; `sends` gets it at once, and its offset once that is known."""
    partition = (topic, dice.randrange(PARTITIONS))
    index = len(sends)
    sends.append(Send(partition, value))

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)
        else:
            sends[index] = Send(partition, value, message.offset())

    producer.produce(*partition[:1], value, partition=partition[1], on_delivery=delivered)
    producer.poll(0)


def persist(attempt):
    """Call until it succeeds or fails for good: a retriable error only says that the outcome is unknown."""
    deadline = time.monotonic() + DRAIN_S
    while True:
        try:
            return attempt()
        except KafkaException as error:
            may_pass = error.args[0].retriable() or error.args[0].code() in MOVED + UNANSWERED
            if not may_pass or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def consumer_of(config: dict[str, object], group: str) -> Consumer:
    settings = {
        "group.id": group,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 50,
        "fetch.error.backoff.ms": 20,
        "check.crcs": True,
    }
    return Consumer({**config, **settings})


def polls_of(messages: list[Message], *, sought: bool = False) -> Iterator[Poll]:
    """Group messages into one poll per partition; raise errors other than broken connections."""
    records: dict[Partition, list[tuple[int, str]]] = {}
    for message in messages:
        if (error := message.error()) is not None:
            if not error.retriable() and error.code() not in DISCONNECTED:
                raise KafkaException(error)
            continue
        place = (message.topic(), message.partition())
        records.setdefault(place, []).append((message.offset(), message.value().decode()))
    for partition, found in records.items():
        yield Poll(partition, tuple(found), sought)


def all_partitions() -> list[Partition]:
    return [(topic, index) for topic in (INPUT, OUTPUT) for index in range(PARTITIONS)]


def read_everything(client: NodeClient, history: History) -> None:
    """Add the last operation: a read of all partitions, once no transaction is open any more."""
    polls = []
    deadline = time.monotonic() + DRAIN_S
    for partition in all_partitions():
        while client.offset(partition, LATEST, committed=True) != client.offset(partition, LATEST):
            assert time.monotonic() < deadline, f"a transaction hangs in {partition}"
            time.sleep(0.05)
        records, _ = read(client, partition, 0, committed=True, max_bytes=1 << 20)
        found = tuple((record.offset, (record.value or b"").decode()) for record in records)
        polls.append(Poll(partition, found, sought=True))
    history.add(Operation(history.new_process(), tuple(polls)))
