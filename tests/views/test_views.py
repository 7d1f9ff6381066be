"""Stores that follow a real node's logs, in this process."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from views_cluster import Runner, counting_app, rekeyed_app

from penstock.client.connections.metadata import TopicPartition
from penstock.protocol.murmur2 import partition_for_key
from penstock.streams import App, TopologyTest, long, string
from penstock.testing import Cluster
from penstock.topology.serdes import Window
from penstock.views import (
    InvalidQuery,
    KeyValueView,
    NotPresent,
    Position,
    PositionNotReached,
    StoreNotQueryable,
    StoreRestoring,
    UnknownStore,
    UnsupportedQuery,
    Views,
    ViewsClosed,
    WindowView,
)
from waiting import wait_until


@pytest.fixture
def servers(penstock_cluster: Cluster) -> str:
    return penstock_cluster.bootstrap_servers


@pytest.fixture
def name() -> str:
    return f"views-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def runner(servers: str, name: str) -> Runner:
    """A runner of `counting_app` over two partitions; its topic has the application's name and ``-in``."""
    made = Runner(servers, counting_app(name, f"{name}-in"), {f"{name}-in": 2})
    made.create_topics()
    return made


@pytest.fixture
def views(servers: str, runner: Runner) -> Iterator[Views]:
    with Views(runner.topology, bootstrap_servers=servers) as made:
        made.wait_until_ready(60)
        yield made


WORDS = [(b"ann", "x", 1), (b"bob", "x", 4), (b"ann", "y", 14), (b"cat", "z", 15), (b"bob", "x", 26)]


def test_every_kind_of_store_answers_as_the_application_does(runner: Runner, views: Views, name: str) -> None:
    app = counting_app(name, f"{name}-in")
    oracle = TopologyTest(app, partitions=2)
    for key, value, timestamp_ms in WORDS:
        oracle.input(f"{name}-in").pipe(key.decode(), value, timestamp=timestamp_ms)
    runner.process(f"{name}-in", WORDS)

    counts = views.store("counts")
    wait_until(lambda: counts.get("cat") == 1)
    assert {key: counts.get(key) for key in ("ann", "bob", "cat", "dan")} == {
        "ann": 2,
        "bob": 2,
        "cat": 1,
        "dan": None,
    }
    assert [(e.key, e.value, e.timestamp_ms) for e in counts.all()] == [
        ("ann", 2, 14),
        ("bob", 2, 26),
        ("cat", 1, 15),
    ]
    assert [e.key for e in counts.range("b", "cat", reverse=True)] == ["cat", "bob"]
    assert [e.key for e in counts.prefix(b"bo")] == ["bob"]
    assert counts.approximate_count() == 3

    windows = views.store("windows")
    tasks = [oracle.store("windows", number) for number in (0, 1)]
    for key in ("ann", "bob", "cat"):
        expected = [found for store in tasks for found in store.fetch(key)]
        assert [(e.window.start_ms, e.value) for e in windows.fetch(key)] == expected
        assert [e.value for e in windows.fetch(key, 10, 20)] == [n for at, n in expected if 10 <= at <= 20]
    assert windows.get("ann", 10) == 1
    assert windows.get("ann", 20) is None
    everything = sorted(found for store in tasks for found in store.all())
    assert sorted(((e.key, e.window), e.value) for e in windows.all()) == everything
    late = [(e.key, e.window.start_ms) for e in windows.all(10, 15)]
    assert late == [("ann", 10), ("cat", 10)]

    of_sessions = views.store("sessions")
    assert [(e.window, e.value) for e in of_sessions.fetch("bob")] == [(Window(4, 4), 1), (Window(26, 26), 1)]
    assert [e.window.start_ms for e in of_sessions.fetch("bob", reverse=True, to_ms=20)] == [4]
    assert [e.window.start_ms for e in of_sessions.fetch("bob", from_ms=5)] == [26]


def test_only_what_is_committed_is_shown_and_all_of_it_at_once(
    runner: Runner, views: Views, name: str, servers: str
) -> None:
    counts = views.store("counts")
    topic = f"{name}-in"
    runner.process(topic, [(b"ann", "x", 1)])
    wait_until(lambda: counts.get("ann") == 1)
    runner.process(topic, [(b"ann", "x", 2), (b"bob", "x", 2)], end="abort")
    runner.forget()
    before = counts.position
    runner.process(topic, [(b"ann", "x", 3), (b"cat", "x", 3)], end="open")
    time.sleep(0.4)
    assert (counts.get("ann"), counts.get("bob"), counts.get("cat")) == (1, None, None)
    runner.producer.commit_transaction(30)
    wait_until(lambda: counts.get("cat") == 1)
    assert counts.get("ann") == 1  # its task was started again
    assert counts.lookup("ann").value.timestamp_ms == 3
    assert counts.get("bob") is None
    assert counts.position.covers(before)
    assert counts.position != before


