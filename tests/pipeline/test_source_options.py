"""Options of the source: what is accepted, and what an error says."""

import pickle

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from penstock.client.metadata import TopicPartition
from penstock.client.offsets import IsolationLevel
from penstock.client.settings import ConfigError
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.source.offsets import ByTimestamp, NoMatch, Special, Specific
from penstock.spark.source.options import parse_batch, parse_general, parse_streaming
from penstock.spark.source.schema import arrow_schema, source_schema
from penstock.spark.source.subscription import Assigned, Pattern, Topics

SERVERS = {"kafka.bootstrap.servers": "h:1"}
SUBSCRIBED = {**SERVERS, "subscribe": "a"}
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_defaults_are_those_of_sparks_own_source():
    batch, streaming = parse_batch(SUBSCRIBED), parse_streaming(SUBSCRIBED)
    assert (batch.starting, batch.ending) == (Special.EARLIEST, Special.LATEST)
    assert streaming.starting is Special.LATEST
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert batch.max_offsets_per_trigger is None
    assert batch.fetch.isolation is IsolationLevel.READ_UNCOMMITTED


def test_options_can_be_pickled_for_the_executors():
    given = SUBSCRIBED | {"startingOffsets": '{"a": {"0": 5}}'}
    assert pickle.loads(pickle.dumps(parse_streaming(given))) == parse_streaming(given)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"subscribe": "a, b,a"}, Topics(("a", "b"))),
        ({"SUBSCRIBEPATTERN": "a.*"}, Pattern("a.*")),
        ({"assign": '{"a": [0, 1]}'}, Assigned((A0, A1))),
    ],
)
def test_each_kind_of_subscription(options, expected):
    assert parse_general(SERVERS | options).subscription == expected


@pytest.mark.parametrize("name", ["bootstrap.servers", "kafka.bootstrap.servers", "KAFKA.BOOTSTRAP.SERVERS"])
def test_both_names_of_the_servers(name):
    assert parse_general({name: "h:1", "subscribe": "a"}).client.servers_text == "h:1"


def test_positions():
    given = SUBSCRIBED | {
        "startingOffsets": '{"a": {"0": 23, "1": -2}}',
        "endingOffsets": '{"a":{"0":-1,"1":9}}',
    }
    parsed = parse_batch(given)
    assert parsed.starting == Specific({A0: 23, A1: -2})
    assert parsed.ending == Specific({A0: -1, A1: 9})
    by_time = parse_batch(
        SUBSCRIBED | {"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "LATEST"}
    )
    assert by_time.starting == ByTimestamp(5, {}, NoMatch.LATEST)


@pytest.mark.parametrize(
    ("options", "moves"),
    [
        ({}, True),
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsets": '{"a": {"0": 1}}'}, False),
        ({"startingOffsets": '{"a": {"0": -1}}'}, True),
        ({"startingTimestamp": "1"}, True),
    ],
)
def test_a_start_that_moves_is_known(options, moves):
    assert parse_streaming(SUBSCRIBED | options).start_moves is moves


def test_kafka_properties_reach_the_client():
    given = SUBSCRIBED | {
        "kafka.isolation.level": "read_committed",
        "kafka.client.id": "me",
        "kafka.session.timeout.ms": "1",
        "fetchOffset.numRetries": "9",
    }
    parsed = parse_batch(given)
    assert parsed.fetch.isolation is IsolationLevel.READ_COMMITTED
    assert parsed.client.client_id == "me"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"exactly one of the options subscribe, subscribePattern and assign, found none"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, r"found 'subscribe = a' and 'assign = a-0'"),
        ({"subscribe": " , "}, r"option 'subscribe': expected one topic name"),
        ({"subscribePattern": "("}, r"option 'subscribePattern': expected a regular expression"),
        ({"assign": "[0]"}, r"option 'assign': expected JSON like"),
        ({"subscribe": "a", "startingOffset": "latest"}, r"unknown option 'startingoffset'; did you mean"),
        ({"subscribe": "a", "kafka.fetch.max.byte": "1"}, r"did you mean 'kafka.fetch.max.bytes'"),
        ({"subscribe": "a", "kafka.sasl.mechanism": "PLAIN"}, r"only PLAINTEXT"),
        ({"subscribe": "a", "kafka.security.protocol": "SSL"}, r"expected PLAINTEXT"),
        ({"subscribe": "a", "kafka.auto.offset.reset": "latest"}, r"use the option startingOffsets"),
        ({"subscribe": "a", "failOnDataLoss": "perhaps"}, r"'failOnDataLoss': expected true or false"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, r"'maxOffsetsPerTrigger': expected a whole number"),
        ({"subscribe": "a", "startingOffsets": "first"}, r"expected 'earliest' or 'latest', or JSON like"),
        ({"subscribe": "a", "startingOffsets": '{"a": 5}'}, r"or JSON like"),
    ],
)
def test_what_cannot_be_is_named(options, message):
    with pytest.raises(ConfigError, match=message):
        parse_general(SERVERS | options)


def test_missing_servers_are_told():
    with pytest.raises(ConfigError, match=r"'kafka\.bootstrap\.servers' is missing"):
        parse_general({"subscribe": "a"})


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"endingOffsets": "earliest"},
        {"startingOffsets": '{"a": {"0": -1}}'},
        {"endingOffsets": '{"a": {"0": -2}}'},
    ],
)
def test_a_batch_read_cannot_start_at_the_end_nor_end_at_the_start(options):
    with pytest.raises(ConfigError, match=r"expected '(earliest|latest)', or JSON"):
        parse_batch(SUBSCRIBED | options)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name):
    with pytest.raises(ConfigError, match=f"option '{name}' is not valid here"):
        parse_streaming(SUBSCRIBED | {name: "latest"})


@pytest.mark.parametrize("include_headers", [False, True])
def test_the_arrow_schema_is_the_one_that_spark_expects(include_headers):
    expected = to_arrow_schema(source_schema(include_headers), timezone="UTC")
    assert arrow_schema(include_headers).equals(expected)


def test_another_schema_is_refused():
    source = PenstockDataSource(SUBSCRIBED)
    with pytest.raises(ConfigError, match=r"schema of topics is fixed"):
        source.reader(StructType([StructField("id", LongType())]))


def test_a_topic_is_not_overwritten():
    source = PenstockDataSource(SERVERS | {"topic": "a"})
    with pytest.raises(ConfigError, match=r'mode\("append"\)'):
        source.writer(StructType(), overwrite=True)
