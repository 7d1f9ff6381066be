"""Several instances: one leads, all answer, and no acknowledged write is lost when a leader dies."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.client.admin.topics import NewTopic, create_topics
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as KafkaCluster
from penstock.registry.api.server import RegistryServer
from penstock.registry.store.writer import Fenced, Writer, batches
from penstock.registry.subjects import Record
from penstock.testing import Cluster
from registry_node import RegistryProcess, ask, avro, started

SESSION_MS = 1_000
DEADLINE_S = 60
SCHEMAS = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A node that lets members' sessions expire within a second."""
    with Cluster({"group.min.session.timeout.ms": "500"}) as cluster:
        yield cluster


@pytest.fixture
def servers(cluster: Cluster) -> str:
    return cluster.bootstrap_servers


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex[:8]


def _instance(servers: str, name: str) -> RegistryServer:
    return started(servers, name, **{"kafkagroup.session.timeout.ms": str(SESSION_MS)})


def test_one_leads_and_concurrent_registrations_of_a_schema_give_one_id(servers: str, name: str) -> None:
    instances = [_instance(servers, name), _instance(servers, name)]
    try:
        urls = [each.url for each in instances]
        leaderships = [each.store.election.wait_for_leader(DEADLINE_S) for each in instances]
        assert len({each.leader.url for each in leaderships if each.leader}) == 1

        def register(number: int) -> tuple[int, int]:
            url = urls[number % 2]
            answer = ask(url, "POST", f"/subjects/s{number % 3}/versions", avro("R", "a"))
            assert answer.status == 200, answer
            # A client that has written to an instance reads its own write there.
            found = ask(url, "GET", f"/subjects/s{number % 3}/versions/latest")
            assert found.status == 200, found
            return answer.body["id"], found.body["version"]

        with ThreadPoolExecutor(12) as threads:
            assert set(threads.map(register, range(36))) == {(1, 1)}
        answers = [ask(url, "GET", "/schemas").text for url in urls]
        assert answers[0] == answers[1]
    finally:
        for each in reversed(instances):
            each.close()


def test_the_leader_is_killed_while_writes_are_under_way(servers: str, name: str) -> None:
    leader = RegistryProcess(servers, name, **{"kafkagroup.session.timeout.ms": str(SESSION_MS)})
    other = _instance(servers, name)
    try:
        assert not other.store.election.wait_for_leader(DEADLINE_S).is_own
        acknowledged: dict[int, int] = {}
        lock, is_under_way = threading.Lock(), threading.Event()

        def register(number: int) -> None:
            deadline = time.monotonic() + DEADLINE_S
            while time.monotonic() < deadline:
                answer = ask(other.url, "POST", f"/subjects/s{number}/versions", avro(f"R{number}", "a"))
                if answer.status == 200:
                    with lock:
                        acknowledged[number] = answer.body["id"]
                        if len(acknowledged) >= 10:
                            is_under_way.set()
                    return
                assert answer.status == 500, answer
            raise AssertionError(f"schema {number} was not registered within {DEADLINE_S} s")

        with ThreadPoolExecutor(8) as threads:
            running = [threads.submit(register, number) for number in range(SCHEMAS)]
            assert is_under_way.wait(DEADLINE_S)
            leader.kill()
            for each in running:
                each.result()
        assert other.store.election.leadership.is_own
        assert len(set(acknowledged.values())) == SCHEMAS
        for number, schema_id in acknowledged.items():
            found = ask(other.url, "GET", f"/schemas/ids/{schema_id}").body["schema"]
            assert f'"R{number}"' in found
            assert ask(other.url, "GET", f"/subjects/s{number}/versions").body == [1]
    finally:
        leader.kill()
        other.close()


def test_the_partition_refuses_a_former_writer(servers: str, name: str) -> None:
    config = ClientConfig.from_properties({"bootstrap.servers": servers})
    with KafkaCluster(config) as one, KafkaCluster(config) as two:
        create_topics(one, [NewTopic(name, 1, {"cleanup.policy": "compact"}, 1)])
        former, newer = Writer(one, name, name), Writer(two, name, name)
        former.claim()
        assert former.append([Record(b"k", b"1"), Record(b"k", b"2")]) == 1
        assert former.append([Record(b"k", b"3")]) == 2
        newer.claim()
        assert newer.append([Record(b"k", b"4")]) == 3
        with pytest.raises(Fenced, match="a newer leader has claimed the topic"):
            former.append([Record(b"k", b"5")])
        assert newer.append([Record(b"k", b"6")]) == 4
        former.claim()
        assert former.append([Record(b"k", b"7")]) == 5
        # More bytes than one batch can hold.
        assert former.append([Record(b"%d" % number, b"x" * 400_000) for number in range(5)]) == 10


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [([1], [1]), ([30] * 4, [2, 2]), ([500], [1]), ([10, 500, 10], [1, 1, 1]), ([10] * 5, [3, 2])],
)
def test_records_are_written_by_as_few_batches_as_hold_them(sizes: list[int], parts: list[int]) -> None:
    records = [Record(b"k", b"x" * size) for size in sizes]
    found = list(batches(records, 102))
    assert [len(each) for each in found] == parts
    assert [record for part in found for record in part] == records


def test_what_was_written_is_there_after_a_restart(servers: str, name: str) -> None:
    first = _instance(servers, name)
    ids = [
        ask(first.url, "POST", f"/subjects/s{n}/versions", avro(f"R{n}", "a")).body["id"] for n in range(3)
    ]
    told = ask(first.url, "GET", "/schemas").text
    first.close()
    second = _instance(servers, name)
    try:
        assert ask(second.url, "GET", "/schemas").text == told
        assert ask(second.url, "POST", "/subjects/s9/versions", avro("R9", "a")).body["id"] == max(ids) + 1
    finally:
        second.close()


def test_two_groups_that_share_a_topic_give_no_id_twice(servers: str, name: str) -> None:
    one, two = (
        started(servers, name, **{"schema.registry.group.id": f"registry-{name}-{n}"}) for n in range(2)
    )
    try:
        assert one.store.election.leadership.is_own
        assert two.store.election.leadership.is_own
        ids = [
            ask(instance.url, "POST", f"/subjects/s{n}/versions", avro(f"R{n}", "a")).body["id"]
            for n, instance in enumerate([one, two, two, one, one, two])
        ]
        assert ids == [1, 2, 3, 4, 5, 6]
    finally:
        one.close()
        two.close()


def test_the_broker_is_killed_and_comes_back(cluster: Cluster, name: str) -> None:
    instance = _instance(cluster.bootstrap_servers, name)
    try:
        assert ask(instance.url, "POST", "/subjects/a/versions", avro("A", "a")).body["id"] == 1
        cluster.kill()
        assert ask(instance.url, "GET", "/subjects/a/versions/latest").body["id"] == 1
        with ThreadPoolExecutor(1) as threads:
            # The request waits for the broker.
            answer = threads.submit(ask, instance.url, "POST", "/subjects/b/versions", avro("B", "a"))
            cluster.restart()
            written = answer.result()
        if written.status == 500:  # a write timed out
            written = ask(instance.url, "POST", "/subjects/b/versions", avro("B", "a"))
        assert (written.status, written.body["id"]) == (200, 2)
        assert ask(instance.url, "GET", "/subjects").body == ["a", "b"]
    finally:
        instance.close()
