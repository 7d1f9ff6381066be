"""Options of the source: the accepted ones, and the texts of errors."""

import pickle

import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.arrow.layout import Layout
from penstock.client.connections.metadata import TopicPartition
from penstock.client.reading.offsets import IsolationLevel
from penstock.client.settings import ConfigError
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.source.durations import duration_ms
from penstock.spark.source.offsets import ByTimestamp, Committed, NoCommit, NoMatch, Special, Specific
from penstock.spark.source.options import parse_batch, parse_general, parse_streaming
from penstock.spark.source.retries import OffsetRetries
from penstock.spark.source.schema import source_schema
from penstock.spark.source.subscription import Assigned, Pattern, Topics

SERVERS = {"kafka.bootstrap.servers": "h:1"}
SUBSCRIBED = {**SERVERS, "subscribe": "a"}
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_defaults_are_those_of_sparks_own_source():
    batch, streaming = parse_batch(SUBSCRIBED), parse_streaming(SUBSCRIBED)
    assert (batch.starting, batch.ending) == (Special.EARLIEST, Special.LATEST)
    assert streaming.starting is Special.LATEST
    assert batch.fail_on_data_loss
    assert batch.layout == Layout(timestamp_unit="us")
    assert batch.max_offsets_per_trigger is None
    assert batch.fetch.isolation is IsolationLevel.READ_COMMITTED, "not Spark's: said in the docs"
    assert streaming.min_offsets_per_trigger is None
    assert streaming.max_trigger_delay_ms == 15 * 60_000
    assert streaming.offset_retries == OffsetRetries(3, 1000)
    assert streaming.group_id is None


def test_values_may_come_from_the_environment_of_the_driver(monkeypatch):
    monkeypatch.setenv("CLIENT_ID", "shop")
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    providers = {"kafka.config.providers": "env", "kafka.config.providers.env.class": provider}
    given = SUBSCRIBED | providers | {"kafka.client.id": "${env:CLIENT_ID}"}
    assert parse_streaming(given).client.client_id == "shop"
    with pytest.raises(ConfigError, match=r"kafka\.client\.id: cannot resolve \$\{env:MISSING\}"):
        parse_streaming(given | {"kafka.client.id": "${env:MISSING}"})


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
        ({"startingOffsets": "committed", "group.id": "g"}, True),
    ],
)
def test_a_start_that_moves_is_known(options, moves):
    assert parse_streaming(SUBSCRIBED | options).start_moves is moves


def test_kafka_properties_reach_the_client():
    given = SUBSCRIBED | {
        "kafka.isolation.level": "read_uncommitted",
        "kafka.client.id": "me",
        "kafka.session.timeout.ms": "1",
        "groupIdPrefix": "p",
    }
    parsed = parse_batch(given)
    assert parsed.fetch.isolation is IsolationLevel.READ_UNCOMMITTED
    assert parsed.client.client_id == "me"


def test_patience_of_the_driver_and_of_tasks():
    given = {
        "fetchOffset.numRetries": "9",
        "fetchOffset.retryIntervalMs": "7",
        "kafkaConsumer.pollTimeoutMs": "1234",
        "kafka.default.api.timeout.ms": "5000",
    }
    parsed = parse_batch(SUBSCRIBED | given)
    assert parsed.offset_retries == OffsetRetries(9, 7)
    assert (parsed.client.api_timeout_ms, parsed.task_client.api_timeout_ms) == (5000, 1234)
    assert parse_batch(SUBSCRIBED).task_client == parse_batch(SUBSCRIBED).client


def test_offsets_are_fetched_at_least_once():
    assert parse_batch(SUBSCRIBED | {"fetchOffset.numRetries": "0"}).offset_retries.attempts == 1


def test_spark_repeats_the_options_of_a_table_under_a_prefix():
    repeated = {f"option.{name}": value for name, value in SUBSCRIBED.items()}
    assert parse_batch(SUBSCRIBED | repeated) == parse_batch(repeated) == parse_batch(SUBSCRIBED)
    with pytest.raises(ConfigError, match="unknown option 'subscrib'"):
        parse_batch(SUBSCRIBED | {"option.subscrib": "a"})


def test_timestamps_go_before_offsets_and_one_for_all_before_those_by_partition():
    """The precedence is the one of Spark's own source."""
    everything = SUBSCRIBED | {
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"a": {"0": 6}}',
        "startingOffsets": "earliest",
    }
    assert parse_batch(everything).starting == ByTimestamp(5, {}, NoMatch.ERROR)
    del everything["startingTimestamp"]
    assert parse_batch(everything).starting == ByTimestamp(None, {A0: 6}, NoMatch.ERROR)


