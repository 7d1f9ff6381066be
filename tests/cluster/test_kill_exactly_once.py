"""kill -9 of executors, driver and broker during an exactly-once query: every record once, in order.

The query runs on a Spark standalone cluster with two executors and speculation; a single kill, as in the
gate, hits the Python processes of a local session. A proxy before the broker observes the progress of the
sink, so that kills hit named points; the rest are random. PENSTOCK_SINK_KILLS sets their number,
PENSTOCK_SEED repeats a run. A long run can be split: PENSTOCK_SINK_SECONDS ends the kills of a run after that
time, PENSTOCK_SINK_POINT names the only point to hit, and PENSTOCK_SINK_REPORT names a file that gets a line
for each kill of a passed run (docs/exactly-once.md).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient, NewTopic
from exactly_once_app import SUMS
from exactly_once_query import (
    GROUP,
    NO_MARKER_CHECK,
    PATIENCE,
    SINK_CLIENT,
    SOURCE,
    TOPICS,
    TRANSACTION_TIMEOUT_MS,
)
from query_processes import Driver
from spark_cluster import SparkCluster

from kafka_node import KafkaNode
from long_run import repetitions
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as Client
from penstock.client.connections.metadata import TopicPartition
from penstock.client.groups.consumer_group import ConsumerGroup
from penstock.client.reading.offsets import LATEST, IsolationLevel, list_offsets
from penstock.protocol.api_keys import ApiKey
from penstock.spark.sink.publisher import Outcome
from penstock.testing import Cluster
from to_the_end import TO_THE_END
from wire_proxy import Fate, Request, WireProxy

KILLS = repetitions("PENSTOCK_SINK_KILLS", gate=1, long=7)
SECONDS = float(os.environ.get("PENSTOCK_SINK_SECONDS", "inf"))
KEYS = 16
SOURCE_PARTITIONS = 3
OUTPUT_PARTITIONS = 2
LSO_LIMIT_S = 10
SILENCE_LIMIT_S = 120
STRIKE_TIMEOUT_S = 180

MANY_ONLY = pytest.mark.skipif(KILLS < 10, reason="only where PENSTOCK_SINK_KILLS is 10 or more")
"""A test that starts its own Spark cluster takes half a minute."""

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(240 + 40 * KILLS),
    pytest.mark.longer,
]


class Kill(NamedTuple):
    point: str
    victim: str


POINTS: dict[str, tuple[str, ...]] = {
    "after EndTxn": ("workers", "driver", "java", "broker"),
    "before staging": ("executor", "driver", "broker"),
    "mid-publish": ("broker", "workers", "driver", "java", "executor"),
    "before EndTxn": ("driver", "workers", "broker", "java"),
    "coordinator down": ("broker",),
    "driver stopped": ("driver",),
    "task stopped": ("task",),
}
"""The victim at each point. "java": the driver without its Python processes; "workers": only these. At the
last two points a process is stopped (SIGSTOP) until others have done its work, and then continues.
"""

RANDOM_VICTIMS = ("executor",) * 4 + ("broker",) * 3 + ("driver",) * 2 + ("workers",)
SHARE = 0.07
"""The share of each point: 14 of 200 kills."""

STOPPED_SHARE = 0.035
"""The share of each point with a stopped process, which takes longest: 7 of 200 kills."""
SETTLED = {
    Kill("after EndTxn", "workers"): Outcome.WAS_PUBLISHED,
    Kill("after EndTxn", "driver"): Outcome.WAS_PUBLISHED,
    Kill("before EndTxn", "workers"): Outcome.PUBLISHED,
    Kill("before EndTxn", "driver"): Outcome.PUBLISHED,
    Kill("mid-publish", "workers"): Outcome.PUBLISHED,
    Kill("mid-publish", "driver"): Outcome.PUBLISHED,
    Kill("before staging", "driver"): Outcome.PUBLISHED,
    Kill("before staging", "executor"): Outcome.PUBLISHED,
}
"""The required outcome of the current batch after kills of the driver's side, where it is determined."""


