"""Source tasks on a real node: records, offsets, pauses, errors, topics, and both guarantees."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient
from running_tasks import (
    OFTEN,
    Counting,
    Listener,
    Reading,
    clients,
    create,
    exactly_once,
    source_parts,
    started_offsets,
)

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as Connections
from penstock.connect import RetriableError, SourceRecord
from penstock.connect.stores import State
from penstock.connect.tasks import source_runner
from penstock.protocol.messages import UpdateFeaturesRequest, UpdateFeaturesResponse
from penstock.testing import Cluster
from waiting import wait_until

SAFE_DOWNGRADE = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as started:
        yield started


def test_records_arrive_and_offsets_are_stored_for_the_next_start(cluster: Cluster) -> None:
    create(cluster, "counted")
    store, offsets = started_offsets(cluster, "counting")
    reading = Reading(cluster, "counted")
    for end in (25, 60):
        task, listener = Counting("counted", end), Listener()
        runner = source_runner(source_parts(task, "counting"), clients(cluster), offsets, OFTEN, listener)
        runner.start()
        reading.wait_for(end)
        runner.stop()
        assert runner.join(30)
        assert listener.states == [State.RUNNING, State.UNASSIGNED]
        assert task.events == ["start", "commit", "stop"]
        assert all(metadata is not None and metadata.offset == n for n, metadata in task.written)
        offsets.refresh(30)
        assert offsets.offset({"name": "numbers"}) == {"number": end}
    assert reading.values == [str(number) for number in range(60)]
    reading.close()
    store.close()


def test_a_paused_task_is_not_polled_and_continues_after_it(cluster: Cluster) -> None:
    create(cluster, "paused")
    store, offsets = started_offsets(cluster, "pausing")
    task, listener = Counting("paused", 5), Listener()
    reading = Reading(cluster, "paused")
    runner = source_runner(
        source_parts(task, "pausing"), clients(cluster), offsets, OFTEN, listener, paused=True
    )
    runner.start()
    listener.wait_for(State.PAUSED)
    assert task.events == []
    runner.resume()
    reading.wait_for(5)
    runner.pause()
    listener.wait_for(State.PAUSED)
    task.end = 9
    runner.resume()
    reading.wait_for(9)
    runner.stop()
    assert runner.join(30)
    states = [State.PAUSED, State.RUNNING, State.PAUSED, State.RUNNING, State.UNASSIGNED]
    assert listener.states == states
    reading.close()
    store.close()


def test_a_failing_poll_fails_the_task_and_its_offsets_are_stored(cluster: Cluster) -> None:
    create(cluster, "failing")
    store, offsets = started_offsets(cluster, "failing")
    task, listener = Counting("failing", 5), Listener()
    reading = Reading(cluster, "failing")
    runner = source_runner(source_parts(task, "failing"), clients(cluster), offsets, OFTEN, listener)
    runner.start()
    reading.wait_for(5)
    task.failure = RetriableError("not now")
    wait_until(lambda: task.failure is None)
    task.failure = ValueError("the table is gone")
    assert runner.join(30)
    assert listener.states == [State.RUNNING, State.FAILED]
    assert "ValueError: the table is gone" in listener.traces[0]
    offsets.refresh(30)
    assert offsets.offset({"name": "numbers"}) == {"number": 5}
    assert task.events[-1] == "stop"
    reading.close()
    store.close()


@pytest.mark.parametrize("tolerance", ["all", "none"])
def test_a_record_that_cannot_be_converted_is_skipped_or_fails_the_task(
    cluster: Cluster, tolerance: str
) -> None:
    topic = f"tolerated-{tolerance}"
    create(cluster, topic)
    store, offsets = started_offsets(cluster, topic)
    task, listener = Counting(topic, 20, bad=7), Listener()
    reading = Reading(cluster, topic)
    properties = {"errors.tolerance": tolerance}
    parts = source_parts(task, topic, properties=properties)
    runner = source_runner(parts, clients(cluster), offsets, OFTEN, listener)
    runner.start()
    if tolerance == "none":
        listener.wait_for(State.FAILED)
        assert "Tolerance exceeded in error handler" in listener.traces[0]
        expected = [str(number) for number in range(7)]
    else:
        expected = [str(number) for number in range(20) if number != 7]
        reading.wait_for(19)
        runner.stop()
        assert runner.join(30)
        assert (7, None) in task.written
        assert runner.metrics.errors.skipped == 1
    assert reading.wait_for(len(expected)) == expected
    reading.close()
    store.close()


def test_topics_are_created_with_the_settings_of_their_group(cluster: Cluster) -> None:
    store, offsets = started_offsets(cluster, "creating")
    properties = {
        "topic.creation.groups": "wide",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.wide.include": "created-w.*",
        "topic.creation.wide.partitions": "4",
        "topic.creation.wide.retention.ms": "86400000",
    }
    for end, topic in enumerate(("created-wide", "created-plain"), start=1):
        task, listener = Counting(topic, end), Listener()
        parts = source_parts(task, topic, properties=properties)
        runner = source_runner(parts, clients(cluster), offsets, OFTEN, listener)
        runner.start()
        Reading(cluster, topic).wait_for(1)
        runner.stop()
        assert runner.join(30)
    topics = AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics().topics
    assert len(topics["created-wide"].partitions) == 4
    assert len(topics["created-plain"].partitions) == 1
    store.close()


@pytest.fixture
def old_cluster() -> Iterator[Cluster]:
    """A cluster without version 2 of transactions (KIP-890)."""
    update = UpdateFeaturesRequest.FeatureUpdateKey(
        feature="transaction.version", max_version_level=1, upgrade_type=SAFE_DOWNGRADE
    )
    request = UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update])
    with Cluster() as started:
        config = ClientConfig.from_properties({"bootstrap.servers": started.bootstrap_servers})
        with Connections(config) as connections:
            response = connections.retry(lambda: connections.call_any(request, UpdateFeaturesResponse))
        assert response.error_code == 0, response.error_message
        yield started


class Deciding(Counting):
    """Ends its transactions after numbers that end in 4, and aborts those that end in 9."""

    defines_transactions = True

    def record(self, number: int) -> SourceRecord:
        record = super().record(number)
        transaction = self.context.transaction
        assert transaction is not None
        if number % 10 == 4:
            transaction.commit(record)
        elif number % 10 == 9:
            transaction.abort(record)
        return record


@pytest.mark.parametrize("boundary", ["poll", "interval", "connector"])
def test_records_and_offsets_share_transactions(cluster: Cluster, boundary: str) -> None:
    check_transactions(cluster, f"exact-{boundary}", boundary)


def test_transactions_of_the_first_protocol(old_cluster: Cluster) -> None:
    check_transactions(old_cluster, "exact", "connector")


def check_transactions(cluster: Cluster, topic: str, boundary: str) -> None:
    """Run a task that commits, and aborts if it decides itself; check its records and offsets."""
    create(cluster, topic)
    store, offsets = started_offsets(cluster, topic)
    task = Deciding(topic, 45) if boundary == "connector" else Counting(topic, 45)
    properties = {"transaction.boundary": boundary, "transaction.boundary.interval.ms": "20"}
    parts, listener = source_parts(task, topic, properties=properties), Listener()
    runner = source_runner(
        parts, clients(cluster), offsets, OFTEN, listener, exactly_once=exactly_once(topic)
    )
    reading = Reading(cluster, topic)
    runner.start()
    numbers = [n for n in range(45) if boundary != "connector" or n % 10 < 5]
    assert reading.wait_for(len(numbers)) == [str(number) for number in numbers]
    runner.stop()
    assert runner.join(30)
    assert listener.states == [State.RUNNING, State.UNASSIGNED]
    offsets.refresh(30)
    assert offsets.offset({"name": "numbers"}) == {"number": 45}
    reading.close()
    store.close()


def test_a_second_task_fences_the_first_and_nothing_is_sent_twice(cluster: Cluster) -> None:
    create(cluster, "fenced")
    store, offsets = started_offsets(cluster, "fencing")
    reading = Reading(cluster, "fenced")
    zombie, zombie_states = Counting("fenced", 10), Listener()
    first = source_runner(
        source_parts(zombie, "fencing"),
        clients(cluster),
        offsets,
        OFTEN,
        zombie_states,
        exactly_once=exactly_once("fencing"),
    )
    first.start()
    reading.wait_for(10)
    successor, states = Counting("fenced", 30), Listener()
    second = source_runner(
        source_parts(successor, "fencing"),
        clients(cluster),
        offsets,
        OFTEN,
        states,
        exactly_once=exactly_once("fencing"),
    )
    second.start()
    states.wait_for(State.RUNNING)
    zombie.end = 20
    zombie_states.wait_for(State.FAILED)
    reading.wait_for(30)
    second.stop()
    assert second.join(30)
    assert reading.values == [str(number) for number in range(30)]
    reading.close()
    store.close()


def test_a_task_that_is_cancelled_before_it_has_a_producer_fences_nothing(cluster: Cluster) -> None:
    create(cluster, "unfenced")
    store, offsets = started_offsets(cluster, "unfenced")
    reading, states = Reading(cluster, "unfenced"), Listener()
    checking, checked = threading.Event(), threading.Event()

    def check() -> None:
        checking.set()
        assert checked.wait(30)

    late = source_runner(
        source_parts(Counting("unfenced", 0), "unfenced"),
        clients(cluster),
        offsets,
        OFTEN,
        Listener(),
        exactly_once=replace(exactly_once("unfenced"), check=check),
    )
    late.start()
    assert checking.wait(30)
    late.cancel()
    successor = Counting("unfenced", 10)
    second = source_runner(
        source_parts(successor, "unfenced"),
        clients(cluster),
        offsets,
        OFTEN,
        states,
        exactly_once=exactly_once("unfenced"),
    )
    second.start()
    reading.wait_for(10)
    checked.set()
    assert late.join(30)
    successor.end = 20
    reading.wait_for(20)
    second.stop()
    assert second.join(30)
    reading.close()
    store.close()