@pytest.mark.parametrize("name", ["group.id", "kafka.group.id", "GROUP.ID"])
def test_a_group_can_be_followed_and_started_from(name):
    assert parse_streaming(SUBSCRIBED | {name: "g"}).group_id == "g"
    given = SUBSCRIBED | {name: "g", "startingOffsets": "Committed"}
    assert parse_streaming(given).starting == Committed("g", NoCommit.ERROR)
    given["startingOffsetsCommittedStrategy"] = "earliest"
    assert parse_batch(given).starting == Committed("g", NoCommit.EARLIEST)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("15m", 900_000), ("30s", 30_000), ("250", 250), ("1500us", 1), ("2 h", 7_200_000), ("1D", 86_400_000)],
)
def test_durations(text, milliseconds):
    assert duration_ms(text) == milliseconds


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
        ({"subscribe": "a", "kafka.sasl.mechanism": "NTLM"}, r"expected one of PLAIN, SCRAM-SHA-256"),
        ({"subscribe": "a", "kafka.security.protocol": "TLS"}, r"expected one of PLAINTEXT, SSL"),
        (
            {"subscribe": "a", "kafka.ssl.truststore.password": "x"},
            r"'ssl\.truststore\.password' is set: expected 'ssl\.truststore\.location' as well",
        ),
        ({"subscribe": "a", "kafka.auto.offset.reset": "latest"}, r"use the option startingOffsets"),
        ({"subscribe": "a", "failOnDataLoss": "perhaps"}, r"'failOnDataLoss': expected true or false"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, r"'maxOffsetsPerTrigger': expected a whole number"),
        ({"subscribe": "a", "startingOffsets": "first"}, r"'earliest' or 'latest' or 'committed', or JSON"),
        ({"subscribe": "a", "endingOffsets": "committed"}, r"expected 'earliest' or 'latest', or JSON"),
        ({"subscribe": "a", "startingOffsets": "committed"}, r"expected the option group.id as well"),
        ({"subscribe": "a", "group.id": "a", "kafka.group.id": "b"}, r"differ: 'a' and 'b'"),
        ({"subscribe": "a", "maxTriggerDelay": "soon"}, r"'maxTriggerDelay': expected a duration like"),
        ({"subscribe": "a", "maxTriggerDelay": "-1s"}, r"'maxTriggerDelay': expected a duration like"),
        (
            {"subscribe": "a", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            r"'minOffsetsPerTrigger' is 9: expected at most maxOffsetsPerTrigger, 8",
        ),
        ({"subscribe": "a", "minPartitions": "9", "maxPartitions": "8"}, r"expected at most maxPartitions"),
        ({"subscribe": "a", "maxPartitions": "9", "maxRecordsPerPartition": "8"}, r"contradict each other"),
        ({"subscribe": "a", "startingOffsets": '{"a": 5}'}, r"or JSON like"),
        ({"subscribe": "a", "valueFormat": "xml"}, r"'valueFormat': expected one of binary, bytes, string"),
        ({"subscribe": "a", "valueSchema": "id INT"}, r"'binary' takes no schema, only json, csv does"),
        ({"subscribe": "a", "keyFormat": "json", "keySchema": "id NUMBER"}, r"expected a type, not 'NUMBER'"),
        ({"subscribe": "a", "decodeErrors": "ignore"}, r"'decodeErrors': expected one of fail, null"),
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
    with pytest.raises(ConfigError, match=r"expected '(earliest' or 'committed|latest)', or JSON"):
        parse_batch(SUBSCRIBED | options)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name):
    with pytest.raises(ConfigError, match=f"option '{name}' is not valid here"):
        parse_streaming(SUBSCRIBED | {name: "latest"})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"includeHeaders": "true"},
        {"keyFormat": "string", "valueFormat": "long", "decodeErrors": "null"},
        {"keyFormat": "uuid", "valueFormat": "json"},
        {
            "keyFormat": "short",
            "valueFormat": "json",
            "valueSchema": "id BIGINT, at TIMESTAMP, local TIMESTAMP_NTZ, d DATE, price DECIMAL(10,2), "
            "tags ARRAY<STRING>, lines ARRAY<STRUCT<sku: STRING, n: SMALLINT>>, b BOOLEAN, f FLOAT, t BYTE",
        },
    ],
)
def test_the_arrow_schema_is_the_one_that_spark_expects(options):
    layout = parse_batch(SUBSCRIBED | options).layout
    assert layout.schema.equals(to_arrow_schema(source_schema(layout), timezone="UTC"))


def test_formats_give_the_columns_their_types():
    given = {"keyFormat": "String", "valueFormat": "json", "valueSchema": "id BIGINT, at TIMESTAMP_NTZ"}
    schema = PenstockDataSource(SUBSCRIBED | given | {"decodeErrors": "null"}).schema()
    assert schema["key"].dataType == StringType()
    assert schema["value"].dataType.simpleString() == "struct<id:bigint,at:timestamp_ntz>"
    assert schema.names[-1] == "_error"


def test_another_schema_is_refused():
    source = PenstockDataSource(SUBSCRIBED)
    with pytest.raises(ConfigError, match=r"schema of topics is fixed"):
        source.reader(StructType([StructField("id", LongType())]))


def test_a_topic_is_not_overwritten():
    source = PenstockDataSource(SERVERS | {"topic": "a"})
    with pytest.raises(ConfigError, match=r'mode\("append"\)'):
        source.writer(StructType(), overwrite=True)