class Event(NamedTuple):
    """A kill and its effects.

    ``outcome``: that of the first batch settled after it. ``stable_s``: from the restart until the last
    stable offset has passed the end that the log had then. ``resumed_s``: from the kill to the next batch
    that readers see.
    """

    kill: Kill
    outcome: Outcome
    stable_s: float
    resumed_s: float


CHECKPOINT_REMOVED = "checkpoint removed"
"""A point for streams applications, which continue from their group's offsets and their changelogs."""


def schedule(count: int, chance: random.Random, shape: str) -> list[Kill]:
    """The kills of a run. A few hit the first points; if many, each gets its share and the rest is random."""
    points = POINTS | ({CHECKPOINT_REMOVED: ("driver",)} if shape == "streams" else {})
    if only := os.environ.get("PENSTOCK_SINK_POINT"):
        victims = RANDOM_VICTIMS if only == "random" else points[only]
        return [Kill(only, chance.choice(victims)) for _ in range(count)]
    if count < 2 * len(points):
        return [Kill(point, victims[0]) for point, victims in list(points.items())[:count]]
    kills: list[Kill] = []
    for point, victims in points.items():
        share = STOPPED_SHARE if point.endswith("stopped") else SHARE
        order = itertools.cycle(chance.sample(victims, len(victims)))
        kills += [Kill(point, victim) for victim in itertools.islice(order, max(1, round(count * share)))]
    kills += [Kill("random", chance.choice(RANDOM_VICTIMS)) for _ in range(count - len(kills))]
    chance.shuffle(kills)
    return kills


class Feeder(threading.Thread):
    """A thread that writes "key number" to the source, the numbers of each key in order, until stopped."""

    def __init__(self, servers: str) -> None:
        super().__init__(name="feeder", daemon=True)
        self.sent: Counter[int] = Counter()
        self.refused: list[KafkaError] = []
        self._running = threading.Event()
        self._running.set()
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "message.timeout.ms": 300_000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        for number in itertools.count():
            if not self._running.is_set():
                break
            key = number % KEYS
            value = f"{key} {self.sent[key]}"
            self._producer.produce(
                SOURCE, value, key=str(key), partition=key % SOURCE_PARTITIONS, on_delivery=self._delivered
            )
            self.sent[key] += 1
            if number % 5 == 4:
                self._producer.poll(0.025)
                time.sleep(0.025)
        self._producer.flush(120)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.refused.append(error)

    def finish(self) -> int:
        self._running.clear()
        self.join(150)
        assert not self.is_alive()
        assert not self.refused, self.refused[:3]
        return self.sent.total()


