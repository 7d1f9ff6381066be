"""kill -9 of a SQL server during its queries: the outputs equal those of an uninterrupted server.

PENSTOCK_SQL_KILLS sets the number of kills (10 to 20 s each; without it the test is skipped), PENSTOCK_SEED
repeats a run.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from sql_server_process import SqlServerProcess
from sql_shop import CUSTOMERS, INPUTS, OUTPUTS, PARTITIONS, QUERIES, SOURCES, Row, Shop, Uninterrupted

from penstock.testing import Cluster

KILLS = int(os.environ.get("PENSTOCK_SQL_KILLS", "0"))
RECORDS_PER_S = 100
PROGRESS_TIMEOUT_S = 120
DRAIN_TIMEOUT_S = 180

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(2 * DRAIN_TIMEOUT_S + PROGRESS_TIMEOUT_S * (KILLS + 1)),
    pytest.mark.skipif(KILLS == 0, reason="PENSTOCK_SQL_KILLS sets how many kills, or make soak-streams"),
]


class Topics:
    """The topics of the shop, accessed by clients that are not ours."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        admin = AdminClient({"bootstrap.servers": servers})
        for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in INPUTS]).values():
            made.result(30)

    def write(self, rows: list[Row]) -> None:
        for topic, key, value, timestamp_ms in rows:
            self._producer.produce(topic, value, key, timestamp=timestamp_ms)
        assert self._producer.flush(60) == 0

    def read(self, topic: str) -> list[Row]:
        """The committed records, by partition."""
        settings = {"isolation.level": "read_committed", "enable.partition.eof": True}
        found = []
        with closing(self._consumer(settings)) as consumer:
            for partition in range(PARTITIONS):
                consumer.assign([TopicPartition(topic, partition, 0)])
                while (message := consumer.poll(30)) is not None and not message.error():
                    found.append(Row(topic, message.key(), message.value(), message.timestamp()[1]))
        return found

    def end(self, topic: str) -> int:
        """The sum of the high watermarks of all partitions."""
        with closing(self._consumer({})) as consumer:
            return sum(
                consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)[1]
                for partition in range(PARTITIONS)
            )

    def _consumer(self, settings: dict[str, object]) -> Consumer:
        return Consumer({"bootstrap.servers": self._servers, "group.id": "reader", **settings})


@contextmanager
def trading(shop: Shop, topics: Topics) -> Iterator[None]:
    """Write records continuously during the block."""
    is_over = threading.Event()

    def trade() -> None:
        while not is_over.wait(0.2):
            topics.write(shop.more(RECORDS_PER_S // 5))

    thread = threading.Thread(target=trade)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


class Story:
    """The server and its kills."""

    def __init__(self, server: SqlServerProcess, topics: Topics, chance: random.Random) -> None:
        self._server = server
        self._topics = topics
        self._chance = chance
        self._seen: dict[int, int] = {}

    def begin(self) -> None:
        self._server.start()
        self._server.wait_until_ready()
        self._server.run(SOURCES + QUERIES, auto_offset_reset="earliest")

    def kill(self, *, removing: bool = False) -> None:
        """Kill the server as it starts or works, at random. ``removing`` also removes its checkpoint."""
        point = self._chance.choices(("at work", "starting"), (4, 1))[0]
        began_s = time.monotonic()
        if point == "at work" or removing:
            self._wait_for_more()
            time.sleep(self._chance.uniform(0, 3))
        else:
            time.sleep(self._chance.uniform(0, 12))
        self._server.kill()
        print(f"killed {point}, {time.monotonic() - began_s:.1f} s after its start", flush=True)
        if removing:
            shutil.rmtree(self._server.checkpoint)
        self._server.start()

    def _wait_for_more(self) -> None:
        """Wait until the server writes, and check its answers about a table against earlier ones."""
        self._server.wait_until_ready()
        before = self._topics.end("DEAR")
        wait_for(lambda: self._topics.end("DEAR") > before, PROGRESS_TIMEOUT_S, self._server.last_words)
        self.look()

    def look(self) -> None:
        """Check that a table counts each order once: each customer's orders are numbered from 1."""
        for customer, n, seqs, latest in self._server.rows("SELECT * FROM totals;"):
            assert n == latest
            assert seqs == n * (n + 1) // 2
            assert n >= self._seen.get(customer, 0)
            self._seen[customer] = n


def wait_for(holds: Callable[[], bool], within_s: float, last_words: Callable[[], str]) -> None:
    deadline_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline_s, last_words()
        time.sleep(0.1)


def differences(topics: Topics, expected: Uninterrupted) -> list[str]:
    """The differences between the outputs and the expected ones: the first key of each output."""
    found = []
    for output in OUTPUTS:
        there = output.compare(topics.read(output.topic))
        wanted = output.compare(expected.of(output.topic))
        for key in sorted(there.keys() | wanted.keys(), key=repr):
            if there.get(key) != wanted.get(key):
                found.append(f"{output.topic}, {key!r}: found {there.get(key)}, expected {wanted.get(key)}")
                break
    return found


def test_outputs_after_kills_are_those_of_a_server_never_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", str(time.time_ns() % 2**32)))
    print(f"PENSTOCK_SEED={seed}")
    shop = Shop(random.Random(seed))
    with Cluster() as cluster:
        topics = Topics(cluster.bootstrap_servers)
        topics.write(shop.open())
        server = SqlServerProcess(cluster.bootstrap_servers, tmp_path)
        story = Story(server, topics, random.Random(seed + 1))
        try:
            story.begin()
            with trading(shop, topics):
                for _ in range(KILLS):
                    story.kill()
                story.kill(removing=True)
            topics.write(shop.close())
            expected = Uninterrupted(shop.rows)
            assert all(expected.of(output.topic) for output in OUTPUTS)
            server.wait_until_ready()
            wait_for(
                lambda: not differences(topics, expected),
                DRAIN_TIMEOUT_S,
                lambda: "\n".join(each[:2000] for each in differences(topics, expected)),
            )
            story.look()
            rows = server.rows("SELECT * FROM totals;")
            assert len(rows) == CUSTOMERS
            server.stop()
            assert not differences(topics, expected)
        finally:
            server.kill()
    print(f"{len(shop.rows)} records, {server.starts} starts")