def test_a_tombstone_takes_the_key_away(runner: Runner, views: Views, name: str, servers: str) -> None:
    counts = views.store("counts")
    runner.process(f"{name}-in", [(b"ann", "x", 1), (b"bob", "x", 1)])
    wait_until(lambda: counts.get("ann") == 1 and counts.get("bob") == 1)
    [at] = counts.lookup("ann").position.offsets
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(at.topic, None, b"ann", at.partition)
    producer.flush(30)
    wait_until(lambda: counts.get("ann") is None)
    assert [e.key for e in counts.all()] == ["bob"]


def test_a_transaction_of_many_fetches_is_applied_in_one_step(servers: str, name: str) -> None:
    """Fetches of 16 KB, a transaction of 400: a scan sees one generation of values, never two."""
    app = App(name, key=string, value=long)
    app.table("t-" + name, store="rows")
    runner = Runner(servers, app, {"t-" + name: 1})
    runner.create_topics()
    topic = runner.topology.changelog_topic("rows")

    small_batches = {"bootstrap.servers": servers, "transactional.id": name, "batch.size": 4_096}
    producer = Producer(small_batches)
    producer.init_transactions(30)

    def publish(generation: int) -> None:
        producer.begin_transaction()
        for key in range(4_000):
            value = generation.to_bytes(8, "big")
            producer.produce(topic, value, b"%06d" % key + b"k" * 60, 0, timestamp=generation + 1)
        producer.commit_transaction(30)

    small = {"max.partition.fetch.bytes": "16384", "fetch.max.bytes": "16384"}
    with Views(runner.topology, bootstrap_servers=servers, properties=small) as views:
        views.wait_until_ready(60)
        rows = views.store("rows")
        seen: set[frozenset[int]] = set()
        ended = threading.Event()

        def look() -> None:
            while not ended.is_set():
                page = []
                for entry in rows.all():  # one page shows a single moment
                    page.append(entry.value)
                    if len(page) == 1_000:
                        break
                seen.add(frozenset(page))

        reader = threading.Thread(target=look)
        reader.start()
        for generation in range(4):
            publish(generation)
        wait_until(lambda: rows.get(f"{3_999:06}" + "k" * 60) == 3)
        ended.set()
        reader.join()
        assert seen <= {frozenset(), *(frozenset([n]) for n in range(4))}
        assert frozenset([3]) in seen or next(rows.all()).value == 3


def test_a_view_that_starts_later_reads_everything_again(
    runner: Runner, views: Views, name: str, servers: str
) -> None:
    for at in range(5):
        runner.process(f"{name}-in", [(b"k%d" % n, "x", at + 1) for n in range(300)])
    counts = views.store("counts")
    wait_until(lambda: counts.get("k299") == 5)
    with Views(runner.topology, bootstrap_servers=servers) as second:
        second.wait_until_ready(60)
        again = second.store("counts")
        assert list(again.all()) == list(counts.all())
        assert len(list(again.all())) == 300
        assert again.position.covers(counts.position)
        assert [w.window for w in second.store("windows").fetch("k7")] == [Window(0, 10)]


def test_a_reader_may_ask_for_the_position_of_an_answer(runner: Runner, views: Views, name: str) -> None:
    counts = views.store("counts")
    runner.process(f"{name}-in", [(b"ann", "x", 1)])
    wait_until(lambda: counts.get("ann") == 1)
    [(tp, offset)] = counts.lookup("ann").position.offsets.items()
    later = Position({tp: offset + 1})
    with pytest.raises(PositionNotReached, match="did not reach"):
        counts.get("ann", at_least=later, timeout_s=0.2)
    timer = threading.Timer(0.3, lambda: runner.process(f"{name}-in", [(b"ann", "x", 2)]))
    timer.start()
    assert counts.get("ann", at_least=later, timeout_s=60) == 2
    assert counts.lookup("ann").position.covers(later)


def test_a_writer_reads_the_results_of_what_he_wrote(runner: Runner, views: Views, name: str) -> None:
    topic, counts = f"{name}-in", views.store("counts")
    ends = runner.write(topic, [(b"ann", "x", 1)])
    [(partition, end)] = ends.items()
    wanted = Position.of_record(topic, partition, end - 1)
    with pytest.raises(PositionNotReached):
        counts.get("ann", at_least=wanted, timeout_s=0.3)
    runner.process(topic, [(b"ann", "x", 1)], read_until={(topic, partition): end}, end="open")
    with pytest.raises(PositionNotReached):
        counts.get("ann", at_least=wanted, timeout_s=0.3)
    threading.Timer(0.2, lambda: runner.producer.commit_transaction(30)).start()
    assert counts.get("ann", at_least=wanted, timeout_s=60) == 1
    with pytest.raises(InvalidQuery, match="does not depend on topic other"):
        counts.get("ann", at_least=Position.of_record("other", 0, 1))


