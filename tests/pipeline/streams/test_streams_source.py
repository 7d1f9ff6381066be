"""The source of an application's query and the preparations for it, on a node and without Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from streams_node import Node

from penstock.client.admin.topics import NewTopic, create_topics, delete_records, delete_topics
from penstock.client.config import ClientConfig
from penstock.client.connections.cluster import Cluster as Client
from penstock.client.connections.metadata import TopicPartition
from penstock.client.groups.consumer_group import NO_OFFSET, CommittedOffset, ConsumerGroup
from penstock.client.reading.offsets import EARLIEST, list_offsets
from penstock.spark.sink.options import parse_sink
from penstock.spark.source.checkpointed import Checkpointed
from penstock.spark.source.options import parse_streaming
from penstock.spark.streams.blocks.layout import LAYOUT
from penstock.spark.streams.blocks.packing import Block, Kind
from penstock.spark.streams.planning.grouping import partition_of
from penstock.spark.streams.planning.plan import StreamsPlan, shuffled_topics
from penstock.spark.streams.query import source
from penstock.spark.streams.query.source import StreamsReader
from penstock.spark.streams.running.preparation import prepare_group, prepare_topics
from penstock.spark.streams.state.times import note_of_times
from penstock.spark.streams.tasks.worker import worker_for
from penstock.streams import App, Processor, string
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def client(servers: str) -> Iterator[Client]:
    with Client(ClientConfig.from_properties({"bootstrap.servers": servers})) as client:
        yield client


@pytest.fixture
def node(servers: str) -> Node:
    return Node(servers)


def reader_of(app: App, client: Client, servers: str, **settings: Any) -> StreamsReader:
    """A reader as `penstock.spark.streams.running.application.start` makes it."""
    topology = app.topology()
    counts = prepare_topics(client, topology)
    topics = {name: counts[name] for name in topology.source_topics().keys() - shuffled_topics(topology)}
    prepare_group(client, topology, topics)
    given = {"kafka.bootstrap.servers": servers}
    options = parse_streaming(
        given | {"subscribe": ",".join(topics), "group.id": app.name, "startingOffsets": "committed"}
    )
    object.__setattr__(options, "layout", LAYOUT)
    plan = StreamsPlan(topology, counts, 1, options, parse_sink(given), **settings)
    return StreamsReader(plan.to_text())


def read_batch(reader: StreamsReader, start: dict, end: dict) -> list[tuple[int, Block]]:
    """The blocks that the tasks of a batch return, in Spark's order."""
    found: list[tuple[int, Block]] = []
    for partition in reader.partitions(start, end):
        for batch in reader.read(partition):
            rows = batch.to_pylist()
            found += [(partition_of(row["group"]), Block.unpack(row["block"])) for row in rows]
    return found


def counting(name: str, topic: str) -> App:
    app = App(name, key=string, value=string)
    app.stream(topic).group_by_key().count(store="counts").to_stream().to(f"{topic}-totals")
    return app


def next_end(reader: StreamsReader, start: dict) -> dict:
    """The next end as Spark gives it: copied by way of JSON."""
    return json.loads(json.dumps(reader.latestOffset(start, ReadAllAvailable())))


def test_batches_are_packed_and_offsets_tell_the_time(node: Node, client: Client, servers: str) -> None:
    node.create(2, "packed")
    rows = [("packed", b"k%d" % n, b"v", 100 + n) for n in range(20)]
    node.write(rows)
    reader = reader_of(counting("packing", "packed"), client, servers)
    start = reader.initialOffset()
    pinned = next_end(reader, start)
    assert read_batch(reader, start, pinned) == []
    end = next_end(reader, pinned)
    assert end["@restore"] == {}
    assert end["@clock"]["ms"] >= pinned["@clock"]["ms"] > 0
    blocks = read_batch(reader, pinned, end)
    assert sorted(row[4] for _, block in blocks for row in block.inputs()) == sorted(row[1] for row in rows)
    assert all(block.kind is Kind.RECORDS and block.partition == group for group, block in blocks)
    assert {block.clock_ms for _, block in blocks} == {end["@clock"]["ms"]}
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    again = read_batch(reader, pinned, end)
    assert [block.inputs() for _, block in again] == [block.inputs() for _, block in blocks]
    reader.stop()


