"""A follower on a node: the records it passes on, when, and the number of its requests."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client.config import ClientConfig
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.reading.follower import Committed, Follower
from penstock.testing import Cluster

IN_TIME_S = 60.0


class _Seen:
    """The end offsets that the follower reported, and its numbers of responses with and without records."""

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        self.answers = 0
        self.empty_answers = 0
        self.begun: list[int] = []
        self.dropped_ones: list[int] = []
        self.count = 0
        self.counts_at_drops: list[int] = []
        self._changed = threading.Condition()

    def counted(self, partitions: Mapping[str, int]) -> None:
        self.count = sum(partitions.values())

    def dropped(self, tp: TopicPartition) -> None:
        self.dropped_ones.append(tp.partition)
        self.counts_at_drops.append(self.count)
        self._moved({})

    def failed(self, error: BaseException) -> None: ...

    def begin(self, tp: TopicPartition, offset: int) -> None:
        self.begun.append(tp.partition)
        self._moved({tp.partition: offset})

    def take(self, arrived: Mapping[TopicPartition, Committed]) -> None:
        brought = {tp.partition: found.next_offset for tp, found in arrived.items() if found.spans}
        self.answers += bool(brought)
        self.empty_answers += not brought
        self._moved(brought)

    def _moved(self, ends: dict[int, int]) -> None:
        with self._changed:
            self.ends |= ends
            self._changed.notify_all()

    def wait(self, holds: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(holds, IN_TIME_S), (self.ends, self.answers)


@pytest.fixture
def topic(penstock_cluster: Cluster) -> str:
    name = f"followed-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": penstock_cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(IN_TIME_S)
    return name


@pytest.fixture
def produce(penstock_cluster: Cluster, topic: str) -> Callable[[int], None]:
    """Write one record to a partition, and wait for its acknowledgement."""
    producer = Producer({"bootstrap.servers": penstock_cluster.bootstrap_servers, "linger.ms": 0})

    def one(partition: int) -> None:
        producer.produce(topic, b"v", partition=partition)
        assert producer.flush(IN_TIME_S) == 0

    return one


@contextmanager
def following(cluster: Cluster, topic: str, rest_s: float) -> Iterator[_Seen]:
    seen = _Seen()
    made = follower(cluster, topic, seen, rest_s=rest_s)
    made.start()
    try:
        seen.wait(lambda: len(seen.ends) == 2)
        yield seen
    finally:
        made.close()


def follower(
    cluster: Cluster, topic: str, seen: _Seen, *, rest_s: float = 0.0, wait_ms: int = 100
) -> Follower:
    return Follower(
        ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap_servers}),
        FetchConfig(max_wait_ms=wait_ms),
        [topic],
        all_of,
        seen,
        name="test",
        rest_s=rest_s,
    )


def all_of(topic: str, count: int) -> range:
    return range(count)


@pytest.mark.parametrize("rest_s", [0.0, 2.0])
def test_records_that_come_one_by_one_are_taken_together(
    penstock_cluster: Cluster, topic: str, produce: Callable[[int], None], rest_s: float
) -> None:
    """The follower rests after each response, so there are as few as the time allows, however long it is."""
    with following(penstock_cluster, topic, rest_s) as seen:
        began_s = time.monotonic()
        for number in range(40):
            produce(number % 2)
        seen.wait(lambda: seen.ends == {0: 20, 1: 20})
        assert seen.answers <= 40
        assert (seen.answers - 1) * rest_s <= time.monotonic() - began_s


def test_news_after_a_silence_are_told_at_once(
    penstock_cluster: Cluster, topic: str, produce: Callable[[int], None]
) -> None:
    with following(penstock_cluster, topic, rest_s=10 * IN_TIME_S) as seen:
        seen.wait(lambda: seen.empty_answers > 0)
        produce(0)
        seen.wait(lambda: seen.ends == {0: 1, 1: 0})


def test_it_does_as_it_is_told_while_a_broker_has_nothing_to_say(
    penstock_cluster: Cluster, topic: str, produce: Callable[[int], None]
) -> None:
    seen = _Seen()
    made = follower(penstock_cluster, topic, seen, wait_ms=600_000)
    made.start()
    seen.wait(lambda: len(seen.ends) == 2)
    time.sleep(0.3)  # the fetch is under way
    made.choose(lambda _, count: range(1))
    seen.wait(lambda: seen.dropped_ones == [1])
    made.choose(all_of)
    seen.wait(lambda: seen.begun == [0, 1, 1])
    produce(1)
    seen.wait(lambda: seen.ends == {0: 0, 1: 1})
    made.close()
    assert not made._thread.is_alive()
    made.close()
    made.choose(all_of)


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_topic_that_is_created_again_is_read_from_its_beginning(
    penstock_cluster: Cluster, topic: str, produce: Callable[[int], None], partitions: int
) -> None:
    admin = AdminClient({"bootstrap.servers": penstock_cluster.bootstrap_servers})
    with following(penstock_cluster, topic, rest_s=0.0) as seen:
        produce(0)
        produce(1)
        seen.wait(lambda: seen.ends == {0: 1, 1: 1})
        admin.delete_topics([topic])[topic].result(IN_TIME_S)
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(IN_TIME_S)
        # The other producer has the metadata of the former topic.
        producer = Producer({"bootstrap.servers": penstock_cluster.bootstrap_servers})
        for number in [n for n in range(partitions) for _ in range(3)]:
            producer.produce(topic, b"v", partition=number)
        assert producer.flush(IN_TIME_S) == 0
        seen.wait(lambda: all(seen.ends.get(n) == 3 for n in range(partitions)))
        seen.wait(lambda: partitions == 3 or seen.dropped_ones == [1])
        assert seen.dropped_ones == ([1] if partitions == 1 else [])
        assert seen.counts_at_drops == ([1] if partitions == 1 else []), "the count falls first"


def test_one_that_was_never_started_ends(penstock_cluster: Cluster, topic: str) -> None:
    follower(penstock_cluster, topic, _Seen()).close()
