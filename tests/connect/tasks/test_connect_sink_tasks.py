"""Sink tasks on a real node: records, commits, redelivery, pauses, rebalances, dead letters."""

import re
from collections.abc import Iterator, Mapping, Sequence

import pytest
from confluent_kafka import Consumer, Producer
from running_tasks import OFTEN, Keeping, Listener, Reading, clients, create, sink_parts

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as Connections
from penstock.client.groups.consumer_group import ConsumerGroup
from penstock.connect import ConfigInvalid, RetriableError, TopicPartition
from penstock.connect.stores import State
from penstock.connect.tasks import ClientProperties, sink_runner
from penstock.testing import Cluster
from waiting import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}
    with Cluster(settings) as started:
        yield started


def produce(cluster: Cluster, topic: str, values: Sequence[str], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for value in values:
        producer.produce(topic, value.encode(), b"k", partition=partition, headers=[("h", b"x")])
    assert producer.flush(30) == 0


def committed(cluster: Cluster, connector: str, topic: str) -> int | None:
    tp = TopicPartition(topic, 0)
    config = ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap_servers})
    with Connections(config) as connections:
        group = ConsumerGroup(connections, f"connect-{connector}")
        found = connections.retry(lambda: group.committed([tp]))
    return found[tp].offset if tp in found else None


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


def test_records_are_put_and_offsets_committed_after_a_flush(cluster: Cluster) -> None:
    create(cluster, "sunk")
    produce(cluster, "sunk", numbers(0, 30))
    task, listener = Keeping(), Listener()
    parts = sink_parts(task, "sinking", {"topics": "sunk"})
    runner = sink_runner(parts, clients(cluster), OFTEN, listener)
    runner.start()
    wait_until(lambda: len(task.values) == 30)
    wait_until(lambda: committed(cluster, "sinking", "sunk") == 30)
    assert task.flushed == 30
    assert (task.records[7].key, task.records[7].offset, task.records[7].headers[0].value) == ("k", 7, "x")
    produce(cluster, "sunk", numbers(30, 40))
    wait_until(lambda: len(task.values) == 40)
    runner.stop()
    assert runner.join(30)
    assert task.values == numbers(0, 40)
    assert committed(cluster, "sinking", "sunk") == 40
    assert listener.states == [State.RUNNING, State.UNASSIGNED]
    assert task.events == ["open sunk-0", "close sunk-0", "stop"]


def test_a_batch_is_put_again_after_a_retriable_error(cluster: Cluster) -> None:
    create(cluster, "again")
    produce(cluster, "again", numbers(0, 10))
    task, listener = Keeping(), Listener()
    task.failures = [RetriableError("busy"), RetriableError("busy")]
    runner = sink_runner(sink_parts(task, "again", {"topics": "again"}), clients(cluster), OFTEN, listener)
    runner.start()
    wait_until(lambda: len(task.values) == 10)
    task.failures = [ValueError("the disk is full")]
    produce(cluster, "again", numbers(10, 12))
    listener.wait_for(State.FAILED)
    assert runner.join(30)
    assert task.values == numbers(0, 10)
    assert "ValueError: the disk is full" in listener.traces[0]
    assert "Exiting WorkerSinkTask due to unrecoverable exception." in listener.traces[0]
    assert committed(cluster, "again", "again") == 10


def test_offsets_are_not_committed_if_the_task_cannot_flush(cluster: Cluster) -> None:
    class Flushing(Keeping):
        fails = True

        def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
            if self.fails and self.values:
                raise ValueError("cannot flush")
            super().flush(offsets)

    create(cluster, "flushed")
    produce(cluster, "flushed", numbers(0, 5))
    task, listener = Flushing(), Listener()
    parts = sink_parts(task, "flushing", {"topics": "flushed"})
    runner = sink_runner(parts, clients(cluster), OFTEN, listener)
    runner.start()
    wait_until(lambda: len(task.values) >= 10)  # the same records again
    assert committed(cluster, "flushing", "flushed") is None
    task.fails = False
    wait_until(lambda: committed(cluster, "flushing", "flushed") == 5)
    runner.stop()
    assert runner.join(30)
    assert task.values[:10] == numbers(0, 5) * 2


