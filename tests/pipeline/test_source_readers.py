"""The readers as Spark calls them, without Spark: plans, offsets, limits, new topics, lost data."""

import itertools
import pickle
import socket
import time
import uuid

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from penstock.arrow.layout import Layout
from penstock.arrow.loss import DataLoss
from penstock.client.errors import NothingListens, UnknownPartition
from penstock.client.settings import ConfigError
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.source.offsets import from_json, to_json
from penstock.spark.source.schema import source_schema

ALL = ReadAllAvailable()


@pytest.fixture
def admin(servers):
    return AdminClient({"bootstrap.servers": servers})


@pytest.fixture
def source(servers):
    def make(**options):
        return PenstockDataSource({"bootstrap.servers": servers} | {k: str(v) for k, v in options.items()})

    return make


def batch_reader(source):
    return source.reader(source_schema(Layout(timestamp_unit="us")))


@pytest.fixture
def stream(source):
    """Create stream readers, and stop them at the end."""
    made = []

    def make(**options):
        reader = source(**options).streamReader(source_schema(Layout(timestamp_unit="us")))
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.stop()


def values(reader, partitions):
    """The values that the tasks read, each with an unpickled reader."""
    found = []
    for partition in partitions:
        task = pickle.loads(pickle.dumps(reader))
        for batch in task.read(pickle.loads(pickle.dumps(partition))):
            found += batch.column("value").to_pylist()
    return found


def read_all(source):
    reader = batch_reader(source)
    return values(reader, reader.partitions())


def numbers(first, end):
    return [b"%d" % n for n in range(first, end)]


def plain(offsets):
    """The offsets without the other parts of a checkpoint."""
    return to_json(from_json(offsets))


def offset_soon(reader, start, expected):
    """Ask as Spark does, every few ms, until the answer is what is expected."""
    deadline = time.monotonic() + 60
    while plain(found := reader.latestOffset(start, ALL)) != expected:
        assert time.monotonic() < deadline, f"still {found}"
        time.sleep(0.01)
    return found


def test_a_batch_read_takes_what_the_partitions_hold(source, make_topic, produce):
    topic = make_topic(3)
    produce(topic, numbers(0, 10), partition=0)
    produce(topic, numbers(10, 15), partition=2)
    reader = batch_reader(source(subscribe=topic))
    [task] = reader.partitions()
    assert [part[:4] for part in task.value] == [(topic, 0, 0, 10), (topic, 2, 0, 5)]
    assert sorted(values(reader, reader.partitions()), key=int) == numbers(0, 15)


def test_min_partitions_split_what_there_is(source, make_topic, produce):
    topic = make_topic()
    produce(topic, numbers(0, 10))
    reader = batch_reader(source(subscribe=topic, minPartitions=4))
    parts = reader.partitions()
    assert len(parts) == 4
    assert values(reader, parts) == numbers(0, 10)


def test_offsets_and_times_bound_a_batch_read(source, make_topic, produce):
    topic = make_topic(2)
    for partition in range(2):
        for i in range(10):
            produce(topic, numbers(i, i + 1), partition=partition, timestamp=1000 + i)
    given = f'{{"{topic}": {{"0": 4, "1": -2}}}}'
    until = f'{{"{topic}": {{"0": -1, "1": 3}}}}'
    assert read_all(source(subscribe=topic, startingOffsets=given, endingOffsets=until)) == [
        *numbers(4, 10),
        *numbers(0, 3),
    ]
    assert (
        read_all(source(subscribe=topic, startingTimestamp=1003, endingTimestamp=1005)) == numbers(3, 5) * 2
    )
    by_partition = f'{{"{topic}": {{"1": 1008}}}}'
    assigned = f'{{"{topic}": [1]}}'
    assert read_all(source(assign=assigned, startingOffsetsByTimestamp=by_partition)) == numbers(8, 10)