def test_changelogs_are_read_first_and_once(node: Node, client: Client, servers: str) -> None:
    node.create(1, "restored")
    app = counting("restoring", "restored")
    prepare_topics(client, app.topology())
    node.write([("restoring-counts-changelog", b"k", bytes(8), 7), ("restored", b"k", b"v", 8)])
    group, place = ConsumerGroup(client, "restoring"), TopicPartition("restoring-counts-changelog", 0)
    client.retry(lambda: group.commit({place: CommittedOffset(NO_OFFSET, metadata="the times")}))
    reader = reader_of(app, client, servers)
    start = reader.initialOffset()
    restored = next_end(reader, start)
    assert restored["@restore"] == {"restoring-counts-changelog": {"0": 1}}
    (_, times), (number, block) = sorted(read_batch(reader, start, restored), key=lambda row: -row[1].kind)
    assert (number, block.kind, block.inputs()[0][3:6]) == (0, Kind.RESTORE, (7, b"k", bytes(8)))
    assert (times.kind, note_of_times(times)) == (Kind.TIMES, ("restoring", place, "the times"))
    node.write([("restoring-counts-changelog", b"k", bytes(8), 9)])
    end = next_end(reader, restored)
    [(_, block)] = read_batch(reader, restored, end)
    assert (block.kind, block.topic) == (Kind.RECORDS, "restored")
    reader.stop()


def test_limits_are_those_of_the_source(node: Node, client: Client, servers: str) -> None:
    node.create(1, "limited")
    node.write([("limited", b"k", b"%d" % n, n) for n in range(10)])
    reader = reader_of(counting("limiting", "limited"), client, servers)
    start = next_end(reader, reader.initialOffset())
    end = reader.latestOffset(start, ReadMaxRows(4))
    assert end["limited"] == {"0": 4}
    reader.stop()


class Idle(Processor[str, str, str, str]):
    pass


def test_time_passes_for_timers_only(node: Node, client: Client, servers: str) -> None:
    node.create(2, "timed")
    app = App("timing", key=string, value=string)
    app.stream("timed").process(Idle, timers=True, key=string, value=string).to("timed-out")
    reader = reader_of(app, client, servers, tick_ms=0)
    start = next_end(reader, reader.initialOffset())
    end = next_end(reader, start)
    assert {topic: offsets for topic, offsets in end.items() if topic != "@clock"} == {
        topic: offsets for topic, offsets in start.items() if topic != "@clock"
    }
    blocks = read_batch(reader, start, end)
    assert [(group, block.kind) for group, block in blocks] == [(0, Kind.TICK), (1, Kind.TICK)]
    reader.stop()
    node.create(1, "untimed")
    reader = reader_of(counting("untimed", "untimed"), client, servers, tick_ms=0)
    start = next_end(reader, reader.initialOffset())
    assert next_end(reader, start) == start
    reader.stop()


def test_global_tables_are_there_before_the_first_record(node: Node, client: Client, servers: str) -> None:
    node.create(2, "cities", "visits")
    node.write([("cities", b"%d" % n, b"city %d" % n, 1) for n in range(5)])
    node.write([("visits", b"v%d" % n, b"%d" % (n % 6), 2) for n in range(12)])
    app = App("global", key=string, value=string)
    cities = app.global_table("cities", store="cities")
    app.stream("visits").left_join(cities, lambda v, c: f"{v}={c}", on=lambda k, v: v, value=string).to(
        "seen"
    )
    reader = reader_of(app, client, servers)
    pinned = next_end(reader, reader.initialOffset())
    end = next_end(reader, pinned)
    sent = [row[5] for _, block in read_batch(reader, pinned, end) for row in block.inputs()]
    assert sorted(sent) == sorted([b"%d=city %d" % (n, n) for n in range(5)] * 2 + [b"5=None"] * 2)
    node.write([("cities", b"5", b"new", 3)])
    node.write([("visits", b"v", b"5", 4)])
    after = next_end(reader, end)
    assert [row[5] for _, b in read_batch(reader, end, after) for row in b.inputs()] == [b"5=new"]
    reader.stop()