def test_a_paused_task_stays_in_its_group_and_gets_no_records(cluster: Cluster) -> None:
    create(cluster, "resting")
    produce(cluster, "resting", numbers(0, 3))
    task, listener = Keeping(), Listener()
    parts = sink_parts(task, "resting", {"topics.regex": "rest.*"})
    runner = sink_runner(parts, clients(cluster), OFTEN, listener)
    runner.start()
    wait_until(lambda: len(task.values) == 3)
    runner.pause()
    listener.wait_for(State.PAUSED)
    produce(cluster, "resting", numbers(3, 6))
    commits = runner.metrics.commits
    wait_until(lambda: runner.metrics.commits > commits + 3)
    assert task.values == numbers(0, 3)
    runner.resume()
    wait_until(lambda: len(task.values) == 6)
    runner.stop()
    assert runner.join(30)
    assert task.events == ["open resting-0", "close resting-0", "stop"]


def test_two_tasks_share_partitions_with_a_consumer_of_librdkafka(cluster: Cluster) -> None:
    create(cluster, "shared", 3)
    tasks = [Keeping(), Keeping()]
    runners = [
        sink_runner(
            sink_parts(task, "sharing", {"topics": "shared"}),
            clients(cluster, heartbeat_interval_ms="100"),
            OFTEN,
            Listener(),
        )
        for task in tasks
    ]
    for runner in runners:
        runner.start()
    wait_until(lambda: sum(runner.metrics.partitions for runner in runners) == 3)
    other = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "connect-sharing"})
    other.subscribe(["shared"])
    wait_until(lambda: (other.poll(0.05), len(other.assignment()) == 1)[1])
    wait_until(lambda: all(runner.metrics.partitions == 1 for runner in runners))
    other.close()
    wait_until(lambda: sum(runner.metrics.partitions for runner in runners) == 3)
    runners[0].stop()
    assert runners[0].join(30)
    wait_until(lambda: runners[1].metrics.partitions == 3)
    for partition in range(3):
        produce(cluster, "shared", [f"{partition}-{number}" for number in range(5)], partition)
    wait_until(lambda: len(tasks[1].values) == 15)
    runners[1].stop()
    assert runners[1].join(30)


def test_failed_and_reported_records_become_dead_letters(cluster: Cluster) -> None:
    create(cluster, "letters")
    produce(cluster, "letters", ["good", "bad", "refused", "better"])
    task, listener = Keeping(), Listener()
    task.reported = {"refused"}
    properties = {
        "topics": "letters",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    runner = sink_runner(sink_parts(task, "lettering", properties), clients(cluster), OFTEN, listener)
    runner.start()
    wait_until(lambda: committed(cluster, "lettering", "letters") == 4)
    runner.stop()
    assert runner.join(30)
    reading = Reading(cluster, "dead")
    assert reading.wait_for(2) == ["bad", "refused"]
    bad, refused = reading.headers
    assert bad["h"] == b"x"
    assert bad["__connect.errors.stage"] == b"VALUE_CONVERTER"
    assert bad["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert refused["__connect.errors.stage"] == b"TASK_PUT"
    assert refused["__connect.errors.class.name"] == b"org.apache.kafka.connect.sink.SinkTask"
    assert refused["__connect.errors.offset"] == b"2"
    assert task.values == ["good", "better"]
    reading.close()


def test_a_reported_record_fails_the_task_if_errors_are_not_tolerated(cluster: Cluster) -> None:
    create(cluster, "strict")
    produce(cluster, "strict", ["refused"])
    task, listener = Keeping(), Listener()
    task.reported = {"refused"}
    properties = {"topics": "strict", "errors.log.enable": "true"}
    runner = sink_runner(sink_parts(task, "strict", properties), clients(cluster), OFTEN, listener)
    runner.start()
    listener.wait_for(State.FAILED)
    assert "ValueError: refused: refused" in listener.traces[0]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "Must configure one of topics or topics.regex"),
        ({"topics": "a", "errors.tolerance": "some"}, "invalid value 'some' for 'errors.tolerance'"),
        ({"topics.regex": "(a"}, "Syntax error in regular expression"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused(properties: dict[str, str], message: str) -> None:
    servers = ClientProperties(producer={}, consumer={"bootstrap.servers": "localhost:1"}, admin={})
    with pytest.raises(ConfigInvalid, match=re.escape(message)):
        sink_runner(sink_parts(Keeping(), "wrong", properties), servers, OFTEN, Listener())
