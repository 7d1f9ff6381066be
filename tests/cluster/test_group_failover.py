"""Static members of a group keep their partitions when the coordinator's node dies.

The test runs if PENSTOCK_CLUSTER_FAULTS is set.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster_faults import MARKS, TUNED
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from group_members import AioKafkaMember, ConfluentMember, KafkaPythonMember, Member

from several_nodes import SeveralNodes, penstock_nodes

pytestmark = MARKS[1:]  # no Java client takes part

TOPIC, GROUP = "t", "g"
PARTITIONS = 6
PAUSE_S = 0.005
WITHIN_S = 40


class Feed:
    """A producer of successive numbers, to the partitions in turn."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "message.timeout.ms": 60_000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self.sent = 0
        self._refused: list[KafkaError] = []
        self._running = threading.Event()
        self._running.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while self._running.is_set():
            self._producer.produce(
                TOPIC, str(self.sent), partition=self.sent % PARTITIONS, on_delivery=self._delivered
            )
            self.sent += 1
            self._producer.poll(PAUSE_S)
        self._producer.flush(60)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._refused.append(error)

    def finish(self) -> None:
        self._running.clear()
        self._thread.join(90)
        assert not self._thread.is_alive()
        assert not self._refused, self._refused[:3]


def until(condition: Callable[[], object], what: Callable[[], object]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


@pytest.mark.parametrize("client", [ConfluentMember, KafkaPythonMember, AioKafkaMember])
def test_members_keep_what_they_have(client: type[Member], tmp_path: Path) -> None:
    with penstock_nodes(tmp_path, dynamic_quorum=True, config=TUNED) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        topic = NewTopic(TOPIC, PARTITIONS, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])[TOPIC].result(30)
        feed = Feed(cluster.bootstrap_servers)

        def member(instance: str) -> Member:
            made = client(cluster.bootstrap_servers, GROUP, TOPIC, instance)
            made.start()
            return made

        def shared(*sizes: int) -> None:
            until(
                lambda: [len(one.owned) for one in members] == list(sizes),
                lambda: [(one.name, one.owned, one.failure) for one in members],
            )

        def all_read_on(readers: list[Member]) -> None:
            """Wait until each member has read a record sent after this moment."""
            sent = feed.sent
            until(
                lambda: all(one.values and one.values[-1] >= sent for one in readers),
                lambda: [(one.name, one.values[-1:], one.failure) for one in readers],
            )

        members = [member("a"), member("b")]
        shared(3, 3)
        all_read_on(members)
        first, second = members
        owned, rebalances = [set(one.owned) for one in members], [one.rebalances for one in members]
        victim = coordinator(cluster)
        assert victim is not None
        cluster.nodes[victim].kill()
        all_read_on(members)
        # This must last: the new coordinator gets heartbeats and does not ask the members to rejoin.
        until(
            lambda: coordinator(cluster) not in (victim, None),
            lambda: f"no new coordinator instead of {victim}: {coordinator(cluster)}",
        )
        time.sleep(3)
        assert [set(one.owned) for one in members] == owned
        assert [one.rebalances for one in members] == rebalances, "a coordinator's end is no rebalance"
        # A restarted instance gets its former partitions, and the others notice nothing.
        first.finish()
        members[0] = again = member("a")
        shared(3, 3)
        all_read_on(members)
        assert again.owned == owned[0]
        assert (second.owned, second.rebalances) == (owned[1], rebalances[1])
        cluster.nodes[victim].start()
        # A new member gets surplus partitions of the others, which keep the rest.
        members.append(member("c"))
        shared(2, 2, 2)
        if client.is_cooperative:
            assert again.owned < owned[0]
            assert second.owned < owned[1]
        all_read_on(members)
        feed.finish()
        everybody = [first, *members]
        wanted = set(range(feed.sent))
        until(
            lambda: {value for one in everybody for value in one.values} == wanted,
            lambda: sorted(wanted - {value for one in everybody for value in one.values})[:10],
        )
        for one in members:
            one.finish()
        read = sum(len(one.values) for one in everybody)
        print(f"{len(wanted)} records, {read - len(wanted)} read twice")


def coordinator(cluster: SeveralNodes) -> int | None:
    """The coordinator that a new client finds, or None while there is none."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    try:
        return admin.describe_consumer_groups([GROUP], request_timeout=5)[GROUP].result(60).coordinator.id
    except KafkaException:
        return None