def test_a_start_after_the_last_record_is_an_error_or_the_end_by_choice(source, make_topic, produce):
    topic = make_topic()
    produce(topic, numbers(0, 1), timestamp=1000)
    with pytest.raises(ConfigError, match="'startingTimestamp': no record is as new as the timestamp"):
        read_all(source(subscribe=topic, startingTimestamp=2000))
    by_partition = f'{{"{topic}": {{"0": 2000}}}}'
    with pytest.raises(ConfigError, match="'startingOffsetsByTimestamp': no record is as new"):
        read_all(source(subscribe=topic, startingOffsetsByTimestamp=by_partition))
    late = source(subscribe=topic, startingTimestamp=2000, startingOffsetsByTimestampStrategy="latest")
    assert read_all(late) == []


def test_offsets_must_name_all_partitions(source, make_topic):
    topic = make_topic(2)
    given = f'{{"{topic}": {{"0": 4, "7": 0}}}}'
    with pytest.raises(ConfigError, match=rf"names {topic}-0, {topic}-7, read are {topic}-0, {topic}-1"):
        read_all(source(subscribe=topic, startingOffsets=given))
    for option in ("startingOffsetsByTimestamp", "endingOffsetsByTimestamp"):
        with pytest.raises(ConfigError, match=f"'{option}' must name all .* and no others: it names"):
            read_all(source(**{"subscribe": topic, option: given}))


def test_a_topic_that_does_not_exist_is_named(source):
    for options in ({"subscribe": "nowhere"}, {"assign": '{"nowhere": [0]}'}):
        with pytest.raises(UnknownPartition, match="nowhere"):
            read_all(source(**options))
    assert read_all(source(subscribePattern="nowhere.*")) == []


def test_a_stream_starts_where_asked_and_says_so_in_sparks_format(stream, make_topic, produce):
    topic = make_topic(2)
    produce(topic, numbers(0, 5), partition=1)
    assert plain(stream(subscribe=topic).initialOffset()) == {topic: {"0": 0, "1": 5}}
    reader = stream(subscribe=topic, startingOffsets="earliest")
    start = reader.initialOffset()
    assert plain(start) == {topic: {"0": 0, "1": 0}}
    end = reader.latestOffset(start, ALL)
    assert plain(end) == {topic: {"0": 0, "1": 5}}
    assert values(reader, reader.partitions(start, end)) == numbers(0, 5)
    assert reader.partitions(end, end) == []
    assert reader.reportLatestOffset() == plain(end)


def test_an_idle_stream_notices_records_partitions_and_topics(stream, make_topic, produce, admin):
    prefix = uuid.uuid4().hex
    first = make_topic(name=f"{prefix}-a")
    reader = stream(subscribePattern=f"{prefix}-.*", startingOffsets="earliest")
    start = reader.initialOffset()
    for _ in range(20):
        assert reader.latestOffset(start, ALL) == start
    produce(first, numbers(0, 3))
    end = offset_soon(reader, start, {first: {"0": 3}})
    admin.create_partitions([NewPartitions(first, 2)])[first].result(30)
    second = make_topic(name=f"{prefix}-b")
    produce(second, numbers(3, 5))
    later = offset_soon(reader, end, {first: {"0": 3, "1": 0}, second: {"0": 2}})
    assert values(reader, reader.partitions(end, later)) == numbers(3, 5)


def test_an_idle_stream_asks_the_broker_once_a_second_not_a_hundred_times(stream, make_topic, monkeypatch):
    reader = stream(subscribe=make_topic(), startingOffsets="earliest")
    start = reader.initialOffset()
    reader.latestOffset(start, ALL)
    reader.latestOffset(start, ALL)
    listed = []
    monkeypatch.setattr(reader._here.tail, "list_now", lambda: listed.append(1))
    for _ in range(20):
        assert reader.latestOffset(start, ALL) == start
    assert not listed


