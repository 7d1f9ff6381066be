"""Consumer groups with librdkafka."""

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing import Cluster

TIMEOUT_S = 30


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


def wait_for(what: Callable[[], object], message: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not what():
        assert time.monotonic() < deadline, message
        time.sleep(0.02)


def create_topic(bootstrap: str, name: str, partitions: int = 4) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(TIMEOUT_S)


def produce(bootstrap: str, topic: str, count: int, partitions: int = 4) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for index in range(count):
        producer.produce(topic, str(index).encode(), partition=index % partitions)
    assert producer.flush(TIMEOUT_S) == 0


@dataclass
class Worker:
    """A consumer in a thread, which records its assigned and revoked partitions and its reads."""

    bootstrap: str
    group_id: str
    topics: list[str]
    settings: dict[str, object] = field(default_factory=dict)
    owned: set[tuple[str, int]] = field(default_factory=set)
    events: list[tuple[str, int]] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        config = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group_id,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 100,
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 200,
            "topic.metadata.refresh.interval.ms": 300,
            **self.settings,
        }
        consumer = Consumer(config)
        consumer.subscribe(self.topics, on_assign=self._assigned, on_revoke=self._revoked)
        while not self._stop.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.values.append(message.value())
        consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.events.append(("assigned", len(partitions)))
        self.owned |= {(p.topic, p.partition) for p in partitions}

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.events.append(("revoked", len(partitions)))
        self.owned -= {(p.topic, p.partition) for p in partitions}


@contextlib.contextmanager
def working(*workers: Worker) -> Iterator[None]:
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_share_the_partitions(penstock_cluster: Cluster, strategy: str) -> None:
    bootstrap, topic, group_id = penstock_cluster.bootstrap_servers, unique("shared"), unique("group")
    create_topic(bootstrap, topic)
    settings = {"partition.assignment.strategy": strategy}
    first = Worker(bootstrap, group_id, [topic], settings)
    with working(first):
        wait_for(lambda: len(first.owned) == 4, "the first member has everything")
        second = Worker(bootstrap, group_id, [topic], settings)
        with working(second):
            wait_for(lambda: len(first.owned) == len(second.owned) == 2, "both members have their half")
            assert not first.owned & second.owned
            produce(bootstrap, topic, 100)
            wait_for(lambda: len(first.values) + len(second.values) == 100, "everything is read")
            assert first.values
            assert second.values
        wait_for(lambda: len(first.owned) == 4, "the first member has everything again")
    if strategy == "cooperative-sticky":
        assert ("revoked", 4) not in first.events[:-1], "a cooperative member keeps what it may keep"


def test_what_was_committed_is_not_read_again(penstock_cluster: Cluster) -> None:
    bootstrap, topic, group_id = penstock_cluster.bootstrap_servers, unique("resume"), unique("group")
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, 40)
    first = Worker(bootstrap, group_id, [topic])
    with working(first):
        wait_for(lambda: len(first.values) == 40, "the first run reads everything")
    produce(bootstrap, topic, 8)
    second = Worker(bootstrap, group_id, [topic])
    with working(second):
        wait_for(lambda: len(second.values) >= 8, "the second run reads what is new")
        time.sleep(0.3)
    assert len(second.values) == 8


def test_groups_do_not_disturb_each_other(penstock_cluster: Cluster) -> None:
    bootstrap, topic = penstock_cluster.bootstrap_servers, unique("many")
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, 20)
    workers = [Worker(bootstrap, unique("group"), [topic]) for _ in range(4)]
    with working(*workers):
        wait_for(lambda: all(len(w.values) == 20 for w in workers), "every group reads everything")