def test_a_global_table_is_read_again_when_its_topic_was_deleted_and_created_again(
    node: Node, client: Client, servers: str
) -> None:
    node.create(1, "towns", "trips")
    node.write([("towns", b"%d" % n, b"old %d" % n, 1) for n in (1, 2, 3)])
    node.write([("trips", b"t", b"1", 2)])
    app = App("towns-again", key=string, value=string)
    towns = app.global_table("towns", store="towns")
    app.stream("trips").left_join(towns, lambda v, t: f"{v}={t}", on=lambda k, v: v, value=string).to("came")
    reader = reader_of(app, client, servers)
    pinned = next_end(reader, reader.initialOffset())
    end = next_end(reader, pinned)
    assert [row[5] for _, b in read_batch(reader, pinned, end) for row in b.inputs()] == [b"1=old 1"]
    delete_topics(client, ["towns"])
    node.create(1, "towns")
    node.write([("towns", b"1", b"new 1", 3)])
    node.write([("trips", b"t", b"1", 4), ("trips", b"t", b"2", 4)])
    after = next_end(reader, end)
    found = [row[5] for _, b in read_batch(reader, end, after) for row in b.inputs()]
    assert found == [b"1=new 1", b"2=None"]
    # Blocks that were made before the topic was deleted do not bring back the former table.
    worker = worker_for(reader._plan_text)
    for ends in (end, after):
        stores = worker.global_stores(Checkpointed.from_json(ends["@tables"]))
        assert stores is not None
        assert stores["towns"].get("1") == "new 1"
        assert stores["towns"].get("2") is None
    reader.stop()


def test_topics_are_made_cut_off_and_deleted(node: Node, client: Client) -> None:
    create_topics(client, [NewTopic("made", 3, {"cleanup.policy": "compact"}), NewTopic("usual")])
    create_topics(client, [NewTopic("made", 5)])  # it exists and stays as it is
    topics = client.refresh(["made", "usual"]).topics
    assert (len(topics["made"].partitions), len(topics["usual"].partitions)) == (3, 1)
    node.write([("usual", b"k", b"%d" % n, n + 1) for n in range(5)])
    delete_records(client, {TopicPartition("usual", 0): 3})
    assert [value for _, value, _ in node.read("usual")] == [b"3", b"4"]
    delete_topics(client, ["made", "usual", "never-made"])
    assert not client.refresh(["made", "usual"]).topics


def test_what_was_read_of_repartition_topics_is_deleted_now_and_then(
    node: Node, client: Client, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "PURGE_INTERVAL_S", 0.0)
    node.create(1, "purged")
    app = App("purging", key=string, value=string)
    by_letter = app.stream("purged").group_by_key().count(store="counts").group_by(lambda k, n: (k[0], n))
    by_letter.sum(store="sums").to_stream().to("purged-sums")
    [bare] = app.topology().repartitions
    topic = app.topology().topic(bare)
    reader = reader_of(app, client, servers)
    between = TopicPartition(topic, 0)
    node.write([(topic, b"k", b"v", n) for n in range(5)] + [("purged", b"k", b"v", 1)])
    start = next_end(reader, reader.initialOffset())
    end = next_end(reader, start)
    assert (end[topic], end["purged"]) == ({"0": 5}, {"0": 1})

    def beginning(of: TopicPartition) -> int:
        return list_offsets(client, {of: EARLIEST})[of].offset

    assert beginning(between) == 0
    next_end(reader, end)  # asked from there on: the batch is done
    deadline = time.monotonic() + 60
    while beginning(between) < 5:
        assert time.monotonic() < deadline, beginning(between)
        time.sleep(0.02)
    assert beginning(TopicPartition("purged", 0)) == 0
    reader.stop()