def test_a_position_goes_through_repartition_topics(servers: str, name: str) -> None:
    topic = f"{name}-in"
    runner = Runner(servers, rekeyed_app(name, topic), {topic: 1})
    runner.create_topics()
    [repartition] = (name for name in runner.counts if name.endswith("-repartition"))
    with Views(runner.topology, bootstrap_servers=servers) as views:
        views.wait_until_ready(60)
        sums = views.store("sums")
        [(partition, end)] = runner.write(topic, [(b"ann", "x", 1)]).items()
        sent = runner.process(topic, [(b"ann", "x", 1)], read_until={(topic, partition): end})
        wanted = Position.of_record(topic, partition, end - 1)
        assert views.store("counts").get("ann", at_least=wanted, timeout_s=60) == 1
        with pytest.raises(PositionNotReached):
            sums.get("a", at_least=wanted, timeout_s=0.3)  # its half is still in the repartition topic
        rows = [(key, value, timestamp_ms) for _, key, value, timestamp_ms in sent]
        runner.process(repartition, rows, read_until={(repartition, 0): 10})
        assert sums.get("a", at_least=wanted, timeout_s=60) == 1


def test_tables_without_changelogs_are_read_from_their_topics(servers: str, name: str) -> None:
    app = App(name, key=string, value=string)
    app.table(f"{name}-plain", store="plain", logged=False)
    app.global_table(f"{name}-everywhere", store="everywhere")
    runner = Runner(servers, app, {f"{name}-plain": 3, f"{name}-everywhere": 2})
    runner.create_topics()
    crc = Producer({"bootstrap.servers": servers})  # librdkafka's own partitioner, which is not Kafka's
    for store in ("plain", "everywhere"):
        for key in range(20):
            crc.produce(f"{name}-{store}", b"v%d" % key, b"%d" % key)
        crc.produce(f"{name}-{store}", b"nobody's", None)
        crc.produce(f"{name}-{store}", None, b"7")
    crc.flush(30)
    with Views(runner.topology, bootstrap_servers=servers) as views:
        views.wait_until_ready(60)
        for store in ("plain", "everywhere"):
            rows = views.store(store)
            assert rows.get("7") is None
            assert [rows.get(str(key)) for key in range(20) if key != 7] == [
                f"v{key}" for key in range(20) if key != 7
            ]


def test_versions_are_kept_as_long_as_the_history(servers: str, name: str) -> None:
    app = App(name, key=string, value=string)
    app.table(f"{name}-in", store="rows", history="100 ms")
    runner = Runner(servers, app, {f"{name}-in": 1})
    runner.create_topics()
    with Views(runner.topology, bootstrap_servers=servers) as views:
        views.wait_until_ready(60)
        rows = views.store("rows")
        runner.process(f"{name}-in", [(b"a", "one", 10), (b"a", "two", 50), (b"a", "early", 5)])
        wait_until(lambda: rows.get("a") == "two")
        assert rows.get("a", as_of_ms=20) == "one"
        assert [(e.value, e.timestamp_ms, e.valid_to_ms) for e in rows.fetch("a")] == [
            ("two", 50, None),
            ("one", 10, 50),
            ("early", 5, 10),
        ]
        runner.process(f"{name}-in", [(b"a", "three", 500)])
        wait_until(lambda: rows.get("a") == "three")
        assert [e.value for e in rows.fetch("a")] == ["three", "two"]  # two was valid 100 ms ago


def test_a_topic_that_is_made_again_is_read_anew(runner: Runner, views: Views, name: str) -> None:
    counts = views.store("counts")
    runner.process(f"{name}-in", [(b"ann", "x", 1), (b"bob", "x", 1), (b"cat", "x", 1)])
    wait_until(lambda: counts.get("ann") == 1)
    topic = runner.topology.changelog_topic("counts")
    runner.admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: not views.replica(TopicPartition(topic, 0)).is_ready)
    with pytest.raises(StoreRestoring):
        counts.get("ann", timeout_s=0.1)
    runner.forget()
    time.sleep(0.3)
    runner.create_topic(topic, 2)
    runner.process(f"{name}-in", [(b"ann", "x", 1)])
    wait_until(lambda: counts.approximate_count() == 1)
    assert counts.get("ann", timeout_s=60) == 1
    assert counts.get("bob") is None