class Story:
    """The broker behind its proxy, the current driver, and the events so far."""

    def __init__(
        self,
        node: Cluster | KafkaNode,
        proxy: WireProxy,
        scratch: Path,
        chance: random.Random,
        *,
        master: str,
        shape: str = "stateful",
        **environment: str,
    ) -> None:
        self.events: list[Event] = []
        self.zombies: Counter[str] = Counter()
        self.proxy = proxy
        self._node = node
        self._scratch = scratch
        self._master = master
        self._shape = shape
        self._environment = environment
        self._chance = chance
        self._numbers = itertools.count()
        self._struck = threading.Event()
        self._task: int | None = None
        self._client = Client(ClientConfig.from_properties({"bootstrap.servers": proxy.bootstrap_servers}))
        self.driver = self._start_driver()

    def _start_driver(self) -> Driver:
        """Start a driver; most wait long enough for a broker to restart, some time out before."""
        name = f"driver-{next(self._numbers)}"
        patience = {PATIENCE: self._chance.choice(("8000", "60000", "60000", "60000"))}
        return Driver(
            self.proxy.bootstrap_servers,
            self._scratch / "checkpoint",
            self._scratch / name,
            self._master,
            self._shape,
            self._environment | patience,
        )

    def close(self) -> None:
        self.driver.kill_all()
        self._client.close()

    # Kills

    def kill(self, kill: Kill) -> None:
        chance = self._chance
        self._struck.clear()
        runs = self.driver.count("started")
        match kill.point:
            case "random":
                time.sleep(chance.uniform(0.0, 1.5))
                self._strike(kill.victim)
            case "checkpoint removed":
                time.sleep(chance.uniform(0.0, 1.5))
                self._strike(kill.victim)
                shutil.rmtree(self._scratch / "checkpoint")
            case "before staging":
                self._strike_in_a_task(kill.victim)
            case "mid-publish":
                self._strike_on_the_wire(ApiKey.PRODUCE, kill.victim, Fate.PASS)
            case "before EndTxn":
                self._strike_on_the_wire(ApiKey.END_TXN, kill.victim, Fate.CUT_BEFORE)
            case "after EndTxn":
                self._strike_after_end(kill.victim)
            case "coordinator down":
                if chance.random() < 0.5:
                    self._strike_after_end("broker")
                else:
                    self._strike_on_the_wire(ApiKey.END_TXN, "broker", Fate.CUT_BEFORE)
                time.sleep(TRANSACTION_TIMEOUT_MS / 1000 + 1)
            case "driver stopped":
                self._stop_driver(chance)
            case "task stopped":
                self._strike_in_a_task("task")
        self._recover(kill.victim, runs)
        stable_s = self._await_stable_end()
        self._await_outcome()
        outcome = Outcome[self.driver.outcomes()[self._settled_before]]
        self.wait_for_more()
        event = Event(kill, outcome, stable_s, time.monotonic() - self._struck_at)
        print(f"{kill.point}, {kill.victim}: {outcome.name}, {stable_s:.2f} s, {event.resumed_s:.1f} s")
        assert outcome is SETTLED.get(kill, outcome), event
        self.events.append(event)

    def _strike(self, victim: str) -> None:
        self._struck_at = time.monotonic()
        self._settled_before = len(self.driver.outcomes())
        match victim:
            case "driver":
                self.driver.kill_all()
            case "java":
                self.driver.kill_java()
            case "workers":
                self.driver.kill_workers()
            case "executor":
                self.driver.kill_executor()
            case "broker":
                self._node.kill()
            case "driver to stop":
                self.driver.stop_all()
            case "task":
                assert self._task is not None
                os.kill(self._task, signal.SIGSTOP)
        self._struck.set()

    def _strike_in_a_task(self, victim: str) -> None:
        """Kill when a task has computed its rows and is about to stage them."""
        struck = self.driver.control / "struck"
        self._struck_at = time.monotonic()
        self._settled_before = len(self.driver.outcomes())
        (self.driver.control / "strike").write_text(victim)
        self._wait_until(struck.exists)
        self._task = int(struck.read_text())
        struck.unlink()
        if victim != "executor":
            self._strike(victim)

    def _strike_on_the_wire(self, key: ApiKey, victim: str, fate: Fate) -> None:
        """Kill when the sink sends such a request, before it reaches the broker."""
        armed = threading.Event()
        armed.set()

        def decide(request: Request) -> Fate:
            if request.api_key != key or request.client_id != SINK_CLIENT or not armed.is_set():
                return Fate.PASS
            armed.clear()
            self._strike(victim)
            return fate

        self.proxy.decide = decide
        self._wait_until(self._struck.is_set)
        self.proxy.decide = lambda _: Fate.PASS

    def _strike_after_end(self, victim: str) -> None:
        """Kill when the broker has decided the transaction; the sink never gets the answer."""
        armed = threading.Event()
        armed.set()

        def decide(request: Request) -> Fate:
            if request.api_key != ApiKey.END_TXN or request.client_id != SINK_CLIENT or not armed.is_set():
                return Fate.PASS
            armed.clear()
            return Fate.CUT_AFTER

        self.proxy.when_cut = lambda: self._strike(victim)
        self.proxy.decide = decide
        self._wait_until(self._struck.is_set)
        self.proxy.decide = lambda _: Fate.PASS
        self.proxy.when_cut = lambda: None

    def _stop_driver(self, chance: random.Random) -> None:
        """Stop the driver during a transaction, replace it, and let it continue."""
        key = chance.choice((ApiKey.PRODUCE, ApiKey.END_TXN))
        fate = chance.choice((Fate.PASS, Fate.CUT_BEFORE))
        self._strike_on_the_wire(key, "driver to stop", fate)
        self._settled_before = 0
        zombie, self.driver = self.driver, self._start_driver()
        try:
            self.driver.wait_for("started")
            if chance.random() < 0.5:  # otherwise both run for a moment
                self._await_outcome()
            (zombie.control / "stay-down").touch()
            zombie.continue_all()
            self._wait_until(lambda: zombie.count("fenced") + zombie.count("failed") > 0)
            last_word = next(said for said in zombie.said if said.startswith(("fenced", "failed")))
            self.zombies[last_word.partition(" ")[0]] += 1
            print(f"the driver that stood still: {last_word[:400]}")
        finally:
            zombie.kill_all()

    # Recovery

    def _recover(self, victim: str, runs: int) -> None:
        """Restart the killed processes and return once they work."""
        match victim:
            case "broker":
                self._node.start()
            case "java":
                self._settled_before = 0
                old, self.driver = self.driver, self._start_driver()
                self.driver.wait_for("started")
                old.kill_all()
            case "driver":
                if not self.driver.is_alive:  # otherwise it was replaced already
                    self._settled_before = 0
                    self.driver = self._start_driver()
                self.driver.wait_for("started")
            case "workers":  # if none was working, Spark starts new ones and the query does not notice
                self._wait_until(
                    lambda: (
                        self.driver.count("started") > runs
                        or len(self.driver.outcomes()) > self._settled_before
                    )
                )
            case "task":
                self._await_outcome()  # by its speculative copy
                assert self._task is not None
                with contextlib.suppress(ProcessLookupError):  # Spark may have killed it
                    os.kill(self._task, signal.SIGCONT)

    def _await_outcome(self) -> None:
        self._wait_until(lambda: len(self.driver.outcomes()) > self._settled_before)

    def _ends(self, isolation: IsolationLevel) -> dict[TopicPartition, int]:
        asked = {TopicPartition(topic, p): LATEST for topic in TOPICS for p in range(OUTPUT_PARTITIONS)}
        return {tp: found.offset for tp, found in list_offsets(self._client, asked, isolation).items()}

    def stable_ends(self) -> int:
        return sum(self._ends(IsolationLevel.READ_COMMITTED).values())

    def _await_stable_end(self) -> float:
        """The seconds until the last stable offset has passed the end of the log at the restart."""
        began = time.monotonic()
        ends = self._ends(IsolationLevel.READ_UNCOMMITTED)
        while any(offset < ends[tp] for tp, offset in self._ends(IsolationLevel.READ_COMMITTED).items()):
            waited = time.monotonic() - began
            assert waited < LSO_LIMIT_S, f"a transaction is open {waited:.1f} s after the restart"
            time.sleep(0.02)
        return time.monotonic() - began

    def wait_for_more(self) -> None:
        """Wait for another commit, so that every kill hits active work."""
        before = self.stable_ends()
        self._wait_until(lambda: self.stable_ends() > before)

    def _wait_until(self, condition: Callable[[], bool], within_s: float = STRIKE_TIMEOUT_S) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"it never came to be\n{self.driver.last_words()}"
            time.sleep(0.02)


