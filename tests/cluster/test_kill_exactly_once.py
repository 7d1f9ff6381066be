"""kill -9 of executors, driver and broker under an exactly-once query: every record once, in order.

A proxy before the broker tells how far the sink is, so that kills hit named points; the rest are random.
PENSTOCK_SINK_KILLS sets how many, PENSTOCK_SEED repeats a run, PENSTOCK_SINK_REPORT names a file that gets a
line for each run, so that a long one may be done in parts.
"""

from __future__ import annotations

import itertools
import json
import os
import random
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
from exactly_once_query import (
    GROUP,
    NO_MARKER_CHECK,
    SINK_CLIENT,
    SOURCE,
    TOPICS,
    TRANSACTION_TIMEOUT_MS,
)
from query_processes import Driver

from penstock.client.cluster import Cluster as Client
from penstock.client.config import ClientConfig
from penstock.client.groups import ConsumerGroup
from penstock.client.metadata import TopicPartition
from penstock.client.offsets import LATEST, IsolationLevel, list_offsets
from penstock.protocol.api_keys import ApiKey
from penstock.testing import Cluster
from wire_proxy import Fate, Request, WireProxy

KILLS = int(os.environ.get("PENSTOCK_SINK_KILLS", "3"))
TWO_EXECUTORS = "local-cluster[2,1,1024]"
KEYS = 16
SOURCE_PARTITIONS = 3
OUTPUT_PARTITIONS = 2
LSO_LIMIT_S = 10
STRIKE_TIMEOUT_S = 60

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240 + 40 * KILLS)]


class Kill(NamedTuple):
    point: str
    victim: str


#: Who is killed at each point. "java": the driver without its Python processes; "workers": these alone.
POINTS: dict[str, tuple[str, ...]] = {
    "after EndTxn": ("workers", "driver", "java", "broker"),
    "before staging": ("executor", "driver", "broker"),
    "mid-publish": ("broker", "workers", "driver", "java", "executor"),
    "before EndTxn": ("driver", "workers", "broker", "java"),
    "coordinator down": ("broker",),
    "stopped, continued": ("driver",),
}
RANDOM_VICTIMS = ("executor",) * 4 + ("broker",) * 3 + ("driver",) * 2 + ("workers",)
#: Of 200 kills 14 hit each point.
SHARE = 0.07


def schedule(count: int, chance: random.Random) -> list[Kill]:
    """Few kills are those of the first points; of many, each point has its share and the rest are random."""
    if count < 2 * len(POINTS):
        return [Kill(point, victims[0]) for point, victims in list(POINTS.items())[:count]]
    each = max(1, round(count * SHARE))
    kills = [
        Kill(point, victim)
        for point, victims in POINTS.items()
        for victim in itertools.islice(itertools.cycle(chance.sample(victims, len(victims))), each)
    ]
    kills += [Kill("random", chance.choice(RANDOM_VICTIMS)) for _ in range(count - len(kills))]
    chance.shuffle(kills)
    return kills


