"""The columns that make a record, the partition of each row, and refusals. No broker, no Spark session."""

import datetime
import itertools
import random

import pyarrow as pa
import pytest
from pyspark.sql.types import _parse_datatype_string

from penstock.client.settings import ConfigError
from penstock.protocol.columns import encode_batches
from penstock.protocol.records import decode_batch
from penstock.spark.sink.columns import SinkColumns, binary_column, find_columns, row_columns
from penstock.spark.sink.options import parse_sink
from penstock.spark.sink.partitioner import Partitioner, RowRefused

SERVERS = {"kafka.bootstrap.servers": "h:1"}


@pytest.fixture(scope="module")
def struct(spark):
    """Parse DDL to a schema: pyspark needs its session for that."""
    return _parse_datatype_string


def test_columns_are_found_whatever_their_case(struct):
    found = find_columns(struct("KEY binary, Value string, other int"), has_topic_option=True)
    assert found == SinkColumns(
        value="Value", key="KEY", headers=None, topic=None, partition=None, timestamp=None
    )


def test_the_option_wins_over_the_column_topic(struct):
    assert find_columns(struct("value string, topic string"), has_topic_option=True).topic is None
    assert find_columns(struct("value string, topic string"), has_topic_option=False).topic == "topic"


@pytest.mark.parametrize(
    ("ddl", "has_topic", "message"),
    [
        ("key string", True, r"column 'value' is missing: found key"),
        ("value string", False, r"no topic to write to: set the option 'topic'"),
        ("value int", True, r"column 'value' has the type int, expected string or binary"),
        ("value string, key bigint", True, r"column 'key' has the type bigint"),
        ("value string, partition bigint", True, r"'partition' has the type bigint, expected int"),
        ("value string, topic binary", False, r"'topic' has the type binary, expected string"),
        ("value string, timestamp bigint", True, r"'timestamp' has the type bigint, expected timestamp"),
        (
            "value string, headers map<string,binary>",
            True,
            r"expected array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_what_does_not_fit_is_named(struct, ddl, has_topic, message):
    with pytest.raises(ConfigError, match=message):
        find_columns(struct(ddl), has_topic)


REPEATED = {"topic": "t", "delivery": "exactly-once", "txnAppId": "a", "txnVersion": "3"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topics": "a"}, r"unknown option 'topics'; did you mean 'topic'"),
        ({"kafka.compression.type": "brotli"}, r"one of none, gzip, snappy, lz4, zstd"),
        ({"kafka.acks": "2"}, r"all, 1 or 0"),
        ({"kafka.acks": "1", "kafka.enable.idempotence": "true"}, r"needs 'kafka.acks' to be all"),
        ({"kafka.key.serializer": "x"}, r"encode them in the query"),
        ({"kafka.transactional.id": "x"}, r"the sink derives it"),
        ({"txnAppId": "a"}, r"found option 'txnAppId' without 'txnVersion': set both or neither"),
        ({"txnVersion": "1"}, r"found option 'txnVersion' without 'txnAppId'"),
        (REPEATED | {"txnVersion": "-1"}, r"invalid value '-1' for option 'txnVersion': expected a whole"),
        (REPEATED | {"delivery": "at-least-once"}, r"'txnVersion' need 'delivery' to be exactly-once"),
        (REPEATED | {"checkpointLocation": "/c"}, r"'txnVersion' are for df.write"),
        ({k: v for k, v in REPEATED.items() if k != "topic"}, r"'txnVersion' need the option 'topic'"),
    ],
)
def test_options_that_cannot_be_are_named(options, message):
    with pytest.raises(ConfigError, match=message):
        parse_sink(SERVERS | options)


def test_the_options_of_the_query_are_no_mistake():
    parsed = parse_sink(SERVERS | {"topic": "t", "checkpointLocation": "/c", "queryName": "q"})
    assert parsed.topic == "t"
    assert parsed.producer.idempotent


def test_a_version_and_its_program_go_together():
    assert parse_sink(SERVERS | REPEATED).app_version == ("a", 3)
    assert parse_sink(SERVERS | {"topic": "t"}).app_version is None


@pytest.mark.parametrize("slice_from", [0, 1])
@pytest.mark.parametrize("value_type", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary()])
def test_rows_become_records(slice_from, value_type):
    moment = datetime.datetime(2024, 5, 1, 12, 0, 0, 123_456, datetime.UTC)
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = pa.record_batch(
        {
            "key": pa.array(["a", None, "c"]),
            "value": pa.array(["1", None, ""], pa.string()).cast(value_type),
            "headers": pa.array(
                [None, [{"key": "h", "value": b"x"}, {"key": "h", "value": None}], []], header
            ),
            "timestamp": pa.array([moment, None, moment], pa.timestamp("us", "UTC")),
        }
    ).slice(slice_from)
    columns = row_columns(
        batch, SinkColumns("value", "key", "headers", topic=None, partition=None, timestamp="timestamp")
    )
    (encoded,) = encode_batches(columns, default_timestamp=5)
    found = [(r.timestamp, r.key, r.value, list(r.headers)) for r in decode_batch(encoded)]
    moment_ms = int(moment.timestamp() * 1000)
    assert (
        found
        == [
            (moment_ms, b"a", b"1", []),
            (5, None, None, [("h", b"x"), ("h", None)]),
            (moment_ms, b"c", b"", []),
        ][slice_from:]
    )


def test_a_header_without_key_is_refused():
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = pa.record_batch({"value": ["v"], "headers": pa.array([[{"key": None, "value": b"x"}]], header)})
    columns = row_columns(batch, SinkColumns("value", None, "headers", None, None, None))
    with pytest.raises(ValueError, match="header without key"):
        list(encode_batches(columns, default_timestamp=0))


def shares(partitioner, rows, keys=None, partition=None):
    key = None if keys is None else binary_column(pa.array(keys))
    column = None if partition is None else pa.array(partition, pa.int32())
    found = {}
    for number, indices in partitioner.share_out(rows, key, column):
        found[number] = list(range(rows)) if indices is None else list(indices.cast("q"))
    return found


def test_rows_without_key_stick_to_a_partition_and_then_move_on():
    partitioner = Partitioner("t", 3, random.Random(1))
    seen = [shares(partitioner, 4) for _ in range(4)]
    assert [list(found.values()) for found in seen] == [[[0, 1, 2, 3]]] * 4
    numbers = [next(iter(found)) for found in seen]
    assert [(later - earlier) % 3 for earlier, later in itertools.pairwise(numbers)] == [1, 1, 1]


def test_rows_of_one_key_share_a_partition_in_order():
    found = shares(Partitioner("t", 5), 6, ["a", "b", "a", None, "b", "a"])
    assert sorted(itertools.chain(*found.values())) == [0, 1, 2, 3, 4, 5]
    for rows in found.values():
        assert rows == sorted(rows)
        assert {0, 2, 5} <= set(rows) or not {0, 2, 5} & set(rows)
        assert {1, 4} <= set(rows) or not {1, 4} & set(rows)


def test_the_column_partition_wins_where_it_is_not_null():
    by_key = shares(Partitioner("t", 4), 3, ["a", "a", "a"])
    (of_key,) = by_key
    found = shares(Partitioner("t", 4), 3, ["a", "a", "a"], [3, None, 0])
    assert 0 in found[3]
    assert 2 in found[0]
    assert 1 in found[of_key]


@pytest.mark.parametrize("bad", [4, -1])
def test_a_partition_that_does_not_exist_is_named(bad):
    with pytest.raises(RowRefused, match=rf"holds {bad}, but topic 't' has the partitions 0 to 3"):
        shares(Partitioner("t", 4), 2, None, [0, bad])