@contextmanager
def running(
    scratch: Path, chance: random.Random, kafka_libs: Path | None = None, **conditions: str
) -> Iterator[tuple[Story, Feeder]]:
    """Run a story, on Apache Kafka if its jars are given. ``conditions`` are those of `Story`."""
    with WireProxy() as proxy:
        config = {
            "advertised.listeners": f"PLAINTEXT://{proxy.bootstrap_servers}",
            "transaction.state.log.num.partitions": "2",
        }
        node: Cluster | KafkaNode = Cluster(config, data_dir=scratch / "data")
        if kafka_libs is not None:
            (scratch / "kafka").mkdir()
            node = KafkaNode(kafka_libs, scratch / "kafka", config=config)
        with node:
            proxy.target = node.bootstrap_servers
            admin = AdminClient({"bootstrap.servers": proxy.bootstrap_servers})
            topics = [NewTopic(SOURCE, SOURCE_PARTITIONS, 1)]
            topics += [NewTopic(topic, OUTPUT_PARTITIONS, 1) for topic in (*TOPICS, SUMS)]
            for created in admin.create_topics(topics).values():
                created.result(60)
            story = Story(node, proxy, scratch, chance, **conditions)
            try:
                feeder = Feeder(proxy.bootstrap_servers)
                feeder.start()
                yield story, feeder
            finally:
                story.close()