class Feeder(threading.Thread):
    """Writes "key number" to the source, the numbers of each key in order, until it is told to stop."""

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
    """The broker behind its proxy, the driver of the moment, and what has befallen them."""

    def __init__(self, cluster: Cluster, proxy: WireProxy, scratch: Path, master: str, **environment: str):
        self.cluster = cluster
        self.proxy = proxy
        self.done: Counter[Kill] = Counter()
        self.lso_waits_s: list[float] = []
        self.fenced = 0
        self._scratch = scratch
        self._master = master
        self._environment = environment
        self._numbers = itertools.count()
        self._struck = threading.Event()
        self._client = Client(ClientConfig.from_properties({"bootstrap.servers": proxy.bootstrap_servers}))
        self.driver = self._start_driver()

    def _start_driver(self) -> Driver:
        name = f"driver-{next(self._numbers)}"
        return Driver(
            self.proxy.bootstrap_servers,
            self._scratch / "checkpoint",
            self._scratch / name,
            self._master,
            self._environment,
        )

    def close(self) -> None:
        self.driver.kill_all()
        self._client.close()

    # Kills

    def kill(self, kill: Kill, chance: random.Random) -> None:
        self._struck.clear()
        runs = self.driver.count("started")
        match kill.point:
            case "random":
                time.sleep(chance.uniform(0.0, 1.5))
                self._strike(kill.victim)
            case "before staging":
                self._strike_in_a_task(kill.victim)
            case "mid-publish":
                self._strike_on_the_wire(ApiKey.PRODUCE, kill.victim, Fate.PASS)
            case "before EndTxn":
                self._strike_on_the_wire(ApiKey.END_TXN, kill.victim, Fate.CUT_BEFORE)
            case "after EndTxn":
                self._strike_after_end(kill.victim)
            case "coordinator down":
                fate = chance.choice((Fate.CUT_BEFORE, Fate.CUT_AFTER))
                if fate is Fate.CUT_AFTER:
                    self._strike_after_end("broker")
                else:
                    self._strike_on_the_wire(ApiKey.END_TXN, "broker", fate)
                time.sleep(TRANSACTION_TIMEOUT_MS / 1000 + 1)
            case "stopped, continued":
                self._stop_and_continue(chance)
        self._recover(kill.victim, runs)
        self._await_stable_end()
        self.done[kill] += 1

    def _strike(self, victim: str) -> None:
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
                self.cluster.kill()
            case "driver to stop":
                self.driver.stop_all()
        self._struck.set()

    def _strike_in_a_task(self, victim: str) -> None:
        """When a task has computed its rows and is about to write them."""
        (self.driver.control / "strike").write_text(victim)
        struck = self.driver.control / "struck"
        self._wait_until(struck.exists)
        struck.unlink()
        if victim != "executor":
            self._strike(victim)

    def _strike_on_the_wire(self, key: ApiKey, victim: str, fate: Fate) -> None:
        """When the sink sends such a request: before it reaches the broker."""
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
        """When the broker has decided the transaction; the sink never hears of it."""
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

    def _stop_and_continue(self, chance: random.Random) -> None:
        """The driver stands still in the middle of a transaction, is replaced, and then goes on."""
        key = chance.choice((ApiKey.PRODUCE, ApiKey.END_TXN))
        fate = chance.choice((Fate.PASS, Fate.CUT_BEFORE))
        self._strike_on_the_wire(key, "driver to stop", fate)
        zombie, self.driver = self.driver, self._start_driver()
        try:
            before = self.stable_ends()
            self.driver.wait_for("started")
            self._wait_until(lambda: self.stable_ends() > before)
            (zombie.control / "stay-down").touch()
            zombie.continue_all()
            self._wait_until(lambda: zombie.count("fenced") + zombie.count("failed") > 0)
            self.fenced += zombie.count("fenced")
        finally:
            zombie.kill_all()

    # And back

    def _recover(self, victim: str, runs: int) -> None:
        """Start again what was killed, and return when it works."""
        match victim:
            case "broker":
                self.cluster.start()
            case "java":
                old, self.driver = self.driver, self._start_driver()
                self.driver.wait_for("started")
                old.kill_all()
            case "driver":
                if not self.driver.is_alive:  # else it was replaced already
                    self.driver = self._start_driver()
                self.driver.wait_for("started")
            case "workers":
                self.driver.wait_for("started", runs + 1)

    def _ends(self, isolation: IsolationLevel) -> dict[TopicPartition, int]:
        asked = {TopicPartition(topic, p): LATEST for topic in TOPICS for p in range(OUTPUT_PARTITIONS)}
        return {tp: found.offset for tp, found in list_offsets(self._client, asked, isolation).items()}

    def stable_ends(self) -> int:
        return sum(self._ends(IsolationLevel.READ_COMMITTED).values())

    def _await_stable_end(self) -> None:
        """Until the last stable offset has passed everything that was in the log at the restart."""
        began = time.monotonic()
        ends = self._ends(IsolationLevel.READ_UNCOMMITTED)
        while any(offset < ends[tp] for tp, offset in self._ends(IsolationLevel.READ_COMMITTED).items()):
            waited = time.monotonic() - began
            assert waited < LSO_LIMIT_S, f"a transaction is open {waited:.1f} s after the restart"
            time.sleep(0.02)
        self.lso_waits_s.append(time.monotonic() - began)

    def wait_for_more(self) -> None:
        """Until something else was committed, so that every kill hits work under way."""
        before = self.stable_ends()
        self._wait_until(lambda: self.stable_ends() > before)

    def _wait_until(self, condition: Callable[[], bool], within_s: float = STRIKE_TIMEOUT_S) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"it never came to be\n{self.driver.last_words()}"
            time.sleep(0.02)