def test_a_limit_takes_part_of_what_there_is(stream, make_topic, produce):
    topic = make_topic(2)
    produce(topic, numbers(0, 60), partition=0)
    produce(topic, numbers(60, 90), partition=1)
    reader = stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(30)
    reader.prepareForTriggerAvailableNow()
    produce(topic, numbers(90, 99), partition=0)
    start, batches = reader.initialOffset(), []
    while (end := reader.latestOffset(start, limit)) != start:
        batches.append(values(reader, reader.partitions(start, end)))
        start = end
    assert [len(batch) for batch in batches] == [30, 30, 30]
    assert plain(start) == {topic: {"0": 60, "1": 30}}, "what came later is for the next run"
    assert sorted(itertools.chain(*batches), key=int) == numbers(0, 90)


def test_a_start_at_the_end_is_pinned_by_an_empty_batch(stream, make_topic, produce):
    """Batch 0 fails after its end was checkpointed; the restarted query asks for the start again."""
    topic = make_topic()
    produce(topic, numbers(0, 3))
    reader = stream(subscribe=topic)
    start = reader.initialOffset()
    pinned = reader.latestOffset(start, ALL)
    assert plain(pinned) == plain(start) == {topic: {"0": 3}}
    assert pinned == start
    produce(topic, numbers(3, 6))

    restarted = stream(subscribe=topic)
    assert plain(restarted.initialOffset()) == {topic: {"0": 6}}
    assert restarted.partitions(restarted.initialOffset(), pinned) == []
    end = restarted.latestOffset(pinned, ALL)
    assert values(restarted, restarted.partitions(pinned, end)) == numbers(3, 6)


def test_deleted_records_fail_the_query_or_are_left_out(stream, source, make_topic, produce, admin):
    topic = make_topic()
    produce(topic, numbers(0, 10))
    admin.delete_records([KafkaPartition(topic, 0, 4)])[KafkaPartition(topic, 0)].result(30)
    start, end = {topic: {"0": 1}}, {topic: {"0": 10}}
    strict = stream(subscribe=topic)
    with pytest.raises(DataLoss, match=rf"offset 1 of {topic}-0 cannot be read: its log begins at 4"):
        values(strict, strict.partitions(start, end))
    lenient = stream(subscribe=topic, failOnDataLoss="false")
    assert values(lenient, lenient.partitions(start, end)) == numbers(4, 10)
    bounded = source(subscribe=topic, failOnDataLoss="false", startingOffsets=f'{{"{topic}": {{"0": 2}}}}')
    assert read_all(bounded) == numbers(4, 10)
    assert values(lenient, lenient.partitions({topic: {"0": 1}}, {topic: {"0": 3}})) == []


def test_a_deleted_topic_fails_the_query_or_is_left_out(stream, make_topic, produce, admin):
    prefix = uuid.uuid4().hex
    gone, kept = make_topic(name=f"{prefix}-gone"), make_topic(name=f"{prefix}-kept")
    for topic in (gone, kept):
        produce(topic, numbers(0, 3))
    options = {"subscribePattern": f"{prefix}-.*", "startingOffsets": "earliest"}
    strict, lenient = stream(**options), stream(**options, failOnDataLoss="false")
    start = strict.initialOffset()
    planned = lenient.partitions(start, lenient.latestOffset(start, ALL))
    admin.delete_topics([gone])[gone].result(30)
    assert values(lenient, planned) == numbers(0, 3), "the tasks find the topic gone"
    end = {kept: {"0": 3}}
    with pytest.raises(DataLoss, match=f"partitions {gone}-0 do not exist any more"):
        strict.partitions(start, end)
    assert values(lenient, lenient.partitions(start, end)) == numbers(0, 3)


def test_addresses_where_nothing_listens_are_reported_soon():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        options = {"bootstrap.servers": address, "subscribe": "t", "kafka.default.api.timeout.ms": "300"}
        for more in ({}, {"group.id": "g"}):
            described = PenstockDataSource(options | more)
            with pytest.raises(NothingListens, match=f"nothing listens at {address}"):
                batch_reader(described).partitions()
            with pytest.raises(NothingListens, match=f"nothing listens at {address}"):
                described.streamReader(described.schema()).initialOffset()
            with pytest.raises(NothingListens, match=f"nothing listens at {address}"):
                described.streamReader(described.schema()).prepareForTriggerAvailableNow()