class Row(NamedTuple):
    """An output record; ``place`` is its topic and partition, ``tally`` the count or the source's offset."""

    place: tuple[str, int]
    key: int
    number: int
    tally: int


def read_output(story: Story, count: int) -> list[Row]:
    """Every record in order, as a `read_committed` client sees them.

    It waits for ``count`` records and then reads to the end of the log.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": story.proxy.bootstrap_servers,
            "group.id": "check",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        | TO_THE_END
    )
    partitions = [ConfluentPartition(topic, p, 0) for topic in TOPICS for p in range(OUTPUT_PARTITIONS)]
    consumer.assign(partitions)
    rows: list[Row] = []
    at_end: set[tuple[str, int]] = set()
    deadline = time.monotonic() + SILENCE_LIMIT_S
    while len(at_end) < len(partitions) or len(rows) < count:
        assert time.monotonic() < deadline, f"{len(rows)} of {count}\n{story.driver.last_words()}"
        message = consumer.poll(0.5)
        if message is None:
            continue
        place = (message.topic(), message.partition())
        if message.error() is None:
            at_end.discard(place)
            deadline = time.monotonic() + SILENCE_LIMIT_S
            rows.append(Row(place, *map(int, message.value().split())))
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            at_end.add(place)
    consumer.close()
    return rows


def check_once(rows: list[Row], sent: Counter[int]) -> None:
    """Check that each record of each key is there once, and in order by key."""
    twice = len(rows) - len({(row.key, row.number) for row in rows})
    assert not twice, f"{twice} records came twice"
    numbers: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        numbers[row.key].append(row.number)
    for key, count in sent.items():
        assert numbers[key] == list(range(count)), f"key {key}: {numbers[key][:20]}"


def check_counted_once(rows: list[Row]) -> None:
    """Check that the state also counted each record once."""
    assert [row for row in rows if row.number != row.tally] == []


def check_order_of_the_source(rows: list[Row]) -> None:
    """Check that records of one partition of the source keep their order in each partition of the output."""
    last: dict[tuple[tuple[str, int], int], int] = {}
    for row in rows:
        way = (row.place, row.key % SOURCE_PARTITIONS)
        assert last.get(way, -1) < row.tally, f"offset {row.tally} after {last[way]} in {row.place}"
        last[way] = row.tally


def check_sums(story: Story, sent: Counter[int]) -> None:
    """Check the final sums from the repartition topic, which arrive some batches later."""
    expected: Counter[int] = Counter()
    for key, count in sent.items():
        expected[key % 2] += count
    sums: dict[int, int] = {}
    consumer = Consumer(
        {
            "bootstrap.servers": story.proxy.bootstrap_servers,
            "group.id": "check",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.assign([ConfluentPartition(SUMS, p, 0) for p in range(OUTPUT_PARTITIONS)])
    deadline = time.monotonic() + 60
    while sums != expected:
        assert time.monotonic() < deadline, f"{sums}, expected {dict(expected)}\n{story.driver.last_words()}"
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            sums[int(message.key())] = int.from_bytes(message.value())
    consumer.close()


def check_group(story: Story, sent: Counter[int]) -> None:
    """Check that the source's group is at the end of the input: its offsets are committed with the output."""
    expected: Counter[TopicPartition] = Counter()
    for key, count in sent.items():
        expected[TopicPartition(SOURCE, key % SOURCE_PARTITIONS)] += count
    with Client(ClientConfig.from_properties({"bootstrap.servers": story.proxy.bootstrap_servers})) as client:
        committed = client.retry(lambda: ConsumerGroup(client, GROUP).committed(list(expected)))
    assert {tp: found.offset for tp, found in committed.items()} == dict(expected)