def test_a_view_outlives_a_node_that_is_killed(name: str) -> None:
    """Meanwhile the view answers from its state, and then continues from its position."""
    with Cluster() as cluster:
        runner = Runner(cluster.bootstrap_servers, counting_app(name, f"{name}-in"), {f"{name}-in": 2})
        runner.create_topics()
        runner.process(f"{name}-in", [(b"k%d" % n, "x", 1) for n in range(50)])
        with Views(runner.topology, bootstrap_servers=cluster.bootstrap_servers) as views:
            views.wait_until_ready(60)
            counts = views.store("counts")
            at = {number: kept.records for number, kept in views.held(counts.store).items()}
            cluster.kill()
            time.sleep(0.3)
            assert counts.get("k7", timeout_s=0) == 1
            cluster.restart()
            runner.process(f"{name}-in", [(b"k7", "x", 2)])
            wait_until(lambda: counts.get("k7", timeout_s=0) == 2)
            taken = {number: kept.records for number, kept in views.held(counts.store).items()}
            assert sum(taken.values()) == sum(at.values()) + 1  # nothing was read again


def test_a_view_may_start_before_the_application_has_made_its_topics(servers: str, name: str) -> None:
    runner = Runner(servers, counting_app(name, f"{name}-in"), {f"{name}-in": 2})
    with Views(runner.topology, bootstrap_servers=servers, stores=["counts"]) as views:
        counts = views.store("counts")
        with pytest.raises(StoreRestoring, match="does not exist yet"):
            counts.get("ann", timeout_s=0.2)
        runner.create_topics()
        runner.process(f"{name}-in", [(b"ann", "x", 1)])
        wait_until(lambda: counts.get("ann", timeout_s=60) == 1)
        with pytest.raises(UnknownStore, match="not viewed here"):
            views.store("windows")


def test_errors_name_what_was_found(servers: str, name: str) -> None:
    app = App(name, key=long, value=string)
    stream = app.stream(f"{name}-in")
    stream.group_by_key().count(store="counts")
    app.stream(f"{name}-other").group_by_key().reduce(lambda one, other: other, store="lost", logged=False)
    topology = app.topology()
    views = Views(topology, bootstrap_servers=servers)
    with pytest.raises(UnknownStore, match="has no store 'count'; stores that can be queried: counts"):
        views.store("count")
    with pytest.raises(StoreNotQueryable, match=r"lost .* has no changelog"):
        views.store("lost")
    assert views.store("counts", KeyValueView[int, int]).name == "counts"
    with pytest.raises(UnsupportedQuery, match="store counts is a KeyValueView, not a WindowView"):
        views.store("counts", WindowView)
    with pytest.raises(InvalidQuery, match="'ann' is no key of store counts"):
        views.store("counts").get("ann")
    for text in ("[]", '{"t": 1}', '{"t": {"x": 1}}', '{"t": {"0": -1}}', "{"):
        with pytest.raises(InvalidQuery, match=r"expected .*offset"):
            Position.from_json(text)
    views.start()
    with pytest.raises(StoreRestoring, match="does not exist yet"):
        views.store("counts").get(5, timeout_s=0.3)
    views.close()
    with pytest.raises(ViewsClosed):
        views.store("counts").get(5, timeout_s=1)


def test_a_cluster_that_is_away_is_named(name: str) -> None:
    nowhere = counting_app(name, f"{name}-in").topology()
    with Views(nowhere, bootstrap_servers="127.0.0.1:9", properties={"retry.backoff.ms": "10"}) as views:
        wait_until(lambda: views.trouble is not None)
        with pytest.raises(StoreRestoring, match="no server of the cluster can be reached"):
            views.store("counts").get("ann", timeout_s=0.1)


def test_a_process_may_keep_some_partitions(runner: Runner, name: str, servers: str) -> None:
    runner.process(f"{name}-in", [(b"k%d" % n, "x", 1) for n in range(20)])
    with Views(runner.topology, bootstrap_servers=servers, choice=lambda topic, count: [0]) as views:
        views.wait_until_ready(60)
        counts = views.store("counts")
        [here] = counts.position.offsets
        found = 0
        for n in range(20):
            if partition_for_key(b"k%d" % n, 2) == 0:
                found += counts.get(f"k{n}")
                continue
            with pytest.raises(NotPresent, match=f"partition 1 of store counts|{here}"):
                counts.get(f"k{n}")
        assert found == counts.approximate_count()
        assert 0 < found < 20
        views.choose(lambda topic, count: [1])
        wait_until(lambda: counts.position.offsets.keys() == {(f"{name}-counts-changelog", 1)})
        views.wait_until_ready(60)
        assert counts.approximate_count() == 20 - found