@contextmanager
def running(scratch: Path, master: str, **environment: str) -> Iterator[tuple[Story, Feeder]]:
    with WireProxy() as proxy:
        config = {
            "advertised.listeners": f"PLAINTEXT://{proxy.bootstrap_servers}",
            "transaction.state.log.num.partitions": "2",
        }
        with Cluster(config, data_dir=scratch / "data") as cluster:
            proxy.target = cluster.bootstrap_servers
            admin = AdminClient({"bootstrap.servers": proxy.bootstrap_servers})
            topics = [NewTopic(SOURCE, SOURCE_PARTITIONS, 1)]
            topics += [NewTopic(topic, OUTPUT_PARTITIONS, 1) for topic in TOPICS]
            for created in admin.create_topics(topics).values():
                created.result(20)
            story = Story(cluster, proxy, scratch, master, **environment)
            try:
                feeder = Feeder(proxy.bootstrap_servers)
                feeder.start()
                yield story, feeder
            finally:
                story.close()


def read_output(servers: str, count: int, last_words: Callable[[], str]) -> dict[int, list[tuple[int, int]]]:
    """By key, (number, count) of every record in order, as a `read_committed` client sees them.

    Waits for ``count`` records and then reads all there is, to the very end.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "check",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    partitions = [ConfluentPartition(topic, p, 0) for topic in TOPICS for p in range(OUTPUT_PARTITIONS)]
    consumer.assign(partitions)
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    at_end: set[tuple[str, int]] = set()
    deadline = time.monotonic() + 120
    while len(at_end) < len(partitions) or sum(map(len, found.values())) < count:
        assert time.monotonic() < deadline, f"{sum(map(len, found.values()))} of {count}\n{last_words()}"
        message = consumer.poll(0.5)
        if message is None:
            continue
        place = (message.topic(), message.partition())
        if message.error() is None:
            at_end.discard(place)
            key, number, counted = map(int, message.value().split())
            found[key].append((number, counted))
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            at_end.add(place)
    consumer.close()
    return found


def check_exactly_once(output: dict[int, list[tuple[int, int]]], sent: Counter[int]) -> None:
    """Each record of each key once, in order, and counted once by the state."""
    twice = sum(len(rows) - len(set(rows)) for rows in output.values())
    assert not twice, f"{twice} records came twice"
    for key, count in sent.items():
        assert output[key] == [(number, number) for number in range(count)], f"key {key}: {output[key][:20]}"


def check_group(story: Story, sent: Counter[int]) -> None:
    """The consumer group of the source is where the input ends: it went with the output."""
    expected: Counter[TopicPartition] = Counter()
    for key, count in sent.items():
        expected[TopicPartition(SOURCE, key % SOURCE_PARTITIONS)] += count
    with Client(ClientConfig.from_properties({"bootstrap.servers": story.proxy.bootstrap_servers})) as client:
        committed = client.retry(lambda: ConsumerGroup(client, GROUP).committed(list(expected)))
    assert {tp: found.offset for tp, found in committed.items()} == dict(expected)


def test_every_record_once_whoever_is_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(1 << 32)))
    print(f"PENSTOCK_SEED={seed}")
    chance = random.Random(seed)
    began = time.monotonic()
    with running(tmp_path, TWO_EXECUTORS) as (story, feeder):
        story.driver.wait_for("started")
        for kill in schedule(KILLS, chance):
            story.wait_for_more()
            story.kill(kill, chance)
        count = feeder.finish()
        output = read_output(story.proxy.bootstrap_servers, count, lambda: story.driver.last_words())
        check_exactly_once(output, feeder.sent)
        check_group(story, feeder.sent)
        report(story, seed, count, time.monotonic() - began)
        zombies = story.done[Kill("stopped, continued", "driver")]
        assert story.fenced or not zombies, "no zombie was fenced"


def report(story: Story, seed: int, count: int, took_s: float) -> None:
    kills = {f"{kill.point}: {kill.victim}": times for kill, times in sorted(story.done.items())}
    line = {
        "seed": seed,
        "kills": story.done.total(),
        "records": count,
        "took_s": round(took_s),
        "lso_wait_s_max": round(max(story.lso_waits_s), 2),
        "zombies_fenced": story.fenced,
        **kills,
    }
    print(json.dumps(line))
    if path := os.environ.get("PENSTOCK_SINK_REPORT"):
        with open(path, "a") as file:
            file.write(json.dumps(line) + "\n")


def test_without_the_marker_a_kill_doubles_a_batch(tmp_path: Path) -> None:
    """The test above would find a sink that does not look whether a batch has been published."""
    with running(tmp_path, "local[2]", **{NO_MARKER_CHECK: "1"}) as (story, feeder):
        story.driver.wait_for("started")
        for _ in range(2):
            story.wait_for_more()
            story.kill(Kill("after EndTxn", "workers"), random.Random(0))
        count = feeder.finish()
        output = read_output(story.proxy.bootstrap_servers, count, lambda: story.driver.last_words())
        with pytest.raises(AssertionError, match="came twice"):
            check_exactly_once(output, feeder.sent)