@contextmanager
def spark_for(kills: int, scratch: Path) -> Iterator[str]:
    """The master of a new cluster, or of a local session if a single kill needs no cluster."""
    if kills == 1:
        yield "local[2]"
        return
    with SparkCluster(scratch) as spark:
        yield spark.master


def run(kills: int, scratch: Path, shape: str, kafka_libs: Path | None = None) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    began = time.monotonic()
    with (
        spark_for(kills, scratch / "spark") as master,
        running(scratch, chance, kafka_libs, master=master, shape=shape) as (story, feeder),
    ):
        story.driver.wait_for("started")
        story.wait_for_more()
        for kill in schedule(kills, chance, shape):
            if time.monotonic() - began > SECONDS:
                break
            story.kill(kill)
        count = feeder.finish()
        rows = read_output(story, count)
        check_once(rows, feeder.sent)
        if shape == "map":
            check_order_of_the_source(rows)
        else:
            check_counted_once(rows)
        if shape == "streams":
            check_sums(story, feeder.sent)
        check_group(story, feeder.sent)
    name = f"{shape}, {'Penstock' if kafka_libs is None else 'Apache Kafka'}"
    report(name, story, seed, count, time.monotonic() - began)


def test_every_record_once_whoever_is_killed(tmp_path: Path) -> None:
    run(KILLS, tmp_path, "stateful")


@MANY_ONLY
def test_a_query_that_only_maps_keeps_the_order_of_its_source(tmp_path: Path) -> None:
    run(KILLS // 10, tmp_path, "map")


@MANY_ONLY
def test_a_streams_application(tmp_path: Path) -> None:
    """The application has a repartition topic and changelogs, and restarts without a checkpoint."""
    run(KILLS // 5, tmp_path, "streams")


@MANY_ONLY
@pytest.mark.kafka
def test_every_record_once_on_apache_kafka(tmp_path: Path, kafka_libs: Path) -> None:
    run(KILLS // 10, tmp_path, "stateful", kafka_libs)


def report(name: str, story: Story, seed: int, count: int, took_s: float) -> None:
    print(
        f"{name}: {len(story.events)} kills, {count} records, {took_s:.0f} s, zombies: {dict(story.zombies)}"
    )
    if path := os.environ.get("PENSTOCK_SINK_REPORT"):
        with open(path, "a") as file:
            for event in story.events:
                fields = {"run": name, "seed": seed, **event.kill._asdict(), "outcome": event.outcome.name}
                fields |= {"stable_s": round(event.stable_s, 2), "resumed_s": round(event.resumed_s, 1)}
                file.write(json.dumps(fields) + "\n")
            file.write(
                json.dumps({"run": name, "seed": seed, "records": count, "zombies": dict(story.zombies)})
                + "\n"
            )


@MANY_ONLY
def test_without_the_marker_a_kill_doubles_a_batch(tmp_path: Path) -> None:
    """The tests above detect a sink that does not check whether a batch was already published."""
    conditions = {"master": "local[2]", NO_MARKER_CHECK: "1"}
    with running(tmp_path, random.Random(0), **conditions) as (story, feeder):
        story.driver.wait_for("started")
        story.wait_for_more()
        with pytest.raises(AssertionError, match=r"Outcome\.PUBLISHED"):
            story.kill(Kill("after EndTxn", "workers"))
        count = feeder.finish()
        rows = read_output(story, count)
        with pytest.raises(AssertionError, match="came twice"):
            check_once(rows, feeder.sent)
