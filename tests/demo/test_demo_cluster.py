"""The demo's requests to a cluster, with a real node and without Spark."""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.demo.driver import Settings
from penstock.demo.feed import Feed
from penstock.demo.log import LogRecord, read_topics
from penstock.demo.monitor import Lag, Monitor
from penstock.demo.processes import Application, ApplicationEnded
from penstock.demo.scenario import Record
from penstock.demo.topics import Topics, create_topics
from penstock.testing import Cluster

PARTITIONS = 2


@pytest.fixture
def servers(penstock_cluster: Cluster) -> str:
    return penstock_cluster.bootstrap_servers


@pytest.fixture
def topics(servers: str) -> Topics:
    topics = Topics(f"demo-{uuid.uuid4().hex[:8]}")
    create_topics(servers, topics, PARTITIONS)
    return topics


def produce_in_transaction(
    servers: str, records: list[tuple[str, int, str, object]], abort: bool = False
) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    for topic, partition, key, value in records:
        producer.produce(topic, None if value is None else json.dumps(value), key, partition)
    producer.abort_transaction(30) if abort else producer.commit_transaction(30)


def test_the_feed_sends_every_record_once_and_in_order(servers: str, topics: Topics) -> None:
    records = [
        Record(topics.flights, n % PARTITIONS, b"%d" % (n % 7), None if n % 10 == 0 else b"%d" % n, n)
        for n in range(1, 2_501)
    ]
    feed = Feed(servers, records)
    while not feed.is_done:
        feed.send(1_000)
    expected = defaultdict(list)
    for record in records:
        expected[record.partition].append(LogRecord(record.partition, *record[2:]))
    assert feed.sent == feed.total == 2_500
    assert read_topics(servers, [topics.flights])[topics.flights] == expected[0] + expected[1]


def test_only_committed_records_are_read(servers: str, topics: Topics) -> None:
    hours = topics.hours
    produce_in_transaction(servers, [(hours, 0, "B6", 1), (hours, 1, "AA", None)])
    produce_in_transaction(servers, [(hours, 0, "UA", 2)], abort=True)
    produce_in_transaction(servers, [(hours, 0, "UA", 3)])
    found = read_topics(servers, [hours, topics.weather_delays])
    assert [record[:3] for record in found[hours]] == [(0, b"B6", b"1"), (0, b"UA", b"3"), (1, b"AA", None)]
    assert found[topics.weather_delays] == []


def test_lag_is_that_of_the_applications_group(servers: str, topics: Topics) -> None:
    own = f"{topics.prefix}-by-airline-repartition"
    Feed(servers, [Record(topics.flights, n % 2, b"k", b"{}", 1 + n) for n in range(10)]).send(10)
    produce_in_transaction(servers, [(own, 0, "B6", 1), (own, 0, "B6", 2)])
    monitor = Monitor(servers, topics, PARTITIONS)
    assert monitor.lag() == Lag(read=0, behind=10, under_way=0)
    member = Consumer({"bootstrap.servers": servers, "group.id": topics.prefix})
    at = [
        TopicPartition(topics.flights, 0, 5),
        TopicPartition(topics.flights, 1, 2),
        TopicPartition(own, 0, 1),
    ]
    member.commit(offsets=at, asynchronous=False)
    assert monitor.lag() == Lag(read=7, behind=3, under_way=2)  # the transaction's marker counts
    assert not monitor.lag().is_drained
    at = [TopicPartition(topics.flights, 1, 5), TopicPartition(own, 0, 3)]
    member.commit(offsets=at, asynchronous=False)
    assert monitor.lag() == Lag(read=10, behind=0, under_way=0)
    assert monitor.lag().is_drained
    member.close()
    monitor.close()


def test_airlines_are_shown_as_they_are_committed(servers: str, topics: Topics) -> None:
    def row(airline: str | None, minutes: int, flights: int = 100) -> dict[str, object]:
        sums = {"cancelled": 0, "delayed": 5, "seats": 9, "flights": flights, "minutes": minutes}
        return {"airline": airline, **sums}

    monitor = Monitor(servers, topics, PARTITIONS)
    name = topics.airline_delays
    produce_in_transaction(servers, [(name, 0, "B6", row("JetBlue", 100)), (name, 1, "AA", row(None, 900))])
    produce_in_transaction(servers, [(name, 0, "UA", row("United", 999_999))], abort=True)
    produce_in_transaction(servers, [(name, 0, "OO", row("SkyWest", 6_000, flights=20))])
    produce_in_transaction(
        servers, [(name, 0, "B6", row("JetBlue", 500)), (name, 0, "WN", row("Southwest", 1))]
    )
    produce_in_transaction(servers, [(name, 0, "WN", None)])
    deadline = time.monotonic() + 60
    while monitor.results < 6 and time.monotonic() < deadline:
        monitor.read_results()
    monitor.close()
    shown = [(airline.name, airline.mean_minutes) for airline in monitor.worst_airlines()]
    assert shown == [("AA", 9.0), ("JetBlue", 5.0)]
    assert monitor.results == 6


def test_while_the_node_is_away_the_lag_is_what_it_was() -> None:
    topics = Topics("away")
    with Cluster() as cluster:
        create_topics(cluster.bootstrap_servers, topics, 1)
        Feed(cluster.bootstrap_servers, [Record(topics.flights, 0, b"k", b"{}", 1)]).send(1)
        monitor = Monitor(cluster.bootstrap_servers, topics, 1)
        before = monitor.lag()
        cluster.kill()
        assert monitor.lag() == before == Lag(0, 1, 0)
        cluster.start()
        assert monitor.lag() == before
        monitor.close()


def test_why_the_application_ended_is_told(tmp_path: Path) -> None:
    application = Application(Settings("127.0.0.1:1", "no name!", str(tmp_path), str(tmp_path / "log")))
    application.start()
    deadline = time.monotonic() + 60
    while application.is_running and time.monotonic() < deadline:
        time.sleep(0.05)
    with pytest.raises(ApplicationEnded, match="an application's name has letters"):
        application.require_running()
    application.kill()
    assert "Traceback" in (tmp_path / "log").read_text()
