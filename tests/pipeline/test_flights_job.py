"""The whole job on one real week, against a real node and a real Spark."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from rich.console import Console

from penstock.spark.flights.job import Options, Outcome, run
from penstock.spark.flights.replay import DAY_MS
from penstock.spark.flights.topics import Topics, TopicsExist, create_topics
from penstock.spark.flights.view import View

pytestmark = pytest.mark.spark

DAYS = 7
FLIGHTS = 6_099
RESULTS = 2_133
PARTITIONS = 3
TOPICS = Topics("week")


@pytest.fixture(scope="module")
def shown() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def outcome(
    spark: SparkSession, servers: str, shown: io.StringIO, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    options = Options(
        servers,
        TOPICS,
        tmp_path_factory.mktemp("demo"),
        days=DAYS,
        partitions=PARTITIONS,
        max_offsets_per_trigger=2_500,
    )
    return run(options, View(Console(file=shown, force_terminal=False, width=120)), spark)


def test_stream_batch_and_pandas_agree_on_every_row(outcome: Outcome) -> None:
    assert [comparison.differences for comparison in outcome.comparisons] == [[], []]
    assert outcome.correct
    assert (outcome.flights, outcome.results) == (FLIGHTS, RESULTS)


def test_no_row_was_late_though_several_batches_crossed_partitions(outcome: Outcome) -> None:
    assert outcome.totals.rows_late == 0
    assert outcome.totals.rows_read == FLIGHTS + PARTITIONS
    assert outcome.totals.batches >= 4


def test_it_says_what_it_did(outcome: Outcome, shown: io.StringIO) -> None:
    text = shown.getvalue()
    for step in ("events of 7 days made", "6,099 flights streamed", "Spark's batch", "chart drawn"):
        assert step in text
    assert outcome.chart.read_bytes().startswith(b"\x89PNG")
    assert outcome.chart.name == Path("flights.png").name


def test_partitions_stay_within_a_day_of_each_other(outcome: Outcome, servers: str) -> None:
    """The promise that the watermark's delay rests on, read from the topic itself."""
    days = [_event_days(servers, partition) for partition in range(PARTITIONS)]
    assert all(partition == sorted(partition) for partition in days)
    assert max(map(len, days)) - min(map(len, days)) <= 1
    for moment in zip(*days, strict=False):
        assert max(moment) - min(moment) <= 1


def test_topics_of_another_run_are_left_alone(outcome: Outcome, servers: str) -> None:
    with pytest.raises(TopicsExist, match="week"):
        create_topics(servers, TOPICS, PARTITIONS)


def _event_days(servers: str, partition: int) -> list[int]:
    """The event-time day of each flight in one partition, in offset order, without the end event."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "test", "enable.auto.commit": False})
    assignment = TopicPartition(TOPICS.flights, partition)
    _, end = consumer.get_watermark_offsets(assignment, 10)
    consumer.assign([TopicPartition(TOPICS.flights, partition, 0)])
    messages = consumer.consume(end, 20)
    consumer.close()
    return [message.timestamp()[1] // DAY_MS for message in messages][:-1]