def test_static_member_comes_back_without_a_rebalance(penstock_cluster: Cluster) -> None:
    bootstrap, topic, group_id = penstock_cluster.bootstrap_servers, unique("static"), unique("group")
    create_topic(bootstrap, topic)
    one, two = ({"group.instance.id": name, "session.timeout.ms": 20_000} for name in ("one", "two"))
    steady = Worker(bootstrap, group_id, [topic], one)
    restarted = Worker(bootstrap, group_id, [topic], two)
    with working(steady):
        with working(restarted):
            wait_for(lambda: len(steady.owned) == len(restarted.owned) == 2, "both have their half")
            half, events = set(restarted.owned), list(steady.events)
        again = Worker(bootstrap, group_id, [topic], two)
        with working(again):
            wait_for(lambda: again.owned == half, "the same partitions as before")
        assert steady.events == events, "the other member has not noticed"


def test_pattern_subscription_finds_new_topics(penstock_cluster: Cluster) -> None:
    bootstrap, prefix, group_id = penstock_cluster.bootstrap_servers, unique("pattern"), unique("group")
    create_topic(bootstrap, f"{prefix}.a", 2)
    worker = Worker(bootstrap, group_id, [f"^{prefix}\\..*"])
    with working(worker):
        wait_for(lambda: len(worker.owned) == 2, "the topic that is there")
        create_topic(bootstrap, f"{prefix}.b", 3)
        wait_for(lambda: len(worker.owned) == 5, "the topic that is new")
        produce(bootstrap, f"{prefix}.b", 9, partitions=3)
        wait_for(lambda: len(worker.values) == 9, "its records")


def test_group_goes_on_after_the_node_was_killed() -> None:
    with Cluster() as cluster:
        bootstrap, topic, group_id = cluster.bootstrap_servers, "t", "g"
        create_topic(bootstrap, topic)
        produce(bootstrap, topic, 40)
        workers = [Worker(bootstrap, group_id, [topic]) for _ in range(2)]
        with working(*workers):
            wait_for(lambda: sum(len(w.values) for w in workers) == 40, "everything is read")
            wait_for(lambda: committed(bootstrap, group_id, topic) == 40, "everything is committed")
            cluster.kill()
            cluster.start()
            assert committed(bootstrap, group_id, topic) == 40
            produce(bootstrap, topic, 40)
            wait_for(lambda: sum(len(w.values) for w in workers) >= 80, "everything new is read")
            wait_for(lambda: committed(bootstrap, group_id, topic) == 80, "and committed")


def committed(bootstrap: str, group_id: str, topic: str) -> int:
    """The sum of the group's offsets."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    request = ConsumerGroupTopicPartitions(group_id)
    offsets = admin.list_consumer_group_offsets([request])[group_id].result(TIMEOUT_S)
    return sum(p.offset for p in offsets.topic_partitions if p.topic == topic and p.offset > 0)


def test_administration(penstock_cluster: Cluster) -> None:
    bootstrap, topic, group_id = penstock_cluster.bootstrap_servers, unique("admin"), unique("group")
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, 40)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    worker = Worker(bootstrap, group_id, [topic], {"client.id": "someone"})
    with working(worker):
        wait_for(lambda: len(worker.values) == 40, "everything is read")
        described = admin.describe_consumer_groups([group_id])[group_id].result(TIMEOUT_S)
        assert described.state.name == "STABLE"
        assert described.coordinator.port == int(bootstrap.split(":")[1])
        (member,) = described.members
        assert member.client_id == "someone"
        assert len(member.assignment.topic_partitions) == 4
        with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
            admin.delete_consumer_groups([group_id])[group_id].result(TIMEOUT_S)
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    assert group_id in {group.group_id for group in listed.valid}
    back = ConsumerGroupTopicPartitions(group_id, [TopicPartition(topic, 0, 3)])
    admin.alter_consumer_group_offsets([back])[group_id].result(TIMEOUT_S)
    assert committed(bootstrap, group_id, topic) == 33
    admin.delete_consumer_groups([group_id])[group_id].result(TIMEOUT_S)
    assert committed(bootstrap, group_id, topic) == 0
