"""Consumers of one group on a real node: shares, positions, pauses, resets, lost memberships."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as Connections
from penstock.client.connections.metadata import TopicPartition
from penstock.client.consuming.group_consumer import ConsumerSettings, GroupConsumer
from penstock.client.errors import ClientError, ServerError, error_from
from penstock.client.groups.heartbeats import Joined, Timeouts
from penstock.client.groups.membership import Membership
from penstock.client.reading.fetcher import FetchConfig
from penstock.client.settings import ConfigError, from_properties
from penstock.protocol.errors import ErrorCode
from penstock.testing import Cluster
from waiting import LIMIT_S, wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "500"}
    with Cluster(settings) as started:
        yield started


class Reader:
    """A consumer and the events that it got."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Collection[str] | Callable[[str], bool],
        **properties: str,
    ) -> None:
        given = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": group_id,
            "heartbeat.interval.ms": "100",
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
        self.events: list[str] = []
        self.values: list[str] = []
        self.share = 0
        self._closed = threading.Event()
        self.consumer = GroupConsumer(
            ClientConfig.from_properties(given),
            from_properties(ConsumerSettings, given),
            from_properties(FetchConfig, given),
            topics,
            self,
        )

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(f"assigned {len(partitions)}")

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.consumer.commit({tp: self.consumer.position(tp) for tp in partitions})
        self.events.append(f"revoked {len(partitions)}")

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(f"lost {len(partitions)}")

    def poll(self) -> int:
        self.values += [(record.value or b"").decode() for record in self.consumer.poll(0.05)]
        return len(self.consumer.assignment)

    def start(self) -> None:
        """Poll in a thread until `close`: members wait for each other when they join."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed.is_set():
            self.share = self.poll()
        self.consumer.close()

    def close(self) -> None:
        self._closed.set()
        self.consumer.stop()
        self._thread.join(LIMIT_S)

    def wait_for(self, *values: str) -> None:
        wait_until(lambda: (self.poll(), set(self.values) >= set(values))[1])


class Uncommitting(Reader):
    """A reader that commits no offsets: those of a deleted topic would be tried until a timeout."""

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.events.append(f"revoked {len(partitions)}")


class Member:
    """A member of a group that does not consume."""

    def protocols(self) -> Mapping[str, bytes]:
        return {"plain": b""}

    def assign(self, joined: Joined, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        return dict.fromkeys(members, b"")

    def assigned(self, joined: Joined, assignment: bytes) -> None: ...

    def rebalancing(self) -> None: ...

    def lost(self) -> None: ...


def create(cluster: Cluster, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def produce(cluster: Cluster, topic: str, *values: str, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for value in values:
        producer.produce(topic, value.encode(), partition=partition)
    assert producer.flush(30) == 0


def test_a_session_that_ends_before_each_heartbeat_is_refused() -> None:
    given = {"group.id": "g", "session.timeout.ms": "2000"}
    with pytest.raises(ConfigError, match=r"'heartbeat.interval.ms' is 3000: expected less than .* 2000"):
        from_properties(ConsumerSettings, given)


def test_members_share_partitions_and_go_on_where_others_stopped(cluster: Cluster) -> None:
    create(cluster, "halves", 2)
    produce(cluster, "halves", "a", "b")
    first = Reader(cluster, "sharing", ["halves"])
    first.start()
    wait_until(lambda: len(first.values) == 2)
    second = Reader(cluster, "sharing", lambda name: name.startswith("hal"))
    second.start()
    wait_until(lambda: (first.share, second.share) == (1, 1))
    assert first.events == ["assigned 2", "revoked 2", "assigned 1"]
    first.close()
    wait_until(lambda: second.share == 2)
    produce(cluster, "halves", "c")
    wait_until(lambda: second.values)
    assert second.values == ["c"]
    second.close()


def test_new_topics_and_partitions_are_found(cluster: Cluster) -> None:
    create(cluster, "growing", 1)
    reader = Reader(cluster, "growing", lambda name: name.startswith("gr"), metadata_max_age_ms="200")
    wait_until(lambda: reader.poll() == 1)
    create(cluster, "grown", 2)
    wait_until(lambda: reader.poll() == 3)
    reader.consumer.close()


def test_a_topic_that_was_away_while_the_leader_assigned_is_found(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, "flicker-1", 1)
    create(cluster, "flicker-2", 1)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    reader = Reader(cluster, "fl", lambda name: name.startswith("flicker"), metadata_max_age_ms="200")
    assign = reader.consumer.assign

    def assign_without_second(joined: Joined, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        monkeypatch.undo()
        admin.delete_topics(["flicker-2"])["flicker-2"].result(30)
        assigned = assign(joined, members)
        create(cluster, "flicker-2", 1)
        return assigned

    monkeypatch.setattr(reader.consumer, "assign", assign_without_second)
    wait_until(lambda: reader.poll() == 2)
    assert reader.events[:1] == ["assigned 1"]
    reader.consumer.close()


def test_a_topic_that_is_deleted_leaves_the_others(cluster: Cluster) -> None:
    create(cluster, "leaving-1", 1)
    create(cluster, "leaving-2", 1)
    produce(cluster, "leaving-1", "a")
    reader = Uncommitting(cluster, "leaving", lambda name: name.startswith("leaving"))
    wait_until(lambda: reader.poll() == 2)
    reader.wait_for("a")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.delete_topics(["leaving-2"])["leaving-2"].result(30)
    wait_until(lambda: reader.poll() == 1)
    produce(cluster, "leaving-1", "b")
    reader.wait_for("b")
    reader.consumer.close()


def test_a_partition_that_gets_a_leader_later_is_read_from_then_on(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, "headless", 2)
    produce(cluster, "headless", "a", partition=0)
    produce(cluster, "headless", "b", partition=1)
    find_leaders = Connections.find_leaders

    def find_without_second(
        self: Connections, partitions: Collection[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, ServerError]]:
        second = TopicPartition("headless", 1)
        led, failures = find_leaders(self, [tp for tp in partitions if tp != second])
        if second in partitions:
            failures[second] = error_from(ErrorCode.LEADER_NOT_AVAILABLE, str(second))
        return led, failures

    monkeypatch.setattr(Connections, "find_leaders", find_without_second)
    reader = Reader(cluster, "headless", ["headless"])
    reader.wait_for("a")
    assert reader.events == ["assigned 1"]
    monkeypatch.undo()
    reader.wait_for("a", "b")
    assert reader.events == ["assigned 1", "assigned 1"]
    reader.consumer.close()


def test_paused_partitions_give_no_records_and_seeks_repeat_them(cluster: Cluster) -> None:
    create(cluster, "paused-reads", 2)
    reader = Reader(cluster, "pausing", ["paused-reads"])
    wait_until(lambda: reader.poll() == 2)
    paused = TopicPartition("paused-reads", 1)
    reader.consumer.pause([paused])
    produce(cluster, "paused-reads", "x", partition=1)
    produce(cluster, "paused-reads", "a", "b")
    reader.wait_for("a", "b")
    assert reader.values == ["a", "b"]
    reader.consumer.seek(TopicPartition("paused-reads", 0), 1)
    reader.consumer.resume([paused])
    reader.wait_for("x")
    wait_until(lambda: (reader.poll(), len(reader.values) == 4)[1])
    assert sorted(reader.values) == ["a", "b", "b", "x"]
    reader.consumer.close()


def test_partitions_take_turns(cluster: Cluster) -> None:
    create(cluster, "turns", 2)
    for partition in range(2):
        produce(cluster, "turns", *[str(partition)] * 100, partition=partition)
    reader = Reader(cluster, "turns", ["turns"], max_poll_records="10")
    wait_until(lambda: (reader.poll(), len(reader.values) == 200)[1])
    assert set(reader.values[:20]) == {"0", "1"}
    reader.consumer.close()


def test_a_group_of_another_kind_is_an_error(cluster: Cluster) -> None:
    create(cluster, "unread", 1)
    other = Reader(cluster, "taken", ["unread"])
    member = Membership(
        ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap_servers}),
        "taken",
        "another",
        Timeouts.for_liveness(6_000),
        Member(),
    )
    member.poll()
    with pytest.raises(ServerError, match="INCONSISTENT_GROUP_PROTOCOL"):
        wait_until(lambda: other.poll() == 1)
    other.consumer.close()
    member.close()


@pytest.mark.parametrize(("reset", "expected"), [("earliest", "b"), ("latest", "d"), ("none", None)])
def test_a_position_outside_of_the_log_is_reset(cluster: Cluster, reset: str, expected: str | None) -> None:
    topic = f"reset-{reset}"
    create(cluster, topic, 1)
    produce(cluster, topic, "a", "b", "c")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    [deleted] = admin.delete_records([Place(topic, 0, 1)]).values()
    deleted.result(30)
    reader = Reader(cluster, topic, [topic], auto_offset_reset=reset)
    if expected is None:
        with pytest.raises(ClientError, match=r"'auto\.offset\.reset' is none"):
            wait_until(lambda: reader.poll() == 1)
    else:
        wait_until(lambda: reader.poll() == 1)
        reader.consumer.seek(TopicPartition(topic, 0), 0 if reset == "earliest" else 99)
        tp = TopicPartition(topic, 0)
        wait_until(lambda: (reader.poll(), reader.consumer.position(tp) in (3, 4))[1])
        produce(cluster, topic, "d")
        reader.wait_for("d")
        assert reader.values[0] == expected
    reader.consumer.close()


def test_the_latest_position_of_committed_records_is_before_an_open_transaction(cluster: Cluster) -> None:
    create(cluster, "open", 1)
    produce(cluster, "open", "a")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("open", b"b", partition=0)
    assert producer.flush(30) == 0
    reader = Reader(cluster, "open", ["open"], auto_offset_reset="latest", isolation_level="read_committed")
    wait_until(lambda: reader.poll() == 1)
    producer.commit_transaction(30)
    reader.wait_for("b")
    reader.consumer.close()


def test_a_member_that_is_busy_for_too_long_loses_its_partitions(cluster: Cluster) -> None:
    create(cluster, "busy", 1)
    busy = Reader(cluster, "busy", ["busy"], max_poll_interval_ms="600")
    wait_until(lambda: busy.poll() == 1)
    other = Reader(cluster, "busy", ["busy"])
    other.start()
    wait_until(lambda: other.share == 1)  # without a poll of the busy one
    with pytest.raises(ServerError):
        busy.consumer.commit({TopicPartition("busy", 0): 0})
    busy.start()
    wait_until(lambda: "lost 1" in busy.events and busy.share + other.share == 1)
    busy.close()
    other.close()
